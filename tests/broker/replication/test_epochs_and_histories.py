"""Leader epochs: where the histories of two replicas part, what counts across elections, and who is fenced."""

import pytest

from odradek.broker.replication.fetcher import FetcherCore
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import Throttling
from odradek.broker.settings.network_settings import FetcherSettings
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.testing.log_environments import make_batch, make_environment, open_test_log
from odradek.testing.virtual_clock import ManualClock

LEADER, FOLLOWER = 0, 1
BOTH = (LEADER, FOLLOWER)
ALL = (*BOTH, 2)
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
EPOCHS = ((0, 2), (3, 6), (4, 5), (7, 1), (9, 3))
"""Leader epochs, and how many records the log has of each; epoch 10 begins at its end, 17."""


def led_in_epoch_10() -> Partition:
    log = open_test_log(make_environment())
    for epoch, count in EPOCHS:
        log.append_as_leader(make_batch([b"x"] * count), epoch)
    partition = Partition("t", 0, LEADER, log, high_watermark=17)
    partition.lead(PartitionView(LEADER, 10, BOTH, 1, BOTH), 0.0)
    return partition


@pytest.mark.parametrize(
    ("log_start", "last_fetched_epoch", "fetch_offset", "expected"),
    [
        (0, 0, 2, None),
        (0, 0, 4, (0, 2)),
        (0, 2, 5, (0, 2)),
        (0, 5, 9, (4, 13)),
        (0, 6, 6, (4, 13)),
        (0, 7, 14, None),
        (0, 9, 17, None),
        (0, 10, 17, None),
        (0, 10, 18, (10, 17)),
        (0, 11, 5, OUT_OF_RANGE),
        (5, 0, 5, None),
        (5, 2, 8, (2, 5)),
        (5, 3, 5, None),
        (5, 0, 0, OUT_OF_RANGE),
        (10, 3, 6, OUT_OF_RANGE),
        (10, 5, 6, OUT_OF_RANGE),
    ],
)
def test_where_histories_part(
    log_start: int, last_fetched_epoch: int, fetch_offset: int, expected: tuple[int, int] | ErrorCode | None
) -> None:
    """KIP-595; the cases are those of Kafka's PartitionTest."""
    partition = led_in_epoch_10()
    partition.log.advance_log_start_offset(log_start)
    found: tuple[int, int] | ErrorCode | None
    try:
        found = partition.diverging_epoch(last_fetched_epoch, fetch_offset)
    except KafkaError as error:
        found = error.code
    assert found == expected


def test_what_was_fetched_in_an_earlier_epoch_does_not_count() -> None:
    """The follower may have followed another leader meanwhile, and have lost it again."""
    partition = led_in_epoch_10()
    partition.lead(PartitionView(LEADER, 10, ALL, 2, ALL), 0.0)
    partition.append_as_leader(make_batch([b"x"]), 1)
    partition.follower_fetched(FOLLOWER, 18, 0, 7, 1.0)
    partition.lead(PartitionView(LEADER, 11, BOTH, 3, ALL), 2.0)
    assert partition.high_watermark == 17
    assert partition.follower_fetched(FOLLOWER, 18, 0, 7, 3.0)[0] and partition.high_watermark == 18


def test_the_high_watermark_of_a_follower_stays_within_its_log() -> None:
    log = open_test_log(make_environment())
    partition = Partition("t", 0, FOLLOWER, log)
    partition.follow(PartitionView(LEADER, 0, BOTH, 0, BOTH))
    assert partition.append_as_follower(make_batch([b"x"] * 2, epoch=0), 9, 0)
    assert partition.high_watermark == 2
    partition.append_as_follower(make_batch([b"x"] * 2, base_offset=2, epoch=0), 2, 0)
    assert partition.append_as_follower(b"", 2, 3)
    assert (partition.log.log_start_offset, partition.high_watermark) == (3, 3)


def test_a_leader_that_is_to_follow_gives_its_open_proposal_up() -> None:
    """Its answer would be taken by one that does not know any more who is in sync."""
    partition = led_in_epoch_10()
    partition.lead(PartitionView(LEADER, 10, (LEADER,), 2, BOTH), 0.0)
    _, pending = partition.follower_fetched(FOLLOWER, 17, 0, 7, 1.0)
    assert pending is not None
    partition.follow(PartitionView(FOLLOWER, 10, BOTH, 2, BOTH))
    assert partition.pending_isr is None
    assert not partition.isr_accepted(pending, BOTH, 3) and partition.partition_epoch == 2


@pytest.mark.parametrize(
    ("leads", "epoch", "expected"),
    [
        (True, -1, ErrorCode.NONE),
        (True, 10, ErrorCode.NONE),
        (True, 9, ErrorCode.FENCED_LEADER_EPOCH),
        (True, 11, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (False, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (False, 10, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (False, 9, ErrorCode.FENCED_LEADER_EPOCH),
        (False, 11, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_epoch_that_a_client_names_is_compared_before_the_role(
    leads: bool, epoch: int, expected: ErrorCode
) -> None:
    partition = led_in_epoch_10()
    if not leads:
        partition.follow(PartitionView(FOLLOWER, 10, BOTH, 1, BOTH))
    assert partition.check_leadership(epoch) is expected


def following() -> tuple[FetcherCore, Partition]:
    """Return a fetcher, and the partition that it has asked for in leader epoch 0."""
    core = FetcherCore(FOLLOWER, LEADER, FetcherSettings(), Throttling(ManualClock()).following)
    partition = Partition("t", 0, FOLLOWER, open_test_log(make_environment()))
    partition.topic_id = b"t" * 16
    partition.follow(PartitionView(LEADER, 0, BOTH, 0, BOTH))
    core.follow(partition)
    assert core.request(0.0) is not None
    return core, partition


def answer(core: FetcherCore, partition: Partition, data: PartitionData) -> None:
    topic = FetchableTopicResponse(topic_id=partition.topic_id, partitions=[data])
    core.answered(FetchResponse(session_id=5, responses=[topic]), 1.0)


def follow_in_epoch_1(core: FetcherCore, partition: Partition) -> None:
    partition.follow(PartitionView(LEADER, 1, BOTH, 1, BOTH))
    core.follow(partition)


@pytest.mark.parametrize("since", ["nothing", "a later epoch", "a failed disk"])
def test_an_answer_to_what_was_asked_in_an_earlier_epoch_is_dropped(since: str) -> None:
    """The same leader may have lost, and replaced, what it sent: Kafka's followers drop it too."""
    core, partition = following()
    if since == "a later epoch":
        follow_in_epoch_1(core, partition)
    partition.offline = since == "a failed disk"
    records = make_batch([b"x"], epoch=0)
    answer(core, partition, PartitionData(high_watermark=0, log_start_offset=0, records=records))
    assert partition.log.log_end_offset == (1 if since == "nothing" else 0)


def test_a_fenced_follower_asks_again_only_in_a_later_epoch() -> None:
    """It would ask as fast as it can until a controller tells it of the next leader."""
    core, partition = following()
    answer(core, partition, PartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    assert core.request(60_000.0) is None and core.next_wake_ms() is None
    follow_in_epoch_1(core, partition)
    assert core.request(60_001.0) is not None
