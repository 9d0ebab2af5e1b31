"""The consumer's engine against scripted brokers: reading, positions, errors."""

import asyncio
import itertools
from typing import Any

import pytest

from odradek.client.consumer.subscription import to_pattern, to_topics
from odradek.client.errors import (
    NoOffsetForPartition,
    UnsupportedByBroker,
)
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsRequest,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from odradek.protocol.records import encode_batch
from tests.client.scripted_consumer import T0, Bench, run


def test_everything_from_the_earliest_is_read_once_and_in_order_whatever_the_broker_refuses(
    scripted_broker: Any,
) -> None:
    async def work(bench: Bench) -> None:
        bench.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR] * 2
        bench.start = 2
        bench.assign()
        assert await bench.read(8) == [b"%d" % number for number in range(2, 10)]

    run(scripted_broker, work, auto_offset_reset="earliest")


@pytest.mark.parametrize("another_leads", [False, True])
def test_a_leader_that_refuses_is_asked_ever_more_seldom_until_another_leads(
    scripted_broker: Any, another_leads: bool
) -> None:
    """KIP-580; a leader that does not know of its office yet would be asked without end, and for metadata with it."""
    asked_ms: list[float] = []

    async def work(bench: Bench) -> None:
        bench.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 7

        def fetch(request: FetchRequest) -> FetchResponse:
            asked_ms.append(bench.clock.monotonic_ms())
            bench.broker.leader_epoch += another_leads
            return bench.fetch(request)

        bench.broker.handlers[FetchRequest] = fetch
        bench.assign()
        assert await bench.read(10) == bench.values

    run(scripted_broker, work, auto_offset_reset="earliest", retry_backoff_ms=100, retry_backoff_max_ms=1000)
    pauses = [round(later - earlier, -2) for earlier, later in itertools.pairwise(asked_ms[:8])]
    assert pauses == ([100] * 7 if another_leads else [100, 200, 400, 800, 1000, 1000, 1000])


def test_a_leader_may_send_more_than_the_high_watermark_that_it_names(scripted_broker: Any) -> None:
    """Kafka notes the high watermark, then reads up to where that has risen meanwhile: good records were damaged."""

    async def work(bench: Bench) -> None:
        def fetch(request: FetchRequest) -> FetchResponse:
            answer = bench.fetch(request)
            one, asked = answer.responses[0].partitions[0], request.topics[0].partitions[0].fetch_offset
            rest = bench.values[asked : asked + 3]
            batches = [encode_batch(asked + at, [0], [None], [value]) for at, value in enumerate(rest)]
            one.records, one.high_watermark = b"".join(batches), asked + 1
            return answer

        bench.broker.handlers[FetchRequest] = fetch
        bench.assign()
        assert await bench.read(10) == bench.values

    run(scripted_broker, work, auto_offset_reset="earliest")


def test_reading_goes_on_after_a_broken_connection(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.assign()
        first = await bench.read(3)
        bench.network.reset("broker")
        assert first + await bench.read(10 - len(first)) == bench.values

    run(scripted_broker, work, auto_offset_reset="earliest")


def test_a_position_that_is_gone_starts_again_where_the_setting_says(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.start = 7
        bench.engine.shared.positions.assign([T0])
        bench.engine.shared.positions.jump(T0, 1)
        bench.cluster.needs.want("t", 0)
        bench.engine.wake()
        assert await bench.read(3) == [b"7", b"8", b"9"]

    run(scripted_broker, work, auto_offset_reset="earliest")


def test_without_a_place_to_start_the_application_is_told(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.assign()
        await bench.read(1)
        assert isinstance(bench.engine.shared.failure, NoOffsetForPartition)
        assert str(bench.engine.shared.failure).startswith("t-0: no committed offset to start from")

    run(scripted_broker, work, auto_offset_reset="none")


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CORRUPT_MESSAGE])
def test_an_error_that_asking_again_does_not_mend_is_told(scripted_broker: Any, code: ErrorCode) -> None:
    async def work(bench: Bench) -> None:
        bench.errors = [code]
        bench.assign()
        await bench.read(1)
        assert isinstance(bench.engine.shared.failure, KafkaError)
        assert bench.engine.shared.failure.code == code

    run(scripted_broker, work, auto_offset_reset="earliest")


def test_a_partition_that_may_start_somewhere_does_not_wait_for_one_that_may_not(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.broker.topics["t"] = 2
        bench.engine.shared.positions.assign([T0, TopicPartition("t", 1)])
        bench.engine.shared.positions.reset(T0, -2)
        bench.cluster.needs.want("t", 0)
        bench.engine.wake()
        await asyncio.sleep(1)
        assert isinstance(bench.engine.shared.failure, NoOffsetForPartition)
        assert bench.engine.shared.positions.partitions[T0].position == 0

    run(scripted_broker, work, auto_offset_reset="none")


def test_what_a_broker_does_not_serve_is_told_and_asked_for_again(scripted_broker: Any) -> None:
    """The partitions of that request were never asked for again."""

    async def work(bench: Bench) -> None:
        served = bench.broker.highest.pop(FetchRequest.API_KEY)
        bench.assign()
        await bench.read(1)
        assert isinstance(bench.engine.shared.take_failure(), UnsupportedByBroker)
        bench.broker.highest[FetchRequest.API_KEY] = served
        bench.network.reset("broker")
        assert await bench.read(10) == bench.values

    run(scripted_broker, work, auto_offset_reset="earliest")


@pytest.mark.parametrize(
    ("code", "pattern"),
    [
        (ErrorCode.LEADER_NOT_AVAILABLE, False),
        (ErrorCode.LEADER_NOT_AVAILABLE, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
    ],
)
def test_a_topic_that_is_being_created_is_asked_for_again_after_the_backoff(
    scripted_broker: Any, code: ErrorCode, pattern: bool
) -> None:
    """It was asked for again after metadata.max.age.ms: such a topic has no partitions, so all of them had leaders."""

    async def work(bench: Bench) -> None:
        coming = [MetadataResponseTopic(name="t", error_code=code)] * 3

        def metadata(request: MetadataRequest) -> MetadataResponse:
            answer: MetadataResponse = bench.broker.metadata()
            if coming:
                answer.topics = [coming.pop()]
            return answer

        bench.broker.handlers[MetadataRequest] = metadata
        bench.engine.subscribe(to_pattern("t") if pattern else to_topics(frozenset({"t"})))
        assert await bench.read(10) == bench.values
        assert bench.clock.monotonic_ms() < 2_000

    run(scripted_broker, work, auto_offset_reset="earliest", retry_backoff_ms=100, metadata_max_age_ms=300_000)


def test_questions_do_not_wait_behind_fetches(scripted_broker: Any) -> None:
    """A broker answers one request of a connection after the other, and a fetch waits there for records."""

    async def work(bench: Bench) -> None:
        connections: dict[int, set[object]] = {}
        answer = bench.broker.answer

        def note(endpoint: object, frame: bytes) -> None:
            connections.setdefault(int.from_bytes(frame[:2], "big"), set()).add(endpoint)
            answer(endpoint, frame)

        bench.broker.answer = note
        bench.assign()
        await bench.read(10)
        fetching = connections[FetchRequest.API_KEY]
        assert len(fetching) == 1
        assert fetching.isdisjoint(connections[MetadataRequest.API_KEY] | connections[ListOffsetsRequest.API_KEY])

    run(scripted_broker, work, auto_offset_reset="earliest")
