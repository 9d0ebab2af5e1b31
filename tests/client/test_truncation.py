"""Truncation of a log that a consumer has read from (KIP-320): noticed, told, and gone on from."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.values import NewTopic
from odradek.client.errors import LogTruncated
from odradek.client.records import ConsumerRecord, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.offset_for_leader_epoch import EpochEndOffset as EpochEnd
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from odradek.protocol.records import encode_batch
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

T0 = TopicPartition("t", 0)
OLDEST_WITH_EPOCHS_IN_FETCH = 12


class Leader:
    """Answers as the leader of a log of batches of one record, (epoch, value) each."""

    def __init__(self, broker: Any, log: list[tuple[int, bytes]]) -> None:
        self.broker, self.log, self.epoch = broker, log, log[-1][0]
        self.control: set[int] = set()
        """Offsets of markers of transactions."""
        broker.handlers |= {
            FetchRequest: self.fetch,
            OffsetForLeaderEpochRequest: self.ends,
            MetadataRequest: self.metadata,
        }

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        answer: MetadataResponse = self.broker.metadata()
        answer.topics[0].partitions[0].leader_epoch = self.epoch
        return answer

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The last epoch not above one, and where it ends."""
        end = next((offset for offset, (of, _) in enumerate(self.log) if of > epoch), len(self.log))
        return max((of for of, _ in self.log if of <= epoch), default=-1), end

    def fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        one = PartitionData(partition_index=0, high_watermark=len(self.log), records=b"")
        if asked.current_leader_epoch < self.epoch:
            one.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.last_fetched_epoch >= 0:
            epoch, end = self.end_of(asked.last_fetched_epoch)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                one.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
        if not one.error_code and one.diverging_epoch is None:
            if asked.fetch_offset > len(self.log):
                one.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            else:
                one.records = b"".join(map(self.batch, range(asked.fetch_offset, len(self.log))[:2]))
        answer = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[one])
        return FetchResponse(responses=[answer])

    def batch(self, offset: int) -> bytes:
        epoch, value = self.log[offset]
        marker = offset in self.control
        key = b"\x00\x00\x00\x01" if marker else None
        kind: dict[str, Any] = {"transactional": True, "control": True, "producer_id": 1} if marker else {}
        values = [b"\x00" * 6 if marker else value]
        return bytes(encode_batch(offset, [0], [key], values, partition_leader_epoch=epoch, **kind))

    def ends(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        (asked,) = request.topics[0].partitions
        epoch, end = self.end_of(asked.leader_epoch)
        one = EpochEnd(partition=0, leader_epoch=epoch, end_offset=end if epoch >= 0 else -1)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[one])])


BEFORE = [(0, b"a"), (0, b"b"), (1, b"c"), (1, b"d")]
AFTER = [(0, b"a"), (0, b"b"), (2, b"x"), (2, b"y"), (2, b"z")]


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while len(found) < count:
        for records in (await consumer.getmany(1_000)).values():
            found += records
    return found


def run(
    scripted_broker: Any,
    work: Callable[[Consumer, Leader], Awaitable[None]],
    reset: str,
    log: list[tuple[int, bytes]] = BEFORE,
    highest_fetch: int = 17,
) -> Leader:
    async def main(clock: VirtualClock) -> Leader:
        network = VirtualNetwork(clock)
        leader = Leader(scripted_broker(network), list(log))
        leader.broker.highest[FetchRequest.API_KEY] = highest_fetch
        world: dict[str, Any] = {"network": network.host("client"), "clock": clock, "random": random.Random(0)}
        async with Consumer(bootstrap_servers="broker:9092", auto_offset_reset=reset, **world) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            await work(consumer, leader)
        return leader

    return run_virtual(main)


