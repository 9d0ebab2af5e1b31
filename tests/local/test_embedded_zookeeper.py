"""Starting the embedded ZooKeeper when it does not come up as it should."""

import asyncio
import sys
from pathlib import Path

import pytest

from odradek.local import zookeeper
from odradek.local.java import NoZooKeeper
from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.patience import PATIENCE_SECONDS

STAND_IN = """\
import pathlib, socket, struct, sys
starts = pathlib.Path(sys.argv[2])
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
kept = []
while True:
    connection, _ = listener.accept()
    if len(starts.read_text()) < int(sys.argv[3]):
        kept.append(connection)  # accepted, and never a word
        continue
    connection.recv(1024)
    answer = struct.pack(">iiqi16s?", 0, 4000, 7, 16, bytes(16), False)
    connection.sendall(struct.pack(">i", len(answer)) + answer)
    connection.recv(1024)
    connection.close()
"""
"""Answers from its Nth start on; until then it accepts connections and says nothing."""


def stand_in(directory: Path, serves_at_start: int) -> EmbeddedZooKeeper:
    server = EmbeddedZooKeeper(directory, free_ports(1)[0])
    program, starts = directory / "stand_in.py", directory / "starts"
    program.write_text(STAND_IN)
    command = [sys.executable, str(program), str(server.port), str(starts), str(serves_at_start)]
    server._command = lambda java, jars: command  # type: ignore[method-assign]
    return server


def test_a_silent_one_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        server = stand_in(tmp_path, serves_at_start=2)
        patience, launch = iter((0.0, PATIENCE_SECONDS)), server.launch  # the second may be slow to answer

        async def launch_with_patience() -> None:
            monkeypatch.setattr(zookeeper, "SILENCE_SECONDS", next(patience))
            await launch()

        monkeypatch.setattr(server, "launch", launch_with_patience)
        await server.start()
        await server.stop()
        assert (tmp_path / "starts").read_text() == "xx"

    asyncio.run(main())


def test_one_that_stays_silent_is_one_line_that_names_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "READY_TIMEOUT_SECONDS", 1.5)

    async def main() -> None:
        server = stand_in(tmp_path, serves_at_start=100)
        with pytest.raises(NoZooKeeper, match=r"did not serve within .* see .*zookeeper\.log"):
            await server.start()
        await server.stop()

    asyncio.run(main())


LAST_WORDS = """\
2026-11-28T23:57:15.798380854Z main ERROR Severe unrecoverable error, exiting
java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)

2026-11-28T23:57:15.849115772Z main ERROR Exiting JVM with code 10
"""


def test_one_that_ends_by_an_exception_is_one_line_that_names_it(tmp_path: Path) -> None:
    """On a full disk it was "Exiting JVM with code 10", and nothing else."""

    async def main() -> None:
        server = stand_in(tmp_path, serves_at_start=1)
        server._command = lambda java, jars: [sys.executable, "-c", f"print({LAST_WORDS!r}); raise SystemExit(10)"]  # type: ignore[method-assign]
        with pytest.raises(NoZooKeeper, match=r"with code 10: java\.io\.IOException: No space left on device \(see "):
            await server.start()

    asyncio.run(main())
