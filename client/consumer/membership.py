"""One consumer's membership of a group. Pure: the driver asks `next_step`, carries it out, and reports what came back.

    OUTSIDE ─ PREPARING ─ JOINING ─ ASSIGNING ─ SYNCING ─ ADOPTING ─ STABLE
       ↑          ↑ the application gives up      the leader       ↑ the application   │
       │          │ partitions                    decides          │ gets its own      │
       └──────────┴──────────────────────────────────────────────────────────────────-┘

While the application has the turn (PREPARING, ADOPTING) heartbeats go on, so its callbacks may take as long as
max.poll.interval.ms; who does not poll for longer leaves the group (KIP-62). Which answer leads where is the table
`OUTCOMES`; it follows Java's AbstractCoordinator.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from odradek.client.consumer.assignors import Assignor, Subscriber
from odradek.client.consumer.embedded import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from odradek.client.errors import GroupError
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NO_GENERATION = -1
NO_MEMBER = ""


class State(Enum):
    """Where a member is."""

    OUTSIDE = "outside"
    PREPARING = "preparing"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    ADOPTING = "adopting"
    STABLE = "stable"
    FATAL = "fatal"


class Outcome(Enum):
    """What an answer means for the membership."""

    GOOD = "go on"
    REJOIN = "the group rebalances: join again with the same member id"
    RESET = "the group does not know this member any more: its partitions are lost, join as somebody new"
    COORDINATOR = "the coordinator is another one, or not there: find it"
    AGAIN = "ask again after a pause"
    FATAL = "nothing that asking again would mend"


OUTCOMES: Mapping[ErrorCode, Outcome] = {
    ErrorCode.NONE: Outcome.GOOD,
    ErrorCode.REBALANCE_IN_PROGRESS: Outcome.REJOIN,
    ErrorCode.MEMBER_ID_REQUIRED: Outcome.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Outcome.RESET,
    ErrorCode.ILLEGAL_GENERATION: Outcome.RESET,
    ErrorCode.NOT_COORDINATOR: Outcome.COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Outcome.COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION: Outcome.COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Outcome.AGAIN,
}
"""Every other error is FATAL: FENCED_INSTANCE_ID, GROUP_AUTHORIZATION_FAILED, INCONSISTENT_GROUP_PROTOCOL, …"""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The settings it obeys."""

    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    max_poll_interval_ms: int
    heartbeat_interval_ms: int
    retry_backoff_ms: float
    assignors: Sequence[Assignor]
    cooperative: bool


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing to do before that time, or something is reported."""

    at_ms: float


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look it up, then `coordinator_found` or `failed`."""


@dataclass(frozen=True, slots=True)
class Join:
    """Send it to the coordinator, then `joined` or `failed`."""

    request: JoinGroupRequest


@dataclass(frozen=True, slots=True)
class Assign:
    """Get the partition counts of these topics, then `assigned`: this member is the leader."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sync:
    """Send it, then `synced` or `failed`."""

    request: SyncGroupRequest


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Send it, then `beaten` or `failed`."""

    request: HeartbeatRequest


@dataclass(frozen=True, slots=True)
class Leave:
    """Send it; the answer does not matter."""

    request: LeaveGroupRequest
    reason: str


Step = WaitUntil | FindCoordinator | Join | Assign | Sync | Heartbeat | Leave


@dataclass(frozen=True, slots=True)
class Prepare:
    """For the application, before joining: `revoked` are given up, or `lost` already."""

    revoked: tuple[TopicPartition, ...]
    lost: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Adopt:
    """For the application, after joining: first give up `revoked`, then take `added`; `all` is what it has then."""

    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
    all: tuple[TopicPartition, ...]


Turn = Prepare | Adopt


