"""The process of one broker: its settings, its world, and the signals that end it.

Imports neither the command line's packages nor the clients': a broker is to start fast and stay small. SIGTERM, SIGINT
and SIGHUP shut it down in a controlled way, as Kafka's; a second SIGTERM or SIGINT ends it at once.
"""

import argparse
import asyncio
import gc
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence

import uvloop

from odradek.broker.config import OVERRIDE, BrokerConfig, ConfigError, load_config
from odradek.broker.log.errors import UnusableDirectory
from odradek.broker.server import BrokerServer, StartFailure
from odradek.broker.world import World
from odradek.world.background import NO_FURTHER_THREAD, ThreadBackground
from odradek.world.children import ProcessChildren
from odradek.world.clock import Clock, LoopClock
from odradek.world.memory import end_when_exhausted
from odradek.world.os_files import OsFiles
from odradek.world.process_log import log_as, log_to_stderr
from odradek.world.tasks import Tasks
from odradek.world.tcp import TcpNetwork
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.link import OPEN
from odradek.zk_schema.store import Store, StoreError

log = logging.getLogger(__name__)

SWITCH_INTERVAL_SECONDS = 5e-5
"""Longest time for which another Python thread (kazoo's) may hold the interpreter while the loop wants it."""
LINK_SETTINGS = ("zookeeper.ssl.client.enable", "zookeeper.set.acl", "zookeeper.sasl.jaas.config")
"""Settings for TLS, a login and access lists at ZooKeeper: if none is set, the link has none of these."""

FAILED, WRONG_USAGE = 1, 2


def run(argv: Sequence[str] | None = None, origins: Mapping[str, str] | None = None) -> int:
    """Run a broker until it is told to stop; return the exit code. `origins` are those of `load_config`."""
    arguments = argparse.ArgumentParser(prog="odradek broker", description="Run one broker in the foreground.")
    arguments.add_argument("file", help="a server.properties file with Kafka's own names")
    arguments.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    options = arguments.parse_args(argv)
    log_to_stderr()
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    try:
        config = load_config(options.file, options.override, origins=origins)
        log_as(
            config.layers.given("logger.format"),
            config.broker_id if config.broker_id >= 0 else None,
            config.logger_dir,
            config.logger_max_bytes,
            config.logger_backups,
        )
    except (ConfigError, OSError) as error:
        return _fail(error, WRONG_USAGE if str(error).startswith(OVERRIDE) else FAILED)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    end_when_exhausted()
    return _run(_serve(config))


def _run(serving: Coroutine[object, object, int]) -> int:
    """Run the broker on a loop of its own; return its exit code. To end, the loop needs a thread: there may be none."""
    code: int | None = None

    async def serve() -> None:
        nonlocal code
        code = await serving

    try:
        uvloop.run(serve())
    except RuntimeError as error:
        if NO_FURTHER_THREAD not in str(error):
            raise
        if code is None:
            return _fail(OSError(f"{error}: the limit of threads is reached (ulimit -u, or pids.max of the container)"))
    assert code is not None
    return code


def _fail(error: Exception, code: int = FAILED) -> int:
    """Print what is wrong in one line, an OSError without its number; return `code`."""
    words = str(error)
    if isinstance(error, OSError) and error.strerror:
        words = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    print(f"odradek broker: {words}", file=sys.stderr)
    return code


class _Signals:
    """Signals of the process: the first one asks to stop, the second one ends the process.

    A SIGHUP only asks: one closed terminal sends it twice, from the kernel and from the shell, and systemd may send it
    right after SIGTERM. After nohup it does nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.asked = asyncio.Event()
        """Set when the broker is to stop: by a signal, or by itself when it cannot go on."""
        self.on_signal: Callable[[], object] = self.asked.set
        self._came = False
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._come)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, self._ask)

    def _come(self) -> None:
        if self._came:
            log.critical("told to stop a second time: ending at once, without handing over what is led here")
            os._exit(130)
        self._came = True
        log.info("told to stop")
        self._ask()

    def _ask(self) -> None:
        self.asked.set()
        self.on_signal()


async def _serve(config: BrokerConfig) -> int:
    loop = asyncio.get_running_loop()
    signals = _Signals(loop)
    clock, background = LoopClock(loop), ThreadBackground(loop, config.background_threads)
    network = TcpNetwork(
        loop,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        backlog=config.socket_listen_backlog_size,
    )
    world = World(
        clock=clock,
        files=OsFiles(),
        network=network,
        address_of=network.address_of,
        background=background,
        random=random.Random(),
        zookeeper=_zookeeper(clock),
        children=ProcessChildren(Tasks(clock, log.critical)),
    )
    server = BrokerServer(config, world, on_broken=signals.asked.set)
    try:
        server.on_loaded = _keep_for_good
        if not await _start(server, signals):
            await server.abort()
            return 0
        _keep_for_good()
        await signals.asked.wait()
    except (StartFailure, UnusableDirectory, StoreError, OSError) as error:
        await server.abort()
        return _fail(error)
    await server.stop()
    background.close()
    return 1 if server.broken.is_set() else 0


def _keep_for_good() -> None:
    """Have the garbage collector look through all that is there once, and never again.

    Of 10,000 logs that takes a tenth of a second: it is done before anybody is served.
    """
    gc.collect()
    gc.freeze()


async def _start(server: BrokerServer, signals: _Signals) -> bool:
    """Start the broker; False when a signal stopped it before, as while ZooKeeper is away. Raises what `start` does."""
    here = asyncio.current_task()
    assert here is not None
    signals.on_signal = here.cancel
    try:
        await server.start()
    except asyncio.CancelledError:
        if not signals.asked.is_set():
            raise
        here.uncancel()
        return False
    finally:
        signals.on_signal = signals.asked.set
    return True


def _zookeeper(clock: Clock) -> Callable[[BrokerConfig], Store]:
    def client(config: BrokerConfig) -> Store:
        """Make a client of ZooKeeper. What TLS needs is imported where something is set. Raises BadSecuritySetting."""
        link = OPEN
        if any(config.value(name) for name in LINK_SETTINGS):
            from odradek.security.zookeeper_link import read_link

            link = read_link(config.value)
        return KazooStore(
            config.zookeeper_connect,
            clock,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            requests_at_once=config.zookeeper_max_in_flight_requests,
            link=link,
        )

    return client
