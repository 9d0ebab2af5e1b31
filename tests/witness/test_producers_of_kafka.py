"""Producers and transactions of logs that Kafka wrote: what we make of their batches is what Kafka has in its snapshots
and transaction indexes; and `dump-log` has nothing to say against any of its files."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.broker.log.dump import Row, dump, verify
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.foreign.kafkas_corpus import TRANSACTIONS, KafkasCorpus
from odradek.testing.foreign.seen import read
from odradek.testing.foreign.stage import Stage
from odradek.testing.log_environments import close_log
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles

pytestmark = pytest.mark.cluster

FILES = OsFiles()
FOR_EVER_MS = 1 << 60


def entries(path: Path) -> list[str]:
    """What stands in a snapshot or an index, in an order of its own: Kafka's is that of a hash map."""
    return sorted(map(str, dump(FILES, str(path))))


def opened_anew(directory: Path, copy: Path) -> Path:
    """A copy of a partition's directory without snapshots and transaction indexes, recovered by us, and closed."""
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("*.snapshot", "*.txnindex"))
    environment = LogEnvironment(
        FILES, ManualClock(), InlineBackground(), random.Random(1), producer_expiration_ms=FOR_EVER_MS
    )
    topic, _, number = directory.name.rpartition("-")
    log = open_log(environment, str(copy), topic, int(number), LogConfig(segment_bytes=1 << 30))
    close_log(log)
    return copy


def check_alike(directory: Path, copy: Path) -> tuple[int, int]:
    """How many producers and aborted transactions were compared."""
    ours, aborted = opened_anew(directory, copy), 0
    newest = max(directory.glob("*.snapshot"), default=None)
    if newest is None:
        return 0, 0
    kept = {path.name for path in ours.glob("*.snapshot")}
    for snapshot in directory.glob("*.snapshot"):  # ours has those of the last two segments, and of the end
        if snapshot.name in kept:
            assert entries(ours / snapshot.name) == entries(snapshot), snapshot
    assert newest.name in kept
    for index in directory.glob("*.txnindex"):
        aborted += len(entries(index))
        assert not index.stat().st_size or (ours / index.name).read_bytes() == index.read_bytes(), index
    return len(entries(newest)), aborted


def test_our_state_of_producers_is_kafkas(new_stage: Callable[..., Stage], tmp_path: Path) -> None:
    stage = new_stage()
    kafka = stage.kafka(inter_broker_protocol_version="2.8")
    kafkas = KafkasCorpus(stage.address)
    kafkas.create()
    kafkas.write_transactions()
    kafkas.write_between(500)
    kafkas.leave_open()
    kafka.stop()
    assert list(verify(FILES, str(stage.logs))) == []
    compared = {one.name: check_alike(one, tmp_path / one.name) for one in stage.directories()}
    assert compared[f"{TRANSACTIONS}-0"] == (3, 6)
    assert sum(producers for name, (producers, _) in compared.items() if name.startswith("__consumer_offsets")) >= 2
    check_decoded(stage)

    kafka = stage.kafka()
    kafkas.abort_open()
    kafkas.write_transactions()
    kafka.kill()
    assert list(verify(FILES, str(stage.logs))) == []


def check_decoded(stage: Stage) -> None:
    rows = records_of(stage.directories("__transaction_state"))
    states = {str(row["key"]["transactional_id"]): row["value"] for row in rows}  # type: ignore[index]
    assert set(states) == {"first", "second", "open"}
    assert [states[name]["transaction_status"] for name in sorted(states)] == [  # type: ignore[index]
        "CompleteCommit", "Ongoing", "CompleteCommit",
    ]  # fmt: skip
    offsets = [row for row in records_of(stage.directories("__consumer_offsets")) if "control" not in row]
    assert offsets and all("undecodable" not in row for row in offsets)


def records_of(directories: list[Path]) -> list[Row]:
    logs = [path for directory in directories for path in sorted(directory.glob("*.log"))]
    return [row for path in logs for row in dump(FILES, str(path), records=True) if "magic" not in row]


def test_kafkas_tool_ends_a_hanging_transaction_that_we_serve(new_stage: Callable[..., Stage]) -> None:
    """`kafka-transactions.sh`: DescribeProducers finds it, WriteTxnMarkers ends it; Kafka sees that afterwards."""
    stage = new_stage()
    kafka = stage.kafka(inter_broker_protocol_version="2.8")
    kafkas = KafkasCorpus(stage.address)
    kafkas.create()
    kafkas.write_transactions()
    kafkas.leave_open()
    kafkas.write_between(2000)
    kafka.stop()

    def committed() -> list[bytes | None]:
        return [record.value for record in read(stage.address, [TRANSACTIONS], "read_committed")[TRANSACTIONS]]

    def tool(*arguments: str) -> str:
        where = ("--topic", TRANSACTIONS, "--partition", "0")
        main = "org.apache.kafka.tools.TransactionsCommand"
        return stage.jars.run(main, "--bootstrap-server", stage.address, *arguments, *where)

    ours = stage.odradek()
    assert committed() == kafkas.committed
    described = [line.split() for line in tool("describe-producers").splitlines()]
    (hanging,) = [row for row in described if len(row) == 6 and row[5].isdigit() and int(row[5]) > 0]
    tool("abort", "--start-offset", hanging[5])
    assert committed() == kafkas.committed + kafkas.committed_later
    ours.stop()
    assert not ours.complaints()
    assert list(verify(FILES, str(stage.logs))) == []
    kafka = stage.kafka()
    assert committed() == kafkas.committed + kafkas.committed_later
    kafka.stop()
