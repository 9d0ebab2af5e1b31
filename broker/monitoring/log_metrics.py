"""Metrics of what goes on beside requests: reassignments, flushes, compaction, open transactions, timeouts."""

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from odradek.broker.log.compaction.scheduler import Compaction
from odradek.broker.log.log import Log
from odradek.broker.monitoring.metric import Metric, Samples, gauge, histogram, meter, one
from odradek.broker.monitoring.observed import Observed
from odradek.broker.replication.partition import Partition

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000
"""Time after transaction.max.timeout.ms in which a transaction may still be ended by its coordinator."""

EXPIRED_CONNECTIONS: Final = "expired-connections-killed-count"


def _is_late(partition: Partition, now_ms: float, timeout_ms: int) -> bool:
    begun_ms = partition.log.producers.oldest_transaction_ms
    return begun_ms is not None and now_ms - begun_ms > timeout_ms + LATE_TRANSACTION_BUFFER_MS


def _late(broker: Observed) -> int:
    now_ms, timeout_ms = broker.services.clock.now_ms(), broker.services.config.transaction_max_timeout_ms
    return sum(_is_late(partition, now_ms, timeout_ms) for partition in broker.led())


def _expirations(delayed: str, kind: str, text: str) -> Metric:
    return meter(
        f"kafka.server:type=Delayed{delayed}Metrics,name=ExpiresPerSec",
        text,
        lambda b: one(b.sockets.purgatory.expired[kind]),
    )


def _cleaner(kind: str, name: str, text: str, value: Callable[[Compaction, Observed], int]) -> Metric:
    def read(broker: Observed) -> Samples:
        compaction = broker.services.logs.compaction
        return () if compaction is None else one(value(compaction, broker))

    return gauge(f"kafka.log:type={kind},name={name}", text, read)


def _uncleanable(name: str, text: str, value: Callable[[int], int]) -> Metric:
    """Return a gauge by log directory; `value(bytes)` is what one log counts."""

    def read(broker: Observed) -> Samples:
        compaction = broker.services.logs.compaction
        found: Iterable[tuple[Log, int]] = () if compaction is None else compaction.uncleanable().items()
        sums: Counter[str] = Counter()
        for log, waiting_bytes in found:
            sums[posixpath.dirname(log.directory)] += value(waiting_bytes)
        for path in list(broker.services.logs.directories):
            yield (path,), sums[path]

    return gauge(f"kafka.log:type=LogCleanerManager,name={name},logDirectory=*", text, read)


def _recopied(compaction: Compaction, _: Observed) -> int:
    runs = compaction.last_runs()
    return 100 * sum(written for _, _, written in runs) // max(1, sum(read for _, read, _ in runs))


REASSIGNMENTS: Final = (
    meter(
        "kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytesInPerSec",
        "Bytes copied from leaders to replicas that reassignments add here.",
        lambda b: one(b.fetchers.reassignment_bytes_in),
    ),
    meter(
        "kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytesOutPerSec",
        "Bytes sent to replicas that reassignments add elsewhere.",
        lambda b: one(b.traffic.reassignment_bytes_out),
    ),
    gauge(
        "kafka.server:type=ReplicaManager,name=ReassigningPartitions",
        "Partitions led here that are being reassigned.",
        lambda b: one(sum(bool(p.adding or p.removing) for p in b.led())),
    ),
)
PRODUCERS: Final = (
    gauge(
        "kafka.server:type=ReplicaManager,name=ProducerIdCount",
        "Idempotent and transactional producers that the partitions here remember, once for each partition.",
        lambda b: one(sum(len(p.log.producers.producers) for p in b.partitions() if not p.offline)),
    ),
    gauge(
        "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount",
        "Partitions led here with a transaction open for 5 minutes longer than transaction.max.timeout.ms: it hangs.",
        lambda b: one(_late(b)),
    ),
    _expirations("Produce", "DelayedProduce", "Produce requests with acks=all whose timeout has passed."),
    _expirations("DeleteRecords", "DelayedDeletion", "DeleteRecords requests whose timeout has passed."),
)
CONNECTIONS: Final = (
    gauge(
        "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount",
        "Connections that were closed, as they did not authenticate again in time, on all listeners.",
        lambda b: one(
            sum(count for (_, name), count in b.sockets.authentications.items() if name == EXPIRED_CONNECTIONS)
        ),
    ),
)
CHORES: Final = (
    histogram(
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
        "Flushes of logs: milliseconds.",
        lambda b: one((b.services.logs.flush_times, b.services.logs.flush_times.count)),
    ),
    _cleaner(
        "LogCleaner",
        "max-clean-time-secs",
        "Longest of the last compactions, of as many as may run side by side (log.cleaner.threads).",
        lambda compaction, _: int(max((seconds for seconds, _, _ in compaction.last_runs()), default=0.0)),
    ),
    _cleaner("LogCleaner", "cleaner-recopy-percent", "Share of these logs that was kept.", _recopied),
    _cleaner(
        "LogCleanerManager",
        "max-dirty-percent",
        "Dirty share of the dirtiest log that could be compacted, at the last look.",
        lambda compaction, _: int(100 * compaction.dirtiest_ratio),
    ),
    _cleaner(
        "LogCleanerManager",
        "time-since-last-run-ms",
        "Time since work for compaction was last looked for.",
        lambda compaction, b: int(b.services.clock.monotonic_ms() - compaction.last_look_ms),
    ),
    _uncleanable("uncleanable-partitions-count", "Logs that cannot be compacted, as they are damaged.", lambda size: 1),
    _uncleanable("uncleanable-bytes", "Bytes that wait for compaction in these logs.", lambda size: size),
)
LOGS: Final = (*REASSIGNMENTS, *PRODUCERS, *CHORES)
