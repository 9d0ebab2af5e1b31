"""Requests of a group's member, and the subscriptions and assignments inside them. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.client.consumer.assignors.assignment import Adopted, Assignor, user_data
from odradek.client.consumer.member_states import MemberSettings
from odradek.client.errors import GroupError
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.codec import decode_growing, encode_versioned
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.protocol.messages.consumer_protocol import TopicPartition as PartitionsOfTopic
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE = "consumer"
VERSION = 3
"""Of subscriptions and assignments, the newest."""
NO_MEMBER = ""
NO_GENERATION = -1
REASON_LIMIT = 255
"""Characters of a reason that go into LeaveGroup (Kafka's JoinGroupRequest.maybeTruncateReason)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a member at its coordinator, sent in each request. Requests with an earlier identity are refused."""

    member_id: str = NO_MEMBER
    generation_id: int = NO_GENERATION


NOBODY = Identity()


def join_request(
    settings: MemberSettings,
    identity: Identity,
    topics: Iterable[str],
    owned: Iterable[TopicPartition],
    adopted: Adopted,
) -> JoinGroupRequest:
    """Return a JoinGroup. `owned` came with the generation of `identity`; `adopted` is the last assignment.

    Raises GroupError when an assignor, which may be the application's own, fails in user_data.
    """
    wanted, kept = sorted(topics), sorted(owned)

    def metadata(assignor: Assignor) -> bytes:
        try:
            own = user_data(assignor, wanted, adopted)
        except Exception as error:
            said = f"assignor {assignor.name!r} failed in user_data: {type(error).__name__}: {error}"
            raise GroupError(f"group {settings.group_id}: {said}") from error
        return encode_subscription(wanted, kept, identity.generation_id, own, settings.rack)

    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=identity.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=one.name, metadata=metadata(one)) for one in settings.assignors],
    )


def sync_request(
    settings: MemberSettings,
    identity: Identity,
    protocol: str,
    assignments: Mapping[str, Sequence[TopicPartition]],
) -> SyncGroupRequest:
    """Return a SyncGroup. The leader's has the `assignments` of all members, by member id."""
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
            for member_id, partitions in assignments.items()
        ],
    )


def heartbeat_request(settings: MemberSettings, identity: Identity) -> HeartbeatRequest:
    """Return a Heartbeat."""
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=settings.group_instance_id,
    )


def leave_request(settings: MemberSettings, identity: Identity, reason: str) -> LeaveGroupRequest | None:
    """Return a LeaveGroup; None for a static member, whose place is kept, and for one that is in no group."""
    if identity.member_id == NO_MEMBER or settings.group_instance_id is not None:
        return None
    member = MemberIdentity(member_id=identity.member_id, reason=reason[:REASON_LIMIT])
    return LeaveGroupRequest(group_id=settings.group_id, member_id=identity.member_id, members=[member])


def encode_subscription(
    topics: Sequence[str],
    owned: Iterable[TopicPartition],
    generation_id: int,
    user_data: bytes | None = None,
    rack: str | None = None,
) -> bytes:
    """Encode a member's part of JoinGroup. `user_data` comes from its assignor; by `rack` the leader may give it
    partitions that have a replica there (KIP-881)."""
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=_partitions(owned),
        generation_id=generation_id,
        rack_id=rack,
    )
    return encode_versioned(message, VERSION)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's subscription, as the group's leader gets it. Raises MalformedMessage."""
    return decode_growing(ConsumerProtocolSubscription, data)[1]


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode a member's part of SyncGroup, written by the group's leader."""
    message = ConsumerProtocolAssignment(assigned_partitions=_partitions(partitions))
    return encode_versioned(message, VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Decode a member's partitions; empty bytes mean none. Raises MalformedMessage."""
    if not data:
        return []
    _, message = decode_growing(ConsumerProtocolAssignment, data)
    return [TopicPartition(one.topic, number) for one in message.assigned_partitions for number in one.partitions]


def _partitions(partitions: Iterable[TopicPartition]) -> list[PartitionsOfTopic]:
    return [
        PartitionsOfTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic(sorted(partitions)).items()
    ]
