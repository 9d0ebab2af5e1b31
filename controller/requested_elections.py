"""Elections that somebody asks for: ElectLeaders (preferred or unclean), `/admin/preferred_replica_election`, and
auto.leader.rebalance. The rules by which a leader is chosen stand at the end of partition_machine.py.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable

from odradek.controller import partition_machine, reassignment
from odradek.controller.active_controller import ActiveController
from odradek.controller.events import LeadersToBalance, PreferredElectionAsked
from odradek.controller.partition_machine import Strategy, elect_preferred
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import Delete
from odradek.zk_schema.znodes.admin import PREFERRED_REPLICA_ELECTION_PATH, decode_preferred_replica_election
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

PREFERRED, UNCLEAN = 0, 1
"""Election types of ElectLeaders."""

Outcome = tuple[ErrorCode, str | None]
NOT_NEEDED: Outcome = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


async def elect(
    active: ActiveController, partitions: Iterable[TopicPartition] | None, election_type: int
) -> dict[TopicPartition, Outcome]:
    """Elect leaders of these partitions (None: all that ever had one and are not being deleted); return for each the
    error and a message.

    `election_type` PREFERRED moves leadership to the first replica; UNCLEAN gives a partition without a live leader
    one from outside the ISR if need be.
    """
    state = active.state
    if partitions is None:
        partitions = [one for one in state.leader_and_isr if not state.being_deleted(one)]
    outcomes: dict[TopicPartition, Outcome] = {}
    electable = []
    for partition in partitions:
        refusal = _refusal(active, partition, election_type)
        if refusal is None:
            electable.append(partition)
        else:
            outcomes[partition] = refusal
    strategy = Strategy.PREFERRED_REPLICA if election_type == PREFERRED else Strategy.OFFLINE_PARTITION
    failed = await partition_machine.bring_online(active, electable, strategy, unclean=election_type == UNCLEAN)
    if election_type == UNCLEAN:
        await reassignment.complete_where_caught_up(active, set(electable) - failed.keys())
    nobody = (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        if election_type == PREFERRED
        else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    )
    for partition in electable:
        outcomes[partition] = (nobody, failed[partition]) if partition in failed else (ErrorCode.NONE, None)
    return outcomes


def _refusal(active: ActiveController, partition: TopicPartition, election_type: int) -> Outcome | None:
    state = active.state
    leader_and_isr = state.leader_and_isr.get(partition)
    if not state.replicas(partition) or leader_and_isr is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    if state.being_deleted(partition):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"
    if election_type == PREFERRED:
        needed = leader_and_isr.leader != state.replicas(partition)[0]
    else:
        needed = not state.is_live(leader_and_isr.leader)
    return None if needed else NOT_NEEDED


async def obey_znode(active: ActiveController) -> None:
    """Obey `/admin/preferred_replica_election`, of tools before 2.4: carried out as far as possible, then deleted."""
    store = active.store
    if not await store.exists(PREFERRED_REPLICA_ELECTION_PATH, watch=True):
        return
    znode = await store.get(PREFERRED_REPLICA_ELECTION_PATH)
    if znode is not None:
        try:
            asked = [TopicPartition(*partition) for partition in sorted(decode_preferred_replica_election(znode[0]))]
        except BadZnode as bad:
            log.error("/admin/preferred_replica_election cannot be read and is deleted: %s", bad)
        else:
            await elect(active, asked, PREFERRED)
        await store.write_until_done(Delete(PREFERRED_REPLICA_ELECTION_PATH, znode[1].version))
    # The znode may have been created again before the watch was set anew.
    active.soon(PreferredElectionAsked())


async def balance(active: ActiveController) -> None:
    """Give leadership back to brokers that lead too few of the partitions that prefer them
    (checkAndTriggerAutoLeaderRebalance)."""
    config, state = active.config, active.state
    if not config.auto_leader_rebalance_enable:
        return
    active.later(config.leader_imbalance_check_interval_seconds * 1000.0, LeadersToBalance())
    preferring: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in state.partitions():
        await active.pause()
        if not state.being_deleted(partition) and state.replicas(partition):
            preferring[state.replicas(partition)[0]].append(partition)
    for broker, partitions in sorted(preferring.items()):
        elsewhere = [p for p in partitions if p in state.leader_and_isr and state.leader_and_isr[p].leader != broker]
        if len(elsewhere) * 100 > len(partitions) * config.leader_imbalance_per_broker_percentage:
            ready = []
            for partition in elsewhere:
                await active.pause()
                if _preferred_is_ready(active, partition):
                    ready.append(partition)
            await partition_machine.bring_online(active, ready, Strategy.PREFERRED_REPLICA)


def _preferred_is_ready(active: ActiveController, partition: TopicPartition) -> bool:
    state = active.state
    replicas = state.replicas(partition)
    live = state.online_among(replicas, partition)
    return elect_preferred(state.leader_and_isr[partition], replicas, live) is not None
