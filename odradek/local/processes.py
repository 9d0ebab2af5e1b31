"""Child processes in process groups of their own, with a log file and a pid file."""

import asyncio
import contextlib
import fcntl
import os
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TextIO

KILL_AFTER_SECONDS = 10.0
ELSEWHERE = -1
"""Number in place of a pid: the process lives, but cannot be signalled from here."""


class Child:
    """A process that this one started. Ctrl-C in the terminal does not reach it: it is stopped in its turn."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, pid_file: Path, log_file: Path) -> None:
        self.name = name
        self.process = process
        self.pid = process.pid
        self.pid_file = pid_file
        self.log_file = log_file
        self.suspended = False

    @classmethod
    async def start(cls, name: str, command: Sequence[str], directory: Path) -> "Child":
        """Run it with `directory/logs/NAME.log` (appended to) as its output and `directory/run/NAME.pid`."""
        log_file = directory / "logs" / f"{name}.log"
        pid_file = directory / "run" / f"{name}.pid"
        for path in (log_file, pid_file):
            path.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("ab") as log, locked(pid_file) as pid:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(pid.fileno(),),
            )
            try:
                print(process.pid, file=pid, flush=True)
            except OSError:  # the disk is full, and nobody else could find the process
                process.kill()
                await process.wait()
                raise
        return cls(name, process, pid_file, log_file)

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def describe_end(self) -> str:
        """Tell a person how the process ended, or that it is running."""
        code = self.process.returncode
        if code is None:
            return "is running"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    async def wait(self) -> None:
        """Return when it has ended; takes its pid file away."""
        await self.process.wait()
        self.pid_file.unlink(missing_ok=True)

    async def stop(self, grace_seconds: float = KILL_AFTER_SECONDS) -> bool:
        """Stop with SIGTERM, then SIGKILL for the whole group after `grace_seconds`. False when it had to be killed."""
        self.ask_to_stop()
        try:
            async with asyncio.timeout(grace_seconds):
                await self.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self.wait()
            return False
        return True

    def ask_to_stop(self) -> None:
        """Send SIGTERM and wait for nothing. A process that was suspended goes on, or it would never hear of it."""
        if self.alive:
            self.resume()
            self._signal(signal.SIGTERM)

    def suspend(self) -> None:
        """Suspend the process with SIGSTOP: it does nothing any more, and nobody is told."""
        if self.alive:
            self._signal(signal.SIGSTOP)
            self.suspended = True

    def resume(self) -> None:
        """Let a suspended process go on, with SIGCONT."""
        if self.suspended:
            self._signal(signal.SIGCONT)
            self.suspended = False

    def kill(self) -> None:
        """Send SIGKILL to the whole group, and wait for nothing."""
        if self.alive:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return

    def last_line(self, like: re.Pattern[str] = re.compile(r"\s*\S")) -> str:
        """Return the last line of the process's log that begins `like` this; by default, the last that is not blank."""
        lines = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        return next((line.strip() for line in reversed(lines) if like.match(line)), "")


def locked(pid_file: Path) -> TextIO:
    """Make a pid file anew, locked for as long as this process, or one that inherits it, has it open.

    A number alone proves nothing: after a crash, or a restart of the machine, it is some other program's. Raises
    BlockingIOError where another process has it, started at the same moment perhaps.
    """
    with alone(pid_file.parent):
        with contextlib.suppress(FileNotFoundError), pid_file.open() as before:
            lock(before, fcntl.LOCK_SH | fcntl.LOCK_NB)
        pid_file.unlink(missing_ok=True)
        file = pid_file.open("x")
        lock(file)
    return file


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Make others wait who want the same, while something is looked for in a directory and made there. No promise where
    the file system has no locks."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_pid(pid_file: Path) -> int | None:
    """Return the pid in a file, if there is one and that process lives.

    It is ELSEWHERE when the process is one of another container, whose number is a stranger's here, or of another
    user, or of another machine that shares the directory.
    """
    try:
        with pid_file.open() as file:
            try:
                lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = int(file.read())
                return pid if _has_open(pid, os.fstat(file.fileno())) else ELSEWHERE
    except (FileNotFoundError, ValueError):
        pass
    return None


def parent_of(pid: int) -> int | None:
    """Return the pid of the process that has started `pid`; None when `pid` is gone, or ELSEWHERE."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[1])


def described(pid: int) -> str:
    """Tell a person which process `read_pid` has found."""
    return "in another container, or of another user or machine" if pid == ELSEWHERE else f"pid {pid}"


def lock(file: IO[Any], operation: int = fcntl.LOCK_EX) -> None:
    """Lock a file until it is closed. Raises BlockingIOError; OSError that says what to do where the file system has no
    locks."""
    try:
        fcntl.flock(file, operation)
    except BlockingIOError:
        raise
    except OSError as error:
        said = f"{error.strerror}: this file system cannot lock files, --data needs one that can, such as a local disk"
        raise OSError(error.errno, said, file.name) from None


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    """Tell whether a process has a file open; False also when this one may not see that."""
    try:
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed just now
                if os.path.samestat(descriptor.stat(), wanted):
                    return True
    except OSError:
        pass
    return False
