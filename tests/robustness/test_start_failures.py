"""A broker that cannot start says what and where in one line, exits with 1, and leaves everything as it was."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from odradek.local.ports import free_ports
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.needs import CANNOT_BE_HAD
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.small_disk import CannotMount, fill, small_disk
from odradek.testing.up import UpCluster

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("undisturbed")]

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \S+ (INFO|WARNING|ERROR) ")
SMALL_BYTES = 1 << 20


@pytest.fixture
def properties(broker: UpCluster, tmp_path: Path) -> dict[str, str]:
    """Those of a broker that would start, beside the one that runs."""
    [port] = free_ports(1)
    return {
        "broker.id": "7",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(tmp_path / "data"),
        "zookeeper.connect": broker.zookeeper,
        "zookeeper.session.timeout.ms": "3000",
    }


def write(properties: Mapping[str, str], directory: Path) -> Path:
    path = directory / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def refused(properties: Mapping[str, str], directory: Path) -> str:
    """Start a broker that must not start: its one line."""
    command = [sys.executable, "-m", "odradek.broker", str(write(properties, directory))]
    return only_line(command, "odradek broker: ")


def only_line(command: list[str], prefix: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    said = [line for line in ended.stderr.splitlines() if not LOG_LINE.match(line)]
    assert ended.returncode == 1, ended
    assert ended.stdout == "" and len(said) == 1, ended
    assert said[0].startswith(prefix), ended
    return said[0].removeprefix(prefix)


def snapshot(directory: Path) -> dict[str, bytes]:
    """All files but the lock, which may be there without being held."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_a_bad_value(properties: dict[str, str], tmp_path: Path) -> None:
    said = refused({**properties, "log.segment.bytes": "many"}, tmp_path)
    assert "server.properties:6: log.segment.bytes=many" in said and "whole number" in said
    assert not (tmp_path / "data").exists()


def test_no_such_file() -> None:
    command = [sys.executable, "-m", "odradek.broker", "/nowhere/server.properties"]
    assert only_line(command, "odradek broker: ") == "/nowhere/server.properties: No such file or directory"


def test_a_port_in_use(broker: UpCluster, properties: dict[str, str], tmp_path: Path) -> None:
    said = refused({**properties, "listeners": f"PLAINTEXT://127.0.0.1:{broker.port}"}, tmp_path)
    assert said == f"cannot listen on PLAINTEXT://127.0.0.1:{broker.port}: Address already in use"
    assert snapshot(tmp_path / "data") == {}


def test_a_mechanism_between_brokers_that_their_listener_does_not_offer(
    properties: dict[str, str], tmp_path: Path
) -> None:
    """It named the package gssapi and a setting of clients: GSSAPI is Kafka's default between brokers."""
    listener = properties["listeners"].replace("PLAINTEXT", "SASL_PLAINTEXT")
    sasl = {"sasl.enabled.mechanisms": "SCRAM-SHA-512", "security.inter.broker.protocol": "SASL_PLAINTEXT"}
    assert refused({**properties, **sasl, "listeners": listener}, tmp_path) == (
        "sasl.mechanism.inter.broker.protocol: GSSAPI is not one of sasl.enabled.mechanisms, which is SCRAM-SHA-512"
    )


def test_zookeeper_away(properties: dict[str, str], tmp_path: Path) -> None:
    [nobody] = free_ports(1)
    address = {"zookeeper.connect": f"127.0.0.1:{nobody}", "zookeeper.connection.timeout.ms": "1000"}
    said = refused({**properties, **address}, tmp_path)
    assert f"127.0.0.1:{nobody}" in said and "1000 ms" in said
    assert snapshot(tmp_path / "data") == {}


def test_an_id_in_use(broker: UpCluster, properties: dict[str, str], tmp_path: Path) -> None:
    said = refused({**properties, "broker.id": "0"}, tmp_path)
    assert "broker id 0 is in use" in said and broker.bootstrap in said


@pytest.mark.parametrize("other", ["cluster", "broker"])
def test_the_directory_of_another(other: str, broker: UpCluster, properties: dict[str, str], tmp_path: Path) -> None:
    theirs = (broker.directory / "data" / "broker-0" / "meta.properties").read_text()
    data = tmp_path / "data"
    (data / "t-0").mkdir(parents=True)
    (data / "t-0" / "00000000000000000000.log").write_bytes(b"something of theirs")
    changed = re.sub("cluster.id=.*", "cluster.id=another-cluster-of-22c", theirs) if other == "cluster" else theirs
    (data / "meta.properties").write_text(changed)
    before = snapshot(data)
    own = {**properties, "broker.id": "0" if other == "cluster" else "7"}
    said = refused(own, tmp_path)
    assert str(data) in said and ("another-cluster-of-22c" in said if other == "cluster" else "broker 0" in said)
    assert snapshot(data) == before


