"""Metrics of the controller, ZooKeeper, the process and its loop, and consumer lag."""

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from odradek.broker.monitoring.metric import Kind, Metric, Samples, attribute, gauge, histogram, meter, one, own
from odradek.broker.monitoring.observed import Observed
from odradek.controller.active_controller import ControllerCounters
from odradek.controller.cluster_state import ClusterState, ReplicaPhase
from odradek.world.durations import Durations

Reader = Callable[[Observed], Samples]

EVENT_STATES: Final = {
    "": (0, "Idle"),
    "ControllerChanged": (1, "ControllerChange"),
    "BrokersChanged": (2, "LeaderElection"),
    "TopicsChanged": (3, "TopicChange"),
    "AssignmentChanged": (3, "TopicChange"),
    "DeletionsChanged": (4, "TopicDeletion"),
    "StopReplicaAnswered": (4, "TopicDeletion"),
    "ReassignmentAsked": (5, "PartitionReassignment"),
    "LeadersToBalance": (6, "AutoLeaderBalance"),
    "PreferredElectionAsked": (7, "ManualLeaderBalance"),
    "IsrChangeNotified": (9, "IsrChange"),
    "LeaderAndIsrAnswered": (10, "LeaderAndIsrResponseReceived"),
    "LogDirectoriesReported": (11, "LogDirChange"),
    "UncleanElectionEnabled": (13, "UncleanLeaderElectionEnable"),
}
"""Kafka's ControllerState for our events: its number, and the name in ControllerStats. Requests (`Call`) have none."""


def _state(broker: Observed) -> ClusterState:
    """Return the active controller's state; on other brokers an empty one, whose counts are all 0, as in Kafka."""
    return broker.services.controller.state or ClusterState(-1, -1)


def _counters(broker: Observed) -> ControllerCounters:
    return broker.services.controller.counters


def _imbalanced(broker: Observed) -> int:
    state = _state(broker)
    return sum(
        current.leader != replicas[0]
        for partition, current in list(state.leader_and_isr.items())
        if not state.being_deleted(partition) and (replicas := state.replicas(partition))
    )


def _controller_gauge(name: str, text: str, value: Callable[[Observed], int]) -> Metric:
    return gauge(f"kafka.controller:type=KafkaController,name={name}", text, lambda b: one(value(b)))


def _event_timers() -> list[Metric]:
    names = dict.fromkeys(name for _, name in EVENT_STATES.values() if name != "Idle")
    return [_event_timer(name) for name in names]


def _event_timer(name: str) -> Metric:
    events = [event for event, (_, state) in EVENT_STATES.items() if state == name]

    def read(broker: Observed) -> Samples:
        handled = _counters(broker).events
        together = Durations.together(handled[event] for event in events if event in handled)
        return one((together, together.count)) if together.count else ()

    return histogram(
        f"kafka.controller:type=ControllerStats,name={name}RateAndTimeMs",
        f"Events of the controller's state {name}: milliseconds.",
        read,
    )


def _channels(broker: Observed) -> Samples:
    for broker_id, queued in broker.services.controller.requests_queued().items():
        yield (str(broker_id),), queued


