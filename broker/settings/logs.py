"""Logs: where they are, segments, indexes, flushing, retention, compaction, timestamps."""

from odradek.broker.settings.definition import read_table

LOGS = read_table("""
log.dir string /tmp/kafka-logs any high read-only
    Directory of the logs, when log.dirs is not set.
log.dirs string - any high read-only
    Directories of the logs, with commas between.
log.dir.failure.timeout.ms long 30000 >=1 low read-only
    How long a broker may fail to report a broken directory before it stops.
log.segment.bytes int 1073741824 >=14 high cluster-wide
    A segment is closed before it would grow larger.
log.roll.ms long - any high cluster-wide
    A segment is closed when its first record is so old.
log.roll.hours int 168 >=1 high read-only
    The same in hours, when log.roll.ms is not set.
log.roll.jitter.ms long - any high cluster-wide
    Taken off the roll time at random, so that segments do not all roll at once.
log.roll.jitter.hours int 0 >=0 high read-only
    The same in hours, when log.roll.jitter.ms is not set.
log.retention.ms long - any high cluster-wide
    Closed segments whose newest record is older are deleted; -1 never.
log.retention.minutes int - any high read-only
    The same in minutes, when log.retention.ms is not set.
log.retention.hours int 168 any high read-only
    The same in hours, when neither log.retention.ms nor log.retention.minutes is set.
log.retention.bytes long -1 any high cluster-wide
    Old segments are deleted while a partition is larger; -1 never.
log.retention.check.interval.ms long 300000 >=1 medium read-only
    How often retention looks.
log.cleanup.policy list delete {compact,delete} medium cluster-wide
    What becomes of old segments: delete them, compact them by key, or both.
log.index.size.max.bytes int 10485760 >=4 medium cluster-wide
    Size of an index file; a full one closes its segment.
log.index.interval.bytes int 4096 >=0 medium cluster-wide
    Bytes of log between two entries of the offset index.
log.flush.interval.messages long 9223372036854775807 >=1 high cluster-wide
    Records of a partition that may lie unflushed.
log.flush.interval.ms long - any high cluster-wide
    How long a record may lie unflushed; log.flush.scheduler.interval.ms when not set.
log.flush.scheduler.interval.ms long 9223372036854775807 any high read-only
    How often the flusher looks whether a log is due.
log.flush.offset.checkpoint.interval.ms int 60000 >=0 high read-only
    How often recovery points are written to disk.
log.flush.start.offset.checkpoint.interval.ms int 60000 >=0 high read-only
    How often log start offsets are written to disk.
log.segment.delete.delay.ms long 60000 >=0 high cluster-wide
    A deleted file stays for so long under another name.
log.preallocate boolean false any medium cluster-wide
    Whether a new segment's file takes its full size at once.
log.message.format.version string 3.0-IV1 any medium read-only
    Oldest record format kept; without meaning since 3.0.
log.message.timestamp.type string CreateTime {CreateTime,LogAppendTime} medium cluster-wide
    Whether timestamps are the producer's or the broker's.
log.message.timestamp.difference.max.ms long 9223372036854775807 >=0 medium cluster-wide
    How far a record's timestamp may be from the broker's clock; old form of the two below.
log.message.timestamp.before.max.ms long 9223372036854775807 >=0 medium cluster-wide
    How far a record's timestamp may be before the broker's clock.
log.message.timestamp.after.max.ms long 9223372036854775807 >=0 medium cluster-wide
    How far a record's timestamp may be after the broker's clock.
log.message.downconversion.enable boolean true any low cluster-wide
    Whether old consumers get records converted to their format, or an error.
log.initial.task.delay.ms long 30000 >=0 low read-only internal
    Pause after the start before retention, flushing and checkpoints begin.
log.cleaner.enable boolean true any medium read-only
    Whether compaction runs.
log.cleaner.threads int 1 >=0 medium cluster-wide
    Workers that compact.
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 any medium cluster-wide
    Bytes a second that compaction may read and write.
log.cleaner.dedupe.buffer.size long 134217728 any medium cluster-wide
    Memory for the map of keys, of all workers together.
log.cleaner.io.buffer.size int 524288 >=0 medium cluster-wide
    Memory for reading and writing, of all workers together.
log.cleaner.io.buffer.load.factor double 0.9 any medium cluster-wide
    How full the map of keys may get.
log.cleaner.backoff.ms long 15000 >=0 medium cluster-wide
    Pause when there is nothing to compact.
log.cleaner.min.cleanable.ratio double 0.5 0..1 medium cluster-wide
    A log is compacted when so much of it was written since the last time.
log.cleaner.delete.retention.ms long 86400000 >=0 medium cluster-wide
    How long a deletion marker stays in a compacted log.
log.cleaner.min.compaction.lag.ms long 0 >=0 medium cluster-wide
    A record stays uncompacted at least for so long.
log.cleaner.max.compaction.lag.ms long 9223372036854775807 >=1 medium cluster-wide
    A record stays uncompacted at most for so long.
num.partitions int 1 >=1 medium read-only
    Partitions of a topic that is created without saying how many.
num.recovery.threads.per.data.dir int 1 >=1 high cluster-wide
    Threads of each directory that recover logs at the start and flush them at the end.
auto.create.topics.enable boolean true any high read-only
    Whether a topic is created when somebody asks for its metadata.
min.insync.replicas int 1 >=1 high cluster-wide
    In-sync replicas that a write with acks=all needs.
message.max.bytes int 1048588 >=0 high cluster-wide
    The largest record batch.
compression.type string producer {uncompressed,zstd,lz4,snappy,gzip,producer} high cluster-wide
    Codec that batches are stored with; producer keeps the producer's.
compression.gzip.level int -1 -1|1..9 medium cluster-wide
    Level of gzip, when the broker compresses.
compression.lz4.level int 9 1..17 medium cluster-wide
    Level of lz4, when the broker compresses.
compression.zstd.level int 3 -131072..22 medium cluster-wide
    Level of zstd, when the broker compresses.
create.topic.policy.class.name class - any low read-only
    Class that may refuse new topics.
alter.config.policy.class.name class - any low read-only
    Class that may refuse changes of settings.
""")
