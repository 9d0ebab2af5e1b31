"""Transactions of foreign clients: what is committed is read, what is aborted is not, and a zombie is fenced."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records import encode_batch
from odradek.testing import Cluster
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.load import read_to_the_end, transaction_coordinator
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.cluster

NewTopic = Callable[..., str]
PARTITIONS = 3


def read(cluster: Cluster, topic: str, isolation: str = "read_committed") -> list[str]:
    return sorted(read_to_the_end(cluster.bootstrap, topic, PARTITIONS, isolation))


def producer_of(cluster: Cluster, transactional_id: str, **settings: object) -> Producer:
    """The successor of all that had the id."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "log_level": 6 if "logger" in settings else 2,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def settle(cluster: Cluster, transactional_id: str) -> None:
    """Until the markers of its last transaction are written: a commit is answered before, a successor after."""
    producer_of(cluster, transactional_id)


def coordinator_of(cluster: Cluster, transactional_id: str) -> RawConnection:
    return RawConnection(cluster.bootstrap.split(",")[transaction_coordinator(cluster.bootstrap, transactional_id)])


def write(producer: Producer, topic: str, values: list[str]) -> None:
    for at, value in enumerate(values):
        producer.produce(topic, value, partition=at % PARTITIONS)
    assert producer.flush(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_commits_and_aborts(cluster: Cluster, new_topic: NewTopic, codec: str) -> None:
    topic = new_topic(partitions=PARTITIONS)
    producer = producer_of(cluster, topic, compression_type=codec)
    for number in range(4):
        producer.begin_transaction()
        write(producer, topic, [f"{number}-{at}" for at in range(7)])
        if number % 2:
            producer.abort_transaction(PATIENCE_SECONDS)
        else:
            producer.commit_transaction(PATIENCE_SECONDS)
    settle(cluster, topic)
    assert read(cluster, topic) == sorted(f"{number}-{at}" for number in (0, 2) for at in range(7))
    assert len(read(cluster, topic, "read_uncommitted")) == 28


def test_librdkafka_reports_no_record_delivered_that_is_lost(
    cluster: Cluster, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    """An abort purges a batch that is in the log already; the next record gets its sequence, in the same epoch."""
    topic = new_topic(partitions=PARTITIONS)
    caplog.set_level(logging.INFO)
    producer = producer_of(cluster, topic, retry_backoff_ms=5000, logger=logging.getLogger())
    committed = []

    def attempt(value: str) -> None:
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        try:
            producer.commit_transaction(PATIENCE_SECONDS)
        except KafkaException as error:
            assert error.args[0].txn_requires_abort()
            producer.abort_transaction(PATIENCE_SECONDS)
        else:
            committed.append(value)

    attempt("before")
    lost = cluster.drop_answer("Produce", topic=topic, times=None)
    producer.begin_transaction()
    producer.produce(topic, "purged", partition=0)
    wait_until(lambda: producer.poll(0) >= 0 and "Disconnected" in caplog.text, "the batch waits to be sent again")
    producer.abort_transaction(PATIENCE_SECONDS)
    cluster.clear(lost)
    attempt("with its sequence")
    attempt("after")
    settle(cluster, topic)
    assert read(cluster, topic) == sorted(committed)
    assert {"before", "after"} <= set(committed)


def test_kafka_python_commits_and_aborts(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic)
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        for at in range(7):
            producer.send(topic, f"{number}-{at}".encode(), partition=at % PARTITIONS).get(PATIENCE_SECONDS)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    settle(cluster, topic)
    assert read(cluster, topic) == sorted(f"{number}-{at}" for number in (0, 2) for at in range(7))


def test_aiokafka_commits_and_aborts(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)

    async def write_all() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic) as producer:
            for number in range(4):
                await producer.begin_transaction()
                for at in range(7):
                    await producer.send_and_wait(topic, f"{number}-{at}".encode(), partition=at % PARTITIONS)
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())

    asyncio.run(write_all())
    settle(cluster, topic)
    assert read(cluster, topic) == sorted(f"{number}-{at}" for number in (0, 2) for at in range(7))


def test_a_successor_fences_and_aborts_what_is_open(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)
    zombie = producer_of(cluster, topic)
    zombie.begin_transaction()
    write(zombie, topic, ["of the zombie"])
    assert read(cluster, topic, "read_uncommitted") == ["of the zombie"] and read(cluster, topic) == []
    successor = producer_of(cluster, topic)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(PATIENCE_SECONDS)
    assert fenced.value.args[0].fatal()
    successor.begin_transaction()
    write(successor, topic, ["of the successor"])
    successor.commit_transaction(PATIENCE_SECONDS)
    settle(cluster, topic)
    assert read(cluster, topic) == ["of the successor"]


