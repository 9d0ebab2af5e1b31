"""Settings for parts of Kafka that this broker does not have: KRaft, remote storage, share groups.

They are known, so that files which have them are read and tools which look for them find their defaults.
"""

from odradek.broker.settings.definition import read_table

ELSEWHERE = read_table("""
process.roles list '' {broker,controller} high read-only refused
    Roles of a KRaft process. | this is a ZooKeeper-mode broker, KRaft is not built
controller.listener.names string - any high read-only none
    Listeners of KRaft's controllers.
controller.quorum.voters list '' any high read-only none
    Members of KRaft's quorum: id@host:port with commas between.
controller.quorum.bootstrap.servers list '' any high read-only none
    Where KRaft's quorum is found: host:port with commas between.
controller.quorum.election.timeout.ms int 1000 any high read-only none
    How long a KRaft voter waits for its leader before it asks for an election.
controller.quorum.fetch.timeout.ms int 2000 any high read-only none
    How long a KRaft voter goes on without a fetch before it stands for election.
controller.quorum.election.backoff.max.ms int 1000 any high read-only none
    The longest pause between KRaft's elections.
controller.quorum.append.linger.ms int 25 any medium read-only none
    How long KRaft's leader collects writes before it flushes them.
controller.quorum.request.timeout.ms int 2000 any medium read-only none
    How long a request between KRaft's voters waits for its answer.
controller.quorum.retry.backoff.ms int 20 any low read-only none
    Pause before such a request is repeated.
sasl.mechanism.controller.protocol string GSSAPI any high read-only none
    SASL mechanism towards KRaft's controllers.
initial.broker.registration.timeout.ms int 60000 any medium read-only none
    How long a KRaft broker waits for its first registration.
broker.heartbeat.interval.ms int 2000 any medium read-only none
    How often a KRaft broker tells its controller that it lives.
broker.session.timeout.ms int 9000 any medium read-only none
    How long a KRaft controller waits for a silent broker.
eligible.leader.replicas.enable boolean false any high read-only none
    Whether KRaft remembers replicas that may lead besides those in sync.
zookeeper.metadata.migration.enable boolean false any high read-only refused
    Whether a cluster moves from ZooKeeper to KRaft. | KRaft is not built
log.dir.failure.timeout.ms long 30000 >=1 low read-only none
    How long a KRaft broker may fail to report a broken directory before it stops.
metadata.log.dir string - any high read-only none
    Directory of KRaft's metadata log; the first of log.dirs when not set.
metadata.log.segment.bytes int 1073741824 >=12 high read-only none
    Size of a segment of KRaft's metadata log.
metadata.log.segment.ms long 604800000 any high read-only none
    Age at which a segment of KRaft's metadata log is closed.
metadata.log.max.record.bytes.between.snapshots long 20971520 >=1 high read-only none
    Bytes of metadata after which KRaft writes a snapshot.
metadata.log.max.snapshot.interval.ms long 3600000 >=0 high read-only none
    Time after which KRaft writes a snapshot if there is something new.
metadata.max.idle.interval.ms int 500 >=0 low read-only none
    How often an idle KRaft controller writes a record that says nothing.
metadata.max.retention.bytes long 104857600 any high read-only none
    Size of KRaft's metadata log and snapshots above which old ones are deleted.
metadata.max.retention.ms long 604800000 any high read-only none
    Age at which KRaft's metadata log and snapshots are deleted.
log.local.retention.ms long -2 >=-2 medium cluster-wide none
    How long segments stay on the broker's disk when remote storage is on; -2 as log.retention.ms.
log.local.retention.bytes long -2 >=-2 medium cluster-wide none
    How much stays on the broker's disk when remote storage is on; -2 as log.retention.bytes.
remote.log.storage.system.enable boolean false any medium read-only none
    Whether topics may keep old segments in remote storage.
remote.log.storage.manager.class.name string - any medium read-only none
    Class that reads and writes remote segments.
remote.log.storage.manager.class.path string - any medium read-only none
    Where that class is found.
remote.log.storage.manager.impl.prefix string rsm.config. any medium read-only none
    What the names of that class's own settings begin with.
remote.log.metadata.manager.class.name string \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager any medium read-only none
    Class that knows which remote segments there are.
remote.log.metadata.manager.class.path string - any medium read-only none
    Where that class is found.
remote.log.metadata.manager.impl.prefix string rlmm.config. any medium read-only none
    What the names of that class's own settings begin with.
remote.log.metadata.manager.listener.name string - any medium read-only none
    Listener of the broker that that class connects to.
remote.log.metadata.custom.metadata.max.bytes int 128 >=0 low read-only none
    The most that a storage may remember with each remote segment.
remote.log.index.file.cache.total.size.bytes long 1073741824 >=1 low cluster-wide none
    Disk space for indexes of remote segments.
remote.log.manager.thread.pool.size int 10 >=1 medium read-only none
    Threads for remote storage.
remote.log.manager.copier.thread.pool.size int -1 -1|1..2147483647 medium read-only none
    Threads that copy segments away; -1 as the one above.
remote.log.manager.expiration.thread.pool.size int -1 -1|1..2147483647 medium read-only none
    Threads that delete remote segments; -1 as the one above.
remote.log.manager.task.interval.ms long 30000 >=1 low read-only none
    How often they look for work.
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 >=1 medium cluster-wide none
    Bytes per second that are copied to remote storage at most.
remote.log.manager.copy.quota.window.num int 11 >=1 medium read-only none
    Samples kept for that quota.
remote.log.manager.copy.quota.window.size.seconds int 1 >=1 medium read-only none
    Length of one of them.
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 >=1 medium cluster-wide none
    Bytes per second that are read from remote storage at most.
remote.log.manager.fetch.quota.window.num int 11 >=1 medium read-only none
    Samples kept for that quota.
remote.log.manager.fetch.quota.window.size.seconds int 1 >=1 medium read-only none
    Length of one of them.
remote.log.reader.threads int 10 >=1 medium read-only none
    Threads that read from remote storage.
remote.log.reader.max.pending.tasks int 100 >=1 medium read-only none
    Reads from remote storage that may wait.
remote.fetch.max.wait.ms int 500 >=1 medium cluster-wide none
    How long a fetch waits for remote storage.
group.share.max.groups short 10 1..100 medium read-only none
    Share groups there may be.
group.share.max.size short 200 10..1000 medium read-only none
    Members of a share group.
group.share.delivery.count.limit int 5 2..10 medium read-only none
    How often a share group is given a record.
group.share.partition.max.record.locks int 200 100..10000 medium read-only none
    Records of one partition that a share group may hold at once.
group.share.record.lock.duration.ms int 30000 1000..60000 medium read-only none
    How long a member of a share group holds a record.
group.share.min.record.lock.duration.ms int 15000 1000..30000 medium read-only none
    The least that a share group may set for that.
group.share.max.record.lock.duration.ms int 60000 30000..3600000 medium read-only none
    The most that a share group may set for that.
group.share.session.timeout.ms int 45000 >=1 medium read-only none
    How long a share group waits for a silent member.
group.share.min.session.timeout.ms int 45000 >=1 medium read-only none
    The least that a share group may set for that.
group.share.max.session.timeout.ms int 60000 >=1 medium read-only none
    The most that a share group may set for that.
group.share.heartbeat.interval.ms int 5000 >=1 medium read-only none
    How often members of a share group say that they live.
group.share.min.heartbeat.interval.ms int 5000 >=1 medium read-only none
    The least that a share group may set for that.
group.share.max.heartbeat.interval.ms int 15000 >=1 medium read-only none
    The most that a share group may set for that.
""")
