"""Requests for very many partitions are served in slices of time: whoever asks for little is answered in between."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.broker.network.outcomes import RequestContext
from odradek.broker.replication import fetch_reading
from odradek.broker.requests import dispatch, fetch, update_metadata
from odradek.protocol import codec
from odradek.protocol.codec import encode
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.update_metadata import (
    TYPE_FULL,
    TYPE_INCREMENTAL,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.primitives import Part
from odradek.protocol.records import encode_batch
from odradek.testing.askers import ABSENT, PARTITIONS, T0, Asker, produce, with_topic

pytestmark = pytest.mark.usefixtures("slow_machine")


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than two partitions are served at once."""
    for few in (fetch, fetch_reading):
        monkeypatch.setattr(few, "AT_ONCE", 2)


def fetch_all(offset: int, **request: Any) -> FetchRequest:
    asked = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20) for index in range(ABSENT + 1)
    ]
    defaults = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    return FetchRequest(topics=[FetchTopic(topic="t", partitions=asked)], **(defaults | request))


def sizes(response: Any) -> list[int]:
    """Sizes of the records of each partition; negative: the error."""
    answers = response.responses[0].partitions
    return [-answer.error_code or len(answer.records) for answer in answers]


def test_offsets_by_time() -> None:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=T0 + 1) for index in range(ABSENT + 1)]

    async def scenario(asker: Asker) -> None:
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])
        answers = (await asker.ask_beside(request, 7)).topics[0].partitions
        assert [answer.partition_index for answer in answers] == [*range(ABSENT + 1)]
        assert [answer.offset for answer in answers] == [-1] + [0] * (PARTITIONS - 1) + [-1]
        assert answers[ABSENT].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_topic(scenario)


def test_markers_of_transactions() -> None:
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[*range(ABSENT + 1)])]
    marker = WritableTxnMarker(
        producer_id=1, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0
    )

    async def scenario(asker: Asker) -> None:
        response = await asker.ask_beside(WriteTxnMarkersRequest(markers=[marker]), 1)
        answers = response.markers[0].topics[0].partitions
        assert [answer.partition_index for answer in answers] == [*range(ABSENT + 1)]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * PARTITIONS + [unknown]
        assert {asker.partition(index).high_watermark for index in range(PARTITIONS)} == {2}

    with_topic(scenario)


@pytest.mark.parametrize("version", [3, 11])
@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_fetch(version: int, session_epoch: int) -> None:
    async def scenario(asker: Asker) -> None:
        response = await asker.ask_beside(fetch_all(0, session_epoch=session_epoch), version)
        size = sizes(response)[0]
        assert size > 0 and sizes(response) == [size] * PARTITIONS + [-ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        limit = 3 * len(encode_batch(0, [T0], [None], [b"v"]))
        response = await asker.ask(fetch_all(0, max_bytes=limit), version)
        assert sizes(response)[:ABSENT] == [size] * 3 + [0] * (PARTITIONS - 3), "one limit for all slices"
        response = await asker.ask(fetch_all(1), version)
        assert sizes(response)[:ABSENT] == [0] * PARTITIONS

    with_topic(scenario)


def test_a_fetch_that_waits() -> None:
    async def scenario(asker: Asker) -> None:
        request = fetch_all(1, max_wait_ms=10_000)
        del request.topics[0].partitions[ABSENT:]
        waiting = asyncio.ensure_future(asker.ask(request, 11))
        await asyncio.sleep(1.0)
        assert not waiting.done()
        await asker.ask_other(produce(5), 9)
        assert [index for index, size in enumerate(sizes(await waiting)) if size] == [5]

    with_topic(scenario)


def test_what_comes_while_a_session_begins_is_in_its_next_fetch() -> None:
    """The partition was read in vain already when the record came, and is not answered yet."""

    async def scenario(asker: Asker) -> None:
        partition = asker.partition(0)
        read_before = partition.counters.fetch_requests
        first = asyncio.ensure_future(asker.ask(fetch_all(1, session_epoch=0), 11))
        while partition.counters.fetch_requests == read_before:
            await asyncio.sleep(0.0001)
        await asker.ask_other(produce(0), 9)
        assert not first.done()
        began = await first
        assert sizes(began)[0] == 0
        fetch_next = FetchRequest(
            replica_id=-1, max_wait_ms=200, min_bytes=1, max_bytes=1 << 20,
            session_id=began.session_id, session_epoch=1, topics=[],
        )  # fmt: skip
        answers = (await asker.ask(fetch_next, 11)).responses[0].partitions
        assert (answers[0].partition_index, answers[0].high_watermark) == (0, 2) and answers[0].records

    with_topic(scenario)


def test_metadata_of_all_topics() -> None:
    async def scenario(asker: Asker) -> None:
        answer = await asker.ask_beside(MetadataRequest(topics=None), 12)
        (topic,) = answer.topics
        assert (topic.name, topic.error_code) == ("t", ErrorCode.NONE)
        assert [(one.partition_index, one.leader_id) for one in topic.partitions] == [(i, 0) for i in range(PARTITIONS)]
        made = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
        await asker.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)
        asked = asyncio.ensure_future(asker.ask(MetadataRequest(topics=None), 12))
        await asyncio.sleep(0.004)
        assert not asked.done()
        deleted = asker.cluster.brokers[0].server.services.metadata.topics.pop("u")
        assert deleted and [topic.name for topic in (await asked).topics] == ["t"], "it is told as it is by then"

    with_topic(scenario)


