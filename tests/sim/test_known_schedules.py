"""Schedules in which systems of this kind have lost records, or had two at one offset."""

import asyncio
import logging
import random

import pytest

from odradek.client.records import TopicPartition
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.clients import SimulatedProducer
from odradek.testing.simulation.history import History
from odradek.testing.simulation.inspection import bytes_of, records_of
from odradek.testing.usual_requests import create_topic_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

TOPIC = "t"
T0 = TopicPartition(TOPIC, 0)


class Stage:
    """A partition on two brokers, neither of them the controller, and an idempotent producer."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.history = History(cluster.clock)
        self.administrator = Administrator(cluster, self.history, random.Random(0), TOPIC, [])

    async def prepare(self) -> None:
        while not any(self._is_controller(broker) for broker in self.cluster.brokers):
            await asyncio.sleep(0.1)
        (self.controller,) = [broker for broker in self.cluster.brokers if self._is_controller(broker)]
        self.leader, self.follower = [broker for broker in self.cluster.brokers if broker is not self.controller]
        await asyncio.sleep(1)  # until the controller knows all three
        answer = await self.administrator.ask_controller(
            create_topic_request(TOPIC, [self.leader.broker_id, self.follower.broker_id], timeout_ms=5_000), 7
        )
        assert answer.topics[0].error_code == 0, answer
        self.producer = SimulatedProducer(self.cluster, self.history, "producer-0", 1, TOPIC)

    @staticmethod
    def _is_controller(broker: EmbeddedBroker) -> bool:
        return broker.running and broker.server.services.controller.is_active

    async def send(self, count: int) -> None:
        for _ in range(count):
            await self.producer.send()
        async with asyncio.timeout(60):
            while self.producer.open:
                await asyncio.sleep(0.05)

    def values_of(self, broker: EmbeddedBroker) -> list[bytes]:
        log = broker.server.services.replicas.partitions[T0].log
        return [value for _, value in records_of(bytes_of(log, 0, log.log_end_offset))]

    def isr(self) -> set[int]:
        return set(self.leader.server.services.replicas.partitions[T0].committed_isr)


def play(unclean: bool) -> tuple[list[bytes], list[bytes], int, bool]:
    """Kafka 0.8's schedule: a partition leaves an ISR of one, which acknowledges, and then that one dies.

    Answers the acknowledged values, those that are there in the end, the unclean elections counted, and whether
    anybody led while the last of the ISR was dead.
    """

    async def main(clock: VirtualClock) -> tuple[list[bytes], list[bytes], int, bool]:
        settings = {"unclean.leader.election.enable": str(unclean).lower(), "replica.lag.time.max.ms": "4000"}
        async with EmbeddedCluster(clock, 3, settings) as cluster:
            stage = Stage(cluster)
            await stage.prepare()
            await stage.send(5)
            cluster.network.cut(stage.leader.host, stage.follower.host)
            await stage.send(5)
            assert stage.isr() == {stage.leader.broker_id}
            assert len(stage.history.acknowledged[T0]) == 10
            stage.leader.kill()
            await asyncio.sleep(10)
            cluster.network.heal()
            survivor = stage.follower.server.services.replicas.partitions[T0]
            led = survivor.is_leader
            counted = stage.controller.server.services.controller.counters.unclean_elections
            await stage.leader.start()
            await asyncio.sleep(10)
            there = stage.values_of(stage.leader)
            assert there == stage.values_of(stage.follower)
            acknowledged = [value for _, value in sorted(stage.history.acknowledged[T0].items())]
            stage.producer.stop()
            return acknowledged, there, counted, led

    return run_virtual(main)


def test_an_isr_of_one_that_dies_is_waited_for() -> None:
    """unclean.leader.election.enable=false: no leader meanwhile, and nothing is lost."""
    acknowledged, there, unclean_elections, led = play(unclean=False)
    assert there == acknowledged and unclean_elections == 0 and not led


def test_an_unclean_election_loses_what_only_the_dead_one_had_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """unclean.leader.election.enable=true: the loss is chosen, counted and logged; the replicas agree again."""
    with caplog.at_level(logging.WARNING, "state.change.logger"):
        acknowledged, there, unclean_elections, led = play(unclean=True)
    assert led and there == acknowledged[:5] and unclean_elections == 1
    assert any("t-0" in said and "UNCLEAN" in said for said in (record.getMessage() for record in caplog.records))


def test_leaders_that_move_under_load_leave_neither_duplicates_nor_two_values_at_one_offset() -> None:
    """Redpanda 21.10's: leadership moves again and again while an idempotent producer has batches in flight."""

    async def main(clock: VirtualClock) -> None:
        settings = {"min.insync.replicas": "2", "default.replication.factor": "3"}
        async with EmbeddedCluster(clock, 3, settings) as cluster:
            stage = Stage(cluster)
            await stage.prepare()
            for turn in range(6):
                sending = asyncio.ensure_future(stage.producer.work(clock.monotonic_ms() + 3_000))
                await asyncio.sleep(0.5)
                away = (stage.leader, stage.follower)[turn % 2]
                cluster.network.reset(away.host)
                await away.stop()
                await away.start()
                await sending
            await stage.send(0)
            await asyncio.sleep(5)
            there = stage.values_of(stage.leader)
            assert there == stage.values_of(stage.follower)
            assert len(there) == len(set(there)) == stage.producer.sent
            assert there == sorted(there, key=lambda value: int(value.rpartition(b"-")[2]))
            assert stage.history.violation is None
            epoch = stage.leader.server.services.replicas.partitions[T0].leader_epoch
            assert epoch >= 6, "leadership did not move"
            stage.producer.stop()

    run_virtual(main)
