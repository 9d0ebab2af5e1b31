"""Tests on virtual time: a simulated cluster, and an application's own code on asyncio clients beside it.

    async def test(cluster):
        cluster.application("billing", lambda: billing(cluster.bootstrap))
        ...
        await asyncio.sleep(3600)       # passes at once

    run(test, seed=7)

Hours of timeouts pass in no time, and a run of the same seed is the same run. Clients of odradek.aio need no argument
for it: in here they find the simulated network by themselves. Threads, sockets and time.time() are the real ones.
"""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from odradek.client.aio.world import World, surrounding
from odradek.testing.cluster.control import AsyncCluster
from odradek.testing.cluster.options import ClusterError, Options, setting_texts
from odradek.testing.socket_network import OUTSIDE
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from odradek.testing.virtual_process import ProcessKilled, VirtualProcess

T = TypeVar("T")

STARTED_AGAIN_S = 1.0
"""An application that has ended by an error is started again after so long, as a supervisor does."""
MIX = 1_000_003


class Application:
    """A program under test, in a virtual process and on a virtual host of its own."""

    def __init__(self, cluster: "VirtualCluster", name: str, main: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self.name, self._cluster, self._main = name, cluster, main
        self.process: VirtualProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        """Set when the program has returned."""

    def start(self) -> None:
        """Start the program in a new process."""
        around = surrounding.set(self._cluster.worlds(self.name))
        try:
            process = self.process = VirtualProcess(self.name)
        finally:
            surrounding.reset(around)
        self._task = asyncio.ensure_future(self._live(process))

    async def _live(self, process: VirtualProcess) -> None:
        try:
            await process.run(self._main())
        except ProcessKilled:
            return
        except Exception as error:  # noqa: BLE001 - a program may end by any
            self._cluster.note(self.name, f"ends: {type(error).__name__}: {error}")
            self.kill()
            await asyncio.sleep(STARTED_AGAIN_S)
            if self.process is None:
                self.start()
        else:
            self._cluster.note(self.name, "has done its work")
            self.ended.set()

    @property
    def running(self) -> bool:
        """True if the application has a process that has not ended."""
        return self.process is not None and not self.ended.is_set()

    def kill(self) -> None:
        """Kill the application as kill -9 does."""
        process, self.process = self.process, None
        if process is not None:
            process.resume()
            process.kill()
            self._cluster.network.end_programs(self.name)


class VirtualCluster(AsyncCluster):
    """A cluster on virtual time, given to the test by `run` and `explore`, and the applications beside it."""

    applications: dict[str, Application]
    _seed: int

    def application(self, name: str, main: Callable[[], Coroutine[Any, Any, object]]) -> Application:
        """Start the coroutine function `main` as a program in a virtual process; other methods know it by `name`.

        A program that raises is started again after a second, as a supervisor does. Raises ClusterError.
        """
        if name in self.applications or name == OUTSIDE or name.startswith("broker-"):
            raise ClusterError(f"application {name!r}: that name is taken")
        application = self.applications[name] = Application(self, name, main)
        self.note(name, "starts")
        application.start()
        return application

    async def kill_application(self, name: str) -> None:
        """Kill a program as `kill -9` does. Raises ClusterError for an unknown name."""
        self.note("test", f"kills {name}")
        self._application(name).kill()

    async def restart_application(self, name: str) -> None:
        """Start a program again from its beginning, after killing it if it runs. Raises ClusterError."""
        application = self._application(name)
        self.note("test", f"starts {name}")
        application.kill()
        application.start()

    async def suspend_application(self, name: str) -> None:
        """Suspend a program, as SIGSTOP does. Raises ClusterError."""
        application = self._application(name)
        if application.process is not None and not application.process.suspended:
            self.note("test", f"suspends {name}")
            application.process.suspend()
            self._simulated.suspend_programs(name)

    async def resume_application(self, name: str) -> None:
        """Resume a suspended program, as SIGCONT does. Does nothing if it was not suspended. Raises ClusterError."""
        application = self._application(name)
        if application.process is not None and application.process.suspended:
            self.note("test", f"resumes {name}")
            application.process.resume()
            self._simulated.resume_programs(name)

    def _application(self, name: str) -> Application:
        if name not in self.applications:
            known = ", ".join(self.applications) or "none"
            raise ClusterError(f"there is no application {name!r}: {known}")
        return self.applications[name]

    @property
    def _simulated(self) -> VirtualNetwork:
        assert isinstance(self.network, VirtualNetwork)
        return self.network

    def client_hosts(self) -> list[str]:
        return [OUTSIDE, *self.applications]

    def worlds(self, host: str) -> Callable[[], World]:
        """Return a maker of worlds for the clients of a host; each draws numbers of its own."""
        numbers = itertools.count()

        def make() -> World:
            source = random.Random(f"{self._seed} {host} {next(numbers)}")
            return World(self.network.host(host), self.clock, source)

        return make

    async def close(self) -> None:
        for application in self.applications.values():
            application.kill()
        await super().close()


C = TypeVar("C", bound=VirtualCluster)


def make_cluster(clock: VirtualClock, options: Options, seed: int, kind: type[C]) -> C:
    """Make one of a kind, not started. Raises ClusterError."""
    if options.data is not None or options.port:
        raise ClusterError("a simulated cluster has neither files nor ports: leave `data` and `port` out")
    cluster = kind(options, clock, VirtualNetwork(clock, seed), seed * MIX)
    cluster.applications, cluster._seed = {}, seed
    return cluster


def run(
    test: Callable[[VirtualCluster], Awaitable[T]],
    *,
    seed: int = 0,
    brokers: int = 3,
    topics: Mapping[str, int] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> T:
    """Run the coroutine function `test(cluster)` on virtual time and return its result.

    `seed` decides everything random. `brokers`, `topics` (name → number of partitions) and `settings` are as for
    `Cluster`. Raises what the test raises, and exceptions of tasks that nobody awaited.
    """
    options = Options(brokers, setting_texts(settings), dict(topics or {}))

    async def main(clock: VirtualClock) -> T:
        cluster = make_cluster(clock, options, seed, VirtualCluster)
        surrounding.set(cluster.worlds(OUTSIDE))
        try:
            await cluster.start()
            return await test(cluster)
        finally:
            await cluster.close()

    return run_virtual(main)
