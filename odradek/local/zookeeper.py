"""The embedded ZooKeeper: one Apache ZooKeeper 3.9 server for one machine, in a Java process of its own."""

import asyncio
import enum
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from odradek.local.java import NoZooKeeper, find_jars, find_java
from odradek.local.ports import check_port_free
from odradek.local.processes import Child

SESSION_TIMEOUT_MS = 4000
CLOSE_SESSION = -11
ANSWER_BYTES_MAX = 1024


class Readiness(enum.Enum):
    """Outcome of asking for a session."""

    READY = "sessions are given out"
    ABSENT = "nobody listens there, or what listens is no ZooKeeper that serves"
    SILENT = "the connection was accepted, and nothing came back in time"


async def ask_for_session(host: str, port: int, timeout_ms: float = 1000.0) -> Readiness:
    """Ask a ZooKeeper for a session and close that again; give up after `timeout_ms`."""
    connected = False
    try:
        async with asyncio.timeout(timeout_ms / 1000.0):
            reader, writer = await asyncio.open_connection(host, port)
            connected = True
            return Readiness.READY if await _shake_hands(reader, writer) else Readiness.ABSENT
    except TimeoutError:
        return Readiness.SILENT if connected else Readiness.ABSENT
    except (OSError, asyncio.IncompleteReadError):
        return Readiness.ABSENT


async def _shake_hands(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    try:
        # protocol version, last zxid seen, timeout, session id, password, read only
        _send(writer, struct.pack(">iqiqi16s?", 0, 0, SESSION_TIMEOUT_MS, 0, 16, bytes(16), False))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        if not 16 <= size <= ANSWER_BYTES_MAX:
            return False
        _, granted_ms, session_id = struct.unpack_from(">iiq", await reader.readexactly(size))
        _send(writer, struct.pack(">ii", 1, CLOSE_SESSION))
        await reader.read(ANSWER_BYTES_MAX)
        return bool(granted_ms > 0 and session_id)
    finally:
        writer.close()


def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(struct.pack(">i", len(message)) + message)


def _last_words(child: Child) -> str:
    """Return what its log says last: the exception, where it says with which code Java exits because of that."""
    said = child.last_line()
    return child.last_line(_JAVA_EXCEPTION) or said if "Exiting JVM" in said else said


_JAVA_EXCEPTION = re.compile(r"(Caused by: )?([a-z]\w*\.)+\w+(Exception|Error)\b")
NAME = "zookeeper"
HEAP_MB = 96
TICK_TIME_MS = 500
"""Sessions may last 2 to 20 ticks, unless its settings say otherwise: 1 to 10 seconds."""
SESSION_TIMEOUT_MAX_MS = 20 * TICK_TIME_MS
READY_TIMEOUT_SECONDS = 150.0
SILENCE_SECONDS = 20.0
"""Silence after which a ZooKeeper that accepts connections is started again: 3.9 can stumble over a client that
connects and leaves while it starts, and then never answers anybody (seen on a machine at its limit)."""
POLL_SECONDS = 0.03

SETTINGS = """\
tickTime={tick_time_ms}
dataDir={data}
clientPort={port}
clientPortAddress={host}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr,ruok,mntr
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""

JVM_FLAGS = (
    "-Xms32m",
    f"-Xmx{HEAP_MB}m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dlog4j2.level=INFO",
    # A crash of this machine may cost the last writes, a crash of a process does not; files grow in small steps.
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=4096",
)


class EmbeddedZooKeeper:
    """Data in `directory/zookeeper`, settings in `directory/config`, log in `directory/logs/zookeeper.log`.

    `settings` and `java_flags` come after our own, and so override them.
    """

    def __init__(
        self,
        directory: Path,
        port: int,
        host: str = "127.0.0.1",
        settings: Mapping[str, str] | None = None,
        java_flags: Sequence[str] = (),
    ) -> None:
        self.directory = directory.resolve()
        self._more = "".join(f"{name}={text}\n" for name, text in (settings or {}).items())
        self._java_flags = java_flags
        self.host = host
        self.port = port
        self.child: Child | None = None

    @property
    def connect(self) -> str:
        """Address as in `zookeeper.connect`."""
        return f"{self.host}:{self.port}"

    async def launch(self) -> None:
        """Start the process; `wait_ready` says when it serves. Raises NoZooKeeper, PortInUse."""
        check_port_free(self.host, self.port, "ZooKeeper")
        command = self._command(find_java(), find_jars())
        self.child = await Child.start(NAME, command, self.directory)

    async def wait_ready(self) -> None:
        """Return when it gives out sessions. Raises NoZooKeeper when it ends or takes too long."""
        assert self.child is not None, "launch() first"
        try:
            async with asyncio.timeout(READY_TIMEOUT_SECONDS):
                while not await self._serves_before_silence():
                    await self.child.stop()
                    await self.launch()
        except TimeoutError:
            raise NoZooKeeper(
                f"ZooKeeper did not serve within {READY_TIMEOUT_SECONDS:.0f} s: see {self.child.log_file}"
            ) from None
        self.check_alive()

    async def _serves_before_silence(self) -> bool:
        """Wait until it gives out sessions; False when it has accepted connections in silence for too long."""
        assert self.child is not None
        silent_since: float | None = None
        loop = asyncio.get_running_loop()
        while (answer := await ask_for_session(self.host, self.port)) is not Readiness.READY:
            self.check_alive()
            if answer is Readiness.ABSENT:
                silent_since = None
            elif silent_since is None:
                silent_since = loop.time()
            elif loop.time() - silent_since > SILENCE_SECONDS:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    async def start(self) -> None:
        """Launch it and wait until it is ready."""
        await self.launch()
        await self.wait_ready()

    async def until_end(self) -> None:
        """Wait until it ends, which it should not by itself."""
        assert self.child is not None, "launch() first"
        await self.child.wait()

    async def stop(self) -> None:
        """Stop ZooKeeper. Harmless when it does not run."""
        if self.child is not None:
            await self.child.stop()

    @property
    def end(self) -> str:
        """Sentence for a person about how it has ended; empty while it runs."""
        child = self.child
        if child is None or child.alive:
            return ""
        return f"ZooKeeper {child.describe_end()}: {_last_words(child)} (see {child.log_file})"

    def check_alive(self) -> None:
        """Raise NoZooKeeper when it has ended."""
        if self.end:
            raise NoZooKeeper(self.end)

    def _command(self, java: str, jars: list[str]) -> list[str]:
        data = self.directory / "zookeeper"
        data.mkdir(parents=True, exist_ok=True)
        settings = self.directory / "config" / "zookeeper.properties"
        settings.parent.mkdir(parents=True, exist_ok=True)
        own = SETTINGS.format(tick_time_ms=TICK_TIME_MS, data=data, port=self.port, host=self.host)
        settings.write_text(own + self._more)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [java, *JVM_FLAGS, *self._java_flags, "-cp", ":".join(jars), main, str(settings)]
