"""Events of a controller. They wait in one queue and are handled one at a time (controller/controller.py).

An event from a watch carries no data: ZooKeeper is read when the event is handled. An event that is already waiting is
not queued again, so watches cannot make the queue grow without end.
"""

from dataclasses import dataclass

from odradek.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.zk_schema.store import WatchFired, WatchKind
from odradek.zk_schema.znodes.admin import (
    DELETE_TOPICS_PATH,
    PREFERRED_REPLICA_ELECTION_PATH,
    REASSIGN_PARTITIONS_PATH,
)
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH
from odradek.zk_schema.znodes.controller import CONTROLLER_PATH
from odradek.zk_schema.znodes.notifications import ISR_CHANGE_PATH, LOG_DIR_EVENT_PATH
from odradek.zk_schema.znodes.topics import TOPICS_PATH


class Event:
    """Base of all events. Equal events count as one; only answers of brokers are never equal."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ControllerChanged(Event):
    """`/controller` has appeared or gone, or may have: read it, and stand for election if nobody is the controller."""


@dataclass(frozen=True, slots=True)
class BrokersChanged(Event):
    """A broker came, went, came back under a new epoch, or changed its registration."""


@dataclass(frozen=True, slots=True)
class TopicsChanged(Event):
    """Topics came, or were removed from ZooKeeper."""


@dataclass(frozen=True, slots=True)
class AssignmentChanged(Event):
    """A topic's assignment was written: perhaps there are more partitions."""

    topic: str


@dataclass(frozen=True, slots=True)
class DeletionsChanged(Event):
    """Topics were marked for deletion."""


@dataclass(frozen=True, slots=True)
class PreferredElectionAsked(Event):
    """A tool wrote `/admin/preferred_replica_election`."""


@dataclass(frozen=True, slots=True)
class ReassignmentAsked(Event):
    """A tool wrote `/admin/reassign_partitions`."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotified(Event):
    """A broker older than 2.7 wrote an ISR itself."""


@dataclass(frozen=True, slots=True)
class LogDirectoriesReported(Event):
    """A broker reported that one of its log directories has failed, or has room again."""


@dataclass(frozen=True, slots=True)
class LeadersToBalance(Event):
    """The time has come to look for leaders to balance (`auto.leader.rebalance.enable`)."""


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled(Event):
    """Settings now allow unclean elections, so offline partitions of this topic (None: of all) may get a leader."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class EpochRefused(Event):
    """A broker has obeyed a controller epoch later than ours: there is a later controller, or `/controller_epoch` was
    set back."""

    broker: int


@dataclass(frozen=True, slots=True, eq=False)
class LeaderAndIsrAnswered(Event):
    """A broker answered a LeaderAndIsr; `broker_epoch` is the epoch that the request was sent to."""

    broker: int
    broker_epoch: int
    response: LeaderAndIsrResponse
    topic_without_id: str = ""
    """Name of the request's topic if that has no topic id: such a request holds no other topic."""


@dataclass(frozen=True, slots=True, eq=False)
class StopReplicaAnswered(Event):
    """A broker answered a StopReplica."""

    broker: int
    request: StopReplicaRequest
    response: StopReplicaResponse


EVENTS_BY_PATH: dict[str, Event] = {
    CONTROLLER_PATH: ControllerChanged(),
    BROKER_IDS_PATH: BrokersChanged(),
    TOPICS_PATH: TopicsChanged(),
    DELETE_TOPICS_PATH: DeletionsChanged(),
    PREFERRED_REPLICA_ELECTION_PATH: PreferredElectionAsked(),
    REASSIGN_PARTITIONS_PATH: ReassignmentAsked(),
    ISR_CHANGE_PATH: IsrChangeNotified(),
    LOG_DIR_EVENT_PATH: LogDirectoriesReported(),
}


def event_of(fired: WatchFired) -> Event | None:
    """Return the event that a fired watch means to a controller; None when the watch is somebody else's."""
    event = EVENTS_BY_PATH.get(fired.path)
    if event is not None:
        return event
    above, _, name = fired.path.rpartition("/")
    if above == BROKER_IDS_PATH and fired.kind is WatchKind.CHANGED:
        return BrokersChanged()
    if above == TOPICS_PATH and fired.kind is WatchKind.CHANGED:
        return AssignmentChanged(name)
    return None
