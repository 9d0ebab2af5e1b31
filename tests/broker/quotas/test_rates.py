"""Rates over windows, by hand and against Kafka's own way to count."""

import random

import pytest

from odradek.broker.quotas.rates import THROTTLE_MS_MAX, RateWindows, SampledMean, SampledRate, TokenBucket

WINDOWS = RateWindows(11, 1000.0)


def test_the_first_windows_count_as_if_they_were_over() -> None:
    rate = SampledRate(WINDOWS)
    assert rate.measure(0) == (0, 10_000)
    rate.record(5000, 0)
    assert rate.measure(0) == (500, 10_000)
    assert rate.throttle_ms(500, 0) == 0
    assert rate.throttle_ms(250, 0) == 10_000
    assert rate.measure(5000) == (500, 10_000)
    assert rate.measure(10_400) == (pytest.approx(5000 / 10.4), 10_400)


def test_what_is_long_over_is_forgotten() -> None:
    rate = SampledRate(WINDOWS)
    for second in range(30):
        rate.record(100, second * 1000.0)
    assert rate.measure(29_000) == (110, 10_000)
    assert rate.measure(29_500) == (pytest.approx(1100 / 10.5), 10_500)
    assert rate.measure(29_000 + 11_000)[0] == 0


def test_the_oldest_window_counts_as_long_as_its_last_event_is_in_reach() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(100, 0)
    rate.record(100, 900)
    for second in range(1, 12):
        rate.record(100, second * 1000.0)
    assert rate.measure(11_000) == (pytest.approx(1300 / 11), 11_000), "twelve windows, one more than asked for"
    assert rate.measure(11_899) == (pytest.approx(1300 / 11.899), 11_899)
    assert rate.measure(11_900) == (pytest.approx(1100 / 10.9), 10_900)


def test_after_the_throttle_the_rate_is_at_its_limit() -> None:
    dice = random.Random(3)
    for _ in range(200):
        rate, now_ms, limit = SampledRate(WINDOWS), 0.0, dice.uniform(1, 100)
        for _ in range(dice.randrange(1, 40)):
            now_ms += dice.uniform(0, 800)
            rate.record(dice.uniform(0, 300), now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        if 0 < throttle_ms < 1000:  # no window is over meanwhile
            assert rate.measure(now_ms + throttle_ms)[0] <= limit * 1.01


def test_a_limit_of_nothing_holds_for_ever() -> None:
    rate, bucket = SampledRate(WINDOWS), TokenBucket(WINDOWS)
    assert rate.throttle_ms(0, 0) == 0
    rate.record(1, 0)
    assert rate.throttle_ms(0, 0) == THROTTLE_MS_MAX
    bucket.take(1, 0, 0)
    assert bucket.throttle_ms(0, 0) == THROTTLE_MS_MAX


def test_a_limit_next_to_nothing_holds_as_long_as_can_be_said() -> None:
    rate, bucket = SampledRate(WINDOWS), TokenBucket(WINDOWS)
    rate.record(1, 0)
    bucket.take(1, 1e-310, 0)
    assert rate.throttle_ms(1e-310, 0) == bucket.throttle_ms(1e-310, 0) == THROTTLE_MS_MAX


def test_a_mean_is_that_of_what_is_not_forgotten() -> None:
    mean = SampledMean(RateWindows(2, 30_000.0))
    assert mean.measure(0) == 0
    mean.record(100, 0)
    mean.record(200, 10_000)
    assert mean.measure(10_000) == pytest.approx(150)
    mean.record(600, 40_000)
    assert mean.measure(45_000) == pytest.approx(300)
    assert mean.measure(75_000) == pytest.approx(600)
    assert mean.measure(100_000) == 0


def test_a_bucket_is_full_at_first_and_pays_back() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.take(22, 2, 0)
    assert bucket.throttle_ms(2, 0) == 0
    bucket.take(5, 2, 0)
    assert bucket.throttle_ms(2, 0) == 2500
    assert bucket.throttle_ms(2, 2500) == 0
    bucket.take(0, 2, 1_000_000)
    bucket.take(23, 2, 1_000_000)
    assert bucket.throttle_ms(2, 1_000_000) == 500
