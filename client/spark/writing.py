"""Writing as Spark calls it: `write` on the executors, `commit` and `abort` on the driver.

Spark pickles these objects, and may call each method in another process, so they hold only options. A task's
TaskContext says its number, and the query and micro-batch that it belongs to. `epochs` explains how exactly once works.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from odradek.client.errors import ClientError, ConfigError
from odradek.client.spark.epochs import Epoch, NotRepeatable, TaskResult
from odradek.client.spark.exactly_once import EpochTask, abort_epoch, commit_epoch, read_decision
from odradek.client.spark.process import here
from odradek.client.spark.rows import Records, records_of
from odradek.client.spark.sink_options import SinkOptions
from odradek.client.spark.sink_session import RecordWriter, SinkSession, sink_session_for
from odradek.client.spark.spark_versions import STREAMS_IN_ARROW, DataSourceStreamArrowWriter

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger(__name__)
QUERY_PROPERTY, EPOCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties that the tasks of a streaming query have, and those of its foreachBatch."""
ROWS_PER_BATCH = 1_000
"""Rows of an Arrow batch, if Spark hands over rows."""
BYTES = (StringType, BinaryType)


class Place(NamedTuple):
    """Place of a task that writes: its number, and the query and epoch that it belongs to, if any."""

    task: int
    query: str | None
    epoch: int | None


class Message(WriterCommitMessage):
    """Message of a task to the driver. `result` is None unless the sink writes exactly once."""

    def __init__(self, result: TaskResult | None = None) -> None:
        self.result = result


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Raise ConfigError for columns that a sink cannot write."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise ConfigError(f"there is no column `value`, which is written; the columns are {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise ConfigError("no topic: give the option topic, or a column of that name")
    for name, wanted in (("value", BYTES), ("key", BYTES), ("topic", (StringType,)), ("partition", (IntegerType,))):
        if name in types and not isinstance(types[name], wanted):
            said = " or ".join(one.typeName() for one in wanted)
            raise ConfigError(f"column {name} must be {said}, not {types[name].simpleString()}: cast it")
    if "headers" in types and not _is_headers(types["headers"]):
        said = types["headers"].simpleString()
        raise ConfigError(f"column headers must be array<struct<key:string,value:binary>>, not {said}")


def _is_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    inner = {field.name: type(field.dataType) for field in found.elementType.fields}
    return inner == {"key": StringType, "value": BinaryType}


def place_of_this_task() -> Place:
    """Return the place of the task that runs here. Raises ClientError outside of a task."""
    context = TaskContext.get()
    if context is None:
        raise ClientError("rows can only be written within a task of Spark, and none runs here")
    epoch = context.getLocalProperty(EPOCH_PROPERTY)
    return Place(
        context.partitionId(), context.getLocalProperty(QUERY_PROPERTY), int(epoch) if epoch is not None else None
    )


def write_task(options: SinkOptions, place: Place, batches: Iterable["pyarrow.RecordBatch"]) -> TaskResult | None:
    """Write a task's rows. For exactly once they are in an open transaction afterwards, which the result describes;
    otherwise they are delivered, and None is returned."""
    session = sink_session_for(options)
    if options.transactional_id is None:
        _write_at_least_once(session, options, batches)
        return None
    epoch = here().run(_epoch(session, options, place))
    part = EpochTask(session, epoch, place.task)
    run = here().run
    try:
        run(part.begin())
        for records in _records(options, batches):
            run(part.write(records))
        return run(part.finish())
    except BaseException:
        run(part.give_up())
        raise


def _write_at_least_once(session: SinkSession, options: SinkOptions, batches: Iterable["pyarrow.RecordBatch"]) -> None:
    run = here().run
    writer = RecordWriter(run(session.producer()))
    for records in _records(options, batches):
        run(writer.write(records))
    run(writer.flush())


async def _epoch(session: SinkSession, options: SinkOptions, place: Place) -> Epoch:
    """Return the micro-batch of a streaming query, or the epoch of a batch job: the option, or else the next one."""
    assert options.transactional_id is not None
    if place.query is not None and place.epoch is not None:
        return Epoch(f"{options.transactional_id}-{place.query}", place.epoch)
    name = options.transactional_id
    number = options.epoch
    if number is None:
        number = (await read_decision(session, name)).number + 1
    return Epoch(name, number)


def _records(options: SinkOptions, batches: Iterable["pyarrow.RecordBatch"]) -> Iterator[Records]:
    for batch in batches:
        yield from records_of(batch, options.topic)


def commit(options: SinkOptions, messages: Iterable[WriterCommitMessage | None], *, strict: bool = False) -> None:
    """Commit what all tasks wrote, once they have finished. Raises as `commit_epoch`."""
    results = _results(messages)
    if not results:
        return
    session = sink_session_for(options)
    try:
        here().run(commit_epoch(session, results[0].epoch, results, strict=strict))
    except NotRepeatable as error:
        if options.fail_on_data_loss:
            raise
        logger.warning("data loss: %s", error)
        abort(options, messages)


def abort(options: SinkOptions, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Abort what was written and is not decided yet, because a task has failed."""
    results = _results(messages)
    if results:
        here().run(abort_epoch(sink_session_for(options), results))


def _results(messages: Iterable[WriterCommitMessage | None]) -> list[TaskResult]:
    """Return the results in the tasks' messages; a task that has failed has none."""
    return [one.result for one in messages if isinstance(one, Message) and one.result is not None]


class BatchWriter(DataSourceArrowWriter):
    """Writer of `df.write`. With transactionalId either everything is committed or nothing; with epoch, only once."""

    def __init__(self, options: SinkOptions, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("records of a topic cannot be overwritten: use mode append")
        self._options = options

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> Message:
        return Message(write_task(self._options, place_of_this_task(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._options, messages, strict=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort(self._options, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of `df.writeStream`."""

    def __init__(self, options: SinkOptions) -> None:
        if options.epoch is not None:
            raise ConfigError("epoch is for batch jobs: a streaming query counts its own")
        self._options = options

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> Message:
        return Message(write_task(self._options, place_of_this_task(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        abort(self._options, messages)


class RowStreamWriter(StreamWriter):
    """Writer of `df.writeStream` for Spark 4.0, which hands over rows."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(options)
        self._schema = schema

    def write(self, iterator: Iterator[Any]) -> Message:
        return super().write(_in_arrow(iterator, self._schema))


def stream_writer(options: SinkOptions, schema: StructType) -> StreamWriter:
    """Return the writer that this version of Spark can use."""
    return StreamWriter(options) if STREAMS_IN_ARROW else RowStreamWriter(options, schema)


def _in_arrow(rows: Iterator[Any], schema: StructType) -> Iterator["pyarrow.RecordBatch"]:
    import itertools

    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema)
    while some := list(itertools.islice(rows, ROWS_PER_BATCH)):
        yield pyarrow.RecordBatch.from_pylist([row.asDict(recursive=True) for row in some], schema=arrow)
