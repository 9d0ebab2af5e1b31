"""Connecting to another broker takes no longer than the settings say."""

import asyncio
from collections.abc import Callable

import pytest

from odradek.broker.cluster.peer import ConnectionSetup
from odradek.broker.settings.network_settings import ConnectionSettings
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.network import Endpoint, Listener


class BlackHole:
    """A network that drops every packet, or refuses at once."""

    def __init__(self) -> None:
        self.refuses = False

    def listen(self, host: str, port: int, accepted: Callable[[Endpoint], object]) -> Listener:
        raise NotImplementedError

    async def connect(self, host: str, port: int) -> Endpoint:
        if self.refuses:
            raise ConnectionRefusedError("nobody listens")
        await asyncio.Event().wait()
        raise AssertionError("nothing ever comes")


def test_connecting_is_given_up_ever_later() -> None:
    async def main(clock: VirtualClock) -> None:
        settings = ConnectionSettings(
            socket_connection_setup_timeout_ms=1000, socket_connection_setup_timeout_max_ms=3000
        )
        network = ConnectionSetup(BlackHole(), settings)
        taken = []
        for port in (1, 1, 1, 1, 2):
            begin_ms = clock.monotonic_ms()
            with pytest.raises(OSError, match=r"socket\.connection\.setup\.timeout\.ms"):
                await network.connect("far", port)
            taken.append(round(clock.monotonic_ms() - begin_ms))
        assert taken == [1000, 2000, 3000, 3000, 1000], "another address begins anew"

    run_virtual(main)


def test_who_gives_up_before_is_obeyed_and_refusals_come_through() -> None:
    async def main(clock: VirtualClock) -> None:
        hole = BlackHole()
        network = ConnectionSetup(hole, ConnectionSettings())
        connecting = asyncio.ensure_future(network.connect("far", 1))
        clock.call_later(10, connecting.cancel)
        with pytest.raises(asyncio.CancelledError):
            await connecting
        hole.refuses = True
        with pytest.raises(ConnectionRefusedError):
            await network.connect("far", 1)

    run_virtual(main)
