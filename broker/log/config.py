"""The settings of one log: Kafka's topic settings with Kafka 3.9's defaults."""

from dataclasses import dataclass

NO_LIMIT_MS = 2**63 - 1
LOG_OVERHEAD = 12

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Names are Kafka's topic settings with `_` for `.`; sizes in bytes, times in milliseconds.

    Source: org.apache.kafka.storage.internals.log.LogConfig and TopicConfig of 3.9.
    """

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = 2**63 - 1
    flush_ms: int = NO_LIMIT_MS
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    max_compaction_lag_ms: int = NO_LIMIT_MS
    max_message_bytes: int = 1_048_576 + LOG_OVERHEAD
    message_downconversion_enable: bool = True
    message_timestamp_after_max_ms: int = NO_LIMIT_MS
    message_timestamp_before_max_ms: int = NO_LIMIT_MS
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy
