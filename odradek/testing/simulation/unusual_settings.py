"""Settings that few would choose: each is legal, and with each of them all that is promised has to hold.

They lead down ways that nobody goes with the defaults: a session cache without a slot, batches that are larger than
what may be fetched at once, connections that are closed between any two requests, indexes that are full before their
segments are. What only makes a cluster slow or loud is not among them: a retry without a pause, a batch for each record
(seed 39002294), a consumer or a follower that waits for more than it lets itself be given (seed 39004356).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OF_BROKERS: Mapping[str, Sequence[str]] = {
    "num.replica.fetchers": ("2", "3"),
    "max.incremental.fetch.session.cache.slots": ("0", "2"),
    "replica.fetch.max.bytes": ("1", "300"),
    "replica.fetch.response.max.bytes": ("1000",),
    "replica.fetch.wait.max.ms": ("100", "900"),
    "replica.fetch.min.bytes": ("1000",),
    "replica.fetch.backoff.ms": ("10", "3000"),
    "replica.lag.time.max.ms": ("1500", "10000"),
    "replica.socket.timeout.ms": ("1500",),
    "replica.selector.class": ("org.apache.kafka.common.replica.RackAwareReplicaSelector",),
    "num.replica.alter.log.dirs.threads": ("3",),
    "fetch.max.bytes": ("1024",),
    "message.max.bytes": ("2000",),  # with less the state of a larger group does not fit: they all end
    "socket.request.max.bytes": ("20000",),
    "connections.max.idle.ms": ("1500",),
    "background.threads": ("1",),
    "request.timeout.ms": ("3000",),
    "controller.socket.timeout.ms": ("1500",),
    "controlled.shutdown.enable": ("false",),
    "controlled.shutdown.max.retries": ("1",),
    "controlled.shutdown.retry.backoff.ms": ("10",),
    "auto.leader.rebalance.enable": ("false",),
    "leader.imbalance.per.broker.percentage": ("0",),
    "leader.imbalance.check.interval.seconds": ("2",),
    "zookeeper.max.in.flight.requests": ("1",),
    "zookeeper.session.timeout.ms": ("3000", "20000"),
    "compression.type": ("gzip", "lz4", "snappy", "uncompressed"),
    "log.message.timestamp.type": ("LogAppendTime",),
    "log.segment.bytes": ("1000", "20000"),
    "log.segment.delete.delay.ms": ("0", "2000"),
    "log.roll.ms": ("1500",),
    "log.index.interval.bytes": ("0", "100"),
    "log.index.size.max.bytes": ("24", "48"),
    "log.preallocate": ("true",),
    "log.flush.interval.messages": ("1", "7"),
    "log.flush.interval.ms": ("500",),
    "log.flush.offset.checkpoint.interval.ms": ("100", "60000"),
    "replica.high.watermark.checkpoint.interval.ms": ("60000",),
    "log.cleaner.threads": ("3",),
    "log.cleaner.io.max.bytes.per.second": ("5000",),
    "log.cleaner.min.compaction.lag.ms": ("3000",),
    "log.cleaner.max.compaction.lag.ms": ("4000",),
    "producer.id.expiration.check.interval.ms": ("500",),
    "group.initial.rebalance.delay.ms": ("1000",),
    "offsets.topic.num.partitions": ("1", "5"),
    "offsets.topic.compression.codec": ("1", "2", "3", "4"),
    "offsets.load.buffer.size": ("1", "300"),
    "transaction.state.log.num.partitions": ("1", "5"),
    "transaction.state.log.load.buffer.size": ("1", "300"),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": ("200",),
}
OF_CLIENTS: Mapping[str, Sequence[Any]] = {
    "metadata_max_age_ms": (200, 30_000),
    "connections_max_idle_ms": (400, -1),
    "retry_backoff_ms": (20, 700),
    "reconnect_backoff_ms": (10, 800),
    "metadata_recovery_strategy": ("none",),
    "socket_connection_setup_timeout_ms": (300,),
}
OF_PRODUCERS: Mapping[str, Sequence[Any]] = {
    **OF_CLIENTS,
    "max_in_flight_requests_per_connection": (1, 2),
    "linger_ms": (60,),
    "compression_type": ("gzip", "snappy"),
    "buffer_memory": (3_000,),
    "max_request_size": (700,),
    "request_timeout_ms": (1_000,),
}
OF_CONSUMERS: Mapping[str, Sequence[Any]] = {
    **OF_CLIENTS,
    "fetch_max_bytes": (1, 500),
    "max_partition_fetch_bytes": (1, 300),
    "max_poll_records": (1, 3),
    "fetch_max_wait_ms": (50,),
    "client_rack": ("rack-0", "rack-2", "elsewhere"),
    "request_timeout_ms": (2_000,),
}
RACKS = {"broker.rack": "rack-{}"}


@dataclass(frozen=True)
class Unusual:
    """Settings in place of the simulation's own; those of brokers by Kafka's names and as text."""

    brokers: Mapping[str, str] = field(default_factory=dict)
    producers: Mapping[str, Any] = field(default_factory=dict)
    consumers: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.brokers or self.producers or self.consumers)


USUAL = Unusual()


def drawn(seed: int) -> Unusual:
    """Draw two to eight settings of brokers, and up to four each of producers and consumers."""
    chance = random.Random(f"{seed} settings")

    def some(table: Mapping[str, Sequence[Any]], counts: Sequence[int]) -> dict[str, Any]:
        return {name: chance.choice(table[name]) for name in chance.sample(list(table), chance.choice(counts))}

    brokers = some(OF_BROKERS, (2, 4, 8))
    if "replica.fetch.max.bytes" in brokers:
        brokers.pop("replica.fetch.min.bytes", None)
    return Unusual({**RACKS, **brokers}, some(OF_PRODUCERS, (0, 2, 4)), some(OF_CONSUMERS, (0, 2, 4)))
