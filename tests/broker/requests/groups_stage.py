"""A stage for the APIs of groups: a whole coordinator, and requests to it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.groups.group_coordinator import GroupCoordinator
from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests import (
    join_group,
    sync_group,
)
from odradek.broker.settings.coordinator_settings import GroupSettings, TransactionSettings
from odradek.broker.transactions.transaction_coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_markers import PendingMarkers
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.join_group import JoinGroupRequestProtocol
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequestAssignment
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.topic_names import CONSUMER_OFFSETS
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import Store

PARTITIONS = 2
READ_DELETE_DESCRIBE = 1 << 3 | 1 << 6 | 1 << 8
TOPICS = {"t": 2, CONSUMER_OFFSETS: PARTITIONS}


class AcknowledgingStorage:
    """A log that has everything at once and gives nothing back."""

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        done(ErrorCode.NONE)

    def append_alone(self, partition: int, records: bytearray) -> ErrorCode:
        return ErrorCode.NONE

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        return b"", 0

    def log_start_offset(self, partition: int) -> int:
        return 0


class NoMarkers:
    def send(self, ending: PendingMarkers) -> None:
        raise AssertionError(ending)


@dataclass
class Broker:
    """What the handlers see."""

    clock: VirtualClock
    zookeeper: Store
    metadata: MetadataCache
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    auto_create_topic: Callable[[str], Awaitable[ErrorCode]]
    created: list[str] = field(default_factory=list)

    async def ask(self, module, version, client="client", listener="EXTERNAL", **fields):
        """Through the codecs both ways, as over a connection."""
        request = decode(module.REQUEST, version, encode(module.REQUEST(**fields), version))
        context = RequestContext(version, client, "10.0.0.7:4711", listener)
        outcome = module.handle(self, request, context)
        reply = await outcome if inspect.iscoroutine(outcome) else outcome
        assert isinstance(reply, Reply)
        return decode(type(reply.response), version, encode(reply.response, version))

    async def member(self, group="g", version=3):
        """The one member of a stable group: (member id, generation)."""
        joined = await self.ask(join_group, version, **join_fields(group_id=group))
        word = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"A")
        synced = await self.ask(
            sync_group, 3, group_id=group, generation_id=1, member_id=joined.member_id, assignments=[word]
        )
        assert synced.assignment == b"A"
        return joined.member_id, joined.generation_id


def metadata(topics: dict[str, int]) -> MetadataCache:
    cache = MetadataCache()
    endpoints = [
        UpdateMetadataEndpoint(host="outside", port=9092, listener="EXTERNAL"),
        UpdateMetadataEndpoint(host="inside", port=9093, listener="INTERNAL"),
    ]
    states = [
        UpdateMetadataTopicState(
            topic_name=topic,
            partition_states=[UpdateMetadataPartitionState(partition_index=i, leader=7 + i) for i in range(count)],
        )
        for topic, count in topics.items()
    ]
    broker = UpdateMetadataBroker(id=7, endpoints=endpoints)
    cache.update(UpdateMetadataRequest(topic_states=states, live_brokers=[broker]))
    return cache


async def pass_time(clock: VirtualClock, duration_ms: float) -> None:
    """Virtual time: nothing waits for it."""
    passed = asyncio.Event()
    clock.call_later(duration_ms, passed.set)
    await passed.wait()


def with_broker(test, topics=TOPICS):
    """Run a test with a broker on virtual time."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryZooKeeper(clock).connect()
        await store.start(1000)
        groups = GroupCoordinator(clock, Random(1), AcknowledgingStorage(), GroupSettings(), lambda: PARTITIONS)
        transactions = TransactionCoordinator(
            clock, AcknowledgingStorage(), TransactionSettings(), lambda: PARTITIONS, NoMarkers(), 30_000
        )
        created: list[str] = []

        async def create(topic: str) -> ErrorCode:
            created.append(topic)
            return ErrorCode.NONE

        broker = Broker(clock, store, metadata(topics), groups, transactions, create, created)
        groups.start()
        for partition in range(PARTITIONS):
            groups.on_elected(partition, 0)
        await pass_time(clock, 1)
        await test(broker)
        groups.stop()

    run_virtual(main)


def join_fields(**fields):
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"M")]
    defaults = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": protocols,
    }
    return defaults | fields


def commit_topics(*partitions, metadata="m", timestamp=-1):
    return [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_metadata=metadata,
                    committed_leader_epoch=4,
                    commit_timestamp=timestamp,
                )
            ],
        )
        for topic, index, offset in partitions
    ]


def versions(module):
    lowest, highest = module.VERSIONS
    return range(lowest, highest + 1)
