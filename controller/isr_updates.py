"""AlterPartition (KIP-497, 841, 903): a leader proposes an ISR, the controller checks and writes it.

Versions are compared twice: a proposal must name the leader's present epoch and the present version of the state znode,
and the write expects that version. A repeated proposal that is the present state already is answered as the first one
was. All brokers are told the new state by UpdateMetadata; the leader learns it from the answer.
"""

import logging
from typing import NamedTuple

from odradek.controller import reassignment
from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import ClusterState, LeaderAndIsr
from odradek.controller.controller_store import lost_race
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import NoNode

log = logging.getLogger(__name__)

UNKNOWN_BROKER_EPOCH = -1


class Proposal(NamedTuple):
    """What a leader proposes for one partition, in a request of any version."""

    leader: int
    leader_epoch: int
    isr: tuple[tuple[int, int], ...]
    """Broker and broker epoch; UNKNOWN_BROKER_EPOCH before version 3."""
    recovering: bool
    partition_epoch: int

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(broker for broker, _ in self.isr)


Verdict = LeaderAndIsr | ErrorCode
"""The partition's state after the proposal, which may have changed nothing, or the reason why it was refused."""


def judge(state: ClusterState, partition: TopicPartition, proposal: Proposal, version: int) -> tuple[bool, Verdict]:
    """Decide whether to write, and what: (True, new state), (False, present state or error). `version`: the request's.

    An ISR keeps its order, and brokers that join come last (Kafka's Partition.scala adds to an ordered set).
    """
    current = state.leader_and_isr.get(partition)
    if current is None:
        return False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if proposal.leader_epoch > current.leader_epoch or proposal.partition_epoch > current.partition_epoch:
        # Somebody has written what this controller has not: it is deposed and does not know it yet.
        return False, ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < current.leader_epoch:
        return False, ErrorCode.FENCED_LEADER_EPOCH
    if proposal.leader != current.leader:
        return False, ErrorCode.INVALID_REQUEST
    if set(proposal.brokers) == set(current.isr) and proposal.recovering == current.recovering:
        return False, current
    if proposal.partition_epoch < current.partition_epoch:
        return False, ErrorCode.INVALID_UPDATE_VERSION
    if not _is_sound(state, partition, current, proposal):
        return False, ErrorCode.INVALID_REQUEST
    ineligible = [broker for broker, epoch in proposal.isr if not _is_eligible(state, broker, epoch)]
    if ineligible:
        log.info("%s: brokers %s may not join the ISR: stopped, stopping or restarted", partition, ineligible)
        return False, ErrorCode.INELIGIBLE_REPLICA if version > 1 else ErrorCode.OPERATION_NOT_ATTEMPTED
    stay = tuple(broker for broker in current.isr if broker in proposal.brokers)
    join = tuple(broker for broker in proposal.brokers if broker not in current.isr)
    return True, current._replace(
        isr=stay + join, recovering=proposal.recovering, controller_epoch=state.controller_epoch
    )


def _is_sound(state: ClusterState, partition: TopicPartition, current: LeaderAndIsr, proposal: Proposal) -> bool:
    """Tell whether a proposed ISR makes sense: replicas, each once, the leader among them, alone while it recovers."""
    brokers = proposal.brokers
    if len(set(brokers)) != len(brokers) or proposal.leader not in brokers:
        return False
    if not set(brokers) <= set(state.replicas(partition)):
        return False
    if proposal.recovering:
        return current.recovering and len(brokers) == 1
    return True


def _is_eligible(state: ClusterState, broker: int, epoch: int) -> bool:
    """Tell whether a broker may be in the ISR: alive, not shutting down, and of the broker epoch the leader named."""
    return state.is_live(broker) and epoch in (UNKNOWN_BROKER_EPOCH, state.brokers[broker].epoch)


async def decide_proposals(
    active: ActiveController, request: AlterPartitionRequest, version: int
) -> AlterPartitionResponse:
    """Decide on all partitions of a request, write what is accepted, and return the response."""
    state = active.state
    broker = state.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    proposals, response = _read(state, request, version)
    verdicts: dict[TopicPartition, Verdict] = {}
    remaining = set(proposals)
    while remaining:
        to_write: dict[TopicPartition, LeaderAndIsr] = {}
        for partition in sorted(remaining):
            await active.pause()
            write, verdict = judge(state, partition, proposals[partition], version)
            verdicts[partition] = verdict
            if write:
                assert isinstance(verdict, LeaderAndIsr), verdict
                to_write[partition] = verdict
        remaining = await _write(active, to_write, verdicts)
    await active.send_metadata(proposals)
    _fill_response(state, response, verdicts, version)
    changed = [partition for partition, verdict in verdicts.items() if isinstance(verdict, LeaderAndIsr)]
    await reassignment.complete_where_caught_up(active, changed)
    return response


