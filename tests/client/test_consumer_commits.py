"""Commits of the consumer's engine against scripted brokers: order, refusals, generations."""

import asyncio
from typing import Any

import pytest

from odradek.client.calls import Deadline
from odradek.client.consumer.assignors.by_name import ASSIGNORS
from odradek.client.consumer.commits import Commits
from odradek.client.consumer.group_driver import GroupDriver
from odradek.client.consumer.group_protocol import NOBODY, Identity
from odradek.client.consumer.member_states import FindCoordinator, MemberSettings, State
from odradek.client.consumer.membership import Membership
from odradek.client.errors import (
    ClientTimeout,
    CommitFailed,
    RebalanceInProgress,
)
from odradek.client.records import OffsetAndMetadata
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.client.scripted_consumer import T0, Bench, run


def member(bench: Bench, state: State) -> GroupDriver:
    settings = MemberSettings("g", None, 10_000, 60_000, 3_000, 100, [ASSIGNORS["range"]], False)
    membership = Membership(settings, state=state, topics=frozenset({"t"}), identity=Identity("me", 4))
    return GroupDriver(bench.cluster, membership, lambda: None)


async def commit(bench: Bench, driver: GroupDriver) -> None:
    commits = Commits(driver)
    await commits.commit({T0: OffsetAndMetadata(5)}, bench.engine.deadline("committing"), commits.stand_in_line())


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
            commits = Commits(driver)
            await commits.commit({T0: OffsetAndMetadata(5)}, deadline, commits.stand_in_line())
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
            place = commits.stand_in_line()
            work = commits.commit({T0: OffsetAndMetadata(offset)}, deadline, place)
            commits.follow(asyncio.ensure_future(work), place)
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


@pytest.mark.parametrize(("member_id", "instance_id"), [("me", "i"), ("", None)])
def test_who_is_no_member_commits_without_the_name_of_one(
    scripted_broker: Any, member_id: str, instance_id: str | None
) -> None:
    """A consumer by assign, with group.instance.id, was taken for the group's static member of that name."""

    async def work(bench: Bench) -> None:
        settings = MemberSettings("g", "i", 10_000, 60_000, 3_000, 100, [ASSIGNORS["range"]], False)
        identity = Identity(member_id, 4) if member_id else NOBODY
        topics = frozenset({"t"}) if member_id else frozenset()
        membership = Membership(settings, state=State.STABLE, topics=topics, identity=identity)
        await commit(bench, GroupDriver(bench.cluster, membership, lambda: None))
        (request,) = bench.broker.requests(OffsetCommitRequest)
        assert request.group_instance_id == instance_id

    run(scripted_broker, work, group_id="g")
