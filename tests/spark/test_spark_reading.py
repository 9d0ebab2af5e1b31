"""The readers as Spark calls them, without Spark: on the virtual clock."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.aio import Admin
from odradek.client.errors import ClientTimeout, ConfigError
from odradek.client.records import TopicPartition
from odradek.client.spark import reading
from odradek.client.spark.lag import LagListener, offsets_behind_latest
from odradek.client.spark.options import parse
from odradek.client.spark.reading import BatchReader, StreamReader, Task
from odradek.client.spark.sink_options import parse_sink
from odradek.client.spark.spark_versions import ReadAllAvailable, ReadMaxRows, ReadMinRows
from odradek.testing.spark_stage import SERVERS, Stage, rows, stage

TO_T = parse_sink({**SERVERS, "topic": "t"})


def fill(one: Stage, count: int, partition: int = 0) -> None:
    import pyarrow

    where = pyarrow.array([partition] * count, pyarrow.int32())
    one.task(0, None, rows(*map(str, range(count)), partition=where), options=TO_T)


def stream(**options: str) -> StreamReader:
    return StreamReader(parse({**SERVERS, "subscribe": "t", "startingOffsets": "earliest", **options}))


def offsets(*ends: int) -> dict[str, dict[str, int]]:
    return {"t": {str(number): end for number, end in enumerate(ends)}}


def committed(one: Stage, group: str) -> dict[TopicPartition, int]:
    async def read() -> dict[TopicPartition, int]:
        async with Admin(bootstrap_servers="broker-0:9092", **one.world) as admin:
            return {place: at.offset for place, at in (await admin.list_group_offsets(group)).items()}

    found: dict[TopicPartition, int] = one.run(read())
    return found


def test_a_batch_reads_what_there_is_in_tasks_of_the_size_asked_for() -> None:
    with stage() as one:
        one.create("t", 1)
        fill(one, 10)
        reader = BatchReader(parse({**SERVERS, "subscribe": "t", "maxRecordsPerPartition": "4"}))
        tasks = reader.partitions()
        assert [len(task.wanted) for task in tasks if isinstance(task, Task)] == [3, 3, 4]
        values = [value for task in tasks for batch in reader.read(task) for value in batch.column("value").to_pylist()]
        assert values == [b"%d" % number for number in range(10)]


def test_micro_batches_are_limited() -> None:
    with stage() as one:
        one.create("t", 2)
        fill(one, 10)
        fill(one, 30, 1)
        reader = stream(maxOffsetsPerTrigger="20")
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(20) and isinstance(limit, ReadMaxRows)
        first = reader.latestOffset(reader.initialOffset(), limit)
        assert first == offsets(5, 15)
        assert reader.latestOffset(first, ReadAllAvailable()) == offsets(10, 30) == reader.reportLatestOffset()
        assert [len(task.wanted) for task in reader.partitions(first, offsets(10, 30)) if isinstance(task, Task)] == [
            5,
            15,
        ]


def test_a_micro_batch_waits_for_enough_records_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with stage() as one:
        one.create("t", 1)
        reader = stream(minOffsetsPerTrigger="5", maxTriggerDelay="60s")
        limit = reader.getDefaultReadLimit()
        assert isinstance(limit, ReadMinRows) and limit.min_rows == 5
        start = reader.initialOffset()
        fill(one, 2)
        first = reader.latestOffset(start, limit)
        assert first == offsets(2), "the first does not wait, as in Spark's own source"
        fill(one, 4)
        assert reader.latestOffset(first, limit) == first
        fill(one, 1)
        second = reader.latestOffset(first, limit)
        assert second == offsets(7)
        fill(one, 1)
        now[0] += 59
        assert reader.latestOffset(second, limit) == second
        now[0] += 1
        assert reader.latestOffset(second, limit) == offsets(8), "maxTriggerDelay is over"
        assert reader.latestOffset(second, ReadAllAvailable()) == offsets(8)
        reader.prepareForTriggerAvailableNow()
        assert reader.latestOffset(second, limit) == offsets(8), "availableNow does not wait"


@pytest.mark.parametrize("start", ["latest", '{"t":{"0":-1}}'])
def test_available_now_does_not_end_before_its_start(start: str) -> None:
    """Spark asks for the end of all there is before it asks where a new query starts: what was written in between was
    called lost, since the log seemed to end before the start."""
    with stage() as one:
        one.create("t", 1)
        fill(one, 2)
        reader = stream(startingOffsets=start)
        reader.prepareForTriggerAvailableNow()
        fill(one, 3)
        begin = reader.initialOffset()
        assert begin == reader.latestOffset(begin, ReadAllAvailable()) == offsets(5)
        end = reader.latestOffset(begin, ReadAllAvailable())
        assert end == begin and not reader.partitions(begin, end)


def test_available_now_does_not_grow() -> None:
    with stage() as one:
        one.create("t", 1)
        fill(one, 2)
        reader = stream()
        reader.prepareForTriggerAvailableNow()
        fill(one, 3)
        assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == offsets(2)


def test_what_is_finished_is_committed_to_a_group_so_that_its_lag_is_seen() -> None:
    with stage() as one:
        one.create("t", 2)
        fill(one, 10)
        stream().commit(offsets(4, 0))
        reader = stream(**{"kafka.group.id": "seen", "groupIdPrefix": "ignored"})
        reader.commit(offsets(4, 0))
        assert committed(one, "seen") == {TopicPartition("t", 0): 4, TopicPartition("t", 1): 0}
        prefixed = stream(groupIdPrefix="some")
        prefixed.commit(offsets(5, 0))

        async def groups() -> list[str]:
            async with Admin(bootstrap_servers="broker-0:9092", **one.world) as admin:
                return [group.group_id for group in await admin.list_groups()]

        some, seen = sorted(one.run(groups()), reverse=True)[:2][::-1]
        assert {some[:4], seen[:4]} == {"seen", "some"} and len(one.run(groups())) == 2


def test_a_group_that_cannot_be_reached_does_not_stop_the_query(caplog: pytest.LogCaptureFixture) -> None:
    with stage() as one:
        one.create("t", 1)
        reader = stream(**{"kafka.group.id": "seen"})
        reader.initialOffset()
        one.cluster.network.cut("client", "broker-0")
        reader.commit(offsets(1))
        assert "the offsets of group seen were not committed" in caplog.text
        one.cluster.network.heal("client", "broker-0")


def test_a_task_waits_no_longer_than_it_is_told() -> None:
    with stage() as one:
        one.create("t", 1)
        fill(one, 3)
        reader = stream(**{"kafkaConsumer.pollTimeoutMs": "2000"})
        (task,) = reader.partitions(offsets(0), offsets(3))
        one.run(one.cluster.brokers[0].stop())
        began_ms = one.clock.now_ms()
        with pytest.raises(ClientTimeout, match=r"kafkaConsumer\.pollTimeoutMs=2000"):
            list(reader.read(task))
        assert one.clock.now_ms() - began_ms < 10_000


OLDER = {
    "maxOffsetsPerTrigger": {"maxOffsetsPerTrigger": "1"},
    "minOffsetsPerTrigger": {"minOffsetsPerTrigger": "1"},
    "startingOffsets with -1": {"startingOffsets": '{"t":{"0":-1}}'},
}


@pytest.mark.parametrize("what", OLDER)
def test_what_an_older_spark_cannot_do(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "TELLS_LIMITS", False)
    with pytest.raises(ConfigError, match=f"{what}.* needs Spark 4.2"):
        stream(**OLDER[what])


@pytest.mark.parametrize(("start", "first"), [("earliest", [0, 3]), ("latest", [3, 3])])
def test_how_an_older_spark_asks(start: str, first: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The end first, without a start and a limit, then the start; after a restart the end alone."""
    monkeypatch.setattr(reading, "TELLS_LIMITS", False)
    with stage() as one:
        one.create("t", 1)
        fill(one, 3)
        reader = stream(startingOffsets=start)
        end = reader.latestOffset()
        assert [reader.initialOffset()["t"]["0"], end["t"]["0"]] == first
        assert len(reader.partitions(reader.initialOffset(), end)) == (start == "earliest")
        fill(one, 2)
        assert reader.latestOffset() == offsets(5)
        assert len(reader.partitions(end, offsets(5))) == 1, "what has come since is read"
        fill(one, 1)
        assert reader.latestOffset() == offsets(6) and len(reader.partitions(offsets(5), offsets(6))) == 1
        repeated = stream(startingOffsets=start)
        assert len(repeated.partitions(repeated.initialOffset(), end)) == (start == "earliest")


def test_how_far_a_query_is_behind() -> None:
    def source(end: Any, latest: Any) -> Any:
        return SimpleNamespace(endOffset=json.dumps(end), latestOffset=json.dumps(latest))

    behind = offsets_behind_latest(source(offsets(5, 10), offsets(15, 10)))
    assert behind == {
        "minOffsetsBehindLatest": 0.0,
        "maxOffsetsBehindLatest": 10.0,
        "avgOffsetsBehindLatest": 5.0,
    }
    for other in (source(3, 4), source(None, offsets(1)), source({"logOffset": 3}, {"logOffset": 4})):
        assert offsets_behind_latest(other) == {}
    listener = LagListener()
    progress = SimpleNamespace(id="q", batchId=3, sources=[source(3, 4), source(offsets(5), offsets(6))])
    listener.onQueryProgress(SimpleNamespace(progress=progress))
    assert listener.lag["q", 1]["maxOffsetsBehindLatest"] == 1.0 and list(listener.lag) == [("q", 1)]
    listener.onQueryTerminated(SimpleNamespace(id="q"))
    assert not listener.lag
