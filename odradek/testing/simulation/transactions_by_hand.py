"""Transactions by hand: request by request, as a client does that is slow, or one that does what ours never do.

A batch comes when its transaction has ended, which no partition may take for the beginning of another one (KIP-890); a
group commits positions beside the transaction in which it commits others: the later ones count.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.broker.replication.partition import Partition
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.records import encode_batch
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.coordinators import Coordinators
from odradek.testing.simulation.directing import Director
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.repeated_requests import RepeatedRequests
from odradek.testing.simulation.transactional_positions import TOPIC

TIMEOUT_MS = 8_000
TRIES = 60
AGAIN_S = 0.1
NO_GENERATION = -1
COMES_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NETWORK_EXCEPTION,
    }
)  # fmt: skip
"""Errors after which the same is asked again."""


class TransactionByHand:
    """A transactional id; its requests, each of which is asked again as long as that may help.

    It notes its name in `unsure` when it gives up: the coordinator takes what it asked for last as not done, though it
    may be in the log.
    """

    def __init__(self, administrator: Administrator, unsure: set[str]) -> None:
        self._administrator, self._unsure = administrator, unsure
        self.name = f"by-hand-{administrator.random.getrandbits(32):08x}"
        self.producer = ProducerIdentity(-1, -1)

    async def begin(self) -> bool:
        """Get an identity; tell whether that is done, as all of these."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self._ask_coordinator(request, 4)
        if answer is None or answer.error_code != ErrorCode.NONE:
            return False
        self.producer = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        return True

    async def add(self, topic: str, index: int) -> bool:
        """Put a partition into the transaction."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer.id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        answer = await self._ask_coordinator(request, 3)
        return answer is not None and _error_of(answer) is ErrorCode.NONE

    async def add_group(self, group: str) -> bool:
        """Put the positions of a group into it."""
        producer = self.producer
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=producer.id, producer_epoch=producer.epoch, group_id=group
        )
        answer = await self._ask_coordinator(request, 3)
        return answer is not None and answer.error_code == ErrorCode.NONE

    async def end(self, *, committed: bool) -> bool:
        """End it; its decision is in the log then."""
        producer = self.producer
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=producer.id, producer_epoch=producer.epoch, committed=committed
        )
        answer = await self._ask_coordinator(request, 3)
        return answer is not None and answer.error_code == ErrorCode.NONE

    async def write(self, leader: Partition) -> None:
        """Write one batch, the producer's first, whatever its leader says."""
        now_ms = self._administrator.cluster.clock.now_ms()
        batch = encode_batch(
            0, [now_ms], [None], [b"late"],
            producer_id=self.producer.id, producer_epoch=self.producer.epoch, base_sequence=0, transactional=True,
        )  # fmt: skip
        data = TopicProduceData(
            name=leader.topic, partition_data=[PartitionProduceData(index=leader.index, records=batch)]
        )
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=2_000, topic_data=[data])
        await self._administrator.ask(self._administrator.cluster.brokers[leader.local_id], request, 9)

    async def commit(
        self,
        group: str,
        topic: str,
        position: int,
        generation: int = NO_GENERATION,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> ErrorCode | None:
        """Commit a position of a group's partition 0 in the transaction; None: nobody knows."""
        at = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=position)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[at])],
        )
        answer = await ask_group(self._administrator, group, request, 3)
        return None if answer is None else _error_of(answer)

    async def _ask_coordinator(self, request: Message, version: int) -> Any:
        def serves(broker: EmbeddedBroker) -> bool:
            return broker.server.services.transactions.check(self.name) is ErrorCode.NONE

        answer = None
        try:
            answer = await _ask(self._administrator, serves, request, version)
        finally:
            if answer is None or _error_of(answer) in COMES_AGAIN:
                self._unsure.add(self.name)
        return answer


async def ask_group(administrator: Administrator, group: str, request: Message, version: int) -> Any:
    """Return the last answer of a group's coordinator, None when it cannot be had."""

    def serves(broker: EmbeddedBroker) -> bool:
        return broker.server.services.groups.check(group) is ErrorCode.NONE

    return await _ask(administrator, serves, request, version)


async def _ask(
    administrator: Administrator, serves: Callable[[EmbeddedBroker], bool], request: Message, version: int
) -> Any:
    """Ask whoever takes itself for the coordinator, until one answers that it is of no use to ask again."""
    answer = None
    for _ in range(TRIES):
        found = [broker for broker in administrator.cluster.brokers if broker.running and serves(broker)]
        if found:
            answer = await administrator.ask(found[0], request, version)
            if answer is None or _error_of(answer) not in COMES_AGAIN:
                break
        await asyncio.sleep(AGAIN_S)
    return answer


