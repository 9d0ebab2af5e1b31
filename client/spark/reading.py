"""Reading as Spark calls it: on the driver to plan, on the executors to read.

Spark pickles these objects, so they hold only options and offsets; connections belong to the process.
"""

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from odradek.client.errors import ConfigError
from odradek.client.spark import planning
from odradek.client.spark.offsets import OffsetRange, Offsets, OffsetsJson, from_json, limited, to_json, too_few
from odradek.client.spark.options import Bound, SourceOptions, for_batch, for_stream
from odradek.client.spark.process import here
from odradek.client.spark.session import Session, session_for
from odradek.client.spark.spark_versions import (
    TELLS_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from odradek.protocol.errors import KafkaError, MalformedMessage
from odradek.protocol.record_batch import BatchHeader

if TYPE_CHECKING:
    import pyarrow

    from odradek.client.consumer.chunks import Chunk

logger = logging.getLogger(__name__)


class Task(InputPartition):
    """Offset range of a partition that one Spark task reads."""

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
        return [Task(one) for one in here().run(planning.batch_ranges(session, self._options))]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return _read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches. One object is on the driver for as long as the query runs."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._start = for_stream(options)
        self._initial: Offsets | None = None
        self._seen: Offsets | None = None
        self._target: Offsets | None = None
        self._triggered_at_s: float | None = None
        """Time when a micro-batch was last planned, for maxTriggerDelay."""
        self._group_id = options.settings.group_id
        if not self._group_id and options.group_id_prefix:
            self._group_id = f"{options.group_id_prefix}-{uuid.uuid4()}"
        if not TELLS_LIMITS:
            _check_older_spark(options, planning.starts_at_end(self._start) and self._start.kind is Bound.OFFSETS)

    @property
    def _session(self) -> Session:
        return session_for(self._options.client)

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 (Spark's name)
        if self._initial is None:
            self._initial = here().run(planning.initial(self._session, self._options, self._start))
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most, least = self._options.max_offsets_per_trigger, self._options.min_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._latest({})

    def latestOffset(  # noqa: N802
        self, start: OffsetsJson | None = None, limit: ReadLimit | None = None
    ) -> OffsetsJson:
        """Return the end of the next micro-batch.

        A query that starts at the end of a log first gets a micro-batch without records: Spark's log has only the ends
        of micro-batches, so without that a first one that is repeated after a crash would start at a later end.
        """
        if start is None:
            return self._latest_for_older_spark()
        begin = from_json(start)
        if self._target is None or any(self._target.get(one, -1) < offset for one, offset in begin.items()):
            ends = self._latest(begin)  # the target is older than the start: Spark has asked for the target first
            self._target = None if self._target is None else ends
        else:
            ends = self._target
        self._seen = ends
        if self._initial is not None and begin == self._initial:
            self._initial = None
            if planning.starts_at_end(self._start):
                return start
        if isinstance(limit, (ReadMaxRows, ReadMinRows)):
            if self._target is None and self._waits_for_more(begin, ends):
                return start
            ends = self._at_most(begin, ends)
        return to_json(ends)

    def _waits_for_more(self, begin: Offsets, ends: Offsets) -> bool:
        least, now_s = self._options.min_offsets_per_trigger, time.monotonic()
        if least is None:
            return False
        overdue = (
            self._triggered_at_s is None or (now_s - self._triggered_at_s) * 1000 >= self._options.max_trigger_delay_ms
        )
        if not overdue and too_few(begin, ends, least):
            return True
        self._triggered_at_s = now_s
        return False

    def _at_most(self, begin: Offsets, ends: Offsets) -> Offsets:
        most = self._options.max_offsets_per_trigger
        if most is None:
            return ends
        new = [one for one in ends if one not in begin]
        return limited(begin, ends, here().run(self._session.earliest(new)), most)

    def _latest(self, begin: Offsets) -> Offsets:
        return here().run(planning.latest(self._session, self._options, begin))

    def _latest_for_older_spark(self) -> OffsetsJson:
        """Return the ends of the logs. An older Spark asks for them first, and for the start only afterwards."""
        if self._start.kind is Bound.LATEST and self._seen is None:
            return self._remembered(self.initialOffset())
        self._initial = None
        return self._remembered(to_json(self._latest(self._seen or {})))

    def _remembered(self, ends: OffsetsJson) -> OffsetsJson:
        self._seen = from_json(ends)
        return ends

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802
        return None if self._seen is None else to_json(self._seen)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        repeated_first = self._initial is not None and from_json(start) == self._initial
        if repeated_first and planning.starts_at_end(self._start):
            return []
        work = planning.stream_ranges(self._session, self._options, from_json(start), from_json(end))
        return [Task(one) for one in here().run(work)]

    def commit(self, end: OffsetsJson) -> None:
        """Commit what the query has finished to its group, if it has one. If that fails, log a warning: what counts is
        the checkpoint."""
        if not self._group_id:
            return
        try:
            here().run(self._session.commit(self._group_id, from_json(end)))
        except KafkaError as error:
            logger.warning("the offsets of group %s were not committed: %s", self._group_id, error)

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return _read(self._options, partition)


def _check_older_spark(options: SourceOptions, mixed_start: bool) -> None:
    """Raise ConfigError for options that Spark's Python interface cannot support before 4.2."""
    for option, given in (
        ("maxOffsetsPerTrigger", options.max_offsets_per_trigger is not None),
        ("minOffsetsPerTrigger", options.min_offsets_per_trigger is not None),
        ("startingOffsets with -1 for a partition", mixed_start),
    ):
        if given:
            raise ConfigError(f"{option} needs Spark 4.2: an older one does not say where a micro-batch starts")


def _read(options: SourceOptions, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
    """Yield one Arrow batch per answer of the broker. Runs on an executor."""
    if not isinstance(partition, Task):
        return iter(())  # Spark's stand-in when there is nothing to read
    return _decoded(options, partition.wanted)


def _decoded(options: SourceOptions, wanted: OffsetRange) -> Iterator["pyarrow.RecordBatch"]:
    """Yield decoded records. Decoding is done on the task's thread, while the loop's thread fetches the next answer."""
    from odradek.client.spark.fetching import read_range

    session = session_for(options.client)
    chunks = read_range(
        session, wanted, fail_on_data_loss=options.fail_on_data_loss, patience_ms=options.poll_timeout_ms
    )
    for chunk in here().iterate(chunks):
        batches = list(chunk.visible(session.settings.check_crcs))
        while batches:
            rows, taken = _together(chunk, batches, wanted, options.include_headers)
            yield rows
            batches = batches[taken:]


def _together(
    chunk: "Chunk", batches: Sequence[tuple[int, BatchHeader]], wanted: OffsetRange, include_headers: bool
) -> "tuple[pyarrow.RecordBatch, int]":
    """Decode many batches at once; return the rows, and how many batches these are. Raises CorruptRecords for the first
    batch that cannot be decoded by itself."""
    from odradek.client.spark.columns import locate, record_batch, sections

    try:
        found = sections(chunk.records, batches)
        located = locate(found)
        topic, partition, start, end = wanted.topic, wanted.partition, wanted.start, wanted.end
        rows = record_batch(found, located, topic, partition, start, end, include_headers=include_headers)
        return rows, len(found.headers)
    except MalformedMessage as error:
        if len(batches) == 1:
            raise chunk.damaged(batches[0][1], error) from error
        for one in batches:
            _together(chunk, [one], wanted, include_headers)
        raise
