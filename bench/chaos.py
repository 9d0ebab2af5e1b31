"""A cluster of processes under load for some minutes, of which some are killed, stopped, suspended and started again.

    python bench/chaos.py [--seconds 180] [--seed 7] [--directory DIR]

Idempotent producers write (acks=all), a group of two reads along and commits. The faults are drawn from the seed, which
is printed; one at a time, and each is given time to heal or not. In the end nothing that was acknowledged is lost,
moved, repeated or out of order, the group has seen everything without a gap, and all replicas are in sync.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import this_tree  # noqa: F401
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from odradek.testing.load import QUIET, TOPIC, Load, Observer, check_nothing_lost, row_of
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster
from odradek.testing.zookeeper_process import ZooKeeperProcess

LONGEST_FAULT_SECONDS = 9.0
PACE_SECONDS = 0.005
ANSWER_MS = 10_000
COMMIT_EVERY = 200
TROUBLE_IN_LOGS = ("Traceback", "never retrieved", "AssertionError")


class Member(threading.Thread):
    """Consumer of the group: from the committed offsets on it must be given every offset, one after the other."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.seen: dict[int, set[int]] = defaultdict(set)
        self.gaps: list[str] = []
        self.over = threading.Event()
        self._expected: dict[int, int] = {}
        settings = {"group.id": "chaos", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._consumer = Consumer({**QUIET, **settings, "bootstrap.servers": bootstrap, "session.timeout.ms": 6_000})
        self._consumer.subscribe(
            [TOPIC], on_assign=self._begin_anew, on_revoke=self._begin_anew, on_lost=self._begin_anew
        )

    def _begin_anew(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._expected.pop(one.partition, None)

    def run(self) -> None:
        uncommitted = 0
        while not self.over.is_set():
            for message in self._consumer.consume(500, 0.2):
                error = message.error()
                if error is not None:
                    assert error.retriable() or error.code() != KafkaError.OFFSET_OUT_OF_RANGE, error
                    continue
                partition, offset, _ = row_of(message)
                expected = self._expected.get(partition, offset)
                if offset != expected:
                    self.gaps.append(f"partition {partition}: {offset} came, {expected} was to come")
                self._expected[partition] = offset + 1
                self.seen[partition].add(offset)
                uncommitted += 1
            if uncommitted >= COMMIT_EVERY:
                uncommitted = 0
                self._commit()
        if uncommitted:
            self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as refused:  # a rebalance, a coordinator that is gone: others go on from the last one
            print(f"           commit: {refused.args[0].str()}", flush=True)


class Chaos:
    """Faults of one cluster."""

    def __init__(self, cluster: UpCluster, seed: int) -> None:
        self.cluster = cluster
        self.zookeeper = ZooKeeperProcess(cluster.directory, cluster.zookeeper_port)
        self.random = random.Random(seed)
        self.kinds: list[Callable[[], None]] = [
            self.kill,
            self.terminate,
            self.suspend,
            self.suspend_two,
            self.kill_while_another_stands,
            self.pause_zookeeper,
            self.kill_zookeeper,
            self.kill_while_zookeeper_stands,
        ]
        self.began = time.monotonic()
        self.count = 0

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:9.1f}  {text}", flush=True)

    def one(self) -> None:
        self.count += 1
        self.random.choice(self.kinds)()
        time.sleep(self.random.choice((0.0, 1.0, 5.0)))

    def _pass(self) -> None:
        time.sleep(self.random.choice((0.3, 2.0, self.random.uniform(3.0, LONGEST_FAULT_SECONDS))))

    def kill(self) -> None:
        broker = self.random.randrange(3)
        self.say(f"kill broker {broker}")
        self.cluster.kill(broker)
        self._pass()
        self._start(broker)

    def kill_while_another_stands(self) -> None:
        killed, standing = self.random.sample(range(3), 2)
        with self._suspended([standing]):
            self._pass()
            self.say(f"kill broker {killed}")
            self.cluster.kill(killed)
            self._pass()
        self._start(killed)

    def kill_while_zookeeper_stands(self) -> None:
        self.say("suspend ZooKeeper")
        with self.zookeeper.paused():
            self._pass()
            self.kill()
        self.say("resume ZooKeeper")

    def terminate(self) -> None:
        broker = self.random.randrange(3)
        self.say(f"terminate broker {broker}")
        pid = self.cluster.pid(broker)
        self.cluster.terminate(broker)
        wait_until(lambda: not is_running(pid), f"broker {broker} ends")
        self._pass()
        self._start(broker)

    def _start(self, broker: int) -> None:
        self.say(f"start broker {broker}")
        self.cluster.start(broker)

    def suspend(self) -> None:
        with self._suspended([self.random.randrange(3)]):
            self._pass()

    def suspend_two(self) -> None:
        with self._suspended(self.random.sample(range(3), 2)):
            self._pass()

    @contextmanager
    def _suspended(self, brokers: list[int]) -> Iterator[None]:
        self.say(f"suspend {brokers}")
        pids = [self.cluster.pid(broker) for broker in brokers]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            self.say(f"resume {brokers}")

    def pause_zookeeper(self) -> None:
        self.say("suspend ZooKeeper")
        with self.zookeeper.paused():
            self._pass()
        self.say("resume ZooKeeper")

    def kill_zookeeper(self) -> None:
        self.say("kill ZooKeeper")
        with self.zookeeper.killed():
            self._pass()
        self.say("start ZooKeeper")

    def revive(self) -> list[int]:
        """Brokers that have ended without being asked to: started again, and told."""
        ended = [broker for broker in range(3) if not is_running(self.cluster.pid(broker))]
        for broker in ended:
            self.say(f"broker {broker} has ended by itself")
            self._start(broker)
        return ended


def is_running(pid: int) -> bool:
    """Tell whether there is such a process that is not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def trouble_in(directory: Path) -> list[str]:
    """Lines of the brokers' logs that no fault explains."""
    found = []
    for path in sorted((directory / "logs").glob("broker-*.log")):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if any(word in line for word in TROUBLE_IN_LOGS):
                found.append(f"{path}:{number}: {line:.200}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180.0, help="seconds to run")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1_000_000), help="seed of the random numbers"
    )
    parser.add_argument("--directory", type=Path, help="folder for the cluster, which is kept")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        return run(given.directory or Path(temporary) / "cluster", given.seed, given.seconds)


def run(directory: Path, seed: int, seconds: float) -> int:
    with UpCluster(directory) as cluster:
        observer = Observer(cluster)
        observer.create_topic()
        wait_until(observer.in_sync, "all replicas in sync")
        chaos = Chaos(cluster, seed)
        members = [Member(cluster.bootstrap) for _ in range(2)]
        with Load(cluster.bootstrap, pace_seconds=PACE_SECONDS, answer_ms=ANSWER_MS) as load:
            for member in members:
                member.start()
            ended = []
            while time.monotonic() < chaos.began + seconds:
                chaos.one()
                ended += chaos.revive()
            chaos.say("calm")
            wait_until(load.goes_on(), "every partition is written to")
        wait_until(observer.in_sync, "all replicas in sync")
        check_nothing_lost(load, cluster.bootstrap)
        chaos.say(f"{len(load.acknowledged)} records are there, {len(load.unplaced)} without a known place")
        wanted = {(partition, offset) for partition, offset in load.acknowledged}
        wait_until(lambda: wanted <= seen_by(members), "the group has seen everything")
        for member in members:
            member.over.set()
            member.join()
        chaos.zookeeper.close()
    gaps = [gap for member in members for gap in member.gaps]
    trouble = trouble_in(directory)
    print(f"{chaos.count} faults, ended by themselves: {ended or 'none'}, gaps: {gaps or 'none'}")
    print("\n".join(trouble[:40]) or "nothing odd in the brokers' logs")
    return 1 if ended or gaps or trouble else 0


def seen_by(members: list[Member]) -> set[tuple[int, int]]:
    return {(p, offset) for member in members for p in list(member.seen) for offset in list(member.seen[p])}


if __name__ == "__main__":
    sys.exit(main())
