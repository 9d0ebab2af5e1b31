"""Opening and closing, which all clients on asyncio have in common, and the time limits of the admin client."""

import asyncio
import struct
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.client import metrics
from odradek.client.aio.world import World, named, running_loop, warn_dropped, world_of
from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.config import AdminConfig, CommonConfig, addresses, load, with_time_for_a_request
from odradek.client.errors import ClientClosed, ClientError, ConfigError
from odradek.client.waiting import call_soon
from odradek.world.clock import Clock
from odradek.world.network import Network


class AsyncClient:
    """A client of one loop. Subclasses say how it begins, and how it is closed."""

    config: CommonConfig

    def __init__(self, world: World) -> None:
        """Take the network, clock and randomness that the client uses."""
        self._world = world
        self._loop: asyncio.AbstractEventLoop | None = None
        self._from_other_threads = False
        self._call_on_loop: Callable[[Callable[[], object]], object] = lambda function: function()

    async def start(self) -> Self:
        """Start the client on the running loop; connections are opened when needed. Calling it again does nothing."""
        self.open(running_loop(type(self).__name__))
        return self

    def open(self, loop: asyncio.AbstractEventLoop, *, from_other_threads: bool = False) -> None:
        """Start on the running loop, as `start` does. With `from_other_threads`, methods that are not coroutines may be
        called from any thread: for the blocking clients."""
        if self._loop is not None:
            return
        self._loop = loop
        if from_other_threads:
            self._from_other_threads = True
            self._call_on_loop = partial(call_soon, loop)
        self._begin(self._world.cluster(self.config))

    @property
    def _of_a_blocking_one(self) -> bool:
        """True when this is the core of a blocking client, which clears up for both: it has a thread to end."""
        return self._from_other_threads

    def _begin(self, cluster: Cluster) -> None:
        raise NotImplementedError

    def _check_loop(self) -> None:
        """Raise ClientError on another loop than its own, where a call would wait for ever."""
        running = asyncio._get_running_loop()
        if running is self._loop or running is None or self._loop is None or self._from_other_threads:
            return
        state = "is closed" if self._loop.is_closed() else "is another one"
        raise ClientError(
            f"{type(self).__name__} {self.config.client_id}: the event loop on which it was started {state}: "
            "make, use and close a client on the same loop"
        )

    async def close(self) -> None:
        """Close the client. Calling it again does nothing."""
        raise NotImplementedError

    async def abandon(self) -> None:
        """Close within the time of a few requests and without callbacks: the application has dropped the client."""
        await self.close()

    @property
    def undelivered(self) -> int:
        """Number of records that were sent and are not acknowledged yet."""
        return 0

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class QuestionsClient(AsyncClient):
    """A client that only sends requests: it has nothing to close but connections."""

    _kind = "client"

    def __init__(self, world: World) -> None:
        """Take the network, clock and randomness that the client uses."""
        super().__init__(world)
        self._cluster: Cluster | None = None
        self._closed = False

    def _begin(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def _started(self) -> Cluster:
        """Return the way to the cluster. Raises ClientClosed, and ClientError before `start`."""
        if self._closed:
            raise ClientClosed(f"the {self._kind} is closed")
        if self._cluster is None:
            raise ClientError(f"the {self._kind} is not started: use `async with`, or `await start()`")
        self._check_loop()
        return self._cluster

    async def close(self) -> None:
        """Close all connections. Calling it again does nothing."""
        self._closed = True
        if self._cluster is not None:
            self._cluster.close()

    def __del__(self) -> None:
        state: dict[str, Any] = self.__dict__
        cluster, loop = state.get("_cluster"), state.get("_loop")
        if cluster is not None and loop is not None and not self._closed and not self._of_a_blocking_one:
            warn_dropped(self, f"{self._kind} {self.config.client_id}", loop, cluster.close)


Result = TypeVar("Result")


class AdminBase(QuestionsClient):
    """Base of the admin client: its opening, and the time limits of its methods."""

    config: AdminConfig
    _kind = "admin client"

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Any = None,
        **settings: Any,
    ) -> None:
        """Take settings: Kafka's admin client configs. The other arguments are for tests. Raises ConfigError."""
        super().__init__(world_of(network, clock, random))
        self.config = named(with_time_for_a_request(load(AdminConfig, config, settings)), "adminclient")
        addresses(self.config.bootstrap_servers)

    async def _run(
        self,
        what: str,
        work: Callable[[Cluster, Deadline], Coroutine[Any, Any, Result]],
        timeout_ms: float | None = None,
    ) -> Result:
        """Carry out `work` within `timeout_ms` (None: default.api.timeout.ms); `what` names it in errors.

        Raises ClientTimeout, ClientClosed, ConfigError for numbers and texts that no request can hold.
        """
        cluster, deadline = self._started(), self._deadline(what, timeout_ms)
        try:
            return await deadline.bound(work(cluster, deadline))
        except (struct.error, UnicodeEncodeError) as error:
            _, requires, limits = str(error).partition("format requires ")
            said = f"a number is not in {limits}" if requires else error
            raise ConfigError(f"{what} cannot be sent: {said}") from error

    def _deadline(self, what: str, timeout_ms: float | None = None) -> Deadline:
        if timeout_ms is not None:
            return Deadline(self._started(), timeout_ms, what, "timeout_ms")
        return Deadline(self._started(), self.config.default_api_timeout_ms, what, "default.api.timeout.ms")

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics under Kafka's names: group → name → value."""
        figures = self._started().figures("admin-client-metrics")
        return metrics.raw(figures) if raw else figures
