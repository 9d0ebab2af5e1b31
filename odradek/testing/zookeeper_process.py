"""The embedded ZooKeeper of an `odradek up` cluster as a process that can be stopped, killed and brought back."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odradek.testing.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"
ANSWER_SECONDS = 5.0


def zookeeper_mode(port: int) -> str | None:
    """Return what the node there is: standalone, leader or follower; None when it does not serve."""
    try:
        with socket.create_connection((HOST, port), ANSWER_SECONDS) as connection:
            connection.sendall(b"srvr")
            answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    except OSError:
        return None
    found = re.search(r"^Mode: (\w+)", answer, re.MULTILINE)
    return found[1] if found is not None else None


class ZooKeeperProcess:
    """`close` ends the one that was started here, if any: after the cluster, whose brokers need it to shut down."""

    def __init__(self, directory: Path, port: int) -> None:
        """`directory`: that of the cluster, which must run; `port`: where its ZooKeeper listens."""
        self._port = port
        self._pid = int((directory / "run" / "zookeeper.pid").read_text())
        self._command = Path(f"/proc/{self._pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
        self._log = directory / "logs" / "zookeeper.log"
        self._own: subprocess.Popen[bytes] | None = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Suspend ZooKeeper for the time of the block, with SIGSTOP: its connections stay, and nothing is answered."""
        os.kill(self._pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._pid, signal.SIGCONT)

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Kill ZooKeeper with SIGKILL: its connections break.

        At the end of the block it is started again, without waiting until it serves.
        """
        os.kill(self._pid, signal.SIGKILL)
        try:
            yield
        finally:
            self._start()

    def _start(self) -> None:
        """Start ZooKeeper again, on the same data."""
        with self._log.open("ab") as output:
            self._own = subprocess.Popen(self._command, stdout=output, stderr=output, start_new_session=True)
        self._pid = self._own.pid

    def answers(self) -> bool:
        """Tell whether it serves."""
        return zookeeper_mode(self._port) is not None

    def close(self) -> None:
        if self._own is not None:
            self._own.kill()
            self._own.wait(PATIENCE_SECONDS)
