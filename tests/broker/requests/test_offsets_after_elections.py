"""ListOffsets: what is told of which time, and by a leader whose high watermark is behind the start of its epoch."""

from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.requests.whole_broker import T0, TOPIC, Client, with_broker

LATEST, EARLIEST, LARGEST, LOCAL, TIERED = -1, -2, -3, -4, -5


def partition_of(client: Client) -> Any:
    return client.cluster.brokers[0].server.services.replicas.partitions[TOPIC, 0]


async def with_three_records(client: Client, high_watermark: int) -> None:
    """Write them, of which the leader's epoch begins behind the second."""
    await client.create()
    await client.produce(b"a", b"b", b"c")
    partition = partition_of(client)
    partition.high_watermark, partition.leader_epoch_start_offset = high_watermark, 2


@pytest.mark.parametrize(
    ("version", "refusal"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_the_end_is_not_told_before_it_is_known_what_the_last_leader_had_told(version: int, refusal: ErrorCode) -> None:
    """A consumer that has seen offset 2 would be out of range at 1 (KAFKA-7703)."""

    async def scenario(client: Client) -> None:
        await with_three_records(client, high_watermark=1)
        assert (await client.offsets(LATEST, version)).error_code == refusal
        assert (await client.offsets(T0 + 1, version)).error_code == refusal, "a record that may not be replicated yet"
        assert (await client.offsets(T0, version)).offset == 0
        assert (await client.offsets(EARLIEST, version)).offset == 0
        partition_of(client).high_watermark = 2
        answer = await client.offsets(LATEST, version)
        assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 2)

    with_broker(scenario)


def test_a_record_that_is_not_replicated_is_not_found_by_its_time() -> None:
    async def scenario(client: Client) -> None:
        await with_three_records(client, high_watermark=2)
        for time in (T0 + 2, LARGEST):
            answer = await client.offsets(time)
            assert (answer.error_code, answer.offset) == (ErrorCode.NONE, -1)
        partition_of(client).high_watermark = 3
        assert [(await client.offsets(time)).offset for time in (T0 + 2, LARGEST)] == [2, 2]

    with_broker(scenario)


NOTHING = (-1, -1, -1)
UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("time", "version", "told"),
    [
        (LATEST, 1, (-1, 3, -1)),
        (LATEST, 4, (-1, 3, 7)),
        (EARLIEST, 1, (-1, 1, -1)),
        (EARLIEST, 4, (-1, 1, 0)),
        (LARGEST, 6, UNSUPPORTED),
        (LARGEST, 7, (T0 + 2, 2, 0)),
        (LOCAL, 7, UNSUPPORTED),
        (LOCAL, 8, (-1, 1, 0)),
        (TIERED, 8, UNSUPPORTED),
        (TIERED, 9, NOTHING),
        (-6, 9, UNSUPPORTED),
        (-(2**63), 9, UNSUPPORTED),
        (0, 1, (T0 + 1, 1, -1)),
        (T0 + 2, 9, (T0 + 2, 2, 0)),
        (T0 + 3, 9, NOTHING),
    ],
)
def test_what_is_told_of_which_time(time: int, version: int, told: tuple[int, int, int] | ErrorCode) -> None:
    """Its timestamp, its offset, and from version 4 on the leader epoch; some names of times came later."""

    async def scenario(client: Client) -> None:
        await with_three_records(client, high_watermark=3)
        partition = partition_of(client)
        partition.leader_epoch = 7
        partition.log.advance_log_start_offset(1)
        answer = await client.offsets(time, version)
        refused = isinstance(told, ErrorCode)
        assert answer.error_code == (told if refused else ErrorCode.NONE)
        assert (answer.timestamp, answer.offset, answer.leader_epoch) == (NOTHING if refused else told)

    with_broker(scenario)


@pytest.mark.parametrize(("replica_id", "end"), [(-1, None), (-2, 3), (5, 3)])
def test_who_is_no_consumer_is_told_the_end_of_the_log(replica_id: int, end: int | None) -> None:
    async def scenario(client: Client) -> None:
        await with_three_records(client, high_watermark=1)
        for time in (LATEST, T0 + 2):
            asked = ListOffsetsPartition(partition_index=0, timestamp=time)
            topics = [ListOffsetsTopic(name=TOPIC, partitions=[asked])]
            [topic] = (await client.ask(ListOffsetsRequest(replica_id=replica_id, topics=topics), 7)).topics
            [answer] = topic.partitions
            assert (topic.name, answer.partition_index) == (TOPIC, 0)
            if end is None:
                assert (answer.error_code, answer.offset) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
            else:
                assert (answer.error_code, answer.offset) == (ErrorCode.NONE, end if time == LATEST else 2)

    with_broker(scenario)


def test_a_partition_that_is_asked_for_twice_is_refused() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        twice = [ListOffsetsPartition(partition_index=9, timestamp=time) for time in (EARLIEST, LATEST)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=twice)])
        answers = (await client.ask(request, 7)).topics[0].partitions
        assert [(one.partition_index, one.error_code) for one in answers] == [(9, ErrorCode.INVALID_REQUEST)] * 2

    with_broker(scenario)