async def _write(
    active: ActiveController, to_write: dict[TopicPartition, LeaderAndIsr], verdicts: dict[TopicPartition, Verdict]
) -> set[TopicPartition]:
    """Write the states, and set the verdicts; return the partitions to be judged again, whose write lost a race."""
    lost = set()
    results = await active.store.update_leader_and_isr(to_write)
    for partition, result in results.items():
        await active.pause()
        if isinstance(result, LeaderAndIsr):
            before = active.state.leader_and_isr[partition]
            active.state.leader_and_isr[partition] = result
            active.log_change(partition, before, result, "AlterPartition")
            verdicts[partition] = result
        elif lost_race(result):
            lost.add(partition)
        else:
            gone = isinstance(result, NoNode)
            verdicts[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if gone else ErrorCode.UNKNOWN_SERVER_ERROR
    return {partition for partition in sorted(lost) if await _read_again(active, partition, verdicts)}


async def _read_again(
    active: ActiveController, partition: TopicPartition, verdicts: dict[TopicPartition, Verdict]
) -> bool:
    """Take over what ZooKeeper says; tell whether the proposal can be judged again."""
    found = (await active.store.leader_and_isr([partition]))[partition]
    if found is None or found.controller_epoch > active.state.controller_epoch:
        verdicts[partition] = ErrorCode.INVALID_UPDATE_VERSION
        return False
    active.state.leader_and_isr[partition] = found
    return True


def _read(
    state: ClusterState, request: AlterPartitionRequest, version: int
) -> tuple[dict[TopicPartition, Proposal], AlterPartitionResponse]:
    """Return the proposals, and a response that holds the topics whose id is unknown."""
    proposals: dict[TopicPartition, Proposal] = {}
    response = AlterPartitionResponse()
    for topic in request.topics:
        name = state.topic_names.get(topic.topic_id) if version > 1 else topic.topic_name
        if name is None:
            unknown = [
                ResponsePartitionData(partition_index=p.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
                for p in topic.partitions
            ]
            response.topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=unknown))
            continue
        for partition in topic.partitions:
            proposals[TopicPartition(name, partition.partition_index)] = _proposal(request, partition, version)
    return proposals, response


def _proposal(request: AlterPartitionRequest, partition: PartitionData, version: int) -> Proposal:
    if version >= 3:
        isr = tuple((member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs)
    else:
        isr = tuple((broker, UNKNOWN_BROKER_EPOCH) for broker in partition.new_isr)
    return Proposal(
        leader=request.broker_id,
        leader_epoch=partition.leader_epoch,
        isr=isr,
        recovering=partition.leader_recovery_state != 0,
        partition_epoch=partition.partition_epoch,
    )


def _fill_response(
    state: ClusterState, response: AlterPartitionResponse, verdicts: dict[TopicPartition, Verdict], version: int
) -> None:
    """Put the verdicts into a response, by topic: with ids from version 2 on."""
    topics: dict[str, ResponseTopicData] = {}
    for partition, verdict in verdicts.items():
        name = partition.topic
        if name not in topics:
            by_id = version > 1
            topics[name] = (
                ResponseTopicData(topic_id=state.topic_ids[name]) if by_id else ResponseTopicData(topic_name=name)
            )
        topics[name].partitions.append(_answer(partition, verdict))
    response.topics += topics.values()


def _answer(partition: TopicPartition, verdict: Verdict) -> ResponsePartitionData:
    if isinstance(verdict, ErrorCode):
        return ResponsePartitionData(partition_index=partition.partition, error_code=verdict)
    return ResponsePartitionData(
        partition_index=partition.partition,
        leader_id=verdict.leader,
        leader_epoch=verdict.leader_epoch,
        isr=list(verdict.isr),
        leader_recovery_state=int(verdict.recovering),
        partition_epoch=verdict.partition_epoch,
    )
