"""Broker registration: one living holder for each id, and our own past waited out."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.registration import (
    EXPIRY_MARGIN_MS,
    AddressTaken,
    BrokerIdInUse,
    Holder,
    Registrar,
    create_topmost_paths,
    judge,
    refuse_taken_addresses,
)
from odradek.zk_schema.store import Stat, Suspended
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint

SESSION_TIMEOUT_MS = 3000


OURS = BrokerRegistration(1, (Endpoint("PLAINTEXT", "here", 9092),))
THEIRS = BrokerRegistration(1, (Endpoint("PLAINTEXT", "there", 9092), Endpoint("EXTERNAL", "fe80::1", 9093, "SSL")))


def stat_owned_by(session_id: int) -> Stat:
    return Stat(0, 1, 1, session_id, 0, 0, 0)


@pytest.mark.parametrize(
    ("found", "owner", "holder"),
    [
        (OURS, 5, Holder.OURSELVES),
        (THEIRS, 5, Holder.OURSELVES),
        (OURS, 4, Holder.OUR_PAST),
        (THEIRS, 4, Holder.ANOTHER),
    ],
)
def test_whose_registration_it_is(found: BrokerRegistration, owner: int, holder: Holder) -> None:
    assert judge(found, stat_owned_by(owner), OURS, session_id=5) is holder


class Setting:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.server = MemoryZooKeeper(self.clock, session_timeout_ms=SESSION_TIMEOUT_MS)

    async def connect(self) -> MemoryStore:
        store = self.server.connect()
        await store.start(1000)
        await create_topmost_paths(store)
        return store

    def registrar(self, store: MemoryStore, registration: BrokerRegistration = OURS) -> Registrar:
        return Registrar(store, self.clock, registration)


def play(scenario: Callable[[Setting], Coroutine[Any, Any, None]]) -> None:
    run_virtual(lambda clock: scenario(Setting(clock)))


def test_the_epoch_is_the_znodes_czxid() -> None:
    async def scenario(setting: Setting) -> None:
        store = await setting.connect()
        epoch = await setting.registrar(store).register()
        data, stat = await store.get("/brokers/ids/1")
        assert stat.czxid == epoch
        assert stat.ephemeral_owner == store.session_id
        found = BrokerRegistration.decode(1, data)
        assert found.endpoints == OURS.endpoints
        assert 0 < found.timestamp_ms <= stat.created_ms

    play(scenario)


def test_a_living_broker_keeps_its_id_and_is_named() -> None:
    async def scenario(setting: Setting) -> None:
        first, second = await setting.connect(), await setting.connect()
        await setting.registrar(first, THEIRS).register()
        with pytest.raises(BrokerIdInUse, match=r"broker id 1 .* at there:9092, \[fe80::1\]:9093"):
            await setting.registrar(second).register()

    play(scenario)


def test_an_address_of_another_broker_is_refused() -> None:
    async def scenario(setting: Setting) -> None:
        first, second = await setting.connect(), await setting.connect()
        await first.create("/brokers/ids/0", b"{", ephemeral=True)
        await setting.registrar(first, THEIRS).register()
        await refuse_taken_addresses(second, 1, {"there:9092"})
        await refuse_taken_addresses(second, 2, {"there:9093", "fe80::1:9093"})
        said = r"end points \[fe80::1\]:9093 in advertised listeners are already registered by broker 1"
        with pytest.raises(AddressTaken, match=said):
            await refuse_taken_addresses(second, 2, {"[fe80::1]:9093", "here:9092"})

    play(scenario)


def test_unreadable_data_is_somebody_elses() -> None:
    async def scenario(setting: Setting) -> None:
        first, second = await setting.connect(), await setting.connect()
        await first.create("/brokers/ids/1", b"{", ephemeral=True)
        with pytest.raises(BrokerIdInUse, match="not JSON"):
            await setting.registrar(second).register()

    play(scenario)


def test_our_own_past_is_waited_out() -> None:
    async def scenario(setting: Setting) -> None:
        crashed, restarted = await setting.connect(), await setting.connect()
        before = await setting.registrar(crashed).register()
        setting.server.crash(crashed)
        began_ms = setting.clock.monotonic_ms()
        after = await setting.registrar(restarted).register()
        assert after > before
        assert setting.clock.monotonic_ms() - began_ms >= SESSION_TIMEOUT_MS * 0.9

    play(scenario)


def test_our_own_past_that_does_not_end_is_an_error() -> None:
    async def scenario(setting: Setting) -> None:
        twin, store = await setting.connect(), await setting.connect()
        await setting.registrar(twin).register()
        began_ms = setting.clock.monotonic_ms()
        with pytest.raises(BrokerIdInUse, match="does not end"):
            await setting.registrar(store).register()
        assert setting.clock.monotonic_ms() - began_ms >= SESSION_TIMEOUT_MS

    play(scenario)


@pytest.mark.parametrize("stops", [0.2, 0.9])
@pytest.mark.parametrize("away", [0.5, 20])
def test_our_own_past_has_its_time_again_when_the_server_comes_back(stops: float, away: float) -> None:
    """As ZooKeeper gives it: a broker that was back sooner than its ZooKeeper took its past for another broker."""

    async def scenario(setting: Setting) -> None:
        crashed, restarted = await setting.connect(), await setting.connect()
        await setting.registrar(crashed).register()
        setting.server.crash(crashed)
        stops_ms, away_ms = stops * SESSION_TIMEOUT_MS, max(away * SESSION_TIMEOUT_MS, EXPIRY_MARGIN_MS)
        setting.clock.call_later(stops_ms, setting.server.stop)
        setting.clock.call_later(stops_ms + away_ms, setting.server.restart)
        began_ms = setting.clock.monotonic_ms()
        epoch = await setting.registrar(restarted).register()
        assert setting.clock.monotonic_ms() - began_ms >= stops_ms + away_ms
        stat = await restarted.exists("/brokers/ids/1")
        assert stat is not None and (stat.czxid, stat.ephemeral_owner) == (epoch, restarted.session_id)

    play(scenario)


def test_a_lost_answer_to_the_create_is_resolved_by_the_owner() -> None:
    async def scenario(setting: Setting) -> None:
        store = await setting.connect()
        events: list[object] = []
        store.subscribe(events.append)
        store.lose_next_answer()
        epoch = await setting.registrar(store).register()
        stat = await store.exists("/brokers/ids/1")
        assert Suspended() in events
        assert stat is not None
        assert (stat.czxid, stat.ephemeral_owner) == (epoch, store.session_id)

    play(scenario)


def test_registers_again_after_an_expired_session() -> None:
    async def scenario(setting: Setting) -> None:
        store = await setting.connect()
        registrar = setting.registrar(store)
        first = await registrar.register()
        setting.server.expire_session(store.session_id)
        second = await registrar.register()
        assert second > first
        stat = await store.exists("/brokers/ids/1")
        assert stat is not None
        assert stat.ephemeral_owner == store.session_id

    play(scenario)


def test_waits_for_a_server_that_is_away() -> None:
    async def scenario(setting: Setting) -> None:
        store = await setting.connect()
        setting.server.stop()
        registering = asyncio.ensure_future(setting.registrar(store).register())
        setting.clock.call_later(2 * SESSION_TIMEOUT_MS, setting.server.restart)
        epoch = await registering
        stat = await store.exists("/brokers/ids/1")
        assert stat is not None
        assert stat.czxid == epoch

    play(scenario)
