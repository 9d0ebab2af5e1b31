"""Which quota holds for whom, and who shares it: Kafka's order of precedence."""

import itertools

import pytest

from odradek.broker.quotas import client_quotas
from odradek.broker.quotas.client_quotas import (
    BYTES_MAX,
    EXPIRY_MS,
    NAME_CHARACTERS_MAX,
    SWEEP_MS,
    ClientQuotas,
    QuotaType,
)
from odradek.broker.quotas.connection_rates import ConnectionRates
from odradek.broker.quotas.rates import RateWindows
from odradek.testing.virtual_clock import ManualClock, VirtualClock, run_virtual

WINDOWS = RateWindows(11, 1000.0)
RATE = "producer_byte_rate"
ORDER = [
    "users/ann%40x/clients/c1",
    "users/ann%40x/clients/<default>",
    "users/ann%40x",
    "users/<default>/clients/c1",
    "users/<default>/clients/<default>",
    "users/<default>",
    "clients/c1",
    "clients/<default>",
]
"""The first that is set is the one that holds for the client c1 of ann@x."""


def on_virtual_time(check: "object") -> None:
    async def main(clock: VirtualClock) -> None:
        check(clock)  # type: ignore[operator]

    run_virtual(main)


def limit(quotas: ClientQuotas, user: str = "ann@x", client: str = "c1") -> float | None:
    budget = quotas.budget(QuotaType.PRODUCE, user, client)
    return None if budget is None else budget.limit


def test_the_order_of_precedence() -> None:
    def check(clock: VirtualClock) -> None:
        for chosen in itertools.product([False, True], repeat=len(ORDER)):
            quotas = ClientQuotas(clock, WINDOWS, WINDOWS)
            given = [at for at, is_set in enumerate(chosen) if is_set]
            for at in given:
                quotas.set_entity(ORDER[at], {RATE: str(at)})
            assert limit(quotas) == (given[0] if given else None), given
            assert quotas.any is bool(given)

    on_virtual_time(check)


@pytest.mark.parametrize(
    ("entity", "shared", "apart"),
    [
        ("users/u", ("u", "c2"), ("v", "c1")),
        ("users/u/clients/<default>", None, ("u", "c2")),
        ("users/<default>", ("u", "c2"), ("v", "c1")),
        ("clients/c1", ("v", "c1"), None),
        ("clients/<default>", ("v", "c1"), ("u", "c2")),
        ("users/<default>/clients/c1", None, ("v", "c1")),
    ],
)
def test_who_shares_a_quota(entity: str, shared: tuple[str, str] | None, apart: tuple[str, str] | None) -> None:
    def check(clock: VirtualClock) -> None:
        quotas = ClientQuotas(clock, WINDOWS, WINDOWS)
        quotas.set_entity(entity, {RATE: "100"})
        assert quotas.use(QuotaType.PRODUCE, "u", "c1", 1000) == 0
        if shared is not None:
            assert quotas.use(QuotaType.PRODUCE, *shared, 100) == 1000
        if apart is not None:
            assert quotas.use(QuotaType.PRODUCE, *apart, 1000) == 0
        assert quotas.use(QuotaType.FETCH, "u", "c1", 10_000) == 0

    on_virtual_time(check)


def test_a_change_holds_at_once_and_forgets_nothing() -> None:
    def check(clock: VirtualClock) -> None:
        quotas = ClientQuotas(clock, WINDOWS, WINDOWS)
        quotas.set_entity("users/u", {RATE: "1000"})
        assert quotas.use(QuotaType.PRODUCE, "u", "", 10_000) == 0
        quotas.set_entity("users/u", {RATE: "500"})
        assert quotas.use(QuotaType.PRODUCE, "u", "", 0) == 10_000
        quotas.set_entity("users/u", {RATE: "nonsense"})
        assert limit(quotas, "u", "") == 500
        quotas.set_entity("users/u", {"SCRAM-SHA-256": "salt=…"})
        assert quotas.use(QuotaType.PRODUCE, "u", "", 10_000) == 0 and not quotas.any
        quotas.set_entity("users/u/clients", {RATE: "1"})
        assert not quotas.any

    on_virtual_time(check)


def test_mutations_come_in_bursts_and_are_refused_or_paid_for() -> None:
    def check(clock: VirtualClock) -> None:
        quotas = ClientQuotas(clock, WINDOWS, WINDOWS)
        quotas.set_entity("users/u", {"controller_mutation_rate": "1"})
        strict = quotas.mutations("u", "c", strict=True)
        assert strict is not None and strict.take(20)
        assert strict.throttle_ms == 0, "what was let through is not paid for, even if it took more than was left"
        assert not strict.take(1) and strict.throttle_ms == 9000
        lenient = quotas.mutations("u", "other", strict=False)
        assert lenient is not None and lenient.take(1) and lenient.throttle_ms == 10_000
        assert quotas.mutations("v", "c", strict=True) is None

    on_virtual_time(check)


def test_names_are_those_of_znodes() -> None:
    quotas = ClientQuotas(ManualClock(), WINDOWS, WINDOWS)
    quotas.set_entity("users/CN%3Dann%2C%20O%3Dx/clients/a%2Fb%3A%2A", {RATE: "1"})
    assert limit(quotas, "CN=ann, O=x", "a/b:*") == 1
    assert limit(quotas, "CN=ann, O=x", "a%2Fb%3A%2A") is None


