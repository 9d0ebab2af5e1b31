"""The pipeline's query where a process of Spark's is late, or fails; and what is said of it. Without Spark."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkRuntimeError, StreamingQueryException

from odradek.cli import main as command_line
from odradek.cli import options
from odradek.cli import pipeline as cli
from odradek.cli.pipeline import _reason
from odradek.client.errors import ClientError
from odradek.pipeline import result_topic
from odradek.pipeline import run as pipeline
from odradek.pipeline.run import OBSERVED, STARTS_MAX, PipelineSettings, Sink, Summary, run

SETTINGS = PipelineSettings(
    bootstrap="b:1",
    topic="flights",
    result_topic="results",
    checkpoint="c",
    output="o",
    watermark="1 day",
    max_offsets_per_trigger=10,
    follow=False,
)
LATE = """[STREAM_FAILED] Query [id = 2a, runId = bd] terminated with exception: Python worker failed to connect back.
=== Streaming Query ===
Identifier: [id = 2a, runId = bd]
Current Committed Offsets: {}"""


class Writer:
    """Stands for a DataStreamWriter and for its query, which fails in these words, one after the other, then ends."""

    id = "2a"

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.starts = 0
        self.recentProgress = [
            SimpleNamespace(batchId=7, observedMetrics={OBSERVED: {"seen": 3, "no_flights": 1}}, stateOperators=())
        ]
        self.writeStream = self

    def outputMode(self, *_: Any, **__: Any) -> "Writer":  # noqa: N802
        return self

    option = trigger = outputMode

    def foreachBatch(self, sink: Any) -> "Writer":  # noqa: N802
        self.sink = sink
        return self

    def start(self) -> "Writer":
        self.starts += 1
        return self

    def awaitTermination(self, seconds: int) -> bool:  # noqa: N802
        if self.failures:
            raise StreamingQueryException(self.failures.pop(0))
        return True


def play(monkeypatch: pytest.MonkeyPatch, *failures: str) -> tuple[Writer, list[str]]:
    writer, said = Writer(*failures), list[str]()
    monkeypatch.setattr(pipeline, "frames", lambda *_: writer)
    summary = run(None, SETTINGS, said.append)  # type: ignore[arg-type]
    assert (summary.query, summary.records, summary.no_flights) == ("2a", 3 * writer.starts, writer.starts)
    return writer, said


def test_it_is_started_again_when_sparks_python_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gives it ten seconds, on a machine of any speed, and the pipeline ended."""
    writer, said = play(monkeypatch, LATE, LATE)
    assert writer.starts == 3 and len(said) == 2


def test_it_is_not_started_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        play(monkeypatch, *[LATE] * STARTS_MAX)


class WorkingWriter(Writer):
    """Does a micro-batch before it fails."""

    def awaitTermination(self, seconds: int) -> bool:  # noqa: N802
        rows = SimpleNamespace(persist=lambda: None, count=lambda: 0, unpersist=lambda: None)
        self.sink(rows, self.starts)
        return super().awaitTermination(seconds)


def test_starts_that_did_something_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that ran for weeks ended with its fifth late process, however far they were apart."""
    writer = WorkingWriter(*[LATE] * (2 * STARTS_MAX))
    monkeypatch.setattr(pipeline, "frames", lambda *_: writer)
    summary = run(None, SETTINGS, lambda line: None)  # type: ignore[arg-type]
    assert summary.batches == writer.starts == 2 * STARTS_MAX + 1


class WorkingOnce(WorkingWriter):
    """Does a micro-batch in its first start alone."""

    def awaitTermination(self, seconds: int) -> bool:  # noqa: N802
        awaited = WorkingWriter if self.starts == 1 else Writer
        return awaited.awaitTermination(self, seconds)


def test_a_start_that_did_something_leaves_as_many_as_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = WorkingOnce(*[LATE] * STARTS_MAX)
    monkeypatch.setattr(pipeline, "frames", lambda *_: writer)
    run(None, SETTINGS, lambda line: None)  # type: ignore[arg-type]
    assert writer.starts == STARTS_MAX + 1
    writer = WorkingOnce(*[LATE] * (STARTS_MAX + 1))
    monkeypatch.setattr(pipeline, "frames", lambda *_: writer)
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        run(None, SETTINGS, lambda line: None)  # type: ignore[arg-type]


class LongWriter(Writer):
    """Does three hundred micro-batches, with looks for more between, and remembers a hundred of both together."""

    done = 0

    def awaitTermination(self, seconds: int) -> bool:  # noqa: N802
        begin, self.done = self.done, self.done + 50
        for number in range(begin, self.done):
            dropped = SimpleNamespace(numRowsDroppedByWatermark=1)
            observed = {OBSERVED: {"seen": 10, "no_flights": 2}}
            self.recentProgress += [
                SimpleNamespace(batchId=number, observedMetrics=observed, stateOperators=[dropped]),
                SimpleNamespace(batchId=number, observedMetrics={}, stateOperators=[dropped]),
            ]
        del self.recentProgress[:-100]
        return self.done >= 300


def test_all_micro_batches_are_counted_and_not_the_last_hundred_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a query that had run for two minutes with --follow too few records were told."""
    writer = LongWriter()
    monkeypatch.setattr(pipeline, "frames", lambda *_: writer)
    summary = run(None, SETTINGS, lambda line: None)  # type: ignore[arg-type]
    assert (summary.records, summary.no_flights, summary.too_late) == (3000, 600, 300)


