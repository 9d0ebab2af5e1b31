"""Identity of a broker, ZooKeeper, threads, shutdown, metrics and quotas."""

from odradek.broker.settings.definition import read_table

SERVER = read_table("""
broker.id int -1 any high read-only
    Number of this broker in the cluster; -1 takes the one in meta.properties, or a generated one.
broker.id.generation.enable boolean true any medium read-only
    Whether a broker without a number may have one generated from ZooKeeper's sequence.
reserved.broker.max.id int 1000 >=0 medium read-only
    Generated numbers begin above this one.
broker.rack string - any medium read-only
    Where the broker stands; replicas are spread over racks.
zookeeper.connect string - any high read-only
    host:port of ZooKeeper's servers with commas between, and perhaps a chroot path at the end.
zookeeper.session.timeout.ms int 18000 any high read-only
    How long ZooKeeper waits for a silent broker before it takes it for dead.
zookeeper.connection.timeout.ms int - any high read-only
    How long the start waits for ZooKeeper; the session's timeout when not set.
zookeeper.set.acl boolean false any high read-only
    Whether znodes are created with access lists for the broker's identity only.
zookeeper.max.in.flight.requests int 10 >=1 high read-only
    Requests that may be on their way to ZooKeeper at once.
zookeeper.ssl.client.enable boolean false any medium read-only
    Whether ZooKeeper is spoken to through TLS.
zookeeper.clientCnxnSocket string - any medium read-only
    Class name of the Java client's socket, for TLS.
zookeeper.ssl.keystore.location string - any medium read-only
    Key store for a certificate of our own towards ZooKeeper.
zookeeper.ssl.keystore.password password - any medium read-only
    Password of that key store.
zookeeper.ssl.keystore.type string - any medium read-only
    Type of that key store; found by the file's name when not set.
zookeeper.ssl.truststore.location string - any medium read-only
    Trust store that ZooKeeper's certificate is checked with.
zookeeper.ssl.truststore.password password - any medium read-only
    Password of that trust store.
zookeeper.ssl.truststore.type string - any medium read-only
    Type of that trust store; found by the file's name when not set.
zookeeper.ssl.protocol string TLSv1.2 any low read-only
    TLS version offered to ZooKeeper.
zookeeper.ssl.enabled.protocols list - any low read-only
    TLS versions allowed towards ZooKeeper; the one of zookeeper.ssl.protocol when not set.
zookeeper.ssl.cipher.suites list - any low read-only
    Cipher suites allowed towards ZooKeeper.
zookeeper.ssl.endpoint.identification.algorithm string HTTPS any low read-only
    HTTPS checks ZooKeeper's host name against its certificate; empty does not.
zookeeper.ssl.crl.enable boolean false any low read-only
    Whether revocation lists are looked at for ZooKeeper's certificate.
zookeeper.ssl.ocsp.enable boolean false any low read-only
    Whether revocation is asked for online for ZooKeeper's certificate.
num.io.threads int 8 >=1 high cluster-wide
    Threads that handle requests; here one loop does it all.
background.threads int 10 >=1 high cluster-wide
    Threads for work beside requests.
num.replica.alter.log.dirs.threads int - any high read-only
    Threads that move replicas between directories; one for each directory when not set.
request.timeout.ms int 30000 any high read-only
    How long a request of this broker to another waits for its answer.
socket.connection.setup.timeout.ms long 10000 any medium read-only
    How long a connection to another broker may take to come up, at first.
socket.connection.setup.timeout.max.ms long 30000 any medium read-only
    What that time grows to when connecting goes on failing.
authorizer.class.name string "" any low read-only
    Class that decides who may do what; empty: everybody may do everything.
early.start.listeners string - any high read-only
    Listeners that open before the others, as soon as the broker's own work can be done.
controlled.shutdown.enable boolean true any medium read-only
    Whether a broker hands its partitions over before it stops.
controlled.shutdown.max.retries int 3 any medium read-only
    How often it asks the controller to take them, when that fails.
controlled.shutdown.retry.backoff.ms long 5000 any medium read-only
    Pause between two such attempts.
delete.topic.enable boolean true any high read-only
    Whether topics may be deleted.
max.incremental.fetch.session.cache.slots int 1000 >=0 medium read-only
    Incremental fetch sessions kept at once.
fetch.max.bytes int 57671680 >=1024 medium read-only
    The most that one fetch is answered with, whatever the client allows.
max.request.partition.size.limit int 2000 >=1 medium read-only
    The most partitions in an answer to DescribeTopicPartitions.
metrics.num.samples int 2 >=1 low read-only
    Samples that a measured rate is made of.
metrics.sample.window.ms long 30000 >=1 low read-only
    Length of one such sample.
metric.reporters list "" any low cluster-wide
    Classes that metrics are handed to.
auto.include.jmx.reporter boolean true any low read-only
    Whether Java's JMX reporter is one of them without being named.
metrics.recording.level string INFO any low read-only
    How fine metrics are recorded.
kafka.metrics.reporters list "" any low read-only
    Classes that the server's own metrics are handed to.
kafka.metrics.polling.interval.secs int 10 >=1 low read-only
    How often those are handed over.
telemetry.max.bytes int 1048576 >=1 low read-only
    The most that a client may push in metrics at once, compressed.
quota.window.num int 11 >=1 low read-only
    Samples kept for client quotas.
quota.window.size.seconds int 1 >=1 low read-only
    Length of one sample of client quotas.
replication.quota.window.num int 11 >=1 low read-only
    Samples kept for replication quotas.
replication.quota.window.size.seconds int 1 >=1 low read-only
    Length of one sample of replication quotas.
alter.log.dirs.replication.quota.window.num int 11 >=1 low read-only
    Samples kept for the quota of moves between directories.
alter.log.dirs.replication.quota.window.size.seconds int 1 >=1 low read-only
    Length of one sample of that quota.
controller.quota.window.num int 11 >=1 low read-only
    Samples kept for quotas of controller mutations.
controller.quota.window.size.seconds int 1 >=1 low read-only
    Length of one sample of those.
client.quota.callback.class class - any low read-only
    Class that decides which quota a client gets.
""")
