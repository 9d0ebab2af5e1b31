"""Transactions of our own producer on a cluster, among foreign clients."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from odradek.client.consumer.client import KafkaConsumer
from odradek.client.errors import AbortRequired, ClientError
from odradek.client.producer.client import KafkaProducer
from odradek.client.records import ConsumerGroupMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing import Cluster
from odradek.testing.load import read_to_the_end
from odradek.testing.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster

NewTopic = Callable[..., str]
PARTITIONS = 3


def read(cluster: Cluster, topic: str, isolation: str = "read_committed") -> list[str]:
    """As confluent's consumer does."""
    return sorted(read_to_the_end(cluster.bootstrap, topic, PARTITIONS, isolation))


def read_ourselves(cluster: Cluster, topic: str, isolation: str = "read_committed") -> list[str]:
    """As ours does."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = []
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", isolation_level=isolation
    ) as consumer:
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            for records in consumer.poll(100).values():
                found += [record.value.decode() for record in records]
    return sorted(found)


def producer_of(cluster: Cluster, transactional_id: str, **settings: Any) -> KafkaProducer:
    """The successor of all that had the id."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id, **settings)
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def settle(cluster: Cluster, transactional_id: str) -> None:
    """Until the markers of its last transaction are written: a commit is answered before, a successor after."""
    producer_of(cluster, transactional_id).close(PATIENCE_SECONDS)


def foreign_producer_of(cluster: Cluster, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, "log_level": 2})
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def write(producer: KafkaProducer, topic: str, values: list[str]) -> None:
    for at, value in enumerate(values):
        producer.send(topic, value.encode(), partition=at % PARTITIONS)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    cluster: Cluster, new_topic: NewTopic, codec: str
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    with producer_of(cluster, topic, compression_type=codec) as producer:
        for number in range(6):
            producer.begin_transaction()
            write(producer, topic, [f"{number}-{at}" for at in range(7)])
            if number % 2:
                producer.flush(PATIENCE_SECONDS)
                producer.abort_transaction(PATIENCE_SECONDS)
            else:
                producer.commit_transaction(PATIENCE_SECONDS)
        producer.begin_transaction()
        producer.commit_transaction(PATIENCE_SECONDS)  # an empty one
    settle(cluster, topic)
    committed = sorted(f"{number}-{at}" for number in (0, 2, 4) for at in range(7))
    assert read(cluster, topic) == committed
    assert read_ourselves(cluster, topic) == committed
    assert len(read_ourselves(cluster, topic, "read_uncommitted")) == 42


def test_an_abort_at_once_leaves_nothing_and_the_next_one_is_whole(cluster: Cluster, new_topic: NewTopic) -> None:
    """Batches are queued and on the wire: sequences get lost, and with the next epoch the numbers begin anew."""
    topic = new_topic(partitions=PARTITIONS)
    with producer_of(cluster, topic, batch_size=200) as producer:
        for number in range(5):
            producer.begin_transaction()
            write(producer, topic, [f"never-{number}-{at}" for at in range(200)])
            producer.abort_transaction(PATIENCE_SECONDS)
            producer.begin_transaction()
            write(producer, topic, [f"{number}-{at}" for at in range(20)])
            producer.commit_transaction(PATIENCE_SECONDS)
    settle(cluster, topic)
    assert read(cluster, topic) == sorted(f"{number}-{at}" for number in range(5) for at in range(20))


def test_offsets_are_committed_with_the_records(cluster: Cluster, new_topic: NewTopic) -> None:
    """Read, process, write: each record once, though every other transaction is aborted and done again."""
    source, target = new_topic("-from", PARTITIONS), new_topic("-to", PARTITIONS)
    values = [f"{number:03}" for number in range(60)]
    with producer_of(cluster, source) as first:
        first.begin_transaction()
        write(first, source, values)
        first.commit_transaction(PATIENCE_SECONDS)
    done, attempt = 0, 0
    with producer_of(cluster, target) as producer:
        while done < len(values):
            with KafkaConsumer(
                source,
                bootstrap_servers=cluster.bootstrap,
                group_id=f"{source}-group",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            ) as consumer:
                records = [one for some in consumer.poll(60_000, max_records=13).values() for one in some]
                producer.begin_transaction()
                write(producer, target, [record.value.decode() for record in records])
                offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                producer.send_offsets_to_transaction(offsets, consumer.group_metadata(), PATIENCE_SECONDS)
                attempt += 1
                if attempt % 2:
                    producer.abort_transaction(PATIENCE_SECONDS)
                else:
                    producer.commit_transaction(PATIENCE_SECONDS)
                    done += len(records)
    settle(cluster, target)
    assert read(cluster, target) == values