def test_what_fails_otherwise_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StreamingQueryException, match="another reason"):
        play(monkeypatch, "another reason", LATE)


def test_the_reason_is_not_looked_for_in_the_state_of_the_query() -> None:
    """It said: Identifier: [id = 2a, runId = bd]."""
    assert _reason(StreamingQueryException(LATE)) == LATE.splitlines()[0]


class OfTheJvmError(Py4JJavaError):  # type: ignore[misc]
    """What a JVM says of a wrong --master."""

    def __init__(self) -> None:
        self.java_exception = SimpleNamespace(getMessage=lambda: "Could not parse Master URL: 'local[x]'")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (OfTheJvmError(), "Could not parse Master URL: 'local[x]'"),
        (PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited."), "[JAVA_GATEWAY_EXITED] Java gat"),
    ],
)
def test_a_spark_that_does_not_start_is_one_line(
    failure: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the tracebacks of both Python and Java."""
    monkeypatch.setattr(pipeline, "spark_session", MagicMock(side_effect=failure))
    with pytest.raises(ClientError, match=rf"^Spark does not start with --master local\[x\]: {re.escape(said)}"):
        cli._spark("local[x]")


def test_a_chart_that_cannot_be_written_is_told_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told when all flights had been counted."""
    begun: list[object] = []
    monkeypatch.setattr(cli, "_prepare", lambda *given: begun.append(given))
    monkeypatch.setattr(cli, "_run", lambda *_: Summary(query="q"))
    (tmp_path / "file").touch()
    for chart in (tmp_path, tmp_path / "file" / "chart.png"):
        assert command_line.run(["pipeline", "--chart", str(chart)]) == 1
        assert str(tmp_path) in capsys.readouterr().err
    assert not begun
    assert command_line.run(["pipeline", "--json", "--chart", str(tmp_path / "charts" / "chart.png")]) == 0
    assert begun and not list((tmp_path / "charts").iterdir())


def test_all_clients_have_the_settings_of_command_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a secure cluster only the first question was answered."""
    client = {"security.protocol": "SASL_SSL", "bootstrap.servers": "another:1"}
    given = {"kafka.security.protocol": "SASL_SSL", "kafka.bootstrap.servers": "b:1"}
    opened: list[tuple[object, str]] = []

    def admin(settings: object, *, bootstrap_servers: str) -> Any:
        opened.append((settings, bootstrap_servers))
        return MagicMock()

    monkeypatch.setattr(result_topic, "KafkaAdminClient", admin)
    monkeypatch.setattr(options, "command_config", client)
    monkeypatch.setattr(cli, "connect", lambda _: MagicMock(**{"__enter__.return_value.list_topics": lambda: ["t"]}))
    cli._prepare("b:1", "t", "results", 1)
    assert opened == [(client, "b:1")]

    class Given(dict[str, Any]):
        def options(self, **some: str) -> "Given":
            self.update(some)
            return self

        def option(self, name: str, value: Any) -> "Given":
            self[name] = value
            return self

        def load(self) -> MagicMock:
            return MagicMock()

        def mode(self, _: str) -> MagicMock:
            return MagicMock()

    read, written = Given(), Given()
    spark, rows = MagicMock(), MagicMock()
    spark.readStream.format.return_value = read
    rows.select.return_value.write.format.return_value = written
    settings = replace(SETTINGS, client=client)
    for module in (pipeline, result_topic):
        monkeypatch.setattr(module, "f", MagicMock())
    monkeypatch.setattr(pipeline, "parsed", MagicMock())
    monkeypatch.setattr(pipeline, "totals", MagicMock())
    monkeypatch.setattr(pipeline, "is_flight", MagicMock())
    pipeline.frames(spark, settings)
    monkeypatch.setattr(pipeline, "write_parquet", MagicMock())
    sink = Sink(settings, Summary(), print)
    sink.query.set_result("2a")
    rows.count.return_value = 1
    sink.write(rows, 0)
    assert given.items() <= read.items() and given.items() <= written.items()
