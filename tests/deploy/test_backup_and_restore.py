"""The procedure of docs/operations.md: a cluster is copied while it is stopped, lost, and comes back elsewhere."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek import KafkaAdminClient, KafkaConsumer, KafkaProducer
from odradek.cli.main import run
from odradek.local.ports import free_port_range, free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.zk_schema.backup import Znode, encode

BROKERS, RECORDS, READ = 2, 600, 250
GROUP, TOPIC = "board", "flights"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    embedded = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_ports(1)[0])
    with asyncio.Runner() as runner:
        runner.run(embedded.start())
        yield embedded.connect
        runner.run(embedded.stop())


@contextmanager
def up(directory: Path, zookeeper: str, brokers: int = BROKERS) -> Iterator[str]:
    """Start brokers in `directory`, and stop them; gives where they are reached."""
    port = free_port_range(brokers)
    command = [sys.executable, "-m", "odradek", "up", "--detach", "--brokers", str(brokers), "--port", str(port)]
    settings = ["--override", "offsets.topic.num.partitions=2", "--override", "transaction.state.log.num.partitions=2"]
    subprocess.run([*command, *settings, "--zookeeper", zookeeper, "--data", str(directory)], check=True)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        assert run(["stop", "--data", str(directory)]) == 0


def read(bootstrap: str, count: int) -> list[tuple[int, int, bytes | None]]:
    """Read so many records from where the group has come to, and commit."""
    found = []
    with KafkaConsumer(TOPIC, bootstrap_servers=bootstrap, group_id=GROUP, auto_offset_reset="earliest") as consumer:
        for record in consumer:
            found.append((record.partition, record.offset, record.value))
            if len(found) == count:
                return found
    raise AssertionError(f"{len(found)} of {count} records")


def write(bootstrap: str, start: int) -> list[tuple[int, int, bytes]]:
    """Write records in transactions; return where they are."""
    sent = []
    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id="writer") as producer:
        producer.init_transactions()
        for first in range(start, start + RECORDS, 100):
            with producer.transaction():
                values = [b"%d" % number for number in range(first, first + 100)]
                sent += [(producer.send(TOPIC, value), value) for value in values]
    return [(future.result().partition, future.result().offset, value) for future, value in sent]


def facts(bootstrap: str) -> object:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        (topic,) = admin.describe_topics([TOPIC])
        return admin.describe_cluster().cluster_id, topic.topic_id, [sorted(one.replicas) for one in topic.partitions]


@pytest.mark.zookeeper
def test_where_there_is_no_cluster_the_backup_of_before_stays(
    tmp_path: Path, zookeeper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "cluster.znodes"
    copy.write_text("of yesterday")
    assert run(["zk", "export", str(copy), "--zookeeper", f"{zookeeper}/misspelled"]) == 1
    assert "there is no cluster: nothing was written" in capsys.readouterr().err
    assert copy.read_text() == "of yesterday"


@pytest.mark.zookeeper
def test_an_export_into_a_pipe_leaves_the_pipe_there(tmp_path: Path, zookeeper: str) -> None:
    """A rename over /dev/stdout would put that away, on the whole machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    chroot = f"{zookeeper}/piped"
    lines = encode([Znode("/controller_epoch", b"1")])
    (tmp_path / "znodes").write_text("".join(f"{line}\n" for line in lines))
    assert run(["zk", "import", str(tmp_path / "znodes"), "--zookeeper", chroot]) == 0
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        assert run(["zk", "export", str(pipe), "--zookeeper", chroot]) == 0
        assert "controller_epoch" in reader.communicate()[0]
    assert pipe.is_fifo()


