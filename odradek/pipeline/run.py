"""Run of the pipeline: its parts put together, and what it counted."""

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
"""A thousand groups: more tasks would cost more than they do. Stays as it is for the life of a checkpoint."""
STARTED_SECONDS = 60.0
LOOK_SECONDS = 5
"""Time between two looks at what Spark has done, in which it does not do a hundred micro-batches."""
LATE_WORKER = "Python worker failed to connect back"
"""Spark's words when the process that plans a stream's batches has not started within ten seconds, which no setting
changes: on a busy machine it takes longer."""
STARTS_MAX = 5
"""Starts in a row that may fail so before a micro-batch is done."""
OBSERVED, SEEN, NO_FLIGHTS = "parsed", "seen", "no_flights"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """`checkpoint` and `output` are paths that all of Spark can reach."""

    bootstrap: str
    topic: str
    result_topic: str
    checkpoint: str
    output: str
    watermark: str
    max_offsets_per_trigger: int
    follow: bool
    """True to wait for more when everything is read, until interrupted."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of all its clients, by Kafka's names: TLS, SASL. Files that they name are where Spark's workers are."""


@dataclass(slots=True)
class Summary:
    """Counts of what one run has done."""

    query: str = ""
    batches: int = 0
    records: int = 0
    no_flights: int = 0
    """Lines that are no flight."""
    too_late: int = 0
    """Rows of days that were final already: sums of a task, which may stand for several flights."""
    written: int = 0
    """Rows in the result topic and in Parquet."""


def spark_session(master: str) -> SparkSession:
    """Return a session for the pipeline. Everything else is Spark's own business (spark-defaults.conf, environment)."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # before the JVM starts: its workers are this Python
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
    """Read what there is (or go on until interrupted), from where the checkpoint says. `report` gets a line per batch.

    Raises pyspark's StreamingQueryException with the reason when the query fails. It is started again, and goes on from
    its checkpoint, where a process of Spark's was late.
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
            report("Spark's Python has not started within ten seconds: once more")


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
    """Build the streaming query from the topic to totals."""
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
    """Sink that every micro-batch is handed to, one after the other."""

    def __init__(self, settings: PipelineSettings, summary: Summary, report: Callable[[str], None]) -> None:
        self.query: Future[str] = Future()
        """The id in the checkpoint, which is known only when the query has started."""
        self._settings = settings
        self._summary = summary
        self._report = report

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write the result topic first, then Parquet; either recognises a repeated micro-batch by itself."""
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
    """Counts what Spark has seen. It remembers the last hundred micro-batches, so it is asked while the query runs."""

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
