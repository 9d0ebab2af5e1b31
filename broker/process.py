"""One broker as a process: its settings, its world, and the signals that end it.

Imports neither the command line's packages nor the clients': a broker is to start fast and stay small. SIGTERM and
SIGINT shut it down in a controlled way; a second one ends it at once.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Sequence

import uvloop

from odradek.broker.config import BrokerConfig, ConfigError, load_config
from odradek.broker.log.failure import UnusableDirectory
from odradek.broker.server import BrokerServer, StartFailure
from odradek.broker.world import World
from odradek.world.background import ThreadBackground
from odradek.world.children import ProcessChildren
from odradek.world.clock import Clock, LoopClock
from odradek.world.os_files import OsFiles
from odradek.world.stderr_log import log_to_stderr
from odradek.world.tcp import TcpNetwork
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.store import Store, StoreError

SWITCH_INTERVAL_SECONDS = 5e-5
"""Another Python thread (kazoo's) may hold the interpreter no longer than this while the loop wants it."""


def run(argv: Sequence[str] | None = None) -> int:
    """Until it is told to stop; the exit code."""
    arguments = argparse.ArgumentParser(prog="odradek broker", description="Run one broker in the foreground.")
    arguments.add_argument("file", help="a server.properties file with Kafka's own names")
    arguments.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    options = arguments.parse_args(argv)
    log_to_stderr()
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    try:
        config = load_config(options.file, options.override)
    except (ConfigError, OSError) as error:
        return _fail(error)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        return uvloop.run(_serve(config))
    except KeyboardInterrupt:
        return 130


def _fail(error: Exception) -> int:
    print(f"odradek broker: {error}", file=sys.stderr)
    return 1


async def _serve(config: BrokerConfig) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop_or_leave, stop)
    clock, background = LoopClock(loop), ThreadBackground(loop, config.background_threads)
    world = World(
        clock=clock,
        files=OsFiles(),
        network=TcpNetwork(
            loop,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
            backlog=config.socket_listen_backlog_size,
        ),
        background=background,
        random=random.Random(),
        zookeeper=_zookeeper(clock),
        children=ProcessChildren(loop),
    )
    server = BrokerServer(config, world)
    try:
        if not await _has_started(server, stop):
            await server.abort()
            return 0
        gc.collect()
        gc.freeze()
        stopping = loop.create_task(stop.wait())
        broken = loop.create_task(server.broken.wait())
        await asyncio.wait({stopping, broken}, return_when=asyncio.FIRST_COMPLETED)
    except (StartFailure, UnusableDirectory, StoreError, OSError) as error:
        await server.abort()
        return _fail(error)
    await server.stop()
    background.close()
    return 1 if server.broken.is_set() else 0


async def _has_started(server: BrokerServer, stop: asyncio.Event) -> bool:
    """False when it was told to stop before that: nobody waits for a ZooKeeper that is away. Raises what start does."""
    starting, stopping = asyncio.ensure_future(server.start()), asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return False
    starting.result()
    return True


def _zookeeper(clock: Clock) -> Callable[[BrokerConfig], Store]:
    def client(config: BrokerConfig) -> Store:
        return KazooStore(config.zookeeper_connect, clock, session_timeout_ms=config.zookeeper_session_timeout_ms)

    return client


def _stop_or_leave(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(130)
    stop.set()
