"""Membership of one consumer in a group. No I/O: the driver calls `next_step`, carries it out, and reports the outcome.

The states, and the meaning of answers, are tables in member_states.py; they follow Java's AbstractCoordinator. A member
that does not poll for max.poll.interval.ms leaves the group (KIP-62). One step is open at a time; if the membership
ends meanwhile, the step's outcome no longer counts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from odradek.client.consumer.assignors.assignment import Adopted, ReplicaRacks, Subscriber, assigned_by
from odradek.client.consumer.assignors.racks import have_more_racks
from odradek.client.consumer.group_protocol import (
    NO_GENERATION,
    NOBODY,
    Identity,
    decode_assignment,
    decode_subscription,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from odradek.client.consumer.member_states import (
    DECIDED,
    ENTERING,
    HOLDING,
    VALID_PREVIOUS,
    Adopt,
    Count,
    FindCoordinator,
    Heartbeat,
    Join,
    Leave,
    MemberSettings,
    Outcome,
    Prepare,
    State,
    Step,
    Sync,
    Turn,
    WaitUntil,
    outcome_of,
    outcome_of_heartbeat,
)
from odradek.client.errors import ClientError, GroupError, in_words
from odradek.client.records import TopicPartition
from odradek.client.waiting import NEVER
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage, error_code
from odradek.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.messages.leave_group import LeaveGroupRequest


@dataclass(slots=True)
class Membership:
    """Membership of a consumer. `turn` is what the application must do now; it reports with `turn_done`."""

    settings: MemberSettings
    state: State = State.OUTSIDE
    topics: frozenset[str] = frozenset()
    identity: Identity = NOBODY
    owned: tuple[TopicPartition, ...] = ()
    """Partitions that the application has. Without a generation in `identity` they are lost to other members."""
    turn: Turn | None = None
    failure: Exception | None = None
    coordinator_known: bool = False
    _adopted: Adopted = field(default_factory=Adopted)
    """The last assignment, even if it is given up by now, for the user data of an assignor."""
    _polled_ms: float | None = None
    _heartbeat_at_ms: float = 0.0
    _retry_at_ms: float = 0.0
    _busy: bool = False
    """True while a step is being carried out."""
    _void: bool = False
    """True if the outcome of the step that is being carried out no longer counts."""
    _rejoin: bool = False
    _leader: bool = False
    _decides: bool = False
    """True if this member leads and has to assign; a static one that returns as the leader has not (KIP-814)."""
    _protocol: str = ""
    _subscribers: list[Subscriber] = field(default_factory=list)
    _assignments: dict[str, list[TopicPartition]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    """Topic → the partition count by which the leader has assigned; 0 for a topic that did not exist."""
    _racks: ReplicaRacks = field(default_factory=dict)
    _missing: set[str] = field(default_factory=set)
    """Those of these topics that the last metadata lacked."""

    # -- what the application does -------------------------------------------------------------------------------------

    def polled(self, now_ms: float) -> bool:
        """Note that the application has polled, so it is alive. Tell whether the driver was waiting for that."""
        news = self._polled_ms is None
        self._polled_ms = now_ms
        return news

    @property
    def may_commit(self) -> bool:
        """True when a commit would carry a generation that lasts: during a rebalance it would be refused (as in Java's
        client)."""
        return self._holds or not self.topics

    @property
    def _holds(self) -> bool:
        return self.state in HOLDING and self.identity.generation_id != NO_GENERATION

    @property
    def lost(self) -> bool:
        """Tell whether the application's partitions belong to others by now: their records must not be handed out."""
        return bool(self.owned) and self.identity.generation_id == NO_GENERATION

    @property
    def asks_for_its_id(self) -> bool:
        """Tell whether a JoinGroup for a new member id is under way; the coordinator will expect that id to join."""
        return self._busy and self.state == State.JOINING and self.identity == NOBODY

    @property
    def watched_topics(self) -> frozenset[str]:
        """Topics of the whole group, if this member is its leader: their partition counts matter to it."""
        return frozenset(self._counts) if self._leader else frozenset()

    def subscribe(self, topics: Collection[str]) -> None:
        """Want these topics from now on."""
        if frozenset(topics) != self.topics:
            self.topics = frozenset(topics)
            self._rejoin = True

    def unsubscribe(self) -> None:
        """End the membership at the application's request; the caller sends LeaveGroup."""
        self._lose(NOBODY)
        self.topics, self.owned = frozenset(), ()
        self.failure, self._rejoin = None, False

    def take_failure(self, now_ms: float) -> Exception | None:
        """Return the failure to raise now, if there is one. After a coordinator's refusal the member joins again, as
        Java's consumer does: the missing rights may have been granted, and a member whose subscription cannot be read
        may be gone. A fenced member stays out."""
        failure = self.failure
        refused = isinstance(failure, KafkaError) and failure.code is not ErrorCode.FENCED_INSTANCE_ID
        if refused and (not isinstance(failure, ClientError) or isinstance(failure, GroupError)):
            self.failure = None
            self._retry_at_ms = now_ms + self.settings.retry_backoff_ms
            self._enter(State.OUTSIDE)
        return failure

    def counts_changed(self, counts: Mapping[str, int], racks: ReplicaRacks) -> None:
        """Take the partition counts of fresh metadata: a leader that has assigned by others starts a rebalance. So does
        one that is given `racks`, when there are replicas in more of them. That a broker has gone changes nothing yet.

        A missing topic counts as deleted only if the previous metadata lacked it, too: a broker that has just started
        may not know it yet.
        """
        missing = {topic for topic, count in self._counts.items() if count and topic not in counts}
        deleted, self._missing = missing & self._missing, missing
        if self._leader and self.state in DECIDED:
            grown = any(counts.get(topic, count) != count for topic, count in self._counts.items())
            self._rejoin |= grown or bool(deleted) or have_more_racks(self._racks, racks)

    def turn_done(self, turn: Turn) -> None:
        """Note that the application has carried out a turn; membership may have been lost, or left, meanwhile."""
        if isinstance(turn, Prepare):
            gone = {*turn.revoked, *turn.lost}
            self.owned = tuple(tp for tp in self.owned if tp not in gone)
        else:
            self.owned = turn.all if self.topics else ()  # a listener may have unsubscribed
        if turn is not self.turn:
            if self.state == State.PREPARING:
                self.turn = self._preparation()
            return
        self.turn = None
        self._enter(State.JOINING if isinstance(turn, Prepare) else State.STABLE)
        if isinstance(turn, Adopt) and turn.revoked and self.settings.cooperative:
            self._rejoin = True

    def leave_request(self, reason: str) -> LeaveGroupRequest | None:
        """Return the request to leave at once; None for a member that sends none, such as a static one."""
        return leave_request(self.settings, self.identity, reason)

    # -- what to do ----------------------------------------------------------------------------------------------------

    def next_step(self, now_ms: float) -> Step:
        """Return what to do now. The driver reports its outcome before the next call; it may cut a WaitUntil short.
        Raises GroupError."""
        assert not self._busy, f"{self.state}: a step is still open"
        step = self._next_step(now_ms)
        self._busy = not isinstance(step, WaitUntil)
        return step

    def _next_step(self, now_ms: float) -> Step:
        if self._polled_ms is None or self.state == State.FATAL:
            return WaitUntil(NEVER)
        if self._holds and now_ms - self._polled_ms > self.settings.max_poll_interval_ms:
            return self._leave_because_slow()
        self._begin_rebalance()
        if self.state == State.OUTSIDE:
            return WaitUntil(NEVER)
        if now_ms < self._retry_at_ms:
            return WaitUntil(self._retry_at_ms)
        if not self.coordinator_known:
            return FindCoordinator()
        return self._step_to_join() or self._heartbeat(now_ms, self._polled_ms)

    def _begin_rebalance(self) -> None:
        """Go from STABLE or OUTSIDE to PREPARING, when there is a reason."""
        wanted = self._rejoin if self.state == State.STABLE else bool(self.topics or self.owned)
        if self.state in (State.STABLE, State.OUTSIDE) and wanted:
            self._enter(State.PREPARING)
            self.turn = self._preparation()

    def _preparation(self) -> Prepare:
        """Return what is given up before joining: everything; cooperatively, what is no longer wanted (KIP-429)."""
        if self.identity.generation_id == NO_GENERATION:
            return Prepare((), self.owned)
        unwanted = tuple(tp for tp in self.owned if tp.topic not in self.topics)
        return Prepare(unwanted if self.settings.cooperative else self.owned, ())

    def _step_to_join(self) -> Step | None:
        match self.state:
            case State.JOINING:
                self._rejoin = False
                return Join(join_request(self.settings, self.identity, self.topics, self.owned, self._adopted))
            case State.COUNTING:
                return Count(frozenset(topic for one in self._subscribers for topic in one.topics))
            case State.SYNCING:
                return Sync(sync_request(self.settings, self.identity, self._protocol, self._assignments))
            case _:
                return None

    def _heartbeat(self, now_ms: float, polled_ms: float) -> Step:
        if self.identity.generation_id == NO_GENERATION:
            return WaitUntil(NEVER)
        if now_ms >= self._heartbeat_at_ms:
            self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
            return Heartbeat(heartbeat_request(self.settings, self.identity))
        return WaitUntil(min(self._heartbeat_at_ms, polled_ms + self.settings.max_poll_interval_ms + 1))

    def _leave_because_slow(self) -> Step:
        reason = (
            f"the application did not poll for max.poll.interval.ms={self.settings.max_poll_interval_ms}: "
            "process faster, poll fewer records (max.poll.records), or raise it"
        )
        request = self.leave_request(reason)
        self._lose(NOBODY)
        self._polled_ms = None
        return Leave(request, reason) if request is not None else WaitUntil(NEVER)

    # -- what came back ------------------------------------------------------------------------------------------------

    def coordinator_found(self) -> None:
        """Note that the coordinator is known, until an answer says otherwise."""
        self._ended()
        self.coordinator_known = True

    def coordinator_lost(self) -> None:
        """Have the coordinator looked up before the next step: a commit found that it is gone, or is another broker."""
        self.coordinator_known = False

    def joined(self, answer: JoinGroupResponse, now_ms: float) -> bool:
        """Act on the answer to JoinGroup; tell whether it still counted. Raises GroupError."""
        if not self._ended():
            return False
        error = error_code(answer.error_code)
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.identity = Identity(answer.member_id)
        if not self._follow(error, now_ms):
            return True
        self.identity = Identity(answer.member_id, answer.generation_id)
        self._protocol = answer.protocol_name or ""
        self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        self._leader = answer.leader == answer.member_id
        self._decides = self._leader and not answer.skip_assignment
        self._assignments = {}
        self._subscribers = [self._subscriber(one) for one in answer.members]
        self._enter(State.COUNTING if self._leader else State.SYNCING)
        return True

    def _subscriber(self, member: JoinGroupResponseMember) -> Subscriber:
        """Return a member as the assignor sees it. Raises GroupError if its subscription cannot be read."""
        try:
            said = decode_subscription(member.metadata)
        except MalformedMessage as error:
            whose = f"group {self.settings.group_id}: the subscription of member {member.member_id}"
            raise GroupError(f"{whose} cannot be read: {error}") from error
        owned = tuple(TopicPartition(one.topic, number) for one in said.owned_partitions for number in one.partitions)
        topics, user_data = frozenset(said.topics), bytes(said.user_data or b"")
        known_by, generation_id = member.group_instance_id, said.generation_id
        return Subscriber(member.member_id, topics, known_by, owned, generation_id, user_data, said.rack_id)

    def counted(self, counts: Mapping[str, int], racks: ReplicaRacks) -> None:
        """Take the partition counts, and the racks of replicas, of those of the group's topics that exist; the leader
        assigns by them."""
        if not self._ended():
            return
        self._racks = racks
        self._counts = {topic: counts.get(topic, 0) for one in self._subscribers for topic in one.topics}
        if self._decides:
            chosen = next((one for one in self.settings.assignors if one.name == self._protocol), None)
            if chosen is None:
                said = f"group {self.settings.group_id} chose {self._protocol!r}, which was not offered"
                self._fail(GroupError(said))
                return
            try:
                self._assignments = assigned_by(chosen, self._subscribers, counts, racks)
            except Exception as error:  # any fault of the application's own assignor
                whose = f"group {self.settings.group_id}: assignor {chosen.name!r}"
                raise GroupError(f"{whose} failed: {type(error).__name__}: {error}") from error
        self._enter(State.SYNCING)

    def synced(self, error: ErrorCode, assignment: bytes, now_ms: float) -> None:
        """Act on the answer to SyncGroup. Raises GroupError."""
        if not self._ended():
            return
        self._assignments = {}
        if not self._follow(error, now_ms):
            return
        try:
            given = sorted(decode_assignment(assignment))
        except MalformedMessage as error:
            said = f"group {self.settings.group_id}: its leader's assignment cannot be read: {error}"
            raise GroupError(said) from error
        now_owned = tuple(tp for tp in given if tp.topic in self.topics or not self._rejoin)  # these may have changed
        self._adopted = Adopted(now_owned, self.identity.generation_id)
        before = set(self.owned)
        revoked = tuple(sorted(before.difference(now_owned)))
        added = tuple(tp for tp in now_owned if tp not in before)
        self._enter(State.ADOPTING)
        self.turn = Adopt(revoked, added, now_owned)

    def beaten(self, error: ErrorCode, now_ms: float) -> None:
        """Act on the answer to Heartbeat."""
        if self._ended():
            self._follow(error, now_ms, outcome_of_heartbeat(error))

    def left(self) -> None:
        """Note that LeaveGroup was sent, whether it was answered or not."""
        self._ended()

    def failed(self, now_ms: float) -> None:
        """Note that a step's request was not answered."""
        if self._ended():
            self._follow(ErrorCode.NETWORK_EXCEPTION, now_ms)

    def broke(self, error: KafkaError) -> None:
        """Fail the membership: an answer made no sense, or its error does not pass."""
        if self._ended():
            self._fail(error)

    def refused(self, error: ErrorCode, now_ms: float) -> None:
        """Act on the error of a commit that concerns the membership, and that was sent with the present identity."""
        self._follow(error, now_ms)

    # -- how it goes on ------------------------------------------------------------------------------------------------

    def _ended(self) -> bool:
        """End the open step; tell whether its outcome still counts."""
        counts = not self._void
        self._busy = self._void = False
        return counts

    def _follow(self, error: ErrorCode, now_ms: float, outcome: Outcome | None = None) -> bool:
        """Change the state as an error demands, whose `outcome` is None if usual; return whether it was NONE."""
        match outcome := outcome or outcome_of(error):
            case Outcome.GOOD:
                return True
            case Outcome.FATAL:
                self._fail(KafkaError(error, f"group {self.settings.group_id}: {in_words(error)}"))
            case Outcome.FORGOTTEN:
                self._lose(NOBODY)
            case Outcome.OUTDATED:
                self._lose(Identity(self.identity.member_id))
            case Outcome.REJOIN:
                self._rejoin = True
            case Outcome.COORDINATOR | Outcome.AGAIN:
                self.coordinator_known &= outcome == Outcome.AGAIN
                self._retry_at_ms = now_ms + self.settings.retry_backoff_ms
        if self.state in ENTERING:
            self._enter(State.JOINING)
        return False

    def _lose(self, identity: Identity) -> None:
        """Lose all partitions that the member has; it may come back with this identity."""
        self.identity = identity
        self.turn = None
        self._leader = False
        self._void = self._busy
        self._enter(State.OUTSIDE)

    def _fail(self, error: KafkaError) -> None:
        """Fail, but keep the member id, unless it is fenced, to leave with it: the group would wait for the session."""
        fenced = error.code is ErrorCode.FENCED_INSTANCE_ID
        self._lose(NOBODY if fenced else Identity(self.identity.member_id))
        self._enter(State.FATAL)
        self.failure = error

    def _enter(self, state: State) -> None:
        assert self.state in VALID_PREVIOUS[state], f"{state} after {self.state}"
        self.state = state
