"""`dump-log` and Kafka's DumpLogSegments on the same files say the same of every batch, record, entry and producer."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.log.batches import Origin
from odradek.broker.log.dump import Row, dump, verify
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.codec import encode_versioned
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.messages.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from odradek.protocol.records import encode_batch
from odradek.testing.foreign.dump_log_segments import files_of
from odradek.testing.foreign.kafka_jars import KafkaJars
from odradek.testing.log_environments import close_log
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles

pytestmark = pytest.mark.cluster

GOLDEN = Path(__file__).parents[1] / "broker" / "log" / "golden"
CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=300)
PAIR = re.compile(r"(\w+): (\[[^\]]*\]|OptionalLong\S+|\S+)")
TIMES = ("CreateTime", "LogAppendTime", "NoTimestampType", "NO_TIMESTAMP_TYPE")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with producers, transactions of every end, headers, codecs, epochs; closed with one transaction open."""
    directory = tmp_path_factory.mktemp("written") / "topic-0"
    environment = LogEnvironment(OsFiles(), ManualClock(), InlineBackground(), random.Random(1))
    log = open_log(environment, str(directory), "topic", 0, CONFIG, clean=True)
    choose = random.Random(7)
    sequences = dict.fromkeys(range(1, 5), 2**31 - 20)
    for number in range(150):
        producer = choose.randrange(5)
        count = choose.randrange(1, 4)
        transactional = producer > 2
        records = encode_batch(
            0,
            [1000 + 10 * number + index for index in range(count)],
            [b"key", None, b""][:count],
            [b"value %d" % number, b"", None][:count],
            [[("h", b"1"), ("i", None)], [], []][:count],
            codec=number % 5,
            producer_id=producer or -1,
            producer_epoch=0 if producer else -1,
            base_sequence=sequences[producer] if producer else -1,
            transactional=transactional,
        )
        log.append_as_leader(records, number // 40)
        if producer:
            sequences[producer] = (sequences[producer] + count) % 2**31
        if transactional and choose.random() < 0.4:
            end = EndTxnMarker(choose.random() < 0.5, 3)
            marker = encode_end_txn_marker(end, 1000 + 10 * number, producer, 0)
            log.append_as_leader(marker, number // 40, origin=Origin.COORDINATOR)
    close_log(log)
    return directory


def said_by_kafka(kafka: KafkaJars, files: list[Path], *options: str) -> dict[str, list[str]]:
    """Its lines, by file."""
    text = kafka.run("kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("Dumping "):
            lines = found[line.removeprefix("Dumping ")] = []
        elif ": " in line and not line.startswith("Log starting offset"):
            lines.append(line)
    return found


def fields(line: str) -> dict[str, str]:
    return dict(PAIR.findall(line))


def time_of(said: dict[str, str]) -> int:
    (value,) = [int(said[name]) for name in TIMES if name in said]
    return value


def optional(text: str) -> int | None:
    return None if text == "OptionalLong.empty" else int(text.removeprefix("OptionalLong[").removesuffix("]"))


def check_batch(said: dict[str, str], row: Row) -> None:
    names = {"position": "position", "size_bytes": "size", "magic": "magic", "codec": "compresscodec", "crc": "crc"}
    if row["magic"] == 2:
        names |= {
            "base_offset": "baseOffset", "last_offset": "lastOffset", "record_count": "count",
            "base_sequence": "baseSequence", "last_sequence": "lastSequence", "producer_id": "producerId",
            "producer_epoch": "producerEpoch", "leader_epoch": "partitionLeaderEpoch",
            "transactional": "isTransactional", "control": "isControl",
        }  # fmt: skip
        assert optional(said["deleteHorizonMs"]) == row["delete_horizon_ms"]
    else:
        names["last_offset"] = "offset"
    assert {name: said[theirs] for name, theirs in names.items()} == {
        name: str(row[name]).lower() if isinstance(row[name], bool) else str(row[name]) for name in names
    }
    assert time_of(said) == row["max_timestamp_ms"]
    assert said["isvalid"] == str(row["valid"]).lower()


def size_of(value: object) -> str:
    return str(len(value)) if isinstance(value, bytes) else "-1"


def check_record(said: dict[str, str], row: Row) -> None:
    assert (int(said["offset"]), time_of(said)) == (row["offset"], row["timestamp_ms"])
    if "control" in row:
        assert (said["endTxnMarker"], int(said["coordinatorEpoch"])) == (row["control"], row["coordinator_epoch"])
        return
    assert (said["keySize"], said["valueSize"]) == (size_of(row["key"]), size_of(row["value"]))
    if "headerKeys" in said:
        headers = row["headers"]
        assert isinstance(headers, list)
        assert said["headerKeys"] == f"[{','.join(name for name, _ in headers)}]"
        assert int(said["sequence"]) == row.get("sequence", -1)


def check_entry(said: dict[str, str], row: Row) -> None:
    """Of one of the indexes, or of a snapshot."""
    if "producerEpoch" not in said:
        assert list(map(int, said.values()))[-len(row) :] == list(row.values())
        return
    assert (int(said["producerId"]), int(said["producerEpoch"])) == (row["producer_id"], row["epoch"])
    assert int(said["coordinatorEpoch"]) == row["coordinator_epoch"]
    assert (optional(said["currentTxnFirstOffset"]) or -1) == row["transaction_first_offset"]
    assert int(said["lastTimestamp"]) == row["timestamp_ms"]
    assert [int(said.get(name, -1)) for name in ("firstSequence", "lastSequence", "lastOffset")] == [
        row["first_sequence"], row["last_sequence"], row["last_offset"]
    ]  # fmt: skip


def check(lines: Iterator[dict[str, str]], rows: Iterator[Row]) -> int:
    count = 0
    for said, row in zip(lines, rows, strict=True):
        if "magic" in row:
            check_batch(said, row)
        elif "headers" in row or "control" in row:
            check_record(said, row)
        else:
            check_entry(said, row)
        count += 1
    return count


def ours(path: str, **options: Any) -> Iterator[Row]:
    """A snapshot's producers are in the order of a hash map in Kafka's output."""
    rows = dump(OsFiles(), path, **options)
    return iter(sorted(rows, key=lambda row: str(row["producer_id"]))) if path.endswith(".snapshot") else rows


def theirs(path: str, lines: list[str]) -> Iterator[dict[str, str]]:
    found = [fields(line) for line in lines]
    return iter(sorted(found, key=lambda said: said["producerId"])) if path.endswith(".snapshot") else iter(found)


def test_the_same_is_said_of_every_file(kafka: KafkaJars, written: Path) -> None:
    old = [GOLDEN / name for name in ("v0-0", "v1-0", "append-time-0", "mixed-0")]
    said = said_by_kafka(kafka, files_of(written, *old), "--deep-iteration")
    counts: dict[str, int] = {}
    for path, lines in said.items():
        suffix = path.rpartition(".")[2]
        counts[suffix] = counts.get(suffix, 0) + check(theirs(path, lines), ours(path, records=True))
    assert counts["log"] > 700
    assert all(counts[suffix] >= least for suffix, least in (("index", 60), ("timeindex", 60), ("snapshot", 10)))
    assert counts["txnindex"] >= 5
    assert list(verify(OsFiles(), str(written))) == []


def test_offsets_and_groups_are_decoded_alike(kafka: KafkaJars) -> None:
    directory = GOLDEN / "__consumer_offsets-0"
    said = said_by_kafka(kafka, files_of(directory, suffixes=(".log",)), "--offsets-decoder")
    count = 0
    for path, lines in said.items():
        records = [row for row in dump(OsFiles(), path, records=True) if "key" in row]
        decoded = [re.search(r"key: (\{.*?\}) payload: (.*)$", line) for line in lines if line.startswith("|")]
        for match, row in zip(decoded, records, strict=True):
            assert match is not None
            key, payload = json.loads(match[1]), match[2]
            ours_key, ours_value = row["key"], row["value"]
            assert isinstance(ours_key, dict)
            assert int(key["type"]) == ours_key["version"]
            assert key["data"] == {name: ours_key[name] for name in key["data"]}
            if ours_value is None:
                assert payload == "<DELETE>"
                continue
            assert isinstance(ours_value, dict)
            value = json.loads(payload)
            assert int(value["version"]) == ours_value["version"]
            for name, content in value["data"].items():
                own = ours_value[re.sub("[A-Z]", lambda capital: "_" + capital[0].lower(), name)]
                assert own == content or (isinstance(content, list) and len(own) == len(content))
            count += 1
    assert count >= 6


def test_transactions_are_decoded_alike(kafka: KafkaJars, tmp_path: Path) -> None:
    values = [
        TransactionLogValue(
            producer_id=4000 + status, producer_epoch=status, transaction_status=status, transaction_timeout_ms=60_000,
            transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[status])] if status else None,
            transaction_last_update_timestamp_ms=77,
        )
        for status in range(8)
    ]  # fmt: skip
    keys = [encode_versioned(TransactionLogKey(transactional_id=f"id-{status}"), 0) for status in range(8)]
    path = tmp_path / "__transaction_state-0" / f"{0:020d}.log"
    path.parent.mkdir()
    encoded: list[bytes | None] = [encode_versioned(value, number % 2) for number, value in enumerate(values)]
    path.write_bytes(bytes(encode_batch(0, [1] * 9, [*keys, keys[0]], [*encoded, None])))
    said = said_by_kafka(kafka, [path], "--transaction-log-decoder")[str(path)]
    rows = [row for row in dump(OsFiles(), str(path), records=True) if "key" in row]
    lines = [line for line in said if line.startswith("|")]
    assert len(rows) == len(lines) == 9
    for row, line in zip(rows, lines, strict=True):
        key, value = row["key"], row["value"]
        assert isinstance(key, dict)
        assert f"transaction_metadata::transactionalId={key['transactional_id']} " in line
        if value is None:
            assert line.endswith("<DELETE>")
            continue
        assert isinstance(value, dict)
        partitions = ",".join(
            f"{one['topic']}-{index}" for one in value["transaction_partitions"] or [] for index in one["partition_ids"]
        )
        assert line.endswith(
            f"producerId:{value['producer_id']},producerEpoch:{value['producer_epoch']},"
            f"state={value['transaction_status']},partitions=[{partitions}],txnLastUpdateTimestamp=77,txnTimeoutMs=60000"
        )
