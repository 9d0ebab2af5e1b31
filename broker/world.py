"""The outside of a broker as one record: clock, files, network, ZooKeeper (odradek/world has the protocols)."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter

from odradek.broker.config import BrokerConfig
from odradek.world.background import Background
from odradek.world.children import Children
from odradek.world.clock import Clock
from odradek.world.files import Files
from odradek.world.network import Network
from odradek.zk_schema.store import Store


async def itself(host: str) -> str:
    """Take the name of a host for its address, where networks know names."""
    return host


@dataclass(frozen=True, slots=True)
class World:
    """Clock, files, network, processes and ZooKeeper that a broker is given: all that it touches outside of itself."""

    clock: Clock
    files: Files
    network: Network
    background: Background
    random: random.Random
    zookeeper: Callable[[BrokerConfig], Store]
    address_of: Callable[[str], Awaitable[str]] = itself
    """Looks up, without holding the loop, where a host of this machine listens. Raises OSError."""
    controller_network: Network | None = None
    """Network by which the controller connects to brokers, if it is not `network`."""
    children: Children | None = None
    """Child processes; without them nothing is compacted."""
    processor_ms: Callable[[], float] = lambda: perf_counter() * 1000.0
    """Time in ms that also passes while the loop works, as the loop's own clock does not show it: it measures how long
    the loop has worked for a client."""
