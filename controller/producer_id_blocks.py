"""AllocateProducerIds: blocks of producer ids, each handed out once in the cluster's life (KIP-730)."""

from odradek.controller.active_controller import ActiveController
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.zk_schema.store import BadVersion, ConnectionLost, Create, MultiFailed, NodeExists, NoNode, SetData
from odradek.zk_schema.znodes.cluster import PRODUCER_ID_BLOCK_PATH, ProducerIdBlock
from odradek.zk_schema.znodes.json_data import BadZnode

BLOCK_SIZE = 1000
LAST_PRODUCER_ID = 2**63 - 1


async def allocate(active: ActiveController, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
    """Return the next block, written to ZooKeeper before anybody may use it. After a lost answer a block stays unused.

    Raises KafkaError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR when there are none left.
    """
    broker = active.state.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has epoch {broker.epoch} now")
    store = active.store
    while True:
        znode = await store.get(PRODUCER_ID_BLOCK_PATH)
        try:
            last = None if znode is None else ProducerIdBlock.decode(znode[0])
        except BadZnode as bad:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(bad)) from bad
        first = 0 if last is None else last.last + 1
        if first > LAST_PRODUCER_ID - BLOCK_SIZE:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been handed out")
        block = ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
        path, data = PRODUCER_ID_BLOCK_PATH, block.encode()
        write = Create(path, data) if znode is None else SetData(path, data, znode[1].version)
        try:
            await store.write([write])
        except ConnectionLost:
            continue
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NoNode | NodeExists):
                raise
            continue
        return block
