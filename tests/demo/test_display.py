"""What is shown: changes as lines, pictures without a word of this machine."""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from odradek.demo.cluster import ClusterState, PartitionState
from odradek.demo.flights import Flight, Totals, read_flights, totals_by_airport
from odradek.demo.live import Snapshot, changes, picture
from odradek.demo.load import Acknowledgements
from odradek.demo.pipeline import by_airport
from odradek.demo.readers import Share
from odradek.demo.report import Result, closing, duration, write_svg
from odradek.demo.timeline import Moment
from odradek.demo.verdict import Findings, GroupFindings

BEFORE = ClusterState(0, {0: PartitionState(1, (0, 1, 2)), 1: PartitionState(0, (0, 1, 2))})
SOUND = Findings(6, 6, {0: 4, 1: 2}, lost=0, misplaced=0, repeated=0, unknown=0, out_of_order_by_partition={0: 0, 1: 0})
AIRPORTS = {"EWR": Totals(4, 1, 2, 77), "JFK": Totals(2, 0, 1, 15)}


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (BEFORE, []),
        (BEFORE._replace(controller=2), ["controller: broker 2"]),
        (
            ClusterState(0, {0: PartitionState(2, (0, 2)), 1: PartitionState(0, (0, 2))}),
            ["flights-0: leader 1 → 2, in sync 0,2", "flights-1: leader 0, in sync 0,2"],
        ),
    ],
)
def test_changes(after: ClusterState, lines: list[str]) -> None:
    assert list(changes(Snapshot(cluster=BEFORE), Snapshot(cluster=after))) == lines


def printed(result: Result) -> str:
    console = Console(file=io.StringIO(), width=102)
    console.print(picture(result.outage), closing(result))
    text = console.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    (tmp_path / "chart.png").write_bytes(b"")
    return tmp_path / "chart.png"


def result(chart: Path, findings: Findings = SOUND, spark: Mapping[str, Totals] = AIRPORTS) -> Result:
    outage = Snapshot("broker 1 is dead", BEFORE, dead=frozenset({1}), produced=6, acknowledged=3)
    moments = [Moment(0.0, None, "SIGKILL broker 1", "it led partition 0")]
    return Result(
        moments=moments,
        findings=findings,
        group=GroupFindings(6, 6, 0, 0, {0: 0, 1: 0}, {0: [2], 1: [1, 0]}),
        different_replicas=0,
        longest_pauses_ms={0: 3100.0},
        outage=outage,
        shares=[(Share((0, 1), 2), Share((0,), 6))],
        airports=AIRPORTS,
        counted_by_spark=spark,
        chart=chart,
    )


def test_a_sound_run_says_so(chart: Path) -> None:
    text = printed(result(chart))
    assert "✓ nothing lost, repeated or out of order" in text
    assert "acknowledged nothing: 3.10 s" in text
    assert "broker 1 ✗" in text, "a dead leader is marked"
    words = [line.split() for line in text.splitlines()]
    assert ["0", "0,", "1", "0", "2", "4"] in words, "a reader's share"
    assert ["flights-1", "2", "0", "0", "1,", "then", "0"] in words, "who has read a partition"
    assert result(chart).problems == []


def test_a_bad_run_says_what_is_wrong(chart: Path) -> None:
    bad = result(chart, replace(SOUND, lost=2, repeated=1))
    assert bad.problems == ["2 records lost", "1 records repeated"]
    assert "✗ 2 records lost; 1 records repeated" in printed(bad)


@pytest.mark.parametrize(
    "spark",
    [
        pytest.param(AIRPORTS | {"JFK": Totals(2, 0, 1, 16)}, id="another figure"),
        pytest.param({"EWR": AIRPORTS["EWR"]}, id="an airport is missing"),
        pytest.param(AIRPORTS | {"XXX": Totals(1, 0, 0, 0)}, id="an airport too many"),
    ],
)
def test_spark_must_count_what_the_input_says(chart: Path, spark: Mapping[str, Totals]) -> None:
    bad = result(chart, spark=spark)
    assert bad.problems == ["1 airports that Spark counted otherwise"]
    assert "✗ 1 airports" in printed(bad)


def test_a_chart_must_be_there(tmp_path: Path) -> None:
    assert result(tmp_path / "none.png").problems == ["no chart was drawn"]


def test_the_svg_fetches_nothing(tmp_path: Path) -> None:
    write_svg(result(Path("chart.png")), tmp_path / "demo.svg")
    svg = (tmp_path / "demo.svg").read_text()
    assert "no&#160;chart&#160;was&#160;drawn" in svg
    assert "@font-face" not in svg
    assert str(tmp_path) not in svg


@pytest.mark.parametrize(("milliseconds", "text"), [(3.4, "3 ms"), (999.0, "999 ms"), (3156.0, "3.16 s")])
def test_durations(milliseconds: float, text: str) -> None:
    assert duration(milliseconds) == text


def test_flights_are_keyed_by_carrier_and_all_different() -> None:
    flights = read_flights(100)
    assert flights[0].key == b"UA"
    assert flights[0].value.startswith(b"2013,1,1,517,515,2,830,819,11,UA,1545,")
    assert len({flight.value for flight in flights}) == 100


def flight(origin: str, delay: str) -> Flight:
    return Flight(b"UA", f"2013,1,1,517,515,{delay},830,819,11,UA,1545,N1,{origin},IAH,227,1400,5,15,x".encode())


def test_totals_of_airports_are_those_of_the_lines() -> None:
    lines = [("JFK", "15"), ("EWR", "NA"), ("EWR", "-3"), ("EWR", "14"), ("EWR", "60")]
    assert totals_by_airport(flight(*line) for line in lines) == {
        "EWR": Totals(flights=4, cancelled=1, delayed=1, delay_minutes=74),
        "JFK": Totals(flights=1, cancelled=0, delayed=1, delay_minutes=15),
    }


def test_totals_of_days_add_up_to_an_airports() -> None:
    day = {"origin": "JFK", "day": "2013-01-01", "flights": 2, "cancelled": 1, "delayed": 1, "delay_minutes": 20}
    days = [day, day | {"day": "2013-01-02", "delay_minutes": 5}, day | {"origin": "EWR", "flights": 7}]
    assert by_airport(days) == {"EWR": Totals(7, 1, 1, 20), "JFK": Totals(4, 2, 2, 25)}


def test_acknowledgements_around_a_time() -> None:
    columns = Acknowledgements(4)
    for number, (partition, sent, done) in enumerate([(0, 1.0, 2.0), (0, 4.0, 9.0), (1, 4.5, 8.0)]):
        columns.partitions[number], columns.offsets[number] = partition, number
        columns.sent_ms[number], columns.acknowledged_ms[number] = sent, done
    assert columns.places() == [(0, 0), (0, 1), (1, 2), None]
    assert columns.around(0, 5.0) == (2.0, 9.0)
    assert columns.around(2, 5.0) == (None, None)
    assert (columns.under_way(5.0, (0,)), columns.under_way(5.0, (0, 1))) == (1, 2)
    assert columns.longest_pause_ms(0) == 7.0
