"""What the simulator found, each in its smallest form; the schedule is in the docstring."""

import asyncio
import base64
import errno
import random
from dataclasses import replace

import pytest

from odradek.broker.cluster.metadata_cache import TopicNames
from odradek.broker.log.directories.directory_files import decode_partition_metadata
from odradek.broker.log.errors import CorruptFile
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.fetch_sessions import CachedPartition, FetchSessionCache
from odradek.broker.replication.fetcher import FetcherCore
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import Throttling
from odradek.broker.settings.network_settings import FetcherSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.client.consumer.positions import Positions
from odradek.client.records import TopicPartition
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import close_log, make_batch, make_environment, open_test_log
from odradek.testing.simulated_files import Fault
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.disk_faults import FOREVER
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.history import History
from odradek.testing.simulation.zookeeper_faults import ZooKeeperFaults
from odradek.testing.virtual_clock import ManualClock, VirtualClock, run_virtual

T0 = TopicPartition("t", 0)
TOPIC_ID = b"t" * 16
THROTTLING = Throttling(ManualClock())


def test_a_partition_that_comes_back_has_another_version() -> None:
    """A rebalance took a partition away while a fetch was under way and gave it back before the answer was there: the
    answer, which began behind the committed offset, was taken, and the records in between were never seen."""
    positions = Positions()
    positions.assign([T0])
    asked = positions.partitions[T0].version
    positions.assign([])
    positions.assign([T0])
    assert positions.partitions[T0].version != asked
    before = positions.partitions[T0].version
    positions.jump(T0, 5)
    assert positions.partitions[T0].version not in (asked, before)


def test_who_asks_again_is_told_again() -> None:
    """A follower dropped an answer because the leader had moved meanwhile; the leader believed it told, and the
    follower's high watermark stayed behind until the next record."""
    cache = FetchSessionCache(10, random.Random(0), Purgatory(TimingWheel(ManualClock())))
    names = TopicNames({"t": TOPIC_ID}, {TOPIC_ID: "t"})
    topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=0, fetch_offset=5)])]
    session = cache.open(FetchRequest(topics=topics, session_epoch=0, session_id=0), 13, names, 0.0).session
    assert session is not None
    (wanted,) = session.partitions.values()
    answer = PartitionData(high_watermark=5, last_stable_offset=5, log_start_offset=0, records=b"")
    assert wanted.note_sent(answer) and not wanted.note_sent(answer)
    topics[0].partitions[0].current_leader_epoch = 7
    cache.open(FetchRequest(topics=topics, session_epoch=1, session_id=session.id), 13, names, 0.0)
    assert wanted.note_sent(answer)


def test_who_has_to_truncate_is_told_the_high_watermark_again() -> None:
    """A follower takes nothing else from an answer that says where its history leaves the leader's; the leader believed
    it told, and the follower's high watermark stayed behind until the next record."""
    wanted = CachedPartition("t", TOPIC_ID, FetchPartition(partition=0, fetch_offset=9))
    parting = PartitionData(high_watermark=8, last_stable_offset=8, log_start_offset=0, records=b"")
    parting.diverging_epoch = EpochEndOffset(epoch=1, end_offset=8)
    assert wanted.note_sent(parting)
    wanted.update(FetchPartition(partition=0, fetch_offset=8))
    answer = PartitionData(high_watermark=8, last_stable_offset=8, log_start_offset=0, records=b"")
    assert wanted.note_sent(answer) and not wanted.note_sent(answer)


@pytest.mark.parametrize("damage", [b"\x00\xff\xfe", b"\xe2\x82\xac"])
def test_torn_metadata_of_a_partition_is_a_damaged_file(damage: bytes) -> None:
    """Power failed soon after a topic was made; the broker ended with a ValueError whenever it was started."""
    whole = b"version: 0\ntopic_id: " + base64.urlsafe_b64encode(TOPIC_ID).rstrip(b"=")
    assert decode_partition_metadata(whole) == TOPIC_ID
    with pytest.raises(CorruptFile):
        decode_partition_metadata(whole[:30] + damage)


@pytest.mark.parametrize("rotten", [b"/", b"+", b"!", b"="])
def test_an_id_with_a_rotten_character_is_not_read_as_another(rotten: bytes) -> None:
    """The decoder took / for _ and passed over what is none of the alphabet's."""
    whole = b"version: 0\ntopic_id: " + base64.urlsafe_b64encode(TOPIC_ID).rstrip(b"=")
    with pytest.raises(CorruptFile):
        decode_partition_metadata(whole[:-5] + rotten + whole[-4:])