def test_a_directory_in_use(broker: UpCluster, properties: dict[str, str], tmp_path: Path) -> None:
    theirs = broker.directory / "data" / "broker-0"
    meta = (theirs / "meta.properties").read_bytes()
    said = refused({**properties, "log.dirs": str(theirs)}, tmp_path)
    assert str(theirs) in said and ".lock" in said
    assert (theirs / "meta.properties").read_bytes() == meta


def test_a_directory_that_is_a_file(properties: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    assert str(tmp_path / "data") in refused(properties, tmp_path)
    assert (tmp_path / "data").read_text() == "mine"


@contextmanager
def disk(directory: Path, *, read_only: bool = False) -> Iterator[Path]:
    with ExitStack() as stack:
        try:
            mounted = stack.enter_context(small_disk(directory, SMALL_BYTES, read_only=read_only))
        except CannotMount as why:
            pytest.skip(f"{CANNOT_BE_HAD}{why}")
        yield mounted


def test_a_directory_that_cannot_be_written(properties: dict[str, str], tmp_path: Path) -> None:
    with disk(tmp_path / "data", read_only=True) as data:
        said = refused(properties, tmp_path)
        assert str(data) in said and "Read-only" in said
        assert os.listdir(data) == []


def test_a_full_directory(properties: dict[str, str], tmp_path: Path) -> None:
    with disk(tmp_path / "data") as data:
        fill(data)
        before = snapshot(data)
        said = refused(properties, tmp_path)
        assert str(data) in said and "No space left" in said
        assert snapshot(data) == before


@pytest.mark.parametrize("more", [[], ["--secure"], ["--detach"]])
@pytest.mark.parametrize("read_only", [False, True])
def test_odradek_up_where_nothing_can_be_written(more: list[str], read_only: bool, tmp_path: Path) -> None:
    """With --detach a full disk was not spoken of at all, else in a second line, with --secure without a way out."""
    with disk(tmp_path / "data", read_only=read_only) as data:
        if not read_only:
            fill(data)
        port, zookeeper_port = map(str, free_ports(2))
        up = ["up", "--brokers", "1", "--data", str(data / "d"), "--port", port, "--zookeeper-port", zookeeper_port]
        said = only_line([sys.executable, "-m", "odradek", *up, *more], "odradek")
        why = "Read-only file system" if read_only else "No space left on device"
        assert said.endswith(f": {data / 'd'} cannot hold the cluster ({why}): give another place with --data")


@pytest.mark.parametrize("what", ["broker", "zookeeper"])
def test_odradek_up_with_a_port_in_use(what: str, broker: UpCluster, tmp_path: Path) -> None:
    [free_port] = free_ports(1)
    ports = (broker.port, free_port) if what == "broker" else (free_port, broker.zookeeper_port)
    command = [sys.executable, "-m", "odradek", "up", "--brokers", "1", "--data", str(tmp_path / "data")]
    said = only_line([*command, "--port", str(ports[0]), "--zookeeper-port", str(ports[1])], "odradek up: ")
    taken = broker.port if what == "broker" else broker.zookeeper_port
    assert str(taken) in said and "in use" in said
    assert snapshot(tmp_path / "data") == {}


@contextmanager
def started(path: Path) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    log = path.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "odradek.broker", str(path)], stdout=output, stderr=output)
    try:
        yield process, log
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


# The keys of the file that Kafka ships, and the usual ones of people's own, in our words.
USUAL = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.flush.interval.messages": "10000",
    "log.flush.interval.ms": "1000",
    "log.retention.hours": "168",
    "log.retention.bytes": "1073741824",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
    "log.cleaner.enable": "true",
    "zookeeper.connection.timeout.ms": "18000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "message.max.bytes": "1048588",
    "replica.fetch.max.bytes": "1048576",
    "controlled.shutdown.enable": "true",
    "unclean.leader.election.enable": "false",
    "inter.broker.protocol.version": "3.9",
    "compression.type": "producer",
    "queued.max.requests": "500",
}


def test_the_usual_settings_start_and_a_misspelt_one_is_named(properties: dict[str, str], tmp_path: Path) -> None:
    misspelt = {"log.retention.hour": "24"}
    path = write({**properties, **USUAL, **misspelt}, tmp_path)
    with started(path) as (process, log):
        wait_until(lambda: "has started" in log.read_text() or process.poll() is not None, "the broker's start")
        assert process.poll() is None, log.read_text()
        with RawConnection(properties["listeners"].removeprefix("PLAINTEXT://")) as connection:
            assert connection.ask(ApiVersionsRequest(), 0).error_code == 0
    warnings = [line for line in log.read_text().splitlines() if " WARNING " in line]
    named = [line for line in warnings if "log.retention.hour " in line]
    assert len(named) == 1 and "did you mean log.retention.hours?" in named[0], warnings
    assert process.returncode == 0
