"""Settings of the logs: where they are, segments, indexes, flushing, retention, compaction, timestamps."""

from dataclasses import dataclass
from typing import Final

from odradek.broker.settings.definition import read_table, setting

NO_LIMIT_MS: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class LogManagerSettings:
    """Directories, recovery, compaction, and what is done to all logs from time to time."""

    log_dirs: tuple[str, ...] = setting(
        "string - any high read-only",
        "Directories of the logs, separated by commas.",
        value=("/tmp/kafka-logs",),
    )
    num_recovery_threads_per_data_dir: int = setting(
        "int 1 >=1 high cluster-wide",
        "Threads for each directory that recover logs on start and flush them on shutdown.",
        live="each-use",
    )
    background_threads: int = setting(
        "int 10 >=1 high cluster-wide", "Threads for work beside requests.", live="background"
    )
    log_initial_task_delay_ms: int = setting(
        "long 30000 >=0 low read-only internal",
        "Pause after the start before retention, flushing and checkpoints begin.",
    )
    log_retention_check_interval_ms: int = setting(
        "long 300000 >=1 medium read-only", "How often logs are checked for segments to delete."
    )
    log_flush_scheduler_interval_ms: int = setting(
        "long 9223372036854775807 any high read-only",
        "How often logs are checked for records to flush.",
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        "int 60000 >=0 high read-only",
        "How often recovery points are written to disk.",
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        "int 60000 >=0 high read-only",
        "How often log start offsets are written to disk.",
    )
    log_cleaner_enable: bool = setting("boolean true any medium read-only", "Whether compaction runs.")
    log_cleaner_threads: int = setting("int 1 >=0 medium cluster-wide", "Workers that compact logs.", live="logs")
    log_cleaner_dedupe_buffer_size: int = setting(
        "long 134217728 any medium cluster-wide",
        "Memory for the key maps of all compaction workers together.",
        live="logs",
    )
    log_cleaner_io_buffer_load_factor: float = setting(
        "double 0.9 any medium cluster-wide",
        "How full a key map may get, from 0 to 1.",
        live="logs",
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        "double 1.7976931348623157E308 any medium cluster-wide",
        "Bytes a second that compaction may read and write.",
        live="logs",
    )
    log_cleaner_backoff_ms: int = setting(
        "long 15000 >=0 medium cluster-wide",
        "Pause before the next check when there is nothing to compact.",
        live="logs",
    )
    producer_id_expiration_ms: int = setting(
        "int 86400000 >=1 low cluster-wide",
        "How long a partition remembers a silent producer.",
        live="logs",
    )
    producer_id_expiration_check_interval_ms: int = setting(
        "int 600000 >=1 low read-only internal",
        "How often silent producers are looked for.",
    )


