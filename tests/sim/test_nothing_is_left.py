"""What has come and gone leaves nothing behind in a broker: topics, clients, groups, transactions, quotas.

A list or a table that only grows is seen by nobody for weeks, until the broker's memory is full. Virtual time shows it
in seconds: the same things come and go in rounds, each followed by the time in which all that has a time is forgotten.
"""

import asyncio
import gc
import multiprocessing
import sys
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from types import ModuleType
from typing import Any

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.access_values import ClientQuotaAlteration
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.testing import run
from odradek.testing.virtual_run import VirtualCluster

TURNS = 4
"""Turns of a round."""
ALL_FORGOTTEN_S = 3_700
"""Rates of clients that have gone are kept for an hour, which has no setting in Kafka either."""
SETTINGS = {
    "log.retention.ms": 20_000,
    "log.segment.delete.delay.ms": 1_000,
    "offsets.retention.check.interval.ms": 5_000,
    "offsets.retention.minutes": 1,
    "producer.id.expiration.check.interval.ms": 1_000,
    "producer.id.expiration.ms": 3_000,
    "replica.fetch.wait.max.ms": 2_000,
    "replica.lag.time.max.ms": 10_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 2_000,
    "transaction.state.log.segment.bytes": 16_384,
    "offsets.topic.segment.bytes": 16_384,
    "transactional.id.expiration.ms": 5_000,
}
CONTAINERS = (bytearray, deque, dict, list, set)
WITH_A_MAXIMUM = {
    *("AbortedTransaction", "CachedPartition", "FetchSession", "FetchSessionCache", "FetchSessionHandler"),
    *("Journal", "LeaderAndIsr", "Peer", "_Bucket"),
    *("BrokerClient._brokers", "DeletedReplicas._leader_epochs", "Log._known_positions", "SenderConnections._senders"),
    *("MetadataCache._deleted_names", "MetadataCache.deleted_ids", "TransactionIndex._written"),
}
"""Classes, and attributes of others, that may still grow: up to a named maximum (the journal, which holds states of
partitions, deleted topics, fetch sessions, positions), with the number of brokers and of coordinators' partitions, with
the segments of Kafka's own topics, or with the times that timers are set for (buckets of a timing wheel)."""


def test_what_has_come_and_gone_leaves_nothing_behind() -> None:
    # In a process of its own: what other tests of this one have left behind, or still do, is not counted.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own_process:
        _, before, after = own_process.submit(counted_in_rounds).result()
    assert before["Partition"] and before["ReplicaManager.partitions"]
    grown = {name: count - before[name] for name, count in after.items() if count - before[name] >= TURNS}
    assert {name: more for name, more in grown.items() if not {name, name.split(".")[0]} & WITH_A_MAXIMUM} == {}


def counted_in_rounds() -> list[Counter[str]]:
    async def rounds(cluster: VirtualCluster) -> list[Counter[str]]:
        counted = []
        for first in range(0, 3 * TURNS, TURNS):
            for turn in range(first, first + TURNS):
                await comes_and_goes(cluster.bootstrap, f"{turn}", is_aborted=turn % 2 == 0)
            await asyncio.sleep(ALL_FORGOTTEN_S)
            counted.append(census())
        return counted

    return run(rounds, seed=1, settings=SETTINGS)


async def comes_and_goes(bootstrap: str, name: str, *, is_aborted: bool) -> None:
    """Make a topic and all that has to do with it, under names that nobody had before; and take all of it away."""
    partition = TopicPartition(name, 0)
    whoever: dict[str, Any] = {"bootstrap_servers": bootstrap, "client_id": name}
    in_group: dict[str, Any] = {**whoever, "auto_offset_reset": "earliest"}
    quota = {"client-id": name}
    async with Admin(**whoever) as admin:
        await admin.create_topics({name: {"num_partitions": 2, "replication_factor": 3}})
        await admin.alter_client_quotas([ClientQuotaAlteration(quota, {"producer_byte_rate": 1e6})])
        async with Producer(**whoever) as producer:
            await (await producer.send(name, b"plain"))
        async with (
            Producer(**whoever, transactional_id=name) as producer,
            Consumer(name, **in_group, group_id=f"{name} in transactions") as consumer,
        ):
            await producer.init_transactions()
            assert await consumer.getone()
            await producer.begin_transaction()
            await producer.send(name, b"in a transaction")
            await producer.send_offsets_to_transaction({partition: OffsetAndMetadata(1)}, consumer.group_metadata())
            await (producer.abort_transaction() if is_aborted else producer.commit_transaction())
        async with Consumer(name, **in_group, group_id=name, isolation_level="read_committed") as consumer:
            assert await consumer.getone()
            await consumer.commit()
        await admin.alter_client_quotas([ClientQuotaAlteration(quota, {"producer_byte_rate": None})])
        if is_aborted:
            await admin.delete_groups([name])
        await admin.delete_topics([name])


def census() -> Counter[str]:
    """Count the program's objects by class, what their containers hold by class and attribute, and what its modules
    keep."""
    gc.collect()
    counted: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if is_ours(str(kind.__module__)):  # of some extensions' classes it is no string
            counted[kind.__name__] += 1
            for attribute, value in attributes(one):
                if isinstance(value, CONTAINERS):
                    counted[f"{kind.__name__}.{attribute}"] += held(value)
    for name, module in list(sys.modules.items()):
        if is_ours(name):
            counted.update(kept_by(name, module))
    return counted


def is_ours(module: str) -> bool:
    """Tell whether a module is part of a broker, and not of the simulated world."""
    return module.startswith("odradek.") and not module.startswith("odradek.testing")


def attributes(one: object) -> Iterator[tuple[str, object]]:
    yield from list(getattr(one, "__dict__", {}).items())
    for kind in type(one).__mro__:
        slots = getattr(kind, "__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(one, slot):
                yield slot, getattr(one, slot)


def kept_by(name: str, module: ModuleType) -> Counter[str]:
    """Count what stands in a module's own tables."""
    own = {key: value for key, value in vars(module).items() if not key.startswith("__")}
    return Counter({f"{name}:{key}": held(value) for key, value in own.items() if isinstance(value, CONTAINERS)})


def held(container: Any) -> int:
    """Count what a container holds, and what the containers in it hold."""
    values = container.values() if isinstance(container, dict) else container
    return len(container) + sum(held(value) for value in values if isinstance(value, CONTAINERS))
