"""Dumping every kind of file, and finding damage at its byte."""

import pytest

from odradek.broker.log.dump import dump, verify
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.log_environments import DIRECTORY, close_log, make_batch, make_environment, open_test_log
from odradek.testing.simulated_files import SimulatedFiles

FIRST_LOG = f"{DIRECTORY}/{0:020d}.log"


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), LogConfig(segment_bytes=1000, index_interval_bytes=100), clean=True)
    for number in range(12):
        log.append_as_leader(make_batch([b"a" * 90], timestamp_ms=1000 + number, producer_id=5, sequence=number), 3)
    close_log(log)
    return files


def test_a_healthy_log_has_no_damage(files: SimulatedFiles) -> None:
    assert list(verify(files, DIRECTORY)) == []


def test_every_file_is_dumped(files: SimulatedFiles) -> None:
    rows = list(dump(files, FIRST_LOG, records=True))
    assert [rows[0]["base_offset"], rows[1]["offset"], rows[1]["value"]] == [0, 0, b"a" * 90]
    assert list(dump(files, f"{DIRECTORY}/leader-epoch-checkpoint")) == [{"leader_epoch": 3, "start_offset": 0}]
    assert next(dump(files, f"{DIRECTORY}/{0:020d}.timeindex")) == {"timestamp_ms": 1001, "offset": 1}
    assert next(dump(files, f"{DIRECTORY}/{0:020d}.index")) == {"offset": 1, "position": 160}
    (row,) = dump(files, f"{DIRECTORY}/{12:020d}.snapshot")
    assert (row["producer_id"], row["last_sequence"], row["last_offset"]) == (5, 11, 11)
    with pytest.raises(ValueError, match="not a file of a log"):
        list(dump(files, f"{DIRECTORY}/notes.txt"))


def test_a_flipped_byte_is_found_at_its_batch(files: SimulatedFiles) -> None:
    data = bytearray(files.read(FIRST_LOG))
    data[160 + 100] ^= 1
    files.set_content(FIRST_LOG, bytes(data))
    (damage,) = verify(files, FIRST_LOG)
    assert (damage.path, damage.position) == (FIRST_LOG, 160)
    assert "checksum" in damage.reason


def test_an_index_that_points_between_batches_is_found(files: SimulatedFiles) -> None:
    path = f"{DIRECTORY}/{0:020d}.index"
    data = bytearray(files.read(path))
    data[15] += 1
    files.set_content(path, bytes(data))
    assert [damage.position for damage in verify(files, path)] == [8]
    files.set_content(path, bytes(data[:13]))
    assert "13 bytes" in next(verify(files, path)).reason


def test_a_time_index_that_lies_is_found(files: SimulatedFiles) -> None:
    path = f"{DIRECTORY}/{0:020d}.timeindex"
    data = bytearray(files.read(path))
    data[12 + 6] = 9
    files.set_content(path, bytes(data))
    assert list(verify(files, path))
