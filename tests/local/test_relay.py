"""A way to another port that can be cut in silence."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from odradek.local.ports import free_ports
from odradek.local.relay import Relay
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.world.clock import LoopClock
from odradek.world.tasks import Tasks

ENDED = (ConnectionError, asyncio.IncompleteReadError)
Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Setting:
    """A relay before a server that answers each line with the same line."""

    def __init__(self, relay: Relay, port: int) -> None:
        self.relay, self.port = relay, port

    async def open(self) -> Opened:
        return await asyncio.open_connection("127.0.0.1", self.port)


async def ask(opened: Opened, line: bytes) -> bytes:
    opened[1].write(line)
    return await opened[0].readline()


@asynccontextmanager
async def setting() -> AsyncIterator[Setting]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, limit=2**24)
    tasks = Tasks(LoopClock(asyncio.get_running_loop()), print)
    relay = Relay(("127.0.0.1", server.sockets[0].getsockname()[1]), tasks)
    yield Setting(relay, await relay.listen())
    relay.close()
    server.close()
    assert not tasks.deaths


def play(scenario: Callable[[Setting], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), setting() as there:
            await scenario(there)

    asyncio.run(run())


def test_what_goes_in_comes_out_and_an_end_ends_both_sides() -> None:
    async def scenario(there: Setting) -> None:
        opened = await there.open()
        assert await ask(opened, b"hello\n") == b"hello\n"
        opened[1].write_eof()
        assert await opened[0].read() == b""

    play(scenario)


def test_much_goes_through_as_fast_as_it_is_taken() -> None:
    async def scenario(there: Setting) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", there.port, limit=2**24)
        line = b"x" * 5_000_000 + b"\n"
        writer.write(line)
        assert await reader.readline() == line

    play(scenario)


def test_what_is_cut_is_silent_and_ends_when_it_is_mended() -> None:
    async def scenario(there: Setting) -> None:
        before = await there.open()
        await ask(before, b"hello\n")
        there.relay.cut()
        during = await there.open()
        for opened in (before, during):
            opened[1].write(b"anybody there?\n")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(opened[0].readline(), 0.1)
        there.relay.mend()
        for opened in (before, during):
            with pytest.raises(ENDED):
                await opened[0].readexactly(1)
        assert await ask(await there.open(), b"hello again\n") == b"hello again\n"

    play(scenario)


def test_a_target_that_is_not_there_ends_the_connection() -> None:
    async def scenario(there: Setting) -> None:
        there.relay.target = ("127.0.0.1", free_ports(1)[0])
        reader, _ = await there.open()
        with pytest.raises(ENDED):
            await reader.readexactly(1)

    play(scenario)
