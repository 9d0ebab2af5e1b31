"""The requests of one member to its coordinator. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.client.consumer.assignors import NOTHING_ADOPTED, Adopted, Assignor, user_data
from odradek.client.consumer.embedded import PROTOCOL_TYPE, encode_assignment, encode_subscription
from odradek.client.consumer.steps import MemberSettings
from odradek.client.records import TopicPartition
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NO_MEMBER = ""
NO_GENERATION = -1
REASON_LIMIT = 255
"""Characters of a reason that go into LeaveGroup (Kafka's JoinGroupRequest.maybeTruncateReason)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a member is for its coordinator: every request carries it, and one of an earlier identity is refused."""

    member_id: str = NO_MEMBER
    generation_id: int = NO_GENERATION


NOBODY = Identity()


def join_request(
    settings: MemberSettings,
    identity: Identity,
    topics: Iterable[str],
    owned: Iterable[TopicPartition],
    adopted: Adopted = NOTHING_ADOPTED,
) -> JoinGroupRequest:
    """Join with these wishes; `owned` came with the generation of `identity`, `adopted` is the last assignment."""
    wanted, kept = sorted(topics), sorted(owned)

    def metadata(assignor: Assignor) -> bytes:
        own = user_data(assignor, wanted, adopted)
        return encode_subscription(wanted, kept, identity.generation_id, own)

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
    """Get the assignment; the leader brings those of all members, by member id."""
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
    """Say that the member lives."""
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=settings.group_instance_id,
    )


def leave_request(settings: MemberSettings, identity: Identity, reason: str) -> LeaveGroupRequest | None:
    """Leave at once; None for a static member, whose place is kept, and for who is in no group."""
    if identity.member_id == NO_MEMBER or settings.group_instance_id is not None:
        return None
    member = MemberIdentity(member_id=identity.member_id, reason=reason[:REASON_LIMIT])
    return LeaveGroupRequest(group_id=settings.group_id, member_id=identity.member_id, members=[member])
