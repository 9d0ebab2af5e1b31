"""Fetch sessions of consumers: with the brokers' cache of them, and of whole consumers (KIP-227)."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.aio import Admin, Consumer, Producer
from odradek.broker.cluster.metadata_cache import TopicNames
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.fetch_sessions import FetchSessionCache
from odradek.client.admin.values import NewTopic
from odradek.client.config import load
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.fetch_requests import LAST_VERSION_WITH_NAMES, Asked, FetchCall, out_of_step, plan_fetches
from odradek.client.consumer.positions import Positions
from odradek.client.metadata import ClusterView, Node, PartitionInfo, TopicInfo
from odradek.client.records import TopicPartition
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fetch_session import FINAL_EPOCH, FetchSessionHandler
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.primitives import ZERO_UUID
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import ManualClock, VirtualClock, run_virtual

NODE = 1
NEWEST = FetchRequest.VERSIONS[1]
PLACES = [TopicPartition(topic, number) for topic in ("t", "u") for number in range(3)]
SETTINGS = load(ConsumerSettings, None, {"bootstrap_servers": "b:1"})
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("jump"), st.sampled_from(PLACES), st.integers(0, 3)),
        st.tuples(st.just("pause"), st.sampled_from(PLACES), st.booleans()),
        st.tuples(st.just("assign"), st.sets(st.sampled_from(PLACES)), st.none()),
        st.tuples(st.just("topic"), st.sampled_from(["t", "u"]), st.integers(0, 2)),
        st.tuples(st.just("elect"), st.integers(0, 2), st.none()),
        st.tuples(st.just("evict"), st.none(), st.none()),
        st.tuples(st.just("lose"), st.booleans(), st.none()),
    ),
    max_size=12,
)


class TwoSides:
    """A consumer's plan of fetches from one broker, and that broker's cache of sessions."""

    def __init__(self, newest: int) -> None:
        self.newest = newest
        self.positions = Positions()
        self.sessions: dict[int, FetchSessionHandler[TopicPartition, Asked]] = {}
        self.ids = {"t": b"t" * 16, "u": b"u" * 16}
        self.leader_epoch = 0
        self.evict(None, None)
        self.assign(set(PLACES), None)

    def jump(self, place: TopicPartition, offset: int) -> None:
        if place in self.positions.partitions:
            self.positions.jump(place, offset)

    def pause(self, place: TopicPartition, paused: bool) -> None:
        if place in self.positions.partitions:
            self.positions.partitions[place].paused = paused

    def assign(self, places: set[TopicPartition], _: None) -> None:
        self.positions.assign(sorted(places))
        for place in places:
            self.positions.jump(place, 0)

    def topic(self, name: str, number: int) -> None:
        """Make the topic anew, or (0) as one of a cluster without ids."""
        self.ids[name] = f"{name}{number}".encode().ljust(16) if number else ZERO_UUID

    def elect(self, epoch: int, _: None) -> None:
        self.leader_epoch = epoch

    def evict(self, _: None, __: None) -> None:
        self.cache = FetchSessionCache(3, random.Random(1), Purgatory(TimingWheel(ManualClock())))

    def lose(self, before_the_broker: bool, _: None) -> None:
        """Lose a request, or its answer."""
        if (call := self.planned()) is not None:
            if not before_the_broker:
                self.take_in(call)
            self.sessions[NODE].begin_anew()

    def planned(self) -> FetchCall | None:
        partitions = {
            name: tuple(
                PartitionInfo(name, number, NODE, self.leader_epoch, (NODE,), (NODE,), (), ErrorCode.NONE)
                for number in range(3)
            )
            for name in self.ids
        }
        topics = {name: TopicInfo(name, self.ids[name], False, partitions[name]) for name in self.ids}
        view = ClusterView("c", NODE, {NODE: Node(NODE, "h", 1)}, topics)
        calls = plan_fetches(self.positions, {}, view, self.sessions, set(), SETTINGS, 0)
        return calls[0] if calls else None

    def take_in(self, call: FetchCall) -> Any:
        """Let the broker have a request, as it is on the wire."""
        version = self.newest if call.highest_version is None else call.highest_version
        request = decode(FetchRequest, version, encode(call.request, version))
        names = TopicNames(dict(self.ids), {one: name for name, one in self.ids.items() if one != ZERO_UUID})
        return self.cache.open(request, version, names, 0.0)

    def fetch(self) -> None:
        """Fetch once, and once more in full if the broker knows nothing of the session: then it fetches the same."""
        call = self.planned()
        if call is None:
            return
        opened = self.take_in(call)
        if opened.error:
            assert not call.names_all, opened.error
            self.sessions[NODE].refused(opened.error)
            call = self.planned()
            assert call is not None and call.names_all
            opened = self.take_in(call)
        assert opened.error == ErrorCode.NONE
        self.sessions[NODE].answered(opened.session.id)
        by_id = call.highest_version is None and self.newest == NEWEST
        for place in call.asked:
            self.positions.partitions[place].high_watermark = 0
        assert {
            (one.topic, one.index): (one.fetch_offset, one.leader_epoch, by_id and one.topic_id)
            for one in self.cache.partitions(opened.session.id)
        } == {
            place: (asked.offset, asked.leader_epoch, by_id and asked.topic_id) for place, asked in call.asked.items()
        }


@given(STEPS, st.sampled_from([NEWEST, LAST_VERSION_WITH_NAMES]))
@settings(max_examples=120, deadline=None)
def test_a_broker_fetches_in_a_session_what_is_wanted_whatever_has_happened(
    steps: list[tuple[str, Any, Any]], newest: int
) -> None:
    """Kafka 2.8 and 3.0 tell ids of topics and know Fetch up to version 12, by names."""
    both = TwoSides(newest)
    both.fetch()
    for name, first, second in steps:
        getattr(both, name)(first, second)
        both.fetch()


def test_a_partition_goes_to_its_new_leader_though_the_former_does_not_answer() -> None:
    positions, sessions = Positions(), dict[int, FetchSessionHandler[TopicPartition, Asked]]()
    stays, moves = PLACES[:2]
    positions.assign([stays, moves])
    for place in (stays, moves):
        positions.jump(place, 0)

    def planned(leader: int, full: tuple[TopicPartition, ...], asking: set[int]) -> dict[int, set[TopicPartition]]:
        partitions = tuple(
            PartitionInfo("t", number, one, 0, (1, 2), (1, 2), (), ErrorCode.NONE)
            for number, one in enumerate((1, leader))
        )
        nodes = {number: Node(number, "h", number) for number in (1, 2)}
        view = ClusterView("c", 1, nodes, {"t": TopicInfo("t", b"t" * 16, False, partitions)})
        chunks = {place: range(9) for place in full}
        return {
            one.node_id: set(one.asked) for one in plan_fetches(positions, chunks, view, sessions, asking, SETTINGS, 0)
        }

    assert planned(1, (), set()) == {1: {stays, moves}}
    assert planned(1, (moves,), set()) == {1: {stays}}
    assert planned(2, (), {1}) == {2: {moves}}


def test_an_answer_that_a_quota_empties_is_in_step() -> None:
    both = TwoSides(NEWEST)
    call = both.planned()
    assert call is not None
    answer = FetchResponse(error_code=0, session_id=0, responses=[])
    assert out_of_step(call, answer, {}) == "6 partitions are missing in the answer"
    answer.throttle_time_ms = 100
    assert out_of_step(call, answer, {}) == ""


def play(work: Callable[[EmbeddedCluster, list[FetchRequest], Consumer, Producer], Awaitable[None]]) -> None:
    """Let a consumer and a producer work with one broker, whose topic "t" has 20 partitions; its Fetches are noted."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            world: dict[str, Any] = {
                "network": cluster.network.host("client"),
                "clock": clock,
                "bootstrap_servers": "broker-0:9092",
            }
            async with Admin(**world) as admin:
                await admin.create_topics([NewTopic("t", 20, 1)])
            consumer = Consumer(auto_offset_reset="earliest", **world)
            async with Producer(**world) as producer, consumer:
                consumer.assign([TopicPartition("t", number) for number in range(20)])
                await work(cluster, noted(cluster), consumer, producer)

    run_virtual(main)


