"""AlterPartition: takes leaders' proposals to the controller until it has answered each (C10).

One request at a time, with all proposals that are waiting. A proposal whose fate is unknown (a lost connection, a
controller that was just deposed) is sent again: the controller answers a repeated one as it answered the first.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.cluster.metadata_cache import MetadataCache, Node
from odradek.broker.replication.fetcher_manager import PeerFactory
from odradek.broker.replication.partition import PendingIsr
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from odradek.world.clock import Clock

if TYPE_CHECKING:
    from odradek.broker.cluster.peer import Peer

log = logging.getLogger(__name__)

VERSION = 3
RETRY_BACKOFF_MS = 50.0
REQUEST_TIMEOUT_MS = 30_000.0

REFUSED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Nothing was written, and the leader may propose again."""
OVERTAKEN = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""The controller knows something newer and will tell us by LeaderAndIsr: the proposal stays open until then."""


class AlterPartitionManager:
    """The queue of proposals and the task that empties it."""

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        clock: Clock,
        connect: PeerFactory,
        listener: str,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._replicas, self._metadata, self._clock = replicas, metadata, clock
        self._connect, self._listener, self._broker_epoch = connect, listener, broker_epoch
        self._waiting: dict[tuple[str, int], PendingIsr] = {}
        self._work = asyncio.Event()
        self._peer: Peer | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name="alter-partition")

    def submit(self, proposal: PendingIsr) -> None:
        """A newer proposal for a partition takes the place of the one before it."""
        self._waiting[(proposal.topic, proposal.index)] = proposal
        self._work.set()

    def close(self) -> None:
        self._task.cancel()
        if self._peer is not None:
            self._peer.close()

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            self._drop_obsolete()
            if self._waiting and not await self._send():
                self._clock.call_later(RETRY_BACKOFF_MS, self._work.set)
            elif self._waiting:
                self._work.set()

    def _drop_obsolete(self) -> None:
        for key, proposal in list(self._waiting.items()):
            partition = self._replicas.partitions.get(key)
            if partition is None or partition.pending_isr is not proposal:
                del self._waiting[key]

    async def _send(self) -> bool:
        """Whether the controller has answered."""
        node = self._metadata.node(self._metadata.controller_id, self._listener)
        if node is None:
            return False
        sent = dict(self._waiting)
        try:
            response = await self._connection(node).request(self._request(sent), VERSION, REQUEST_TIMEOUT_MS)
        except (OSError, TimeoutError) as error:
            log.info("the controller, broker %d, cannot be reached: %s", node.id, error)
            return False
        assert isinstance(response, AlterPartitionResponse)
        if response.error_code != ErrorCode.NONE:
            return False
        self._answered(sent, response)
        return True

    def _connection(self, node: Node) -> "Peer":
        if self._peer is None or (self._peer.host, self._peer.port) != (node.host, node.port):
            if self._peer is not None:
                self._peer.close()
            self._peer = self._connect(node, f"alter-partition-{self._replicas.broker_id}")
        return self._peer

    def _request(self, proposals: dict[tuple[str, int], PendingIsr]) -> AlterPartitionRequest:
        topics: dict[bytes, TopicData] = {}
        for proposal in proposals.values():
            topic = topics.setdefault(proposal.topic_id, TopicData(topic_id=proposal.topic_id))
            topic.partitions.append(
                PartitionData(
                    partition_index=proposal.index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=e) for b, e in proposal.isr],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._replicas.broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _answered(self, sent: dict[tuple[str, int], PendingIsr], response: AlterPartitionResponse) -> None:
        by_id = {(proposal.topic_id, proposal.index): proposal for proposal in sent.values()}
        for topic in response.topics:
            for answer in topic.partitions:
                proposal = by_id.get((topic.topic_id, answer.partition_index))
                if proposal is None:
                    continue
                error = ErrorCode(answer.error_code)
                if error not in (ErrorCode.NONE, *REFUSED, *OVERTAKEN):
                    continue  # its fate is unknown: sent again
                if self._waiting.get((proposal.topic, proposal.index)) is proposal:
                    del self._waiting[(proposal.topic, proposal.index)]
                if error is ErrorCode.NONE:
                    self._replicas.isr_accepted(
                        proposal, answer.isr, answer.partition_epoch, recovering=answer.leader_recovery_state != 0
                    )
                elif error in REFUSED:
                    self._replicas.isr_refused(proposal)
                else:
                    log.info("%s-%d: the controller refused the ISR: %s", proposal.topic, proposal.index, error.name)
