"""The consumer's engine and its commits against a scripted broker, on virtual time."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.config import load
from odradek.client.consumer.assignors import ASSIGNORS
from odradek.client.consumer.buffer import RecordBuffer
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.coordinator import Commits, GroupDriver
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.group_protocol import Identity
from odradek.client.consumer.member_states import FindCoordinator, MemberSettings, State
from odradek.client.consumer.membership import Membership
from odradek.client.consumer.subscription import to_pattern, to_topics
from odradek.client.errors import (
    ClientTimeout,
    CommitFailed,
    NoOffsetForPartition,
    RebalanceInProgress,
    UnsupportedByBroker,
)
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.records import encode_batch
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

T0 = TopicPartition("t", 0)


class Bench:
    """One engine reading a log of `values`, of which the first `start` are gone."""

    def __init__(self, clock: VirtualClock, scripted_broker: Any, **settings: object) -> None:
        self.clock = clock
        self.network = VirtualNetwork(clock)
        self.broker = scripted_broker(self.network)
        self.values: list[bytes] = [b"%d" % number for number in range(10)]
        self.start = 0
        self.errors: list[ErrorCode] = []
        self.commit_error = ErrorCode.NONE
        self.broker.handlers |= {
            FetchRequest: self.fetch,
            ListOffsetsRequest: self.list_offsets,
            FindCoordinatorRequest: self.find_coordinator,
            OffsetCommitRequest: self.commit,
        }
        config = load(ConsumerSettings, None, {"bootstrap_servers": "broker:9092", "client_id": "c", **settings})
        self.cluster = Cluster(self.network.host("client"), clock, random.Random(0), config)
        self.engine = ConsumerEngine(self.cluster, config)
        self.buffer = RecordBuffer(self.engine.shared, config, None, None)
        self.running = asyncio.ensure_future(self.engine.run())

    def fetch(self, request: FetchRequest) -> FetchResponse:
        asked = request.topics[0].partitions[0].fetch_offset
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if error == ErrorCode.NONE and not self.start <= asked <= len(self.values):
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        rest = self.values[asked : asked + 3] if error == ErrorCode.NONE else []
        records = bytes(encode_batch(asked, [0] * len(rest), [None] * len(rest), rest)) if rest else b""
        data = PartitionData(partition_index=0, error_code=error, records=records, aborted_transactions=None)
        topic = request.topics[0]
        answer = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[data])
        return FetchResponse(responses=[answer])

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        wanted = request.topics[0].partitions[0].timestamp
        offset = self.start if wanted == -2 else len(self.values)
        one = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])

    def find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=0, host="broker", port=9092)])

    def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        one = OffsetCommitResponsePartition(partition_index=0, error_code=self.commit_error)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[one])])

    def assign(self) -> None:
        self.engine.shared.positions.assign([T0])
        self.cluster.needs.want("t", self.clock.monotonic_ms())
        self.engine.wake()

    async def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count and self.engine.shared.failure is None:
            await asyncio.sleep(0.01)
            found += [record.value for records in self.buffer.take(100).values() for record in records]
            self.engine.wake()
        return found

    async def close(self) -> None:
        self.engine.stop()
        await self.running
        self.cluster.close()


def run(scripted_broker: Any, work: Callable[[Bench], Coroutine[Any, Any, None]], **settings: object) -> Bench:
    async def main(clock: VirtualClock) -> Bench:
        bench = Bench(clock, scripted_broker, **settings)
        await work(bench)
        await bench.close()
        return bench

    return run_virtual(main)


def test_everything_from_the_earliest_is_read_once_and_in_order_whatever_the_broker_refuses(
    scripted_broker: Any,
) -> None:
    async def work(bench: Bench) -> None:
        bench.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR] * 2
        bench.start = 2
        bench.assign()
        assert await bench.read(8) == [b"%d" % number for number in range(2, 10)]

    run(scripted_broker, work, auto_offset_reset="earliest")


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


def member(bench: Bench, state: State) -> GroupDriver:
    settings = MemberSettings("g", None, 10_000, 60_000, 3_000, 100, [ASSIGNORS["range"]], False)
    membership = Membership(settings, state=state, topics=frozenset({"t"}), identity=Identity("me", 4))
    return GroupDriver(bench.cluster, membership, lambda: None)


async def commit(bench: Bench, driver: GroupDriver) -> None:
    await Commits(driver).commit({T0: OffsetAndMetadata(5)}, bench.engine.deadline("committing"))


def test_a_commit_carries_the_membership_and_a_refusal_of_it_means_to_join_anew(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        driver = member(bench, State.STABLE)
        await commit(bench, driver)
        (request,) = bench.broker.requests(OffsetCommitRequest)
        assert (request.member_id, request.generation_id_or_member_epoch) == ("me", 4)
        bench.commit_error = ErrorCode.UNKNOWN_MEMBER_ID
        with pytest.raises(CommitFailed, match="group g: offsets not committed"):
            await commit(bench, driver)
        assert driver.membership.state == State.OUTSIDE

    run(scripted_broker, work, group_id="g")


def test_a_commit_that_a_rebalance_refuses_may_be_asked_for_again(scripted_broker: Any) -> None:
    """It was the same error as for partitions that are others' now, although most of them stay where they are."""

    async def work(bench: Bench) -> None:
        bench.commit_error = ErrorCode.REBALANCE_IN_PROGRESS
        with pytest.raises(RebalanceInProgress):
            await commit(bench, member(bench, State.STABLE))

    run(scripted_broker, work, group_id="g")


