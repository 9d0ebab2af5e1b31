"""The commands `stop` and `zk`."""

import asyncio
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import odradek.broker.__main__ as broker_process
from odradek.cli import stop
from odradek.cli.main import run
from odradek.cli.up import run_detached
from odradek.cli.zk import decoded
from odradek.local import processes
from odradek.local.ports import free_ports
from odradek.local.processes import locked
from odradek.local.view import look
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.znodes.controller import ControllerRegistration


def sleeper(directory: Path, name: str) -> subprocess.Popen[bytes]:
    """A process with a pid file, that ends when it is told to."""
    (directory / "run").mkdir(exist_ok=True)
    with locked(directory / "run" / f"{name}.pid") as pid_file:
        command = [sys.executable, "-c", "import signal; signal.pause()"]
        child = subprocess.Popen(command, pass_fds=[pid_file.fileno()])
        pid_file.write(f"{child.pid}\n")
    return child


PARENT = """
import signal, subprocess, sys
from pathlib import Path
from odradek.local.processes import locked
with locked(Path(sys.argv[1])) as file:
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[file.fileno()])
    print(child.pid, file=file, flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(child.poll() is not None))
print("ready", flush=True)
signal.pause()
"""
"""A process that starts another one with a pid file; exit code 1 when that ends before it is itself told to."""


def reap(children: list[subprocess.Popen[bytes]]) -> None:
    """A child of ours stays as a zombie until somebody asks for its code."""
    for child in children:
        child.wait(PATIENCE_SECONDS)


