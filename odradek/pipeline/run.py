"""Run of the pipeline: puts its parts together, and counts what it has done."""

import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from odradek.client.spark import register
from odradek.pipeline.result_topic import of_source, write_results
from odradek.pipeline.totals import is_flight, parsed, totals, write_parquet

APPLICATION = "odradek-pipeline"
SHUFFLE_PARTITIONS = 2
"""Tasks of the aggregation. There are only a thousand groups: more tasks would cost more than they gain. A checkpoint
keeps this number."""
STARTED_SECONDS = 60.0
LOOK_SECONDS = 5
"""Time between two looks at what Spark has done: less than it takes for the hundred micro-batches that it remembers."""
LATE_WORKER = "Python worker failed to connect back"
"""Spark's message when the process that plans a stream's batches has not started within ten seconds. On a busy machine
it takes longer, and no setting changes the limit."""
STARTS_MAX = 5
"""Starts in a row that may fail in this way without a finished micro-batch."""
OBSERVED, SEEN, NO_FLIGHTS = "parsed", "seen", "no_flights"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Settings of one run. All of Spark must be able to reach the paths `checkpoint` and `output`."""

    bootstrap: str
    topic: str
    result_topic: str
    checkpoint: str
    output: str
    watermark: str
    max_offsets_per_trigger: int
    follow: bool
    """True to wait for more records when everything is read, until interrupted."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of all clients, by Kafka's names: TLS, SASL. Files in them must exist where Spark's workers run."""


@dataclass(slots=True)
class Summary:
    """What one run has done, in numbers."""

    query: str = ""
    batches: int = 0
    records: int = 0
    no_flights: int = 0
    """Lines that are not flights."""
    too_late: int = 0
    """Rows of days that were final already. A row is a sum within a task, of one or more flights."""
    written: int = 0
    """Rows in the result topic and in Parquet."""


def spark_session(master: str) -> SparkSession:
    """Return a session for the pipeline. All other settings are Spark's own (spark-defaults.conf, environment)."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # before the JVM starts, which runs the workers by it
        settings |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    builder = SparkSession.builder.master(master).appName(APPLICATION)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    register(session)
    return session


def run(spark: SparkSession, settings: PipelineSettings, report: Callable[[str], None]) -> Summary:
    """Read everything there is, or, with `follow`, until interrupted, from the checkpoint's offsets on.

    `report` is called with a line for each micro-batch. Raises StreamingQueryException when the query fails; but when
    only a process of Spark was late to start, the query is started again and goes on from its checkpoint.
    """
    summary = Summary()
    fruitless = 0
    while True:
        done = summary.batches
        try:
            _run_query(spark, settings, summary, report)
            return summary
        except StreamingQueryException as failed:
            fruitless = 0 if summary.batches > done else fruitless + 1
            if LATE_WORKER not in str(failed) or fruitless == STARTS_MAX:
                raise
            report("Spark's Python has not started within ten seconds: trying again")


def _run_query(
    spark: SparkSession, settings: PipelineSettings, summary: Summary, report: Callable[[str], None]
) -> None:
    sink = Sink(settings, summary, report)
    writer = (
        frames(spark, settings)
        .writeStream.outputMode("update")
        .option("checkpointLocation", settings.checkpoint)
        .foreachBatch(sink.write)
    )
    writer = writer.trigger(processingTime="1 second") if settings.follow else writer.trigger(availableNow=True)
    query = writer.start()
    summary.query = str(query.id)
    sink.query.set_result(summary.query)
    seen = Seen(query, summary)
    try:
        while not query.awaitTermination(LOOK_SECONDS):
            seen.look()
    except KeyboardInterrupt:
        query.stop()
    finally:
        seen.look()


def frames(spark: SparkSession, settings: PipelineSettings) -> DataFrame:
    """Return the streaming query from the topic to the totals."""
    lines = (
        spark.readStream.format("odradek")
        .options(**of_source(settings.client))
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("subscribe", settings.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .load()
    )
    flights = parsed(lines).observe(OBSERVED, f.count("*").alias(SEEN), f.count_if(~is_flight()).alias(NO_FLIGHTS))
    return totals(flights, settings.watermark)


class Sink:
    """Sink that gets the micro-batches, one after the other."""

    def __init__(self, settings: PipelineSettings, summary: Summary, report: Callable[[str], None]) -> None:
        self.query: Future[str] = Future()
        """The query's id in the checkpoint, which is known once the query has started."""
        self._settings = settings
        self._summary = summary
        self._report = report

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write to the result topic first, then to Parquet. A repeated micro-batch does no harm in either."""
        query = self.query.result(STARTED_SECONDS)
        rows.persist()
        try:
            found = rows.count()
            if found:
                settings = self._settings
                write_results(rows, settings.bootstrap, settings.result_topic, query, batch, settings.client)
                write_parquet(rows, settings.output, query, batch)
        finally:
            rows.unpersist()
        self._summary.batches += 1
        self._summary.written += found
        self._report(f"batch {batch}: {found} totals changed")


class Seen:
    """Counts what Spark has read. Spark remembers its last hundred micro-batches, so `look` is called while it runs."""

    def __init__(self, query: StreamingQuery, summary: Summary) -> None:
        self._query, self._summary = query, summary
        self._counted = -1
        """Number of the last micro-batch that was counted."""

    def look(self) -> None:
        """Count the micro-batches since the last look."""
        for progress in self._query.recentProgress:
            observed = progress.observedMetrics.get(OBSERVED)
            if observed is None or progress.batchId <= self._counted:
                continue
            self._counted = progress.batchId
            self._summary.records += observed[SEEN]
            self._summary.no_flights += observed[NO_FLIGHTS]
            self._summary.too_late += sum(one.numRowsDroppedByWatermark for one in progress.stateOperators)
