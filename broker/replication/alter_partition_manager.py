"""AlterPartition: takes leaders' changes of their ISRs to the controller until it has answered each.

One request at a time, with the changes that have waited longest. One whose fate is unknown (a lost connection, a
controller that was just deposed) is sent again: the controller answers a repeated one as it answered the first. Kafka:
DefaultAlterPartitionManager.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from odradek.broker.replication.isr import PendingIsr
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock, sleep
from odradek.world.tasks import OnDeath, Tasks

if TYPE_CHECKING:
    from odradek.broker.cluster.broker_client import BrokerClients

log = logging.getLogger(__name__)

VERSION = 3
VERSION_BY_NAME = 1
"""The last version that names topics; used while a topic has no id, as in a cluster that is older than topic ids."""
RETRY_BACKOFF_MS = 50.0
CHANGES_PER_REQUEST = 1000
"""Most changes in a request, which is made, read and answered in one piece, in 10 ms; Kafka's has no limit."""

REFUSED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Errors after which nothing was written, and the leader may propose again."""
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
"""Errors of a controller that knows something newer: the change stays open until it tells us by LeaderAndIsr."""


class AlterPartitionManager:
    """The changes that wait for the controller, and the task that takes them there."""

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        tasks: Tasks,
        clients: "BrokerClients",
        broker_epoch: Callable[[], int],
        timeout_ms: float,
    ) -> None:
        """Wait `timeout_ms` for an answer (`controller.socket.timeout.ms`); give up before when the controller
        changes. `broker_epoch` gives the epoch of this broker's present registration."""
        self._replicas, self._clock, self._broker_epoch = replicas, clock, broker_epoch
        self._client = clients(f"alter-partition-{replicas.broker_id}")
        self._timeout_ms = timeout_ms
        self._waiting: dict[PartitionKey, PendingIsr] = {}
        self._work = asyncio.Event()
        self._told_unreachable = False
        tasks.spawn("alter-partition", self._run, OnDeath.RESTART)

    def submit(self, pending: PendingIsr) -> None:
        """Have the controller write a change. A newer change of a partition takes the place of the one before it."""
        self._waiting[(pending.topic, pending.index)] = pending
        self._work.set()

    def close(self) -> None:
        """Give up what is in flight; the broker ends the task."""
        self._client.close()

    async def _run(self) -> None:
        while True:
            self._drop_obsolete()
            if not self._waiting:
                self._work.clear()
                await self._work.wait()
            elif not await self._send():
                await sleep(self._clock, RETRY_BACKOFF_MS)

    def _drop_obsolete(self) -> None:
        for key, pending in list(self._waiting.items()):
            partition = self._replicas.partitions.get(key)
            if partition is None or partition.pending_isr is not pending:
                del self._waiting[key]

    async def _send(self) -> bool:
        """Send the changes that have waited longest; tell whether the controller has decided on all of them."""
        sent = dict(islice(self._waiting.items(), CHANGES_PER_REQUEST))
        by_id = all(pending.topic_id != ZERO_UUID for pending in sent.values())
        version = VERSION if by_id else VERSION_BY_NAME
        try:
            response = await self._client.to_controller(self._request(sent, by_id), version, self._timeout_ms)
        except OSError as error:
            if not self._told_unreachable:
                log.info("the controller cannot be told of %d changed ISRs: %s; retrying", len(sent), error)
            self._told_unreachable = True
            return False
        self._told_unreachable = False
        assert isinstance(response, AlterPartitionResponse)
        return response.error_code == ErrorCode.NONE and self._answered(sent, response, by_id)

    def _request(self, sent: dict[PartitionKey, PendingIsr], by_id: bool) -> AlterPartitionRequest:
        topics: dict[str, TopicData] = {}
        for pending in sent.values():
            topic = topics.get(pending.topic)
            if topic is None:
                topic = topics[pending.topic] = TopicData()
                if by_id:
                    topic.topic_id = pending.topic_id
                else:
                    topic.topic_name = pending.topic
            topic.partitions.append(_partition_data(pending, by_id))
        return AlterPartitionRequest(
            broker_id=self._replicas.broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _answered(self, sent: dict[PartitionKey, PendingIsr], response: AlterPartitionResponse, by_id: bool) -> bool:
        """Take in the answers; tell whether each partition's says what has become of it. The others wait behind those
        that have not been sent yet: it may be long until they can be decided on."""
        names = {pending.topic_id: pending.topic for pending in sent.values()}
        undecided = set(sent)
        for topic in response.topics:
            name = names.get(topic.topic_id, "") if by_id else topic.topic_name
            for answer in topic.partitions:
                pending = sent.get((name, answer.partition_index))
                error = error_code(answer.error_code)
                if pending is None or error not in (ErrorCode.NONE, *REFUSED, *OVERTAKEN):
                    continue  # its fate is unknown: sent again
                key = (pending.topic, pending.index)
                undecided.discard(key)
                if self._waiting.get(key) is pending:
                    del self._waiting[key]
                if error is ErrorCode.NONE:
                    self._replicas.isr_accepted(pending, answer.isr, answer.partition_epoch)
                elif error in REFUSED:
                    self._replicas.isr_refused(pending)
                else:
                    log.info("%s-%d: the controller refused the ISR: %s", *key, error.name)
        for key in undecided:
            if self._waiting.get(key) is sent[key]:
                self._waiting[key] = self._waiting.pop(key)
        return not undecided


def _partition_data(pending: PendingIsr, by_id: bool) -> PartitionData:
    """Make the entry of one partition, which is RECOVERED (the default). VERSION_BY_NAME has no broker epochs."""
    data = PartitionData(
        partition_index=pending.index, leader_epoch=pending.leader_epoch, partition_epoch=pending.partition_epoch
    )
    if by_id:
        data.new_isr_with_epochs = [BrokerState(broker_id=broker, broker_epoch=epoch) for broker, epoch in pending.isr]
    else:
        data.new_isr = [broker for broker, _ in pending.isr]
    return data