@pytest.mark.parametrize(("rate", "most"), [("1000.5", 10_005), ("0", 0), ("-1", 0), ("1e300", BYTES_MAX)])
def test_at_first_the_bytes_of_all_windows_but_the_youngest_are_had_at_once(rate: str, most: int) -> None:
    quotas = ClientQuotas(ManualClock(), WINDOWS, WINDOWS)
    quotas.set_entity("users/u", {"consumer_byte_rate": rate})
    assert quotas.most_at_once(QuotaType.FETCH, "u", "c") == most
    assert quotas.most_at_once(QuotaType.FETCH, "other", "c") is None


def test_a_limit_that_is_no_number_is_passed_over() -> None:
    def check(clock: VirtualClock) -> None:
        quotas = ClientQuotas(clock, WINDOWS, WINDOWS)
        quotas.set_entity("users/u", {RATE: "nan"})
        assert limit(quotas, "u", "") is None

    on_virtual_time(check)


def test_who_has_used_nothing_for_an_hour_is_forgotten() -> None:
    clock = ManualClock()
    quotas = ClientQuotas(clock, WINDOWS, WINDOWS)
    quotas.set_entity("clients/<default>", {RATE: "1"})
    assert quotas.use(QuotaType.PRODUCE, "u", "busy", 100_000) > EXPIRY_MS
    assert quotas.use(QuotaType.PRODUCE, "u", "idle", 100_000) > EXPIRY_MS
    assert quotas.use(QuotaType.FETCH, "u", "c", 1) == 0
    for _ in range(13):
        clock.advance(SWEEP_MS)
        assert quotas.use(QuotaType.PRODUCE, "u", "busy", 1) >= 0
    assert {client for _, (_, client) in quotas._used} == {"busy"}
    clock.advance(EXPIRY_MS + SWEEP_MS)
    assert not quotas._used and not quotas._budgets
    assert not clock.outstanding, "nothing is remembered, nothing is planned"


def test_of_very_many_users_those_are_forgotten_that_use_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is busy stays throttled, however many have come and gone since."""
    monkeypatch.setattr(client_quotas, "REMEMBERED_MAX", 100)
    clock = ManualClock()
    quotas = ClientQuotas(clock, WINDOWS, WINDOWS)
    quotas.set_entity("users/<default>", {RATE: "1", "controller_mutation_rate": "1"})
    owing = quotas.mutations("owing", "c", strict=False)
    assert owing is not None and owing.take(10_000)
    for number in range(300):
        if not number % 20:
            assert quotas.use(QuotaType.PRODUCE, "busy", "c", 9) > 0 or number < 40, "who is busy is throttled"
        quotas.use(QuotaType.PRODUCE, f"user-{number}", "c", 1)
        clock.advance(200)
    assert len(quotas._used) <= 100
    strict = quotas.mutations("owing", "c", strict=True)
    assert strict is not None and not strict.take(1), "what is owed is not forgotten"


def test_long_names_cost_no_memory_and_are_told_apart() -> None:
    clock = ManualClock()
    quotas = ClientQuotas(clock, WINDOWS, WINDOWS)
    quotas.set_entity("clients/<default>", {RATE: "100"})
    first, second = "x" * 32_000 + "1", "x" * 32_000 + "2"
    assert quotas.use(QuotaType.PRODUCE, "u", first, 1000) == 0
    assert quotas.use(QuotaType.PRODUCE, "u", second, 1000) == 0
    assert quotas.use(QuotaType.PRODUCE, "u", first, 100) == 1000
    assert not quotas._budgets
    assert max(len(name) for _, holder in quotas._used for name in holder) <= NAME_CHARACTERS_MAX


def test_new_connections_of_an_address() -> None:
    def check(clock: VirtualClock) -> None:
        rates = ConnectionRates(clock, WINDOWS)
        assert rates.throttle_ms("10.0.0.1") == 0
        rates.set_address("10.0.0.1", {"connection_creation_rate": "2"})
        rates.set_address("<default>", {"connection_creation_rate": "1"})
        rates.set_address("%3A%3A1", {"connection_creation_rate": "3"})
        for host, allowed in (("10.0.0.1", 20), ("10.0.0.2", 10), ("0:0:0:0:0:0:0:1", 30), ("::ffff:10.0.0.3", 10)):
            waits = [rates.throttle_ms(host) for _ in range(allowed + 3)]
            assert not any(waits[:allowed]) and all(0 < wait <= 1000 for wait in waits[allowed:]), (host, waits)
        assert rates.throttle_ms("10.0.0.3") > 0
        rates.set_address("10.0.0.1", {})
        rates.set_address("<default>", {})
        assert rates.throttle_ms("10.0.0.1") == 0

    on_virtual_time(check)


def test_connections_that_are_refused_use_up_nothing() -> None:
    clock = ManualClock()
    rates = ConnectionRates(clock, WINDOWS)
    rates.set_address("<default>", {"connection_creation_rate": "1"})
    assert not any(rates.throttle_ms("a") for _ in range(10))
    for _ in range(10):
        assert all(rates.throttle_ms("a") for _ in range(5))
        clock.advance(1000)
    clock.advance(1000)
    assert not any(rates.throttle_ms("a") for _ in range(10)), "the first ten are forgotten, the others never counted"
    assert rates.throttle_ms("a")
