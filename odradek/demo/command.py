"""Command line of the demonstration.

Exit code 0 when nothing is lost, repeated or out of order and Spark's figures equal the input's; 1 otherwise, and when
a step fails; 130 on Ctrl-C.
"""

import argparse
import logging
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from odradek.client.errors import ClientError
from odradek.demo.cluster import TOPIC, DemoCluster
from odradek.demo.flights import FLIGHTS, FlightsMissing, read_flights
from odradek.demo.live import choose
from odradek.demo.load import Load
from odradek.demo.pipeline import Pipeline, PipelineFailed
from odradek.demo.readers import Readers
from odradek.demo.report import Result, closing, write_svg
from odradek.demo.script import GROUP, DemoFailure, Script
from odradek.demo.timeline import Incomplete
from odradek.protocol.errors import KafkaError
from odradek.protocol.record_batch import CorruptBatch
from odradek.testing.balanced_group import BalancedGroup
from odradek.zk_schema.store import StoreError

RATE = 15_000
CHART = Path("odradek-data/flight-delays.png")
FAILED, INTERRUPTED = 1, 130
FAILURES = (
    DemoFailure, FlightsMissing, Incomplete, PipelineFailed,
    ClientError, KafkaError, StoreError, CorruptBatch, OSError, RuntimeError,
)  # fmt: skip
"""Errors of the demonstration that are printed in one line."""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m odradek.demo",
        description="A broker is killed under load, others take over; then all is counted.",
    )
    parser.add_argument("--records", type=int, default=FLIGHTS, metavar="N", help=f"how many flights ({FLIGHTS:,})")
    parser.add_argument(
        "--rate", type=float, default=RATE, metavar="N", help=f"records per second, 0 for no limit ({RATE:,})"
    )
    parser.add_argument("--chart", type=Path, default=CHART, metavar="FILE", help=f"what Spark counted ({CHART})")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of the run")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; return the exit code."""
    options = parse(arguments)
    listen_to_signals()
    directory = Path(tempfile.mkdtemp(prefix="odradek-demo-"))
    logging.basicConfig(filename=directory / "demo.log", level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    code = FAILED
    try:
        result = play(directory, options.records, options.rate, options.chart)
        code = FAILED if result.problems else 0
        if options.svg is not None:
            write_svg(result, options.svg)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except FAILURES as failure:
        print(f"demo: {failure}", file=sys.stderr)
    if code == FAILED:
        print(f"logs and data are kept in {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory)
    if code == INTERRUPTED:  # last, as the terminal may be gone
        print("interrupted: everything is stopped and removed", file=sys.stderr)
    return code


def listen_to_signals() -> None:
    """Let SIGTERM and SIGHUP end the demonstration as Ctrl-C does; after nohup SIGHUP does nothing."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def play(directory: Path, records: int, rate: float, chart: Path) -> Result:
    """Run the demonstration once, and print it. Raises one of FAILURES."""
    flights = read_flights(records)
    with ExitStack() as stack:
        display = choose()
        display.say(f"starting ZooKeeper and three brokers; {len(flights):,} flights to send")
        cluster = stack.enter_context(DemoCluster(directory))
        cluster.create_topic()
        balanced = stack.enter_context(BalancedGroup(cluster.zookeeper, GROUP, TOPIC))
        readers = Readers(cluster.zookeeper, balanced, TOPIC, GROUP, directory)
        stack.callback(readers.stop)
        load = Load(cluster.bootstrap, flights, rate)
        stack.callback(load.stop)
        chart.unlink(missing_ok=True)
        pipeline = Pipeline(cluster.bootstrap, directory / "pipeline", chart, display.say)
        stack.callback(pipeline.stop)
        with display:
            result = Script(cluster, flights, load, readers, pipeline, display).run()
        display.console.print(closing(result))
        return result


def _interrupt(number: int, _: FrameType | None) -> None:
    if number == signal.SIGHUP:  # a closed terminal sends two: the second would interrupt stopping and removing
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
