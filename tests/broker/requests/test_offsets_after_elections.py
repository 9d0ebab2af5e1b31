"""ListOffsets of a leader whose high watermark is still behind the beginning of its epoch."""

from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.requests.whole_broker import T0, TOPIC, Client, with_broker

LATEST, EARLIEST, LARGEST = -1, -2, -3


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


def test_a_partition_that_is_asked_for_twice_is_refused() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        twice = [ListOffsetsPartition(partition_index=0, timestamp=time) for time in (EARLIEST, LATEST)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=twice)])
        answers = (await client.ask(request, 7)).topics[0].partitions
        assert [one.error_code for one in answers] == [ErrorCode.INVALID_REQUEST] * 2

    with_broker(scenario)
