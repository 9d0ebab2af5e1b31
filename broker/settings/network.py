"""Listeners, sockets, replication, leaders: how brokers talk, with clients and with each other."""

from odradek.broker.settings.definition import read_table

NETWORK = read_table("""
listeners string PLAINTEXT://:9092 any high per-broker
    What to listen on: NAME://host:port with commas between; an empty host is every interface.
advertised.listeners string - any high per-broker
    What clients and brokers are told to connect to; the same as listeners when not set.
listener.security.protocol.map string \
    SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT \
    any low per-broker
    Which security protocol each listener name speaks: NAME:PROTOCOL with commas between.
control.plane.listener.name string - any high read-only
    Listener for the controller's requests alone.
inter.broker.listener.name string - any medium read-only
    Listener that brokers reach each other by; by its protocol when not set.
security.inter.broker.protocol string PLAINTEXT {PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL} medium read-only
    Protocol between brokers, when no listener is named for them.
inter.broker.protocol.version string 3.9-IV0 any medium read-only
    Kafka release whose requests brokers speak among themselves.
socket.send.buffer.bytes int 102400 any high read-only
    Kernel's send buffer of a connection; -1 leaves it to the system.
socket.receive.buffer.bytes int 102400 any high read-only
    Kernel's receive buffer of a connection; -1 leaves it to the system.
socket.request.max.bytes int 104857600 >=1 high read-only
    The largest request; a larger one closes its connection.
socket.listen.backlog.size int 50 >=1 medium read-only
    Connections that may wait to be accepted.
max.connections.per.ip int 2147483647 >=0 medium cluster-wide
    Connections from one address; more are closed at once.
max.connections.per.ip.overrides string "" any medium cluster-wide
    Other limits for some addresses: host:number with commas between.
max.connections int 2147483647 >=0 medium cluster-wide
    Connections of the broker, or of one listener with its prefix.
max.connection.creation.rate int 2147483647 >=0 medium cluster-wide
    New connections a second, of the broker or of one listener with its prefix.
connections.max.idle.ms long 600000 any medium read-only
    A connection that is silent for so long is closed.
connection.failed.authentication.delay.ms int 100 >=0 low read-only
    Pause before a connection is closed that could not authenticate.
queued.max.requests int 500 >=1 high read-only
    Requests that may wait to be handled; here they wait in their connections.
queued.max.request.bytes long -1 any medium read-only
    Bytes of requests that may wait; -1 is no limit.
num.network.threads int 3 >=1 high cluster-wide
    Threads for sockets; here one loop does it all.
default.replication.factor int 1 any medium read-only
    Replicas of a topic that is created without saying how many.
replica.lag.time.max.ms long 30000 any high read-only
    A follower that has not caught up for so long leaves the in-sync replicas.
replica.socket.timeout.ms int 30000 any high read-only
    How long a follower waits for the answer to a fetch; more than replica.fetch.wait.max.ms.
replica.socket.receive.buffer.bytes int 65536 any high read-only
    Kernel's receive buffer of a follower's connection.
replica.fetch.max.bytes int 1048576 >=0 medium read-only
    Bytes a follower asks for of each partition; a larger first batch comes whole.
replica.fetch.wait.max.ms int 500 any high read-only
    How long a leader may hold a follower's fetch back while there is little to send.
replica.fetch.backoff.ms int 1000 >=0 medium read-only
    Pause of a follower's partition after an error.
replica.fetch.min.bytes int 1 any high read-only
    Bytes that a leader should wait for before it answers a follower.
replica.fetch.response.max.bytes int 10485760 >=0 medium read-only
    Bytes a follower asks for altogether.
num.replica.fetchers int 1 any high cluster-wide
    Connections that a follower fetches from each leader with.
replica.high.watermark.checkpoint.interval.ms long 5000 any high read-only
    How often high watermarks are written to disk.
replica.selector.class string - any medium read-only
    Class that chooses the replica a consumer reads from; not set: the leader.
fetch.purgatory.purge.interval.requests int 1000 any medium read-only
    Finished waiting fetches that may lie about before they are swept.
producer.purgatory.purge.interval.requests int 1000 any medium read-only
    Finished waiting produce requests that may lie about before they are swept.
delete.records.purgatory.purge.interval.requests int 1 any medium read-only
    The same of DeleteRecords.
controller.socket.timeout.ms int 30000 any medium read-only
    How long the controller waits for a broker's answer.
auto.leader.rebalance.enable boolean true any high read-only
    Whether the controller gives leadership back to preferred replicas from time to time.
leader.imbalance.per.broker.percentage int 10 any high read-only
    Percentage of a broker's partitions led elsewhere that makes it do so.
leader.imbalance.check.interval.seconds long 300 >=1 high read-only
    How often it looks.
unclean.leader.election.enable boolean false any high cluster-wide
    Whether a replica that is not in sync may lead when no other lives: records may be lost.
leader.replication.throttled.rate long - >=0 medium cluster-wide internal
    Bytes per second that followers of throttled replicas may read from this broker; set by reassignments.
follower.replication.throttled.rate long - >=0 medium cluster-wide internal
    Bytes per second that throttled replicas of this broker may fetch; set by reassignments.
replica.alter.log.dirs.io.max.bytes.per.second long - >=0 medium cluster-wide internal
    Bytes per second that moves between directories may copy; set by reassignments.
""")
