"""Metrics of topics, partitions, logs, replication and requests."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from odradek.broker.log.log import Log
from odradek.broker.metrics.request_metrics import FETCH_CONSUMER, FETCH_FOLLOWER, ApiMetrics, error_name
from odradek.broker.monitoring.metric import Kind, Metric, Samples, attribute, gauge, histogram, meter, one, own
from odradek.broker.monitoring.observed import Observed
from odradek.broker.replication.partition import Partition

TOPIC_METERS: Final = {
    "MessagesInPerSec": ("messages_in", "Records appended."),
    "BytesInPerSec": ("bytes_in", "Bytes appended by clients."),
    "BytesOutPerSec": ("bytes_out", "Bytes sent to consumers."),
    "BytesRejectedPerSec": ("bytes_rejected", "Bytes of batches that were too large."),
    "TotalProduceRequestsPerSec": ("produce_requests", "Produce requests, one for each partition in them."),
    "TotalFetchRequestsPerSec": ("fetch_requests", "Reads of partitions for Fetch requests."),
    "FailedProduceRequestsPerSec": (
        "failed_produce_requests",
        "Appends that failed for other reasons than a client's mistake.",
    ),
    "FailedFetchRequestsPerSec": (
        "failed_fetch_requests",
        "Reads that failed for other reasons than a client's mistake.",
    ),
    "ProduceMessageConversionsPerSec": ("produce_message_conversions", "Records converted from an old format."),
}


def _topic_meter(name: str, counter: str, text: str) -> Metric:
    def read(broker: Observed) -> Samples:
        for topic, counters in list(broker.traffic.topics.items()):
            yield (topic,), getattr(counters, counter)

    return meter(f"kafka.server:type=BrokerTopicMetrics,name={name},topic=*", text, read)


def replication_factor(partition: Partition) -> int:
    """Count the replicas without those that a reassignment is adding (Kafka: OngoingReassignmentState)."""
    return len(partition.replicas) - len(partition.adding)


def under_replicated(partition: Partition) -> bool:
    return len(partition.committed_isr) < replication_factor(partition)


def at_min_isr(partition: Partition) -> bool:
    return len(partition.committed_isr) == min(partition.log.config.min_insync_replicas, len(partition.replicas))


def _each(broker: Observed, value: str) -> Samples:
    """Return a value of each partition that is led here."""
    read = PARTITION_VALUES[value]
    for partition in broker.led():
        yield (partition.topic, str(partition.index)), read(partition)


PARTITION_VALUES: Final[dict[str, Callable[[Partition], int]]] = {
    "UnderReplicated": lambda p: int(under_replicated(p)),
    "UnderMinIsr": lambda p: int(p.under_min_isr),
    "AtMinIsr": lambda p: int(at_min_isr(p)),
    "InSyncReplicasCount": lambda p: len(p.committed_isr),
    "ReplicasCount": replication_factor,
    "LastStableOffsetLag": lambda p: max(0, p.high_watermark - p.last_stable_offset),
}
LOG_VALUES: Final[dict[str, Callable[[Log], int]]] = {
    "Size": lambda log: log.size_bytes,
    "NumLogSegments": lambda log: len(log.segments),
    "LogStartOffset": lambda log: log.log_start_offset,
    "LogEndOffset": lambda log: log.log_end_offset,
}


def _partition_gauge(name: str) -> Metric:
    return gauge(
        f"kafka.cluster:type=Partition,name={name},topic=*,partition=*",
        f"{name} of a partition, reported by its leader.",
        lambda broker: _each(broker, name),
    )


def _log_gauge(name: str) -> Metric:
    value = LOG_VALUES[name]

    def read(broker: Observed) -> Samples:
        for log in list(broker.services.logs.all_logs()):
            yield (log.topic, str(log.partition)), value(log)

    return gauge(f"kafka.log:type=Log,name={name},topic=*,partition=*", f"{name} of a replica's log.", read)


def _directories(broker: Observed) -> Samples:
    for path, directory in list(broker.services.logs.directories.items()):
        yield (path,), int(directory.offline is not None)


def _volumes(broker: Observed) -> Samples:
    for path, directory in list(broker.services.logs.directories.items()):
        if directory.offline is None:
            total, usable = directory.volume_bytes()
            yield (path, "total"), total
            yield (path, "usable"), usable


def _follower_lags(broker: Observed) -> Samples:
    for core in broker.fetchers.cores:
        for state in list(core.states):
            partition = state.partition
            yield ("Replica", partition.topic, str(partition.index)), state.lag


def _fetchers(broker: Observed, counter: str) -> Samples:
    metadata = broker.services.metadata
    totals: Counter[int] = Counter()
    for core in broker.fetchers.cores:
        totals[core.leader_id] += getattr(core, counter)
    for leader, total in totals.items():
        live = metadata.brokers.get(leader)
        at = None if live is None else live.at(broker.services.config.inter_broker_listener_name)
        if at is not None:
            yield ("ReplicaFetcherThread-0", at.host, str(at.port)), total


REPLICATION: Final = (
    *(_topic_meter(name, counter, text) for name, (counter, text) in TOPIC_METERS.items()),
    meter(
        "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec",
        "Bytes copied from leaders.",
        lambda b: one(b.fetchers.bytes_in),
    ),
    meter(
        "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec",
        "Bytes sent to followers.",
        lambda b: one(b.traffic.replication_bytes_out),
    ),
    gauge(
        "kafka.server:type=ReplicaManager,name=PartitionCount",
        "Partitions that this broker has a replica of.",
        lambda b: one(len(b.services.replicas.partitions)),
    ),
    gauge(
        "kafka.server:type=ReplicaManager,name=LeaderCount",
        "Partitions that this broker leads.",
        lambda b: one(sum(1 for _ in b.led())),
    ),
    gauge(
        "kafka.server:type=ReplicaManager,name=OfflineReplicaCount",
        "Replicas in log directories that have failed.",
        lambda b: one(sum(p.offline for p in b.partitions())),
    ),
    gauge(
        "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions",
        "Partitions led here that have replicas out of sync, those that a reassignment is adding left out.",
        lambda b: one(sum(map(under_replicated, b.led()))),
    ),
    gauge(
        "kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount",
        "Partitions led here with fewer in-sync replicas than acks=all requires.",
        lambda b: one(sum(p.under_min_isr for p in b.led())),
    ),
    gauge(
        "kafka.server:type=ReplicaManager,name=AtMinIsrPartitionCount",
        "Partitions led here with exactly as many in-sync replicas as acks=all requires.",
        lambda b: one(sum(map(at_min_isr, b.led()))),
    ),
    meter(
        "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec",
        "How many times a partition led here had replicas removed from its in-sync replicas.",
        lambda b: one(b.traffic.isr_shrinks),
    ),
    meter(
        "kafka.server:type=ReplicaManager,name=IsrExpandsPerSec",
        "How many times a partition led here had replicas added to its in-sync replicas.",
        lambda b: one(b.traffic.isr_expansions),
    ),
    meter(
        "kafka.server:type=ReplicaManager,name=FailedIsrUpdatesPerSec",
        "Changes of in-sync replicas that the controller refused.",
        lambda b: one(b.traffic.failed_isr_updates),
    ),
    *map(_partition_gauge, PARTITION_VALUES),
    *map(_log_gauge, LOG_VALUES),
    gauge(
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        "Log directories that have failed.",
        lambda b: one(sum(one.offline is not None for one in b.services.logs.directories.values())),
    ),
    gauge(
        "kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=*",
        "1 for a log directory that has failed.",
        _directories,
    ),
    own(
        "odradek_log_volume_bytes",
        "Size of the file system of a log directory, and what is usable of it.",
        _volumes,
        "log_directory",
        "of",
        source="statvfs",
    ),
    gauge(
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=*",
        "Largest lag of a replica of this broker behind its leader, in records.",
        lambda b: ((("Replica",), max((value for _, value in _follower_lags(b)), default=0)),),
    ),
    gauge(
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=*,topic=*,partition=*",
        "Lag of a replica of this broker behind its leader at the last fetch response, in records.",
        _follower_lags,
    ),
    meter(
        "kafka.server:type=FetcherStats,name=RequestsPerSec,clientId=*,brokerHost=*,brokerPort=*",
        "Fetches that leaders have answered.",
        lambda b: _fetchers(b, "requests"),
    ),
    meter(
        "kafka.server:type=FetcherStats,name=BytesPerSec,clientId=*,brokerHost=*,brokerPort=*",
        "Bytes copied from leaders.",
        lambda b: _fetchers(b, "bytes_in"),
    ),
    gauge(
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
        "Incremental fetch sessions in the cache.",
        lambda b: one(len(b.services.fetch_sessions)),
    ),
    gauge(
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
        "Partitions in all fetch sessions.",
        lambda b: one(b.services.fetch_sessions.cached_partitions),
    ),
    meter(
        "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
        "Fetch sessions evicted to make room.",
        lambda b: one(b.services.fetch_sessions.evictions),
    ),
)


def _apis(broker: Observed) -> list[ApiMetrics]:
    return [api for api in list(broker.services.request_metrics.apis.values()) if api.requests]


def _requests(broker: Observed) -> Samples:
    for api in _apis(broker):
        for version, count in sorted(api.requests.items()):
            yield (api.name, str(version)), count
    fetches = [broker.services.request_metrics.apis.get(name) for name in (FETCH_CONSUMER, FETCH_FOLLOWER)]
    both: Counter[int] = sum((api.requests for api in fetches if api is not None), Counter())
    for version, count in sorted(both.items()):
        yield ("Fetch", str(version)), count


def _errors(broker: Observed) -> Samples:
    for api in _apis(broker):
        for code, count in sorted(api.errors.items()):
            yield (api.name, error_name(code)), count


PHASE_NAMES: Final = {
    "total": ("TotalTimeMs", "Time from reading the request to the last byte of the response."),
    "queue": ("RequestQueueTimeMs", "Time from reading the request to the start of handling."),
    "local": ("LocalTimeMs", "Time the request was being handled."),
    "remote": ("RemoteTimeMs", "Time the request waited for other brokers or for records."),
    "throttle": ("ThrottleTimeMs", "Time the connection was muted for a quota."),
    "response": ("ResponseQueueTimeMs", "Time the response waited behind earlier responses."),
    "send": ("ResponseSendTimeMs", "Time to send the response."),
}


def _phase(phase: str) -> Metric:
    name, text = PHASE_NAMES[phase]

    def read(broker: Observed) -> Samples:
        for api in _apis(broker):
            durations = getattr(api, phase)
            yield (api.name,), (durations, sum(api.requests.values()))

    return histogram(f"kafka.network:type=RequestMetrics,name={name},request=*", f"{text} Milliseconds.", read)


def _sampled(broker: Observed) -> Samples:
    for api in _apis(broker):
        for phase, durations in api.phases():
            yield (api.name, phase), durations.count


def _sampled_seconds(broker: Observed) -> Samples:
    for api in _apis(broker):
        for phase, durations in api.phases():
            yield (api.name, phase), durations.sum_s


def _delayed(broker: Observed) -> Samples:
    kinds = broker.sockets.purgatory.kinds()
    for kind in ("Produce", "Fetch", "Deletion"):
        yield (kind.replace("Deletion", "DeleteRecords"),), kinds[f"Delayed{kind}"]


def _connections(broker: Observed) -> Samples:
    counts = broker.sockets.connections_by_listener()
    for listener in broker.sockets.listeners:
        yield (listener, "0"), counts[listener]


SOCKETS: Final = "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*"
AUTHENTICATIONS: Final = {
    "successful-authentication-total": "Connections that have authenticated.",
    "failed-authentication-total": "Connections that were refused, as they failed to authenticate.",
    "successful-reauthentication-total": "Sessions that went on, as their clients authenticated again.",
    "failed-reauthentication-total": "Connections that were refused, as they failed to authenticate again.",
    "expired-connections-killed-count": "Connections that were closed, as they did not authenticate again in time.",
}


def _authentications(name: str, text: str) -> Metric:
    def read(broker: Observed) -> Samples:
        for listener in broker.sockets.listeners:
            yield (listener, "0"), broker.sockets.authentications[listener, name]

    confluent = f"kafka_server_socketservermetrics_{name.replace('-', '_')}"
    return attribute(SOCKETS, name, text, read, kind=Kind.COUNTER, confluent=confluent)


REQUESTS: Final = (
    meter("kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*,version=*", "Requests.", _requests),
    meter(
        "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=*,error=*", "Error codes in responses.", _errors
    ),
    *map(_phase, PHASE_NAMES),
    own(
        "odradek_request_phase_measured_total",
        "Requests whose times were measured.",
        _sampled,
        "request",
        "phase",
        kind=Kind.COUNTER,
        source="broker/metrics/request_metrics.py",
    ),
    own(
        "odradek_request_phase_seconds_total",
        "Time taken by the measured requests.",
        _sampled_seconds,
        "request",
        "phase",
        kind=Kind.COUNTER,
        source="broker/metrics/request_metrics.py",
    ),
    gauge(
        "kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations,delayedOperation=*",
        "Requests waiting in a purgatory.",
        _delayed,
    ),
    gauge(
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=*",
        "Equal to NumDelayedOperations: completed requests leave a purgatory at once.",
        _delayed,
    ),
    gauge(
        "kafka.network:type=RequestChannel,name=RequestQueueSize",
        "Connections with requests waiting to be handled.",
        lambda b: one(b.sockets.held_connections()),
    ),
    gauge(
        "kafka.network:type=RequestChannel,name=ResponseQueueSize",
        "Requests being handled, or answered but not sent.",
        lambda b: one(b.sockets.unanswered_requests()),
    ),
    attribute(
        SOCKETS,
        "connection-count",
        "Open connections.",
        _connections,
        confluent="kafka_server_socketservermetrics_connection_count",
    ),
    attribute(
        SOCKETS,
        "connection-creation-total",
        "Connections accepted.",
        lambda b: (((listener, "0"), count) for listener, count in list(b.sockets.accepted.items())),
        kind=Kind.COUNTER,
        confluent="kafka_server_socketservermetrics_connection_creation_total",
    ),
    attribute(
        SOCKETS,
        "connection-close-total",
        "Connections closed.",
        lambda b: (((listener, "0"), count) for listener, count in list(b.sockets.closed.items())),
        kind=Kind.COUNTER,
        confluent="kafka_server_socketservermetrics_connection_close_total",
    ),
    *(_authentications(name, text) for name, text in AUTHENTICATIONS.items()),
)