@pytest.mark.parametrize("highest_fetch", [17, 11], ids=["told by Fetch", "asked by OffsetForLeaderEpoch"])
def test_reading_goes_on_where_the_histories_part(
    scripted_broker: Any, highest_fetch: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It went on at offset 4, and x and y were never seen."""

    async def work(consumer: Consumer, leader: Leader) -> None:
        assert [one.value for one in await read(consumer, 4)] == [b"a", b"b", b"c", b"d"]
        leader.log, leader.epoch = list(AFTER), 2
        assert [(one.offset, one.value) for one in await read(consumer, 3)] == [(2, b"x"), (3, b"y"), (4, b"z")]

    with caplog.at_level(logging.WARNING, "odradek.client.consumer.fetcher"):
        leader = run(scripted_broker, work, "earliest", highest_fetch=highest_fetch)
    assert "diverges at offset 2 from what was read up to 4" in caplog.text
    asked = leader.broker.requests(OffsetForLeaderEpochRequest)
    if highest_fetch >= OLDEST_WITH_EPOCHS_IN_FETCH:
        assert asked == []
    else:
        epochs = [
            (one.topics[0].partitions[0].current_leader_epoch, one.topics[0].partitions[0].leader_epoch)
            for one in asked
        ]
        assert epochs == [(1, 0), (2, 1), (2, 0)], "once in each epoch of the leader, and after each jump"


@pytest.mark.parametrize("highest_fetch", [17, 11], ids=["told by Fetch", "asked by OffsetForLeaderEpoch"])
def test_without_a_policy_the_application_is_told_what_is_lost(scripted_broker: Any, highest_fetch: int) -> None:
    async def work(consumer: Consumer, leader: Leader) -> None:
        await read(consumer, 4)
        leader.log, leader.epoch = list(AFTER), 2
        for _ in range(2):  # again, until it seeks
            with pytest.raises(LogTruncated, match="read up to 4, but the leader's log differs from 2 on") as told:
                await read(consumer, 1)
            assert (told.value.topic, told.value.partition, told.value.offset) == ("t", 0, 4)
            assert told.value.diverging_offset == 2
        consumer.seek(T0, told.value.diverging_offset)
        assert [one.value for one in await read(consumer, 3)] == [b"x", b"y", b"z"]

    run(scripted_broker, work, "none", highest_fetch=highest_fetch)


def test_a_log_that_is_shorter_now_is_read_on_from_its_end_and_not_from_the_beginning(scripted_broker: Any) -> None:
    """The offset was out of range: with `earliest` everything was read again."""

    async def work(consumer: Consumer, leader: Leader) -> None:
        await read(consumer, 4)
        leader.log, leader.epoch = AFTER[:2], 2
        assert await consumer.getmany(1_000) == {}
        leader.log.append((2, b"x"))
        assert [(one.offset, one.value) for one in await read(consumer, 1)] == [(2, b"x")]

    run(scripted_broker, work, "earliest")


def test_what_was_fetched_and_not_handed_out_is_fetched_again_without_a_word(scripted_broker: Any) -> None:
    async def work(consumer: Consumer, leader: Leader) -> None:
        consumer.pause(T0)
        assert (await consumer.getmany(500), await consumer.position(T0)) == ({}, 0)
        consumer.resume(T0)
        assert (await consumer.getone(1_000)).offset == 0  # type: ignore[union-attr]
        leader.log, leader.epoch = list(AFTER), 2
        found = [one.value for one in await read(consumer, 4)]
        assert found[0] == b"b" and found[-3:] == [b"x", b"y", b"z"]

    run(scripted_broker, work, "earliest")


def test_a_position_behind_markers_is_of_their_epoch(scripted_broker: Any) -> None:
    """With that of the record before them, a marker of a later epoch looked like a truncation."""
    log = [(0, b"a"), (0, b"b"), (3, b"marker")]

    async def work(consumer: Consumer, leader: Leader) -> None:
        leader.control = {2}
        taken = [await consumer.getone(1_000) for _ in range(2)]
        assert [one.value for one in taken if one is not None] == [b"a", b"b"]
        assert await consumer.getone(1_000) is None and await consumer.position(T0) == 3
        leader.log.append((3, b"c"))
        consumer.pause(T0)
        consumer.resume(T0)
        assert [one.offset for one in await read(consumer, 1)] == [3]

    run(scripted_broker, work, "none", log)


# -- the same on brokers -----------------------------------------------------------------------------------------------


async def unclean_election(cluster: EmbeddedCluster, consumer: Consumer) -> list[bytes]:
    """Let a follower that lacks the last three of five records lead, and write six of its own; what was read before."""
    world: dict[str, Any] = {
        "network": cluster.network.host("client"),
        "clock": cluster.clock,
        "bootstrap_servers": "broker-0:9092",
    }
    async with Admin(**world) as admin, Producer(**world) as producer:
        (created,) = await admin.create_topics([NewTopic("t", replica_assignments={0: [1, 2]})])
        assert created.name == "t"

        async def send(*values: bytes) -> None:
            for value in values:
                await (await producer.send("t", value, partition=0))

        await send(b"a", b"b")
        cluster.network.cut("broker-1", "broker-2")
        await send(b"c", b"d", b"e")
        consumer.assign([T0])
        consumer.seek(T0, 0)
        before = [one.value for one in await read(consumer, 5)]
        cluster.brokers[1].kill()
        await asyncio.sleep(10)
        cluster.network.heal()
        await send(b"1", b"2", b"3", b"4", b"5", b"6")
        return before


def on_brokers(work: Callable[[EmbeddedCluster, Consumer], Awaitable[None]], reset: str) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = {"unclean.leader.election.enable": "true", "replica.lag.time.max.ms": "2000"}
        async with EmbeddedCluster(clock, 3, settings) as cluster:
            world: dict[str, Any] = {"network": cluster.network.host("client"), "clock": clock}
            async with Consumer(bootstrap_servers="broker-0:9092", auto_offset_reset=reset, **world) as consumer:
                await work(cluster, consumer)

    run_virtual(main)


def test_an_unclean_election_takes_a_consumer_back_to_where_the_new_leader_left() -> None:
    async def work(cluster: EmbeddedCluster, consumer: Consumer) -> None:
        assert await unclean_election(cluster, consumer) == [b"a", b"b", b"c", b"d", b"e"]
        assert [one.value for one in await read(consumer, 6)] == [b"1", b"2", b"3", b"4", b"5", b"6"]

    on_brokers(work, "latest")


def test_an_unclean_election_is_told_to_who_asked_to_be_told() -> None:
    async def work(cluster: EmbeddedCluster, consumer: Consumer) -> None:
        await unclean_election(cluster, consumer)
        with pytest.raises(LogTruncated) as told:
            await read(consumer, 6)
        assert (told.value.offset, told.value.diverging_offset) == (5, 2)

    on_brokers(work, "none")


def test_a_topic_that_may_not_be_read_any_more_is_told_also_by_an_old_broker(scripted_broker: Any) -> None:
    """It was asked where its epochs end for ever, and what Fetch said did not count: polls were empty."""

    async def work(consumer: Consumer, leader: Leader) -> None:
        await read(consumer, 4)
        leader.epoch = 2
        answer = OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic="t", partitions=[EpochEnd(partition=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
                )
            ]
        )
        leader.broker.handlers[OffsetForLeaderEpochRequest] = lambda _: answer
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: t-0"):
            await consumer.getmany(10_000)

    run(scripted_broker, work, "earliest", highest_fetch=11)
