"""`odradek pipeline` in a process of its own, on the demo's records; and the totals in its result topic."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from odradek.demo.cluster import MIN_INSYNC_REPLICAS, TOPIC
from odradek.demo.flights import Totals
from odradek.pipeline.result_topic import read_results

RESULT_TOPIC, MASTER = "flight-delays", "local[2]"
DEADLINE_SECONDS = 300.0
"""Limit of a run, including Spark's start, on a busy machine."""
KILL_AFTER_SECONDS = 20.0


class PipelineFailed(Exception):  # noqa: N818 (a sentence for a person)
    """Failure of the pipeline: it exited with another code than 0, or did not end."""


class Pipeline:
    """A run over everything that the topic holds."""

    def __init__(self, bootstrap: str, directory: Path, chart: Path, say: Callable[[str], object]) -> None:
        """Checkpoint and Parquet go to `directory`, the drawing to `chart`. `say` is called with lines of output."""
        self.chart = chart
        self._bootstrap = bootstrap
        self._say = say
        self._command = [sys.executable, "-m", "odradek", "pipeline", "--bootstrap-server", bootstrap]
        self._command += ["--topic", TOPIC, "--result-topic", RESULT_TOPIC, "--master", MASTER]
        self._command += ["--checkpoint", f"{directory}/checkpoint", "--output", f"{directory}/delays"]
        self._command += ["--chart", str(chart), "--replication-factor", str(MIN_INSYNC_REPLICAS + 1)]
        self._log = directory / "pipeline.log"
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        """Start the process; return at once."""
        self._log.parent.mkdir()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True,
            )  # fmt: skip
        self._thread.start()

    def result(self) -> dict[str, Totals]:
        """Wait for the end; return the pipeline's totals by airport. Raises PipelineFailed, and what clients raise."""
        assert self._process is not None
        try:
            code = self._process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            raise PipelineFailed(f"the pipeline did not end within {DEADLINE_SECONDS:.0f} s: see {self._log}") from None
        self._thread.join()
        if code != 0:
            raise PipelineFailed(f"the pipeline ended with {code}: see {self._log}")
        return by_airport(read_results(self._bootstrap, RESULT_TOPIC).values())

    def stop(self) -> None:
        """Stop the process, whatever it is doing. Does nothing if it never ran."""
        if self._process is None:
            return
        self._process.terminate()
        # Spark's JVM writes to the same pipe: when that is closed, it has ended too.
        self._thread.join(KILL_AFTER_SECONDS)
        if self._thread.is_alive():
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _follow(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self._say(f"pipeline: {line.rstrip()}")


def by_airport(days: Iterable[Mapping[str, Any]]) -> dict[str, Totals]:
    """Return the sums over all days of each airport, airports sorted."""
    found: dict[str, Totals] = {}
    for day in days:
        was = found.get(day["origin"], Totals())
        found[day["origin"]] = Totals(*(before + day[name] for name, before in was._asdict().items()))
    return dict(sorted(found.items()))
