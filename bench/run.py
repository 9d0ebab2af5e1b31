"""`make bench`: the broker beside a bare loop, in one run, as ratios of medians.

    python bench/run.py [--rounds 3] [--quick] [--only ROW] [--no-cluster] [--beside TREE | --watched]

A machine's speed drifts, so both brokers run at the same time and each row asks the one and the other in turn; the
ratio of the medians is what counts. Rows: produce and fetch in big and in small batches (librdkafka), one-record
produce requests, and the synchronous round trip. Then three brokers, replication 3, acks=all: figures alone.

With `--beside TREE` the other broker is that of another checkout, say of the commit before, in place of the bare loop.
librdkafka is the slower half of most rows: the same commit beside itself differs by a tenth. So each row has a figure
more, the processor time of the broker's loop, which also says the same on a busy machine, and the goal stands there: no
more than 1/0.97 of the other's.

With `--watched` the other broker counts and notes nothing (bench/unmeasured), while ours has a `metrics.port`. The
figure that counts is the processor time again; the goal: at most 1.02. What it takes to be asked for metrics and
journal is a figure of its own: it does not depend on the load.
"""

import argparse
import contextlib
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import this_tree  # noqa: F401

HERE = Path(__file__).resolve().parent
PARTITIONS = 6
TOPIC = "t"
NO_WORSE = round(1 / 0.97, 2)
"""The largest ratio of processor time to another checkout's broker."""
WATCHING_COSTS = 1.02
"""The largest ratio of processor time to a broker that counts and notes nothing."""
SCRAPES = 20
SCRAPED_S = 10.0
"""How often deploy/prometheus asks."""
PROCESSOR = "processor ms"


class Row(NamedTuple):
    """Line of the table: what is run, and the figures that are read from its output."""

    name: str
    program: str
    arguments: list[str]
    figures: dict[str, str]
    """Title of a figure → regular expression whose first group is the number."""
    goals: dict[str, float]
    """Title → the least ratio to the bare loop (for times: the largest)."""


class Broker(NamedTuple):
    """A broker that is measured."""

    directory: Path | None
    """Directory that `odradek up` keeps it in; None when nobody asks what processor time it takes."""
    port: int


PRODUCED = r"produced +([\d,]+) records/s"
FETCHED = r"fetched +([\d,]+) records/s"
PRODUCED_MB = r"produced +[\d,]+ records/s +([\d,.]+) MB/s"
FETCHED_MB = r"fetched +[\d,]+ records/s +([\d,.]+) MB/s"


def rows(scale: float) -> list[Row]:
    def count(records: int) -> str:
        return str(int(records * scale))

    return [
        Row("big batches", "load", [count(2_000_000), "100", "1"],
            {"in MB/s": PRODUCED_MB, "out MB/s": FETCHED_MB}, {"in MB/s": 0.8, "out MB/s": 0.8}),
        Row("small batches", "load", [count(500_000), "1000", str(PARTITIONS), "batch.size=16384", "linger.ms=1"],
            {"in MB/s": PRODUCED_MB, "out MB/s": FETCHED_MB}, {"in MB/s": 0.8, "out MB/s": 0.8}),
        Row("one by one", "load", [count(200_000), "100", "1", "batch.num.messages=1", "linger.ms=0"],
            {"requests/s": PRODUCED}, {"requests/s": 0.4}),
        Row("round trip", "round_trip", ["1", count(20_000)],
            {"p50 us": r"p50 (\d+) us", "p99 us": r"p99 (\d+) us"}, {"p99 us": 3.0}),
    ]  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_for_port(port: int, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port} after {seconds:.0f} s")


@contextlib.contextmanager
def bare_loop(directory: Path) -> Iterator[int]:
    port = free_port()
    program = [sys.executable, str(HERE / "bare_broker.py"), str(port), str(PARTITIONS), str(directory)]
    with subprocess.Popen(program) as process:
        try:
            wait_for_port(port)
            yield port
        finally:
            process.kill()


