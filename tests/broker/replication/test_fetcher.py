"""What a follower asks for: the partitions that moved, and all of them when something else may have changed."""

import pytest

from odradek.broker.log.errors import StorageFailure
from odradek.broker.replication import fetcher
from odradek.broker.replication.fetcher import (
    FETCH_VERSION,
    FETCH_VERSION_BY_NAME,
    LOOK_AT_ALL_MS,
    THROTTLED_PAUSE_MS,
    FetcherCore,
)
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import Throttling
from odradek.broker.settings.network_settings import FetcherSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.testing.log_environments import make_batch, make_environment, open_test_log
from odradek.testing.virtual_clock import ManualClock

TOPIC_ID = b"t" * 16
SETTINGS = FetcherSettings()
SESSION = 5


def following(
    count: int, throttling: Throttling | None = None, config: LogConfig = LogConfig()
) -> tuple[FetcherCore, list[Partition]]:
    """After the first fetch, which named all."""
    core = FetcherCore(1, 0, SETTINGS, (throttling or Throttling(ManualClock())).following)
    partitions = [Partition("t", index, 1, open_test_log(make_environment(), config)) for index in range(count)]
    for partition in partitions:
        partition.topic_id = TOPIC_ID
        partition.follow(PartitionView(0, 0, (0, 1), 0, (0, 1)))
        core.follow(partition)
    assert named(core.request(0.0)) == list(range(count))
    answer(core)
    return core, partitions


def named(request: FetchRequest | None) -> list[int]:
    assert request is not None
    return [one.partition for topic in request.topics for one in topic.partitions]


def answer(core: FetcherCore, *data: PartitionData, now_ms: float = 0.0) -> None:
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(data))] if data else []
    core.answered(FetchResponse(session_id=SESSION, responses=topics), now_ms)


def records(partition: Partition, offset: int) -> PartitionData:
    return PartitionData(
        partition_index=partition.index,
        high_watermark=0,
        log_start_offset=0,
        records=make_batch([b"x"], base_offset=offset, epoch=0),
    )


def test_only_what_has_grown_is_named() -> None:
    core, partitions = following(3)
    assert named(core.request(1.0)) == []
    answer(core, records(partitions[1], 0))
    assert named(core.request(2.0)) == [1]
    answer(core)
    assert named(core.request(3.0)) == []


@pytest.mark.parametrize("grown", [True, False])
def test_an_answer_is_dropped_when_the_log_ends_elsewhere_by_now(grown: bool) -> None:
    """Taken, there would be a gap, or a record twice."""
    core, (partition,) = following(1)
    core.request(1.0)
    answer(core, records(partition, 0))
    core.request(2.0)
    late = records(partition, 1)
    if grown:
        partition.append_as_follower(records(partition, 1).records or b"", 0, 0)
    else:
        partition.truncate_to(0)
    end = partition.log.log_end_offset
    answer(core, late)
    assert partition.log.log_end_offset == end == (2 if grown else 0)
    assert named(core.request(3.0)) == [0], "it is asked for once more"
    answer(core, records(partition, end))
    assert partition.log.log_end_offset == end + 1


def test_an_answer_about_a_topic_that_has_another_id_by_now_is_dropped() -> None:
    """Deleted and made anew under its name, the topic has the same leader epoch and is as empty: it took records of the
    former one, which its leader does not have."""
    core, (former,) = following(1)
    core.request(1.0)
    late = records(former, 0)
    core.leave(former)
    anew = Partition("t", 0, 1, open_test_log(make_environment()))
    anew.topic_id = b"n" * 16
    anew.follow(PartitionView(0, 0, (0, 1), 0, (0, 1)))
    core.follow(anew)
    answer(core, late)
    assert anew.log.log_end_offset == 0
    request = core.request(2.0)
    assert request is not None and [topic.topic_id for topic in request.topics] == [anew.topic_id]


