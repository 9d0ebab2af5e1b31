"""The shipped pipeline, a process with a Spark of its own: totals are exact, whatever is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek import KafkaProducer
from odradek.demo.flights import Flight, read_flights
from odradek.pipeline.result_topic import create_result_topic, read_results
from odradek.pipeline.totals import DELAYED_FROM_MINUTES, TOTALS
from odradek.testing import Cluster
from odradek.testing.patience import PATIENCE_SECONDS
from tests.spark.result_records import all_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(2700)]

FLIGHTS, PER_BATCH = 11_999, 2_000
"""With the line that is no flight, six micro-batches."""
RESULTS = "results"
RUN_SECONDS = 900


def send(cluster: Cluster, topic: str, flights: list[Flight]) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=10) as producer:
        for flight in flights:
            producer.send(topic, flight.value, key=flight.key)
        producer.send(topic, b"this is no flight")
        producer.flush()


def expected(flights: list[Flight]) -> dict[str, dict[str, int]]:
    """The totals, by key, counted in plain Python."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(TOTALS, 0))
    for flight in flights:
        fields = flight.value.decode().split(",")
        year, month, day = map(int, fields[:3])
        total = found[f"{fields[12]}/{year:04}-{month:02}-{day:02}"]
        total["flights"] += 1
        if fields[5] in ("", "NA"):
            total["cancelled"] += 1
            continue
        minutes = int(fields[5])
        total["delayed"] += minutes >= DELAYED_FROM_MINUTES
        total["delay_minutes"] += max(0, minutes)
        total["longest_delay_minutes"] = max(total["longest_delay_minutes"], minutes)
    return dict(found)


def only_totals(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
    return {key: {name: row[name] for name in TOTALS} for key, row in rows.items()}


def in_parquet(directory: Path) -> dict[str, dict[str, int]]:
    """Per key the row of the highest micro-batch. There is one query."""
    import pyarrow.dataset  # loads pandas, for which no other process that collects this file has a use

    (query,) = directory.iterdir()
    rows = pyarrow.dataset.dataset(query, partitioning="hive").to_table().to_pylist()
    return only_totals({f"{row['origin']}/{row['day']}": row for row in sorted(rows, key=lambda row: row["batch"])})


class Pipeline:
    """`odradek pipeline` as a process with its JVM, in a process group of its own."""

    def __init__(self, cluster: Cluster, topic: str, folder: Path) -> None:
        self.output = folder / "delays"
        self.chart = folder / "chart.png"
        self._log = folder / "pipeline.log"
        options = {
            "--bootstrap-server": cluster.bootstrap,
            "--topic": topic,
            "--result-topic": RESULTS,
            "--checkpoint": folder / "checkpoint",
            "--output": self.output,
            "--chart": self.chart,
            "--max-offsets-per-trigger": PER_BATCH,
            "--replication-factor": 3,
        }
        self._command = [sys.executable, "-m", "odradek", "pipeline", "--json"]
        self._command += [str(word) for option in options.items() for word in option]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env=os.environ | {"PYTHONFAULTHANDLER": "1"},
            )

    def wait_for_batch(self, number: int) -> None:
        """Until it has written this micro-batch; the deadline is for one that hangs.

        Looking into directories is cheap: reading the result topic over and over would take the processor from Spark.
        """
        assert self._process is not None
        deadline = time.monotonic() + RUN_SECONDS
        while not list(self.output.glob(f"*/batch={number}/_SUCCESS")):
            ended = self._process.poll()
            assert ended is None, f"ended with {ended} before batch {number}: {self._log.read_text()[-3000:]}"
            assert time.monotonic() < deadline, f"not within {RUN_SECONDS} s: batch {number}\n{self._stacks()}"
            time.sleep(0.1)

    def _stacks(self) -> str:
        """What it has said, with where its Python processes stand, the workers' first. It does not survive this."""
        assert self._process is not None
        for pid in reversed(descendants(self._process.pid)):
            if "python" in Path(f"/proc/{pid}/comm").read_text():
                os.kill(pid, signal.SIGABRT)
        self._process.wait()
        return self._log.read_text()[-6000:]

    def kill(self) -> None:
        """SIGKILL of the driver and its JVM and workers at once."""
        assert self._process is not None and self._process.poll() is None, self._log.read_text()[-3000:]
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def end(self) -> dict[str, Any]:
        """Wait for it; its summary."""
        assert self._process is not None
        said, _ = self._process.communicate(timeout=RUN_SECONDS)
        assert self._process.returncode == 0, self._log.read_text()[-3000:]
        summary: dict[str, Any] = json.loads(said)
        return summary

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


def highest_batch(cluster: Cluster) -> int:
    return max((row["batch"] for row in read_results(cluster.bootstrap, RESULTS).values()), default=-1)


def descendants(pid: int) -> list[int]:
    """The process and all that it and its children have started, parents before children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in descendants(int(child)))]


def test_killed_driver_and_killed_broker_change_nothing(
    cluster: Cluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(3, replicas=3, min_insync_replicas="2")
    flights = read_flights(FLIGHTS)
    send(cluster, topic, flights)
    create_result_topic(cluster.bootstrap, RESULTS, 3)
    with Pipeline(cluster, topic, tmp_path) as pipeline:
        pipeline.start()
        pipeline.wait_for_batch(1)
        pipeline.kill()
        killed_at = highest_batch(cluster)
        pipeline.start()
        pipeline.wait_for_batch(killed_at + 1)
        cluster.kill(1, unnoticed=True)
        summary = pipeline.end()
        cluster.restart(1)
        assert only_totals(read_results(cluster.bootstrap, RESULTS)) == expected(flights)
        assert in_parquet(pipeline.output) == expected(flights)
        written = [(row["origin"], row["day"], row["batch"]) for row in all_records(cluster, RESULTS)]
        assert len(written) == len(set(written)), "a row was written twice"
        assert summary["too_late"] == 0 and pipeline.chart.read_bytes()[:4] == b"\x89PNG"


def test_an_input_that_is_not_there_is_said_before_spark_starts(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek", "pipeline", "--topic", "nothing", "--bootstrap-server"]
    done = subprocess.run(
        [*command, cluster.bootstrap],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1 and "there is no topic nothing" in done.stderr and done.stderr.count("\n") == 1
