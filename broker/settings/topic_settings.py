"""Settings of a topic, and the broker's settings that stand for them where the topic has none of its own.

Source: LogConfig, TopicConfig and ServerTopicConfigSynonyms of Kafka 3.9.
"""

from dataclasses import dataclass
from typing import Final

from odradek.broker.settings.definition import read_table, setting

NO_LIMIT_MS: Final = 2**63 - 1
CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one log: its topic's, or the broker's where the topic has none. Bytes and milliseconds."""

    segment_bytes: int = setting(
        "int 1073741824 >=14 medium topic",
        "Maximum size of a segment file.",
        broker="log.segment.bytes",
    )
    segment_ms: int = setting(
        "long 604800000 >=1 medium topic",
        "A new segment begins when the first record of the present one is this old.",
        broker="log.roll.ms log.roll.hours",
    )
    segment_jitter_ms: int = setting(
        "long 0 >=0 medium topic",
        "Taken off segment.ms at random, so that segments do not all roll at once.",
        broker="log.roll.jitter.ms log.roll.jitter.hours",
    )
    segment_index_bytes: int = setting(
        "int 10485760 >=4 medium topic",
        "Size of an index file; a full one closes its segment.",
        broker="log.index.size.max.bytes",
    )
    flush_messages: int = setting(
        "long 9223372036854775807 >=1 medium topic",
        "Maximum number of unflushed records.",
        broker="log.flush.interval.messages",
    )
    flush_ms: int = setting(
        "long 9223372036854775807 >=0 medium topic",
        "How long a record may stay unflushed.",
        broker="log.flush.interval.ms log.flush.scheduler.interval.ms",
    )
    retention_bytes: int = setting(
        "long -1 any medium topic",
        "Old segments are deleted while a partition is larger; -1 never.",
        broker="log.retention.bytes",
    )
    retention_ms: int = setting(
        "long 604800000 >=-1 medium topic",
        "Closed segments whose newest record is older are deleted; -1 never.",
        broker="log.retention.ms log.retention.minutes log.retention.hours",
    )
    max_message_bytes: int = setting(
        "int 1048588 >=0 medium topic",
        "Maximum size of a record batch.",
        broker="message.max.bytes",
    )
    index_interval_bytes: int = setting(
        "int 4096 >=0 medium topic",
        "Bytes of log between two entries of the offset index.",
        broker="log.index.interval.bytes",
    )
    delete_retention_ms: int = setting(
        "long 86400000 >=0 medium topic",
        "How long a tombstone stays in a compacted log.",
        broker="log.cleaner.delete.retention.ms",
    )
    min_compaction_lag_ms: int = setting(
        "long 0 >=0 medium topic",
        "Minimum time for which a record stays uncompacted.",
        broker="log.cleaner.min.compaction.lag.ms",
    )
    max_compaction_lag_ms: int = setting(
        "long 9223372036854775807 >=1 medium topic",
        "Maximum time for which a record stays uncompacted.",
        broker="log.cleaner.max.compaction.lag.ms",
    )
    file_delete_delay_ms: int = setting(
        "long 60000 >=0 medium topic",
        "How long a deleted file stays on disk under another name.",
        broker="log.segment.delete.delay.ms",
    )
    min_cleanable_dirty_ratio: float = setting(
        "double 0.5 0..1 medium topic",
        "The log is compacted when this share of it was written since the last compaction.",
        broker="log.cleaner.min.cleanable.ratio",
    )
    cleanup_policy: frozenset[str] = setting(
        "list delete {compact,delete} medium topic",
        "What becomes of old segments: delete them, compact them by key, or both.",
        value=frozenset({"delete"}),
        broker="log.cleanup.policy",
    )
    unclean_leader_election_enable: bool = setting(
        "boolean false any medium topic",
        "Whether an out-of-sync replica may become leader when no in-sync one is alive; records may be lost.",
        broker="unclean.leader.election.enable",
    )
    min_insync_replicas: int = setting(
        "int 1 >=1 medium topic",
        "In-sync replicas that a write with acks=all needs.",
        broker="min.insync.replicas",
    )
    compression_type: str = setting(
        "string producer {uncompressed,zstd,lz4,snappy,gzip,producer} medium topic",
        "Codec that batches are stored with; producer keeps the producer's.",
        broker="compression.type",
    )
    compression_gzip_level: int = setting(
        "int -1 -1|1..9 medium topic", "Level of gzip, when the broker compresses.", broker="compression.gzip.level"
    )
    compression_lz4_level: int = setting(
        "int 9 1..17 medium topic", "Level of lz4, when the broker compresses.", broker="compression.lz4.level"
    )
    compression_zstd_level: int = setting(
        "int 3 -131072..22 medium topic", "Level of zstd, when the broker compresses.", broker="compression.zstd.level"
    )
    preallocate: bool = setting(
        "boolean false any medium topic",
        "Whether a new segment's file takes its full size at once.",
        broker="log.preallocate",
    )
    message_timestamp_type: str = setting(
        "string CreateTime {CreateTime,LogAppendTime} medium topic",
        "Whether timestamps are the producer's or the broker's.",
        broker="log.message.timestamp.type",
    )
    message_timestamp_before_max_ms: int = setting(
        "long 9223372036854775807 >=0 medium topic",
        "How far a record's timestamp may be before the broker's clock.",
        broker="log.message.timestamp.before.max.ms",
    )
    message_timestamp_after_max_ms: int = setting(
        "long 9223372036854775807 >=0 medium topic",
        "How far a record's timestamp may be after the broker's clock.",
        broker="log.message.timestamp.after.max.ms",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        "list '' any medium topic",
        "Replicas throttled when followers fetch from them: partition:broker, separated by commas, or *.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        "list '' any medium topic",
        "Replicas throttled when they fetch: partition:broker, separated by commas, or *.",
    )
    message_downconversion_enable: bool = setting(
        "boolean true any low topic",
        "Whether old consumers get records converted to their format, or an error.",
        broker="log.message.downconversion.enable",
    )

    @property
    def compression_level(self) -> int | None:
        """Level of the codec that batches are compressed with; None for one without levels."""
        match self.compression_type:
            case "gzip":
                return self.compression_gzip_level
            case "lz4":
                return self.compression_lz4_level
            case "zstd":
                return self.compression_zstd_level
        return None

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy


OTHER_TOPIC_SETTINGS: Final = read_table("""
message.format.version string 3.0-IV1 any medium topic none broker=log.message.format.version
    Oldest record format kept; ignored since Kafka 3.0.
message.timestamp.difference.max.ms long 9223372036854775807 >=0 medium topic \
    works broker=log.message.timestamp.difference.max.ms
    How far a record's timestamp may be from the broker's clock; replaced by the two settings below.
remote.storage.enable boolean false any medium topic refused
    Whether old segments move to remote storage. | remote storage is not implemented
local.retention.ms long -2 >=-2 medium topic none broker=log.local.retention.ms
    How long segments stay on the broker's disk when remote storage is on; -2 as retention.ms.
local.retention.bytes long -2 >=-2 medium topic none broker=log.local.retention.bytes
    How much stays on the broker's disk when remote storage is on; -2 as retention.bytes.
remote.log.copy.disable boolean false any medium topic none
    Whether copying to remote storage has been stopped.
remote.log.delete.on.disable boolean false any medium topic none
    Whether remote data is deleted when remote storage is turned off.
""")

UNIT_MS: Final[dict[str, int]] = {
    "log.roll.hours": HOUR_MS,
    "log.roll.jitter.hours": HOUR_MS,
    "log.retention.hours": HOUR_MS,
    "log.retention.minutes": MINUTE_MS,
}
"""Milliseconds in the units of those of the broker's settings that are not in milliseconds."""