CONTROLLER: Final = (
    _controller_gauge(
        "ActiveControllerCount", "1 where the active controller is.", lambda b: int(b.services.controller.is_active)
    ),
    _controller_gauge(
        "OfflinePartitionsCount", "Partitions without a live leader.", lambda b: len(_state(b).without_live_leader())
    ),
    _controller_gauge("PreferredReplicaImbalanceCount", "Partitions not led by their preferred replica.", _imbalanced),
    _controller_gauge("GlobalTopicCount", "Number of topics.", lambda b: len(_state(b).topics)),
    _controller_gauge("GlobalPartitionCount", "Number of partitions.", lambda b: len(_state(b).leader_and_isr)),
    _controller_gauge("ActiveBrokerCount", "Number of registered brokers.", lambda b: len(_state(b).brokers)),
    _controller_gauge(
        "TopicsToDeleteCount", "Topics that are being deleted.", lambda b: len(_state(b).topics_to_delete)
    ),
    _controller_gauge(
        "TopicsIneligibleToDeleteCount", "Topics whose deletion has to wait.", lambda b: len(_state(b).deletion_halted)
    ),
    _controller_gauge(
        "ReplicasToDeleteCount",
        "Replicas that are being deleted.",
        lambda b: sum(phase is ReplicaPhase.DELETION_STARTED for phase in list(_state(b).replica_phases.values())),
    ),
    _controller_gauge(
        "ReplicasIneligibleToDeleteCount",
        "Replicas to delete whose brokers or disks are away.",
        lambda b: sum(phase is ReplicaPhase.DELETION_INELIGIBLE for phase in list(_state(b).replica_phases.values())),
    ),
    _controller_gauge(
        "ControllerState",
        "Kafka's number for the kind of event being handled.",
        lambda b: EVENT_STATES.get(_counters(b).present_event, (0, ""))[0],
    ),
    meter(
        "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
        "Leaders elected from outside the in-sync replicas.",
        lambda b: one(_counters(b).unclean_elections),
    ),
    *_event_timers(),
    own(
        "odradek_controller_elections_total",
        "Leader changes written to ZooKeeper.",
        lambda b: one(_counters(b).elections),
        kind=Kind.COUNTER,
        source="ControllerCounters",
    ),
    own(
        "odradek_controller_isr_changes_total",
        "Changes of in-sync replicas written to ZooKeeper.",
        lambda b: one(_counters(b).isr_changes),
        kind=Kind.COUNTER,
        source="ControllerCounters",
    ),
    own(
        "odradek_controller_epoch",
        "Epoch of the active controller.",
        lambda b: one(b.services.controller.controller_epoch) if b.services.controller.is_active else (),
        source="Controller",
    ),
    gauge(
        "kafka.controller:type=ControllerEventManager,name=EventQueueSize",
        "Events and requests waiting for the controller.",
        lambda b: one(b.services.controller.events_queued),
    ),
    histogram(
        "kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs",
        "Time that events and requests wait for the controller: milliseconds.",
        lambda b: one((_counters(b).waited, _counters(b).waited.count)),
    ),
    gauge(
        "kafka.controller:type=ControllerChannelManager,name=TotalQueueSize",
        "Requests of the controller waiting to be sent to brokers.",
        lambda b: one(sum(b.services.controller.requests_queued().values())),
    ),
    gauge(
        "kafka.controller:type=ControllerChannelManager,name=QueueSize,broker-id=*",
        "Requests of the controller waiting to be sent, by broker.",
        _channels,
    ),
    own(
        "odradek_journal_entries_forgotten_total",
        "Entries dropped from the journal to make room.",
        lambda b: one(b.services.journal.forgotten),
        kind=Kind.COUNTER,
        source="Journal",
    ),
)

SESSION: Final = (
    own(
        "odradek_zookeeper_connected",
        "1 while ZooKeeper answers.",
        lambda b: one(int(b.services.zookeeper.connected)),
        source="Store",
    ),
    meter(
        "kafka.server:type=SessionExpireListener,name=ZooKeeperSyncConnectsPerSec",
        "Connections established to ZooKeeper.",
        lambda b: one(b.session.connects),
    ),
    meter(
        "kafka.server:type=SessionExpireListener,name=ZooKeeperDisconnectsPerSec",
        "Lost connections to ZooKeeper.",
        lambda b: one(b.session.disconnects),
    ),
    meter(
        "kafka.server:type=SessionExpireListener,name=ZooKeeperExpiresPerSec",
        "ZooKeeper sessions that expired.",
        lambda b: one(b.session.expirations),
    ),
    histogram(
        "kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs",
        "Latency of requests to ZooKeeper: milliseconds.",
        lambda b: one((b.services.zookeeper.latency, b.services.zookeeper.latency.count)),
    ),
)


def _collections(value: str) -> Reader:
    def read(broker: Observed) -> Samples:
        for generation, durations in enumerate(broker.collections.generations):
            yield (f"python generation {generation}",), getattr(durations, value)

    return read


def _proc(file: str, key: str) -> int | None:
    """Return a number that the kernel keeps of this process; None where there is no such file."""
    try:
        with open(f"/proc/self/{file}") as lines:
            return next((int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), None)
    except OSError:
        return None


def _kept(file: str, key: str, unit: int = 1) -> Reader:
    def read(_: Observed) -> Samples:
        value = _proc(file, key)
        return () if value is None else one(value * unit)

    return read


def _descriptors(_: Observed) -> Samples:
    return one(len(os.listdir("/proc/self/fd"))) if os.path.isdir("/proc/self/fd") else ()


