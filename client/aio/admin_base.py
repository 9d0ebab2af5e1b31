"""The opening and closing of the administrative client on asyncio, and the time its methods have."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.client import metrics
from odradek.client.aio.world import named, running_loop, warn_dropped, within, world_of
from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.config import AdminConfig, addresses, load
from odradek.client.errors import ClientClosed, ClientError, ClientTimeout
from odradek.world.clock import Clock
from odradek.world.network import Network

Result = TypeVar("Result")
GRACE_MS = 100.0
"""Time that a method has beyond its own, to say itself what it was waiting for."""


class AdminBase:
    """Opening, closing, and the time that a method has."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Any = None,
        **settings: Any,
    ) -> None:
        """Take settings (Kafka's admin client configs), and the world they are for. Raises ConfigError."""
        self.config = named(load(AdminConfig, config, settings), "adminclient")
        addresses(self.config.bootstrap_servers)
        self._world = world_of(network, clock, random)
        self._opened: Cluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    # -- beginning and end ---------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Begin. Harmless twice."""
        self.open(running_loop("Admin"))
        return self

    def open(self, loop: asyncio.AbstractEventLoop, *, from_other_threads: bool = False) -> None:
        """Begin on the running loop."""
        if self._opened is None:
            self._loop = loop
            self._opened = self._world.cluster(self.config)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections. Harmless twice."""
        self._closed = True
        if self._opened is not None:
            self._opened.close()

    async def abandon(self) -> None:
        """Close connections."""
        await self.close()

    @property
    def undelivered(self) -> int:
        """Nothing is sent."""
        return 0

    def __del__(self) -> None:
        cluster, loop = self.__dict__.get("_opened"), self.__dict__.get("_loop")
        if cluster is not None and loop is not None and not self._closed:
            warn_dropped(self, f"admin client {self.config.client_id}", loop, cluster.close)

    async def _run(
        self,
        what: str,
        work: Callable[[Cluster, Deadline], Coroutine[Any, Any, Result]],
        timeout_ms: float | None = None,
    ) -> Result:
        """Do something within `timeout_ms`, or default.api.timeout.ms. Raises ClientTimeout, ClientClosed."""
        if self._closed:
            raise ClientClosed("the admin client is closed")
        if self._opened is None:
            raise ClientError("the admin client is not started: use `async with`, or `await admin.start()`")
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms

        def too_late() -> ClientTimeout:
            said = f"{what}: not done within default.api.timeout.ms={limit_ms:g}"
            return ClientTimeout(said, setting="default.api.timeout.ms")

        question = work(self._opened, self._deadline(what, timeout_ms))
        return await within(self._opened, what, question, limit_ms + GRACE_MS, too_late)

    def _deadline(self, what: str, timeout_ms: float | None = None) -> Deadline:
        assert self._opened is not None
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return Deadline(self._opened, limit_ms, what, "default.api.timeout.ms")

    def metrics(self, raw: bool = False) -> Any:
        """Return what is measured, by Kafka's names of groups and sensors: group → name → figure."""
        if self._opened is None:
            raise ClientError("the admin client is not started: use `async with`, or `await admin.start()`")
        figures = self._opened.figures("admin-client-metrics")
        return metrics.raw(figures) if raw else figures
