"""Settings of listeners, sockets and replication: how brokers talk, with clients and with each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.broker.settings.cluster_settings import InterBrokerListener
from odradek.broker.settings.definition import read_table, setting
from odradek.broker.settings.listener_endpoints import Listener

INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings(InterBrokerListener):
    """Listeners, sockets, and what one connection and all together may take."""

    listeners: tuple[Listener, ...] = setting(
        "string PLAINTEXT://:9092 any high per-broker",
        "Addresses to listen on: NAME://host:port, separated by commas; an empty host is every interface.",
        live="listeners",
        value=(),
    )
    advertised_listeners: tuple[Listener, ...] = setting(
        "string - any high per-broker",
        "Addresses that clients and brokers connect to; those of listeners when not set.",
        live="listeners",
        value=(),
    )
    socket_send_buffer_bytes: int = setting(
        "int 102400 any high read-only",
        "Kernel's send buffer of a connection; -1 leaves it to the system.",
    )
    socket_receive_buffer_bytes: int = setting(
        "int 102400 any high read-only",
        "Kernel's receive buffer of a connection; -1 leaves it to the system.",
    )
    socket_request_max_bytes: int = setting(
        "int 104857600 >=1 high read-only",
        "The largest request; a larger one closes its connection.",
    )
    socket_listen_backlog_size: int = setting(
        "int 50 >=1 medium read-only",
        "Maximum number of connections waiting to be accepted.",
    )
    max_connections_per_ip: int = setting(
        "int 2147483647 >=0 medium cluster-wide",
        "Maximum number of connections from one address; further ones are closed at once.",
        live="sockets",
    )
    max_connections_per_ip_overrides: Mapping[str, int] = setting(
        "string '' any medium cluster-wide",
        "Limits for single addresses instead of max.connections.per.ip: host:number, separated by commas.",
        live="sockets",
        value={},
    )
    max_connections: int = setting(
        "int 2147483647 >=0 medium cluster-wide",
        "Maximum number of connections of the broker, or of one listener with its prefix.",
        live="sockets",
    )
    connections_max_idle_ms: int = setting(
        "long 600000 any medium read-only",
        "A connection that has been idle for this long is closed.",
    )
    connection_failed_authentication_delay_ms: int = setting(
        "int 100 >=0 low read-only",
        "How long the answer to a failed authentication is held back; less than connections.max.idle.ms.",
    )
    max_connection_creation_rate: int = setting(
        "int 2147483647 >=0 medium cluster-wide",
        "New connections a second, of the broker or of one listener with its prefix, measured with quota.window.num "
        "and quota.window.size.seconds; more wait to be accepted.",
        live="sockets",
    )
    socket_connection_setup_timeout_ms: int = setting(
        "long 10000 any medium read-only",
        "How long connecting to another broker may take, at first.",
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        "long 30000 any medium read-only",
        "How far socket.connection.setup.timeout.ms grows while connecting keeps failing.",
    )
    listener_limits: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Other limits of single listeners, by the listener's name in small letters and the setting's."""

    def listener_limit(self, listener: str, name: str) -> int:
        """Return the limit that `listener.name.<listener>.<name>` sets; as good as none where nobody has set it."""
        return self.listener_limits.get((listener.lower(), name), INT_MAX)

    def connections_of_address_max(self, host: str) -> int:
        """Return the greatest number of connections that address may have."""
        return self.max_connections_per_ip_overrides.get(host, self.max_connections_per_ip)


@dataclass(frozen=True, kw_only=True)
class FetcherSettings:
    """Sizes and times of a follower's fetches."""

    replica_fetch_max_bytes: int = setting(
        "int 1048576 >=0 medium read-only",
        "Bytes a follower asks for of each partition; a larger first batch comes whole.",
    )
    replica_fetch_wait_max_ms: int = setting(
        "int 500 any high read-only",
        "How long a leader may hold a follower's fetch back while there is little to send.",
    )
    replica_fetch_backoff_ms: int = setting(
        "int 1000 >=0 medium read-only",
        "Pause before a follower fetches a partition again after an error.",
    )
    replica_fetch_min_bytes: int = setting(
        "int 1 any high read-only",
        "Bytes that a leader should wait for before it answers a follower.",
    )
    replica_fetch_response_max_bytes: int = setting(
        "int 10485760 >=0 medium read-only",
        "Bytes a follower asks for altogether.",
    )
    replica_socket_timeout_ms: int = setting(
        "int 30000 any high read-only",
        "How long a follower waits for the answer to a fetch; more than replica.fetch.wait.max.ms.",
    )
    num_replica_fetchers: int = setting(
        "int 1 any high cluster-wide",
        "Connections with which a follower fetches from each leader.",
        live="fetchers",
    )


