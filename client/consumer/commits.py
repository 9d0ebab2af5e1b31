"""Commits of a consumer that is, or may be, a member of a group.

They are sent in the order in which they were asked for, and only as the member that asked for them.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odradek.client.calls import COORDINATOR_CONNECTION, Deadline, ask_until
from odradek.client.consumer.group_driver import GroupDriver
from odradek.client.consumer.group_protocol import Identity
from odradek.client.consumer.member_states import OUTCOMES, Outcome, outcome_of
from odradek.client.errors import BrokerUnreachable, CommitFailed, RebalanceInProgress
from odradek.client.offsets import commit_errors, commit_request
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.offset_commit import OffsetCommitResponse

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(eq=False, slots=True)
class Place:
    """Place of a commit in the line, and the member's identity when the commit was asked for."""

    identity: Identity
    turn: "asyncio.Future[None]"


class Commits:
    """Commits of one consumer. For the loop's thread only.

    They are sent in the order in which they were asked for, whether somebody waits for them or not. A commit that has
    to be repeated holds up those behind it: if a later one overtook it, the repetition would take the group back. For
    the same reason a commit fails when the membership in which it was asked for has ended: by the time it succeeded,
    another member might own the partitions and have committed further offsets.
    """

    def __init__(self, group: GroupDriver, committed: Callable[[Offsets], object] = lambda offsets: None) -> None:
        """`committed(offsets)` is called after each commit that has succeeded."""
        self._group, self._committed = group, committed
        self._line: dict[Place, None] = {}
        """Commits that have not ended yet; it is the turn of the first one."""
        self._unanswered: set[asyncio.Task[None]] = set()

    def stand_in_line(self) -> Place:
        """Take the last place, with the member's present identity. Whoever takes a place must leave it in the end."""
        place = Place(self._group.membership.identity, asyncio.get_running_loop().create_future())
        self._line[place] = None
        self._call_the_first()
        return place

    def leave_line(self, place: Place) -> None:
        """Give up a place, so that the next commit has its turn. Calling it again does nothing."""
        self._line.pop(place, None)
        self._call_the_first()

    def _call_the_first(self) -> None:
        first = next(iter(self._line), None)
        if first is not None and not first.turn.done():
            first.turn.set_result(None)

    async def commit(self, offsets: Offsets, deadline: Deadline, place: Place, *, automatic: bool = False) -> None:
        """Commit when it is the turn of `place`. Raises CommitFailed, KafkaError, ClientTimeout.

        An `automatic` commit is not repeated for a partition that is gone: the rebalance that follows waits for it.
        """
        await place.turn
        while offsets:
            self._check(place.identity)
            failure = await self._try(offsets, place.identity, deadline)
            if failure is None:
                self._committed(offsets)
                return
            if automatic and failure.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._gone(offsets):
                raise failure
            await deadline.pause_after(failure)

    def _gone(self, offsets: Offsets) -> bool:
        """Tell whether the metadata lack one of these partitions."""
        view = self._group.cluster.view
        return any(view.partition(topic_partition) is None for topic_partition in offsets)

    def follow(self, task: "asyncio.Task[None]", place: Place) -> None:
        """Keep an asynchronous commit, for `settle` to wait for; its place is left when the task ends."""
        self._unanswered.add(task)
        task.add_done_callback(self._unanswered.discard)
        task.add_done_callback(lambda _: self.leave_line(place))

    async def settle(self, timeout_ms: float) -> None:
        """Wait for the asynchronous commits that are not answered yet, for at most `timeout_ms`."""
        if self._unanswered:
            await asyncio.wait(self._unanswered, timeout=timeout_ms / 1000)

    def _check(self, identity: Identity) -> None:
        membership = self._group.membership
        if membership.lost:
            raise CommitFailed(
                f"group {membership.settings.group_id}: offsets not committed: the partitions belong to others by now"
            )
        if not membership.may_commit:
            raise RebalanceInProgress(
                f"group {membership.settings.group_id}: offsets not committed: the group is being rebalanced; "
                "poll until the rebalance is over, then commit"
            )
        if membership.identity != identity:
            raise CommitFailed(
                f"group {membership.settings.group_id}: offsets not committed: the group was rebalanced meanwhile"
            )

    async def _try(self, offsets: Offsets, identity: Identity, deadline: Deadline) -> KafkaError | None:
        """Try once; return None when it succeeded, or an error after which to try again. Raises all other errors."""
        membership, settings = self._group.membership, self._group.membership.settings
        instance_id = settings.group_instance_id if identity.member_id else None  # else it would claim to be a member
        request = commit_request(settings.group_id, offsets, identity.generation_id, identity.member_id, instance_id)
        began_ms = self._group.cluster.clock.monotonic_ms()
        try:
            node_id = await self._group.coordinator()
            cluster = self._group.cluster
            answer = await ask_until(cluster, node_id, request, OffsetCommitResponse, deadline, COORDINATOR_CONNECTION)
        except BrokerUnreachable as error:
            if deadline.left_ms():  # otherwise the time was up, which says nothing about the coordinator
                membership.coordinator_lost()
            return error
        except KafkaError as error:
            if outcome_of(error.code) == Outcome.FATAL:
                raise
            return error
        now_ms = self._group.cluster.clock.monotonic_ms()
        self._group.sensors.commits.record()
        self._group.sensors.commit_latency.record(now_ms - began_ms)
        errors = commit_errors(answer)
        return self._judge(max(errors, key=_weight), identity) if errors else None

    def _judge(self, error: ErrorCode, identity: Identity) -> KafkaError | None:
        membership = self._group.membership
        group_id = membership.settings.group_id
        outcome = outcome_of(error)
        if outcome == Outcome.COORDINATOR:
            membership.coordinator_lost()
        if outcome in (Outcome.COORDINATOR, Outcome.AGAIN):
            return KafkaError(error, f"group {group_id}")
        if outcome == Outcome.FATAL:
            raise KafkaError(error, f"group {group_id}: offsets not committed")
        if identity == membership.identity:  # else it has moved on meanwhile
            membership.refused(error, self._group.cluster.clock.monotonic_ms())
            self._group.wake()
        if outcome == Outcome.REJOIN:
            raise RebalanceInProgress(
                f"group {group_id}: offsets not committed ({error.name}): the group is being rebalanced; "
                "poll until the rebalance is over, then commit"
            )
        raise CommitFailed(
            f"group {group_id}: offsets not committed ({error.name}): the group rebalances or has moved on; "
            "poll again, and if it was max.poll.interval.ms, poll sooner or fetch fewer records"
        )


def _weight(error: ErrorCode) -> int:
    """Rate the errors of one answer's partitions: one that cannot be mended counts more than one that may pass."""
    outcome = outcome_of(error)
    if outcome in (Outcome.COORDINATOR, Outcome.AGAIN):
        return 0 if error in OUTCOMES else 1
    return 3 if outcome == Outcome.FATAL else 2
