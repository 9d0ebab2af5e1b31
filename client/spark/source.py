"""The Python data source: what Spark calls, on the driver to plan and on the executors to read.

Spark pickles these objects, so they hold nothing but options; connections belong to the process (session.py).
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.client.spark import planning
from odradek.client.spark.offsets import Offsets, OffsetsJson, from_json, to_json
from odradek.client.spark.options import SourceOptions, for_batch, for_stream, parse
from odradek.client.spark.ranges import OffsetRange, limited
from odradek.client.spark.session import Session, session_for
from odradek.protocol.errors import MalformedMessage

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger(__name__)
FORMAT = "odradek"
HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def spark_schema(*, include_headers: bool) -> StructType:
    """The columns of Spark's own Kafka source."""
    columns = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    return StructType([*columns, StructField("headers", HEADERS)] if include_headers else columns)


class OdradekSource(DataSource):
    """`format("odradek")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(include_headers=parse(self.options).include_headers)

    def reader(self, schema: StructType) -> "BatchReader":
        return BatchReader(parse(self.options))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802 (Spark's name)
        return StreamReader(parse(self.options))


class Task(InputPartition):
    """What one Spark task reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(str(wanted))
        self.wanted = wanted


class BatchReader(DataSourceReader):
    """Reads from a start to an end, both decided when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        for_batch(options)

    def partitions(self) -> list[InputPartition]:
        session = session_for(self._options.client)
        ranges = planning.batch_ranges(session, self._options)
        return [Task(one) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return _read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches. One object lives on the driver as long as the query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._start = for_stream(options)
        self._initial: Offsets | None = None
        self._seen: Offsets | None = None
        self._target: Offsets | None = None

    @property
    def _session(self) -> Session:
        return session_for(self._options.client)

    def initialOffset(self) -> OffsetsJson:  # noqa: N802
        self._initial = planning.initial(self._session, self._options, self._start)
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = planning.latest(self._session, self._options, {})

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:  # noqa: N802
        """The end of the next micro-batch.

        A query that starts at the end writes that end down first, as a micro-batch without records: Spark's log holds
        the ends of micro-batches only, and a first one that is repeated after a crash would start at a later end.
        """
        begin = from_json(start)
        ends = self._target if self._target is not None else planning.latest(self._session, self._options, begin)
        self._seen = ends
        if self._initial is not None and begin == self._initial:
            self._initial = None
            if planning.starts_at_end(self._start):
                return start
        if isinstance(limit, ReadMaxRows):
            new = [one for one in ends if one not in begin]
            ends = limited(begin, ends, self._session.earliest(new), limit.max_rows)
        return to_json(ends)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802
        return None if self._seen is None else to_json(self._seen)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        repeated_first = self._initial is not None and from_json(start) == self._initial
        if repeated_first and planning.starts_at_end(self._start):
            return []
        ranges = planning.stream_ranges(self._session, self._options, from_json(start), from_json(end))
        return [Task(one) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return _read(self._options, partition)


def _read(options: SourceOptions, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
    """On an executor: one Arrow batch per answer of the broker."""
    from odradek.client.spark.columns import locate, record_batch, sections
    from odradek.client.spark.fetching import read_range

    if not isinstance(partition, Task):
        return  # Spark's stand-in when there is nothing to read
    wanted = partition.wanted
    session = session_for(options.client)
    for chunk in read_range(session, wanted, fail_on_data_loss=options.fail_on_data_loss):
        batches = list(chunk.visible(session.settings.check_crcs))
        if not batches:
            continue
        try:
            found = sections(chunk.records, batches)
            located = locate(found)
        except MalformedMessage as error:
            raise chunk.damaged(batches[0][1], error) from error
        yield record_batch(
            found,
            located,
            wanted.topic,
            wanted.partition,
            wanted.start,
            wanted.end,
            include_headers=options.include_headers,
        )
