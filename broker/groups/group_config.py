"""Settings of the group coordinator, by Kafka's names and with Kafka's defaults."""

from dataclasses import dataclass

GROUP_METADATA_TOPIC = "__consumer_offsets"

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a member that has never been answered may wait in a rebalance (GroupCoordinator.NewMemberJoinTimeoutMs)."""

LONGEST_TEXT = 8_000
"""Characters in a group's id or anything else that a client names itself by: a record's strings have 16-bit lengths."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What the coordinator needs of the broker's settings."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_size: int = 5 * 1024 * 1024
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    offsets_topic_compression_codec: int = 0

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` in the unit of timestamps."""
        return self.offsets_retention_minutes * 60_000
