"""Settings of a topic, and the broker's settings that stand for them where the topic has none of its own."""

from typing import Final

from odradek.broker.settings.definition import read_table

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000

TOPICS = read_table("""
segment.bytes int 1073741824 >=14 medium topic
    A segment is closed before it would grow larger.
segment.ms long 604800000 >=1 medium topic
    A segment is closed when its first record is so old.
segment.jitter.ms long 0 >=0 medium topic
    Taken off that time at random, so that segments do not all roll at once.
segment.index.bytes int 10485760 >=4 medium topic
    Size of an index file; a full one closes its segment.
flush.messages long 9223372036854775807 >=1 medium topic
    Records that may lie unflushed.
flush.ms long 9223372036854775807 >=0 medium topic
    How long a record may lie unflushed.
retention.bytes long -1 any medium topic
    Old segments are deleted while a partition is larger; -1 never.
retention.ms long 604800000 >=-1 medium topic
    Closed segments whose newest record is older are deleted; -1 never.
max.message.bytes int 1048588 >=0 medium topic
    The largest record batch.
index.interval.bytes int 4096 >=0 medium topic
    Bytes of log between two entries of the offset index.
delete.retention.ms long 86400000 >=0 medium topic
    How long a deletion marker stays in a compacted log.
min.compaction.lag.ms long 0 >=0 medium topic
    A record stays uncompacted at least for so long.
max.compaction.lag.ms long 9223372036854775807 >=1 medium topic
    A record stays uncompacted at most for so long.
file.delete.delay.ms long 60000 >=0 medium topic
    A deleted file stays for so long under another name.
min.cleanable.dirty.ratio double 0.5 0..1 medium topic
    The log is compacted when so much of it was written since the last time.
cleanup.policy list delete {compact,delete} medium topic
    What becomes of old segments: delete them, compact them by key, or both.
unclean.leader.election.enable boolean false any medium topic
    Whether a replica that is not in sync may lead when no other lives: records may be lost.
min.insync.replicas int 1 >=1 medium topic
    In-sync replicas that a write with acks=all needs.
compression.type string producer {uncompressed,zstd,lz4,snappy,gzip,producer} medium topic
    Codec that batches are stored with; producer keeps the producer's.
compression.gzip.level int -1 -1|1..9 medium topic
    Level of gzip, when the broker compresses.
compression.lz4.level int 9 1..17 medium topic
    Level of lz4, when the broker compresses.
compression.zstd.level int 3 -131072..22 medium topic
    Level of zstd, when the broker compresses.
preallocate boolean false any medium topic
    Whether a new segment's file takes its full size at once.
message.format.version string 3.0-IV1 any medium topic
    Oldest record format kept; without meaning since 3.0.
message.timestamp.type string CreateTime {CreateTime,LogAppendTime} medium topic
    Whether timestamps are the producer's or the broker's.
message.timestamp.difference.max.ms long 9223372036854775807 >=0 medium topic
    How far a record's timestamp may be from the broker's clock; old form of the two below.
message.timestamp.before.max.ms long 9223372036854775807 >=0 medium topic
    How far a record's timestamp may be before the broker's clock.
message.timestamp.after.max.ms long 9223372036854775807 >=0 medium topic
    How far a record's timestamp may be after the broker's clock.
leader.replication.throttled.replicas list "" any medium topic
    Replicas whose reading by followers is throttled: partition:broker with commas between, or *.
follower.replication.throttled.replicas list "" any medium topic
    Replicas whose fetching is throttled: partition:broker with commas between, or *.
message.downconversion.enable boolean true any low topic
    Whether old consumers get records converted to their format, or an error.
remote.storage.enable boolean false any medium topic
    Whether old segments move to remote storage.
local.retention.ms long -2 >=-2 medium topic
    How long segments stay on the broker's disk when remote storage is on; -2 as retention.ms.
local.retention.bytes long -2 >=-2 medium topic
    How much stays on the broker's disk when remote storage is on; -2 as retention.bytes.
remote.log.copy.disable boolean false any medium topic
    Whether nothing more is copied to remote storage.
remote.log.delete.on.disable boolean false any medium topic
    Whether remote data is deleted when remote storage is turned off.
""")

BROKER_SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    "segment.bytes": ("log.segment.bytes",),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "max.message.bytes": ("message.max.bytes",),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "cleanup.policy": ("log.cleanup.policy",),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
    "min.insync.replicas": ("min.insync.replicas",),
    "compression.type": ("compression.type",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.zstd.level": ("compression.zstd.level",),
    "preallocate": ("log.preallocate",),
    "message.format.version": ("log.message.format.version",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "message.timestamp.difference.max.ms": ("log.message.timestamp.difference.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.downconversion.enable": ("log.message.downconversion.enable",),
    "local.retention.ms": ("log.local.retention.ms",),
    "local.retention.bytes": ("log.local.retention.bytes",),
}
"""For each topic setting the broker's settings that stand for it; the first of them that is set counts.

Source: ServerTopicConfigSynonyms of Kafka 3.9.
"""

UNIT_MS: Final[dict[str, int]] = {
    "log.roll.hours": HOUR_MS,
    "log.roll.jitter.hours": HOUR_MS,
    "log.retention.hours": HOUR_MS,
    "log.retention.minutes": MINUTE_MS,
}
"""What the broker's settings in other units are multiplied with."""
