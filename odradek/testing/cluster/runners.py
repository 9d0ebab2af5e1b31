"""Runners of a cluster on sockets: on a thread of this process, or in a process of its own.

Both take orders from any thread: `submit` names a method of AsyncCluster, and gives a future of its result.
"""

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection, Pipe
from typing import Any, Protocol

from odradek.testing.cluster.control import AsyncCluster, on_sockets
from odradek.testing.cluster.options import ClusterError, Options
from odradek.testing.process_loop import OwnedFuture, SocketLoop
from odradek.world.process_log import log_to_stderr

END_S = 60.0
"""Time that a busy machine may take to close the logs of many partitions."""
Arguments = tuple[Any, ...]


class Runner(Protocol):
    """A place where one cluster lives."""

    def start(self) -> "Future[str]":
        """Begin; the addresses of the brokers when they serve."""

    def submit(self, method: str, arguments: Arguments, named: Mapping[str, Any]) -> "Future[Any]":
        """Have a method of the AsyncCluster run. Raises ClusterError when the cluster is closed."""

    def close(self) -> None:
        """End the cluster and what it lives in. Harmless twice."""


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave out what nobody can look at any more, because its broker was killed."""
    future = context.get("future")
    if not (isinstance(future, OwnedFuture) and future.nobody_waits):
        loop.default_exception_handler(context)


class Thread:
    """A daemon thread of this process with a loop of its own."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._started: Future[str] = Future()
        self._cluster: AsyncCluster | None = None
        self._loop: SocketLoop | None = None
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="odradek-cluster", daemon=True)

    def start(self) -> "Future[str]":
        self._thread.start()
        return self._started

    def _run(self) -> None:
        self._loop = loop = SocketLoop()
        loop.set_exception_handler(_report)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve(loop))

    async def _serve(self, loop: SocketLoop) -> None:
        try:
            cluster = await on_sockets(self._options, loop)
            try:
                await cluster.start()
                self._cluster = cluster
                self._started.set_result(cluster.bootstrap)
                await self._end.wait()
            finally:
                await cluster.close()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    def submit(self, method: str, arguments: Arguments, named: Mapping[str, Any]) -> "Future[Any]":
        loop, cluster = self._loop, self._cluster
        if loop is None or cluster is None or loop.is_closed():
            raise ClusterError("the cluster is closed")
        return asyncio.run_coroutine_threadsafe(getattr(cluster, method)(*arguments, **named), loop)

    def close(self) -> None:
        loop, self._cluster = self._loop, None
        if loop is None:
            self._end.set()  # nobody waits for it yet
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._end.set)  # it may just be starting: Ctrl-C waits for that and no longer
        if self._thread.ident is not None:
            self._thread.join(END_S)


class Process:
    """A Python of its own, which ends when this one does or closes it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.pipe: Connection | None = None
        """Pipe to the child, while there is one."""
        self._reader: threading.Thread | None = None
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._number = 0

    def start(self) -> "Future[str]":
        ours, theirs = Pipe()
        command = [sys.executable, "-m", "odradek.testing.cluster.runners", str(theirs.fileno())]
        with contextlib.ExitStack() as opened:
            errors = None if self._options.log is None else opened.enter_context(self._options.log.open("ab"))
            self._process = subprocess.Popen(command, stderr=errors, pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        self.pipe = ours
        started: Future[str] = Future()
        self._waiting[0] = started
        ours.send(self._options)
        self._reader = threading.Thread(target=self._read, args=(ours,), name="odradek-cluster", daemon=True)
        self._reader.start()
        return started

    def _read(self, pipe: Connection) -> None:
        while True:
            try:
                number, result, error = pipe.recv()
            except (EOFError, OSError):
                break
            with self._lock:
                waiting = self._waiting.pop(number)
            if not waiting.set_running_or_notify_cancel():
                continue
            if error is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(result)
        with self._lock:
            self.pipe = None
            pipe.close()
            for waiting in self._waiting.values():
                if waiting.set_running_or_notify_cancel():
                    waiting.set_exception(ClusterError("the cluster is closed"))
            self._waiting.clear()

    def submit(self, method: str, arguments: Arguments, named: Mapping[str, Any]) -> "Future[Any]":
        with self._lock:
            if self.pipe is None:
                raise ClusterError("the cluster is closed")
            self._number += 1
            waiting = self._waiting[self._number] = Future[Any]()
            self.pipe.send((self._number, method, arguments, dict(named)))
        return waiting

    def wait(self, timeout_s: float = END_S) -> int:
        """Wait until the child has ended; return its exit code."""
        assert self._process is not None and self._reader is not None
        code = self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def close(self) -> None:
        with self._lock:
            pipe = self.pipe
            if pipe is not None:
                pipe.send(None)
        if self._process is not None:
            self.wait()


class _Served:
    """The other end, in the child."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._running: set[Future[Any]] = set()

    def run(self) -> None:
        options = self._pipe.recv()
        if options.log is not None:
            log_to_stderr()
        thread = Thread(options)
        started = thread.start()
        self._answer(0, started)
        try:
            if started.exception() is None:
                self._obey(thread)
        finally:
            thread.close()

    def _obey(self, thread: Thread) -> None:
        while True:
            try:
                order = self._pipe.recv()
            except EOFError:  # whoever made it is gone
                return
            if order is None:
                return
            number, method, arguments, named = order
            future = thread.submit(method, arguments, named)
            future.add_done_callback(self._answerer(number))

    def _answerer(self, number: int) -> Callable[["Future[Any]"], None]:
        return lambda future: self._answer(number, future)

    def _answer(self, number: int, future: "Future[Any]") -> None:
        if future.cancelled():  # the cluster is being closed: the end of the pipe says so
            return
        error = future.exception()
        try:
            self._pipe.send((number, None if error else future.result(), error))
        except (pickle.PicklingError, TypeError, AttributeError) as unsendable:
            self._pipe.send((number, None, ClusterError(f"{error or unsendable}")))
        except OSError:  # whoever made it is gone
            return


if __name__ == "__main__":
    _Served(Connection(int(sys.argv[1]))).run()
    os._exit(0)
