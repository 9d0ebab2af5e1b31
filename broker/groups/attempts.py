"""What a member asks for, without the differences between versions of the requests."""

from dataclasses import dataclass

from odradek.broker.groups.roster import Protocols


@dataclass(frozen=True, slots=True)
class JoinAttempt:
    """A JoinGroup request, without the differences between versions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    fresh_member_id: str
    """The id that a new member is to have: `client id - uuid`, or `group.instance.id - uuid`."""
    member_id_required: bool
    """A new dynamic member must come again with the id it is told (version 4 and above, KIP-394)."""
    skip_assignment_known: bool
    """The client understands SkipAssignment (version 9 and above, KIP-814)."""


@dataclass(frozen=True, slots=True)
class SyncAttempt:
    """A SyncGroup request; type and name are None when the client's version does not send them."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]
