"""What each setting does here: the one place to change when something is built.

WORKS: obeyed. REFUSED: a broker whose file sets it to another value than its default does not start, because going on
without it would not be what was asked for. All the others are accepted and have no effect; setting one of them to
something else than its default is a warning.
"""

from enum import Enum
from typing import Final

from odradek.broker.settings.definition import Setting, UpdateMode


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Effect(Enum):
    WORKS = "works"
    ACCEPTED = "accepted, no effect"
    REFUSED = "refused"


WORKS: Final = _names(
    """
    broker.id broker.id.generation.enable reserved.broker.max.id broker.rack
    zookeeper.connect zookeeper.session.timeout.ms zookeeper.connection.timeout.ms
    delete.topic.enable
    controlled.shutdown.enable controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
    fetch.max.bytes max.incremental.fetch.session.cache.slots
    listeners advertised.listeners listener.security.protocol.map inter.broker.listener.name
    security.inter.broker.protocol
    socket.send.buffer.bytes socket.receive.buffer.bytes socket.request.max.bytes socket.listen.backlog.size
    max.connections max.connections.per.ip max.connections.per.ip.overrides
    connections.max.idle.ms
    default.replication.factor num.partitions auto.create.topics.enable min.insync.replicas
    unclean.leader.election.enable message.max.bytes compression.type
    replica.lag.time.max.ms replica.fetch.max.bytes replica.fetch.wait.max.ms
    replica.fetch.backoff.ms replica.fetch.min.bytes replica.fetch.response.max.bytes
    leader.replication.throttled.rate follower.replication.throttled.rate
    replica.alter.log.dirs.io.max.bytes.per.second replication.quota.window.num replication.quota.window.size.seconds
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    replica.high.watermark.checkpoint.interval.ms num.replica.fetchers num.replica.alter.log.dirs.threads
    controller.socket.timeout.ms
    auto.leader.rebalance.enable leader.imbalance.per.broker.percentage leader.imbalance.check.interval.seconds
    log.dir log.dirs log.segment.bytes log.roll.ms log.roll.hours log.roll.jitter.ms log.roll.jitter.hours
    log.retention.ms log.retention.minutes log.retention.hours log.retention.bytes log.retention.check.interval.ms
    log.cleaner.enable log.cleaner.threads log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.max.bytes.per.second log.cleaner.backoff.ms log.cleaner.min.cleanable.ratio
    log.cleaner.delete.retention.ms log.cleaner.min.compaction.lag.ms log.cleaner.max.compaction.lag.ms
    log.cleanup.policy log.index.size.max.bytes log.index.interval.bytes
    log.flush.interval.messages log.flush.interval.ms log.flush.scheduler.interval.ms
    log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms
    log.segment.delete.delay.ms log.preallocate log.initial.task.delay.ms
    num.recovery.threads.per.data.dir background.threads
    log.message.timestamp.type log.message.timestamp.difference.max.ms log.message.timestamp.before.max.ms
    log.message.timestamp.after.max.ms log.message.downconversion.enable
    group.min.session.timeout.ms group.max.session.timeout.ms group.initial.rebalance.delay.ms group.max.size
    offset.metadata.max.bytes offsets.load.buffer.size offsets.topic.replication.factor offsets.topic.num.partitions
    offsets.topic.segment.bytes offsets.topic.compression.codec offsets.retention.minutes
    offsets.retention.check.interval.ms offsets.commit.timeout.ms
    transaction.state.log.min.isr transaction.state.log.load.buffer.size transaction.state.log.replication.factor
    transaction.state.log.num.partitions transaction.state.log.segment.bytes
    transaction.partition.verification.enable transactional.id.expiration.ms
    transaction.max.timeout.ms transaction.abort.timed.out.transaction.cleanup.interval.ms
    transaction.remove.expired.transaction.cleanup.interval.ms
    producer.id.expiration.ms producer.id.expiration.check.interval.ms
    """
)

REFUSED: Final[dict[str, str]] = {
    "authorizer.class.name": "access control is not built",
    "zookeeper.ssl.client.enable": "TLS towards ZooKeeper is not built",
    "zookeeper.set.acl": "access lists of znodes are not built",
    "control.plane.listener.name": "a listener for the controller alone is not built",
    "create.topic.policy.class.name": "Java classes cannot be loaded",
    "alter.config.policy.class.name": "Java classes cannot be loaded",
    "client.quota.callback.class": "Java classes cannot be loaded",
    "replica.selector.class": "Java classes cannot be loaded",
    "sasl.server.callback.handler.class": "Java classes cannot be loaded",
    "ssl.engine.factory.class": "Java classes cannot be loaded",
    "delegation.token.secret.key": "delegation tokens are not built",
    "delegation.token.master.key": "delegation tokens are not built",
}

TOPIC_WORKS: Final = _names(
    """
    segment.bytes segment.ms segment.jitter.ms segment.index.bytes flush.messages flush.ms retention.bytes retention.ms
    max.message.bytes index.interval.bytes file.delete.delay.ms cleanup.policy unclean.leader.election.enable
    min.insync.replicas compression.type preallocate message.timestamp.type message.timestamp.difference.max.ms
    message.timestamp.before.max.ms message.timestamp.after.max.ms message.downconversion.enable
    delete.retention.ms min.compaction.lag.ms max.compaction.lag.ms min.cleanable.dirty.ratio
    leader.replication.throttled.replicas follower.replication.throttled.replicas
    """
)

TOPIC_REFUSED: Final[dict[str, str]] = {
    "remote.storage.enable": "remote storage is not built",
}

NOT_LIVE: Final = _names("background.threads listeners advertised.listeners listener.security.protocol.map")
"""Kafka changes these while a broker runs; here a change waits for the next start, so they are shown as read-only."""

SERVED_PROTOCOLS: Final[frozenset[str]] = frozenset({"PLAINTEXT"})
"""Security protocols that a listener may speak; those that are missing are refused with a clear error."""


def effect(name: str) -> Effect:
    """Of a broker's setting."""
    if name in WORKS:
        return Effect.WORKS
    return Effect.REFUSED if name in REFUSED else Effect.ACCEPTED


def topic_effect(name: str) -> Effect:
    """Of a topic's setting."""
    if name in TOPIC_WORKS:
        return Effect.WORKS
    return Effect.REFUSED if name in TOPIC_REFUSED else Effect.ACCEPTED


def changes_live(setting: Setting) -> bool:
    """Whether a broker's setting may be changed while it runs."""
    return setting.update_mode is not UpdateMode.READ_ONLY and setting.name not in NOT_LIVE
