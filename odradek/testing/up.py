"""`odradek up` in a process of its own, with brokers that can be killed and brought back: for tests of failover.

with UpCluster(directory) as cluster:
    cluster.kill(1)             # SIGKILL: only ZooKeeper's session expiry tells the others
    cluster.start(1)            # again, by us: `up` knows nothing of it
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from odradek.local.ports import free_port_range
from odradek.testing.patience import PATIENCE_SECONDS


class UpCluster:
    """A cluster in `directory`, on free ports of 127.0.0.1. Entering waits for `ready`."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        overrides: Sequence[str] = (),
        *,
        secure: bool = False,
        console: bool = False,
        metrics: bool = False,
    ) -> None:
        self.directory, self.brokers = directory, brokers
        self.port = free_port_range(brokers + 1 + brokers * metrics)
        self.zookeeper_port = self.port + brokers
        self._overrides = overrides
        self._secure, self._console, self._metrics = secure, console, metrics
        self.console = ""
        """The address of its page, with the token."""
        self._up: subprocess.Popen[str] | None = None
        self._own: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + broker}" for broker in range(self.brokers))

    @property
    def zookeeper(self) -> str:
        return f"127.0.0.1:{self.zookeeper_port}"

    def metrics(self, broker: int) -> str:
        """Return where a broker tells its metrics, on a cluster that was made with `metrics`."""
        assert self._metrics
        return f"127.0.0.1:{self.zookeeper_port + 1 + broker}"

    def __enter__(self) -> "UpCluster":
        command = [sys.executable, "-m", "odradek", "up", "--brokers", str(self.brokers), "--port", str(self.port)]
        command += ["--zookeeper-port", str(self.zookeeper_port), "--data", str(self.directory)]
        command += ["--secure"] * self._secure
        command += ["--console", "--console-port=0"] * self._console
        if self._metrics or not self._console:  # a page wants journals, wherever they are
            command += ["--metrics-port", str(self.zookeeper_port + 1 if self._metrics else 0)]
        for override in self._overrides:
            command += ["--override", override]
        # In sessions of their own: Ctrl-C in the terminal is for whoever uses this, who then stops them in order.
        self._up = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            self.console = self._wait_ready(self._up).partition(" console=")[2].strip()
        except BaseException:
            self._up.terminate()
            self._up.communicate(timeout=PATIENCE_SECONDS)
            raise
        return self

    @staticmethod
    def _wait_ready(up: subprocess.Popen[str]) -> str:
        assert up.stdout is not None
        said = []
        for line in up.stdout:
            said.append(line)
            if line.startswith("ready"):
                return line
        raise RuntimeError("odradek up has ended before it was ready:\n" + "".join(said))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._own.values():
            process.terminate()
        for process in self._own.values():
            process.wait(PATIENCE_SECONDS)
        if self._up is not None:
            self._up.terminate()
            self._up.communicate(timeout=PATIENCE_SECONDS)

    def pid(self, broker: int) -> int:
        """Return the process id of a broker, whoever started it."""
        if broker in self._own:
            return self._own[broker].pid
        return int((self.directory / "run" / f"broker-{broker}.pid").read_text())

    def kill(self, broker: int) -> None:
        """Kill a broker with SIGKILL; return when its port and its directories are free."""
        self._end(broker, signal.SIGKILL)

    def terminate(self, broker: int) -> None:
        """Shut a broker down in a controlled way, with SIGTERM; return when its port and its directories are free."""
        self._end(broker, signal.SIGTERM)

    def _end(self, broker: int, number: signal.Signals) -> None:
        """End a broker, whoever started it. One that `up` has to reap is seen to have closed everything before that."""
        process = os.pidfd_open(self.pid(broker))
        try:
            signal.pidfd_send_signal(process, number)
            assert select.select([process], [], [], PATIENCE_SECONDS)[0], f"broker {broker} goes on after {number.name}"
        finally:
            os.close(process)
        own = self._own.pop(broker, None)
        if own is not None:
            own.wait(PATIENCE_SECONDS)

    def start(self, broker: int, *overrides: str) -> subprocess.Popen[bytes]:
        """Start it as a process of ours, from the file that `up` wrote. Returns at once."""
        command = [sys.executable, "-m", "odradek.broker", str(self.properties(broker))]
        for override in overrides:
            command += ["--override", override]
        with self.log_file(broker).open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        self._own[broker] = process
        return process

    def properties(self, broker: int) -> Path:
        return self.directory / "config" / f"broker-{broker}.properties"

    def log_file(self, broker: int) -> Path:
        return self.directory / "logs" / f"broker-{broker}.log"