@dataclass(frozen=True, kw_only=True)
class ReplicationSettings:
    """Fetch sessions, checkpoints of high watermarks, throttled replication, moves between directories."""

    fetch_max_bytes: int = setting(
        "int 57671680 >=1024 medium read-only",
        "Maximum size of a fetch response, whatever the client allows.",
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        "int 1000 >=0 medium read-only",
        "Incremental fetch sessions kept at once.",
    )
    replica_selector_class: str | None = setting(
        "string - any medium read-only",
        "Class that chooses the replica a consumer reads from, RackAwareReplicaSelector or LeaderSelector of "
        "org.apache.kafka.common.replica; not set: the leader.",
    )
    replica_lag_time_max_ms: int = setting(
        "long 30000 any high read-only",
        "A follower that has not caught up for this long leaves the in-sync replicas.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "long 5000 any high read-only",
        "How often high watermarks are written to disk.",
    )
    num_replica_alter_log_dirs_threads: int = setting(
        "int - any high read-only",
        "Threads that move replicas between directories; one for each directory when not set.",
        value=1,
    )
    leader_replication_throttled_rate: int | None = setting(
        "long - >=0 medium cluster-wide internal",
        "Bytes per second that followers of throttled replicas may read from this broker; set by reassignments.",
        live="throttles",
    )
    follower_replication_throttled_rate: int | None = setting(
        "long - >=0 medium cluster-wide internal",
        "Bytes per second that throttled replicas of this broker may fetch; set by reassignments.",
        live="throttles",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int | None = setting(
        "long - >=0 medium cluster-wide internal",
        "Bytes per second that moves between directories may copy; set by reassignments.",
        live="throttles",
    )
    replication_quota_window_num: int = setting("int 11 >=1 low read-only", "Samples kept for replication quotas.")
    replication_quota_window_size_seconds: int = setting(
        "int 1 >=1 low read-only",
        "Length of one sample of replication quotas.",
    )
    alter_log_dirs_replication_quota_window_num: int = setting(
        "int 11 >=1 low read-only",
        "Samples kept for the quota of moves between directories.",
    )
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(
        "int 1 >=1 low read-only",
        "Length of one sample of the quota of moves between directories.",
    )


OTHER_NETWORK_SETTINGS: Final = read_table("""
listener.security.protocol.map string \
    SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT \
    any low per-broker works=listeners
    Security protocol of each listener name: NAME:PROTOCOL, separated by commas.
security.inter.broker.protocol string PLAINTEXT {PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL} medium read-only works
    Protocol between brokers, when no listener is named for them.
inter.broker.protocol.version string 3.9-IV0 {3.9-IV0,3.9,3.9.0,3.9.1,3.9.2} medium read-only works
    Kafka release whose requests brokers speak among themselves: 3.9, in any of its forms.
queued.max.requests int 500 >=1 high read-only none
    Requests that may wait to be handled. | requests wait in their connections, which are not read meanwhile
queued.max.request.bytes long -1 any medium read-only none
    Bytes of requests that may wait; -1 is no limit. | requests wait in their connections, which are not read meanwhile
num.network.threads int 3 >=1 high cluster-wide none
    Threads for sockets. | one loop does it all
replica.socket.receive.buffer.bytes int 65536 any high read-only none
    Kernel's receive buffer of a follower's connection.
fetch.purgatory.purge.interval.requests int 1000 any medium read-only none
    Completed fetches that may stay in the purgatory before they are removed.
producer.purgatory.purge.interval.requests int 1000 any medium read-only none
    Completed produce requests that may stay in the purgatory before they are removed.
delete.records.purgatory.purge.interval.requests int 1 any medium read-only none
    Completed DeleteRecords requests that may stay in the purgatory before they are removed.
""")
