"""Requests that many tests send: a topic on given brokers, records for one partition, a transaction that will hang."""

from collections.abc import Sequence

from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.primitives import Records
from odradek.protocol.records import encode_batch


def create_topic_request(name: str, *replicas: Sequence[int], timeout_ms: int = 10_000) -> CreateTopicsRequest:
    """Make the request for a topic with a partition for each list of replicas: broker ids, the preferred one first."""
    assigned = [CreatableReplicaAssignment(partition_index=n, broker_ids=list(ids)) for n, ids in enumerate(replicas)]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assigned)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


def produce_request(
    topic: str, records: Records, partition: int = 0, *, acks: int = -1, timeout_ms: int = 5_000
) -> ProduceRequest:
    """Make the request for one partition's batch, or a message set where an old version is to carry it."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])


def hanging_request(topic: str, producer_id: int, partition: int = 0) -> ProduceRequest:
    """Make the request that opens a transaction which no coordinator knows: the leader must not ask it, so it must have
    `transaction.partition.verification.enable=false`."""
    batch = encode_batch(
        0, [0], [None], [b"hangs"], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    request = produce_request(topic, batch, partition)
    request.transactional_id = "nobody"
    return request
