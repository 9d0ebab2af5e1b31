"""Settings of consumer groups, committed offsets and transactions."""

from dataclasses import dataclass
from typing import Final

from odradek.broker.settings.definition import read_table, setting


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """Settings of the group coordinator."""

    group_min_session_timeout_ms: int = setting(
        "int 6000 any medium read-only",
        "Shortest session timeout that a group member may ask for.",
    )
    group_max_session_timeout_ms: int = setting(
        "int 1800000 any medium read-only",
        "Longest session timeout that a group member may ask for.",
    )
    group_initial_rebalance_delay_ms: int = setting(
        "int 3000 any medium read-only",
        "How long an empty group waits for more members before its first rebalance.",
    )
    group_max_size: int = setting("int 2147483647 >=1 medium read-only", "Maximum number of members of one group.")
    offset_metadata_max_bytes: int = setting(
        "int 4096 any high read-only",
        "Maximum size of the metadata of a committed offset.",
    )
    offsets_load_buffer_size: int = setting(
        "int 5242880 >=1 high read-only",
        "Bytes read at once when a partition of committed offsets is loaded.",
    )
    offsets_topic_replication_factor: int = setting(
        "short 3 >=1 high read-only",
        "Replicas of the topic of committed offsets.",
    )
    offsets_topic_num_partitions: int = setting(
        "int 50 >=1 high read-only",
        "Partitions of the topic of committed offsets; not to be changed later.",
    )
    offsets_topic_segment_bytes: int = setting(
        "int 104857600 >=1 high read-only",
        "Segment size of the topic of committed offsets.",
    )
    offsets_topic_compression_codec: int = setting(
        "int 0 any high read-only",
        "Codec of the topic of committed offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
    offsets_retention_minutes: int = setting(
        "int 10080 >=1 high read-only",
        "How long offsets of a group without members are kept.",
    )
    offsets_retention_check_interval_ms: int = setting(
        "long 600000 >=1 high read-only",
        "How often expired offsets are looked for.",
    )
    offsets_commit_required_acks: int = setting(
        "short -1 -1..1 high read-only",
        "Acknowledgements that a commit needs; -1 is all in-sync replicas.",
    )
    offsets_commit_timeout_ms: int = setting("int 5000 >=1 high read-only", "How long a commit waits for its replicas.")

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` in the unit of timestamps."""
        return self.offsets_retention_minutes * 60_000


@dataclass(frozen=True, kw_only=True)
class TransactionSettings:
    """Settings of the transaction coordinator."""

    transaction_state_log_min_isr: int = setting(
        "int 2 >=1 high read-only",
        "In-sync replicas that a write to the transaction log needs.",
    )
    transaction_state_log_load_buffer_size: int = setting(
        "int 5242880 >=1 high read-only",
        "Bytes read at once when a partition of the transaction log is loaded.",
    )
    transaction_state_log_replication_factor: int = setting(
        "short 3 >=1 high read-only",
        "Replicas of the transaction log.",
    )
    transaction_state_log_num_partitions: int = setting(
        "int 50 >=1 high read-only",
        "Partitions of the transaction log; not to be changed later.",
    )
    transaction_state_log_segment_bytes: int = setting(
        "int 104857600 >=1 high read-only",
        "Segment size of the transaction log.",
    )
    transaction_partition_verification_enable: bool = setting(
        "boolean true any low cluster-wide",
        "Whether a partition asks the coordinator about a transaction it has not seen.",
        live="each-use",
    )
    transactional_id_expiration_ms: int = setting(
        "int 604800000 >=1 high read-only",
        "How long the coordinator remembers a silent transactional id.",
    )
    transaction_max_timeout_ms: int = setting(
        "int 900000 >=1 high read-only",
        "Longest transaction timeout that a producer may ask for.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        "int 10000 >=1 low read-only",
        "How often timed-out transactions are looked for.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        "int 3600000 >=1 low read-only",
        "How often expired transactional ids are looked for.",
    )


OTHER_COORDINATOR_SETTINGS: Final = read_table("""
group.coordinator.rebalance.protocols list classic {classic,consumer,share,unknown} medium read-only none
    Group protocols that are served.
group.coordinator.threads int 1 >=1 medium read-only none
    Threads of the newer coordinator.
group.coordinator.append.linger.ms int 10 >=0 medium read-only none
    How long the newer coordinator gathers writes.
group.coordinator.new.enable boolean false any medium read-only internal none
    Whether the newer coordinator serves the classic groups too.
group.consumer.session.timeout.ms int 45000 >=1 medium read-only none
    Session timeout of members of consumer groups (KIP-848).
group.consumer.min.session.timeout.ms int 45000 >=1 medium read-only none
    Shortest session timeout of members of consumer groups (KIP-848).
group.consumer.max.session.timeout.ms int 60000 >=1 medium read-only none
    Longest session timeout of members of consumer groups (KIP-848).
group.consumer.heartbeat.interval.ms int 5000 >=1 medium read-only none
    Heartbeat interval of members of consumer groups (KIP-848).
group.consumer.min.heartbeat.interval.ms int 5000 >=1 medium read-only none
    Shortest heartbeat interval of members of consumer groups (KIP-848).
group.consumer.max.heartbeat.interval.ms int 15000 >=1 medium read-only none
    Longest heartbeat interval of members of consumer groups (KIP-848).
group.consumer.max.size int 2147483647 >=1 medium read-only none
    Maximum number of members of one consumer group (KIP-848).
group.consumer.assignors list \
    org.apache.kafka.coordinator.group.assignor.UniformAssignor,\
org.apache.kafka.coordinator.group.assignor.RangeAssignor \
    any medium read-only none
    Classes that assign partitions in consumer groups (KIP-848).
group.consumer.migration.policy string \
    disabled \
    any medium read-only internal none
    Whether groups may change between the classic and the consumer protocol.
""")
