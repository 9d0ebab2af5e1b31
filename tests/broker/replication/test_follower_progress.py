"""When a follower counts as caught up (Kafka: ReplicaTest.scala has the same situations)."""

from odradek.broker.replication.isr import FollowerProgress

LAG_MS = 1000


def follower(now_ms: float = 0.0) -> FollowerProgress:
    return FollowerProgress(7, now_ms)


def test_a_follower_at_the_end_never_lags() -> None:
    one = follower()
    one.fetched(10, 0, 1, 0.0, leader_log_end=10)
    assert one.is_caught_up(10, 1e9, LAG_MS)


def test_a_new_follower_is_given_the_lag_time_to_come() -> None:
    one = follower(now_ms=500.0)
    assert one.is_caught_up(10, 1500.0, LAG_MS)
    assert not one.is_caught_up(10, 1501.0, LAG_MS)


def test_a_follower_behind_a_steady_writer_is_in_sync() -> None:
    """It never reaches the present end, but always what was there at its last fetch."""
    one = follower()
    for second in range(1, 20):
        one.fetched(10 * (second - 1), 0, 1, second * 900.0, leader_log_end=10 * second)
        assert one.is_caught_up(10 * second, second * 900.0 + 50, LAG_MS)


def test_a_follower_that_fetches_but_falls_behind_lags() -> None:
    one = follower()
    for second in range(1, 5):
        one.fetched(second, 0, 1, second * 900.0, leader_log_end=100 * second)
    assert not one.is_caught_up(400, 4 * 900.0, LAG_MS)


def test_the_registration_of_the_last_fetch_is_kept() -> None:
    one = follower()
    one.fetched(1, 0, 41, 0.0, 1)
    one.fetched(1, 0, 42, 1.0, 1)
    assert one.broker_epoch == 42


def test_a_follower_that_waits_at_the_end_was_caught_up_until_its_last_fetch() -> None:
    """Its session is not told of each fetch in which the partition has no news."""

    class Session:
        last_used_ms = 0.0

    session = Session()
    progress = FollowerProgress(1, 0.0)
    progress.fetched(5, 0, 1, 0.0, 5)
    progress.session = session
    session.last_used_ms = 50_000.0
    progress.overtaken(5)
    assert progress.is_caught_up(6, 59_000.0, 10_000)
    assert not progress.is_caught_up(6, 60_001.0, 10_000)
    session.last_used_ms = 90_000.0
    progress.overtaken(6)
    assert not progress.is_caught_up(7, 60_001.0, 10_000), "it was behind: fetches of other partitions say nothing"