def _loop_lag(broker: Observed) -> Samples:
    for quantile in (0.5, 0.95, 0.99, 0.999):
        yield (str(quantile),), broker.loop.lag.quantile_s(quantile)


PROCESS: Final = (
    gauge(
        "kafka.server:type=KafkaServer,name=BrokerState",
        "Kafka's number for the broker's state: 3 running, 6 from the beginning of its shutdown on.",
        lambda b: one(b.broker_state()),
    ),
    attribute(
        "kafka.server:type=KafkaServer",
        "linux-disk-read-bytes",
        "Bytes that this process has read from disk.",
        _kept("io", "read_bytes"),
        kind=Kind.COUNTER,
    ),
    attribute(
        "kafka.server:type=KafkaServer",
        "linux-disk-write-bytes",
        "Bytes that this process has written to disk.",
        _kept("io", "write_bytes"),
        kind=Kind.COUNTER,
    ),
    gauge(
        "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
        "Share of the last minute in which the loop, which handles all requests, was idle.",
        lambda b: one(b.loop.idle_share),
    ),
    gauge(
        "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
        "Equal to RequestHandlerAvgIdlePercent: one loop serves all sockets too.",
        lambda b: one(b.loop.idle_share),
    ),
    own(
        "odradek_loop_lag_seconds",
        "How late the loop's timers were in the last five minutes.",
        _loop_lag,
        "quantile",
        source="LoopWatch",
    ),
    own(
        "odradek_task_deaths_total",
        "Tasks that ended with an unexpected error.",
        lambda b: (((name,), n) for name, n in list(b.services.tasks.deaths.items())),
        "task",
        kind=Kind.COUNTER,
        source="Tasks",
    ),
    own(
        "odradek_scrapes_total",
        "Scrapes answered.",
        lambda b: one(b.scrapes.count),
        kind=Kind.COUNTER,
        source="exporter",
    ),
    own(
        "odradek_scrape_seconds_total",
        "Time spent answering scrapes, including pauses for other work.",
        lambda b: one(b.scrapes.sum_s),
        kind=Kind.COUNTER,
        source="exporter",
    ),
    own(
        "jvm_gc_collection_seconds_count",
        "Runs of Python's garbage collector, under the name that dashboards ask for.",
        _collections("count"),
        "gc",
        kind=Kind.COUNTER,
        source="gc.callbacks",
    ),
    own(
        "jvm_gc_collection_seconds_sum",
        "Time taken by Python's garbage collector.",
        _collections("sum_s"),
        "gc",
        kind=Kind.COUNTER,
        source="gc.callbacks",
    ),
    own(
        "jvm_threads_current",
        "Threads of Python, under the name that dashboards ask for.",
        lambda b: one(threading.active_count()),
        source="threading",
    ),
    own(
        "process_cpu_seconds_total",
        "CPU time of this process.",
        lambda b: one(time.process_time()),
        kind=Kind.COUNTER,
        source="time.process_time",
    ),
    own(
        "process_start_time_seconds",
        "When the broker started, in seconds since 1970.",
        lambda b: one(b.started_s),
        source="clock",
    ),
    own(
        "process_resident_memory_bytes",
        "Resident memory of this process.",
        _kept("status", "VmRSS", 1024),
        source="/proc/self/status",
    ),
    own("process_open_fds", "Open files and sockets of this process.", _descriptors, source="/proc/self/fd"),
)

LABELS: Final = ("consumergroup", "topic", "partition")
SOURCE: Final = "broker/monitoring/lag.py; named as kafka_exporter names it"
LAG: Final[tuple[Metric, ...]] = (
    own(
        "kafka_consumergroup_current_offset",
        "Offset that a group has committed.",
        lambda b: b.lag.committed(),
        *LABELS,
        source=SOURCE,
    ),
    own(
        "kafka_consumergroup_lag",
        "Records after the group's committed offset.",
        lambda b: b.lag.records(),
        *LABELS,
        source=SOURCE,
    ),
    own(
        "kafka_consumergroup_lag_seconds",
        "Age of the next record that a group reads; 0 when there is none.",
        lambda b: b.lag.seconds(),
        *LABELS,
        source=SOURCE,
    ),
    own(
        "kafka_consumergroup_members", "Members of a group.", lambda b: b.lag.members(), "consumergroup", source=SOURCE
    ),
)
