"""Faults that wait for the moment between a transaction's decision and its markers: the coordinator changes, or whom it
has to send them to; and a stranger who writes into transactions of others."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.broker.log.producer_entry import ProducerEntry
from odradek.broker.replication.partition import Partition
from odradek.broker.transactions.transaction_state import PREPARED
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.protocol.records import encode_batch
from odradek.protocol.topic_names import TRANSACTION_STATE
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.directing import Cast, Director, controls
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.repeated_requests import RepeatedRequests
from odradek.testing.simulation.transactional_positions import TOPIC

STRANGER_PATIENCE_MS = 2_000
INVENTED = 1_000
"""Distance from a producer's epoch to one that it will not be given before the run ends."""
SLOW_MARKER_MS = (250.0, 400.0)
"""Time that a marker is under way, and its answer."""


class TransactionMoments(Director):
    """Situations of the transaction coordinators of one cluster."""

    def __init__(self, others: Faults, requests: RepeatedRequests) -> None:
        super().__init__(others, requests)
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "moved_decisions": self.moved_decisions,
            "former_leaders": self.former_leaders,
            "invented_epochs": self.invented_epochs,
        }

    async def moved_decisions(self) -> None:
        """A coordinator has decided, and is gone before its markers are there: it dies, or what it sends is held back
        until another one has carried the decision out, and the producer goes on."""
        cast = self.cast(TRANSACTION_STATE)
        if cast is None:
            return
        with self.reserved(cast):
            self.note(f"{cast.topic}-{cast.index}: {cast.leader.host} is to decide, and to be gone")
            with self.others.network_latency.at(SLOW_MARKER_MS):
                decided = await self.until(lambda: _has_decided(cast))
            if not decided or not cast.leader.running:
                return
            if self.random.random() < 0.4:
                await self.others.kill_and_start(cast.leader)
            else:
                await self._hold_back(cast)

    async def _hold_back(self, cast: Cast) -> None:
        ways = [(cast.leader.host, other.host) for other in cast.followers]
        for source, target in ways:
            self.network.cut(source, target, one_way=True)
        await self.others.administrator.give_the_lead_to_the_next((cast.topic, cast.index))
        await asyncio.sleep(self.random.uniform(0.5, 7.0))
        for source, target in ways:
            self.network.heal_way(source, target)

    async def former_leaders(self) -> None:
        """A partition of transactions gets another leader, and a coordinator does not hear of it for a while: it sends
        its markers to the former one."""
        cast = self.cast(TOPIC)
        active = next((one for one in self.cluster.brokers if one.running and controls(one)), None)
        if cast is None or active is None:
            return
        coordinators = {partition.local_id for partition in self.led() if partition.topic == TRANSACTION_STATE}
        deaf = [one for one in cast.followers if one is not active and one.broker_id in coordinators]
        way = self.requests.way(UpdateMetadataRequest.API_KEY, active.host, deaf[0].host) if deaf else None
        if way is None:
            return
        with self.reserved(cast):
            self.note(f"{cast.topic}-{cast.index}: {deaf[0].host} does not hear of its next leader")
            way.stall()
            await self.others.administrator.give_the_lead_to_the_next((cast.topic, cast.index))
            await asyncio.sleep(self.random.uniform(1.0, 4.0))
            way.go_on()

    async def invented_epochs(self) -> None:
        """A stranger writes into open transactions, in an epoch that nobody was given: taken, it could not be ended."""
        for _ in range(self.random.randint(5, 20)):
            found = [
                (partition, producer)
                for partition in self.led()
                if partition.topic == TOPIC
                for producer in partition.log.producers.producers.values()
                if producer.transaction_first_offset >= 0
            ]
            if found:
                await self._write_in_later_epoch(*self.random.choice(found))
            await asyncio.sleep(self.random.uniform(0.0, 0.2))

    async def _write_in_later_epoch(self, leader: Partition, producer: ProducerEntry) -> None:
        producer_id, epoch = producer.producer_id, producer.epoch + INVENTED
        name = self._transactional_id(producer_id)
        if name is None:
            return
        batch = encode_batch(
            0, [0], [None], [b"invented"],
            producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True,
        )  # fmt: skip
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=leader.index, records=batch)])
        request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=STRANGER_PATIENCE_MS, topic_data=[data])
        answer = await self.others.administrator.ask(self.cluster.brokers[leader.local_id], request, 9)
        if answer is not None and answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
            self.others.history.violated(
                f"{leader}: a batch in epoch {epoch} of {name}, which nobody was given, is taken"
            )

    def _transactional_id(self, producer_id: int) -> str | None:
        for broker in self.cluster.brokers:
            for name, state in broker.server.services.transactions.list_transactions()[1] if broker.running else ():
                if state.producer.id == producer_id:
                    return name
        return None


def _has_decided(cast: Cast) -> bool:
    """Tell whether a transaction of the partition waits for its markers; or whether nothing can be told any more."""
    broker: EmbeddedBroker = cast.leader
    if not broker.running:
        return True
    coordinator = broker.server.services.transactions
    return any(
        state.status in PREPARED and coordinator.partition_for(name) == cast.index
        for name, state in coordinator.list_transactions()[1]
    )