@pytest.mark.zookeeper
def test_an_export_to_the_standard_output_is_a_whole_backup(tmp_path: Path, zookeeper: str) -> None:
    """Where /dev/stdout is a pipe its path leads to `pipe:[…]`, which is no file; and nothing else may go there."""
    chroot = f"{zookeeper}/shown"
    text = "".join(f"{line}\n" for line in encode([Znode("/controller_epoch", b"1")]))
    (tmp_path / "znodes").write_text(text)
    assert run(["zk", "import", str(tmp_path / "znodes"), "--zookeeper", chroot]) == 0
    export = [sys.executable, "-m", "odradek", "zk", "export", "/dev/stdout", "--zookeeper", chroot]
    shown = subprocess.run(export, capture_output=True, text=True, check=True)
    assert shown.stdout == text


@pytest.mark.zookeeper
def test_who_takes_the_credentials_of_nobody_hears_of_it(zookeeper: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["users", "delete", "an", "--zookeeper", zookeeper]) == 1
    assert "there is no user an with SCRAM-SHA-256 or SCRAM-SHA-512" in capsys.readouterr().err


@pytest.mark.cluster
def test_a_cluster_comes_back_from_its_copy(tmp_path: Path, zookeeper: str, capsys: pytest.CaptureFixture[str]) -> None:
    lost, back, copy = tmp_path / "lost", tmp_path / "back", tmp_path / "copy"
    before, after = f"{zookeeper}/before", f"{zookeeper}/after"
    with up(lost, before) as bootstrap:
        create = ["topics", "create", TOPIC, "--partitions", "3", "--replication-factor", "2"]
        assert run([*create, "--config", "retention.ms=-1", "--bootstrap-server", bootstrap]) == 0
        written = write(bootstrap, 0)
        first = read(bootstrap, READ)
        known = facts(bootstrap)
    # copied while it is stopped
    assert run(["zk", "export", str(copy.with_suffix(".znodes")), "--zookeeper", before]) == 0
    assert copy.with_suffix(".znodes").stat().st_mode & 0o777 == 0o600
    shutil.copytree(lost / "data", copy)
    shutil.rmtree(lost)
    # brought back elsewhere
    assert run(["zk", "import", str(copy.with_suffix(".znodes")), "--zookeeper", after]) == 0
    assert run(["zk", "import", str(copy.with_suffix(".znodes")), "--zookeeper", after]) == 1
    assert "there is a cluster already: nothing was written" in capsys.readouterr().err
    shutil.copytree(copy, back / "data")
    assert run(["storage", "check", "--json", *(str(back / "data" / f"broker-{one}") for one in range(BROKERS))]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["directories"]
    assert all(one["stopped_cleanly"] and one["partitions"] for one in told)
    with up(back, after) as bootstrap:
        assert facts(bootstrap) == known
        settings = ["configs", "describe", "--topic", TOPIC, "--bootstrap-server", bootstrap]
        assert run(settings) == 0 and "retention.ms" in capsys.readouterr().out
        again = write(bootstrap, RECORDS)
        rest = read(bootstrap, 2 * RECORDS - READ)
    everything = sorted(first + rest)
    assert everything == sorted(written + again), "each record once, where it was, and the group where it had been"


@pytest.mark.cluster
def test_logs_that_are_newer_than_the_znodes_go_on_with_higher_epochs(tmp_path: Path, zookeeper: str) -> None:
    cluster, copy = tmp_path / "cluster", tmp_path / "znodes"
    before, after = f"{zookeeper}/older", f"{zookeeper}/newer"
    with up(cluster, before, brokers=1) as bootstrap:
        create = ["topics", "create", TOPIC, "--partitions", "3", "--replication-factor", "1"]
        assert run([*create, "--bootstrap-server", bootstrap]) == 0
        written = write(bootstrap, 0)
        assert run(["zk", "export", str(copy), "--zookeeper", before]) == 0
    with up(cluster, before, brokers=1) as bootstrap:  # each start is an election that the copy knows nothing of
        written += write(bootstrap, RECORDS)
    assert run(["zk", "import", str(copy), "--newer-logs", "--zookeeper", after]) == 0
    with up(cluster, after, brokers=1) as bootstrap:
        written += write(bootstrap, 2 * RECORDS)
        assert sorted(read(bootstrap, 3 * RECORDS)) == sorted(written)