def test_nothing_to_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stop", "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"odradek stop: nothing is running in {tmp_path}\n"
    assert run(["stop", "1", "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"odradek stop: broker 1 is not running in {tmp_path}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    embedded = EmbeddedZooKeeper(tmp_path_factory.mktemp("zk"), free_ports(1)[0])

    async def fill() -> None:
        await embedded.start()
        store = KazooStore(embedded.connect, LoopClock(asyncio.get_running_loop()))
        await store.start(PATIENCE_SECONDS * 1000)
        await store.create("/brokers/ids", parents=True)
        for number in (10, 2, 1):
            await store.create(f"/brokers/ids/{number}")
        await store.create("/controller", ControllerRegistration(2, 22).encode())
        await store.create("/controller_epoch", b"7")
        await store.create("/config/users/ann", b"{", parents=True)
        await store.close()

    with asyncio.Runner() as runner:
        runner.run(fill())
        yield embedded.connect
        runner.run(embedded.stop())


@pytest.mark.zookeeper
def test_zk_ls(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["zk", "ls", "/brokers/ids/", "--zookeeper", server]) == 0
    assert capsys.readouterr().out.splitlines() == ["1", "2", "10"]
    assert run(["zk", "ls", "--json", "--zookeeper", f"{server}/brokers"]) == 0
    assert json.loads(capsys.readouterr().out) == ["ids"]


@pytest.mark.zookeeper
def test_zk_get(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["zk", "get", "/controller", "--json", "--zookeeper", server]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["data"]["brokerid"] == 2
    assert answer["stat"]["version"] == 0
    assert run(["zk", "get", "/controller_epoch", "--zookeeper", server]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "7"


@pytest.mark.zookeeper
def test_zk_says_what_is_wrong(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["zk", "get", "/missing", "--zookeeper", server]) == 1
    assert capsys.readouterr().err == "odradek: /missing: no such znode\n"
    assert run(["zk", "get", "missing", "--zookeeper", server]) == 2


@pytest.mark.zookeeper
def test_users_whose_znode_cannot_be_read_are_a_line(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["list"], ["delete", "ann"]):
        assert run(["users", *arguments, "--zookeeper", server]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("odradek: /config/users/ann: not JSON")


@pytest.mark.zookeeper
def test_an_export_is_readable_by_its_owner_also_over_a_file_that_was_not(server: str, tmp_path: Path) -> None:
    left = tmp_path / "cluster.znodes.part"
    left.touch(0o644)
    assert run(["zk", "export", str(tmp_path / "cluster.znodes"), "--zookeeper", server]) == 0
    assert (tmp_path / "cluster.znodes").stat().st_mode & 0o777 == 0o600 and not left.exists()


def test_a_hand_made_name_among_the_brokers_does_not_end_the_watching() -> None:
    async def test(clock: VirtualClock) -> None:
        store = MemoryZooKeeper(clock).connect()
        await store.start(1000)
        for name in ("1", "note"):
            await store.create(f"/brokers/ids/{name}", parents=True)
        assert list((await look(store)).registered) == [1]

    run_virtual(test)


@pytest.mark.parametrize(
    ("data", "value"), [(b'{"a":1}', {"a": 1}), (b"7", 7), (b"", ""), (b"plain", "plain"), (b"\xff", "b'\\xff'")]
)
def test_data_is_decoded_as_far_as_it_can_be(data: bytes, value: object) -> None:
    assert decoded(data) == value


def test_stop_ends_everything_when_up_is_gone(tmp_path: Path) -> None:
    children = [sleeper(tmp_path, name) for name in ("broker-0", "broker-1", "zookeeper")]
    reaping = threading.Thread(target=reap, args=(children,))
    reaping.start()
    assert run(["stop", "--data", str(tmp_path)]) == 0
    reaping.join()
    assert list((tmp_path / "run").iterdir()) == []


def test_stop_ends_also_a_broker_that_was_started_by_hand(tmp_path: Path) -> None:
    """It was no child of `up`, and ran on without its ZooKeeper."""
    children = [sleeper(tmp_path, name) for name in ("up", "broker-1")]
    reaping = threading.Thread(target=reap, args=(children,))
    reaping.start()
    assert run(["stop", "--data", str(tmp_path)]) == 0
    reaping.join()
    assert list((tmp_path / "run").iterdir()) == []


def test_stop_leaves_a_child_of_up_to_its_parent(tmp_path: Path) -> None:
    """Told twice, a broker ends in the middle of its work."""
    (tmp_path / "run").mkdir()
    broker = tmp_path / "run" / "broker-0.pid"
    with locked(tmp_path / "run" / "up.pid") as pid_file:
        command = [sys.executable, "-c", PARENT, str(broker)]
        up = subprocess.Popen(command, pass_fds=[pid_file.fileno()], stdout=subprocess.PIPE, text=True)
        pid_file.write(f"{up.pid}\n")
    assert up.stdout is not None and up.stdout.readline() == "ready\n"
    child = processes.read_pid(broker)
    assert child is not None and processes.parent_of(child) == up.pid
    reaping = threading.Thread(target=up.wait, args=(PATIENCE_SECONDS,))
    reaping.start()
    try:
        assert run(["stop", "--data", str(tmp_path)]) == 0
        reaping.join()
        assert up.returncode == 0, "its child had been stopped before"
    finally:
        os.kill(child, signal.SIGKILL)
        up.kill()
        up.stdout.close()


def test_a_broker_that_is_started_by_hand_shows_its_pid_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    pid_file = tmp_path / "run" / "broker-1.pid"
    monkeypatch.setattr(broker_process, "main", lambda arguments: seen.append(processes.read_pid(pid_file)))
    for known in (False, True):
        if known:
            pid_file.parent.mkdir()
        assert run(["broker", str(tmp_path / "config" / "broker-1.properties")]) == 0
    assert seen == [None, os.getpid()] and not pid_file.exists()


def test_a_pid_file_beside_a_file_that_up_has_not_made_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/opt/kafka/config/server.properties, and a run/server.pid that some script has written: it was replaced, and then
    deleted; where another user owns run/, the broker did not start."""
    pid_file = tmp_path / "run" / "server.pid"
    pid_file.parent.mkdir()
    pid_file.write_text("17\n")
    seen = []
    monkeypatch.setattr(broker_process, "main", lambda arguments: seen.append(pid_file.read_text()))
    assert run(["broker", str(tmp_path / "config" / "server.properties")]) == 0
    assert [*seen, pid_file.read_text()] == ["17\n", "17\n"]


def test_stop_of_one_broker_leaves_the_others(tmp_path: Path) -> None:
    one, other = sleeper(tmp_path, "broker-0"), sleeper(tmp_path, "broker-1")
    reaping = threading.Thread(target=reap, args=([one],))
    reaping.start()
    try:
        assert run(["stop", "0", "--data", str(tmp_path)]) == 0
        assert other.poll() is None
    finally:
        other.kill()
        reap([other])
        reaping.join()


def test_what_is_frozen_hears_that_it_is_to_stop(tmp_path: Path) -> None:
    """After Ctrl-Z in the terminal of `up`, say: SIGTERM alone reaches nobody who is stopped."""
    child = sleeper(tmp_path, "up")
    os.kill(child.pid, signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    reaping = threading.Thread(target=reap, args=([child],))
    reaping.start()
    try:
        assert run(["stop", "--data", str(tmp_path)]) == 0
    finally:
        child.kill()
        reaping.join()


def test_a_stranger_is_not_stopped_for_a_process_of_another_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers that share the directory see its locks, and have numbers of their own."""
    monkeypatch.setattr(stop, "TIMEOUT_SECONDS", 0.1)
    (tmp_path / "run").mkdir()
    stranger = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        with locked(tmp_path / "run" / "broker-0.pid") as pid_file:
            print(stranger.pid, file=pid_file, flush=True)
            for arguments in ([], ["0"]):
                assert run(["stop", *arguments, "--data", str(tmp_path)]) == 1
                said = "broker-0 runs in another container, or of another user or machine: stop it there"
                assert capsys.readouterr().err == f"odradek stop: {said}\n"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        reap([stranger])


def test_stop_waits_until_the_pid_file_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is ending shows no files any more before the last one is closed: it was taken for gone."""
    (tmp_path / "run").mkdir()
    with locked(tmp_path / "run" / "broker-0.pid") as pid_file:
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        still_open = [os.dup(pid_file.fileno())]
        pid_file.write(f"{child.pid}\n")
    monkeypatch.setattr(processes, "_has_open", lambda pid, _: pid == child.pid and child.returncode is None)

    def sleep(seconds: float) -> None:
        if child.returncode is None:
            reap([child])
        else:
            os.close(still_open.pop())

    monkeypatch.setattr(stop, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    assert run(["stop", "0", "--data", str(tmp_path)]) == 0
    assert not still_open


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS without its lock daemon: what was said named neither the file nor a way out."""

    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    port, zookeeper_port = free_ports(2)
    ports = ["--port", str(port), "--zookeeper-port", str(zookeeper_port), "--metrics-port", "0"]
    for command in (["up", "--brokers", "1", *ports], ["stop"]):
        assert run([*command, "--data", str(tmp_path)]) == 1
        assert capsys.readouterr().err == (
            f"odradek: {tmp_path / 'run' / 'up.pid'}: No locks available: this file system cannot lock files, "
            "--data needs one that can, such as a local disk\n"
        )


def test_what_ends_by_itself_before_it_is_told_has_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = sleeper(tmp_path, "broker-0")
    kill = os.kill

    def come_too_late(pid: int, number: int) -> None:
        if number == signal.SIGTERM:
            kill(pid, signal.SIGKILL)
            reap([child])
        kill(pid, number)

    monkeypatch.setattr(os, "kill", come_too_late)
    assert run(["stop", "--data", str(tmp_path)]) == 0


@pytest.mark.cluster
def test_a_detached_cluster_runs_until_it_is_stopped(tmp_path: Path) -> None:
    port, zookeeper_port = free_ports(2)
    data = ["--data", str(tmp_path)]
    ports = ["--port", str(port), "--zookeeper-port", str(zookeeper_port)]
    up = [sys.executable, "-m", "odradek", "up", "--detach", "--brokers", "1", *ports, *data]
    started = subprocess.run([*up, "--json"], capture_output=True, text=True, check=True)
    try:
        assert f"127.0.0.1:{port}" in started.stdout and not started.stderr
        refused = subprocess.run(up, capture_output=True, text=True, check=False)
        assert (refused.returncode, refused.stdout) == (1, "") and "is in use by another" in refused.stderr
        listing = [sys.executable, "-m", "odradek", "topics", "list", "--bootstrap-server", f"127.0.0.1:{port}"]
        subprocess.run(listing, check=True)
    finally:
        assert run(["stop", *data]) == 0
    assert run(["stop", *data]) == 1
    assert "stopped" in (tmp_path / "logs" / "up.log").read_text()


TWO_AT_ONCE = """#!{python}
import sys, time
from pathlib import Path

logs = Path({logs!r})
if sys.argv[-1] == "second":
    sys.exit("the second is refused")
(logs / "begun").touch()
end = time.monotonic() + 1
while b"refused" not in (logs / "up.log").read_bytes() and time.monotonic() < end:
    time.sleep(0.01)
print("ready bootstrap=first", flush=True)
"""
"""Stands in for two clusters: the first is not ready before the second is refused, or a moment has passed."""


def test_two_that_are_detached_at_once_say_each_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both write to one file: the one's `ready` was taken for the other's, whose refusal nobody heard."""
    program = tmp_path / "python"
    program.write_text(TWO_AT_ONCE.format(python=sys.executable, logs=str(tmp_path)))
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    codes: list[int] = []
    first = threading.Thread(target=lambda: codes.append(run_detached(["first"], tmp_path)))
    first.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    assert run_detached(["second"], tmp_path) == 1
    first.join()
    said = capsys.readouterr()
    assert (codes, said.out, said.err) == ([0], "ready bootstrap=first\n", "the second is refused\n")


NEVER_READY = """#!{python}
import signal
from pathlib import Path

logs = Path({logs!r})
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
(logs / "begun").touch()
signal.sigwait([signal.SIGTERM])
(logs / "ended").touch()
"""
DETACHED = "import sys; from odradek.cli.main import main; sys.executable = sys.argv.pop(1); main()"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_gives_up_a_detached_start_leaves_no_cluster_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C ended what waited for the cluster alone: it came up afterwards, and had the ports of the next one."""
    program = tmp_path / "python"
    program.write_text(NEVER_READY.format(python=sys.executable, logs=str(tmp_path)))
    program.chmod(0o700)
    up = ["-c", DETACHED, str(program), "up", "--detach", "--data", str(tmp_path)]
    with subprocess.Popen([sys.executable, *up], stderr=subprocess.PIPE) as waiting:
        while not (tmp_path / "begun").exists():
            assert waiting.poll() is None
            time.sleep(0.01)
        waiting.send_signal(number)
        _, said = waiting.communicate(timeout=PATIENCE_SECONDS)
    assert (waiting.returncode, said) == (130, b"")
    assert (tmp_path / "ended").exists()
