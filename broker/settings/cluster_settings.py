"""Settings of the broker as a member of its cluster: identity, ZooKeeper, shutdown, controller; and of what
is measured and written about it: metrics, quotas, its log."""

from dataclasses import dataclass
from typing import Final

from odradek.broker.settings.definition import read_table, setting


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Identity of a broker, its ZooKeeper session, and its shutdown."""

    broker_id: int = setting(
        "int -1 any high read-only",
        "Id of this broker in the cluster; -1 takes the one in meta.properties, or generates one.",
    )
    broker_id_generation_enable: bool = setting(
        "boolean true any medium read-only",
        "Whether a broker without an id may have one generated from ZooKeeper's sequence.",
    )
    reserved_broker_max_id: int = setting("int 1000 >=0 medium read-only", "Generated broker ids begin above this one.")
    metrics_port: int = setting(
        "int 0 0..65535 medium read-only",
        "Port for Prometheus, /metrics and /journal over HTTP; 0: none. Not a setting of Kafka's.",
    )
    metrics_host: str = setting(
        "string 127.0.0.1 any medium read-only",
        "Address of metrics.port; empty is every interface. Anybody who reaches it may read. Not a setting of Kafka's.",
    )
    broker_rack: str | None = setting(
        "string - any medium read-only",
        "Where the broker stands; replicas are spread over racks.",
    )
    zookeeper_connect: str = setting(
        "string - any high read-only",
        "ZooKeeper servers as host:port, separated by commas; a chroot path may follow at the end.",
    )
    zookeeper_session_timeout_ms: int = setting(
        "int 18000 any high read-only",
        "How long ZooKeeper waits for a silent broker before it ends its session.",
    )
    zookeeper_connection_timeout_ms: int = setting(
        "int - any high read-only",
        "How long a starting broker tries to connect to ZooKeeper; zookeeper.session.timeout.ms when not set.",
        value=18000,
    )
    request_timeout_ms: int = setting(
        "int 30000 any high read-only",
        "How long a request of this broker to another waits for its answer.",
    )
    zookeeper_max_in_flight_requests: int = setting(
        "int 10 >=1 high read-only",
        "Unanswered requests to ZooKeeper at once; more wait for their turn.",
    )
    controlled_shutdown_enable: bool = setting(
        "boolean true any medium read-only",
        "Whether a broker moves leadership to other replicas before it stops.",
    )
    controlled_shutdown_max_retries: int = setting(
        "int 3 any medium read-only",
        "How many times a stopping broker asks the controller to move leadership, while that fails.",
    )
    controlled_shutdown_retry_backoff_ms: int = setting(
        "long 5000 any medium read-only",
        "Pause between two attempts of a controlled shutdown.",
    )


@dataclass(frozen=True, kw_only=True)
class InterBrokerListener:
    """Listener of the broker that other brokers use."""

    inter_broker_listener_name: str = setting(
        "string - any medium read-only",
        "Listener for connections between brokers; the one of security.inter.broker.protocol when not set.",
        value="PLAINTEXT",
    )
    control_plane_listener_name: str | None = setting(
        "string - any high read-only",
        "Separate listener for the controller's connections to brokers; none when not set.",
    )

    @property
    def controller_listener_name(self) -> str:
        """Name of the listener that the controller reaches brokers by."""
        return self.control_plane_listener_name or self.inter_broker_listener_name


@dataclass(frozen=True, kw_only=True)
class ControllerSettings(InterBrokerListener):
    """Settings that the active controller obeys."""

    delete_topic_enable: bool = setting("boolean true any high read-only", "Whether topics may be deleted.")
    unclean_leader_election_enable: bool = setting(
        "boolean false any high cluster-wide",
        "Whether an out-of-sync replica may become leader when no in-sync one is alive; records may be lost.",
        live="controller",
    )
    auto_leader_rebalance_enable: bool = setting(
        "boolean true any high read-only",
        "Whether the controller gives leadership back to preferred replicas from time to time.",
    )
    leader_imbalance_per_broker_percentage: int = setting(
        "int 10 any high read-only",
        "Percentage of a broker's preferred partitions led elsewhere above which leadership moves back.",
    )
    leader_imbalance_check_interval_seconds: int = setting(
        "long 300 >=1 high read-only", "How often the controller checks for leader imbalance."
    )
    controller_socket_timeout_ms: int = setting(
        "int 30000 any medium read-only",
        "How long the controller waits for a broker's answer.",
    )


OTHER_CLUSTER_SETTINGS: Final = read_table("""
node.id int -1 any high read-only works
    Another name of broker.id: where one of them alone is given, it is both.
zookeeper.set.acl boolean false any high read-only works
    Whether znodes are created with access lists for the broker's identity only.