def test_a_long_answer_is_encoded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What had been told in slices was then encoded in one piece: 20 ms for 10,000 partitions."""
    steps_at: list[float] = []
    encode_all = codec.encode_in_steps

    def noted(response: Message, version: int, parts: list[Part]) -> Iterator[None]:
        for _ in encode_all(response, version, parts):
            if isinstance(response, MetadataResponse):
                steps_at.append(asyncio.get_running_loop().time())
            yield

    monkeypatch.setattr(dispatch, "encode_in_steps", noted)

    async def scenario(asker: Asker) -> None:
        (topic,) = (await asker.ask(MetadataRequest(topics=None), 12)).topics
        assert len(topic.partitions) == PARTITIONS
        assert len(steps_at) == PARTITIONS + 2, "each partition, their topic, a broker"
        assert len(set(steps_at)) == len(steps_at), "the loop has gone on between any two"

    with_topic(scenario)


def test_metadata_of_a_topic_with_many_partitions() -> None:
    async def scenario(asker: Asker) -> None:
        asked = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="u")]
        answer = await asker.ask_beside(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 12)
        known, made = answer.topics
        assert (known.name, known.error_code) == ("t", ErrorCode.NONE)
        assert [(one.partition_index, one.leader_id) for one in known.partitions] == [(i, 0) for i in range(PARTITIONS)]
        assert (made.name, made.error_code) == ("u", ErrorCode.LEADER_NOT_AVAILABLE), "it is created all the same"

    with_topic(scenario)


# UpdateMetadata: a large one is decoded in slices, and seen whole or not at all.


def metadata_update(asker: Asker, leader_epoch: int, topics: tuple[str, ...], **fields: Any) -> UpdateMetadataRequest:
    """Make the first request of the next controller, with all partitions of `topics` in this leader epoch."""
    endpoint = UpdateMetadataEndpoint(port=asker.cluster.port, host="broker-0", listener="PLAINTEXT")
    states = [
        UpdateMetadataPartitionState(partition_index=index, leader_epoch=leader_epoch, replicas=[0], isr=[0])
        for index in range(PARTITIONS)
    ]
    request = UpdateMetadataRequest(
        type=TYPE_FULL,
        controller_epoch=asker.cluster.brokers[0].server.services.controller_requests.controller_epoch + 1,
        topic_states=[UpdateMetadataTopicState(topic_name=name, partition_states=states) for name in topics],
        live_brokers=[UpdateMetadataBroker(id=0, endpoints=[endpoint])],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def known_of_both(asker: Asker) -> set[tuple[str, int]]:
    """Leader epochs that the partitions of the topics t and u have, as any handler would find them now."""
    topics = asker.cluster.brokers[0].server.services.metadata.topics
    return {(topic, one.leader_epoch) for topic in "tu" for one in topics.get(topic, {}).values()}


@pytest.fixture
def any_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_metadata, "LARGE_BYTES", 200)


@pytest.mark.usefixtures("any_is_large")
def test_a_large_update_of_the_metadata_is_seen_whole_or_not_at_all() -> None:
    async def scenario(asker: Asker) -> None:
        updated = asyncio.ensure_future(asker.ask(metadata_update(asker, 7, ("t", "u")), 8))
        seen = [known_of_both(asker)]
        while not updated.done():
            await asker.ask_other(MetadataRequest(topics=[]), 7)
            seen.append(known_of_both(asker))
        assert (await updated).error_code == ErrorCode.NONE
        assert seen.count({("t", 0)}) > 2, "others are answered meanwhile, as it was"
        assert all(one in ({("t", 0)}, {("t", 7), ("u", 7)}) for one in seen)
        assert known_of_both(asker) == {("t", 7), ("u", 7)}

    with_topic(scenario)


@pytest.mark.usefixtures("any_is_large")
def test_a_controller_deposed_while_its_metadata_are_decoded_changes_nothing() -> None:
    async def scenario(asker: Asker) -> None:
        request = metadata_update(asker, 7, ("t", "u"))
        updated = asyncio.ensure_future(asker.ask(request, 8))
        await asker.ask_other(MetadataRequest(topics=[]), 7)
        newer = LeaderAndIsrRequest(controller_epoch=request.controller_epoch + 1)
        assert (await asker.ask_other(newer, 7)).error_code == ErrorCode.NONE
        assert not updated.done()
        assert (await updated).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert known_of_both(asker) == {("t", 0)}

    with_topic(scenario)


@pytest.mark.usefixtures("any_is_large")
def test_a_large_update_whose_connection_broke_does_not_undo_a_later_one() -> None:
    """Its sender sends it again, and then what is newer: neither comes before the first has ended."""

    async def scenario(asker: Asker) -> None:
        first = metadata_update(asker, 7, ("t", "u"))
        lost = asyncio.ensure_future(asker.ask(first, 8))
        await asker.ask_other(MetadataRequest(topics=[]), 7)
        assert known_of_both(asker) == {("t", 0)} and not lost.done()
        asker.close_one()
        with pytest.raises(OSError, match="closed here"):
            await lost
        later = metadata_update(asker, 8, ("u",), type=TYPE_INCREMENTAL, controller_epoch=first.controller_epoch)
        later.topic_states[0].partition_states[1:] = []
        assert len(encode(later, 8)) < update_metadata.LARGE_BYTES
        assert (await asker.ask_other(later, 8)).error_code == ErrorCode.NONE
        for _ in range(3):
            assert known_of_both(asker) == {("t", 7), ("u", 7), ("u", 8)}
            await asyncio.sleep(1.0)

    with_topic(scenario)


@pytest.mark.usefixtures("any_is_large")
def test_a_large_update_that_cannot_be_decoded_changes_nothing_and_holds_up_nobody() -> None:
    async def scenario(asker: Asker) -> None:
        services = asker.cluster.brokers[0].server.services
        whole = encode(metadata_update(asker, 7, ("t", "u")), 8)
        cut, _ = update_metadata.decoder(UpdateMetadataRequest, 8)(whole[:-1], 0)
        outcome: Any = update_metadata.handle(services, cut, RequestContext(8, "controller", "broker-0:1", "PLAINTEXT"))
        with pytest.raises(MalformedMessage):
            await outcome
        assert not services.controller_requests.metadata_in_turn.locked()
        assert known_of_both(asker) == {("t", 0)}

    with_topic(scenario)
