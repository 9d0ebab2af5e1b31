"""What a membership asks others to do: steps of the driver on the loop, turns of the application in `poll`. Values."""

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.client.consumer.assignors import Assignor
from odradek.client.consumer.config import ConsumerSettings, assignors, cooperative
from odradek.client.records import TopicPartition
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The settings that a membership obeys."""

    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    max_poll_interval_ms: int
    heartbeat_interval_ms: int
    retry_backoff_ms: float
    assignors: Sequence[Assignor]
    cooperative: bool


def member_settings(config: ConsumerSettings) -> MemberSettings:
    """Of a consumer that has a group."""
    assert config.group_id is not None
    strategies = assignors(config)
    return MemberSettings(
        config.group_id,
        config.group_instance_id,
        config.session_timeout_ms,
        config.max_poll_interval_ms,
        config.heartbeat_interval_ms,
        config.retry_backoff_ms,
        strategies,
        cooperative(strategies),
    )


# -- for the driver ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing to do before that monotonic time, or something is reported."""

    at_ms: float


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look it up, then `coordinator_found` or `failed`."""


@dataclass(frozen=True, slots=True)
class Join:
    """Send it to the coordinator, then `joined` or `failed`."""

    request: JoinGroupRequest


@dataclass(frozen=True, slots=True)
class Count:
    """Get the partition counts of these topics, then `counted`: this member is the leader."""

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
    """Send it, then `left`; the answer does not matter."""

    request: LeaveGroupRequest
    reason: str


Step = WaitUntil | FindCoordinator | Join | Count | Sync | Heartbeat | Leave


# -- for the application -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    """Before joining: `revoked` are given up, or `lost` already."""

    revoked: tuple[TopicPartition, ...]
    lost: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Adopt:
    """After joining: first give up `revoked`, then take `added`; `all` is what it has then."""

    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
    all: tuple[TopicPartition, ...]


Turn = Prepare | Adopt