@contextlib.contextmanager
def cluster(
    directory: Path,
    brokers: int,
    replication: int,
    tree: Path = HERE.parent,
    *,
    options: tuple[str, ...] = (),
    before: str = "",
) -> Iterator[int]:
    """`odradek up` of the checkout `tree` with topic t; the port of its first broker. `before`: goes before it on
    PYTHONPATH."""
    port = free_port()
    command = [sys.executable, "-m", "odradek", "up", "--brokers", str(brokers), "--port", str(port)]
    command += ["--zookeeper-port", str(free_port()), "--data", str(directory), *options]
    environment = os.environ | {"PYTHONPATH": f"{before}:{tree}" if before else str(tree)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=tree, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("ready"):
                    break
            else:
                raise SystemExit("the cluster did not start: see its logs in " + str(directory))
            create = [sys.executable, "-m", "odradek", "topics", "create", TOPIC, "--partitions", str(PARTITIONS)]
            create += ["--replication-factor", str(replication), "--bootstrap-server", f"127.0.0.1:{port}"]
            subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
            yield port
        finally:
            process.send_signal(signal.SIGTERM)


def measure(row: Row, port: int, settings: list[str]) -> dict[str, float]:
    """Run one row against one broker."""
    if row.program == "load":
        command = ["load.py", f"127.0.0.1:{port}", TOPIC, *row.arguments, *settings]
    else:
        command = ["round_trip.py", "127.0.0.1", str(port), TOPIC, *row.arguments]
    output = subprocess.run(
        [sys.executable, str(HERE / command[0]), *command[1:]], capture_output=True, text=True, timeout=300, check=True
    ).stdout
    found = {}
    for title, pattern in row.figures.items():
        match = re.search(pattern, output)
        if match is None:
            raise SystemExit(f"{row.name}: no figure for {title!r} in:\n{output}")
        found[title] = float(match.group(1).replace(",", ""))
    if not re.search(r"missing 0\b|error code 0\b", output):
        raise SystemExit(f"{row.name}: records are missing:\n{output}")
    return found


def by_turns(row: Row, rounds: int, brokers: Sequence[Broker]) -> list[list[dict[str, float]]]:
    """Measure one row `rounds` times against each broker, by turns and in changing order, after one run to warm up."""
    runs: list[list[dict[str, float]]] = [[] for _ in brokers]
    for turn in range(rounds + 1):
        for which in range(len(brokers)) if turn % 2 else reversed(range(len(brokers))):
            directory, port = brokers[which]
            before_ms = processor_ms(directory) if directory else 0.0
            figures = measure(row, port, [])
            if directory:
                figures[PROCESSOR] = processor_ms(directory) - before_ms
            if turn:
                runs[which].append(figures)
    return runs


def report(row: Row, ours: list[dict[str, float]], others: list[dict[str, float]], goals: dict[str, float]) -> bool:
    """Print one row; whether its goals are met."""
    met = True
    for title in others[0]:
        mine, theirs = (statistics.median(run[title] for run in runs) for runs in (ours, others))
        # the machine's speed drifts: of processor time each run is compared with the one beside it
        pairs = zip(ours, others, strict=True)
        ratio = statistics.median(a[title] / b[title] for a, b in pairs) if title == PROCESSOR else mine / theirs
        smaller_is_better = title == PROCESSOR or title.endswith(" us")
        goal, verdict = goals.get(title), ""
        if goal is not None:
            reached = ratio <= goal if smaller_is_better else ratio >= goal
            verdict = f"goal {'<=' if smaller_is_better else '>='} {goal}  {'met' if reached else 'MISSED'}"
            met = met and reached
        print(f"{row.name:14} {title:12} {mine:12,.0f} {theirs:12,.0f}   {ratio:6.3f}   {verdict}", flush=True)
    return met


def processor_ms(directory: Path) -> float:
    """Return the processor time that the loop, the first thread, of the broker in `directory` has taken so far."""
    process = (directory / "run" / "broker-0.pid").read_text().strip()
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e6


def scrape_ms(metrics_port: int, directory: Path) -> float:
    """Return the processor time that one answer with the metrics and one with the journal take the broker."""
    before_ms = processor_ms(directory)
    for page in ("metrics", "journal") * SCRAPES:
        urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/{page}", timeout=30).read()
    return (processor_ms(directory) - before_ms) / SCRAPES


def watched(chosen: list[Row], rounds: int, directory: Path) -> bool:
    """Print what metrics and journal cost in each row, and what it takes to be asked for them."""
    metrics_port, met = free_port(), True
    here, plain = directory / "watched", directory / "unmeasured"
    with (
        cluster(plain, 1, 1, before=str(HERE / "unmeasured")) as plain_port,
        cluster(here, 1, 1, options=("--metrics-port", str(metrics_port))) as port,
    ):
        print_header("unmeasured", rounds)
        for row in chosen:
            ours, others = by_turns(row, rounds, (Broker(here, port), Broker(plain, plain_port)))
            met = report(row, ours, others, {PROCESSOR: WATCHING_COSTS}) and met
        asked_ms = scrape_ms(metrics_port, here)
        share = asked_ms / (SCRAPED_S * 1000)
        print(f"{'asked':14} {PROCESSOR:12} {asked_ms:12,.1f}   every {SCRAPED_S:.0f} s: {share:.3%} of a core")
    return met


def beside_another(chosen: list[Row], rounds: int, directory: Path, tree: Path) -> bool:
    """Print this checkout's broker beside the one of `tree`."""
    here, there, met = directory / "one", directory / "other", True
    with cluster(there, 1, 1, tree) as other_port, cluster(here, 1, 1) as port:
        print_header("the other", rounds)
        for row in chosen:
            ours, others = by_turns(row, rounds, (Broker(here, port), Broker(there, other_port)))
            met = report(row, ours, others, {PROCESSOR: NO_WORSE}) and met
    return met


def beside_bare_loop(chosen: list[Row], rounds: int, directory: Path) -> bool:
    """Print this checkout's broker beside the least Python that can serve the same client."""
    met = True
    with bare_loop(directory / "bare") as bare_port, cluster(directory / "one", 1, 1) as port:
        print_header("bare loop", rounds)
        for row in chosen:
            ours, others = by_turns(row, rounds, (Broker(None, port), Broker(None, bare_port)))
            met = report(row, ours, others, row.goals) and met
    return met


def print_header(other: str, rounds: int) -> None:
    print(f"{'':14} {'':12} {'odradek':>12} {other:>12}   {'ratio':>6}   (medians of {rounds})", flush=True)


def three_brokers(chosen: list[Row], rounds: int, directory: Path) -> None:
    """Print what three brokers with replication 3 reach: figures alone."""
    print("\nthree brokers on this machine, replication 3, acks=all")
    with cluster(directory / "three", 3, 3) as port:
        for row in [r for r in chosen if r.program == "load"]:
            runs = [measure(row, port, ["acks=all"]) for _ in range(rounds)]
            for title in row.figures:
                print(f"{row.name:14} {title:12} {statistics.median(run[title] for run in runs):12,.0f}")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the medians are shown")
    arguments.add_argument("--quick", action="store_true", help="take a tenth of the records")
    arguments.add_argument("--only", help="measure one row, by its name")
    arguments.add_argument("--no-cluster", action="store_true", help="leave out the rows with replication 3")
    arguments.add_argument(
        "--beside",
        type=Path,
        metavar="TREE",
        help="compare with the broker of another checkout, not with the bare loop",
    )
    arguments.add_argument("--watched", action="store_true", help="measure what metrics and the journal cost")
    options = arguments.parse_args()
    chosen = [row for row in rows(0.1 if options.quick else 1.0) if options.only in (None, row.name)]
    os.environ["PYTHONUNBUFFERED"] = "1"
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        directory = Path(folder)
        if options.watched:
            return 0 if watched(chosen, options.rounds, directory) else 1
        if options.beside:
            met = beside_another(chosen, options.rounds, directory, options.beside.resolve())
        else:
            met = beside_bare_loop(chosen, options.rounds, directory)
        if not options.no_cluster:
            three_brokers(chosen, options.rounds, directory)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