def test_offsets_of_a_generation_that_is_over_are_refused_and_the_producer_goes_on(
    cluster: Cluster, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    group, place = f"{topic}-group", TopicPartition(topic, 0)
    with producer_of(cluster, topic) as producer:
        producer.begin_transaction()
        write(producer, topic, ["lost"])
        with pytest.raises(AbortRequired, match="abort_transaction"):
            stranger = ConsumerGroupMetadata(group, 7, "nobody")
            producer.send_offsets_to_transaction({place: 1}, stranger, PATIENCE_SECONDS)
        with pytest.raises(AbortRequired):
            producer.send(topic, b"lost")
        with pytest.raises(AbortRequired):
            producer.commit_transaction(PATIENCE_SECONDS)
        producer.abort_transaction(PATIENCE_SECONDS)
        producer.begin_transaction()
        write(producer, topic, ["kept"])
        producer.send_offsets_to_transaction({place: 1}, ConsumerGroupMetadata(group), PATIENCE_SECONDS)
        producer.commit_transaction(PATIENCE_SECONDS)
    settle(cluster, topic)
    assert read(cluster, topic) == ["kept"]
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=group) as consumer:
        assert consumer.committed(place) == 1


def check_fenced(zombie: KafkaProducer, topic: str) -> None:
    for call in (
        lambda: zombie.commit_transaction(PATIENCE_SECONDS),
        lambda: zombie.abort_transaction(PATIENCE_SECONDS),
        zombie.begin_transaction,
        lambda: zombie.send(topic, b"of the zombie"),
    ):
        with pytest.raises(KafkaError) as refused:
            call()
        assert refused.value.code == ErrorCode.PRODUCER_FENCED


def test_a_successor_fences_and_aborts_what_is_open(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)
    zombie = producer_of(cluster, topic)
    zombie.begin_transaction()
    write(zombie, topic, ["of the zombie"])
    zombie.flush(PATIENCE_SECONDS)
    assert read(cluster, topic, "read_uncommitted") == ["of the zombie"] and read(cluster, topic) == []
    with producer_of(cluster, topic) as successor:
        check_fenced(zombie, topic)
        successor.begin_transaction()
        write(successor, topic, ["of the successor"])
        successor.commit_transaction(PATIENCE_SECONDS)
    zombie.close(PATIENCE_SECONDS)
    settle(cluster, topic)
    assert read(cluster, topic) == read_ourselves(cluster, topic) == ["of the successor"]


def test_a_foreign_successor_fences_ours(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)
    with producer_of(cluster, topic) as zombie:
        zombie.begin_transaction()
        write(zombie, topic, ["of the zombie"])
        zombie.flush(PATIENCE_SECONDS)
        successor = foreign_producer_of(cluster, topic)
        zombie.send(topic, b"late", partition=0).exception(PATIENCE_SECONDS)
        with pytest.raises(AbortRequired):
            zombie.commit_transaction(PATIENCE_SECONDS)
        with pytest.raises(KafkaError, match="another producer has taken over"):
            zombie.abort_transaction(PATIENCE_SECONDS)
        check_fenced(zombie, topic)
        successor.begin_transaction()
        successor.produce(topic, "of the successor", partition=0)
        successor.commit_transaction(PATIENCE_SECONDS)
    settle(cluster, topic)
    assert read(cluster, topic) == ["of the successor"]


def test_our_successor_fences_a_foreign_one_and_aborts_what_it_left_open(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)
    zombie = foreign_producer_of(cluster, topic)
    zombie.begin_transaction()
    zombie.produce(topic, "of the zombie", partition=0)
    assert zombie.flush(PATIENCE_SECONDS) == 0
    with producer_of(cluster, topic) as successor:
        with pytest.raises(KafkaException) as fenced:
            zombie.commit_transaction(PATIENCE_SECONDS)
        assert fenced.value.args[0].fatal()
        successor.begin_transaction()
        write(successor, topic, ["of the successor"])
        successor.commit_transaction(PATIENCE_SECONDS)
    settle(cluster, topic)
    assert read(cluster, topic) == ["of the successor"]


def test_close_aborts_what_is_open(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)
    producer = producer_of(cluster, topic)
    producer.begin_transaction()
    write(producer, topic, ["a", "b", "c"])
    producer.close(PATIENCE_SECONDS)
    settle(cluster, topic)
    assert read_ourselves(cluster, topic) == []
    assert read(cluster, topic, "read_uncommitted") == ["a", "b", "c"]


def test_a_timeout_that_the_cluster_does_not_allow_is_named(cluster: Cluster) -> None:
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap, transactional_id="too-long", transaction_timeout_ms=900_001
    ) as producer:
        with pytest.raises(KafkaError, match=r"transaction\.timeout\.ms=900001") as refused:
            producer.init_transactions(PATIENCE_SECONDS)
        assert refused.value.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_without_a_transactional_id_there_are_no_transactions(cluster: Cluster) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for call in (producer.init_transactions, producer.begin_transaction, producer.commit_transaction):
            with pytest.raises(ClientError, match=r"needs transactional\.id"):
                call()
