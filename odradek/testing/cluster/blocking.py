"""`Cluster`: a whole cluster inside a test, on real sockets.

with Cluster(brokers=3) as cluster:
    cluster.create_topic("orders", partitions=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})   # of any library

async with Cluster() as cluster:        # the same methods are coroutines then
    await cluster.create_topic("orders")
"""

import asyncio
import os
import warnings
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from functools import wraps
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from odradek.testing.cluster.arguments import check_arguments
from odradek.testing.cluster.control import AsyncCluster
from odradek.testing.cluster.options import ClusterError, Options, setting_texts
from odradek.testing.cluster.runners import Process, Runner, Thread
from odradek.testing.cluster.views import SeenRequest

P = ParamSpec("P")
R = TypeVar("R")

CLOSED_MEANWHILE = "the cluster was closed meanwhile"


def blocking(
    method: Callable[Concatenate[AsyncCluster, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["Cluster", P], R]:
    """Return the method as a plain one of `Cluster`, which waits for its result."""

    @wraps(method)
    def call(cluster: "Cluster", *arguments: P.args, **named: P.kwargs) -> R:
        future = cluster.submit(method.__name__, arguments, named)
        try:
            return cast(R, future.result())
        except CancelledError:  # by the end of its loop: nobody else knows the future
            raise ClusterError(CLOSED_MEANWHILE) from None
        except BaseException:
            future.cancel()
            raise

    return cast("Callable[Concatenate[Cluster, P], R]", call)


class Cluster:
    """A Kafka cluster for a test: brokers, controller and ZooKeeper, for as long as its `with` block runs.

    Any Kafka client on this machine can connect to `bootstrap`. With `async with`, all methods are coroutines.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        data: str | PathLike[str] | None = None,
        port: int = 0,
        process: bool = False,
        trace: bool = True,
        log: str | PathLike[str] | None = None,
    ) -> None:
        """Take the options; nothing runs before `with` or `start`. Raises ClusterError.

        `brokers`: how many. `topics`: name → number of partitions, created at the start. `settings`: brokers' settings
        by Kafka's names. `data`: a folder for the logs, which stay there; None keeps them in memory. `port`: broker
        0's, the others take the next ones; 0 takes free ones. `process=True` runs the cluster in a child process, so
        that it and the test do not share one interpreter lock. `trace=False` records no requests. `log`: a file for the
        brokers' logs, only with `process=True`; without it they go to Python's logging.
        """
        if log is not None and not process:
            raise ClusterError("log is for process=True: else what brokers log goes to Python's logging")
        if not isinstance(topics or {}, Mapping):
            raise ClusterError(f"topics={topics!r}: partitions by name, as in {{'orders': 3}}")
        options = Options(
            brokers,
            setting_texts(settings),
            dict(topics or {}),
            None if data is None else Path(data),
            port,
            trace,
            None if log is None else Path(log),
        )
        self.runner: Runner = Process(options) if process else Thread(options)
        self.brokers = brokers
        """Number of brokers, including those that do not run."""
        self._bootstrap: str | None = None
        self._closed = False
        self._process_id = os.getpid()

    # life

    def start(self) -> Self:
        """Start the cluster where `with` cannot be used; `close` must follow. Raises ClusterError."""
        if self._closed or self._bootstrap is not None:
            raise ClusterError("a cluster is started once: make another one")
        started = self.runner.start()
        try:
            self._bootstrap = started.result()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop all brokers and free ports and memory. Does nothing the second time, or in a forked process."""
        self._closed = True
        if os.getpid() == self._process_id:
            self.runner.close()

    def submit(self, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Future[Any]:
        """Run a method of AsyncCluster on the cluster's loop; not for tests. Raises ClusterError, also after a fork;
        TypeError for arguments that the method does not have."""
        if os.getpid() != self._process_id:
            raise ClusterError("the cluster lives in another process, which this one was forked from: use `bootstrap`")
        if self._bootstrap is None and not self._closed:
            raise ClusterError("the cluster is not started: use `with`")
        check_arguments(getattr(AsyncCluster, method), arguments, named)
        return self.runner.submit(method, arguments, named)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncCluster:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:  # the thread starts it nevertheless, and nobody else would close it
            await asyncio.wait({starting})
            await asyncio.to_thread(self.close)
            raise
        return cast(AsyncCluster, _OnOtherLoop(self))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def __del__(self) -> None:
        if self.__dict__.get("_bootstrap") and not self._closed:
            warnings.warn("a Cluster was dropped without close()", ResourceWarning, stacklevel=2, source=self)
            self.close()

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers for `bootstrap.servers`: `host:port,host:port,…`. Raises ClusterError."""
        if self._bootstrap is None or self._closed:
            raise ClusterError("the cluster is closed" if self._closed else "the cluster is not started: use `with`")
        return self._bootstrap

    # topics

    create_topic = blocking(AsyncCluster.create_topic)
    delete_topic = blocking(AsyncCluster.delete_topic)
    topics = blocking(AsyncCluster.topics)

    # faults of brokers

    kill = blocking(AsyncCluster.kill)
    stop = blocking(AsyncCluster.stop)
    restart = blocking(AsyncCluster.restart)
    suspend = blocking(AsyncCluster.suspend)
    resume = blocking(AsyncCluster.resume)
    fail_disk = blocking(AsyncCluster.fail_disk)
    partition = blocking(AsyncCluster.partition)
    heal = blocking(AsyncCluster.heal)
    expire_session = blocking(AsyncCluster.expire_session)
    move_leader = blocking(AsyncCluster.move_leader)
    elect = blocking(AsyncCluster.elect)
    rebalance = blocking(AsyncCluster.rebalance)
    coordinator_moves = blocking(AsyncCluster.coordinator_moves)
    fence = blocking(AsyncCluster.fence)

    leader = blocking(AsyncCluster.leader)
    isr = blocking(AsyncCluster.isr)
    controller = blocking(AsyncCluster.controller)
    is_running = blocking(AsyncCluster.is_running)
    is_plain = blocking(AsyncCluster.is_plain)

    # faults by protocol

    respond = blocking(AsyncCluster.respond)
    delay = blocking(AsyncCluster.delay)
    drop_answer = blocking(AsyncCluster.drop_answer)
    drop_connection = blocking(AsyncCluster.drop_connection)
    hold = blocking(AsyncCluster.hold)
    release = blocking(AsyncCluster.release)
    clear = blocking(AsyncCluster.clear)

    wait_for = blocking(AsyncCluster.wait_for)

    # looking inside

    records = blocking(AsyncCluster.records)
    committed = blocking(AsyncCluster.committed)
    timeline = blocking(AsyncCluster.timeline)
    age_ms = blocking(AsyncCluster.age_ms)
    list_requests = blocking(AsyncCluster.requests)

    @property
    def requests(self) -> list[SeenRequest]:
        """The last ten thousand requests of clients: client, API, sizes in bytes, times in ms. Raises ClusterError."""
        return self.list_requests()


class _OnOtherLoop:
    """Methods of an AsyncCluster that runs on another loop, as coroutines of this one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if not callable(getattr(AsyncCluster, name, None)):
            raise AttributeError(f"a cluster has no method {name!r}")

        async def call(*arguments: Any, **named: Any) -> Any:
            try:
                return await asyncio.wrap_future(self._cluster.submit(name, arguments, named))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise ClusterError(CLOSED_MEANWHILE) from None  # as the test goes on

        return call