def test_one_that_takes_too_long_holds_nobody_back(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)
    slow, other = producer_of(cluster, f"{topic}-slow", transaction_timeout_ms=10_000), producer_of(cluster, topic)
    slow.begin_transaction()
    write(slow, topic, ["slow"])
    other.begin_transaction()
    write(other, topic, ["quick"])
    other.commit_transaction(PATIENCE_SECONDS)
    wait_until(lambda: read(cluster, topic) == ["quick"], "the abort of the slow one")
    with pytest.raises(KafkaException):
        slow.commit_transaction(PATIENCE_SECONDS)


def test_offsets_are_committed_with_the_records(cluster: Cluster, new_topic: NewTopic) -> None:
    """Read, process, write: each record once, though every other transaction is aborted and done again."""
    source, target = new_topic("-from", PARTITIONS), new_topic("-to", PARTITIONS)
    values = [f"{number:03}" for number in range(60)]
    first = producer_of(cluster, source)
    first.begin_transaction()
    write(first, source, values)
    first.commit_transaction(PATIENCE_SECONDS)
    group = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": f"{source}-group",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    producer, done, attempt = producer_of(cluster, target), 0, 0
    while done < len(values):
        consumer = Consumer(group)
        consumer.subscribe([source])
        messages: list[Message] = []
        while not messages:
            messages = consumer.consume(13, 0.5)
        producer.begin_transaction()
        write(producer, target, [(message.value() or b"").decode() for message in messages])
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_SECONDS)
        attempt += 1
        if attempt % 2:
            producer.abort_transaction(PATIENCE_SECONDS)
        else:
            producer.commit_transaction(PATIENCE_SECONDS)
            done += len(messages)
        consumer.close()
    settle(cluster, target)
    assert read(cluster, target) == values


def test_what_administrators_see(cluster: Cluster, admin: AdminClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)
    producer = producer_of(cluster, topic)
    producer.begin_transaction()
    write(producer, topic, ["a", "b"])
    with coordinator_of(cluster, topic) as connection:
        listed = connection.ask(ListTransactionsRequest(state_filters=["Ongoing", "Nonsense"]), 1)
        [unknown, described] = connection.ask(
            DescribeTransactionsRequest(transactional_ids=["nobody's", topic]), 0
        ).transaction_states
    assert listed.unknown_state_filters == ["Nonsense"]
    [one] = [one for one in listed.transaction_states if one.transactional_id == topic]
    assert (one.transaction_state, one.producer_id) == ("Ongoing", described.producer_id)
    assert described.transaction_state == "Ongoing" and described.transaction_start_time_ms > 0
    assert [(part.topic, part.partitions) for part in described.topics] == [(topic, [0, 1])]
    assert unknown.error_code in (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.NOT_COORDINATOR)
    producer.abort_transaction(PATIENCE_SECONDS)


def test_a_record_that_comes_after_its_transaction_holds_nobody_back(
    cluster: Cluster, admin: AdminClient, new_topic: NewTopic
) -> None:
    """The leader asks the coordinator: the batch is refused, as one of a partition that was not added (KIP-890)."""
    topic = new_topic(partitions=PARTITIONS)
    producer = producer_of(cluster, topic)
    producer.begin_transaction()
    write(producer, topic, ["a"])
    with coordinator_of(cluster, topic) as connection:
        [state] = connection.ask(DescribeTransactionsRequest(transactional_ids=[topic]), 0).transaction_states
    late = partial(produce, cluster, admin, topic, state.producer_id, state.producer_epoch)
    assert late(partition=1, sequence=0) == ErrorCode.INVALID_TXN_STATE
    producer.commit_transaction(PATIENCE_SECONDS)

    def over() -> bool:
        """The marker may be there before the coordinator knows: until then the producer is to come again."""
        with coordinator_of(cluster, topic) as connection:
            [state] = connection.ask(DescribeTransactionsRequest(transactional_ids=[topic]), 0).transaction_states
        return bool(state.transaction_state == "CompleteCommit")

    wait_until(over, "the end of the transaction")
    assert read(cluster, topic) == ["a"]
    assert late(partition=0, sequence=1) == ErrorCode.INVALID_TXN_STATE
    assert read(cluster, topic, "read_uncommitted") == ["a"]


def produce(
    cluster: Cluster, admin: AdminClient, topic: str, producer_id: int, epoch: int, *, partition: int, sequence: int
) -> int:
    """One batch, to the leader, as the producer would send it; the error."""
    leader = admin.list_topics(topic).topics[topic].partitions[partition].leader
    batch = encode_batch(
        0, [0], [None], [b"late"], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
        transactional=True,
    )  # fmt: skip
    data = [PartitionProduceData(index=partition, records=bytes(batch))]
    request = ProduceRequest(
        transactional_id=topic, acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    with RawConnection(cluster.bootstrap.split(",")[leader]) as connection:
        [answer] = connection.ask(request, 9).responses[0].partition_responses
    return int(answer.error_code)
