"""Child processes: their files, their end, and who does not want to end."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from odradek.local import processes
from odradek.local.ports import free_ports
from odradek.local.processes import Child, locked, read_pid
from odradek.local.zookeeper import Readiness, ask_for_session

SAY_AND_WAIT = "import signal, sys; print('ready', flush=True); sys.stderr.write('{words}\\n'); signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready')\nwhile True: signal.pause()"


async def start(directory: Path, program: str, said: str = "ready") -> Child:
    """A child that has said `ready`, or what else it is to say."""
    child = await Child.start("it", [sys.executable, "-u", "-c", program], directory)
    while said not in child.log_file.read_text():
        assert child.alive
        await asyncio.sleep(0.005)
    return child


def test_files_and_a_calm_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        child = await start(tmp_path, SAY_AND_WAIT.format(words="last words"), "last words")
        assert read_pid(tmp_path / "run" / "it.pid") == child.pid
        assert child.describe_end() == "is running"
        assert await child.stop()
        assert child.describe_end() == "was killed by SIGTERM"
        assert not (tmp_path / "run" / "it.pid").exists()
        assert child.last_line() == "last words"
        assert await child.stop()

    asyncio.run(scenario())


def test_who_does_not_end_is_killed(tmp_path: Path) -> None:
    async def scenario() -> None:
        child = await start(tmp_path, DEAF)
        assert not await child.stop(grace_seconds=0.05)
        assert child.process.returncode == -signal.SIGKILL

    asyncio.run(scenario())


def test_who_cannot_be_written_down_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full: `odradek stop` would not know of it."""
    monkeypatch.setattr(processes, "locked", lambda _: open("/dev/full", "w"))  # noqa: SIM115 (who asks closes it)

    async def scenario() -> None:
        with pytest.raises(OSError, match="No space left"):
            await Child.start("it", [sys.executable, "-c", DEAF], tmp_path)

    before = psutil.Process().children()
    asyncio.run(scenario())
    left = [one for one in psutil.Process().children() if one not in before]
    for one in left:
        one.kill()
    assert left == []


def test_an_exit_code(tmp_path: Path) -> None:
    async def scenario() -> None:
        child = await Child.start("it", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path)
        await child.wait()
        assert child.describe_end() == "exited with code 3"
        assert not child.alive

    asyncio.run(scenario())


@pytest.mark.parametrize("content", ["", "x", "999999999"])
def test_pid_files_that_name_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / "it.pid").write_text(content)
    assert read_pid(tmp_path / "it.pid") is None
    assert read_pid(tmp_path / "missing.pid") is None


def test_a_pid_file_of_a_crash_does_not_name_who_has_that_number_now(tmp_path: Path) -> None:
    """`odradek stop` would end an innocent program."""
    (tmp_path / "it.pid").write_text(f"{os.getpid()}\n")
    assert read_pid(tmp_path / "it.pid") is None
    with locked(tmp_path / "it.pid") as file:
        print(os.getpid(), file=file, flush=True)
        assert read_pid(tmp_path / "it.pid") == os.getpid()
    assert read_pid(tmp_path / "it.pid") is None


def test_of_two_that_start_at_once_one_has_the_pid_file(tmp_path: Path) -> None:
    """The later took it away from the other, which `odradek stop` did not find any more, and ran in the same folder."""
    pid_file = tmp_path / "up.pid"
    with locked(pid_file), pytest.raises(BlockingIOError):
        locked(pid_file)
    locked(pid_file).close()


def test_who_is_no_zookeeper_is_not_ready() -> None:
    async def scenario() -> None:
        async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        (port,) = free_ports(1)
        assert await ask_for_session("127.0.0.1", port) is Readiness.ABSENT
        async with await asyncio.start_server(babble, "127.0.0.1", port):
            assert await ask_for_session("127.0.0.1", port) is Readiness.ABSENT
        held: list[asyncio.StreamWriter] = []
        async with await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", port):
            assert await ask_for_session("127.0.0.1", port, timeout_ms=50) is Readiness.SILENT
            for writer in held:
                writer.close()
                await writer.wait_closed()

    asyncio.run(scenario())


def test_a_suspended_child_does_nothing_until_it_is_resumed_and_can_be_stopped(tmp_path: Path) -> None:
    async def scenario() -> None:
        child = await start(tmp_path, SAY_AND_WAIT.format(words=""))
        process = psutil.Process(child.pid)
        child.suspend()
        while process.status() != psutil.STATUS_STOPPED:
            await asyncio.sleep(0.005)
        child.resume()
        while process.status() == psutil.STATUS_STOPPED:
            await asyncio.sleep(0.005)
        child.suspend()
        assert await child.stop(), "who is suspended does not hear SIGTERM: it is resumed first"
        child.suspend()
        assert not child.suspended

    asyncio.run(scenario())
