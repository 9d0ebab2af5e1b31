"""The members of one group, its leader, its protocol, its generation and its state: facts, without rules about time.

Kafka's GroupMetadata and MemberMetadata (3.9), without their locks. Members' metadata is opaque, with one exception:
expiry of offsets (KIP-211) and OffsetDelete need the topics that a consumer is subscribed to, which stand first in all
versions of ConsumerProtocolSubscription; whatever follows them is not looked at.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from odradek.broker.groups.group_effects import (
    NO_LEADER,
    JoinCallback,
    JoinedMember,
    JoinResult,
    Protocols,
    SyncCallback,
    SyncResult,
)
from odradek.protocol.codec import VERSION_BYTES, decoder, version_of
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription


class GroupState(StrEnum):
    """State of a group; its value is the name that DescribeGroups and ListGroups show.

    Empty                no members; perhaps offsets
    PreparingRebalance   members are expected to (re)join; answers to JoinGroup are held back
    CompletingRebalance  a generation is chosen; the leader's assignment is awaited; answers to SyncGroup are held back
    Stable               the assignment is stored and handed out
    Dead                 deleted, or moved to another coordinator; the object is of no use any more
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""States from which a state may be entered (GroupMetadata.scala)."""


CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics in the metadata of all members; None when one of them does not hold a subscription."""
    topics: set[str] = set()
    decode = decoder(ConsumerProtocolSubscription, 0)
    for one in metadata:
        try:
            version_of(one)
            topics.update(decode(one, VERSION_BYTES)[0].topics)
        except MalformedMessage:
            return None
    return frozenset(topics)


@dataclass(slots=True)
class Member:
    """A member of a group. A callback that is not None is a request of this member that waits for its answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    join_callback: JoinCallback | None = None
    sync_callback: SyncCallback | None = None
    is_new: bool = False
    """True until its first JoinGroup is answered: its client cannot send heartbeats before."""

    def metadata(self, protocol: str) -> bytes:
        """Return the metadata that the member has sent for `protocol`, which it must support."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the member's favourite protocol among `candidates`, of which it must support at least one."""
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True)
class GroupMetadata:
    """Facts about one group. `GroupStateMachine` and the loading of a group change them, nobody else."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_since_ms: int = -1
    """Wall clock of the last change of state; -1 when a record of an old version did not say."""
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    """Member ids that were given out with MEMBER_ID_REQUIRED and have not joined with it yet."""
    awaiting_sync: set[str] = field(default_factory=set)
    """Members of this generation that have not sent SyncGroup yet."""
    subscribed_topics: frozenset[str] | None = None
    """Topics that a consumer group reads; None when that is not known: any topic may be one of them (KIP-211)."""
    _static: dict[str, str] = field(default_factory=dict)
    _support: Counter[str] = field(default_factory=Counter)
    """How many members support each protocol that one of them supports."""

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Change the state; an illegal change is our bug."""
        assert self.state in VALID_PREVIOUS[state], f"group {self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_since_ms = now_ms

    def add(self, member: Member) -> None:
        """Add a member that is not there yet, and whose protocols the group supports. The first one leads."""
        assert member.member_id not in self.members, (self.group_id, member.member_id)
        if member.instance_id is not None:
            assert member.instance_id not in self._static, (self.group_id, member.instance_id)
            self._static[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type, (self.group_id, self.protocol_type, member.protocol_type)
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._support.update({name for name, _ in member.protocols})
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Forget a member or a pending member. The leader's place goes to the member that has been there longest."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._support -= Counter({name for name, _ in member.protocols})
            if member.instance_id is not None:
                del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.awaiting_sync.discard(member_id)
        return member

    def rename(self, instance_id: str, old_member_id: str, new_member_id: str) -> Member:
        """Give a static member another member id; its answers must have been sent before."""
        member = self.members.pop(old_member_id)
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self._static[instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.awaiting_sync:
            self.awaiting_sync.remove(old_member_id)
            self.awaiting_sync.add(new_member_id)
        return member

    def update_member(
        self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Take what a member says of itself when it joins again."""
        self._support -= Counter({name for name, _ in member.protocols})
        self._support.update({name for name, _ in protocols})
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def static_member_id(self, instance_id: str) -> str | None:
        """Return the member id that a `group.instance.id` stands for at present."""
        return self._static.get(instance_id)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Tell whether a member with these protocols may join: it shares a type and one protocol with all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everyone = len(self.members)
        return self.protocol_type == protocol_type and any(self._support[name] == everyone for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members support; the group must have members."""
        candidates = frozenset(name for name, count in self._support.items() if count == len(self.members))
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=lambda name: votes[name])

    def next_generation(self, now_ms: int) -> None:
        """Begin the next generation, all having joined: choose the protocol; enter CompletingRebalance, or Empty."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscribed_topics()
        self.awaiting_sync.clear()
        self.enter(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one of those who have joined; False when nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_callback is not None:
            return True
        joined = next((member.member_id for member in self.members.values() if member.join_callback is not None), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    def all_joined(self) -> bool:
        """Tell whether every member has joined, so that nobody has to be waited for."""
        return not self.pending and all(member.join_callback is not None for member in self.members.values())

    def joined_count(self) -> int:
        """Count the members that wait for the answer to their JoinGroup."""
        return sum(member.join_callback is not None for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout that any member asked for, in ms."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def member_list(self) -> tuple[JoinedMember, ...]:
        """List the members as the leader of this generation is told of them."""
        assert self.protocol_name is not None, (self.group_id, self.state)
        protocol = self.protocol_name
        return tuple(JoinedMember(m.member_id, m.instance_id, m.metadata(protocol)) for m in self.members.values())

    def reads(self, topic: str) -> bool:
        """Tell whether a member is, or may be, subscribed to the topic."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def refresh_subscribed_topics(self) -> None:
        """Read the topics out of the members' metadata, where the group is one of consumers."""
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is not None:
            protocol = self.protocol_name
            self.subscribed_topics = subscribed_topics(m.metadata(protocol) for m in self.members.values())

    def join_result(self, member: Member, *, leader: str | None = None, skip_assignment: bool = False) -> JoinResult:
        """Make the answer to a member of the generation in force; the leader alone is told of all members.

        `leader`: the id to name as the leader, when it is not the real one (see static_members.py).
        """
        told_leader = leader if leader is not None else self.leader or NO_LEADER
        return JoinResult(
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=told_leader,
            skip_assignment=skip_assignment,
            members=self.member_list() if told_leader == member.member_id else (),
        )

    def sync_result(self, member: Member) -> SyncResult:
        """Make the answer to a member that may have its assignment."""
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)
