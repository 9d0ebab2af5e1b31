"""Questions of a broker to ZooKeeper before it registers: the topmost znodes, the cluster's id, perhaps its own id."""

import asyncio
import random

from odradek.zk_schema.lost_answers import create_if_missing, repeated
from odradek.zk_schema.store import Store
from odradek.zk_schema.znodes.brokers import BROKER_SEQUENCE_ID_PATH
from odradek.zk_schema.znodes.cluster import CLUSTER_ID_PATH, decode_cluster_id, encode_cluster_id, new_cluster_id
from odradek.zk_schema.znodes.topmost import TOPMOST_PATHS


async def create_topmost_paths(store: Store) -> None:
    """Make sure of TOPMOST_PATHS; what exists is left alone."""
    await asyncio.gather(*(create_if_missing(store, path) for path in TOPMOST_PATHS))


async def get_or_create_cluster_id(store: Store, randomness: random.Random) -> str:
    """Return the cluster's id: the first broker to ask makes it. Raises BadZnode."""
    stat = await repeated(store, lambda: store.exists(CLUSTER_ID_PATH))
    if stat is None:
        await create_if_missing(store, CLUSTER_ID_PATH, encode_cluster_id(new_cluster_id(randomness)))
    data, _ = await repeated(store, lambda: store.get(CLUSTER_ID_PATH))
    return decode_cluster_id(data)


async def generate_broker_id(store: Store, reserved_broker_max_id: int) -> int:
    """Return an id that nobody had before, above `reserved.broker.max.id`: ZooKeeper counts the writes to
    /brokers/seqid.

    A lost answer costs one id.
    """
    await create_if_missing(store, BROKER_SEQUENCE_ID_PATH)
    stat = await repeated(store, lambda: store.set(BROKER_SEQUENCE_ID_PATH, b""))
    return reserved_broker_max_id + stat.version
