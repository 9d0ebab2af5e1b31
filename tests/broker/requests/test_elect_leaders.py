"""ElectLeaders: when it is answered, and what each version says. The elections themselves are the controller's."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.requests import elect_leaders
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.topic_names import TopicPartition
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from tests.broker.requests.controlled_cluster import ask

PREFERRED, UNCLEAN = 0, 1
FIRST, SECOND = 1, 2
NONE, NOT_NEEDED, TIMED_OUT = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.REQUEST_TIMED_OUT
NOBODY = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ASKED = [TopicPartitions(topic="u", partitions=[0]), TopicPartitions(topic="t", partitions=[1, 0])]


class Stage:
    """A broker that knows of the leaders that the test tells, and a controller that elects at once."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.metadata = clock, MetadataCache()
        self.controller = SimpleNamespace(elect_leaders=self.elect_leaders)
        self.asked: list[tuple[list[TopicPartition] | None, int]] = []
        self.refusal: KafkaError | None = None
        self.tell(T0, SECOND)
        self.tell(T1, FIRST)

    async def elect_leaders(self, asked: list[TopicPartition] | None, election_type: int) -> Any:
        self.asked.append((asked, election_type))
        if self.refusal is not None:
            raise self.refusal
        return {U0: (NOBODY, "nobody is there"), T1: (NOT_NEEDED, "it leads"), T0: (NONE, None)}

    def tell(self, partition: TopicPartition, leader: int) -> None:
        state = UpdateMetadataPartitionState(
            partition_index=partition.partition, leader=leader, replicas=[FIRST, SECOND], isr=[FIRST, SECOND]
        )
        topic = UpdateMetadataTopicState(topic_name=partition.topic, partition_states=[state])
        self.metadata.update(UpdateMetadataRequest(topic_states=[topic]))

    async def elect(self, version: int = 2, **fields: Any) -> tuple[float, int, list[tuple[str, int, int, str | None]]]:
        """Seconds that it took, the error of the whole, and what is said of each partition."""
        began_ms = self.clock.monotonic_ms()
        broker: Any = self
        asked: dict[str, Any] = {"topic_partitions": ASKED, "timeout_ms": 5000}
        answer = await ask(elect_leaders, broker, ElectLeadersRequest(**(asked | fields)), version)
        results = [
            (topic.topic, one.partition_id, one.error_code, one.error_message)
            for topic in answer.replica_election_results
            for one in topic.partition_result
        ]
        return (self.clock.monotonic_ms() - began_ms) / 1000, answer.error_code, results


def with_stage(scenario: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        await scenario(Stage(clock))

    run_virtual(main)


@pytest.mark.parametrize("version", range(3))
def test_it_is_answered_when_the_elected_leaders_are_known_here(version: int) -> None:
    async def scenario(stage: Stage) -> None:
        stage.clock.call_later(1000, lambda: stage.tell(U0, SECOND))
        stage.clock.call_later(2000, lambda: stage.tell(T0, FIRST))
        took, error, results = await stage.elect(version)
        assert (took, error) == (2, NONE)
        assert results == [("t", 0, NONE, None), ("t", 1, NOT_NEEDED, "it leads"), ("u", 0, NOBODY, "nobody is there")]
        assert stage.asked == [([U0, T1, T0], PREFERRED)]

    with_stage(scenario)


def test_where_all_are_asked_for_only_what_had_to_be_done_is_told() -> None:
    async def scenario(stage: Stage) -> None:
        stage.tell(T0, FIRST)
        _, error, results = await stage.elect(topic_partitions=None)
        assert (error, results) == (NONE, [("t", 0, NONE, None), ("u", 0, NOBODY, "nobody is there")])
        assert stage.asked == [(None, PREFERRED)]

    with_stage(scenario)


@pytest.mark.parametrize(("election_type", "leader", "known"), [
    (PREFERRED, FIRST, True), (PREFERRED, SECOND, False), (PREFERRED, -1, False),
    (UNCLEAN, FIRST, True), (UNCLEAN, SECOND, True), (UNCLEAN, -1, False),
])  # fmt: skip
def test_a_leader_that_is_not_known_here_in_time(election_type: int, leader: int, known: bool) -> None:
    """Any will do for an unclean election."""

    async def scenario(stage: Stage) -> None:
        stage.tell(T0, leader)
        took, error, results = await stage.elect(election_type=election_type)
        assert (took, error, results[0][2]) == ((0, NONE, NONE) if known else (5, NONE, TIMED_OUT))
        assert [code for _, _, code, _ in results[1:]] == [NOT_NEEDED, NOBODY]

    with_stage(scenario)


def test_of_several_elections_each_is_told_whether_its_leader_is_known() -> None:
    async def scenario(stage: Stage) -> None:
        async def elect_leaders(*_: object) -> Any:
            return {T0: (NONE, None), T1: (NONE, None), U0: (NONE, None)}

        stage.controller.elect_leaders = elect_leaders
        took, _, results = await stage.elect()
        assert took == 5
        assert [code for _, _, code, _ in results] == [TIMED_OUT, NONE, TIMED_OUT]

    with_stage(scenario)


@pytest.mark.parametrize("version", range(3))
def test_whoever_is_not_the_controller_says_so(version: int) -> None:
    """In version 0, which has no error for the whole, of each partition."""

    async def scenario(stage: Stage) -> None:
        stage.refusal = KafkaError(ErrorCode.NOT_CONTROLLER, "not here")
        told = [("t", 0), ("t", 1), ("u", 0)]
        _, error, results = await stage.elect(version)
        if version == 0:
            assert results == [(*one, ErrorCode.NOT_CONTROLLER, "not here") for one in told]
        else:
            assert (error, results) == (ErrorCode.NOT_CONTROLLER, [])
        _, error, results = await stage.elect(version, topic_partitions=None)
        assert (error, results) == (0 if version == 0 else ErrorCode.NOT_CONTROLLER, [])

    with_stage(scenario)


def test_nobody_is_elected_in_a_way_that_there_is_not() -> None:
    async def scenario(stage: Stage) -> None:
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        _, error, results = await stage.elect(election_type=2)
        assert (error, results) == (unknown, [(*one, unknown, None) for one in (("t", 0), ("t", 1), ("u", 0))])
        _, error, results = await stage.elect(election_type=-1, topic_partitions=None)
        assert (error, results, stage.asked) == (unknown, [], [])

    with_stage(scenario)


def test_an_answer_that_nothing_is_waited_for() -> None:
    async def scenario(stage: Stage) -> None:
        waiting = asyncio.ensure_future(stage.elect(timeout_ms=0))
        took, _, results = await waiting
        assert (took, results[0][2]) == (0, TIMED_OUT)

    with_stage(scenario)
