"""Flows of the active controller: which of them handles which event (Kafka's KafkaController.process)."""

import random

from odradek.controller import (
    broker_changes,
    leader_and_isr_answers,
    notifications,
    partition_machine,
    reassignment,
    refused_epochs,
    requested_elections,
    topic_changes,
    topic_deletion,
)
from odradek.controller.active_controller import ActiveController
from odradek.controller.events import (
    AssignmentChanged,
    BrokersChanged,
    DeletionsChanged,
    EpochRefused,
    Event,
    IsrChangeNotified,
    LeaderAndIsrAnswered,
    LeadersToBalance,
    LogDirectoriesReported,
    PreferredElectionAsked,
    ReassignmentAsked,
    StopReplicaAnswered,
    TopicsChanged,
    UncleanElectionEnabled,
)


async def handle(active: ActiveController, event: Event, randomness: random.Random) -> None:
    """Handle one event of the active controller to its end. `randomness` makes topic ids. Raises ControllerMoved."""
    match event:
        case BrokersChanged():
            await broker_changes.compare_registrations(active)
        case TopicsChanged():
            await topic_changes.take_up_topics(active, randomness)
        case AssignmentChanged(topic):
            await topic_changes.take_up_partitions(active, topic, randomness)
        case DeletionsChanged():
            await topic_deletion.take_up_marked(active)
        case StopReplicaAnswered():
            await topic_deletion.note_stopped(active, event)
        case EpochRefused(broker):
            await refused_epochs.leave_refused_epoch(active, broker)
        case LeaderAndIsrAnswered():
            await leader_and_isr_answers.take_in_answer(active, event)
        case IsrChangeNotified():
            await notifications.take_up_isr_changes(active)
        case LogDirectoriesReported():
            await notifications.take_up_log_directories(active)
        case PreferredElectionAsked():
            await requested_elections.obey_znode(active)
        case LeadersToBalance():
            await requested_elections.balance(active)
        case ReassignmentAsked():
            await reassignment.obey_znode(active)
        case UncleanElectionEnabled(topic):
            elected = await partition_machine.elect_where_needed(active, topic)
            await reassignment.complete_where_caught_up(active, elected)
        case _:
            raise AssertionError(event)
