"""`odradek pipeline`: flights in a topic → departure delays per airport and day → a topic, Parquet and a chart."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, connect
from odradek.cli.output import note, print_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek.pipeline.run import PipelineSettings, Summary

DEFAULT_DATA = Path("odradek-data/pipeline")
DEFAULT_WATERMARK = "366 days"
"""The data set has October to December right after January: with less, the rest of the year would come too late."""

QUERY = "=== Streaming Query ==="
"""Heading in Spark's messages: what follows is the query's state, not the reason of the failure."""
RAISED = re.compile(r"[A-Za-z_][\w.]*: \S")
"""Pattern of the last line of a traceback."""


def pipeline(
    topic: Annotated[
        str, typer.Option(help="topic to read, with lines of the flights file, one per record")
    ] = "flights",
    result_topic: Annotated[
        str, typer.Option(help="topic for the totals; created, with compaction, if it does not exist")
    ] = "flight-delays",
    checkpoint: Annotated[
        str, typer.Option(metavar="DIR", help="Spark's checkpoint, from which a run started again goes on")
    ] = f"{DEFAULT_DATA}/checkpoint",
    output: Annotated[
        str, typer.Option(metavar="DIR", help="directory for the totals as Parquet")
    ] = f"{DEFAULT_DATA}/delays",
    chart: Annotated[Path | None, typer.Option(metavar="FILE.png", help="draw the totals when done")] = None,
    master: Annotated[str, typer.Option(help="local[N], or a cluster: spark://host:port, yarn, k8s://…")] = "local[2]",
    follow: Annotated[bool, typer.Option("--follow", help="wait for more records, until Ctrl-C")] = False,
    watermark: Annotated[
        str,
        typer.Option(help="a day is final once a flight this much later was read; for flights in order: '1 day'"),
    ] = DEFAULT_WATERMARK,
    max_offsets_per_trigger: Annotated[int, typer.Option(min=1, help="records of one micro-batch")] = 100_000,
    replication_factor: Annotated[
        int, typer.Option(help="replicas of the result topic; -1: the broker's default")
    ] = -1,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Count delays with Spark, exactly once: a run that is killed and started again has the same results."""
    from odradek.cli.options import command_config
    from odradek.client.errors import ClientError

    try:
        from odradek.pipeline.run import PipelineSettings
    except ImportError as error:
        raise ClientError(f"{error}: pip install 'odradek[spark]'") from None
    if chart is not None:
        _check_chart(chart)
    _prepare(bootstrap_server, topic, result_topic, replication_factor)
    settings = PipelineSettings(
        bootstrap=bootstrap_server,
        topic=topic,
        result_topic=result_topic,
        checkpoint=checkpoint,
        output=output,
        watermark=watermark,
        max_offsets_per_trigger=max_offsets_per_trigger,
        follow=follow,
        client=dict(command_config),
    )
    summary = _run(master, settings, chart)
    if json:
        print_json(summary)
    else:
        _print(summary, result_topic)


def _check_chart(chart: Path) -> None:
    """Check that the chart can be written, hours before it is. Raises OSError."""
    chart.parent.mkdir(parents=True, exist_ok=True)
    is_new = not os.path.lexists(chart)
    chart.open("ab").close()
    if is_new:
        chart.unlink()


def _prepare(bootstrap_server: str, topic: str, result_topic: str, replication_factor: int) -> None:
    """Check that the input exists, and create the result topic, before Spark is started, which takes a while."""
    from odradek.cli.options import command_config
    from odradek.client.errors import ClientError
    from odradek.pipeline.result_topic import create_result_topic

    with connect(bootstrap_server) as admin:
        if topic not in admin.list_topics():
            raise ClientError(f"there is no topic {topic} at {bootstrap_server}: create and fill it first")
    if create_result_topic(bootstrap_server, result_topic, replication_factor, command_config):
        note(f"created {result_topic}")


def _run(master: str, settings: "PipelineSettings", chart: Path | None) -> "Summary":
    from pyspark.errors import PySparkException

    from odradek.client.errors import ClientError
    from odradek.pipeline.run import run
    from odradek.pipeline.totals import read_parquet

    note(f"starting Spark on {master}")
    spark = _spark(master)
    try:
        summary = run(spark, settings, note)
        if chart is not None:
            from odradek.pipeline.chart import draw

            draw([row.asDict() for row in read_parquet(spark, settings.output, summary.query).collect()], chart)
            note(f"drawn: {chart}")
    except PySparkException as error:
        raise ClientError(_reason(error)) from error
    finally:
        spark.stop()
    return summary


def _spark(master: str) -> "SparkSession":
    """Start Spark. Raises ClientError."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from odradek.client.errors import ClientError
    from odradek.local.java import LOWEST_JAVA, NoZooKeeper, java_for_spark
    from odradek.pipeline.run import spark_session

    try:
        with java_for_spark():
            return spark_session(master)
    except NoZooKeeper:  # which is what else needs a Java
        raise ClientError(f"Spark needs Java {LOWEST_JAVA} or later: pip install 'odradek[local]' brings one") from None
    except Py4JJavaError as error:
        reason = error.java_exception.getMessage()
    except PySparkException as error:
        reason = _reason(error)
    raise ClientError(f"Spark does not start with --master {master}: {reason}")


def _print(summary: "Summary", result_topic: str) -> None:
    said = f"{summary.records:,} records in {summary.batches} micro-batches"
    print(f"{said}; {summary.written:,} totals written to {result_topic}")
    if summary.no_flights or summary.too_late:
        print(f"not counted: {summary.no_flights:,} lines are not flights, {summary.too_late:,} rows came too late")


def _reason(error: Exception) -> str:
    """Return the line of Spark's message that matters: the last one of a Python traceback, preferably with an error of
    ours, or else the first line."""
    lines = [line.strip() for line in str(error).partition(QUERY)[0].splitlines() if line.strip()]
    raised = [line for line in lines if RAISED.match(line)]
    ours = [line for line in raised if line.startswith("odradek.")]
    if ours:
        return ours[-1].partition(": ")[2]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0]
