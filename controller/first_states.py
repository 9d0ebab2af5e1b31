"""First states of new partitions, written with the znodes above them, many partitions in one transaction."""

import asyncio
from collections.abc import Mapping, Sequence

from odradek.controller.cluster_state import LeaderAndIsr
from odradek.controller.controller_store import ControllerStore, slices
from odradek.controller.decoded_znodes import state_data
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import ConnectionLost, Create, MultiFailed, StoreError
from odradek.zk_schema.znodes.topics import partition_path, partitions_path, state_path

PARTITIONS_PER_TRANSACTION = 45

Written = dict[TopicPartition, LeaderAndIsr | StoreError]


async def create_first_states(store: ControllerStore, chosen: Mapping[TopicPartition, LeaderAndIsr]) -> Written:
    """Create states; return for each what was written, or what prevented it (ConnectionLost: it may be written)."""
    topics = dict.fromkeys(partition.topic for partition in chosen)
    await store.write_each([Create(partitions_path(topic)) for topic in topics])
    groups = slices(list(chosen.items()), PARTITIONS_PER_TRANSACTION)
    written: Written = {}
    for some in await asyncio.gather(*(_create(store, dict(group)) for group in groups)):
        written |= some
    return written


async def _create(store: ControllerStore, chosen: Mapping[TopicPartition, LeaderAndIsr]) -> Written:
    """Create states and the znodes above them together; step by step when some of those are there already."""
    states = [Create(state_path(*partition), state_data(wanted)) for partition, wanted in chosen.items()]
    above = [Create(partition_path(*partition)) for partition in chosen]
    try:
        await store.write([*above, *states])
    except ConnectionLost as lost:
        return dict.fromkeys(chosen, lost)
    except MultiFailed:
        await _create_missing(store, sorted({partitions_path(partition.topic) for partition in chosen}))
        await _create_missing(store, [operation.path for operation in above])
    else:
        return dict(chosen)
    results = await store.write_each(states)
    return {
        partition: result if isinstance(result, StoreError) else wanted
        for (partition, wanted), result in zip(chosen.items(), results, strict=True)
    }


async def _create_missing(store: ControllerStore, paths: Sequence[str]) -> None:
    lost = True
    while lost:
        found = await store.get_all(paths)
        missing = [path for path, znode in zip(paths, found, strict=True) if znode is None]
        results = await store.write_each([Create(path) for path in missing])
        lost = any(isinstance(result, ConnectionLost) for result in results)