def test_of_several_errors_of_a_commit_the_one_that_nothing_mends_is_told(scripted_broker: Any) -> None:
    """Only the first one counted: the commit was tried again until its time was over."""

    async def work(bench: Bench) -> None:
        errors = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        partitions = [OffsetCommitResponsePartition(partition_index=0, error_code=error) for error in errors]
        answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])
        bench.broker.handlers[OffsetCommitRequest] = lambda _: answer
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await commit(bench, member(bench, State.STABLE))
        assert len(bench.broker.requests(OffsetCommitRequest)) == 1

    run(scripted_broker, work, group_id="g")


def test_a_refusal_of_a_generation_that_is_gone_does_not_harm_the_present_one(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        driver = member(bench, State.STABLE)

        def moved_on(request: OffsetCommitRequest) -> OffsetCommitResponse:
            driver.membership.identity = Identity("me", 5)
            return bench.commit(request)

        bench.commit_error = ErrorCode.ILLEGAL_GENERATION
        bench.broker.handlers[OffsetCommitRequest] = moved_on
        with pytest.raises(CommitFailed):
            await commit(bench, driver)
        assert (driver.membership.state, driver.membership.identity) == (State.STABLE, Identity("me", 5))

    run(scripted_broker, work, group_id="g")


def test_between_generations_nothing_is_committed(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        with pytest.raises(RebalanceInProgress, match="the group is being rebalanced") as raised:
            await commit(bench, member(bench, State.JOINING))
        assert raised.value.retriable and not isinstance(raised.value, CommitFailed)
        assert bench.broker.requests(OffsetCommitRequest) == []

    run(scripted_broker, work, group_id="g")


def test_a_coordinator_that_a_commit_found_gone_is_looked_for_before_the_next_heartbeat(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        driver = member(bench, State.STABLE)
        driver.membership.coordinator_found()
        bench.commit_error = ErrorCode.NOT_COORDINATOR
        with pytest.raises(ClientTimeout):
            deadline = Deadline(bench.cluster, 50, "committing", "a test")
            await Commits(driver).commit({T0: OffsetAndMetadata(5)}, deadline)
        driver.membership.polled(bench.clock.monotonic_ms())
        assert isinstance(driver.membership.next_step(bench.clock.monotonic_ms()), FindCoordinator)

    run(scripted_broker, work, group_id="g")


def test_commits_are_not_overtaken_by_later_ones(scripted_broker: Any) -> None:
    """The first one was tried again after the second had got through, and took the group back."""

    async def work(bench: Bench) -> None:
        commits = Commits(member(bench, State.STABLE))
        errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE, ErrorCode.NONE]

        def answer(request: OffsetCommitRequest) -> OffsetCommitResponse:
            bench.commit_error = errors.pop(0)
            return bench.commit(request)

        bench.broker.handlers[OffsetCommitRequest] = answer
        deadline = bench.engine.deadline("committing")
        for offset in (5, 9):
            commits.follow(asyncio.ensure_future(commits.commit({T0: OffsetAndMetadata(offset)}, deadline)))
        await commits.settle(10_000)
        sent = [one.topics[0].partitions[0].committed_offset for one in bench.broker.requests(OffsetCommitRequest)]
        assert sent == [5, 5, 9]

    run(scripted_broker, work, group_id="g")


def test_a_commit_is_not_tried_again_in_the_name_of_a_later_generation(scripted_broker: Any) -> None:
    """By then its partitions may belong to somebody else, who has committed there too: it took that one back."""

    async def work(bench: Bench) -> None:
        driver = member(bench, State.STABLE)

        def rebalanced(request: OffsetCommitRequest) -> OffsetCommitResponse:
            driver.membership.identity = Identity("me", 5)
            return bench.commit(request)

        bench.commit_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        bench.broker.handlers[OffsetCommitRequest] = rebalanced
        with pytest.raises(CommitFailed, match="rebalanced meanwhile"):
            await commit(bench, driver)
        assert len(bench.broker.requests(OffsetCommitRequest)) == 1

    run(scripted_broker, work, group_id="g")


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