def _error_of(answer: Any) -> ErrorCode:
    """Return the first error of an answer, wherever its message has it."""
    if code := getattr(answer, "error_code", 0):
        return ErrorCode(code)
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        return ErrorCode(topic.results_by_partition[0].partition_error_code)
    for topic in getattr(answer, "topics", ()):
        return ErrorCode(topic.partitions[0].error_code)
    return ErrorCode.NONE


class ByHandMoments(Director):
    """Director of such transactions on one cluster; `topic`: the one whose positions the groups commit."""

    def __init__(self, others: Faults, requests: RepeatedRequests, topic: str, coordinators: Coordinators) -> None:
        super().__init__(others, requests)
        self._topic, self._administrator, self._coordinators = topic, others.administrator, coordinators
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "late_batches": self.late_batches,
            "mixed_commits": self.mixed_commits,
        }

    async def late_batches(self) -> None:
        """A batch comes when its transaction has ended, or while that ends. `Coordinators` watches the logs."""
        leaders = [partition for partition in self.led() if partition.topic == TOPIC]
        one = TransactionByHand(self._administrator, self._coordinators.unsure)
        if not leaders or not await one.begin():
            return
        leader = self.random.choice(leaders)
        if not await one.add(TOPIC, leader.index):
            return
        if self.random.random() < 0.5:
            await self._end_meanwhile(one, leader)
        elif await one.end(committed=False):
            await asyncio.sleep(self.random.choice((0.0, 0.3)))
            await one.write(leader)

    async def _end_meanwhile(self, one: TransactionByHand, leader: Partition) -> None:
        """The coordinator's answer, that all is well, is under way while the transaction's marker is written."""
        host, key = self.cluster.brokers[leader.local_id].host, AddPartitionsToTxnRequest.API_KEY
        ways = [self.requests.way(key, host, other.host) for other in self.cluster.brokers]
        held = [way.back for way in ways if way is not None and way.back is not None]
        for back in held:
            back.stall()
        writing = asyncio.ensure_future(one.write(leader))
        await asyncio.sleep(self.random.uniform(0.02, 0.2))
        if await one.end(committed=False):
            await self.until(lambda: one.producer.id in leader.log.producers.producers)
        for back in held:
            back.go_on()
        await writing

    async def mixed_commits(self) -> None:
        """A group commits positions in a transaction, and others beside it."""
        one = TransactionByHand(self._administrator, self._coordinators.unsure)
        group = f"group-of-{one.name}"
        if not await one.begin() or not await one.add_group(group):
            return
        beside, within = -1, -1
        for position in range(1, self.random.randint(2, 4) + 1):
            await asyncio.sleep(self.random.choice((0.0, 0.02, 0.5)))
            if self.random.random() < 0.5:
                beside = position
                error = await self._commit(group, position)
            else:
                within = position
                error = await one.commit(group, self._topic, position)
            if error is not ErrorCode.NONE:
                self._coordinators.unsure.add(group)
                await one.end(committed=False)
                return
        committed = self.random.random() < 0.8
        await asyncio.sleep(self.random.choice((0.0, 0.5)))
        if await one.end(committed=committed):
            found = await self._position(group)
            expected = max(beside, within) if committed else beside
            if found not in (None, expected):
                self.others.history.violated(
                    f"{group} is at {found}: beside its transaction {beside} was committed, within it {within}, "
                    f"and it was {'committed' if committed else 'aborted'}"
                )

    async def _commit(self, group: str, position: int) -> ErrorCode | None:
        """Commit a position beside any transaction; None: nobody knows."""
        at = OffsetCommitRequestPartition(partition_index=0, committed_offset=position)
        request = OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(name=self._topic, partitions=[at])]
        )
        answer = await ask_group(self._administrator, group, request, 8)
        return None if answer is None else _error_of(answer)

    async def _position(self, group: str) -> int | None:
        """Return what the group has committed when nothing of it is open; None: it is not told."""
        asked = OffsetFetchRequestTopic(name=self._topic, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=group, topics=[asked], require_stable=True)
        answer = await ask_group(self._administrator, group, request, 7)
        if answer is None or _error_of(answer) is not ErrorCode.NONE:
            return None
        found: int = answer.topics[0].partitions[0].committed_offset
        return found
