"""Which flow handles which event, and requests that wait for their turn."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from odradek.controller import (
    broker_changes,
    failover,
    notifications,
    preferred_election,
    reassignment,
    topic_changes,
    topic_deletion,
)
from odradek.controller.events import (
    AssignmentChanged,
    BrokersChanged,
    DeletionsChanged,
    Event,
    IsrChangeNotified,
    LeaderAndIsrAnswered,
    LeadersToBalance,
    LogDirectoryFailed,
    PreferredElectionAsked,
    ReassignmentAsked,
    StopReplicaAnswered,
    TopicsChanged,
    UncleanElectionEnabled,
)
from odradek.controller.tenure import Tenure
from odradek.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")


async def dispatch(tenure: Tenure, event: Event, randomness: random.Random) -> None:
    """Handle one event of the active controller, whole. Raises ControllerMoved."""
    match event:
        case BrokersChanged():
            await broker_changes.look(tenure)
        case TopicsChanged():
            await topic_changes.look(tenure, randomness)
        case AssignmentChanged(topic):
            await topic_changes.look_at(tenure, topic)
        case DeletionsChanged():
            await topic_deletion.look(tenure)
        case StopReplicaAnswered():
            await topic_deletion.answered(tenure, event)
        case LeaderAndIsrAnswered():
            await notifications.leader_and_isr_answered(tenure, event)
        case IsrChangeNotified():
            await notifications.isr_changes(tenure)
        case LogDirectoryFailed():
            await notifications.log_directories_failed(tenure)
        case PreferredElectionAsked():
            await preferred_election.obey_znode(tenure)
        case LeadersToBalance():
            await preferred_election.balance(tenure)
        case ReassignmentAsked():
            await reassignment.obey_znode(tenure)
        case UncleanElectionEnabled(topic):
            await failover.elect_where_needed(tenure, topic)
        case _:
            raise AssertionError(event)


class Call(Generic[T]):
    """A request that waits for its turn; whoever asked awaits `answer`."""

    def __init__(self, work: Callable[[Tenure], Awaitable[T]]) -> None:
        self.work = work
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def refuse(self, error: KafkaError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    async def carry_out(self, tenure: Tenure) -> None:
        """Answer in any case: when ControllerMoved is raised, or the loop is stopped, by NOT_CONTROLLER."""
        try:
            result = await self.work(tenure)
        except KafkaError as error:
            self.refuse(error)
        else:
            if not self.answer.done():
                self.answer.set_result(result)
        finally:
            self.refuse(not_controller())


def not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
