"""What a blocking client stands on: its thread, the real network and clock, and the cluster on them."""

import itertools
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from odradek.client.cluster import Cluster
from odradek.client.config import CommonConfig, addresses
from odradek.client.loop_thread import LoopThread
from odradek.world.clock import LoopClock
from odradek.world.tcp import TcpNetwork

Result = TypeVar("Result")
Config = TypeVar("Config", bound=CommonConfig)
_numbers: dict[str, "itertools.count[int]"] = {}


def named(config: Config, kind: str) -> Config:
    """The configuration with a generated client.id, `producer-1`, `producer-2`, …, where none was given."""
    if config.client_id:
        return config
    return replace(config, client_id=f"{kind}-{next(_numbers.setdefault(kind, itertools.count(1)))}")


class Runtime:
    """A loop thread and a `Cluster` on it, until `stop`. Raises ConfigError, before there is a thread."""

    def __init__(self, config: Any) -> None:
        addresses(config.bootstrap_servers)
        self.thread = LoopThread(f"odradek-{config.client_id}")
        self.random = random.Random()
        self.clock = LoopClock(self.thread.loop)
        network = TcpNetwork(
            self.thread.loop,
            send_buffer_bytes=config.send_buffer_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
        )
        self.cluster = self.thread.call(lambda: Cluster(network, self.clock, self.random, config))

    def run(self, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine on the thread and wait for it."""
        return self.thread.run(make())

    def stop(self) -> None:
        """Close connections and end the thread; harmless twice."""
        self.thread.soon(self.cluster.close)
        self.thread.stop()
