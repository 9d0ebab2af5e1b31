"""What `up` writes: the brokers' files, and its lines."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.local.broker_files import BrokerFile
from odradek.local.cluster import BrokerStatus, ClusterPlan
from odradek.local.report import Lines, LiveTable, changes, sentence, style_of

ONE = BrokerStatus(1, "127.0.0.1:9093", 4711, "registered", controller=False)
TWO = BrokerStatus(2, "127.0.0.1:9094", 4712, "registered", controller=True)


def test_changes_between_two_looks() -> None:
    dead = replace(TWO, state="was killed by SIGKILL", controller=False)
    assert list(changes([ONE, TWO], [ONE, TWO])) == []
    assert [sentence(event) for event in changes([ONE, TWO], [ONE, dead])] == [
        "broker 2 (pid 4712): was killed by SIGKILL",
        "no controller",
    ]
    assert [sentence(event) for event in changes([ONE, dead], [replace(ONE, controller=True), dead])] == [
        "controller is broker 1"
    ]


def test_the_end_of_zookeeper_is_said_with_what_to_do() -> None:
    ended = {"event": "zookeeper", "state": "ZooKeeper was killed by SIGKILL: bye (see zookeeper.log)"}
    assert sentence(ended) == (
        "ZooKeeper was killed by SIGKILL: bye (see zookeeper.log). Without it no leader moves and no broker can join; "
        "`odradek stop` and `odradek up` start all again, nothing is lost"
    )


def test_lines_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    ready = {"event": "ready", "bootstrap": "127.0.0.1:9092,127.0.0.1:9093", "zookeeper": "127.0.0.1:2181"}
    Lines(as_json=False).say(ready)
    Lines(as_json=True).say(ready)
    plain, as_json = capsys.readouterr().out.splitlines()
    assert plain == "ready bootstrap=127.0.0.1:9092,127.0.0.1:9093 zookeeper=127.0.0.1:2181"
    assert json.loads(as_json) == ready


def test_a_brokers_file(tmp_path: Path) -> None:
    broker = BrokerFile(
        1, 9093, 2, "127.0.0.1:2181", tmp_path, {"log.retention.ms": "5", "offsets.topic.replication.factor": "1"}
    )
    broker.write()
    assert broker.path.stat().st_mode & 0o777 == 0o600, "an override may be a password"
    written = dict(
        line.split("=", 1) for line in (tmp_path / "config" / "broker-1.properties").read_text().splitlines()
    )
    assert written["broker.id"] == "1"
    assert written["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert written["log.dirs"] == str(tmp_path / "data" / "broker-1")
    assert written["zookeeper.connect"] == "127.0.0.1:2181"
    assert written["zookeeper.session.timeout.ms"] == "3000"
    assert written["transaction.state.log.replication.factor"] == "2"
    assert written["offsets.topic.replication.factor"] == "1"
    assert written["log.retention.ms"] == "5"
    assert (tmp_path / "data" / "broker-1").is_dir()


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_what_is_acknowledged_survives_a_broker_where_there_are_three(
    brokers: int, replicas: str, in_sync: str, tmp_path: Path
) -> None:
    settings = BrokerFile(0, 9092, brokers, "127.0.0.1:2181", tmp_path).settings()
    assert settings["default.replication.factor"] == settings["offsets.topic.replication.factor"] == replicas
    assert settings["min.insync.replicas"] == in_sync


def test_a_plan(tmp_path: Path) -> None:
    plan = ClusterPlan(tmp_path, brokers=2, port=19092)
    assert plan.bootstrap == "127.0.0.1:19092,127.0.0.1:19093"
    assert plan.zookeeper_connect == "127.0.0.1:2181"
    assert ClusterPlan(tmp_path, zookeeper="z:1,y:2/kafka").zookeeper_connect == "z:1,y:2/kafka"


@pytest.mark.parametrize(
    ("asked", "settings"),
    [("10001", {"maxSessionTimeout": "10001"}), ("10000", {}), ("no number", {}), (None, {})],
)
def test_its_zookeeper_grants_sessions_as_long_as_brokers_ask_for(
    asked: str | None, settings: dict[str, str], tmp_path: Path
) -> None:
    """It granted ten seconds at most, and nobody said so."""
    overrides = {"zookeeper.session.timeout.ms": asked} if asked else {}
    assert ClusterPlan(tmp_path, overrides=overrides).zookeeper_settings() == settings


@pytest.mark.parametrize(
    ("state", "style"),
    [
        ("registered", "green"),
        ("registered (started by somebody else)", "green"),
        ("starting", "yellow"),
        ("stopping", "yellow"),
        ("not registered", "red"),
        ("was killed by SIGKILL", "red"),
    ],
)
def test_colours(state: str, style: str) -> None:
    assert style_of(state) == style


def test_the_table_below_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveTable() as report:
        report.show([ONE, replace(TWO, state="[red] is no markup")])
        report.say({"event": "controller", "broker": None})
    shown = capsys.readouterr().out
    assert "no controller" in shown
    assert "127.0.0.1:9093" in shown
    assert "[red] is no markup" in shown
