"""Elections on request (ElectLeaders, `/admin/preferred_replica_election`) and auto.leader.rebalance (FEATURES C7)."""

import logging
from collections import defaultdict
from collections.abc import Iterable

from odradek.controller.elections import Strategy, elect_preferred
from odradek.controller.events import LeadersToBalance, PreferredElectionAsked
from odradek.controller.state import TopicPartition
from odradek.controller.tenure import Tenure
from odradek.protocol.errors import ErrorCode
from odradek.zk_schema.store import Delete
from odradek.zk_schema.znodes.admin import PREFERRED_REPLICA_ELECTION_PATH, decode_preferred_replica_election
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

PREFERRED, UNCLEAN = 0, 1
"""Election types of ElectLeaders."""

Outcome = tuple[ErrorCode, str | None]


async def elect(
    tenure: Tenure, partitions: Iterable[TopicPartition] | None, election_type: int
) -> dict[TopicPartition, Outcome]:
    """Elect for the partitions asked (None: all); of each the error and a message.

    `election_type` PREFERRED moves leadership to the first replica; UNCLEAN gives a partition without a live leader one
    from outside the ISR if need be.
    """
    state = tenure.state
    asked = list(state.partitions()) if partitions is None else list(partitions)
    outcomes: dict[TopicPartition, Outcome] = {}
    electable = []
    for partition in asked:
        refusal = _refusal(tenure, partition, election_type)
        if refusal is None:
            electable.append(partition)
        else:
            outcomes[partition] = refusal
    strategy = Strategy.PREFERRED_REPLICA if election_type == PREFERRED else Strategy.OFFLINE_PARTITION
    failed = await tenure.bring_online(electable, strategy, unclean=election_type == UNCLEAN)
    nobody = (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        if election_type == PREFERRED
        else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    )
    for partition in electable:
        outcomes[partition] = (nobody, failed[partition]) if partition in failed else (ErrorCode.NONE, None)
    return outcomes


def _refusal(tenure: Tenure, partition: TopicPartition, election_type: int) -> Outcome | None:
    state = tenure.state
    leadership = state.leaderships.get(partition)
    if not state.replicas(partition) or leadership is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    if state.being_deleted(partition):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"
    if election_type == PREFERRED:
        needed = leadership.leader != state.replicas(partition)[0]
    else:
        needed = not state.is_live(leadership.leader)
    return None if needed else (ErrorCode.ELECTION_NOT_NEEDED, None)


async def obey_znode(tenure: Tenure) -> None:
    """`/admin/preferred_replica_election`, of tools before 2.4: carried out as far as possible, then deleted."""
    znodes = tenure.store.znodes
    if not await znodes.exists(PREFERRED_REPLICA_ELECTION_PATH, watch=True):
        return
    znode = await znodes.get(PREFERRED_REPLICA_ELECTION_PATH)
    if znode is not None:
        try:
            asked = [TopicPartition(*partition) for partition in sorted(decode_preferred_replica_election(znode[0]))]
        except BadZnode as bad:
            log.error("preferred replica election: %s", bad)
        else:
            await elect(tenure, asked, PREFERRED)
        await znodes.settle(Delete(PREFERRED_REPLICA_ELECTION_PATH))
    # One that was created again before the watch was set anew.
    tenure.soon(PreferredElectionAsked())


async def balance(tenure: Tenure) -> None:
    """Give leadership back to brokers that lead too few of the partitions that prefer them."""
    config, state = tenure.config, tenure.state
    if not config.auto_leader_rebalance_enable:
        return
    preferring: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in state.partitions():
        if not state.being_deleted(partition) and state.replicas(partition):
            preferring[state.replicas(partition)[0]].append(partition)
    for broker, partitions in sorted(preferring.items()):
        elsewhere = [p for p in partitions if p in state.leaderships and state.leaderships[p].leader != broker]
        if len(elsewhere) * 100 > len(partitions) * config.leader_imbalance_per_broker_percentage:
            ready = [partition for partition in elsewhere if _preferred_is_ready(tenure, partition)]
            await tenure.bring_online(ready, Strategy.PREFERRED_REPLICA)
    tenure.later(config.leader_imbalance_check_interval_seconds * 1000.0, LeadersToBalance())


def _preferred_is_ready(tenure: Tenure, partition: TopicPartition) -> bool:
    state = tenure.state
    replicas = state.replicas(partition)
    live = state.online_among(replicas, partition)
    return elect_preferred(state.leaderships[partition], replicas, live) is not None
