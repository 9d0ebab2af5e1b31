"""The first batches of transactions, which are taken when the coordinator says that those have begun (KIP-890).

What is open in a partition's log has been verified. A marker that is written while the coordinator is asked makes its
answer worthless: it may be about the transaction that has just ended.
"""

from typing import NamedTuple

from odradek.broker.log.log import Log
from odradek.broker.log.producer_state import VerificationGuard
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.broker.tasks.transaction_verification import TransactionVerification
from odradek.broker.transactions.transaction_state import ProducerIdentity, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.record_batch import ATTRIBUTES_AT, HEADER, HEADER_BYTES, TRANSACTIONAL_BIT

PRODUCER_FIELDS = slice(9, 11)
"""Id and epoch, of the fields of a batch's header."""


class FirstBatch(NamedTuple):
    partition: TopicPartition
    producer: ProducerIdentity
    log: Log
    guard: VerificationGuard


def find_first_batches(replicas: ReplicaManager, request: ProduceRequest) -> list[FirstBatch]:
    """Those of partitions led here; what else is wrong with them is said when they are appended."""
    found = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_BYTES or not records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT:
                continue
            try:
                log = replicas.led(topic.name, data.index).log
            except KafkaError:
                continue
            producer = ProducerIdentity(*HEADER.unpack_from(records)[PRODUCER_FIELDS])
            guard = log.begin_verification(producer.id)
            if guard is not None:
                found.append(FirstBatch((topic.name, data.index), producer, log, guard))
    return found


def keep_records(request: ProduceRequest) -> None:
    """They outlive the call that handles the request: out of the connection's receive buffer."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = bytearray(data.records)


async def verify(
    verification: TransactionVerification, transactional_id: str, batches: list[FirstBatch]
) -> dict[TopicPartition, ErrorCode]:
    """Which partitions must not get their batch, and why."""
    refused: dict[TopicPartition, ErrorCode] = {}
    for producer in {one.producer for one in batches}:
        partitions = [one.partition for one in batches if one.producer == producer]
        refused |= await verification.ask(transactional_id, producer, partitions)
    for one in batches:
        if refused[one.partition] is not ErrorCode.NONE:
            one.log.producers.end_verification(one.producer.id)
        elif one.log.is_verified(one.producer.id, one.guard):
            del refused[one.partition]
        else:
            refused[one.partition] = ErrorCode.INVALID_TXN_STATE
    return refused
