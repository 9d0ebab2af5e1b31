"""`dump-log --verify`: whatever is wrong is found, at its byte, in every kind of file."""

import random

import pytest

from odradek.broker.log.batches import Origin, iterate_headers
from odradek.broker.log.checkpoint_format import encode_offsets
from odradek.broker.log.directories.directory_files import DirectoryOwner, encode_meta, encode_partition_metadata
from odradek.broker.log.dump import Damage, dump, verify
from odradek.broker.log.dump.file_kinds import base_offset_of, topic_of
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.records import encode_batch
from odradek.testing.log_environments import DIRECTORY, close_log, make_batch, make_environment, open_test_log
from odradek.testing.simulated_files import SimulatedFiles

CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=100)
END = 16
FIRST, LAST = f"{0:020d}", f"{END:020d}"
DATA = "/data"


def with_transactions() -> SimulatedFiles:
    """A closed log: aborted 0-1 and 3-4, committed 5-6, plain records after; leader epochs 3, and 4 from 6 on."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), CONFIG, clean=True)

    def data(producer: int, sequence: int, epoch: int = 3) -> None:
        batch = make_batch([b"a" * 90], timestamp_ms=1000 + log.log_end_offset, producer_id=producer, sequence=sequence,
                           transactional=producer == 5)  # fmt: skip
        log.append_as_leader(batch, epoch)

    def end(commit: bool, epoch: int = 3) -> None:
        marker = encode_end_txn_marker(EndTxnMarker(commit, 0), 1000 + log.log_end_offset, 5, 0)
        log.append_as_leader(marker, epoch, origin=Origin.COORDINATOR)

    data(5, 0)
    end(False)
    data(6, 0)
    data(5, 1)
    end(False)
    data(5, 2)
    end(True, 4)
    for sequence in range(1, END - 6):
        data(6, sequence, 4)
    close_log(log)
    files.set_content(f"{DIRECTORY}/partition.metadata", encode_partition_metadata(bytes(range(16))))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        files.set_content(f"{DATA}/{name}", encode_offsets({("topic", 0): END, ("topic", 1): 7}))
    files.set_content(f"{DATA}/meta.properties", encode_meta(DirectoryOwner(1, "cluster"), 0, {}))
    return files


@pytest.fixture(scope="module")
def contents() -> dict[str, bytes]:
    """Of every file, by path."""
    files = with_transactions()
    names = [f"{DIRECTORY}/{name}" for name in files.list_directory(DIRECTORY)]
    names += [f"{DATA}/{name}" for name in files.list_directory(DATA) if not files.is_directory(f"{DATA}/{name}")]
    return {name: files.read(name) for name in names}


def changed(contents: dict[str, bytes], path: str, data: bytes) -> SimulatedFiles:
    files = SimulatedFiles()
    for name, content in contents.items():
        files.set_content(name, data if name == path else content)
    return files


def test_nothing_is_wrong_with_what_we_write(contents: dict[str, bytes]) -> None:
    files = changed(contents, "", b"")
    assert list(verify(files, DATA)) == []
    suffixes = {name.rpartition(".")[2] for name in contents}
    assert {"log", "index", "timeindex", "txnindex", "snapshot", "metadata", "properties"} <= suffixes
    assert all(list(dump(files, name)) for name in contents)


def number(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "big") for value in values)


EPOCHS, HIGH_WATERMARKS = "leader-epoch-checkpoint", "../replication-offset-checkpoint"
TABLE = [
    (f"{FIRST}.txnindex", number(3, 4), number(1, 4), 34, "begins at 3, not at 1"),
    (f"{FIRST}.txnindex", number(0, 1), number(0, 3), 0, "at offset 3 of the log, producer 5 aborts no transaction"),
    (f"{FIRST}.txnindex", number(5, 3), number(6, 3), 34, "producer 6 aborts no transaction"),
    (f"{FIRST}.txnindex", number(3, 4), number(4, 4), 34, "from 4 to 4"),
    (f"{FIRST}.txnindex", number(4, 5), number(4, 6), 34, "last stable offset 6"),
    (f"{FIRST}.txnindex", number(5, 3), number(5, 3)[:-1], 34, "the last is incomplete"),
    (f"{FIRST}.txnindex", b"\x00\x00", b"\x00\x01", 0, "version 1"),
    (f"{LAST}.snapshot", b"\x00\x01", b"\x00\x02", 0, "version 2"),
    (f"{LAST}.snapshot", number(5), number(4), 2, "checksum"),
    (f"{LAST}.snapshot", number(5), b"", 2, "checksum"),
    (EPOCHS, b"3 0", b"3 x", 4, "'x'"),
    (EPOCHS, b"3 0", b"3", 4, "2 fields"),
    (EPOCHS, b"\n2\n", b"\n5\n", 2, "5 entries announced, 2 lines follow"),
    (EPOCHS, b"\n2\n", "\n\u00b2\n".encode(), 2, "is not a number of entries"),
    (EPOCHS, b"0\n2", b"7\n2", 0, "version '7'"),
    (EPOCHS, b"4 6", b"2 6", 8, "leader_epoch 2 after 3"),
    (EPOCHS, b"4 6", b"4 0", 8, "start_offset 0 after 0"),
    (HIGH_WATERMARKS, b"topic 1 7", b"topic 0 7", 15, "topic-0 a second time"),
    (HIGH_WATERMARKS, b"topic 1 7", b"topic 1 -7", 15, "a negative number"),
    (HIGH_WATERMARKS, b"topic 1 7\n", b"topic 1 7", 2, "2 entries announced"),
    ("partition.metadata", b"topic_id: ", b"topic_id: AA", 0, "partition.metadata"),
    ("../meta.properties", b"broker.id=1", b"broker.id=", 0, "meta.properties with broker.id="),
    ("../meta.properties", b"version=0", b"version=1", 0, "not a directory of ZooKeeper mode"),
    (f"{FIRST}.index", b"\x00\x00\x00\x01", b"\x00\x00\x00\x09", 8, "offset 3 after 9"),
    (f"{FIRST}.index", b"\x00\x00\x00\xa0", b"\x00\x00\x00\xa1", 0, "not at byte 161"),
    (f"{FIRST}.timeindex", number(1001), number(1000), 0, "the log has 1001"),
]


@pytest.mark.parametrize(("name", "old", "new", "position", "reason"), TABLE)
def test_damage_is_found_at_its_byte(
    contents: dict[str, bytes], name: str, old: bytes, new: bytes, position: int, reason: str
) -> None:
    path = f"{DATA}/{name[3:]}" if name.startswith("../") else f"{DIRECTORY}/{name}"
    assert old in contents[path], contents[path]
    files = changed(contents, path, contents[path].replace(old, new, 1))
    found = list(verify(files, path))
    (damage,) = [damage for damage in found if reason in damage.reason] or found
    assert (damage.path, damage.position) == (path, position), damage
    assert reason in damage.reason
    assert damage in list(verify(files, DATA))


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        (f"{DATA}/meta.properties", b"#\n", "does not say of which broker"),
        (f"{DATA}/.kafka_cleanshutdown", b"[" * 100_000, "not JSON"),
    ],
)
def test_a_file_that_says_nothing_is_damage(contents: dict[str, bytes], path: str, content: bytes, reason: str) -> None:
    (damage,) = verify(changed({**contents, path: b""}, path, content), DATA)
    assert damage.path == path and reason in damage.reason


@pytest.mark.parametrize(
    ("stable", "reasons"),
    [
        (3, []),
        (2, []),
        (4, ["last stable offset 4 after a transaction that ended at 1: none begins there"]),
        (9, ["last stable offset 9, but the segment ends before 5"]),
    ],
)
def test_a_last_stable_offset_behind_its_marker_is_where_a_transaction_begins(stable: int, reasons: list[str]) -> None:
    """Each follower of Kafka's that took a marker and another producer's transaction at once was said to be damaged."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), CONFIG, clean=True)
    log.append_as_leader(make_batch([b"a"], producer_id=5, sequence=0, transactional=True), 0)
    marker = encode_end_txn_marker(EndTxnMarker(False, 0), 1000, 5, 0)
    log.append_as_leader(marker, 0, origin=Origin.COORDINATOR)
    log.append_as_leader(make_batch([b"a"]), 0)
    log.append_as_leader(make_batch([b"a", b"b"], producer_id=7, sequence=0, transactional=True), 0)
    close_log(log)
    path = f"{DIRECTORY}/{FIRST}.txnindex"
    assert files.read(path).endswith(number(1, 2))
    files.set_content(path, files.read(path)[:-8] + number(stable))
    assert [(one.path, one.position, one.reason) for one in verify(files, DIRECTORY)] == [
        (path, 0, reason) for reason in reasons
    ]


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_of_a_log_is_found_at_its_batch(contents: dict[str, bytes], seed: int) -> None:
    """Only of the base offset and the leader epoch, which no checksum covers, may a larger one first look strange in
    the batch after; and of the very last batch not at all."""
    path = f"{DIRECTORY}/{FIRST}.log"
    data = contents[path]
    file = changed(contents, "", b"").open(path)
    batches = list(iterate_headers(file, 0, len(data)))
    chance = random.Random(seed)
    for _ in range(50):
        number, batch = chance.choice(list(enumerate(batches[:-1])))
        byte = chance.randrange(batch.size_bytes)
        damaged = bytearray(data)
        damaged[batch.position + byte] ^= 1 << chance.randrange(8)
        found = list(verify(changed(contents, path, bytes(damaged)), DIRECTORY))
        covered = byte >= 16 or 8 <= byte < 12
        places = [batch.position] if covered else [batch.position, batches[number + 1].position]
        assert found and found[0].path == path and found[0].position in places, (byte, found)


