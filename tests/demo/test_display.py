"""What is shown: changes as lines, pictures without a word of this machine."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from odradek.demo.cluster import ClusterState, PartitionState
from odradek.demo.flights import read_flights
from odradek.demo.live import Snapshot, changes, picture
from odradek.demo.load import Acknowledgements
from odradek.demo.report import Result, closing, duration, write_svg
from odradek.demo.timeline import Moment
from odradek.demo.verdict import Findings, GroupFindings

BEFORE = ClusterState(0, {0: PartitionState(1, (0, 1, 2)), 1: PartitionState(0, (0, 1, 2))})
SOUND = Findings(6, 6, 6, lost=0, misplaced=0, repeated=0, out_of_order=0, unknown=0)


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


def result(findings: Findings = SOUND) -> Result:
    outage = Snapshot("broker 1 is dead", BEFORE, dead=frozenset({1}), produced=6, acknowledged=3)
    moments = [Moment(0.0, None, "SIGKILL broker 1", "it led partition 0")]
    return Result(moments, findings, GroupFindings(6, 6, 0, 0), 0, {0: 3100.0}, outage)


def test_a_sound_run_says_so() -> None:
    text = printed(result())
    assert "✓ nothing lost, repeated or out of order" in text
    assert "acknowledged nothing: 3.10 s" in text
    assert "broker 1 ✗" in text, "a dead leader is marked"


def test_a_bad_run_says_what_is_wrong() -> None:
    bad = result(Findings(6, 6, 6, lost=2, misplaced=0, repeated=1, out_of_order=0, unknown=0))
    assert bad.problems == ["2 records lost", "1 records repeated"]
    assert "✗ 2 records lost; 1 records repeated" in printed(bad)


def test_the_svg_fetches_nothing(tmp_path: Path) -> None:
    write_svg(result(), tmp_path / "demo.svg")
    svg = (tmp_path / "demo.svg").read_text()
    assert "nothing&#160;lost" in svg
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
