"""Settings on the command line that are wrong: one line that names the option, and exit code 2 where it is usage."""

import errno
import json
import socket
from pathlib import Path

import pytest

from odradek.cli import main as command_line
from odradek.cli.zk import _write_whole
from odradek.local.ports import free_port_range
from odradek.local.secure import SecureFiles, write_private


def test_up_says_what_is_wrong_with_a_setting_before_it_starts_anything(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a broker's log nobody would see it."""
    monkeypatch.setattr("odradek.cli.up.run", lambda plan, as_json: 0)
    assert command_line.run(["up", "--override", "num.partition=3", "--override", "num.io.threads=9"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "odradek up: warning: --override: num.partition is not a setting of Kafka's, did you mean num.partitions?",
        "odradek up: warning: --override: num.io.threads has no effect here: one loop does it all",
    ]
    assert command_line.run(["up", "--override", "num.partitions=many"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "odradek up: --override: num.partitions=many: Not a number of type INT "
        "(allowed: a whole number of 32 bits, at least 1) (see odradek up --help)"
    ]
    assert command_line.run(["up", "--override", "broker.id=1"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "odradek up: --override: broker.id is given by up, which counts its brokers from 0 (see odradek up --help)"
    ]
    assert command_line.run(["up", "--override", "zookeeper.connect=127.0.0.1:2181/kafka"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "odradek up: --override: zookeeper.connect is given by up, which looks there for its brokers: "
        "`--zookeeper HOST:PORT/CHROOT` names another (see odradek up --help)"
    ]


@pytest.mark.parametrize("more", [[], ["--secure"], ["--detach"]])
def test_up_refuses_a_folder_that_brokers_would_take_for_two(
    more: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They all took what stands before the comma for the first of their log.dirs, and two of three ended."""
    for start in ("run", "run_detached"):
        monkeypatch.setattr(f"odradek.cli.up.{start}", lambda *_, **__: 0)
    assert command_line.run(["up", *more, "--data", str(tmp_path / "a,b")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--data: {tmp_path / 'a,b'} has a comma, which ends a folder's name in log.dirs: give" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("produce t --property lingr.ms=5", "--property: unknown setting lingr.ms: did you mean linger.ms?"),
        ("consume t --property fetch.min.bytes=-1", "--property: fetch.min.bytes must be at least 0, not '-1'"),
        ("perf produce t --property acks=7", "--property: acks must be one of all, -1, 0, 1, not '7'"),
        ("produce t --property compression.type=zip", "--property: compression.type must be one of "),
        ("topics list --command-config FILE", "FILE:2: retry.backoff.ms must be a whole number, not 'soon'"),
        ("mock --override num.partitions=many", "Invalid value for --override: num.partitions=many: Not a number "),
    ],
)
def test_a_wrong_setting_is_named_with_where_it_was_given_and_is_wrong_usage(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It ended with 1, as when no broker answers. acks and compression.type were not looked at."""
    file = tmp_path / "client.properties"
    file.write_text("# of a client\nretry.backoff.ms=soon\n")
    words = arguments.replace("FILE", str(file)).split()
    assert command_line.run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"odradek: {said.replace('FILE', str(file))}")
    with_subcommand = words[0] in ("perf", "topics")
    assert line.endswith(f" (see odradek {' '.join(words[: 1 + with_subcommand])} --help)")


def test_up_that_does_not_start_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It said no more than the system's name of the error, of a full disk not even where."""
    file = tmp_path / "file"
    file.touch()
    ports = [str(free_port_range(1)), str(free_port_range(1))]
    up = ["up", "--brokers", "1", "--port", ports[0], "--zookeeper-port", ports[1]]
    for more, named in ([], "odradek up"), (["--detach"], "odradek"):
        assert command_line.run([*up, "--data", str(file), *more]) == 1
        assert capsys.readouterr().err == (
            f"{named}: {file} cannot hold the cluster (Not a directory): give another place with --data\n"
        )
    with socket.create_server(("127.0.0.1", int(ports[0]))):
        assert command_line.run([*up, "--data", str(tmp_path / "data")]) == 1
    assert capsys.readouterr().err == (
        f"odradek up: port {ports[0]} on 127.0.0.1, wanted for broker 0, is in use: "
        "choose another (--port, --zookeeper-port), or stop the process that uses it\n"
    )


def test_a_port_of_the_console_that_is_taken_is_named_with_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        assert command_line.run(["console", "--port", port]) == 1
    assert capsys.readouterr().err == (
        f"odradek: port {port} on 127.0.0.1, for the console's page, is in use: choose another (--port; for `up` "
        "--console-port), or 0 for a free one\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("users.json", "", "users.json: these are not the passwords of broker, admin, client"),
        ("users.json", "[]", "users.json: these are not the passwords of broker, admin, client"),
        ("users.json", json.dumps({"broker": "x"}), "users.json: these are not the passwords of broker, admin, client"),
        ("users.json", json.dumps(dict.fromkeys(("broker", "admin", "client"), 1)), "users.json: these are not "),
        ("token-key", "", "token-key: it is empty"),
        ("ca-key.pem", "", "ssl.key.location: {0}/ca-key.pem: no private key could be read: "),
    ],
)
def test_a_damaged_file_of_a_secured_cluster_is_named_with_what_to_do(
    name: str,
    content: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was a traceback; an empty key was taken for one."""
    monkeypatch.setattr("odradek.cli.up.run", lambda plan, as_json: 0)
    directory = tmp_path / "security"
    SecureFiles.make(directory, 1)
    (directory / name).write_text(content)
    assert command_line.run(["up", "--secure", "--data", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"odradek: {directory}: {said.format(directory)}")
    assert line.endswith(": restore the damaged file, or delete the folder to get new keys and passwords")


def test_an_export_for_which_there_is_no_room_leaves_nothing_and_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text[:1].encode(encoding))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    file = tmp_path / "export"
    with pytest.raises(OSError, match=f"No space left on device: '{file}'"):
        _write_whole(file, "znodes")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_written_anew_is_whole_or_as_it_was(tmp_path: Path) -> None:
    """Passwords that were cut off in the writing would be those of a cluster that nobody can log in to."""
    path = tmp_path / "users.json"
    write_private(path, b"before")
    with pytest.raises(TypeError):
        write_private(path, "no bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"before"
    write_private(path, b"after")
    assert path.read_bytes() == b"after" and path.stat().st_mode & 0o777 == 0o600