zookeeper.sasl.jaas.config password - any medium read-only works
    Login at ZooKeeper, DigestLoginModule with username and password. Not a setting of Kafka's, whose JAAS file has it.
zookeeper.ssl.client.enable boolean false any medium read-only works
    Whether connections to ZooKeeper use TLS.
zookeeper.clientCnxnSocket string - any medium read-only works
    Class name of the Java client's socket, which Kafka needs for TLS and Odradek does not.
zookeeper.ssl.keystore.location string - any medium read-only works
    Key store with the broker's certificate for ZooKeeper.
zookeeper.ssl.keystore.password password - any medium read-only works
    Password of the key store for ZooKeeper.
zookeeper.ssl.keystore.type string - any medium read-only works
    Type of the key store for ZooKeeper; told from the file's name when not set.
zookeeper.ssl.truststore.location string - any medium read-only works
    Trust store that ZooKeeper's certificate is checked with.
zookeeper.ssl.truststore.password password - any medium read-only works
    Password of the trust store for ZooKeeper.
zookeeper.ssl.truststore.type string - any medium read-only works
    Type of the trust store for ZooKeeper; told from the file's name when not set.
zookeeper.ssl.protocol string TLSv1.2 any low read-only works
    TLS version offered to ZooKeeper.
zookeeper.ssl.enabled.protocols list - any low read-only works
    TLS versions allowed with ZooKeeper; when not set, that of zookeeper.ssl.protocol and TLSv1.3.
zookeeper.ssl.cipher.suites list - any low read-only works
    Cipher suites allowed with ZooKeeper.
zookeeper.ssl.endpoint.identification.algorithm string HTTPS any low read-only works
    HTTPS: ZooKeeper's host name is checked against its certificate; empty: it is not.
zookeeper.ssl.crl.enable boolean false any low read-only refused
    Whether ZooKeeper's certificate is checked against revocation lists. | revocation is not checked
zookeeper.ssl.ocsp.enable boolean false any low read-only refused
    Whether ZooKeeper's certificate is checked for revocation online (OCSP). | revocation is not checked
num.io.threads int 8 >=1 high cluster-wide none
    Threads that handle requests. | one loop does it all
early.start.listeners string - any high read-only none
    Listeners that open before the others, as soon as the broker's own work can be done.
max.request.partition.size.limit int 2000 >=1 medium read-only none
    Maximum number of partitions in a response to DescribeTopicPartitions.
metrics.num.samples int 2 >=1 low read-only none
    Samples that a measured rate is made of.
metrics.sample.window.ms long 30000 >=1 low read-only none
    Length of one sample of a measured rate.
metric.reporters list '' any low cluster-wide none
    Classes that metrics are handed to.
auto.include.jmx.reporter boolean true any low read-only none
    Whether Java's JMX reporter is used without being in metric.reporters.
metrics.recording.level string INFO any low read-only none
    How detailed the recorded metrics are.
kafka.metrics.reporters list '' any low read-only none
    Classes that the server's own metrics are handed to.
kafka.metrics.polling.interval.secs int 10 >=1 low read-only none
    How often the server's own metrics are handed to kafka.metrics.reporters.
telemetry.max.bytes int 1048576 >=1 low read-only none
    Maximum compressed size of the metrics that a client pushes at once.
client.quota.callback.class class - any low read-only refused
    Class that decides which quota a client gets. | Java classes cannot be loaded
""")


@dataclass(frozen=True, kw_only=True)
class QuotaSettings:
    """Windows of client quotas."""

    quota_window_num: int = setting("int 11 >=1 low read-only", "Samples kept for client quotas.")
    quota_window_size_seconds: int = setting("int 1 >=1 low read-only", "Length of one sample of client quotas.")
    controller_quota_window_num: int = setting(
        "int 11 >=1 low read-only", "Samples kept for quotas of controller mutations."
    )
    controller_quota_window_size_seconds: int = setting(
        "int 1 >=1 low read-only", "Length of one sample of quotas of controller mutations."
    )


@dataclass(frozen=True, kw_only=True)
class LoggerSettings:
    """Form and place of the lines. Their levels are settings of the resource BROKER_LOGGER."""

    logger_format: str = setting(
        "string text {text,json} low read-only",
        "text: plain lines; json: one JSON object on each line. Not a setting of Kafka's.",
    )
    logger_dir: str = setting(
        "string '' any low read-only",
        "Folder for server.log, controller.log, state-change.log, kafka-request.log and others; empty: stderr. "
        "Not a setting of Kafka's.",
    )
    logger_max_bytes: int = setting(
        "long 104857600 >=1024 low read-only",
        "Size at which a file of logger.dir is rotated. Not a setting of Kafka's.",
    )
    logger_backups: int = setting(
        "int 10 1..1000 low read-only",
        "Rotated files of each log of logger.dir that are kept. Not a setting of Kafka's.",
    )