def test_thousands_of_new_ones_are_named_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their request, its answer and what the leader reads for it held both loops for a tenth of a second."""
    monkeypatch.setattr(fetcher, "ADDED_AT_ONCE_MAX", 2)
    core = FetcherCore(1, 0, SETTINGS, Throttling(ManualClock()).following)
    partitions = [Partition("t", index, 1, open_test_log(make_environment())) for index in range(5)]
    for partition in partitions:
        partition.topic_id = TOPIC_ID
        partition.follow(PartitionView(0, 0, (0, 1), 0, (0, 1)))
        core.follow(partition)
    first = core.request(0.0)
    assert first is not None and named(first) == [0, 1] and first.max_wait_ms == 0
    answer(core, records(partitions[0], 0), records(partitions[1], 0))
    second = core.request(1.0)
    assert second is not None and second.max_wait_ms == 0
    assert sorted(named(second)) == [0, 1, 2, 3], "what moved is named, however much is new"
    answer(core)
    last = core.request(2.0)
    assert last is not None and named(last) == [4] and last.max_wait_ms == SETTINGS.replica_fetch_wait_max_ms


def test_thousands_that_changed_are_looked_at_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower looked at all of 10,000 partitions in one piece, and named all that had another leader epoch."""
    monkeypatch.setattr(fetcher, "KNOWN_AT_ONCE_MAX", 2)
    core, partitions = following(5)
    for partition in partitions:
        partition.follow(PartitionView(0, 1, (0, 1), 1, (0, 1)))
        core.follow(partition)
    waits = []
    for now_ms, indexes in enumerate(([0, 1], [2, 3], [4], [])):
        request = core.request(float(now_ms))
        assert request is not None and named(request) == indexes
        waits.append(request.max_wait_ms)
        answer(core)
    assert waits == [0, 0, SETTINGS.replica_fetch_wait_max_ms, SETTINGS.replica_fetch_wait_max_ms]


def test_all_that_have_got_records_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that were not, the leader sent the same records again: of 10,000 partitions five times on average."""
    monkeypatch.setattr(fetcher, "KNOWN_AT_ONCE_MAX", 2)
    core, partitions = following(5)
    answer(core, *(records(partition, 0) for partition in partitions))
    request = core.request(1.0)
    assert request is not None and named(request) == [0, 1, 2, 3, 4]


def test_a_log_start_that_moved_by_itself_is_told_within_a_second() -> None:
    core, partitions = following(3)
    answer(core, records(partitions[2], 0))
    assert named(core.request(1.0)) == [2]
    answer(core)
    partitions[2].log.advance_log_start_offset(1)
    assert named(core.request(2.0)) == []
    answer(core)
    assert named(core.request(LOOK_AT_ALL_MS + 0.0)) == [2]


def test_a_partition_with_an_error_is_left_out_and_named_after_the_pause() -> None:
    core, _ = following(2)
    core.request(1.0)
    answer(core, PartitionData(partition_index=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR), now_ms=1.0)
    request = core.request(2.0)
    assert request is not None and named(request) == []
    assert [one.partitions for one in request.forgotten_topics_data] == [[0]]
    answer(core)
    assert named(core.request(SETTINGS.replica_fetch_backoff_ms + 2.0)) == [0]


def test_a_partition_without_room_is_told_of_once_while_that_lasts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each partition had a line each second: thousands of followers filled another disk with them."""
    core, (partition,) = following(1)

    def full(*_: object) -> bool:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    for began_ms in (1.0, 3_600_000.0):
        with monkeypatch.context() as patch:
            patch.setattr(Partition, "append_as_follower", full)
            for attempt in range(10):
                now_ms = began_ms + attempt * 2 * SETTINGS.replica_fetch_backoff_ms
                core.request(now_ms)
                answer(core, records(partition, 0), now_ms=now_ms)
        assert caplog.text.count("cannot follow its leader for now") == (1 if began_ms < 2 else 2)


def test_out_of_range_is_noticed_at_once() -> None:
    core, (_, partition) = following(2)
    core.request(1.0)
    assert core.out_of_range() == []
    answer(core, PartitionData(partition_index=1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE), now_ms=1.0)
    (followed,) = core.out_of_range()
    assert named(core.request(2.0)) == []
    answer(core)
    core.leader_offsets(followed, 7, 9, 2.0)
    assert partition.log.log_start_offset == partition.log.log_end_offset == 7
    assert core.out_of_range() == [] and named(core.request(3.0)) == [1]


def test_who_is_out_of_range_with_an_end_that_the_leader_has_asks_again_after_a_pause() -> None:
    """Its leader did not know the epoch of its last record: it asked as fast as it could, for ever, in silence."""
    core, (partition,) = following(1)
    answer(core, records(partition, 0))
    core.request(1.0)
    answer(core, PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE), now_ms=1.0)
    (followed,) = core.out_of_range()
    core.leader_offsets(followed, 0, 9, 2.0)
    assert core.out_of_range() == [] and core.request(3.0) is None
    pause_ms = SETTINGS.replica_fetch_backoff_ms
    assert core.next_wake_ms() == 2.0 + pause_ms and core.request(2.0 + pause_ms) is not None


