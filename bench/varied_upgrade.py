"""Four brokers, of two log directories each, change programs under static members that bill orders in transactions.

    python bench/varied_upgrade.py SEED [--programs kafka,odradek,kafka] [--killed 0.3] [--keep DIRECTORY]

The order of the brokers, and what happens meanwhile, come from the seed: topics are made, deleted and grown, replicas
move to other brokers and directories, leaders are elected, workers of librdkafka are killed and start again, and of the
brokers a share is killed instead of stopped. At the end every order must have exactly one bill, and our brokers must
have said nothing that they need not. Exit code 1 otherwise. `--programs kafka,kafka` plays the same to Kafka alone,
whose fault a finding is then not. `--keep` leaves all logs, with librdkafka's of each worker, in a directory.

Some settings keep out what is librdkafka's own: docs/operations.md has them.
"""

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import this_tree  # noqa: F401
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from odradek.client.admin.client import KafkaAdminClient
from odradek.client.errors import ClientError
from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.protocol.errors import KafkaError
from odradek.protocol.topic_names import TopicPartition as Place
from odradek.testing.foreign.kafka_jars import kafka_jars
from odradek.testing.foreign.stage import Stage
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

HERE = Path(__file__).resolve().parent
BROKERS, WORKERS = (0, 1, 2, 3), ("w0", "w1", "w2")
ORDERS_PER_SECOND, TOPICS_MAX, PARTITIONS_MAX = 100, 6, 9
LOST_AFTER_SECONDS = 180.0
"""So long without a new bill, at the end: a transaction that nobody ends is aborted after a minute."""
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.segment.bytes": "100000",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "zookeeper.session.timeout.ms": "6000",
    "min.insync.replicas": "2",
    "controlled.shutdown.max.retries": "3",
    "auto.create.topics.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
}
REFRESH = {"topic.metadata.refresh.interval.ms": 5_000}
"""How soon added partitions are noticed: by default after five minutes."""
NO_ENDLESS_WAIT = {"connections.max.idle.ms": 5_000}
ONE_AT_A_TIME = {"max.in.flight": 1}
"""Or what the leader of a new partition refuses counts as written once it accepts what was sent behind it."""
EXPECTED = (
    "did not take",  # these two a controller says while a broker is away
    "Failed to elect leader",
    "is a stray replica",  # it was moved elsewhere meanwhile
    "may have compacted away",
    "its metadata was not written",  # the group has another coordinator
)
"""Complaints of ours that are none."""


# -- a worker, which is a process of its own ---------------------------------------------------------------------------