def test_damage_in_one_batch_does_not_hide_that_of_another(contents: dict[str, bytes]) -> None:
    path = f"{DIRECTORY}/{FIRST}.log"
    data = bytearray(contents[path])
    batches = list(iterate_headers(changed(contents, "", b"").open(path), 0, len(data)))
    for batch in (batches[1], batches[3]):
        data[batch.next_position - 1] ^= 1
    found = list(verify(changed(contents, path, bytes(data) + bytes(40)), path))
    assert [one.position for one in found] == [batches[1].position, batches[3].position, len(data)]
    assert "40 zeros from here to the end" in found[-1].reason


def test_files_that_do_not_fit_together(contents: dict[str, bytes]) -> None:
    def reasons(path: str, files: SimulatedFiles) -> list[tuple[str, int, str]]:
        return [(one.path.removeprefix(path + "/"), one.position, one.reason) for one in verify(files, path)]

    lost = changed(contents, "", b"")
    lost.remove(f"{DIRECTORY}/{FIRST}.txnindex")
    assert [(name, position) for name, position, _ in reasons(DIRECTORY, lost)] == [
        (f"{FIRST}.log", 160), (f"{FIRST}.log", 558)
    ]  # fmt: skip
    lost.remove(f"{DIRECTORY}/{FIRST}.log")
    assert (f"{FIRST}.index", 0, "its .log file is not there") in reasons(DIRECTORY, lost)
    overlapping = changed(contents, "", b"")
    overlapping.set_content(f"{DIRECTORY}/{5:020d}.log", bytes(make_batch(base_offset=5)))
    assert (f"{5:020d}.log", 0, "begins at 5, the segment before ends with 8") in reasons(DIRECTORY, overlapping)


