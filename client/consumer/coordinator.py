"""The group's coordinator as one consumer asks it, on a loop: the steps of its membership, and its commits.

The application takes part by `Membership.turn`: it runs the turn inside `poll` and reports it done. Commits are sent
in the order in which they were asked for, and only as the member who asked.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from odradek.client.calls import COORDINATOR_CONNECTION, Deadline, ask_until, within
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
)
from odradek.client.consumer.membership import Membership
from odradek.client.errors import BrokerUnreachable, ClientTimeout, CommitFailed, RebalanceInProgress
from odradek.client.offsets import commit_errors, commit_request
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.client.sensors import GroupSensors
from odradek.client.waiting import NEVER, WakeUp
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.fields import Message
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.offset_commit import OffsetCommitResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

Response = TypeVar("Response", bound=Message)
JOIN_EXTRA_MS = 5_000
"""Time beyond the rebalance timeout, within which all members have joined, that an answer to JoinGroup may take."""
LEAVE_TIMEOUT_MS = 2_000.0
LEAVE_LEAST_MS = 250.0
"""Least time for LeaveGroup: a healthy coordinator hears of it even from a member that has no time left."""
REFUSED_MS = 5_000.0
"""Time without being let in after which a member warns about its group."""
LEAVE_CONNECTION = "leave"
"""Purpose of the connection for leaving: JoinGroup may stay open for minutes on the coordinator's."""


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
        self._refused_since_ms: float | None = None
        """Time since which no coordinator was found, or let it join; None when it is in, NEVER once that was logged."""

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
                patience_ms = request.rebalance_timeout_ms + JOIN_EXTRA_MS
                began_ms = self._now_ms
                joined = await self.ask(request, JoinGroupResponse, patience_ms)
                self.sensors.joins.record()
                self.sensors.join_time.record(self._now_ms - began_ms)
                self._note_answer(error_code(joined.error_code))
                if not membership.joined(joined, self._now_ms):
                    await self._leave_unheard(joined)
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
                self._note_answer(error_code(beat.error_code))
                membership.beaten(error_code(beat.error_code), self._now_ms)
            case Leave(request, reason):
                logger.warning("group %s: left the group: %s", settings.group_id, reason)
                await self.leave(request)
                membership.left()

    async def _leave_unheard(self, joined: JoinGroupResponse) -> None:
        """Give back the place that was asked for before the membership ended: the coordinator would keep it until the
        session is over, and each rebalance of the others would wait for it."""
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

    def _note_answer(self, code: ErrorCode) -> None:
        """Note an answer to JoinGroup or Heartbeat: a member that its coordinator still knows does not join again."""
        if code is ErrorCode.NONE:
            self._refused_since_ms = None
        elif outcome_of(code) in (Outcome.COORDINATOR, Outcome.AGAIN):
            self._note_refusal(KafkaError(code))

    def _note_refusal(self, refusal: KafkaError) -> None:
        """Note that there is no coordinator, or none that lets it join; warn of it once, when that lasts."""
        if self._refused_since_ms is None:
            self._refused_since_ms = self._now_ms
        elif self._now_ms - self._refused_since_ms >= REFUSED_MS:
            self._refused_since_ms = NEVER
            said = "group %s: no coordinator has let this consumer in for %d s; it goes on asking: %s"
            logger.warning(said, self.membership.settings.group_id, REFUSED_MS // 1000, refusal)

    async def _partition_counts(self, topics: frozenset[str]) -> dict[str, int]:
        """Return the partition counts of those of the topics that there are."""
        for topic in topics:
            self.cluster.needs.want(topic, self._now_ms)
        if topics - self.cluster.view.topics.keys():
            await self.cluster.refresh()
        view = self.cluster.view
        return {topic: view.partition_count(topic) for topic in sorted(topics) if view.partition_count(topic)}

    async def coordinator(self) -> int:
        """Return the node id of the group's coordinator, looked up if need be. Raises KafkaError, BrokerUnreachable."""
        if self._coordinator is None or not self.membership.coordinator_known:
            self._coordinator = await self.cluster.find_coordinator(self.membership.settings.group_id)
            self.membership.coordinator_known |= not self.membership.topics  # a member's steps look for their own
        return self._coordinator

    def coordinator_failed(self, reason: Exception) -> None:
        """Have the coordinator looked up before it is asked again, if it may be another one."""
        if not isinstance(reason, KafkaError) or outcome_of(reason.code) == Outcome.COORDINATOR:
            self.membership.coordinator_lost()

    async def ask(self, request: Message, response: type[Response], timeout_ms: float) -> Response:
        """Ask the coordinator that was found last. Raises BrokerUnreachable."""
        assert self._coordinator is not None
        return await self.cluster.request(
            self._coordinator, request, response, timeout_ms=timeout_ms, purpose=COORDINATOR_CONNECTION
        )

    async def leave(self, request: LeaveGroupRequest | None, timeout_ms: float = LEAVE_TIMEOUT_MS) -> None:
        """Tell the coordinator, if it can be told at once: else the session timeout tells it.

        Takes `timeout_ms`, from LEAVE_LEAST_MS to LEAVE_TIMEOUT_MS, with the opening of the connection.
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
    """Return how long leaving a group may take when `left_ms` are left for everything."""
    return min(LEAVE_TIMEOUT_MS, max(LEAVE_LEAST_MS, left_ms))


Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(eq=False, slots=True)
class Place:
    """Place of a commit in the line, and who was a member when it was asked for."""

    identity: Identity
    turn: "asyncio.Future[None]"


class Commits:
    """Commits of one consumer. For the loop's thread only.

    They are sent in the order in which they were asked for, whether somebody waits for them or not. A commit that has
    to be tried again holds up those behind it: if a later one overtook it, it would take the group back. For the same
    reason it ends with the membership that it was asked under: by the time it got through, another member might have
    its partitions, and have committed there too.
    """

    def __init__(self, group: GroupDriver, committed: Callable[[Offsets], object] = lambda offsets: None) -> None:
        """`committed` is told of each commit that has succeeded."""
        self._group, self._committed = group, committed
        self._line: dict[Place, None] = {}
        """Commits that have not ended yet; it is the turn of the first one."""
        self._unanswered: set[asyncio.Task[None]] = set()

    def stand_in_line(self) -> Place:
        """Take the last place, as the member that it is now. Whoever takes one leaves it in the end, come what may."""
        place = Place(self._group.membership.identity, asyncio.get_running_loop().create_future())
        self._line[place] = None
        self._call_the_first()
        return place

    def leave_line(self, place: Place) -> None:
        """Give up a place, so that the next commit has its turn. Harmless twice."""
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
        """Take a commit for which only `settle` waits, in the end; its place is left when the task ends."""
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
        """Try once; return None when it is done, or why it may be tried again. Raises KafkaError for the rest."""
        membership, settings = self._group.membership, self._group.membership.settings
        request = commit_request(
            settings.group_id, offsets, identity.generation_id, identity.member_id, settings.group_instance_id
        )
        began_ms = self._group.cluster.clock.monotonic_ms()
        try:
            node_id = await self._group.coordinator()
            cluster = self._group.cluster
            answer = await ask_until(cluster, node_id, request, OffsetCommitResponse, deadline, COORDINATOR_CONNECTION)
        except BrokerUnreachable as error:
            if deadline.left_ms():  # else nobody waits any longer, which says nothing of the coordinator
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
                "poll until the rebalance is over, then commit"
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