def noted(cluster: EmbeddedCluster) -> list[FetchRequest]:
    """Note each Fetch that the broker's sessions get."""
    cache, requests = cluster.brokers[0].server.services.fetch_sessions, list[FetchRequest]()
    opened = cache.open

    def noting(request: FetchRequest, *rest: Any) -> Any:
        requests.append(request)
        return opened(request, *rest)

    setattr(cache, "open", noting)  # noqa: B010
    return requests


async def value(consumer: Consumer) -> bytes | None:
    record = await consumer.getone(3_000)
    return None if record is None else record.value


def test_an_idle_consumer_names_nothing_and_ends_its_session() -> None:
    async def work(
        cluster: EmbeddedCluster, requests: list[FetchRequest], consumer: Consumer, producer: Producer
    ) -> None:
        sessions = cluster.brokers[0].server.services.fetch_sessions
        assert await value(consumer) is None
        assert requests[0].session_epoch == 0 and len(requests[0].topics[0].partitions) == 20
        assert len(requests) > 3 and not any(one.topics or one.forgotten_topics_data for one in requests[1:])
        del requests[:]
        await (await producer.send("t", b"one", partition=7))
        assert await value(consumer) == b"one"
        assert await value(consumer) is None
        named = [one.partition for request in requests for topic in request.topics for one in topic.partitions]
        assert named == [7]
        places = sorted(consumer.assignment())
        consumer.pause(*places[:19])
        assert await value(consumer) is None
        assert len(sessions.partitions(requests[-1].session_id)) == 1
        consumer.resume(places[3])
        assert await value(consumer) is None
        assert len(sessions.partitions(requests[-1].session_id)) == 2 and len(sessions) == 1
        await consumer.close()
        assert requests[-1].session_epoch == FINAL_EPOCH and len(sessions) == 0

    play(work)


