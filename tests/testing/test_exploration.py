"""Small applications, each with a fault that is often made: exploring finds it, and says which faults it takes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek import KafkaError
from odradek.aio import Consumer, Producer
from odradek.testing import ClusterError, explore, run
from odradek.testing.cluster.options import Options
from odradek.testing.exploration import KINDS, ExploredCluster, Found, attempt, find
from odradek.testing.virtual_run import VirtualCluster

Application = Callable[[ExploredCluster, bool], Awaitable[None]]
ORDERS = [b"%d" % number for number in range(12)]
SECOND = 1.0


async def place_orders(bootstrap: str) -> None:
    """The test's own, which makes no mistake."""
    async with Producer(bootstrap_servers=bootstrap, client_id="orders", acks="all") as producer:
        for order in ORDERS:
            await (await producer.send("orders", order))
            await asyncio.sleep(0.5 * SECOND)


def consumer(bootstrap: str, **settings: Any) -> Consumer:
    return Consumer(
        "orders", bootstrap_servers=bootstrap, client_id="app", group_id="app", auto_offset_reset="earliest",
        enable_auto_commit=False, session_timeout_ms=6000, **settings,
    )  # fmt: skip


# -- commit before process ---------------------------------------------------------------------------------------------


async def bill(bootstrap: str, bills: list[bytes], *, correct: bool) -> None:
    async with consumer(bootstrap) as reader:
        async for record in reader:
            if not correct:
                await reader.commit()
            await asyncio.sleep(0.05 * SECOND)  # as an HTTP request takes
            bills.append(record.value)
            if correct:
                await reader.commit()


async def every_order_is_billed(cluster: ExploredCluster, correct: bool) -> None:
    bills: list[bytes] = []
    cluster.application("billing", lambda: bill(cluster.bootstrap, bills, correct=correct))
    await place_orders(cluster.bootstrap)
    await cluster.calm()
    await cluster.wait_for("orders", group="app", lag=0, timeout=300)
    await asyncio.sleep(SECOND)
    missing = [order for order in ORDERS if order not in bills]
    assert not missing, f"never billed: {missing}"


# -- non-idempotent retry ----------------------------------------------------------------------------------------------


async def pay(bootstrap: str, payments: list[bytes], *, correct: bool) -> None:
    async with Producer(bootstrap_servers=bootstrap, client_id="app", acks="all", enable_idempotence=correct,
                        request_timeout_ms=3000) as producer:  # fmt: skip
        while payments:
            await (await producer.send("payments", payments[0], partition=0))
            payments.pop(0)
            await asyncio.sleep(0.2 * SECOND)


async def nothing_is_paid_twice(cluster: ExploredCluster, correct: bool) -> None:
    payments = list(ORDERS)
    paying = cluster.application("payments", lambda: pay(cluster.bootstrap, payments, correct=correct))
    await cluster.calm()
    await asyncio.wait_for(paying.ended.wait(), 300)
    paid = [record.value or b"" for record in await cluster.records("payments")]
    assert sorted(paid) == sorted(set(paid)), f"paid twice: {sorted({one for one in paid if paid.count(one) > 1})}"


# -- forgotten pause ---------------------------------------------------------------------------------------------------


async def ship(bootstrap: str, shipped: list[bytes], slow: list[bytes], *, correct: bool) -> None:
    """Sends a parcel off, which takes its time: longer than the group waits for a poll, now and then."""
    async with consumer(bootstrap, max_poll_interval_ms=5000) as reader:
        async for record in reader:
            takes_long = record.value in slow
            if takes_long:
                slow.remove(record.value)
            work = asyncio.ensure_future(asyncio.sleep(8 * SECOND if takes_long else 0.05))
            if correct:
                reader.pause(*reader.assignment())
                while not work.done():
                    await reader.getmany(timeout_ms=500)
                    await asyncio.sleep(0.1)
                reader.resume(*reader.paused())
            await work
            shipped.append(record.value)
            await reader.commit()


async def every_parcel_is_shipped_once_or_again_after_a_death(cluster: ExploredCluster, correct: bool) -> None:
    shipped, slow = list[bytes](), [ORDERS[5]]
    cluster.application("shipping", lambda: ship(cluster.bootstrap, shipped, slow, correct=correct))
    await place_orders(cluster.bootstrap)
    await cluster.calm()
    await cluster.wait_for("orders", group="app", lag=0, timeout=300)
    deaths = sum("ends" in moment.text for moment in (await cluster.timeline()).moments if moment.who == "shipping")
    assert not deaths, f"the consumer was thrown out of its group {deaths} times"


# -- read_uncommitted by mistake ---------------------------------------------------------------------------------------


async def transfer(bootstrap: str, work: list[bytes]) -> None:
    """Correct: it begins anew what was aborted or cut short."""
    async with Producer(bootstrap_servers=bootstrap, client_id="transfer", transactional_id="transfer",
                        transaction_timeout_ms=5000) as producer:  # fmt: skip
        await producer.init_transactions()
        while work:
            await producer.begin_transaction()
            await producer.send("orders", work[0])
            await producer.flush()
            await asyncio.sleep(0.5 * SECOND)
            await producer.commit_transaction()
            work.pop(0)


async def report(bootstrap: str, seen: list[bytes], *, correct: bool) -> None:
    level = "read_committed" if correct else "read_uncommitted"
    async with consumer(bootstrap, isolation_level=level) as reader:
        async for record in reader:
            seen.append(record.value)
            await reader.commit()