@dataclass(slots=True)
class Membership:
    """See above. `turn` is what the application must do now; it reports with `turn_done`."""

    settings: MemberSettings
    state: State = State.OUTSIDE
    topics: frozenset[str] = frozenset()
    member_id: str = NO_MEMBER
    generation_id: int = NO_GENERATION
    owned: tuple[TopicPartition, ...] = ()
    turn: Turn | None = None
    failure: Exception | None = None
    coordinator_known: bool = False
    _polled_ms: float | None = None
    _heartbeat_at_ms: float = 0.0
    _retry_at_ms: float = 0.0
    _busy: bool = False
    """A step is being carried out."""
    _rejoin: bool = False
    _lost: bool = False
    _leader: bool = False
    _protocol: str = ""
    _subscribers: list[Subscriber] = field(default_factory=list)
    _assignments: dict[str, list[TopicPartition]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    # -- what the application does -------------------------------------------------------------------------------------

    def polled(self, now_ms: float) -> None:
        """The application asks for records: it is alive."""
        self._polled_ms = now_ms

    @property
    def is_polled(self) -> bool:
        """Whether the application polls, as far as is known."""
        return self._polled_ms is not None

    @property
    def may_commit(self) -> bool:
        """Between generations a commit would be refused: it would carry the one that is going (as Java's client)."""
        holds = self.state in (State.STABLE, State.PREPARING, State.ADOPTING) and self.generation_id >= 0
        return holds or not self.topics

    def subscribe(self, topics: Collection[str]) -> None:
        """What it wants from now on."""
        if frozenset(topics) != self.topics:
            self.topics = frozenset(topics)
            self._rejoin = True

    def counts_changed(self, counts: Mapping[str, int]) -> None:
        """Partition counts as the metadata has them now: a leader that decided on others starts a rebalance."""
        if self._leader and self.state == State.STABLE and any(counts.get(t, n) != n for t, n in self._counts.items()):
            self._rejoin = True

    def turn_done(self, turn: Turn) -> None:
        """The application has carried out a turn, maybe one that membership was lost in the middle of."""
        if isinstance(turn, Prepare):
            gone = {*turn.revoked, *turn.lost}
            self.owned = tuple(tp for tp in self.owned if tp not in gone)
        else:
            self.owned = turn.all
        if turn is not self.turn:
            self._lost = bool(self.owned)
            return
        self.turn = None
        self.state = State.JOINING if isinstance(turn, Prepare) else State.STABLE
        if isinstance(turn, Adopt) and turn.revoked and self.settings.cooperative:
            self._rejoin = True

    # -- what to do ----------------------------------------------------------------------------------------------------

    def next_step(self, now_ms: float) -> Step:
        """Carry it out and report before asking again; a WaitUntil may be interrupted by anything."""
        assert not self._busy, f"{self.state}: a step is still open"
        if self._polled_ms is None or self.state == State.FATAL:
            return WaitUntil(float("inf"))
        if self._too_slow(now_ms):
            return self._leave_because_slow()
        self._begin_rebalance()
        if self.state == State.OUTSIDE:
            return WaitUntil(float("inf"))
        if now_ms < self._retry_at_ms:
            return WaitUntil(self._retry_at_ms)
        step = self._due_step(now_ms)
        self._busy = not isinstance(step, WaitUntil)
        return step

    def _due_step(self, now_ms: float) -> Step:
        if not self.coordinator_known:
            return FindCoordinator()
        return self._active_step() or self._heartbeat_step(now_ms)

    def _too_slow(self, now_ms: float) -> bool:
        assert self._polled_ms is not None
        holds = self.state in (State.STABLE, State.PREPARING, State.ADOPTING) and self.generation_id >= 0
        return holds and now_ms - self._polled_ms > self.settings.max_poll_interval_ms

    def _begin_rebalance(self) -> None:
        """From STABLE or OUTSIDE to PREPARING, when there is a reason."""
        if self.state == State.STABLE and self._rejoin:
            self._prepare(lost=False)
        elif self.state == State.OUTSIDE and (self.topics or self.owned):
            self._prepare(lost=self._lost)

    def _prepare(self, *, lost: bool) -> None:
        self._lost = False
        unwanted = tuple(tp for tp in self.owned if tp.topic not in self.topics)
        given_up = unwanted if self.settings.cooperative and not lost else self.owned
        self.state = State.PREPARING
        self.turn = Prepare(() if lost else given_up, given_up if lost else ())

    def _active_step(self) -> Step | None:
        if self.state == State.JOINING:
            self._rejoin = False
            return Join(self._join_request())
        if self.state == State.ASSIGNING:
            return Assign(frozenset(topic for one in self._subscribers for topic in one.topics))
        if self.state == State.SYNCING:
            return Sync(self._sync_request())
        return None

    def _heartbeat_step(self, now_ms: float) -> Step:
        if self.generation_id == NO_GENERATION:
            return WaitUntil(float("inf"))
        assert self._polled_ms is not None
        if now_ms >= self._heartbeat_at_ms:
            self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
            return Heartbeat(
                HeartbeatRequest(
                    group_id=self.settings.group_id,
                    generation_id=self.generation_id,
                    member_id=self.member_id,
                    group_instance_id=self.settings.group_instance_id,
                )
            )
        return WaitUntil(min(self._heartbeat_at_ms, self._polled_ms + self.settings.max_poll_interval_ms + 1))

    def _join_request(self) -> JoinGroupRequest:
        metadata = encode_subscription(sorted(self.topics), self.owned, self.generation_id)
        return JoinGroupRequest(
            group_id=self.settings.group_id,
            session_timeout_ms=self.settings.session_timeout_ms,
            rebalance_timeout_ms=self.settings.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=one.name, metadata=metadata) for one in self.settings.assignors],
        )

    def _sync_request(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
                for member_id, partitions in self._assignments.items()
            ],
        )

    def _leave_because_slow(self) -> Step:
        reason = (
            f"the application did not poll for max.poll.interval.ms={self.settings.max_poll_interval_ms}: "
            "process faster, poll fewer records (max.poll.records), or raise it"
        )
        request = self.leave_request(reason)
        self._reset()
        self._polled_ms = None
        self._busy = request is not None
        return Leave(request, reason) if request is not None else WaitUntil(float("inf"))

    def leave_request(self, reason: str) -> LeaveGroupRequest | None:
        """To leave at once; None for a static member, whose place is kept, and for who is in no group."""
        if self.member_id == NO_MEMBER or self.settings.group_instance_id is not None:
            return None
        member = MemberIdentity(member_id=self.member_id, reason=reason[:255])
        return LeaveGroupRequest(group_id=self.settings.group_id, member_id=self.member_id, members=[member])

    # -- what came back ------------------------------------------------------------------------------------------------

    def coordinator_found(self) -> None:
        """It is known, until an answer says otherwise."""
        self._busy = False
        self.coordinator_known = True

    def coordinator_lost(self) -> None:
        """A commit found that it is gone, or is another one: it is looked for before the next step."""
        self.coordinator_known = False

    def joined(self, answer: JoinGroupResponse, now_ms: float) -> None:
        """JoinGroup was answered."""
        self._busy = False
        error = error_code(answer.error_code)
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        if not self._follow(error, now_ms):
            return
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        self._protocol = answer.protocol_name or ""
        self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        self._leader = answer.leader == answer.member_id
        self._assignments = {}
        if self._leader and not answer.skip_assignment:
            self._subscribers = [
                _subscriber(one.member_id, one.group_instance_id, one.metadata) for one in answer.members
            ]
            self.state = State.ASSIGNING
        else:
            self.state = State.SYNCING

    def assigned(self, counts: Mapping[str, int]) -> None:
        """The leader's decision, on these partition counts."""
        self._busy = False
        chosen = next((one for one in self.settings.assignors if one.name == self._protocol), None)
        if chosen is None:
            self._fail(GroupError(f"group {self.settings.group_id} chose {self._protocol!r}, which was not offered"))
            return
        self._counts = dict(counts)
        self._assignments = chosen.assign(self._subscribers, counts)
        self.state = State.SYNCING

    def synced(self, error: ErrorCode, assignment: bytes, now_ms: float) -> None:
        """SyncGroup was answered."""
        self._busy = False
        self._assignments = {}
        if not self._follow(error, now_ms):
            return
        now_owned = tuple(sorted(decode_assignment(assignment)))
        before = set(self.owned)
        revoked = tuple(sorted(before.difference(now_owned)))
        added = tuple(tp for tp in now_owned if tp not in before)
        self.turn = Adopt(revoked, added, now_owned)
        self.state = State.ADOPTING

    def beaten(self, error: ErrorCode, now_ms: float) -> None:
        """Heartbeat was answered. While a turn is open a rebalance is no news: joining comes next anyway."""
        self._busy = False
        outcome = OUTCOMES.get(error, Outcome.FATAL)
        if outcome in (Outcome.REJOIN, Outcome.AGAIN):
            self._rejoin |= outcome == Outcome.REJOIN
            return
        self._follow(error, now_ms)

    def left(self) -> None:
        """LeaveGroup was answered, or not."""
        self._busy = False

    def failed(self, now_ms: float) -> None:
        """A step's request broke."""
        self._busy = False
        self._follow(ErrorCode.NETWORK_EXCEPTION, now_ms)

    def refused(self, error: ErrorCode, now_ms: float) -> None:
        """A commit was refused with an error that says something about the membership."""
        self._follow(error, now_ms)

    def _follow(self, error: ErrorCode, now_ms: float) -> bool:
        """Do what an error means; whether there was none."""
        outcome = OUTCOMES.get(error, Outcome.FATAL)
        holding = self.state in (State.STABLE, State.ADOPTING, State.PREPARING)
        if outcome == Outcome.COORDINATOR:
            self.coordinator_known = False
        if outcome in (Outcome.COORDINATOR, Outcome.AGAIN):
            self._retry_at_ms = now_ms + self.settings.retry_backoff_ms
        if outcome == Outcome.FATAL:
            self._fail(KafkaError(error, f"group {self.settings.group_id}: {error.name.lower().replace('_', ' ')}"))
        elif outcome == Outcome.RESET:
            self._reset()
        elif outcome != Outcome.GOOD and not holding:
            self.state = State.JOINING
        elif outcome == Outcome.REJOIN:
            self._rejoin = True
        return outcome == Outcome.GOOD

    def unsubscribe(self) -> None:
        """Out of the group, on the application's wish; LeaveGroup is sent by the caller."""
        self._reset()
        self.topics, self.owned = frozenset(), ()
        self._rejoin = self._lost = False

    def broke(self, error: Exception) -> None:
        """Something came back that makes no sense."""
        self._busy = False
        self._fail(error)

    def _reset(self) -> None:
        self.member_id, self.generation_id = NO_MEMBER, NO_GENERATION
        self._lost = bool(self.owned)
        self.turn = None
        self.state = State.OUTSIDE

    def _fail(self, error: Exception) -> None:
        self._reset()
        self.state = State.FATAL
        self.failure = error


def _subscriber(member_id: str, instance_id: str | None, metadata: bytes) -> Subscriber:
    said = decode_subscription(metadata)
    owned = tuple(TopicPartition(one.topic, number) for one in said.owned_partitions for number in one.partitions)
    return Subscriber(member_id, frozenset(said.topics), instance_id, owned, said.generation_id)
