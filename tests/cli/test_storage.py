"""`odradek storage`: directories are named, looked into and checked without a broker, and nothing else is changed."""

import json
import os
import random
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from odradek.broker.log.directories.directory_files import DirectoryOwner, MetaProperties, decode_meta, encode_meta
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.topic_settings import LogConfig
from odradek.cli.main import run
from odradek.testing.forked import in_a_child
from odradek.testing.log_environments import make_batch
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles, locked_by
from odradek.zk_schema.znodes.json_data import uuid_bytes

CLUSTER, OTHER = "dsd9-0p1SGW9c5Hn3N9Bbg", "AAAAAAAAAAAAAAAAAAAAAg"
Capture = pytest.CaptureFixture[str]


def properties(folder: Path, *extra: str, broker: int = 1, directories: str = "a b") -> str:
    """Write a broker's file, and return its path."""
    dirs = ",".join(str(folder / name) for name in directories.split())
    lines = [f"broker.id={broker}", f"log.dirs={dirs}", "zookeeper.connect=127.0.0.1:1", *extra]
    (folder / "server.properties").write_text("\n".join(lines))
    return str(folder / "server.properties")


def written(folder: Path) -> LogManager:
    """Open two log directories as a broker does, with three partitions that have a record each."""
    paths = [str(folder / "a"), str(folder / "b")]
    logs = LogManager(OsFiles(), ManualClock(), InlineBackground(), random.Random(5), paths, lambda topic: LogConfig())
    logs.open(DirectoryOwner(1, CLUSTER), lambda: None)
    for partition in range(3):
        logs.get_or_create("t", partition, is_new=True).append_as_leader(make_batch([b"x"], producer_id=7), 3)
    return logs


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The same, stopped cleanly."""
    written(tmp_path).close(1)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def owner(folder: Path) -> MetaProperties:
    return decode_meta((folder / "meta.properties").read_bytes())[0]


def test_an_id_is_one_that_format_takes(tmp_path: Path, capsys: Capture) -> None:
    assert run(["storage", "random-uuid"]) == 0
    first = capsys.readouterr().out.strip()
    assert len(uuid_bytes(first)) == 16
    assert run(["storage", "random-uuid"]) == 0
    assert capsys.readouterr().out.strip() != first
    assert run(["storage", "format", "-c", properties(tmp_path), "-t", first]) == 0
    assert owner(tmp_path / "a")[:2] == owner(tmp_path / "b")[:2] == (1, first)


def test_what_is_formatted_is_refused_or_left_and_the_others_formatted(tmp_path: Path, capsys: Capture) -> None:
    assert run(["storage", "format", "-c", properties(tmp_path, directories="a"), "-t", CLUSTER]) == 0
    before = contents(tmp_path / "a")
    both = ["storage", "format", "-c", properties(tmp_path), "-t", CLUSTER]
    assert run(both) == 1
    assert "is formatted already: --ignore-formatted" in capsys.readouterr().err
    assert not (tmp_path / "b").exists(), "all are looked at before any is written"
    assert run([*both, "--ignore-formatted"]) == 0
    assert contents(tmp_path / "a") == before and owner(tmp_path / "b").cluster_id == CLUSTER
    assert run([*both, "-g"]) == 0
    assert "All of the log directories are already formatted." in capsys.readouterr().out


@pytest.mark.parametrize(("broker", "cluster"), [(2, CLUSTER), (1, OTHER)])
def test_what_belongs_to_another_is_never_formatted(stopped: Path, capsys: Capture, broker: int, cluster: str) -> None:
    before = contents(stopped / "a")
    assert run(["storage", "format", "-c", properties(stopped, broker=broker), "-t", cluster, "-g"]) == 1
    assert f"belongs to broker 1 of cluster {CLUSTER}" in capsys.readouterr().err
    assert contents(stopped / "a") == before


@pytest.mark.parametrize(
    ("file", "cluster", "code", "said"),
    [
        ({"broker": -1}, CLUSTER, 2, "has no broker.id"),
        ({}, "not-an-id", 2, "22 characters"),
        ({"directories": "a"}, "", 2, "22 characters"),
    ],
)
def test_wrong_usage_is_a_line(
    tmp_path: Path, capsys: Capture, file: dict[str, str], cluster: str, code: int, said: str
) -> None:
    path = properties(tmp_path, **file)  # type: ignore[arg-type]
    assert run(["storage", "format", "-c", path, "-t", cluster]) == code
    assert said in capsys.readouterr().err


def test_a_file_that_no_broker_takes_is_a_line(tmp_path: Path, capsys: Capture) -> None:
    assert run(["storage", "info", "-c", properties(tmp_path, "num.partitions=many")]) == 1
    assert "num.partitions=many" in capsys.readouterr().err
    assert run(["storage", "info", "-c", str(tmp_path / "missing")]) == 1
    assert run(["storage", "check"]) == 2


def test_info_says_whose_they_are(stopped: Path, capsys: Capture) -> None:
    assert run(["storage", "info", "-c", properties(stopped, directories="a b c")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{stopped}/a: broker 1 of cluster {CLUSTER}"
    assert said[2] == f"{stopped}/c: not formatted: the first broker that starts with it formats it"
    (stopped / "b" / "meta.properties").write_bytes(encode_meta(DirectoryOwner(1, OTHER), 0, {}))
    assert run(["storage", "info", "--json", "-c", properties(stopped, broker=2)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [one["cluster_id"] for one in told["directories"]] == [CLUSTER, OTHER]
    assert len(told["problems"]) == 1 and "different clusters" in told["problems"][0]
    (stopped / "b" / "meta.properties").write_text("version=1\nnode.id=1\n")
    assert run(["storage", "info", "-c", properties(stopped, broker=2)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("problem: ") and "version 1" in line]
    assert "problem: broker.id is 2, but the directories belong to broker 1" in said


def test_check_counts_and_changes_nothing(stopped: Path, capsys: Capture) -> None:
    (stopped / "a" / "t-7.0123456789abcdef0123456789abcdef-stray").mkdir()
    before = contents(stopped)
    assert run(["storage", "check", "-c", properties(stopped)]) == 0
    said = capsys.readouterr().out
    assert said.count("; stopped cleanly\n") == said.count("  no damage\n") == 2
    assert "set aside: t-7.0123456789abcdef0123456789abcdef-stray" in said
    assert {path for path in before if not path.endswith("server.properties")} <= contents(stopped).keys()
    assert all(contents(stopped)[path] == data for path, data in before.items())
    assert run(["storage", "check", "--json", f"{stopped}/a/", f"{stopped}/b"]) == 0
    told = json.loads(capsys.readouterr().out)["directories"]
    assert sum(one["partitions"] for one in told) == sum(one["segments"] for one in told) == 3


def test_check_finds_a_bit_that_has_changed(stopped: Path, capsys: Capture) -> None:
    (log,) = stopped.glob("*/t-0/*.log")
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    assert run(["storage", "check", "-c", properties(stopped)]) == 1
    said = capsys.readouterr().out
    assert f"  t-0/{log.name}: byte 0: checksum is " in said
    assert "  1 damage(s)" in said and said.count("  no damage") == 1
    assert run(["storage", "check", str(stopped / "nowhere")]) == 1


def test_who_uses_a_directory_is_said_without_taking_its_lock(tmp_path: Path) -> None:
    config = properties(tmp_path)
    logs = written(tmp_path)

    def look() -> str:
        with redirect_stdout(StringIO()) as said:
            codes = [run(["storage", command, "-c", config]) for command in ("info", "check")]
        return f"{codes} {locked_by(config)}\n{said.getvalue()}"

    said = in_a_child(look)
    logs.close(1)
    assert said.startswith("[0, 0] 0\n"), said
    assert said.count(f" in use by process {os.getpid()}\n") == 4
