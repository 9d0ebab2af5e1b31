"""The claim and release state machine, by tables: what happens → what is to do next."""

from collections.abc import Callable

import pytest

from odradek.client.records import TopicPartition
from odradek.client.waiting import NEVER
from odradek.client.zookeeper.assignment import GroupView
from odradek.client.zookeeper.balance import Balance, Claim, Read, Register, Release, Report, Start, Step, Wait
from odradek.zk_schema.znodes.consumers import ConsumerRegistration

ME, OTHER = "g_a", "g_b"
BACKOFF_MS, RETRIES = 2_000, 3
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = {T0: "g_a-0", T1: "g_a-0"}
FIRST = {T0: "g_a-0"}
WAY_0, WAY_1 = "/consumers/g/owners/t/0", "/consumers/g/owners/t/1"


def view(*members: str, held: tuple[TopicPartition, ...] = (), brokers: tuple[str, ...] = ("b:9092",)) -> GroupView:
    return GroupView(
        {name: ConsumerRegistration({"t": 1}) for name in members},
        {"t": [f"{name}-0" for name in sorted(members)]},
        {"t": (0, 1)},
        brokers,
        frozenset(held),
    )


def fresh() -> Balance:
    balance = Balance(ME, "range", RETRIES, BACKOFF_MS)
    balance.connected(7)
    return balance


def registered() -> Balance:
    balance = fresh()
    assert balance.take_step(0) == Register()
    balance.registered()
    return balance


def claiming() -> Balance:
    balance = registered()
    assert balance.take_step(0) == Read({})
    balance.read(view(ME))
    assert balance.take_step(0) == Claim(BOTH)
    return balance


def owning() -> Balance:
    balance = claiming()
    balance.claimed(BOTH, (), 0)
    assert balance.take_step(0) == Start(BOTH)
    balance.fetching()
    assert balance.settled
    return balance


def rereading(make: Callable[[], Balance] = owning) -> Balance:
    balance = make()
    balance.changed()
    assert isinstance(balance.take_step(0), Read)
    return balance


