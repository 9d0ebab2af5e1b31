"""How often clients may connect, and how many by one listener: limits of the broker, of a listener, of an address."""

from typing import Any

import pytest

from odradek.broker.network import socket_server
from odradek.broker.quotas.connection_rates import ConnectionRates
from odradek.broker.quotas.rates import RateWindows

WINDOWS = RateWindows(11, 1000.0)
RATE, MOST = "max.connection.creation.rate", "max.connections"
SLOW = range(30, 33)
"""Connections in ten seconds at a rate of two: twenty at once, one too many, and then one in each window."""


async def ten_seconds(harness: Any, *ports: int) -> list[int]:
    """Have 100 clients wait at each port, and serve who gets in; count how many did within 10 seconds, by port."""
    clients = [[await harness.connect(port=port) for _ in range(100)] for port in ports]
    for client in (one for some in clients for one in some):
        await client.send(client.heartbeat("", 1))
    await harness.settle(9_990)
    counts = [sum(bool(one.received) for one in some) for some in clients]
    for client in (one for some in clients for one in some):
        client.endpoint.close()
    return counts


def test_ten_seconds_worth_is_let_in_at_once_and_then_one_in_a_window(play: Any) -> None:
    """As in Kafka the rate is that of all windows but the youngest. Of clients that begin all at once most waited."""

    async def scenario(harness: Any) -> None:
        clients = [await harness.connect() for _ in range(40)]
        for client in clients:
            await client.send(client.heartbeat("", 1))
        await harness.settle(10)
        assert 30 <= sum(bool(client.received) for client in clients) <= 33, "3 a second for 10 seconds"
        began_ms = harness.clock.monotonic_ms()
        for client in clients:
            await client.number()
        assert 6000 <= harness.clock.monotonic_ms() - began_ms <= 9000

    play(scenario, max_connection_creation_rate=3)


def test_a_listener_has_a_rate_of_its_own(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        other = harness.server.listen("OTHER", "127.0.0.1", 0)
        slow, quick = await ten_seconds(harness, harness.port, other)
        assert slow in SLOW and quick == 100

    play(scenario, listener_limits={("plaintext", RATE): 2})


def test_brokers_neither_wait_for_the_brokers_rate_nor_count_in_it(play: Any) -> None:
    """Clients were kept waiting by brokers that connected to each other."""

    async def scenario(harness: Any) -> None:
        internal = harness.server.listen("INTERNAL", "127.0.0.1", 0)
        brokers, clients = await ten_seconds(harness, internal, harness.port)
        assert brokers == 100 and clients in SLOW

    play(scenario, max_connection_creation_rate=2, inter_broker_listener_name="INTERNAL")


def test_the_rate_of_the_brokers_own_listener_holds_for_brokers(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        internal = harness.server.listen("INTERNAL", "127.0.0.1", 0)
        brokers, clients = await ten_seconds(harness, internal, harness.port)
        assert brokers in SLOW and clients == 100

    play(scenario, inter_broker_listener_name="INTERNAL", listener_limits={("internal", RATE): 2})


def test_who_comes_too_often_from_one_address_uses_up_nobody_elses_rate(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        rates = harness.server.address_rates = ConnectionRates(harness.clock, WINDOWS)
        rates.set_address("greedy", {"connection_creation_rate": "0"})
        refused = [await harness.connect("greedy") for _ in range(100)]
        welcome = [await harness.connect("b") for _ in range(20)]
        for client in welcome:
            await client.send(client.heartbeat("", 1))
        await harness.settle(10)
        assert all(client.received for client in welcome) and not any(client.ended for client in refused)
        await harness.settle(1000)
        assert all(client.ended for client in refused), "as late as they came too early, but no more than a window"
        assert harness.server.accepted.total() == 20

    play(scenario, max_connection_creation_rate=2)


def test_of_many_that_come_too_often_not_all_are_kept_waiting(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no more than a place each, and go with the server."""
    monkeypatch.setattr(socket_server, "TOO_EARLY_MAX", 10)

    async def scenario(harness: Any) -> None:
        rates = harness.server.address_rates = ConnectionRates(harness.clock, WINDOWS)
        rates.set_address("greedy", {"connection_creation_rate": "0"})
        refused = [await harness.connect("greedy") for _ in range(15)]
        await harness.settle(10)
        assert [one.ended for one in refused] == [False] * 10 + [True] * 5
        harness.server.close()
        await harness.settle(10)
        assert all(one.ended for one in refused)

    play(scenario)


def test_a_full_listener_lets_nobody_in_not_even_brokers(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        internal = harness.server.listen("INTERNAL", "127.0.0.1", 0)
        first = {port: [await harness.connect(port=port) for _ in range(2)] for port in (internal, harness.port)}
        for port, others in first.items():
            late = await harness.connect(port=port)
            await late.send(late.heartbeat("", 1))
            await harness.settle(1000)
            assert not late.received and not any(client.ended for client in others)
            others[0].endpoint.close()
            assert await late.number() == 1

    limits = {("internal", MOST): 2, ("plaintext", MOST): 2}
    play(scenario, inter_broker_listener_name="INTERNAL", listener_limits=limits)