def test_all_five_batches_are_known_again_after_a_clean_shutdown() -> None:
    """Five batches were in flight when their leader went away, and the next leader had been shut down and started
    before. Its snapshot named the last batch only, so the first was refused as out of order, and the producer numbered
    all five anew: duplicates."""
    environment = make_environment()
    log = open_test_log(environment, LogConfig())
    for sequence in range(8):
        log.append_as_leader(make_batch([b"x"], producer_id=1, sequence=sequence), 0)
        log.append_as_leader(make_batch([b"y"], producer_id=2, sequence=sequence), 0)
    close_log(log)
    log = open_test_log(environment, LogConfig(), clean=True)
    for sequence in range(3, 8):
        appended = log.append_as_leader(make_batch([b"x"], producer_id=1, sequence=sequence), 0)
        assert appended.duplicate and appended.first_offset == 2 * sequence
    assert not log.append_as_leader(make_batch([b"x"], producer_id=1, sequence=8), 0).duplicate


def test_a_partition_left_while_a_fetch_is_under_way_is_forgotten() -> None:
    """Else it stays in the leader's session, is answered with an error at once, and the two spin."""
    following = FetcherCore(1, 0, FetcherSettings(), THROTTLING.following)
    kept, left = (Partition("t", index, 1, open_test_log(make_environment(), LogConfig())) for index in range(2))
    for partition in (kept, left):
        partition.topic_id = TOPIC_ID
        partition.follow(PartitionView(0, 0, (0, 1), 0, (0, 1)))
        following.follow(partition)
    request = following.request(0.0)
    assert request is not None and len(request.topics[0].partitions) == 2
    following.leave(left)
    data = [PartitionData(partition_index=index, high_watermark=0, log_start_offset=0, records=b"") for index in (0, 1)]
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=data)
    following.answered(FetchResponse(session_id=5, responses=[topic]), 1.0)
    request = following.request(2.0)
    assert request is not None and request.topics == []
    assert [(one.topic_id, one.partitions) for one in request.forgotten_topics_data] == [(TOPIC_ID, [1])]
    following.follow(left)
    following.answered(FetchResponse(session_id=5), 3.0)
    request = following.request(4.0)
    assert request is not None and [one.partition for one in request.topics[0].partitions] == [1]


def test_a_repeated_leader_and_isr_leaves_the_proposal_open() -> None:
    """The controller's request had to be sent again, and arrived while it was writing a smaller ISR: the leader forgot
    its proposal, ignored the answer, and from then on proposed by an epoch that had gone: the ISR never grew again."""
    partition = Partition("t", 0, 0, open_test_log(make_environment(), LogConfig()))
    told = PartitionView(0, 0, (0, 1), 0, (0, 1))
    partition.lead(told, 0.0)
    partition.append_as_leader(make_batch([b"x"]), 1)
    proposal = partition.propose_shrink(40_000.0)
    assert proposal is not None
    partition.lead(told, 40_001.0)
    partition.isr_accepted(proposal, (0,), 1)
    assert (partition.committed_isr, partition.partition_epoch, partition.pending_isr) == ({0}, 1, None)
    partition.follower_fetched(1, 1, 0, -1, 40_002.0)
    assert partition.pending_isr is not None
    partition.lead(replace(told, partition_epoch=2), 0.0)
    assert partition.pending_isr is None, "the controller has decided otherwise"


def test_no_session_ends_before_its_time_whose_broker_cannot_hear_of_it() -> None:
    """A broker that ZooKeeper did not reach lost its session early, and told as a coordinator what was committed before
    another one was: no ZooKeeper ends a session so."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            history, source = History(clock), random.Random(0)
            others = Faults(cluster, history, Administrator(cluster, history, source, "t", []), source, 1)
            faults, store = ZooKeeperFaults(others, 2), cluster.brokers[0].store
            session_id = store.session_id
            cluster.zookeeper.partition(store)
            await faults.session_expiry()
            assert cluster.zookeeper.has_session(session_id)
            cluster.zookeeper.heal(store)
            await faults.session_expiry()
            assert not cluster.zookeeper.has_session(session_id)

    run_virtual(main)


def test_a_broker_that_finds_no_descriptors_at_its_start_is_started_again() -> None:
    """It could read neither log directory, and the run ended with what a real process ends with."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            history, source, (broker,) = History(clock), random.Random(0), cluster.brokers
            others = Faults(cluster, history, Administrator(cluster, history, source, "t", []), source, 1)
            broker.kill()
            broker.files.fault = Fault(0, FOREVER, errno.EMFILE, what="descriptors")
            starting = asyncio.ensure_future(others.start(broker))
            while not history.lines and not starting.done():
                await asyncio.sleep(0.1)
            broker.files.fault = None
            await starting
            assert broker.running and "broker-0 cannot start: log directory" in history.lines[0]

    run_virtual(main)
