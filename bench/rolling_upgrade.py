"""Three brokers of Apache Kafka 3.9.1 become Odradek's one by one, and Kafka's again, under an exactly-once load.

    python bench/rolling_upgrade.py [--orders-per-second 200]

Each broker is stopped in a controlled way, the other program is started on its directory with its properties file, and
the next one is touched when every partition has all of its replicas in sync again: the procedure of
deploy/upgrade-from-kafka.md. Meanwhile orders are written, and a worker bills each of them in transactions. At the end
every order must have exactly one bill. Exit code 1 when one has none or two. Kafka comes from Maven.
"""

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import this_tree  # noqa: F401
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.foreign.kafka_jars import kafka_jars
from odradek.testing.foreign.stage import Stage
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

HERE = Path(__file__).resolve().parent
BROKERS, PARTITIONS = (0, 1, 2), 6
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "zookeeper.session.timeout.ms": "6000",
    "min.insync.replicas": "2",
    "controlled.shutdown.max.retries": "3",
}


class Load:
    """Orders that are written without a pause, and a worker that bills each of them."""

    def __init__(self, bootstrap: str, per_second: float) -> None:
        self._bootstrap, self._pause_s = bootstrap, 1 / per_second
        self.ordered = 0
        self.longest_s = {"orders": 0.0, "bills": 0.0}
        """Longest times without an acknowledged order and without a committed transaction."""
        self._over = threading.Event()
        self._errors: list[Exception] = []
        self._threads = [threading.Thread(target=self._guarded, args=(one,)) for one in (self._order, self._bill)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        for error in self._errors:
            raise error

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (KafkaException, AssertionError) as error:
            self._errors.append(error)

    def _order(self) -> None:
        last_s = time.monotonic()

        def delivered(error: object, _: object) -> None:
            nonlocal last_s
            assert error is None, error
            now_s = time.monotonic()
            self.longest_s["orders"] = max(self.longest_s["orders"], now_s - last_s)
            last_s = now_s

        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "log_level": 2})
        while not self._over.is_set():
            producer.produce("orders", str(self.ordered), on_delivery=delivered)
            self.ordered += 1
            producer.poll(self._pause_s)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def _bill(self) -> None:
        common = {"bootstrap.servers": self._bootstrap, "log_level": 2}
        consumer = Consumer(
            common | {"group.id": "bills", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        producer = Producer(common | {"transactional.id": "bills-1"})
        producer.init_transactions()
        consumer.subscribe(["orders"])
        last_s, seen = time.monotonic(), 0
        while not self._over.is_set() or seen < self.ordered:
            records = consumer.consume(500, 0.2)
            if not records:
                continue
            producer.begin_transaction()
            try:
                for record in records:
                    producer.produce("bills", record.value())
                producer.send_offsets_to_transaction(
                    consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
                )
                producer.commit_transaction()
            except KafkaException as failed:
                if not failed.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction()
                for place in consumer.committed(consumer.assignment()):
                    consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
                continue
            seen += len(records)
            now_s = time.monotonic()
            self.longest_s["bills"] = max(self.longest_s["bills"], now_s - last_s)
            last_s = now_s
        consumer.close()


def all_in_sync(admin: AdminClient) -> bool:
    topics = admin.list_topics(timeout=10).topics.values()
    return all(len(one.isrs) == len(BROKERS) for topic in topics for one in topic.partitions.values())


def bills(bootstrap: str) -> Counter[str]:
    """Count how often each order was billed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "isolation.level": "read_committed"})
    found: Counter[str] = Counter()
    for partition in range(PARTITIONS):
        place = TopicPartition("bills", partition, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=10)
        consumer.assign([place])
        while consumer.position([place])[0].offset < end:
            for record in consumer.consume(1000, 1.0):
                found[record.value().decode()] += 1
    consumer.close()
    return found


def upgrade(stages: dict[int, Stage], load: Load, admin: AdminClient) -> None:
    """Replace every broker by the other program, and every one again."""
    for to in ("odradek", "kafka"):
        for broker in BROKERS:
            began_s = time.monotonic()
            load.longest_s.update(orders=0.0, bills=0.0)
            stages[broker].lives[-1].stop()
            getattr(stages[broker], to)()
            wait_until(lambda: all_in_sync(admin), "every replica in sync")
            gaps = ", ".join(f"{seconds:.2f} s without {what}" for what, seconds in load.longest_s.items())
            print(f"broker {broker} is {to}'s after {time.monotonic() - began_s:4.1f} s; at most {gaps}", flush=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--orders-per-second", type=float, default=200.0, help="orders that are produced per second")
    options = arguments.parse_args()
    jars = kafka_jars(HERE.parent / ".cache" / "kafka-3.9")
    with tempfile.TemporaryDirectory(prefix="odradek-upgrade-") as folder, asyncio.Runner() as runner:
        zookeeper = EmbeddedZooKeeper(Path(folder) / "zookeeper", free_ports(1)[0])
        runner.run(zookeeper.start())
        stages = {one: Stage(jars, zookeeper.connect, Path(folder) / str(one), one, SETTINGS) for one in BROKERS}
        try:
            for stage in stages.values():
                stage.kafka()
            bootstrap = ",".join(stage.address for stage in stages.values())
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
            for made in admin.create_topics([NewTopic(one, PARTITIONS, 3) for one in ("orders", "bills")]).values():
                made.result(PATIENCE_SECONDS)
            with Load(bootstrap, options.orders_per_second) as load:
                upgrade(stages, load, admin)
            found = bills(bootstrap)
        finally:
            for stage in stages.values():
                stage.close()
            runner.run(zookeeper.stop())
    lost = sum(str(number) not in found for number in range(load.ordered))
    repeated = sum(times > 1 for times in found.values())
    print(f"{load.ordered} orders: {lost} without a bill, {repeated} with more than one")
    return 1 if lost or repeated else 0


if __name__ == "__main__":
    sys.exit(main())