CASES: dict[str, tuple[Callable[[], Balance], Callable[[Balance], object], Step]] = {
    "no session: nothing": (lambda: Balance(ME, "range", RETRIES, BACKOFF_MS), lambda b: b.changed(), Wait(NEVER)),
    "a session: register first": (fresh, lambda b: None, Register()),
    "then read": (registered, lambda b: None, Read({})),
    "owned and started: wait": (owning, lambda b: None, Wait(NEVER)),
    "the same again: leave everything": (rereading, lambda b: b.read(view(ME, held=(T0, T1))), Wait(NEVER)),
    "less than before: release all of it first": (rereading, lambda b: b.read(view(ME, OTHER)), Release(BOTH)),
    "one owner znode has vanished: release and claim anew": (
        rereading,
        lambda b: b.read(view(ME, held=(T0,))),
        Release(BOTH),
    ),
    "no brokers: as it was": (rereading, lambda b: b.read(view(ME, OTHER, brokers=())), Wait(NEVER)),
    "our registration has vanished: again": (rereading, lambda b: b.read(view(OTHER)), Register()),
    "changed before it is claimed: what was read is old": (
        claiming,
        lambda b: (b.claimed(BOTH, (), 0), b.changed()),
        Read(BOTH),
    ),
    "lost a race: what was won goes back": (claiming, lambda b: b.claimed(FIRST, [WAY_1], 0), Release(FIRST)),
    "lost all: pause": (claiming, lambda b: b.claimed({}, [WAY_0, WAY_1], 0), Wait(BACKOFF_MS)),
    "lost to owners that are gone already: pause all the same": (
        claiming,
        lambda b: b.claimed({}, [], 0),
        Wait(BACKOFF_MS),
    ),
    "one owner in the way is gone: not yet": (
        claiming,
        lambda b: (b.claimed({}, [WAY_0, WAY_1], 0), b.owner_gone(WAY_0)),
        Wait(BACKOFF_MS),
    ),
    "all owners in the way are gone: now": (
        claiming,
        lambda b: (b.claimed({}, [WAY_0, WAY_1], 0), b.owner_gone(WAY_0), b.owner_gone(WAY_1)),
        Read({}),
    ),
    "a change in the pause: now": (claiming, lambda b: (b.claimed({}, [WAY_0], 0), b.changed()), Read({})),
    "expired: nothing is owned, nothing to release": (owning, lambda b: b.expired(), Wait(NEVER)),
    "a new session: register again": (owning, lambda b: (b.expired(), b.connected(8)), Register()),
    "a new session without notice of the old one's end": (owning, lambda b: b.connected(8), Register()),
    "the same session again: look": (owning, lambda b: b.connected(7), Read(BOTH)),
    "reading failed: what is fetched stays": (rereading, lambda b: b.failed(Read(BOTH), "bad", 0), Wait(BACKOFF_MS)),
    "claim interrupted: who knows which; all go back": (claiming, lambda b: b.interrupted(Claim(BOTH)), Release(BOTH)),
    "start interrupted: all go back": (
        claiming,
        lambda b: (b.claimed(BOTH, (), 0), b.take_step(0), b.interrupted(Start(BOTH))),
        Release(BOTH),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_next_step(case: str) -> None:
    make, happen, expected = CASES[case]
    balance = make()
    happen(balance)
    assert balance.take_step(0) == expected


def test_released_before_claimed() -> None:
    balance = rereading()
    balance.read(view(ME, OTHER))
    steps = [balance.take_step(0)]
    balance.released()
    steps.append(balance.take_step(0))
    balance.claimed(FIRST, (), 0)
    steps.append(balance.take_step(0))
    assert steps == [Release(BOTH), Claim(FIRST), Start(FIRST)]


def test_what_cannot_be_started_is_not_kept() -> None:
    """A partition claimed by one and consumed by nobody."""
    balance = claiming()
    balance.claimed(BOTH, (), 0)
    assert balance.take_step(0) == Start(BOTH)
    balance.failed(Start(BOTH), "offsets cannot be read", 100)
    assert balance.take_step(100) == Wait(100 + BACKOFF_MS)
    assert balance.take_step(100 + BACKOFF_MS) == Release(BOTH)
    balance.released()
    assert balance.take_step(100 + BACKOFF_MS) == Read({})


def lose(balance: Balance, now_ms: float, blockers: list[str]) -> None:
    assert balance.take_step(now_ms) == Read({})
    balance.read(view(ME))
    assert balance.take_step(now_ms) == Claim(BOTH)
    balance.claimed({}, blockers, now_ms)


def test_after_all_retries_it_is_reported_and_waits_for_the_owners_to_go() -> None:
    balance = registered()
    for attempt in range(RETRIES):
        assert balance.take_step(attempt * BACKOFF_MS) == Read({})
        balance.read(view(ME))
        assert isinstance(balance.take_step(attempt * BACKOFF_MS), Claim)
        balance.claimed({}, [WAY_0], attempt * BACKOFF_MS)
    report = balance.take_step(RETRIES * BACKOFF_MS)
    assert isinstance(report, Report)
    assert "cannot rebalance after 3 attempts" in report.text
    assert WAY_0 in report.text
    assert balance.take_step(1e9) == Wait(NEVER)
    assert not balance.settled
    balance.owner_gone(WAY_0)
    assert balance.take_step(1e9) == Read({})


def test_after_all_retries_without_an_owner_to_wait_for_it_goes_on() -> None:
    balance = registered()
    now_ms = 0.0
    for _ in range(RETRIES):
        lose(balance, now_ms, [])
        now_ms += BACKOFF_MS
    assert isinstance(balance.take_step(now_ms), Report)
    assert balance.take_step(now_ms) == Read({})


def test_trouble_is_tried_again_for_ever_and_reported_every_few_times() -> None:
    balance = registered()
    reports, now_ms = 0, 0.0
    for _ in range(3 * RETRIES):
        step = balance.take_step(now_ms)
        if isinstance(step, Report):
            reports += 1
            step = balance.take_step(now_ms)
        assert step == Read({})
        balance.failed(step, "no", now_ms)
        now_ms += BACKOFF_MS
    assert isinstance(balance.take_step(now_ms), Report)
    assert reports == 2


def test_a_change_does_not_shorten_the_pause_after_trouble() -> None:
    balance = registered()
    step = balance.take_step(0)
    balance.failed(step, "no", 0)
    balance.changed()
    assert balance.take_step(1) == Wait(BACKOFF_MS)


def test_expiry_in_the_middle_of_a_claim_forgets_it() -> None:
    balance = claiming()
    balance.expired()
    balance.connected(9)
    assert balance.take_step(0) == Register()
    balance.registered()
    assert balance.take_step(0) == Read({})
