"""A broker of any make as a process: started until it serves, stopped, killed, and what it complained of."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from odradek.protocol.messages.metadata import MetadataRequest
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.patience import PATIENCE_SECONDS


class BrokerProcess:
    """A life of one broker. `complaint_marks` are those of log lines that tell of trouble.

    `ending_seconds`: how long it may take to end.
    """

    ending_seconds: float = PATIENCE_SECONDS
    complaint_marks: tuple[str, ...] = (" WARNING ", " ERROR ", " CRITICAL ", "Traceback")

    def __init__(self, name: str, command: Sequence[str], address: str, log: Path) -> None:
        """`name` is for messages; `address` is host:port of its listener; it appends to `log`."""
        self.name, self.address = name, address
        self._command, self._log = list(command), log
        self._process: subprocess.Popen[bytes] | None = None
        self._log_begins = 0

    def start(self) -> None:
        """Start the process; return when it answers and knows a controller."""
        self._log_begins = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, start_new_session=True)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._serves():
            assert self._process.poll() is None, f"{self.name} has ended: {self.said()[-3000:]}"
            assert time.monotonic() < deadline, f"{self.name} does not serve: {self.said()[-3000:]}"
            time.sleep(0.03)

    def _serves(self) -> bool:
        try:
            with RawConnection(self.address) as connection:
                answer = connection.ask(MetadataRequest(topics=[]), 4)
        except (OSError, EOFError):
            return False
        return answer.controller_id >= 0 and bool(answer.brokers)

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def stop(self) -> None:
        """Stop in a controlled way, with SIGTERM. Raises AssertionError when it does not end well."""
        code = self._end(signal.SIGTERM)
        assert code in (0, 143), f"{self.name} ended with {code}: {self.said()[-3000:]}"

    def kill(self) -> None:
        """Kill the process with SIGKILL. Its session in ZooKeeper lasts on."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None, "not started"
        os.kill(self._process.pid, number)
        code = self._process.wait(self.ending_seconds)
        self._process = None
        return code

    def close(self) -> None:
        """Kill what is left of the process. Harmless when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)

    def said(self) -> str:
        """Return the broker's log since it was started last."""
        with self._log.open("rb") as log:
            log.seek(self._log_begins)
            return log.read().decode(errors="replace")

    def complaints(self, *, but: Sequence[str] = ()) -> list[str]:
        """Lines that tell of trouble, without those that contain one of `but`."""
        lines = [line for line in self.said().splitlines() if any(mark in line for mark in self.complaint_marks)]
        return [line for line in lines if not any(allowed in line for allowed in but)]


class OdradekBroker(BrokerProcess):
    """Process of an Odradek broker."""

    def __init__(self, properties: Path, address: str, log: Path) -> None:
        super().__init__("odradek", [sys.executable, "-m", "odradek.broker", str(properties)], address, log)

    def complaints(self, *, but: Sequence[str] = ()) -> list[str]:
        return super().complaints(but=("has no effect here", *but))
