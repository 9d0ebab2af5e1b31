"""World of an asyncio client: the network, the clock and the randomness that it was given, or the real ones."""

import asyncio
import itertools
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from random import Random
from typing import NamedTuple, TypeVar

from odradek.client.cluster import Cluster
from odradek.client.config import CommonConfig
from odradek.client.errors import ClientError
from odradek.client.waiting import call_soon
from odradek.world.clock import Clock, LoopClock
from odradek.world.network import Network
from odradek.world.tcp import TcpNetwork

Config = TypeVar("Config", bound=CommonConfig)
_numbers: dict[str, "itertools.count[int]"] = {}


def named(config: Config, kind: str) -> Config:
    """Return the configuration with a generated client.id, `producer-1`, `producer-2`, …, where none was given."""
    if config.client_id:
        return config
    return replace(config, client_id=f"{kind}-{next(_numbers.setdefault(kind, itertools.count(1)))}")


class World(NamedTuple):
    """Network, clock and randomness of a client; None means the real one, on the running loop."""

    network: Network | None = None
    clock: Clock | None = None
    random: Random | None = None

    def cluster(self, config: CommonConfig) -> Cluster:
        """Return a Cluster that uses this world. To be called on the client's loop."""
        network, clock = self.network, self.clock
        if network is None:
            network = TcpNetwork(
                asyncio.get_running_loop(),
                send_buffer_bytes=config.send_buffer_bytes,
                receive_buffer_bytes=config.receive_buffer_bytes,
            )
        if clock is None:
            clock = LoopClock(asyncio.get_running_loop())
        return Cluster(network, clock, self.random or Random(), config)


surrounding: ContextVar[Callable[[], World] | None] = ContextVar("odradek_world", default=None)
"""Function that makes the world of clients that are given none. A simulation sets it for the code that it runs."""


def world_of(network: Network | None, clock: Clock | None, random: Random | None) -> World:
    """Return the world of a client: the parts that it was given, the others from `surrounding`."""
    make = surrounding.get()
    around = World() if make is None else make()
    return World(network or around.network, clock or around.clock, random or around.random)


def running_loop(what: str) -> asyncio.AbstractEventLoop:
    """Return the loop that runs. Raises ClientError, which says that `what` needs one, when none does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ClientError(f"{what} needs asyncio: no asyncio event loop is running here") from None


def warn_dropped(client: object, said: str, loop: asyncio.AbstractEventLoop, clear_up: Callable[[], object]) -> None:
    """Warn of a client that nobody has closed, and let its loop clear up after it. To be called from `__del__`."""
    warnings.warn(f"{said} was dropped without close()", ResourceWarning, stacklevel=2, source=client)
    call_soon(loop, clear_up)