async def only_what_is_certain_is_reported(cluster: ExploredCluster, correct: bool) -> None:
    work, seen = list(ORDERS), list[bytes]()
    cluster.application("transfer", lambda: transfer(cluster.bootstrap, work))
    cluster.application("report", lambda: report(cluster.bootstrap, seen, correct=correct))
    await cluster.calm()
    await cluster.wait_for("orders", group="app", lag=1, timeout=300)  # a marker is at the end
    thrown_away = [record.offset for record in await cluster.records("orders") if record.transaction == "aborted"]
    reads = len(seen) - len(set(seen))
    assert not (thrown_away and reads), f"reported what was taken back: offsets {thrown_away}"


# -- a producer that is shared, and aborted by one ---------------------------------------------------------------------


async def enter(producer: Producer, topic: str, entry: bytes, *, correct: bool) -> None:
    """Half of a booking. What it aborts is the other half's transaction too."""
    try:
        await (await producer.send(topic, entry))
    except KafkaError:
        if correct:
            raise
        await producer.abort_transaction()
        await producer.begin_transaction()
        await (await producer.send(topic, entry))


async def book(bootstrap: str, work: list[bytes], *, correct: bool) -> None:
    async with Producer(bootstrap_servers=bootstrap, client_id="app", transactional_id="book", request_timeout_ms=1000,
                        delivery_timeout_ms=2000, transaction_timeout_ms=5000) as producer:  # fmt: skip
        await producer.init_transactions()
        while work:
            await producer.begin_transaction()
            for topic in ("orders", "payments"):
                await enter(producer, topic, work[0], correct=correct)
            await producer.commit_transaction()
            work.pop(0)
            await asyncio.sleep(0.5 * SECOND)


async def both_books_hold_the_same(cluster: ExploredCluster, correct: bool) -> None:
    work = list(ORDERS)
    booking = cluster.application("booking", lambda: book(cluster.bootstrap, work, correct=correct))
    await cluster.calm()
    await asyncio.wait_for(booking.ended.wait(), 300)
    books = [
        {record.value for record in await cluster.records(topic) if record.transaction == "committed"}
        for topic in ("orders", "payments")
    ]
    assert books[0] == books[1], f"in one of them only: {sorted(value or b'' for value in books[0] ^ books[1])}"


NEVER_KILLED = tuple(kind for kind in KINDS if not kind.startswith("kill application"))
"""What dies before it knows that a thing is done does it again, however careful it is."""
APPLICATIONS: list[tuple[Application, tuple[str, ...], int]] = [
    (every_order_is_billed, KINDS, 5),
    (nothing_is_paid_twice, NEVER_KILLED, 4),
    (every_parcel_is_shipped_once_or_again_after_a_death, KINDS, 0),
    (only_what_is_certain_is_reported, KINDS, 20),
    (both_books_hold_the_same, KINDS, 4),
]
"""With the kinds of faults, and a seed from which on it is soon found."""
TOPICS = {"orders": 1, "payments": 1}


@pytest.mark.parametrize(("application", "kinds", "first"), APPLICATIONS, ids=[one[0].__name__ for one in APPLICATIONS])
def test_a_planted_fault_is_found(application: Application, kinds: tuple[str, ...], first: int) -> None:
    """And needs at most three faults, under which the application without it does well."""
    options = Options(topics=TOPICS, trace=False)
    found = find(lambda cluster: application(cluster, False), options, range(first, first + 200), kinds)
    assert found is not None and len(found.schedule) <= 3, found
    assert f"seed {found.seed}" in str(found) and "what happened:" in str(found)
    again = attempt(lambda cluster: application(cluster, True), options, found.seed, found.schedule)
    assert again is None, again


# -- runs --------------------------------------------------------------------------------------------------------------


async def _two_minutes(cluster: VirtualCluster) -> tuple[str, float]:
    bills: list[bytes] = []
    cluster.application("billing", lambda: bill(cluster.bootstrap, bills, correct=True))
    await place_orders(cluster.bootstrap)
    await cluster.kill(1)
    await asyncio.sleep(120)
    await cluster.restart(1)
    await cluster.wait_for("orders", group="app", lag=0, isr=3)
    assert bills == ORDERS
    return str(await cluster.timeline(requests=True)), await cluster.age_ms()


def test_two_minutes_pass_at_once_and_the_same_seed_is_the_same_run() -> None:
    (first, age_ms), (second, _) = run(_two_minutes, seed=3, topics=TOPICS), run(_two_minutes, seed=3, topics=TOPICS)
    assert age_ms > 120_000 and first == second


def test_explore_makes_a_test() -> None:
    seen: list[int] = []

    @explore(seeds=range(2, 4), brokers=1)
    async def test_something(cluster: ExploredCluster) -> None:
        """What it is about."""
        await cluster.calm()
        seen.append(len(cluster.schedule))
        assert len(seen) < 2, "the second one"

    assert (test_something.__name__, test_something.__doc__) == ("test_something", "What it is about.")
    with pytest.raises(Found, match=r"(?s)seed 3 \(2 tried\) fails: AssertionError: the second one.*without|none"):
        test_something()


def test_bad_use_gets_one_line() -> None:
    with pytest.raises(ClusterError, match="no fault 'kill brokr'; did you mean kill broker"):
        explore(kinds=["kill brokr"])

    async def nobody(cluster: VirtualCluster) -> None:
        await cluster.kill_application("billing")

    with pytest.raises(ClusterError, match="no application 'billing': none"):
        run(nobody, brokers=1)