class Worker:
    """Bills orders until it is terminated."""

    def __init__(self, bootstrap: str, name: str) -> None:
        common = {"bootstrap.servers": bootstrap, "log_level": 7, "debug": "cgrp,eos,topic", **REFRESH}
        self._producer = Producer({**common, **NO_ENDLESS_WAIT, **ONE_AT_A_TIME, "transactional.id": f"bills-{name}"})
        self._retried(self._producer.init_transactions)
        settings = {"group.id": "bills", "group.instance.id": name, "isolation.level": "read_committed"}
        self._consumer = Consumer({**common, **settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        self._rebalanced, self._over = False, False
        signal.signal(signal.SIGTERM, self._end)
        self._consumer.subscribe(["^orders-.*"], on_assign=self._on_rebalance, on_revoke=self._on_rebalance)

    def _end(self, *_: object) -> None:
        self._over = True

    def _on_rebalance(self, *_: object) -> None:
        self._rebalanced = True

    def work(self) -> None:
        while not self._over:
            self._rebalanced = False
            records = [one for one in self._consumer.consume(200, 0.2) if not one.error()]
            if not records:
                continue
            if self._rebalanced:  # they may be of the time before
                self._rewind()
                continue
            ends = {(one.topic(), one.partition()): one.offset() + 1 for one in records}
            offsets = [TopicPartition(*at, end) for at, end in ends.items()]
            member = self._consumer.consumer_group_metadata()
            self._producer.begin_transaction()
            try:
                for one in records:
                    self._producer.produce("bills", one.value())
                self._retried(lambda of=offsets, by=member: self._producer.send_offsets_to_transaction(of, by, 60))
                self._retried(lambda: self._producer.commit_transaction(60))
            except KafkaException as failed:
                if failed.args[0].fatal():
                    raise
                self._retried(lambda: self._producer.abort_transaction(60))
                self._rewind()
        self._consumer.close()

    @staticmethod
    def _retried(call: Callable[[], object]) -> None:
        while True:
            try:
                call()
            except KafkaException as failed:
                if not failed.args[0].retriable():
                    raise
            else:
                return

    def _rewind(self) -> None:
        """Go back to what is committed. Raises KafkaException when nobody says what that is."""
        for place in self._consumer.committed(self._consumer.assignment(), PATIENCE_SECONDS):
            if place.error is not None:
                raise KafkaException(place.error)
            self._consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


class Workers:
    """Processes of the workers, which start again when they have ended."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap, self._folder, self._lock = bootstrap, folder, threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ended_themselves = 0
        for name in WORKERS:
            self._start(name)

    def _start(self, name: str) -> None:
        words = [sys.executable, __file__, "--worker", json.dumps([self._bootstrap, name]), "0"]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(words, stdout=log, stderr=log)

    def replace(self, name: str, how: signal.Signals) -> None:
        with self._lock:
            self._processes[name].send_signal(how)
            self._processes[name].wait(PATIENCE_SECONDS)
            self._start(name)

    def revive(self) -> None:
        """Start those that have ended: a transaction of another with their id, or a long pause, is fatal to them."""
        with self._lock:
            for name, process in list(self._processes.items()):
                if process.poll() is not None:
                    self.ended_themselves += 1
                    self._start(name)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(PATIENCE_SECONDS)


# -- what happens meanwhile --------------------------------------------------------------------------------------------


class Orders(threading.Thread):
    """Orders that are written without a pause, to the topics in `topics`, which may grow."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__()
        self._servers, self._random = bootstrap, random.Random(f"orders {seed}")
        self.topics = ["orders-0", "orders-1"]
        self.made = 0
        self.failed: list[object] = []
        self.over = threading.Event()

    def run(self) -> None:
        common = {"bootstrap.servers": self._servers, "log_level": 2, **REFRESH}
        producer = Producer({**common, **ONE_AT_A_TIME, "enable.idempotence": True})
        while not self.over.is_set():
            producer.produce(self._random.choice(self.topics), str(self.made), on_delivery=self._delivered)
            self.made += 1
            producer.poll(0)
            self.over.wait(1 / ORDERS_PER_SECOND)
        self.failed += [] if producer.flush(PATIENCE_SECONDS) == 0 else ["some were not written"]

    def _delivered(self, error: object, _: object) -> None:
        self.failed += [] if error is None else [error]


class Happenings(threading.Thread):
    """Things that are done to topics and workers, one after another, until it is over."""

    def __init__(self, admin: KafkaAdminClient, stages: dict[int, Stage], orders: Orders, workers: Workers) -> None:
        super().__init__()
        self._admin, self._stages, self._orders, self._workers = admin, stages, orders, workers
        self.random = random.Random()
        self.partitions = {"orders-0": 3, "orders-1": 3, "bills": 3}
        self._scratch: list[str] = []
        self.done: Counter[str] = Counter()
        self.over = threading.Event()

    def run(self) -> None:
        topics = (self._make, self._make_scratch, self._delete, self._grow)
        all_kinds = (*topics, self._reassign, self._move, self._elect, self._replace)
        while not self.over.wait(self.random.uniform(0.3, 3.7)):
            kind, name = self.random.choice(all_kinds), ""
            try:
                kind()
                name = kind.__name__.strip("_")
            except (ClientError, KafkaError) as refused:  # a broker that it needs is away
                name = f"{kind.__name__.strip('_')} refused"
                print(f"  {name}: {refused}", flush=True)
            self.done[name] += 1

    def _make(self) -> None:
        name = f"orders-{len(self._orders.topics)}"
        if len(self._orders.topics) < TOPICS_MAX:
            self.partitions[name] = self.random.randint(1, 3)
            self._admin.create_topics({name: {"num_partitions": self.partitions[name], "replication_factor": 3}})
            self._orders.topics.append(name)

    def _make_scratch(self) -> None:
        name = f"scratch-{self.done.total()}"
        shape = {"num_partitions": self.random.randint(1, 4), "replication_factor": self.random.randint(1, 3)}
        self._admin.create_topics({name: shape})
        self._scratch.append(name)

    def _delete(self) -> None:
        if self._scratch:
            self._admin.delete_topics([self._scratch.pop(self.random.randrange(len(self._scratch)))])

    def _grow(self) -> None:
        name = self.random.choice([*self._orders.topics, "bills"])
        if self.partitions[name] < PARTITIONS_MAX:
            self._admin.create_partitions({name: self.partitions[name] + 1})
            self.partitions[name] += 1

    def _reassign(self) -> None:
        topics = {**self.partitions, "__consumer_offsets": 4, "__transaction_state": 4}
        names = self.random.choices(sorted(topics), k=3)
        places = {Place(name, self.random.randrange(topics[name])) for name in names}
        self._admin.alter_partition_reassignments({one: self.random.sample(BROKERS, 3) for one in sorted(places)})

    def _move(self) -> None:
        broker = self.random.choice(BROKERS)
        here, there = self.random.sample(self._stages[broker].all_logs, 2)
        held = [path.name.rpartition("-") for path in here.iterdir() if path.is_dir() and "." not in path.name]
        some = self.random.sample(sorted(held), min(len(held), 3))
        places = [Place(topic, int(number)) for topic, _, number in some]
        self._admin.alter_replica_log_directories(broker, dict.fromkeys(places, str(there)))

    def _elect(self) -> None:
        self._admin.elect_leaders(raise_errors=False)

    def _replace(self) -> None:
        self._workers.replace(self.random.choice(WORKERS), self.random.choice((signal.SIGTERM, signal.SIGKILL)))


class Bills:
    """How often each order was billed, as far as that has been read."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"group.id": "check", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 2, **settings})
        self.found: Counter[int] = Counter()

    def read(self, partitions: int) -> None:
        """Read until one has been quiet for a moment, of all partitions that there are by now."""
        known = self._consumer.position([TopicPartition("bills", number) for number in range(partitions)])
        if len(self._consumer.assignment()) < partitions:
            self._consumer.assign([TopicPartition("bills", at.partition, max(at.offset, 0)) for at in known])
        while records := self._consumer.consume(1000, 1.0):
            self.found.update(int(one.value()) for one in records if not one.error())


# -- the play ----------------------------------------------------------------------------------------------------------


def settled(admin: KafkaAdminClient) -> bool:
    """Tell whether every replica is in sync, and none is on its way."""
    try:
        topics = admin.describe_topics()
        moving = admin.list_partition_reassignments()
    except (ClientError, KafkaError):
        return False
    return not moving and all(len(one.isr) == len(one.replicas) for topic in topics for one in topic.partitions)


def play(options: argparse.Namespace, zookeeper: str, folder: Path) -> bool:
    jars = kafka_jars(HERE.parent / ".cache" / "kafka-3.9")
    stages = {one: Stage(jars, zookeeper, folder / str(one), one, SETTINGS, log_directories=2) for one in BROKERS}
    began_s, workers = time.monotonic(), None
    first, *others = options.programs.split(",")
    try:
        for stage in stages.values():
            getattr(stage, first)()
        bootstrap = ",".join(stage.address for stage in stages.values())
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        shape = {"num_partitions": 3, "replication_factor": 3}
        admin.create_topics(dict.fromkeys(("orders-0", "orders-1", "bills"), shape), wait_for_metadata=True)
        workers, orders = Workers(bootstrap, folder), Orders(bootstrap, options.seed)
        happenings, dice = Happenings(admin, stages, orders, workers), random.Random(f"brokers {options.seed}")
        happenings.random.seed(f"happenings {options.seed}")
        both = (orders, happenings)
        for one in both:
            one.start()
        try:
            for program in others:
                for broker in dice.sample(BROKERS, len(BROKERS)):
                    how = "kill" if dice.random() < options.killed else "stop"
                    print(f"{time.monotonic() - began_s:6.1f} s: {how} broker {broker}, then {program}", flush=True)
                    getattr(stages[broker].lives[-1], how)()
                    getattr(stages[broker], program)()
                    wait_until(lambda: settled(admin), "every replica in sync, and none on its way")
                    workers.revive()
                    time.sleep(dice.uniform(0, 8))  # a schedule: what else happens is to meet whole clusters, too
        finally:
            for one in reversed(both):
                one.over.set()
                one.join()
        return judge(orders, happenings, workers, bootstrap, stages)
    finally:
        if workers is not None:
            workers.close()
        for stage in stages.values():
            stage.close()


def judge(orders: Orders, happenings: Happenings, workers: Workers, bootstrap: str, stages: dict[int, Stage]) -> bool:
    """Wait for the last bills, and say what is missing."""
    bills, quiet_since_s, before = Bills(bootstrap), time.monotonic(), -1
    while len(bills.found) < orders.made and time.monotonic() - quiet_since_s < LOST_AFTER_SECONDS:
        workers.revive()
        bills.read(happenings.partitions["bills"])
        if len(bills.found) > before:
            before, quiet_since_s = len(bills.found), time.monotonic()
    bills.read(happenings.partitions["bills"])  # one that is repeated may come last
    lives = [life for stage in stages.values() for life in stage.lives if life.name == "odradek"]
    complaints = [line for life in lives for line in life.complaints(but=EXPECTED)]
    lost = orders.made - len(bills.found)
    repeated = sum(times > 1 for times in bills.found.values())
    print(*complaints, *orders.failed, sep="\n")
    print(", ".join(f"{count} × {name}" for name, count in sorted(happenings.done.items())))
    print(f"{workers.ended_themselves} worker(s) ended by themselves")
    print(f"{orders.made} orders: {lost} without a bill, {repeated} with more than one")
    return not (lost or repeated or orders.failed or complaints)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("seed", type=int)
    arguments.add_argument("--programs", default="kafka,odradek,kafka", help="what every broker becomes, in turn")
    arguments.add_argument("--killed", type=float, default=0.0, help="share of the brokers that are killed")
    arguments.add_argument("--keep", type=Path, help="a new directory for all files, which stay there")
    arguments.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.worker:
        Worker(*options.worker).work()
        return 0
    with tempfile.TemporaryDirectory(prefix="odradek-varied-") as temporary, asyncio.Runner() as runner:
        folder = options.keep or Path(temporary)
        zookeeper = EmbeddedZooKeeper(folder / "zookeeper", free_ports(1)[0])
        runner.run(zookeeper.start())
        try:
            return 0 if play(options, zookeeper.connect, folder) else 1
        finally:
            runner.run(zookeeper.stop())


if __name__ == "__main__":
    sys.exit(main())