def test_what_is_behind_waits_while_too_much_was_fetched() -> None:
    """Who has reached the leader's high watermark is fetched all the same, and so is what the topic does not name."""
    clock = ManualClock()
    throttling = Throttling(clock)
    throttling.following.limit.bytes_per_second = 10
    core, partitions = following(3, throttling, LogConfig(follower_replication_throttled_replicas=("0:1", "1:1")))
    data = [records(partition, 0) for partition in partitions]
    data[0].high_watermark = data[2].high_watermark = 5
    answer(core, *data)
    request = core.request(1.0)
    assert request is not None and named(request) == [1, 2]
    assert [one.partitions for one in request.forgotten_topics_data] == [[0]]
    assert core.next_wake_ms() == 0.0
    answer(core)
    clock.advance(60_000)
    assert named(core.request(60_000.0)) == [0]


def test_when_all_wait_the_next_look_is_a_moment_away() -> None:
    throttling = Throttling(ManualClock())
    throttling.following.limit.bytes_per_second = 10
    core, (partition,) = following(1, throttling, LogConfig(follower_replication_throttled_replicas=("*",)))
    behind = records(partition, 0)
    behind.high_watermark = 5
    answer(core, behind)
    assert core.request(1.0) is None and core.next_wake_ms() == 1.0 + THROTTLED_PAUSE_MS


