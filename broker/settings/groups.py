"""Consumer groups, committed offsets, transactions and producer ids."""

from odradek.broker.settings.definition import read_table

GROUPS = read_table("""
group.min.session.timeout.ms int 6000 any medium read-only
    The shortest session a group member may ask for.
group.max.session.timeout.ms int 1800000 any medium read-only
    The longest session a group member may ask for.
group.initial.rebalance.delay.ms int 3000 any medium read-only
    How long an empty group waits for more members before its first rebalance.
group.max.size int 2147483647 >=1 medium read-only
    Members of one group.
group.coordinator.rebalance.protocols list classic {classic,consumer,share,unknown} medium read-only
    Kinds of groups that are served.
group.coordinator.threads int 1 >=1 medium read-only
    Threads of the newer coordinator.
group.coordinator.append.linger.ms int 10 >=0 medium read-only
    How long the newer coordinator gathers writes.
group.coordinator.new.enable boolean false any medium read-only internal
    Whether the newer coordinator serves the classic groups too.
group.consumer.session.timeout.ms int 45000 >=1 medium read-only
    Session of a member of a group of the newer kind.
group.consumer.min.session.timeout.ms int 45000 >=1 medium read-only
    The shortest such session.
group.consumer.max.session.timeout.ms int 60000 >=1 medium read-only
    The longest such session.
group.consumer.heartbeat.interval.ms int 5000 >=1 medium read-only
    Time between heartbeats of such a member.
group.consumer.min.heartbeat.interval.ms int 5000 >=1 medium read-only
    The shortest such time.
group.consumer.max.heartbeat.interval.ms int 15000 >=1 medium read-only
    The longest such time.
group.consumer.max.size int 2147483647 >=1 medium read-only
    Members of one such group.
group.consumer.assignors list \
    org.apache.kafka.coordinator.group.assignor.UniformAssignor,\
org.apache.kafka.coordinator.group.assignor.RangeAssignor \
    any medium read-only
    Classes that assign partitions in such groups.
group.consumer.migration.policy string disabled {disabled,bidirectional,upgrade,downgrade} medium read-only internal
    Whether groups may change from one kind to the other.
offset.metadata.max.bytes int 4096 any high read-only
    The longest text that may go with a committed offset.
offsets.load.buffer.size int 5242880 >=1 high read-only
    Bytes read at once when a partition of committed offsets is loaded.
offsets.topic.replication.factor short 3 >=1 high read-only
    Replicas of the topic of committed offsets.
offsets.topic.num.partitions int 50 >=1 high read-only
    Partitions of the topic of committed offsets; not to be changed later.
offsets.topic.segment.bytes int 104857600 >=1 high read-only
    Segment size of the topic of committed offsets.
offsets.topic.compression.codec int 0 any high read-only
    Codec of the topic of committed offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
offsets.retention.minutes int 10080 >=1 high read-only
    How long offsets of a group without members are kept.
offsets.retention.check.interval.ms long 600000 >=1 high read-only
    How often expired offsets are looked for.
offsets.commit.timeout.ms int 5000 >=1 high read-only
    How long a commit waits for its replicas.
offsets.commit.required.acks short -1 any high read-only
    Acknowledgements that a commit needs; -1 is all in-sync replicas.
transaction.state.log.min.isr int 2 >=1 high read-only
    In-sync replicas that a write to the transaction log needs.
transaction.state.log.load.buffer.size int 5242880 >=1 high read-only
    Bytes read at once when a partition of the transaction log is loaded.
transaction.state.log.replication.factor short 3 >=1 high read-only
    Replicas of the transaction log.
transaction.state.log.num.partitions int 50 >=1 high read-only
    Partitions of the transaction log; not to be changed later.
transaction.state.log.segment.bytes int 104857600 >=1 high read-only
    Segment size of the transaction log.
transaction.partition.verification.enable boolean true any low cluster-wide
    Whether a partition asks the coordinator about a transaction it has not seen.
producer.id.expiration.ms int 86400000 >=1 low cluster-wide
    How long a partition remembers a silent producer.
producer.id.expiration.check.interval.ms int 600000 >=1 low read-only internal
    How often silent producers are looked for.
transactional.id.expiration.ms int 604800000 >=1 high read-only
    How long the coordinator remembers a silent transactional id.
transaction.max.timeout.ms int 900000 >=1 high read-only
    The longest transaction a producer may ask for.
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 >=1 low read-only
    How often transactions that take too long are looked for.
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 >=1 low read-only
    How often forgotten transactional ids are looked for.
""")
