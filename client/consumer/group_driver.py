"""Driver of a consumer's membership in its group, on an event loop: sends the coordinator the requests of its steps.

The application takes part through `Membership.turn`: it runs the turn inside `poll`, and reports that it is done.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from odradek.client.calls import COORDINATOR_CONNECTION, within
from odradek.client.cluster import Cluster
from odradek.client.consumer.group_protocol import Identity, leave_request
from odradek.client.consumer.member_states import (
    Count,
    FindCoordinator,
    Heartbeat,
    Join,
    Leave,
    Outcome,
    Step,
    Sync,
    WaitUntil,
    outcome_of,
    outcome_of_heartbeat,
)
from odradek.client.consumer.membership import Membership
from odradek.client.errors import BrokerUnreachable, ClientTimeout
from odradek.client.metadata import ClusterView
from odradek.client.sensors import GroupSensors
from odradek.client.waiting import NEVER, WakeUp
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.fields import Message
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

Response = TypeVar("Response", bound=Message)
JOIN_EXTRA_MS = 5_000
"""Time that an answer to JoinGroup may take beyond the rebalance timeout, by which all members have joined."""
LEAVE_TIMEOUT_MS = 2_000.0
LEAVE_LEAST_MS = 250.0
"""Least time for LeaveGroup: a healthy coordinator gets it even from a member that has no time left."""
REFUSED_MS = 5_000.0
"""Time during which no coordinator has let a member in, after which it warns."""
LEAVE_CONNECTION = "leave"
"""Purpose of the connection for leaving: JoinGroup may stay open for minutes on the coordinator's."""


