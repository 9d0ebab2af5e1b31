"""Carries out a membership's steps on a loop, and commits offsets.

The application thread takes part by `Membership.turn`: it runs the turn inside `poll` and reports it done.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from odradek.client.calls import COORDINATOR_CONNECTION, Deadline
from odradek.client.cluster import Cluster
from odradek.client.consumer.membership import (
    OUTCOMES,
    Assign,
    FindCoordinator,
    Heartbeat,
    Join,
    Leave,
    Membership,
    Outcome,
    Step,
    Sync,
    WaitUntil,
)
from odradek.client.errors import BrokerUnreachable, ClientError, CommitFailed
from odradek.client.offsets import commit_errors, commit_request
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage, error_code
from odradek.protocol.fields import Message
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

Response = TypeVar("Response", bound=Message)
JOIN_EXTRA_MS = 5_000
"""JoinGroup is answered when all members have joined, within the rebalance timeout; this much more for the way."""
LEAVE_TIMEOUT_MS = 2_000
LEAVE_CONNECTION = "leave"
"""JoinGroup may stay open for minutes on the coordinator's connection: leaving has another."""


class GroupDriver:
    """One consumer in its group. `changed` is called whenever the application may have something to do."""

    def __init__(self, cluster: Cluster, membership: Membership, changed: Callable[[], object]) -> None:
        self.membership = membership
        self._cluster = cluster
        self._changed = changed
        self._coordinator: int | None = None
        self._woken = asyncio.Event()
        self._stopped = False

    @property
    def _now_ms(self) -> float:
        return self._cluster.clock.monotonic_ms()

    def wake(self) -> None:
        """Look for the next step. On the loop's thread."""
        self._woken.set()

    def stop(self) -> None:
        """`run` ends after its current step."""
        self._stopped = True
        self.wake()

    async def run(self) -> None:
        """Step after step."""
        while not self._stopped:
            self._woken.clear()
            step = self.membership.next_step(self._now_ms)
            if self.membership.turn is not None or self.membership.failure is not None:
                self._changed()
            if isinstance(step, WaitUntil):
                await self._wait_until(step.at_ms)
                continue
            try:
                await self._carry_out(step)
            except BrokerUnreachable as error:
                logger.info("group %s: %s", self.membership.settings.group_id, error)
                self.membership.failed(self._now_ms)
            except (ClientError, KafkaError, MalformedMessage) as error:
                self.membership.broke(error)
                self._changed()

    async def _wait_until(self, at_ms: float) -> None:
        if at_ms == float("inf"):
            await self._woken.wait()
            return
        timer = self._cluster.clock.call_later(max(0.0, at_ms - self._now_ms), self.wake)
        await self._woken.wait()
        timer.cancel()

    async def _carry_out(self, step: Step) -> None:
        match step:
            case FindCoordinator():
                await self._find_coordinator()
            case Join(request):
                patience_ms = request.rebalance_timeout_ms + JOIN_EXTRA_MS
                self.membership.joined(await self._ask(request, JoinGroupResponse, patience_ms), self._now_ms)
            case Assign(topics):
                self.membership.assigned(await self._partition_counts(topics))
            case Sync(request):
                patience_ms = self.membership.settings.max_poll_interval_ms + JOIN_EXTRA_MS
                answer = await self._ask(request, SyncGroupResponse, patience_ms)
                self.membership.synced(error_code(answer.error_code), bytes(answer.assignment), self._now_ms)
            case Heartbeat(request):
                beat = await self._ask(request, HeartbeatResponse, self.membership.settings.session_timeout_ms)
                self.membership.beaten(error_code(beat.error_code), self._now_ms)
            case Leave(request, reason):
                logger.warning("group %s: left: %s", self.membership.settings.group_id, reason)
                await self.leave(request)
                self.membership.left()

    async def _find_coordinator(self) -> None:
        try:
            self._coordinator = await self._cluster.find_coordinator(self.membership.settings.group_id)
        except KafkaError as error:
            if OUTCOMES.get(error.code, Outcome.FATAL) == Outcome.FATAL:
                raise
            self.membership.failed(self._now_ms)
        else:
            self.membership.coordinator_found()

    async def _ask(self, request: Message, response: type[Response], timeout_ms: float) -> Response:
        assert self._coordinator is not None
        return await self._cluster.request(
            self._coordinator, request, response, timeout_ms=timeout_ms, purpose=COORDINATOR_CONNECTION
        )

    async def _partition_counts(self, topics: frozenset[str]) -> dict[str, int]:
        for topic in topics - self._cluster.view.topics.keys():
            self._cluster.needs.want(topic, self._now_ms)
        if topics - self._cluster.view.topics.keys():
            await self._cluster.refresh()
        view = self._cluster.view
        return {topic: view.partition_count(topic) for topic in sorted(topics) if view.partition_count(topic)}

    async def leave(self, request: LeaveGroupRequest | None) -> None:
        """Tell the coordinator, if it can be told at once: else the session timeout tells it."""
        if request is None or self._coordinator is None:
            return
        try:
            await self._cluster.request(
                self._coordinator,
                request,
                LeaveGroupResponse,
                timeout_ms=LEAVE_TIMEOUT_MS,
                purpose=LEAVE_CONNECTION,
            )
        except BrokerUnreachable as error:
            logger.info("group %s: leaving was not heard: %s", self.membership.settings.group_id, error)

    # -- commits -------------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        """Commit as this member. Raises CommitFailed, KafkaError, ClientTimeout."""
        while offsets:
            if not self.membership.may_commit:
                raise CommitFailed(
                    f"group {self.membership.settings.group_id}: offsets not committed: the group is being rebalanced; "
                    "poll until it has settled, then commit"
                )
            failure = await self._try_commit(offsets)
            if failure is None:
                return
            await deadline.pause_after(failure)

    async def _try_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Exception | None:
        """None when it is done, or why it may be tried again. Raises for the rest."""
        membership = self.membership
        group_id = membership.settings.group_id
        request = commit_request(
            group_id, offsets, membership.generation_id, membership.member_id, membership.settings.group_instance_id
        )
        try:
            if self._coordinator is None or not membership.coordinator_known:
                self._coordinator = await self._cluster.find_coordinator(group_id)
            answer = await self._cluster.request(
                self._coordinator, request, OffsetCommitResponse, purpose=COORDINATOR_CONNECTION
            )
            errors = commit_errors(answer)
        except BrokerUnreachable as error:
            membership.coordinator_lost()
            return error
        except KafkaError as error:
            if OUTCOMES.get(error.code, Outcome.FATAL) == Outcome.FATAL:
                raise
            return error
        return self._judge_commit(errors[0], request) if errors else None

    def _judge_commit(self, error: ErrorCode, request: OffsetCommitRequest) -> Exception | None:
        membership = self.membership
        group_id = membership.settings.group_id
        outcome = OUTCOMES.get(error, Outcome.FATAL)
        if outcome in (Outcome.COORDINATOR, Outcome.AGAIN) or KafkaError(error).retriable:
            if outcome == Outcome.COORDINATOR:
                membership.coordinator_lost()
            return KafkaError(error, f"group {group_id}")
        if outcome in (Outcome.REJOIN, Outcome.RESET):
            asked_as = (request.member_id, request.generation_id_or_member_epoch)
            if asked_as == (membership.member_id, membership.generation_id):  # else it has moved on meanwhile
                membership.refused(error, self._now_ms)
                self.wake()
            raise CommitFailed(
                f"group {group_id}: offsets not committed ({error.name}): the group rebalances or has moved on; "
                "poll again, and if it was max.poll.interval.ms, poll sooner or fetch fewer records"
            )
        raise KafkaError(error, f"group {group_id}: offsets not committed")
