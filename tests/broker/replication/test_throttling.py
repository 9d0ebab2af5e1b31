"""Limits on copying: how a rate is measured, and what each side does about it (KIP-73)."""

import pytest

from odradek.broker.quotas.rates import RateWindows
from odradek.broker.replication.fetch_reading import FetchParameters, read_partitions
from odradek.broker.replication.fetch_sessions import CachedPartition, OpenedFetch
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import RateLimit, Throttle, Throttling
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition
from odradek.testing.log_environments import make_batch, make_environment, manager_of, open_test_log
from odradek.testing.virtual_clock import ManualClock

LEADER, IN_SYNC, BEHIND, CONSUMER = 0, 1, 2, -1


def test_a_rate_is_that_of_the_last_windows() -> None:
    clock = ManualClock()
    limit = RateLimit(clock, RateWindows(3, 1000.0))
    limit.count(5_000)
    limit.bytes_per_second = 100
    assert not limit.exceeded, "what was copied without a limit does not count"
    limit.count(100)
    assert not limit.exceeded
    limit.count(50)
    assert limit.exceeded, "150 bytes in the first second"
    clock.advance(1_500)
    assert not limit.exceeded, "150 bytes in 1.5 seconds"
    limit.count(100)
    assert limit.exceeded
    clock.advance(1_000)
    assert not limit.exceeded, "250 in 2.5"
    limit.count(900)
    clock.advance(600)
    assert limit.exceeded, "the first second is forgotten: 1,000 in 1.6"
    for _ in range(100):
        clock.advance(1_000)
        limit.count(1)
    assert len(limit._counted) <= 3, "nobody has asked"
    limit.bytes_per_second = None
    assert not limit.exceeded
    limit.bytes_per_second = 100
    clock.advance(10_000)
    assert not limit.exceeded


def test_a_window_is_over_when_its_time_is() -> None:
    clock = ManualClock()
    limit = RateLimit(clock, RateWindows(3, 1000.0))
    limit.bytes_per_second = 40
    limit.count(100)
    clock.advance(1_000)
    limit.count(100)
    clock.advance(2_000)
    assert limit.exceeded, "the first hundred is forgotten, the second is of a window of its own"
    clock.advance(500)
    assert not limit.exceeded


@pytest.mark.parametrize(
    ("named", "applies"), [((), False), (("*",), True), (("3:0", "4:1"), True), (("3:1", "4:0"), False)]
)
def test_a_throttle_applies_to_the_replicas_that_the_topic_names(named: tuple[str, ...], applies: bool) -> None:
    clock = ManualClock()
    config = LogConfig(leader_replication_throttled_replicas=named)
    partition = Partition("t", 3, LEADER, open_test_log(make_environment(), config))
    limit = RateLimit(clock, RateWindows(11, 1000.0))
    throttle = Throttle(limit, lambda config: config.leader_replication_throttled_replicas)
    limit.bytes_per_second = 10
    assert throttle.applies_to(partition) is applies and not throttle.holds_back(partition)
    throttle.copied(partition, 100)
    assert throttle.holds_back(partition) is limit.exceeded is applies, "what is not named does not use it up"


@pytest.mark.parametrize(
    ("reader", "is_served"), [(CONSUMER, True), (IN_SYNC, True), (BEHIND, False)], ids=["consumer", "in sync", "behind"]
)
def test_only_a_follower_that_is_behind_is_held_back(reader: int, is_served: bool) -> None:
    clock = ManualClock()
    partition = Partition(
        "t", 0, LEADER, open_test_log(make_environment(), LogConfig(leader_replication_throttled_replicas=("*",)))
    )
    partition.lead(PartitionView(LEADER, 0, (LEADER, IN_SYNC), 0, (LEADER, IN_SYNC, BEHIND)), 0.0)
    partition.append_as_leader(make_batch([b"x"]), 1)
    partition.high_watermark = 1
    throttling = Throttling(clock)
    throttle, manager = throttling.serving, manager_of(partition, clock=clock, throttling=throttling)
    throttle.limit.bytes_per_second = 10

    def read() -> tuple[bool, int]:
        wanted = CachedPartition("t", partition.topic_id, FetchPartition(fetch_offset=0, partition_max_bytes=1000))
        parameters = FetchParameters(12, reader, -1, 500, 1, 1000)
        found = read_partitions(
            manager, OpenedFetch(ErrorCode.NONE, named=[wanted]), parameters, [wanted], arrived=False
        )
        ((_, answer),) = found.answers
        assert not answer.error_code and answer.high_watermark == 1 and not found.failed
        assert answer.records is not None and len(answer.records) == found.total_bytes
        return found.total_bytes > 0, answer.error_code

    assert read() == (True, 0)
    throttle.copied(partition, 1_000)
    assert read() == (is_served, 0)
    clock.advance(12_000)
    assert read() == (True, 0)
