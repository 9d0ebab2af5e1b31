"""A bit that turns over on a disk: nobody takes it for a record, and nobody copies it.

As in Kafka, a broker looks at a log's checksums when it is opened after an unclean stop, from the recovery point on,
and at those of what is written to it; not at what it sends. Whoever receives it does.
"""

import asyncio
import random

import pytest

from odradek.aio import Consumer
from odradek.broker.log import index, segment, time_index_check
from odradek.broker.log.batches import iterate_headers
from odradek.broker.log.log import Log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.client.errors import CorruptRecords
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.record_batch import HEADER_BYTES, CorruptBatch, batches
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.log_environments import DIRECTORY, close_log, make_batch, make_environment, open_test_log
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.bit_rot import BitRot, _are_others, misled
from odradek.testing.simulation.clients import SimulatedConsumer, SimulatedProducer, bootstrap
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.history import LATE_MS, History
from odradek.testing.simulation.inspection import bytes_of
from odradek.testing.usual_requests import create_topic_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

T0 = TopicPartition("t", 0)
RECORDS = 5
BATCHES = 120


class Stage:
    """A partition led by broker 0 and followed by broker 1, with RECORDS batches of a record."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.administrator = Administrator(cluster, History(cluster.clock), random.Random(0), "t", [])
        self.leader, self.follower = cluster.brokers

    async def prepare(self) -> None:
        await asyncio.sleep(2)
        await self.administrator.ask_controller(create_topic_request("t", [0, 1], timeout_ms=5_000), 7)
        producer = SimulatedProducer(self.cluster, self.administrator.history, "producer-0", 1, "t")
        for _ in range(RECORDS):
            await producer.send()
            async with asyncio.timeout(60):
                while producer.open:
                    await asyncio.sleep(0.05)
        producer.stop()

    def rot(self, broker: EmbeddedBroker, number: int) -> None:
        """Turn over a bit of the records of a broker's batch."""
        path = "/data/t-0/00000000000000000000.log"
        file = broker.files.open(path)
        batch = list(iterate_headers(file, 0, file.size()))[number]
        broker.files.flip(path, batch.position + HEADER_BYTES + 8)

    def bytes_of(self, broker: EmbeddedBroker) -> bytes:
        log = broker.server.services.replicas.partitions[T0].log
        return bytes_of(log, 0, log.log_end_offset)

    def isr(self) -> set[int]:
        return set(self.leader.server.services.replicas.partitions[T0].committed_isr)


def test_readers_and_followers_refuse_what_has_rotted_at_the_leader() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            stage = Stage(cluster)
            await stage.prepare()
            stage.rot(stage.leader, 2)
            consumer = Consumer(
                network=cluster.network.host("consumer"), clock=clock, random=random.Random(1),
                bootstrap_servers=bootstrap(cluster), group_id=None, auto_offset_reset="earliest",
            )  # fmt: skip
            consumer.open(asyncio.get_running_loop())
            consumer.assign([T0])
            read: list[int] = []
            with pytest.raises(CorruptRecords):
                while True:
                    taken = await consumer.getmany(timeout_ms=1_000)
                    read += [record.offset for record in taken.get(T0, ())]
            assert read == [0, 1], "what is sound before it"
            await consumer.close()
            wanted = FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1000)
            old = FetchRequest(max_bytes=1000, topics=[FetchTopic(topic="t", partitions=[wanted])])
            answer = await stage.administrator.ask(stage.leader, old, 3)
            told = answer.responses[0].partitions[0]
            assert (told.error_code, bytes(told.records or b"")) == (ErrorCode.CORRUPT_MESSAGE, b"")
            stage.follower.power_failure()
            stage.follower.files.erase()
            await stage.follower.start()
            await asyncio.sleep(20)
            copied = stage.follower.server.services.replicas.partitions[T0].log.log_end_offset
            assert copied <= 2 and stage.isr() == {0}

    run_virtual(main)


