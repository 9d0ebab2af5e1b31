"""Commits a consumer's offsets: in the order in which they were asked for, and only as the member who asked."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from odradek.client.calls import Deadline
from odradek.client.consumer.group import GroupDriver
from odradek.client.consumer.group_requests import Identity
from odradek.client.consumer.member_states import Outcome, outcome_of
from odradek.client.errors import BrokerUnreachable, CommitFailed, RebalanceInProgress
from odradek.client.offsets import commit_errors, commit_request
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.offset_commit import OffsetCommitResponse

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Commits:
    """A consumer's. Loop-thread only.

    A commit that has to be tried again holds up those behind it: overtaken by a later one it would take the group
    back. For the same reason it ends with the membership that it was asked under: by the time it would get through,
    its partitions may be somebody else's who has committed there too.
    """

    def __init__(self, group: GroupDriver, committed: Callable[[Offsets], object] = lambda offsets: None) -> None:
        """`committed` is told of each commit that has succeeded."""
        self._group, self._committed = group, committed
        self._turn = asyncio.Lock()
        self._unanswered: set[asyncio.Task[None]] = set()

    def commit(self, offsets: Offsets, deadline: Deadline) -> Coroutine[Any, Any, None]:
        """Commit as who is member now. Raises CommitFailed, KafkaError, ClientTimeout."""
        return self._commit(offsets, deadline, self._group.membership.identity)

    async def _commit(self, offsets: Offsets, deadline: Deadline, identity: Identity) -> None:
        async with self._turn:
            while offsets:
                self._check(identity)
                failure = await self._try(offsets, identity, deadline)
                if failure is None:
                    self._committed(offsets)
                    return
                await deadline.pause_after(failure)

    def follow(self, task: "asyncio.Task[None]") -> None:
        """A commit that nobody waits for: `settle` does, in the end."""
        self._unanswered.add(task)
        task.add_done_callback(self._unanswered.discard)

    async def settle(self, timeout_ms: float) -> None:
        """Until all commits that nobody waits for have come to their end, or the time is over."""
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
                "poll until it has settled, then commit"
            )
        if membership.identity != identity:
            raise CommitFailed(
                f"group {membership.settings.group_id}: offsets not committed: the group was rebalanced meanwhile"
            )

    async def _try(self, offsets: Offsets, identity: Identity, deadline: Deadline) -> Exception | None:
        """None when it is done, or why it may be tried again. Raises for the rest."""
        membership, settings = self._group.membership, self._group.membership.settings
        request = commit_request(
            settings.group_id, offsets, identity.generation_id, identity.member_id, settings.group_instance_id
        )
        patience_ms = max(1.0, min(self._group.cluster.config.request_timeout_ms, deadline.left_ms()))
        began_ms = self._group.cluster.clock.monotonic_ms()
        try:
            await self._group.coordinator()
            answer = await self._group.ask(request, OffsetCommitResponse, patience_ms)
        except BrokerUnreachable as error:
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

    def _judge(self, error: ErrorCode, identity: Identity) -> Exception | None:
        membership = self._group.membership
        group_id = membership.settings.group_id
        outcome = outcome_of(error)
        if outcome == Outcome.COORDINATOR:
            membership.coordinator_lost()
        if outcome in (Outcome.COORDINATOR, Outcome.AGAIN) or KafkaError(error).retriable:
            return KafkaError(error, f"group {group_id}")
        if outcome == Outcome.FATAL:
            raise KafkaError(error, f"group {group_id}: offsets not committed")
        if identity == membership.identity:  # else it has moved on meanwhile
            membership.refused(error, self._group.cluster.clock.monotonic_ms())
            self._group.wake()
        if outcome == Outcome.REJOIN:
            raise RebalanceInProgress(
                f"group {group_id}: offsets not committed ({error.name}): the group is being rebalanced; "
                "poll until it has settled, then commit"
            )
        raise CommitFailed(
            f"group {group_id}: offsets not committed ({error.name}): the group rebalances or has moved on; "
            "poll again, and if it was max.poll.interval.ms, poll sooner or fetch fewer records"
        )


def _weight(error: ErrorCode) -> int:
    """Rate the errors of one answer's partitions: what nothing mends says more than what asking again may."""
    outcome = outcome_of(error)
    if outcome in (Outcome.COORDINATOR, Outcome.AGAIN):
        return 0
    if outcome == Outcome.FATAL:
        return 1 if KafkaError(error).retriable else 3
    return 2