class GroupDriver:
    """Driver of one membership. `changed` is called whenever the application may have something to do."""

    def __init__(self, cluster: Cluster, membership: Membership, changed: Callable[[], object]) -> None:
        self.membership = membership
        self.cluster = cluster
        self._changed = changed
        self.sensors = GroupSensors(cluster.metrics)
        self._coordinator: int | None = None
        self._woken = WakeUp(cluster.clock)
        self._stopped = False
        self._refused_since_ms: float | None = None
        """Since when no coordinator has let it in, or answered it if it is no member; None while one does, NEVER once
        the warning was logged."""

    @property
    def _now_ms(self) -> float:
        return self.cluster.clock.monotonic_ms()

    def wake(self) -> None:
        """Look for the next step. On the loop's thread."""
        self._woken.set()

    def stop(self) -> None:
        """End `run` after its current step."""
        self._stopped = True
        self.wake()

    async def run(self) -> None:
        """Carry out one step after another, until `stop`."""
        while not self._stopped:
            self._woken.clear()
            try:
                step = self.membership.next_step(self._now_ms)
                if self.membership.turn is not None or self.membership.failure is not None:
                    self._changed()
                if isinstance(step, WaitUntil):
                    await self._woken.wait_until(step.at_ms)
                else:
                    await self._carry_out(step)
            except BrokerUnreachable as error:
                logger.info("group %s: %s", self.membership.settings.group_id, error)
                self._note_refusal(error)
                self.membership.failed(self._now_ms)
            except KafkaError as error:  # a ClientError is one
                self.membership.broke(error)
                self._changed()

    async def _carry_out(self, step: Step) -> None:
        membership, settings = self.membership, self.membership.settings
        match step:
            case FindCoordinator():
                await self._find_coordinator()
            case Join(request):
                # Other members, whose max.poll.interval.ms is not known here, may take longer.
                patience_ms = max(request.rebalance_timeout_ms + JOIN_EXTRA_MS, self.cluster.config.request_timeout_ms)
                began_ms = self._now_ms
                joined = await self.ask(request, JoinGroupResponse, patience_ms)
                self.sensors.joins.record()
                self.sensors.join_time.record(self._now_ms - began_ms)
                self._note_answer(error_code(joined.error_code))
                if not membership.joined(joined, self._now_ms):
                    await self._leave_unheard(joined)
            case Count(topics):
                view = await self._view_of(topics)
                membership.counted(view.partition_counts(topics), view.replica_racks(topics))
            case Sync(request):
                patience_ms = settings.max_poll_interval_ms + JOIN_EXTRA_MS
                began_ms = self._now_ms
                answer = await self.ask(request, SyncGroupResponse, patience_ms)
                self.sensors.syncs.record()
                self.sensors.sync_time.record(self._now_ms - began_ms)
                membership.synced(error_code(answer.error_code), bytes(answer.assignment), self._now_ms)
            case Heartbeat(request):
                patience_ms = min(settings.session_timeout_ms, self.cluster.config.request_timeout_ms)
                began_ms = self._now_ms
                beat = await self.ask(request, HeartbeatResponse, patience_ms)
                self.sensors.heartbeats.record()
                self.sensors.heartbeat_response_time.record(self._now_ms - began_ms)
                self._note_answer(error_code(beat.error_code), outcome_of_heartbeat)
                membership.beaten(error_code(beat.error_code), self._now_ms)
            case Leave(request, reason):
                logger.warning("group %s: left the group: %s", settings.group_id, reason)
                await self.leave(request)
                membership.left()

    async def _leave_unheard(self, joined: JoinGroupResponse) -> None:
        """Give back the place that a JoinGroup has got after the membership ended. Otherwise the coordinator would keep
        it for the session timeout, and each rebalance of the other members would wait for it."""
        if error_code(joined.error_code) in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            identity = Identity(joined.member_id)
            await self.leave(leave_request(self.membership.settings, identity, "the consumer left while it joined"))

    async def _find_coordinator(self) -> None:
        try:
            self._coordinator = await self.cluster.find_coordinator(self.membership.settings.group_id)
        except KafkaError as error:
            if outcome_of(error.code) == Outcome.FATAL:
                raise
            self._note_refusal(error)
            self.membership.failed(self._now_ms)
        else:
            self.membership.coordinator_found()

    def _note_answer(self, code: ErrorCode, meaning: Callable[[ErrorCode], Outcome] = outcome_of) -> None:
        """Note the error of an answer to JoinGroup or Heartbeat; NONE in either means that the member is in."""
        if code is ErrorCode.NONE:
            self._refused_since_ms = None
        elif meaning(code) in (Outcome.COORDINATOR, Outcome.AGAIN):
            self._note_refusal(KafkaError(code))

    def _note_refusal(self, refusal: Exception) -> None:
        """Note that there is no coordinator, or none that lets the member in; warn once, when that lasts."""
        if self._refused_since_ms is None:
            self._refused_since_ms = self._now_ms
        elif self._now_ms - self._refused_since_ms >= REFUSED_MS:
            self._refused_since_ms = NEVER
            wanted = "let this consumer in" if self.membership.topics else "answered this consumer"
            said = "group %s: no coordinator has %s for %d s; it keeps trying: %s"
            logger.warning(said, self.membership.settings.group_id, wanted, REFUSED_MS // 1000, refusal)

    async def _view_of(self, topics: frozenset[str]) -> ClusterView:
        """Return a view of the cluster that has those of the topics that exist."""
        for topic in topics:
            self.cluster.needs.want(topic, self._now_ms)
        if topics - self.cluster.view.topics.keys():
            await self.cluster.refresh()
        return self.cluster.view

    async def coordinator(self) -> int:
        """Return the node id of the group's coordinator, looked up if need be. Raises KafkaError, BrokerUnreachable."""
        if self._coordinator is None or not self.membership.coordinator_known:
            self._coordinator = await self.cluster.find_coordinator(self.membership.settings.group_id)
            self.membership.coordinator_known |= not self.membership.topics  # a member's own step looks it up
        return self._coordinator

    def coordinator_answered(self) -> None:
        """Note that the coordinator has answered a request."""
        if not self.membership.topics:
            self._refused_since_ms = None

    def coordinator_failed(self, reason: Exception) -> None:
        """Have the coordinator looked up before the next request, if `reason` means that it may be another broker."""
        if not self.membership.topics:  # a member's own steps note it
            self._note_refusal(reason)
        if not isinstance(reason, KafkaError) or outcome_of(reason.code) == Outcome.COORDINATOR:
            self.membership.coordinator_lost()

    async def ask(self, request: Message, response: type[Response], timeout_ms: float) -> Response:
        """Send a request to the coordinator that was found last, and return its answer. Raises BrokerUnreachable."""
        assert self._coordinator is not None
        return await self.cluster.request(
            self._coordinator, request, response, timeout_ms=timeout_ms, purpose=COORDINATOR_CONNECTION
        )

    async def leave(self, request: LeaveGroupRequest | None, timeout_ms: float = LEAVE_TIMEOUT_MS) -> None:
        """Send LeaveGroup, and log when there is no answer in time: the coordinator then waits for the session timeout.

        Takes at most `timeout_ms`, but no less than LEAVE_LEAST_MS and no more than LEAVE_TIMEOUT_MS, opening the
        connection included.
        """
        if request is None or self._coordinator is None:
            return
        told = self.cluster.request(self._coordinator, request, LeaveGroupResponse, purpose=LEAVE_CONNECTION)
        try:
            await within(
                self.cluster, "leave", told, leave_limit_ms(timeout_ms), lambda: ClientTimeout("no answer in time")
            )
        except (BrokerUnreachable, ClientTimeout) as error:
            logger.info("group %s: LeaveGroup was not answered: %s", self.membership.settings.group_id, error)


def leave_limit_ms(left_ms: float) -> float:
    """Return how long LeaveGroup may take when `left_ms` are left for closing as a whole."""
    return min(LEAVE_TIMEOUT_MS, max(LEAVE_LEAST_MS, left_ms))