@dataclass(frozen=True, kw_only=True)
class TopicDefaults:
    """Defaults of topics that do not say otherwise, and of new topics."""

    num_partitions: int = setting(
        "int 1 >=1 medium read-only",
        "Partitions of a topic that is created without a number of partitions.",
    )
    default_replication_factor: int = setting(
        "int 1 any medium read-only",
        "Replicas of a topic that is created without a replication factor.",
    )
    auto_create_topics_enable: bool = setting(
        "boolean true any high read-only",
        "Whether a topic is created when somebody asks for its metadata.",
    )
    log_segment_bytes: int = setting(
        "int 1073741824 >=14 high cluster-wide",
        "Maximum size of a segment file.",
        live="logs",
    )
    log_roll_ms: int = setting(
        "long - any high cluster-wide",
        "A new segment begins when the first record of the present one is this old.",
        live="logs",
        value=604_800_000,
    )
    log_roll_jitter_ms: int = setting(
        "long - any high cluster-wide",
        "Taken off log.roll.ms at random, so that segments do not all roll at once.",
        live="logs",
        value=0,
    )
    log_retention_ms: int = setting(
        "long - any high cluster-wide",
        "Closed segments whose newest record is older are deleted; -1 never.",
        live="logs",
        value=604_800_000,
    )
    log_retention_bytes: int = setting(
        "long -1 any high cluster-wide",
        "Old segments are deleted while a partition is larger; -1 never.",
        live="logs",
    )
    log_cleanup_policy: tuple[str, ...] = setting(
        "list delete {compact,delete} medium cluster-wide",
        "What becomes of old segments: delete them, compact them by key, or both.",
        live="logs",
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        "double 0.5 0..1 medium cluster-wide",
        "A log is compacted when this share of it was written since the last compaction.",
        live="logs",
    )
    log_cleaner_delete_retention_ms: int = setting(
        "long 86400000 >=0 medium cluster-wide",
        "How long a tombstone stays in a compacted log.",
        live="logs",
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        "long 0 >=0 medium cluster-wide",
        "Minimum time for which a record stays uncompacted.",
        live="logs",
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        "long 9223372036854775807 >=1 medium cluster-wide",
        "Maximum time for which a record stays uncompacted.",
        live="logs",
    )
    log_index_size_max_bytes: int = setting(
        "int 10485760 >=4 medium cluster-wide",
        "Size of an index file; a full one closes its segment.",
        live="logs",
    )
    log_index_interval_bytes: int = setting(
        "int 4096 >=0 medium cluster-wide",
        "Bytes of log between two entries of the offset index.",
        live="logs",
    )
    log_flush_interval_messages: int = setting(
        "long 9223372036854775807 >=1 high cluster-wide",
        "Maximum number of unflushed records of a partition.",
        live="logs",
    )
    log_flush_interval_ms: int = setting(
        "long - any high cluster-wide",
        "How long a record may stay unflushed; log.flush.scheduler.interval.ms when not set.",
        live="logs",
        value=NO_LIMIT_MS,
    )
    log_segment_delete_delay_ms: int = setting(
        "long 60000 >=0 high cluster-wide",
        "How long a deleted file stays on disk under another name.",
        live="logs",
    )
    log_preallocate: bool = setting(
        "boolean false any medium cluster-wide",
        "Whether a new segment's file takes its full size at once.",
        live="logs",
    )
    log_message_timestamp_type: str = setting(
        "string CreateTime {CreateTime,LogAppendTime} medium cluster-wide",
        "Whether timestamps are the producer's or the broker's.",
        live="logs",
    )
    log_message_timestamp_difference_max_ms: int = setting(
        "long 9223372036854775807 >=0 medium cluster-wide",
        "How far a record's timestamp may be from the broker's clock; replaced by the two settings below.",
        live="logs",
    )
    log_message_timestamp_before_max_ms: int = setting(
        "long 9223372036854775807 >=0 medium cluster-wide",
        "How far a record's timestamp may be before the broker's clock.",
        live="logs",
    )
    log_message_timestamp_after_max_ms: int = setting(
        "long 9223372036854775807 >=0 medium cluster-wide",
        "How far a record's timestamp may be after the broker's clock.",
        live="logs",
    )
    log_message_downconversion_enable: bool = setting(
        "boolean true any low cluster-wide",
        "Whether old consumers get records converted to their format, or an error.",
        live="logs",
    )
    min_insync_replicas: int = setting(
        "int 1 >=1 high cluster-wide",
        "In-sync replicas that a write with acks=all needs.",
        live="logs",
    )
    message_max_bytes: int = setting("int 1048588 >=0 high cluster-wide", "The largest record batch.", live="logs")
    compression_type: str = setting(
        "string producer {uncompressed,zstd,lz4,snappy,gzip,producer} high cluster-wide",
        "Codec that batches are stored with; producer keeps the producer's.",
        live="logs",
    )
    compression_gzip_level: int = setting(
        "int -1 -1|1..9 medium cluster-wide", "Level of gzip, when the broker compresses.", live="logs"
    )
    compression_lz4_level: int = setting(
        "int 9 1..17 medium cluster-wide", "Level of lz4, when the broker compresses.", live="logs"
    )
    compression_zstd_level: int = setting(
        "int 3 -131072..22 medium cluster-wide", "Level of zstd, when the broker compresses.", live="logs"
    )


OTHER_LOG_SETTINGS: Final = read_table("""
log.dir string /tmp/kafka-logs any high read-only works
    Directory of the logs, when log.dirs is not set.
log.roll.hours int 168 >=1 high read-only works
    log.roll.ms in hours, used when log.roll.ms is not set.
log.roll.jitter.hours int 0 >=0 high read-only works
    log.roll.jitter.ms in hours, used when log.roll.jitter.ms is not set.
log.retention.minutes int - any high read-only works
    log.retention.ms in minutes, used when log.retention.ms is not set.
log.retention.hours int 168 any high read-only works
    log.retention.ms in hours, used when neither it nor log.retention.minutes is set.
log.message.format.version string 3.0-IV1 any medium read-only none
    Oldest record format kept; ignored since Kafka 3.0.
log.cleaner.io.buffer.size int 524288 >=0 medium cluster-wide none
    Memory for reading and writing of all compaction workers together.
create.topic.policy.class.name class - any low read-only refused
    Class that may refuse new topics. | Java classes cannot be loaded
alter.config.policy.class.name class - any low read-only refused
    Class that may refuse changes of settings. | Java classes cannot be loaded
""")