def test_a_broker_that_has_forgotten_the_session_is_told_everything_at_once() -> None:
    async def work(
        cluster: EmbeddedCluster, requests: list[FetchRequest], consumer: Consumer, producer: Producer
    ) -> None:
        assert await value(consumer) is None
        sessions = cluster.brokers[0].server.services.fetch_sessions._sessions
        for one in list(sessions):
            sessions.pop(one).end()
        del requests[:]
        await (await producer.send("t", b"one", partition=1))
        assert await value(consumer) == b"one"
        refused, begun = requests[:2]
        assert refused.session_epoch > 0 and not refused.topics
        assert begun.session_epoch == 0 and len(begun.topics[0].partitions) == 20

    play(work)


def test_after_the_death_of_a_broker_everything_is_told_anew() -> None:
    async def work(
        cluster: EmbeddedCluster, requests: list[FetchRequest], consumer: Consumer, producer: Producer
    ) -> None:
        assert await value(consumer) is None
        cluster.brokers[0].kill()
        assert await value(consumer) is None
        await cluster.brokers[0].start()
        requests = noted(cluster)
        await (await producer.send("t", b"one", partition=1))
        assert await value(consumer) == b"one"
        assert requests[0].session_epoch == 0 and len(requests[0].topics[0].partitions) == 20
        assert await value(consumer) is None
        assert requests[-1].session_epoch > 0

    play(work)


def test_the_logs_end_is_told_again_to_who_gets_the_partition_back() -> None:
    async def work(_: EmbeddedCluster, __: list[FetchRequest], consumer: Consumer, producer: Producer) -> None:
        place = TopicPartition("t", 3)
        await (await producer.send("t", b"one", partition=3))
        assert await value(consumer) == b"one" and consumer.highwater(place) == 1
        everything = sorted(consumer.assignment())
        consumer.assign([])
        consumer.assign(everything)
        consumer.seek(place, 1)
        assert await value(consumer) is None
        assert [consumer.highwater(one) for one in everything] == [int(one == place) for one in everything]

    play(work)