def test_simulated_readers_go_on_when_the_disk_has_been_replaced() -> None:
    """A consumer, like Java's, holds what is damaged until it is told to seek; so they do."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            stage = Stage(cluster)
            await stage.prepare()
            stage.rot(stage.leader, 2)
            history = stage.administrator.history
            history.rotten.add(stage.leader.broker_id)
            reader = SimulatedConsumer(cluster, history, "reader", 1, "t")
            reader.assign([0])
            await asyncio.sleep(5)
            assert history.violation is None and reader.read[T0] == {0, 1}
            stage.leader.power_failure()
            stage.leader.files.erase()
            await stage.leader.start()
            history.mended(stage.leader.broker_id)
            await asyncio.sleep(LATE_MS / 1000 + 1)
            assert history.violation is None and reader.read[T0] == set(range(RECORDS))
            await reader.close()

    run_virtual(main)


def test_leader_epochs_that_have_rotted_already_are_left_alone() -> None:
    """Whether they would be others could not be told, and the run ended with that."""
    sound = b"0\n2\n1 0\n2 5\n"
    place = sound.index(b"5")
    assert not _are_others(sound, place, 6), "unreadable: that is seen"
    assert _are_others(sound, place, 1), "7, which nothing tells from 5"
    unreadable = sound.replace(b"5", b"u")
    assert _are_others(unreadable, place, 6) and _are_others(unreadable, place, 0)


def test_what_has_rotted_while_its_broker_was_down_is_copied_anew() -> None:
    """It has not stopped cleanly and so looks; until it has everything again it is not in the ISR."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            stage = Stage(cluster)
            await stage.prepare()
            whole = stage.bytes_of(stage.leader)
            stage.leader.kill()
            stage.rot(stage.leader, 2)
            await stage.leader.start()
            await asyncio.sleep(20)
            assert [stage.bytes_of(broker) for broker in cluster.brokers] == [whole, whole]
            (led,) = [b.server.services.replicas.partitions[T0] for b in cluster.brokers if b is stage.follower]
            assert led.leader_epoch > 0 and led.log.log_end_offset == RECORDS

    run_virtual(main)


def log_with_rot(suffix: str, byte: int, bits: int) -> Log:
    """Open a log of BATCHES again that was closed cleanly, after a byte of its only index of that kind has rotted."""
    config = LogConfig(index_interval_bytes=700)
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), config, clean=True)
    for number in range(BATCHES):
        log.append_as_leader(make_batch([b"%040d" % number], timestamp_ms=1000 * number), 0)
    end = log.log_end_offset
    close_log(log)
    files.kill()
    files.flip(f"{DIRECTORY}/{0:020d}{suffix}", byte, bits)
    return open_test_log(make_environment(files), config, recovery_point=end, clean=True)


ENTRY = 5
ROTTEN_OFFSETS = [
    pytest.param(8 * ENTRY + 3, 0x02, False, id="an offset that is too low"),
    pytest.param(8 * ENTRY + 7, 0x01, False, id="a position where no batch begins"),
    pytest.param(8 * ENTRY + 6, 0x08, True, id="a position of a later batch, which does not rise"),
]


def test_a_disk_rots_on_where_a_batch_has_lost_its_size() -> None:
    """The simulation ended with a CorruptBatch, when it looked for another place in such a log."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            stage = Stage(cluster)
            await stage.prepare()
            faults = Faults(cluster, stage.administrator.history, stage.administrator, random.Random(1), 1)
            rot = BitRot(faults, list)
            for _ in range(200):
                rot._rot(stage.follower)
            with pytest.raises(CorruptBatch):
                list(batches(stage.follower.files.read("/data/t-0/00000000000000000000.log")))

    run_virtual(main)


@pytest.mark.parametrize(("byte", "bits", "falls"), ROTTEN_OFFSETS)
def test_an_index_of_offsets_that_is_believed_is_seen(
    byte: int, bits: int, falls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert misled(log_with_rot(".index", byte, bits)) is None
    monkeypatch.setattr(segment, "begins_batch", lambda *_: True)
    assert bool(misled(log_with_rot(".index", byte, bits))) is not falls
    monkeypatch.setattr(index, "_rises", lambda *_: True)
    assert misled(log_with_rot(".index", byte, bits))


def test_a_time_index_that_is_believed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    byte, bits = 12 * ENTRY + 11, 0x40  # a larger offset than the next one
    assert misled(log_with_rot(".timeindex", byte, bits)) is None
    monkeypatch.setattr(index, "_rises", lambda *_: True)
    assert misled(log_with_rot(".timeindex", byte, bits)) is None
    monkeypatch.setattr(time_index_check, "is_true", lambda *_: True)
    assert misled(log_with_rot(".timeindex", byte, bits))
