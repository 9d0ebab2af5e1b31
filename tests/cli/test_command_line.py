"""The command line without a cluster: help, usage, errors in one line, forms of output."""

import asyncio
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from odradek.cli import main as command_line
from odradek.cli.consume import Printer
from odradek.cli.dump_log import shown as in_short
from odradek.cli.options import settings, topic_partition
from odradek.cli.output import plain, print_json, print_table
from odradek.client.admin.values import ConfigEntry, ConfigSource
from odradek.client.records import ConsumerRecord, TopicPartition
from odradek.local.cluster import ClusterPlan
from odradek.local.ports import PortInUse
from odradek.protocol.records import encode_batch
from odradek.zk_schema.store import Stat


@pytest.fixture
def dead_address() -> Iterator[str]:
    """A port of this machine where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{probe.getsockname()[1]}"  # and nobody else can, while it is bound


def test_help_names_every_command_and_needs_neither_typer_nor_clients() -> None:
    check = (
        "import sys; from odradek.cli.main import run; assert run(['--help']) == 0;"
        "heavy = {'typer', 'rich', 'click', 'asyncio', 'odradek.client', 'odradek.broker'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    for name in command_line.COMMANDS:
        assert f"  {name} " in done.stdout


def test_up_tells_metrics_on_the_usual_ports_or_on_free_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[ClusterPlan] = []

    def run(plan: ClusterPlan, *, as_json: bool) -> int:
        plans.append(plan)
        return 0

    def in_use(host: str, port: int, what: str) -> None:
        raise PortInUse(what, host, port)

    monkeypatch.setattr("odradek.cli.up.run", run)
    monkeypatch.setattr("odradek.local.ports.free_port_range", lambda count: 15_000)
    monkeypatch.setattr("odradek.local.ports.check_port_free", lambda host, port, what: None)
    for arguments in ([], ["--port", "19092"], ["--port", "19092", "--metrics-port", "8000"], ["--metrics-port", "0"]):
        assert command_line.run(["up", *arguments]) == 0
    assert command_line.run(["up", "--zookeeper-port", "7072"]) == 0  # broker 1 found its metrics.port in use
    assert command_line.run(["up", "--metrics-port", "65534"]) == 2  # was noticed by the broker that has 65536
    monkeypatch.setattr("odradek.local.ports.check_port_free", in_use)
    assert command_line.run(["up"]) == 0
    ports = [[one.settings().get("metrics.port") for one in plan.broker_files()] for plan in plans]
    free = ["15000", "15001", "15002"]
    assert ports == [["7071", "7072", "7073"], free, ["8000", "8001", "8002"], [None] * 3, free, free]


@pytest.mark.parametrize("arguments", [["--help"], ["topics", "--help"], ["topics"]])
@pytest.mark.parametrize("buffered", [True, False])
def test_a_reader_who_has_gone_is_no_failure(arguments: list[str], buffered: bool) -> None:
    """`odradek … | head`: nothing is said, however late it is noticed."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"PYTHONUNBUFFERED": "" if buffered else "1"}
    command = [sys.executable, "-m", "odradek", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_that_cannot_be_written_is_a_failure_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "odradek", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "odradek: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        ("<&-", ["produce", "t", "--bootstrap-server", "127.0.0.1:1"], 0),
        (">&-", ["produce", "t", "--bootstrap-server", "127.0.0.1:1", "--json"], 0),
        ("2>&-", ["produce", "t", "--bootstrap-server", "127.0.0.1:1"], 0),
        ("2>&-", ["nonsense"], 2),
    ],
)
def test_a_standard_stream_that_is_closed_is_an_empty_one(closed: str, arguments: list[str], code: int) -> None:
    """It was a traceback, and complaints went into the output."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "odradek", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_json_holds_what_has_no_encoding(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A znode may hold half a surrogate pair, and a terminal may know ASCII only."""
    half = json.loads('"\\ud800"')
    print_json(half)
    assert capsys.readouterr().out == '"\\ud800"\n'
    written = io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", written)
    print_json("é")
    assert written.buffer.getvalue() == b'"\\u00e9"\n'  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("entry", "struck"),
    [
        ("odradek.cli.main", "odradek.cli.output"),
        ("odradek.broker.__main__", "odradek.broker.process"),
        ("odradek.demo.__main__", "odradek.demo.command"),
    ],
)
def test_ctrl_c_at_the_very_start_is_quiet(entry: str, struck: str) -> None:
    """Python's traceback was printed until all was imported: for a tenth of a second, or longer on a busy machine."""
    check = (
        "import sys\n"
        "class Strike:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {struck!r}: raise KeyboardInterrupt\n"
        "before = set(sys.modules)\n"
        f"import {entry} as entry\n"
        "early = {one.partition('.')[0] for one in set(sys.modules) - before} - {'odradek', 'gc'}\n"
        "assert not early, early\n"
        "sys.meta_path.insert(0, Strike())\n"
        "sys.exit(entry.main())"
    )
    done = subprocess.run([sys.executable, "-c", check, "topics", "list"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


def test_importing_the_package_imports_no_client() -> None:
    check = (
        "import sys, odradek; assert not any(name.startswith('odradek.') for name in sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_public_names_are_there() -> None:
    import odradek

    for name in odradek.__all__:
        assert getattr(odradek, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'KafkaConsumr'"):
        _ = odradek.KafkaConsumr  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_every_listed_command_is_built_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_spec(f"odradek.cli.{name.replace('-', '_')}") is not None
    assert command_line.run([name, "--help"]) == 0
    assert f"Usage: odradek {name}" in capsys.readouterr().out


def test_files_that_are_no_text_and_users_without_a_name(
    tmp_path: Path, dead_address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    latin = tmp_path / "latin"
    latin.write_bytes("# café\n".encode("latin-1"))
    for arguments, code, said in (
        (["topics", "list", "--command-config", str(latin), "--bootstrap-server", dead_address], 1, "not reachable"),
        (
            ["users", "add", "ann", "--password-file", str(latin), "--zookeeper", dead_address],
            2,
            "is not text in UTF-8",
        ),
        (["users", "add", "", "--password-file", str(latin), "--zookeeper", dead_address], 2, "it is empty"),
        (["users", "delete", "", "--zookeeper", dead_address], 2, "it is empty"),
    ):
        assert command_line.run(arguments) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line


def test_names_and_data_of_znodes_do_not_command_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Znodes:
        async def children(self, path: str) -> list[str]:
            return ["group \x1b[2J"]

        async def get(self, path: str) -> tuple[bytes, Stat]:
            return b"first\nclear \x1b[2J", Stat(*[0] * len(Stat._fields))

    monkeypatch.setattr("odradek.cli.zk.with_store", lambda address, file, work: asyncio.run(work(Znodes())))
    assert command_line.run(["zk", "ls", "/consumers"]) == command_line.run(["zk", "get", "/x"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == ["group \\x1b[2J", "first", "clear \\x1b[2J"]


@pytest.mark.parametrize("data", [b"[" * 100_000, b"[" * 900 + b"]" * 900, b"NaN", b"[1e999]"])
def test_data_of_a_znode_that_json_cannot_hold_is_text(
    data: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback, or a NaN that no script can parse."""

    class Znodes:
        async def get(self, path: str) -> tuple[bytes, Stat]:
            return data, Stat(*[0] * len(Stat._fields))

    def no_constant(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr("odradek.cli.zk.with_store", lambda address, file, work: asyncio.run(work(Znodes())))
    assert command_line.run(["zk", "get", "/x"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == data.decode()
    assert command_line.run(["zk", "get", "/x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=no_constant)["data"] == data.decode()


def test_a_complaint_does_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["dump-log", "clear \x1b[2J"]) == 2
    assert "clear \\x1b[2J: not a file of a log" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topcs"], "no command 'topcs': did you mean topics?"),
        (["topics", "lst"], "No such command 'lst'"),
        (["topics", "create"], "Missing argument"),
        (["topics", "list", "--nope"], "No such option: --nope"),
        (["consume", "t", "--offset", "5"], "Invalid value for --offset: needs --partition"),
        (["configs", "describe"], "give one of --topic, --broker, --broker-defaults"),
        (["configs", "alter", "--topic", "t", "--set", "x"], "'x' is not KEY=VALUE"),
        (["groups", "reset-offsets", "g", "--topic", "t"], "give one of --to-earliest"),
        (["reassign", "start", "t-0=a"], "'a' is not a list of broker ids"),
        (["reassign", "start", "t-0"], "'t-0' is not TOPIC-PARTITION=ID,ID…"),
        (["reassign", "start", "t-0=1", "t-0=2"], "t-0 is named twice"),
        (["topics", "create", "t", "--replica-assignment", "0:1", "--partitions", "3"], "either it or --partitions"),
        (["consume", "t", "--group", ""], "Invalid value for --group: it is empty"),
        (["top", "--once", "--interval", "nan"], "nan is not in the range"),
        (["top", "--once", "--interval", "inf"], "inf is not in the range"),
        (["up", "--port", "9092", "--zookeeper-port", "9093"], "port 9093 is needed for --port, too"),
        (["up", "--port", "9092", "--metrics-port", "9090"], "port 9092 is needed for --port, too"),
        (["reassign", "move", "0", "t-0"], "'t-0' is not TOPIC-PARTITION=PATH"),
        (["elect-leaders", "--unclean"], "name the partitions: it may lose records"),
        (["elect-leaders", "orders-²"], "'orders-²' is not TOPIC-PARTITION"),
        (["topics", "list", "--command-config"], "--command-config needs a file"),
        (["topics", "list", "--bootstrap-server", "localhost"], "bootstrap.servers: 'localhost' is not host:port"),
        (["topics", "list", "--bootstrap-server", "a:1,b:99999"], "bootstrap.servers: 'b:99999' is not host:port"),
        (["topics", "list", "--bootstrap-server", ""], "bootstrap.servers is empty"),
        (["console", "--bootstrap", "a b:9092"], "bootstrap.servers: 'a b:9092' is not host:port"),
        (["zk", "ls", "--zookeeper", "zoo:99999"], "'zoo:99999' is not host:port"),
        (["users", "list", "--zookeeper", "zoo:2181,"], "'' is not host:port"),
        (["why", "t", "--zookeeper", ""], "'' is not host:port"),
        (["up", "--zookeeper", ""], "'' is not host:port"),
        (["groups", "list", "--state", "Nonsense"], "'Nonsense' is not one of Stable, Empty, PreparingRebalance,"),
        (["groups", "list", "--state", "stable,none"], "'none' is not one of Stable, Empty, PreparingRebalance,"),
        (["produce", "t", "--acks", "2"], "'2' is not one of all, 1, 0"),
        (["perf", "produce", "t", "--acks", "2"], "'2' is not one of all, 1, 0"),
        (["perf", "latency", "t", "--acks", "2"], "'2' is not one of all, 1, 0"),
        (["produce", "t", "--compression", "zip"], "'zip' is not one of none, gzip, snappy, lz4, zstd"),
        (["produce", "t", "--partition", "-1"], "-1 is not in the range x>=0"),
        (["users", "add", ".."], "'..' cannot be part of a path in ZooKeeper"),
        (["users", "delete", "."], "'.' cannot be part of a path in ZooKeeper"),
        (["zk", "ls", "/brokers/../config"], "'/brokers/../config': ZooKeeper knows neither . nor .."),
        (["zk", "get", "/."], "'/.': ZooKeeper knows neither . nor .."),
        (["users", "add", "\udcff"], "'\\udcff' has characters that UTF-8 cannot encode"),
        (["elect-leaders", f"orders-{'9' * 5000}"], "is not TOPIC-PARTITION"),
        (["users", "delete", "ann", "--mechanism", "PLAIN"], "'PLAIN' is not one of SCRAM-SHA-256, SCRAM-SHA-512"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("odradek: ") and said in line


def test_a_command_without_its_subcommand_shows_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["topics"]) == 2
    assert "  describe  Show the partitions of topics" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["topics", "create", "t"],
        ["groups", "describe", "g"],
        ["consume", "t"],
        ["consume", "t", "--group", "g"],
        ["configs", "describe", "--topic", "t"],
        ["why", "t"],
        ["doctor"],
        ["top", "--once"],
    ],
)
def test_no_cluster_is_one_line_and_1_at_once(
    arguments: list[str], dead_address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run([*arguments, "--bootstrap-server", dead_address]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"odradek: broker {dead_address}: not reachable (cannot connect: Connection refused). "
        "Is the cluster up, are address and security.protocol right?"
    )


def test_dump_log_prints_and_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = tmp_path / "00000000000000000000.log"
    content = encode_batch(0, [5], [None], [b"hello"])
    segment.write_bytes(content)
    assert command_line.run(["dump-log", str(segment), "--records", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[1]["offset"] == 0 and rows[1]["value"] == "hello"
    assert command_line.run(["dump-log", str(segment), "--verify"]) == 0
    content[-1] ^= 1
    segment.write_bytes(content)
    assert command_line.run(["dump-log", str(segment), "--verify"]) == 1
    assert str(segment) in capsys.readouterr().out
    assert command_line.run(["dump-log", str(tmp_path / "none.log")]) == 1


def test_contents_of_logs_and_directories_do_not_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A header's name is whatever a client has written, and a group's id too."""
    clear = "\x1b[2J"
    segment = tmp_path / "t-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(encode_batch(0, [5], [None], [b"hello"], [[(clear, b"1")]]))
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint.write_text(f"0\n2\nt{clear} 0 1\nt{clear} 0 2\n")
    (tmp_path / "meta.properties").write_text(f"version=0\nbroker.id=1\ncluster.id={clear}\n")
    for arguments in (
        ["dump-log", "--records", str(segment)],
        ["dump-log", str(checkpoint)],
        ["dump-log", "--verify", str(tmp_path)],
        ["storage", "check", str(tmp_path)],
    ):
        assert command_line.run(arguments) in (0, 1)
        said = capsys.readouterr()
        assert "\\x1b[2J" in said.out and clear not in said.out + said.err


GOLDEN = Path(__file__).parents[1] / "broker" / "log" / "golden"


@pytest.mark.parametrize("more", [[], ["--verify"], ["--json"]])
def test_dump_log_says_of_a_file_that_is_not_there_that_alone(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its heading came first, as if there were a file, and then "[Errno 2]"."""
    path = tmp_path / "00000000000000000000.timeindex"
    assert command_line.run(["dump-log", str(path), *more]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"odradek: {path}: No such file or directory\n")


def test_dump_log_shows_every_file_in_lines_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def lines(*arguments: str) -> list[str]:
        assert command_line.run(["dump-log", *arguments]) == 0
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    for name, content in [line.split() for line in (GOLDEN / "kafka-3.9.1-records.txt").read_text().splitlines()]:
        if name in ("snapshot", "aborted-index", "marker-commit"):
            suffix = {"snapshot": "snapshot", "aborted-index": "txnindex", "marker-commit": "log"}[name]
            (tmp_path / f"{100 if name != 'aborted-index' else 0:020d}.{suffix}").write_bytes(bytes.fromhex(content))
    path = str(tmp_path / f"{100:020d}.snapshot")
    title, head, first, second = lines(path)
    assert title == f"{path}: producers"
    assert head.split()[:2] == ["PRODUCER", "ID"]
    assert first.split()[:4] == ["4001", "3", "2147483646", "1"]
    assert "2023-11-14 22:13:20.000" in second
    assert second.split()[2:6] == ["-"] * 4
    assert lines(str(tmp_path / f"{0:020d}.txnindex"))[2].split() == ["4001", "10", "20", "15"]
    _, head, batch, record = lines(str(tmp_path / f"{100:020d}.log"), "--records")
    assert head.startswith("POSITION    SIZE")
    assert batch.endswith("4001 epoch 3    -              control, transactional")
    assert record == "    100  2023-11-14 22:13:20.000  COMMIT  coordinator epoch 11"
    offsets = str(GOLDEN / "__consumer_offsets-0" / f"{0:020d}.log")
    decoded = [line for line in lines(offsets, "--records") if "key type=offset" in line]
    assert "key type=offset version=1 group=first topic=v0 partition=0  value version=3 offset=7 " in decoded[0]
    plain = lines(offsets, "--records", "--topic", "orders")
    assert any("key 0x0001000566697273740002763000000000  value 0x0003" in line for line in plain)
    assert lines("--verify", str(GOLDEN / "v0-0") + "/") == [f"{GOLDEN / 'v0-0'}: no damage"]


def test_dump_log_goes_on_as_far_as_a_damaged_file_makes_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = dict(line.split() for line in (GOLDEN / "kafka-3.9.1-records.txt").read_text().splitlines())
    path = tmp_path / f"{0:020d}.txnindex"
    path.write_bytes(bytes.fromhex(golden["aborted-index"])[:-1])
    assert command_line.run(["dump-log", str(path)]) == 1
    said = capsys.readouterr()
    assert "4001" in said.out
    assert said.err == f"odradek: {path}: byte 34: 67 bytes, entries of 34: the last is incomplete\n"
    other = tmp_path / "notes.txt"
    other.write_text("")
    assert command_line.run(["dump-log", str(other)]) == 2
    assert command_line.run(["dump-log", "--verify", str(other)]) == 2
    assert command_line.run(["dump-log", "--verify", str(tmp_path / "nowhere")]) == 1


def test_bytes_that_are_no_text_are_shown_so_that_one_sees_what_they_are() -> None:
    shown = [in_short(value) for value in (b"plain", b"a\nb\x00", b"caf\xc3\xa9 \xff", bytes(4), None, b"")]
    assert shown == ['"plain"', '"a\\nb\\x00"', '"café \\xff"', "0x00000000", "null", '""']
    assert in_short(b"x" * 200) == f'"{"x" * 119}… (202 characters)'


def test_partitions_and_pairs_as_people_write_them() -> None:
    assert topic_partition("my-topic-3") == topic_partition("my-topic:3") == TopicPartition("my-topic", 3)
    assert settings(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    for wrong in ("orders", "-3", "orders-x"):
        with pytest.raises(typer.BadParameter):
            topic_partition(wrong)


def test_json_says_enums_by_name_and_bytes_as_text() -> None:
    entry = ConfigEntry("k", None, ConfigSource.DEFAULT_CONFIG, False, True)
    assert plain([entry, b"\xff", TopicPartition("t", 1)]) == [
        {"name": "k", "value": None, "source": "DEFAULT_CONFIG", "read_only": False, "sensitive": True, "synonyms": []},
        "�",
        {"topic": "t", "partition": 1},
    ]


def test_a_table_into_a_pipe_is_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "value"], [("a", None), ("longer", 5)], "title")
    assert capsys.readouterr().out == "title\nNAME    VALUE\na       -\nlonger  5\n"


def test_a_narrow_terminal_cuts_nothing_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of topics and settings ended with an ellipsis, on one of 80 columns too."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    name, value = "log.message.timestamp.difference.max.ms", "9223372036854775807"
    print_table(["name", "value", "source"], [(name, value, "default config")])
    told = capsys.readouterr().out
    rows = [line.split("│")[1:3] for line in told.splitlines() if line.startswith("│")]
    assert ["".join(cell.strip() for cell in column) for column in zip(*rows, strict=True)] == [name, value]


def test_names_in_a_table_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["group"], [("\x1b[2Jgone\n",), ("größe",)], "\x07")
    assert capsys.readouterr().out == "\\x07\nGROUP\n\\x1b[2Jgone\\n\ngröße\n"


@pytest.mark.parametrize(
    ("separator", "as_json", "line"),
    [
        (None, False, b"v"),
        ("=", False, b"k=v"),
        (
            None,
            True,
            b'{"topic": "t", "partition": 1, "offset": 2, "timestamp_ms": 3, '
            b'"key": "k", "value": "v", "headers": [["h", "x"]]}',
        ),
    ],
)
def test_forms_of_a_consumed_record(separator: str | None, as_json: bool, line: bytes) -> None:
    record = ConsumerRecord("t", 1, 2, 3, 0, b"k", b"v", [("h", b"x")], 0)
    assert Printer(None, separator, as_json=as_json)._line(record) == line