def test_checkpoints_that_say_what_the_logs_do_not(contents: dict[str, bytes]) -> None:
    epochs = f"{DIRECTORY}/{EPOCHS}"
    files = changed(contents, epochs, contents[epochs].replace(b"4 6", b"4 5"))
    path, position, reason = next(verify(files, DIRECTORY))
    assert (path, position) == (f"{DIRECTORY}/{FIRST}.log", 636)
    assert reason == "leader epoch 3 at offset 5, leader-epoch-checkpoint says 4"
    assert list(verify(changed(contents, epochs, b"0\n1\n4 6\n"), DIRECTORY)) == []  # the start may have moved
    points = f"{DATA}/recovery-point-offset-checkpoint"
    files = changed(contents, points, contents[points].replace(b"topic 0 16", b"topic 0 17"))
    assert list(verify(files, DATA)) == [(points, 4, "topic-0 was on the disk up to 17, it ends at 16")]


@pytest.mark.parametrize("directory", ["orders-3", f"orders-3.{'0f' * 16}-delete", f"orders-3.{'0f' * 16}-future"])
def test_whose_records_they_are_is_said_by_the_directory(directory: str) -> None:
    assert topic_of(f"/data/{directory}/{FIRST}.log") == "orders"


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_records_that_a_coordinator_cannot_read_are_damage(topic: str) -> None:
    files = SimulatedFiles()
    path = f"/data/{topic}-0/{FIRST}.log"
    files.set_content(path, bytes(encode_batch(0, [1, 2], [b"\x00\x63", None], [b"", b""])))
    reasons = [damage.reason for damage in verify(files, path)]
    assert len(reasons) == 2
    assert "record 0: key of version 99" in reasons[0]
    assert reasons[1] == "record 1: no key"
    (_, row, _) = dump(files, path, records=True)
    assert (row["key"], row["undecodable"]) == (b"\x00\x63", reasons[0].removeprefix("record 0: "))
    assert list(verify(files, path, topic="orders")) == []


