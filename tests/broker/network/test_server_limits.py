"""Who is let in, who has been idle for too long, and readers that do not read."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from odradek.broker.network.buffers import READ_BYTES_MAX
from odradek.broker.network.limits import UNSENT_BYTES_MAX
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_pipe import PIPE_BYTES
from odradek.world.files import FileRange


def test_an_idle_connection_is_closed(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        began_ms = harness.clock.monotonic_ms()
        await client.end()
        assert 4999 < harness.clock.monotonic_ms() - began_ms <= 5010

    play(scenario, connections_max_idle_ms=5000)


def test_a_connection_that_is_used_or_waits_for_us_is_not_idle(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        for number in range(4):
            await harness.settle(4000)
            await client.send(client.heartbeat("", number))
            assert await client.number() == number
        await client.send(client.heartbeat("wait 20000", 1))
        assert await client.number() == 1001
        answered_ms = harness.clock.monotonic_ms()
        await client.end()
        assert harness.clock.monotonic_ms() - answered_ms <= 5010

    play(scenario, connections_max_idle_ms=5000)


def test_never_idle(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        await harness.connect()
        await harness.settle(10_000_000)
        assert harness.server.connections == 1

    play(scenario, connections_max_idle_ms=-1)


def test_connections_per_address(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        first, second = await harness.connect("a"), await harness.connect("a")
        refused = await harness.connect("a")
        await refused.end()
        assert harness.server.connections == 2
        special = [await harness.connect("b") for _ in range(3)]
        await (await harness.connect("b")).end()
        first.endpoint.close()
        await harness.settle()
        third = await harness.connect("a")
        for client in (second, third, *special):
            await client.send(client.heartbeat("", 5))
            assert await client.number() == 5

    play(scenario, max_connections_per_ip=2, max_connections_per_ip_overrides={"b": 3})


def test_connections_of_a_host_that_is_named(play: Any) -> None:
    """As in Kafka a host may stand for its address: it was compared with that as it is written, and had no effect."""
    addresses = {"named": "b", "b": "b"}

    async def address_of(host: str) -> str:
        if host not in addresses:
            raise OSError("no such host")
        return addresses[host]

    async def scenario(harness: Any) -> None:
        harness.server.address_of = address_of
        harness.server.configure(harness.server.settings)
        await harness.settle()
        for host, limit in (("b", 3), ("a", 1)):
            clients = [await harness.connect(host) for _ in range(limit)]
            await (await harness.connect(host)).end()
            assert not any(client.ended for client in clients)
        harness.server.configure(replace(harness.server.settings, max_connections_per_ip_overrides={"b": 4}))
        await harness.settle()
        fourth = await harness.connect("b")
        await harness.settle()
        assert not fourth.ended

    play(scenario, max_connections_per_ip=1, max_connections_per_ip_overrides={"unknown": 7, "named": 3})


def test_at_the_limit_newcomers_wait_until_a_place_is_free(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        first, second = await harness.connect("a"), await harness.connect("b")
        third = await harness.connect("c")
        await third.send(third.heartbeat("", 3))
        await harness.settle(1000)
        assert harness.handlers.handled == []
        first.endpoint.close()
        assert await third.number() == 3
        await second.send(second.heartbeat("", 2))
        assert await second.number() == 2
        assert harness.server.connections == 2

    play(scenario, max_connections=2)


def test_brokers_get_in_although_it_is_full(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        port = harness.server.listen("INTERNAL", "127.0.0.1", 0)
        busy, lazy = await harness.connect("a"), await harness.connect("b")
        await harness.settle(100)
        await busy.send(busy.heartbeat("", 1))
        await busy.number()
        broker = await harness.connect("broker-2", port)
        began_ms = harness.clock.monotonic_ms()
        await broker.send(broker.heartbeat("", 2))
        assert await broker.number() == 2
        assert harness.clock.monotonic_ms() - began_ms < 10
        await lazy.end()
        await busy.send(busy.heartbeat("", 3))
        assert await busy.number() == 3

    play(scenario, max_connections=2, inter_broker_listener_name="INTERNAL")


@pytest.mark.parametrize("in_file", [False, True])
def test_a_slow_reader_costs_bounded_memory_and_nobody_elses_time(play: Any, in_file: bool) -> None:
    from odradek.protocol.messages.fetch import FetchRequest

    async def scenario(harness: Any) -> None:
        files = SimulatedFiles()
        file = files.open("/log", create=True)
        data = bytes(range(256)) * 400
        file.append(data)
        harness.handlers.fetched = FileRange(file, 0, len(data)) if in_file else data
        slow, quick = await harness.connect("slow"), await harness.connect("quick")
        slow.stop_reading()
        count = 200
        await slow.send(b"".join(slow.encode(FetchRequest(), 4) for _ in range(count)))
        await harness.settle(1000)
        (connection,) = [c for c in harness.server._connections if c.client.peer.startswith("slow")]
        assert connection._output.unsent_bytes <= UNSENT_BYTES_MAX + len(data) + 100
        await quick.send(quick.heartbeat("", 1))
        assert await quick.number() == 1
        slow.read()
        for _ in range(count):
            assert data in await slow.frame()

    play(scenario)


def test_answers_behind_a_waiting_one_count_as_unsent(play: Any) -> None:
    from odradek.protocol.messages.fetch import FetchRequest

    async def scenario(harness: Any) -> None:
        harness.handlers.fetched = bytes(300_000)
        client = await harness.connect()
        await client.send(client.heartbeat("overtaken", 0))
        await client.send(b"".join(client.encode(FetchRequest(), 4) for _ in range(100)))
        await harness.settle(1000)
        (connection,) = harness.server._connections
        assert connection._slots.filled_bytes <= UNSENT_BYTES_MAX + 300_100
        harness.finish(0)
        assert await client.number() == 0
        for _ in range(100):
            assert len(await client.frame()) > 300_000

    play(scenario)


def test_a_slow_reader_that_never_reads_is_idle_in_the_end(play: Any) -> None:
    from odradek.protocol.messages.fetch import FetchRequest

    async def scenario(harness: Any) -> None:
        harness.handlers.fetched = bytes(2 * PIPE_BYTES)
        client = await harness.connect()
        client.stop_reading()
        await client.send(client.encode(FetchRequest(), 4))
        await harness.settle(4900)
        assert harness.server.connections == 1
        await harness.settle(200)
        assert harness.server.connections == 0

    play(scenario, connections_max_idle_ms=5000)


def test_a_reader_is_not_idle_however_slow_it_is(play: Any) -> None:
    from odradek.protocol.messages.fetch import FetchRequest

    async def scenario(harness: Any) -> None:
        harness.handlers.fetched = bytes(8 * PIPE_BYTES)
        client = await harness.connect()
        client.stop_reading()
        await client.send(client.encode(FetchRequest(), 4))
        for _ in range(4):
            await harness.settle(4000)
            assert harness.server.connections == 1
            had = len(client.received)
            client.read()
            await harness.settle(0)
            client.stop_reading()
            assert had < len(client.received) < 8 * PIPE_BYTES
        client.read()
        assert len(await client.frame()) > 8 * PIPE_BYTES

    play(scenario, connections_max_idle_ms=5000)


@pytest.mark.parametrize("there", [READ_BYTES_MAX + 100, 100])
def test_a_promised_range_that_is_not_there_breaks_the_connection(
    play: Any, caplog: pytest.LogCaptureFixture, there: int
) -> None:
    """The log says so, and of which file: readers only see that the broker closes, over and over; followers stop."""
    from odradek.protocol.messages.fetch import FetchRequest

    async def scenario(harness: Any) -> None:
        file = SimulatedFiles().open("/log", create=True)
        file.append(b"x" * there)
        harness.handlers.fetched = FileRange(file, 50, there)
        client = await harness.connect()
        await client.send(client.encode(FetchRequest(), 4))
        assert (await client.end()).count(b"x") == (there - 50 if there > READ_BYTES_MAX else 0)
        (said,) = caplog.records
        assert said.levelno == logging.WARNING and "'/log'" in said.getMessage()

    play(scenario)


def test_a_reset_ends_a_connection_quietly(play: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("wait", 1))
        await harness.settle()
        harness.network.reset("client")
        await harness.settle()
        assert harness.server.connections == 0
        assert not caplog.records

    play(scenario)


def test_closing_the_server_ends_what_is_under_way(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("later 60000", 1))
        await harness.settle()
        harness.server.close()
        assert await client.end() == b""
        harness.tasks.close()
        await harness.settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(scenario)
