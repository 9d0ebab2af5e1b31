"""Carries out a membership's steps on a loop.

The application thread takes part by `Membership.turn`: it runs the turn inside `poll` and reports it done.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from odradek.client.calls import COORDINATOR_CONNECTION
from odradek.client.cluster import Cluster
from odradek.client.consumer.consumer_sensors import GroupSensors
from odradek.client.consumer.member_states import Outcome, outcome_of
from odradek.client.consumer.membership import Membership
from odradek.client.consumer.steps import Count, FindCoordinator, Heartbeat, Join, Leave, Step, Sync, WaitUntil
from odradek.client.errors import BrokerUnreachable, ClientError
from odradek.client.wakeup import WakeUp
from odradek.protocol.errors import KafkaError, MalformedMessage, error_code
from odradek.protocol.fields import Message
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

Response = TypeVar("Response", bound=Message)
JOIN_EXTRA_MS = 5_000
"""JoinGroup is answered when all members have joined, within the rebalance timeout; this much more for the way."""
LEAVE_TIMEOUT_MS = 2_000
LEAVE_CONNECTION = "leave"
"""JoinGroup may stay open for minutes on the coordinator's connection: leaving has another."""


class GroupDriver:
    """A consumer in its group. `changed` is called whenever the application may have something to do."""

    def __init__(self, cluster: Cluster, membership: Membership, changed: Callable[[], object]) -> None:
        self.membership = membership
        self.cluster = cluster
        self._changed = changed
        self.sensors = GroupSensors(cluster.metrics)
        self._coordinator: int | None = None
        self._woken = WakeUp(cluster.clock)
        self._stopped = False

    @property
    def _now_ms(self) -> float:
        return self.cluster.clock.monotonic_ms()

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
                await self._woken.wait_until(step.at_ms)
                continue
            try:
                await self._carry_out(step)
            except BrokerUnreachable as error:
                logger.info("group %s: %s", self.membership.settings.group_id, error)
                self.membership.failed(self._now_ms)
            except (ClientError, KafkaError, MalformedMessage) as error:
                self.membership.broke(error)
                self._changed()

    async def _carry_out(self, step: Step) -> None:
        membership, settings = self.membership, self.membership.settings
        match step:
            case FindCoordinator():
                await self._find_coordinator()
            case Join(request):
                patience_ms = request.rebalance_timeout_ms + JOIN_EXTRA_MS
                began_ms = self._now_ms
                joined = await self.ask(request, JoinGroupResponse, patience_ms)
                self.sensors.joins.record()
                self.sensors.join_time.record(self._now_ms - began_ms)
                membership.joined(joined, self._now_ms)
            case Count(topics):
                membership.counted(await self._partition_counts(topics))
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
                membership.beaten(error_code(beat.error_code), self._now_ms)
            case Leave(request, reason):
                logger.warning("group %s: left: %s", settings.group_id, reason)
                await self.leave(request)
                membership.left()

    async def _find_coordinator(self) -> None:
        try:
            self._coordinator = await self.cluster.find_coordinator(self.membership.settings.group_id)
        except KafkaError as error:
            if outcome_of(error.code) == Outcome.FATAL:
                raise
            self.membership.failed(self._now_ms)
        else:
            self.membership.coordinator_found()

    async def _partition_counts(self, topics: frozenset[str]) -> dict[str, int]:
        """Of those topics that there are."""
        for topic in topics:
            self.cluster.needs.want(topic, self._now_ms)
        if topics - self.cluster.view.topics.keys():
            await self.cluster.refresh()
        view = self.cluster.view
        return {topic: view.partition_count(topic) for topic in sorted(topics) if view.partition_count(topic)}

    async def coordinator(self) -> int:
        """Its node id, looked up when it is not known. Raises KafkaError, BrokerUnreachable."""
        if self._coordinator is None or not self.membership.coordinator_known:
            self._coordinator = await self.cluster.find_coordinator(self.membership.settings.group_id)
        return self._coordinator

    async def ask(self, request: Message, response: type[Response], timeout_ms: float) -> Response:
        """Ask the coordinator that was found last. Raises BrokerUnreachable."""
        assert self._coordinator is not None
        return await self.cluster.request(
            self._coordinator, request, response, timeout_ms=timeout_ms, purpose=COORDINATOR_CONNECTION
        )

    async def leave(self, request: LeaveGroupRequest | None) -> None:
        """Tell the coordinator, if it can be told at once: else the session timeout tells it."""
        if request is None or self._coordinator is None:
            return
        try:
            await self.cluster.request(
                self._coordinator, request, LeaveGroupResponse, timeout_ms=LEAVE_TIMEOUT_MS, purpose=LEAVE_CONNECTION
            )
        except BrokerUnreachable as error:
            logger.info("group %s: leaving was not heard: %s", self.membership.settings.group_id, error)