def test_a_header_that_lies_about_its_records() -> None:
    files = SimulatedFiles()
    path = f"{DIRECTORY}/{FIRST}.log"
    batch = encode_batch(0, [1, 9], [None, None], [b"", b""], offsets=[0, 7], last_offset=7)
    batch[23:27] = (5).to_bytes(4, "big")
    fixed = bytes(batch[:17]) + checksum(bytes(batch)) + bytes(batch[21:])
    files.set_content(path, fixed)
    assert [damage.reason for damage in verify(files, path)] == ["records 0 to 7 in a batch of 0 to 5"]


def checksum(batch: bytes) -> bytes:
    from crc32c import crc32c

    return crc32c(batch[21:]).to_bytes(4, "big")


def test_a_file_of_the_active_segment_of_kafka_ends_in_zeros(contents: dict[str, bytes]) -> None:
    """Kafka makes index files of their full size beforehand, and cuts them at a roll or a clean stop."""
    for suffix in ("index", "timeindex"):
        path = f"{DIRECTORY}/{FIRST}.{suffix}"
        files = changed(contents, path, contents[path] + bytes(24 * 100))
        assert list(verify(files, path)) == []
        assert list(dump(files, path)) == list(dump(changed(contents, "", b""), path))
        assert list(dump(changed(contents, path, bytes(2400)), path)) == []


def test_files_of_a_change_that_is_going_on_are_read_too(contents: dict[str, bytes]) -> None:
    files = SimulatedFiles()
    for name, content in contents.items():
        files.set_content(name + ".deleted" if FIRST in name else name, content)
    assert list(verify(files, f"{DIRECTORY}/{FIRST}.index.deleted")) == []
    files.set_content(f"{DATA}/notes.txt", b"")
    with pytest.raises(ValueError, match="not a file of a log"):
        list(verify(files, f"{DATA}/notes.txt"))


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_an_index_that_a_compaction_replaces_or_has_made_is_compared_with_its_own_log(
    contents: dict[str, bytes], suffix: str
) -> None:
    """Beside it is a `.log` of the same offset, the compacted one or the one that is compacted."""
    files = SimulatedFiles()
    for name, content in contents.items():
        files.set_content(name, content)
        if FIRST in name:
            files.set_content(name + suffix, content)
            files.set_content(name, b"")
    assert list(verify(files, DIRECTORY)) == []


def test_a_damage_says_where() -> None:
    assert Damage("/a/b.log", 7, "why") == ("/a/b.log", 7, "why")


def test_a_name_that_is_no_number_for_python_has_no_base_offset() -> None:
    assert [base_offset_of(f"/data/topic-0/{name}.log") for name in ("\u00b2", "x", f"{42:020d}")] == [0, 0, 42]
