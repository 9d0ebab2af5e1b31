"""Transactions in a cluster of both makes: each coordinates, leads, and goes on with what the other has begun."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import KafkaException, Producer

from odradek.testing.foreign.mixed_cluster import MixedCluster
from odradek.testing.foreign.stage import Stage
from odradek.testing.load import read_to_the_end, until_done
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.cluster

KAFKA, OURS, OURS_TOO = 0, 1, 2
TRANSACTIONAL_IDS = tuple(f"id-{number}" for number in range(9))
TRANSACTION_TIMEOUT_MS = 600_000
"""Longer than it may take until a coordinator that was killed has a successor, and all have been asked in turn."""
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "9",
    "transaction.state.log.min.isr": "1",
    "replica.fetch.wait.max.ms": "100",
    "zookeeper.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
}


class Transactions:
    """Of one producer for each id; each writes to every topic. Those of odd rounds are aborted by every second one."""

    def __init__(self, cluster: MixedCluster, told: Callable[[], str]) -> None:
        """`told` returns what the producers have written to the standard error since it was asked last."""
        self.topics = [topic for topic in cluster.topics if topic.startswith("by")]
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap
        self.expected: dict[str, list[str]] = defaultdict(list)
        self._round = 0
        self._told = told
        self._producers = {name: self._new_producer(name) for name in TRANSACTIONAL_IDS}

    def _new_producer(self, name: str) -> Producer:
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": name, "log_level": 7, "debug": "eos"}
        producer = Producer({**settings, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS})
        until_done(producer.init_transactions)
        return producer

    def begin(self) -> None:
        self._round += 1
        for name, producer in self._producers.items():
            producer.begin_transaction()
            for topic in self.topics:
                producer.produce(topic, f"{name} {self._round}", partition=0)
        for producer in self._producers.values():
            assert producer.flush(PATIENCE_SECONDS) == 0

    def end(self) -> None:
        for number, (name, producer) in enumerate(self._producers.items()):
            if (number + self._round) % 2:
                self._finish(name, producer.abort_transaction)
                continue
            self._finish(name, producer.commit_transaction)
            for topic in self.topics:
                self.expected[topic].append(f"{name} {self._round}")

    def _finish(self, name: str, step: Callable[[float], None]) -> None:
        self._told()
        try:
            until_done(step)
        except KafkaException as error:
            error.add_note(f"{name}: {self.cluster.transactions([name])}, {self.cluster.internals()}")
            error.add_note(last_lines(self._told(), "TXN", "|COORD|"))
            for broker in self.cluster.kafkas & self.cluster.lives.keys():
                error.add_note(last_lines(self.cluster.lives[broker].said(), "Partition __transaction_state"))
            raise

    def succeed(self) -> None:
        """Every second producer dies with its transaction open, and has a successor."""
        self.begin()
        for name in TRANSACTIONAL_IDS[::2]:
            self._producers[name] = self._new_producer(name)
        for name in TRANSACTIONAL_IDS[1::2]:
            self._finish(name, self._producers[name].abort_transaction)

    def check(self) -> None:
        """A commit is answered before its markers are written. What comes too many is there at the next check."""
        for topic in self.topics:
            expected = sorted(self.expected[topic])
            seen = partial(read_to_the_end, self.bootstrap, topic, 1)
            wait_until(lambda seen=seen, expected=expected: sorted(seen()) == expected, f"{topic}: {expected}")


def last_lines(text: str, *words: str) -> str:
    """Return the last lines that contain one of the words, none of them long."""
    lines = [line[:300] for line in text.splitlines() if any(word in line for word in words)]
    return "\n".join(lines[-40:])


def test_coordinators_of_both_makes(new_stage: Callable[..., Stage], capfd: pytest.CaptureFixture[str]) -> None:
    stages = {broker: new_stage(broker, **SETTINGS) for broker in (KAFKA, OURS, OURS_TOO)}
    cluster = MixedCluster(stages, frozenset({KAFKA}))
    cluster.start(KAFKA, OURS, OURS_TOO)
    cluster.create_topics()
    cluster.wait_in_sync()
    transactions = Transactions(cluster, lambda: capfd.readouterr().err)
    for _ in range(2):
        transactions.begin()
        transactions.end()
    transactions.succeed()
    transactions.check()

    # Coordinators die with transactions open, which those of the other make find in the log and end.
    for victim in (KAFKA, OURS):
        transactions.begin()
        cluster.kill(victim)
        transactions.end()
        transactions.begin()
        transactions.end()
        cluster.start(victim)
        cluster.wait_in_sync()
        cluster.elect_preferred()
        transactions.check()

    # They are handed over in order, too: what is Kafka's goes to ours, and the other way.
    for leaving in ((OURS, OURS_TOO), (KAFKA,)):
        transactions.begin()
        for broker in leaving:
            cluster.stop(broker)
        transactions.end()
        transactions.succeed()
        transactions.check()
        cluster.start(*leaving)
        cluster.wait_in_sync()
        cluster.elect_preferred()
    transactions.begin()
    transactions.end()
    transactions.succeed()
    transactions.check()
    cluster.check_logs()
