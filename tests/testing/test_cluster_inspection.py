"""What a test sees inside a Cluster: records and what became of them, offsets, requests, the timeline."""

import asyncio
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from confluent_kafka import Producer

from odradek import KafkaConsumer, KafkaProducer, TopicPartition
from odradek.broker.replication.partition import Partition
from odradek.protocol.records import encode_batch
from odradek.testing import Cluster, ClusterError
from odradek.testing.cluster.inspection import _stored
from odradek.testing.cluster.views import Moment, Timeline
from odradek.testing.log_environments import make_environment, open_test_log
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.virtual_run import VirtualCluster, run


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


def test_records_with_what_became_of_them(cluster: Cluster) -> None:
    cluster.create_topic("orders", 2)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, compression_type="lz4") as producer:
        for value in (b"1", None):
            producer.send("orders", value, key=b"k", headers=[("h", b"v")], partition=0).result(PATIENCE_SECONDS)
    sending = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})
    sending.init_transactions(PATIENCE_SECONDS)
    for value, commit in ((b"kept", True), (b"thrown away", False), (b"not yet", None)):
        sending.begin_transaction()
        sending.produce("orders", value, partition=1)
        sending.flush(PATIENCE_SECONDS)
        if commit is not None:
            (sending.commit_transaction if commit else sending.abort_transaction)(PATIENCE_SECONDS)
    plain, tombstone = cluster.records("orders", 0)
    assert (plain.key, plain.value, plain.headers, plain.is_tombstone) == (b"k", b"1", (("h", b"v"),), False)
    assert tombstone.is_tombstone and tombstone.offset == 1 and tombstone.replicated
    seen = [
        (one.value if one.marker is None else None, one.transaction, one.marker) for one in cluster.records("orders", 1)
    ]
    assert seen == [
        (b"kept", "committed", None),
        (None, None, "COMMIT"),
        (b"thrown away", "aborted", None),
        (None, None, "ABORT"),
        (b"not yet", "open", None),
    ]
    assert str(tombstone) == "orders-0 1: b'k' tombstone"
    assert str(cluster.records("orders")[4]).endswith("b'thrown away' [aborted]")
    sending.abort_transaction(PATIENCE_SECONDS)


def test_sequences_are_those_of_the_offsets_that_compaction_has_left() -> None:
    """They were counted from the batch's first, as if nothing were missing, and beyond the largest that there is."""
    partition = Partition("orders", 0, 0, open_test_log(make_environment()))
    batch = encode_batch(
        0,
        [5, 5],
        [b"a", b"b"],
        [b"1", b"2"],
        offsets=[0, 3],
        last_offset=3,
        producer_id=7,
        producer_epoch=0,
        base_sequence=(1 << 31) - 2,
    )
    partition.log.append_as_follower(memoryview(batch))
    assert [one.sequence for one in _stored(partition)] == [(1 << 31) - 2, 1]


def test_what_is_not_replicated_is_marked(cluster: Cluster) -> None:
    cluster.create_topic("alone", assignment={0: [0, 1]})
    cluster.suspend(1)
    try:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks=1) as producer:
            producer.send("alone", b"1").result(PATIENCE_SECONDS)
        cluster.wait_for("alone", isr={0}, records=1)
        [record] = cluster.records("alone")
        assert record.replicated
    finally:
        cluster.resume(1)
    cluster.wait_for("alone", isr={0, 1}, brokers=2)


def test_committed_offsets(cluster: Cluster) -> None:
    cluster.create_topic("read")
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id="readers") as consumer:
        consumer.commit({TopicPartition("read", 0): 0})
    assert cluster.committed("readers") == {("read", 0): 0}
    assert cluster.committed("readers", "other") == cluster.committed("nobody") == {}


def test_requests_and_timeline(cluster: Cluster) -> None:
    cluster.create_topic("seen")
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, client_id="writer", acks="all") as producer:
        producer.send("seen", bytes(1000)).result(PATIENCE_SECONDS)
    [sent] = [one for one in cluster.requests if (one.client, one.api) == ("writer", "Produce")]
    assert sent.request_bytes > 1000 and sent.response_bytes and sent.took_ms is not None and sent.took_ms > 0
    assert not [one for one in cluster.requests if one.api in ("UpdateMetadata", "LeaderAndIsr")], "clients' alone"
    cluster.respond("Produce", "NOT_LEADER_OR_FOLLOWER", client="writer")
    cluster.kill(1)
    cluster.restart(1)
    said = str(cluster.timeline())
    assert "wants NOT_LEADER_OR_FOLLOWER to Produce" in said
    after = said[said.index("kills broker 1") :]
    assert after.index("broker 1 is gone") < after.index("starts broker 1") < after.index("broker 1 is registered")
    whole = cluster.timeline(requests=True)
    assert any(moment.who == "writer" for moment in whole.moments)
    drawing = ElementTree.fromstring(whole.svg())
    assert len(drawing.findall("{http://www.w3.org/2000/svg}circle")) == len(whole.moments)
    cluster.clear()


def test_a_timeline_says_once_what_happened_many_times_in_a_row() -> None:
    """A program in a loop filled the sixty lines that a failed exploration shows, and hid what led to it."""
    moments = [Moment(float(ms), "billing", "starts") for ms in range(0, 40_000, 1_000)]
    said = str(
        Timeline((*moments, Moment(40_000.0, "test", "heals the network"), Moment(41_000.0, "billing", "starts")))
    )
    assert said.splitlines() == [
        "    0.000 s  billing      starts",
        "   39.000 s               … 39 more",
        "   40.000 s  test         heals the network",
        "   41.000 s  billing      starts",
    ]


def test_bad_use_gets_one_line(cluster: Cluster) -> None:
    cluster.create_topic("small")
    with pytest.raises(ClusterError, match="partitions 0 to 0, not 7"):
        cluster.records("small", 7)
    with pytest.raises(ClusterError, match="no topic 'nowhere'"):
        cluster.records("nowhere")
    with Cluster(brokers=1, trace=False) as untraced, pytest.raises(ClusterError, match="trace=True"):
        print(untraced.requests)


async def _requests() -> int:
    async with Cluster(brokers=1) as cluster:
        return len(await cluster.requests())


def test_in_a_coroutine() -> None:
    assert asyncio.run(_requests()) == 0


def test_a_cluster_is_not_whole_before_all_that_run_are_registered() -> None:
    """Who waited for three brokers after a session had ended went on too early, and found two a moment later."""

    async def test(cluster: VirtualCluster) -> None:
        lost = cluster.embedded.brokers[1]
        assert cluster.is_whole()
        cluster.embedded.zookeeper.expire_session(lost.store.session_id)
        assert not cluster.is_whole(), "the metadata are of before"
        await cluster.wait_for(brokers=2)

    run(test, brokers=2)