@pytest.mark.parametrize(
    "cause", [StorageFailure("/a", OSError("gone")), KafkaError(ErrorCode.CORRUPT_MESSAGE, "torn")]
)
def test_a_truncation_that_fails_is_the_trouble_of_its_partition(
    cause: KafkaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the task, in silence, and with it the copying of all else from that leader."""
    core, (failing, healthy) = following(2)
    answer(core, records(failing, 0))
    core.request(1.0)

    def truncate_to(partition: Partition, offset: int) -> None:
        assert partition is failing
        raise cause

    monkeypatch.setattr(Partition, "truncate_to", truncate_to)
    diverging = PartitionData(partition_index=0, diverging_epoch=EpochEndOffset(epoch=0, end_offset=0))
    answer(core, diverging, records(healthy, 0), now_ms=1.0)
    assert healthy.log.log_end_offset == 1
    assert named(core.request(2.0)) == [1], "the other rests"
    answer(core)
    assert named(core.request(SETTINGS.replica_fetch_backoff_ms + 2.0)) == [0]
    answer(core, PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE), now_ms=2_000.0)
    (state,) = core.out_of_range()
    core.leader_offsets(state, 0, 0, 2_000.0)
    assert core.out_of_range() == [] and named(core.request(2_001.0)) == []


def test_a_topic_that_its_leader_does_not_know_yet_is_asked_for_again_soon() -> None:
    """The id came with the metadata, one request after the election: a second was lost for every new topic."""
    core, _ = following(1)
    core.request(1.0)
    answer(core, PartitionData(partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_ID), now_ms=1.0)
    assert core.request(2.0) is None
    wake_ms = core.next_wake_ms()
    assert wake_ms is not None and wake_ms <= 51.0
    assert core.request(wake_ms) is not None, "it is in the session still"


def test_topics_without_ids_are_followed_by_name() -> None:
    """They all had one key: one of them was copied, the others were not."""
    core = FetcherCore(1, 0, SETTINGS, Throttling(ManualClock()).following)
    logs = {topic: open_test_log(make_environment()) for topic in ("a", "b")}
    partitions = [Partition(topic, 0, 1, log) for topic, log in logs.items()]
    for partition in partitions:
        partition.follow(PartitionView(0, 0, (0, 1), 0, (0, 1)))
        core.follow(partition)
    request = core.request(0.0)
    assert request is not None and core.version == FETCH_VERSION_BY_NAME
    assert [topic.topic for topic in decode(FetchRequest, 12, encode(request, 12)).topics] == ["a", "b"]
    data = [FetchableTopicResponse(topic=p.topic, partitions=[records(p, 0)]) for p in partitions]
    core.answered(FetchResponse(session_id=SESSION, responses=data), 0.0)
    assert [partition.log.log_end_offset for partition in partitions] == [1, 1]
    for number, partition in enumerate(partitions):
        partition.topic_id = bytes([number + 1]) * 16
        core.follow(partition)
    request = core.request(1.0)
    assert request is not None and core.version == FETCH_VERSION
    assert (request.session_id, request.session_epoch) == (SESSION, 0), "the leader is to end the old one"
    assert [topic.topic_id[0] for topic in decode(FetchRequest, 17, encode(request, 17)).topics] == [1, 2]
    left = partitions[0]
    core.answered(FetchResponse(session_id=SESSION + 1), 1.0)
    core.leave(left)
    request = core.request(2.0)
    assert request is not None
    assert [(one.topic_id, one.partitions) for one in request.forgotten_topics_data] == [(left.topic_id, [0])]


def opened_then(last_offset: int) -> tuple[FetcherCore, Partition]:
    """Begin to follow with a log that has an open transaction at 1, of producer 7, and ends behind `last_offset`."""
    _, (partition,) = following(1)
    own = partition.log
    own.append_as_follower(make_batch([b"before"], epoch=0))
    own.append_as_follower(make_batch([b"x"], base_offset=1, epoch=0, producer_id=7, transactional=True))
    own.append_as_follower(make_batch([b"y"] * (last_offset - 1), base_offset=2, epoch=0))
    core = FetcherCore(1, 0, SETTINGS, Throttling(ManualClock()).following)
    core.follow(partition)
    core.request(0.0)
    return core, partition


def compacted(partition: Partition, offset: int) -> PartitionData:
    data = records(partition, offset)
    data.high_watermark = offset + 1
    return data


def test_where_markers_may_be_gone_an_open_transaction_is_copied_again_once() -> None:
    """A leader that keeps records of it and no marker would have us truncate and copy for ever."""
    core, partition = opened_then(2)
    answer(core, compacted(partition, 9))
    assert partition.log.log_end_offset == 1
    again = compacted(partition, 9)
    again.records = make_batch([b"x"], base_offset=1, epoch=0, producer_id=7, transactional=True) + again.records
    core.request(1.0)
    answer(core, again)
    assert partition.log.log_end_offset == 10


def test_what_the_leader_may_count_on_is_kept() -> None:
    """Nothing is compacted above the leader's high watermark."""
    core, partition = opened_then(2)
    data = compacted(partition, 9)
    data.high_watermark = 3
    answer(core, data)
    assert partition.log.log_end_offset == 10


def test_a_transaction_that_began_since_is_not_copied_again() -> None:
    """A new replica of a compacted topic comes upon gaps all the time."""
    core, (partition,) = following(1)
    opened = compacted(partition, 0)
    opened.records = make_batch([b"x"], epoch=0, producer_id=7, transactional=True)
    core.request(1.0)
    answer(core, opened)
    core.request(2.0)
    answer(core, compacted(partition, 9))
    assert partition.log.log_end_offset == 10


@pytest.mark.parametrize(("away_ms", "end"), [(100, 10), (101, 0)])
def test_a_leader_that_was_out_of_reach_for_long_may_have_compacted_markers_away(away_ms: int, end: int) -> None:
    """A network that was cut between the two alone: nobody tells the follower of it."""
    core, partition = opened_and_kept_for(100)
    core.disconnected()
    core.request(1.0 + away_ms)
    answer(core, compacted(partition, 9), now_ms=1.0 + away_ms)
    assert partition.log.log_end_offset == end


@pytest.mark.parametrize(("lag", "end"), [(0, 10), (1, 0)])
def test_a_leader_that_is_far_ahead_for_long_may_have_compacted_markers_away(lag: int, end: int) -> None:
    """A follower that is throttled, or whose disk is slow, and is answered all the time."""
    core, partition = opened_and_kept_for(100)
    for now_ms in (41.0, 81.0):
        at = partition.log.log_end_offset
        data = records(partition, at)
        data.high_watermark = at + 1 + lag
        core.request(now_ms)
        answer(core, data, now_ms=now_ms)
    core.request(102.0)
    answer(core, compacted(partition, 9), now_ms=102.0)
    assert partition.log.log_end_offset == end


def test_a_follower_that_copies_slowly_copies_all_of_it_at_last() -> None:
    """The leader keeps the transaction, which is open, and sends it again each time."""
    core, partition = opened_and_kept_for(100)
    ends: list[int] = []
    while len(ends) < 7:
        now_ms = 102.0 + 101 * len(ends)
        data = compacted(partition, 9)
        if partition.log.log_end_offset == 0:
            data.records = make_batch([b"x"], epoch=0, producer_id=7, transactional=True)
        data.high_watermark = 100
        core.request(now_ms)
        answer(core, data, now_ms=now_ms)
        ends.append(partition.log.log_end_offset)
    assert ends == [0, 1, 0, 1, 0, 1, 10]


def opened_and_kept_for(retention_ms: int) -> tuple[FetcherCore, Partition]:
    """Copy, at 1 ms, the first record of a transaction, up to the leader's high watermark."""
    core, (partition,) = following(1, config=LogConfig(delete_retention_ms=retention_ms))
    opened = compacted(partition, 0)
    opened.records = make_batch([b"x"], epoch=0, producer_id=7, transactional=True)
    core.request(1.0)
    answer(core, opened, now_ms=1.0)
    return core, partition


def test_a_transaction_from_before_the_log_start_is_copied_again_from_there() -> None:
    core, partition = opened_then(4)
    partition.log.advance_log_start_offset(3)
    core.request(1.0)
    data = compacted(partition, 9)
    data.log_start_offset = 3
    answer(core, data)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (3, 3)
    assert partition.log.producers.first_ongoing_offset is None
