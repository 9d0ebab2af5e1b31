"""A broker's logs in several directories: start, checkpoints, retention, deletion, shutdown."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.log.checkpoint_format import decode_offsets
from odradek.broker.log.directories.checkpoints import MADE_DISTANCE_MS
from odradek.broker.log.directories.log_directory import LogDirectory
from odradek.broker.log.directories.maintenance import SEGMENTS_AT_ONCE
from odradek.broker.log.log import Log
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.log_environments import make_batch
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.simulated_files import SimulatedFiles
from odradek.world.background import ThreadBackground
from odradek.world.clock import LoopClock
from odradek.world.files import Buffer, File
from odradek.world.os_files import OsFiles
from tests.broker.log.restarted_logs import TOPIC_ID, US, Broker


def test_new_logs_go_where_the_fewest_are() -> None:
    broker = Broker().start()
    for partition in range(4):
        broker.write("t", partition)
    assert [log.directory for log in broker.logs.all_logs()] == ["/a/t-0", "/b/t-1", "/a/t-2", "/b/t-3"]


def test_many_logs_that_are_made_in_a_row_have_their_checkpoints_written_together() -> None:
    """Each write goes through all logs, and one followed the other while thousands were made."""
    broker = Broker(("/a",)).start()
    written: list[str] = []
    replace = broker.files.write_atomically

    def note(path: str, data: Buffer, *, sync: bool = True) -> None:
        written.append(path)
        replace(path, data, sync=sync)

    broker.files.write_atomically = note  # type: ignore[method-assign]
    for partition in range(20):
        broker.logs.get_or_create("t", partition, is_new=True)
        broker.clock.advance(1.0)
    assert written == [RECOVERY_POINTS], "the first at once"
    broker.clock.advance(MADE_DISTANCE_MS)
    assert written.count(RECOVERY_POINTS) <= 3, "once for the nineteen others, and when the manager does so anyway"
    assert len(decode_offsets(broker.files.read(RECOVERY_POINTS))) == 20


def test_logs_that_have_gone_are_not_counted() -> None:
    broker = Broker().start()
    for partition in range(4):
        broker.write("t", partition)
    broker.logs.delete("t", 1)
    broker.write("t", 4)
    broker.logs.create_future_log("t", 0, "/b")
    broker.write("t", 5)
    broker.logs.delete("t", 2)
    broker.logs.delete("t", 5)
    broker.write("t", 6)
    broker.write("t", 7)
    homes = {log.partition: log.log_directory for log in broker.logs.all_logs()}
    assert homes == {0: "/a", 3: "/b", 4: "/b", 6: "/a", 7: "/a"}
    broker.logs.delete("t", 0)
    broker.write("t", 8)
    broker.write("t", 9)
    assert {log.partition for log in broker.logs.all_logs() if log.log_directory == "/b"} == {3, 4, 9}


def test_a_clean_stop_leaves_kafkas_files() -> None:
    broker = Broker(("/a",)).start()
    broker.write("t", 0, 2)
    broker.logs.get_or_create("t", 0).advance_log_start_offset(1)
    broker.logs.close(broker_epoch=42)
    read = broker.files.read
    assert read("/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 2\n"
    assert read("/a/log-start-offset-checkpoint") == b"0\n1\nt 0 1\n"
    assert read("/a/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert read("/a/t-0/partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    lines = read("/a/meta.properties").split(b"\n")
    assert lines == [
        b"#", b"#Tue Nov 14 22:13:20 UTC 2023", b"broker.id=1", b"version=0", b"cluster.id=cluster-a", b"",
    ]  # fmt: skip


def test_a_restart_finds_everything_again() -> None:
    broker = Broker().start()
    broker.write("t", 0, 3)
    broker.write("t", 1, 2)
    broker.logs.close()
    syncs = broker.files.syncs
    broker.start()
    ends = {(log.topic, log.partition): log.log_end_offset for log in broker.logs.all_logs()}
    assert ends == {("t", 0): 3, ("t", 1): 2}
    assert broker.logs.topic_id("t", 0) == TOPIC_ID
    assert not broker.files.exists("/a/.kafka_cleanshutdown")
    assert broker.files.syncs == syncs


def test_checkpoints_survive_a_crash() -> None:
    broker = Broker(("/a",)).start()
    broker.write("t", 0, 10)
    log = broker.logs.get("t", 0)
    assert log is not None
    log.flush()
    log.advance_log_start_offset(5)
    broker.logs.checkpoints.write_high_watermarks({("t", 0): 9, ("gone", 0): 1}.get)
    broker.clock.advance(60_000)
    broker.files.crash()
    broker.start()
    recovered = broker.logs.get("t", 0)
    assert recovered is not None
    assert (recovered.log_start_offset, recovered.log_end_offset, recovered.recovery_point) == (5, 10, 10)
    assert broker.logs.checkpoints.read_high_watermarks() == {("t", 0): 9}


@pytest.mark.parametrize("elsewhere", [3, 10])
def test_a_high_watermark_is_read_where_the_log_is(elsewhere: int) -> None:
    """The directory that it has left may still have one, of when it was there."""
    broker = Broker(("/a", "/b")).start()
    broker.write("t", 0, 10)
    log = broker.logs.get("t", 0)
    assert log is not None
    log.flush()
    broker.logs.checkpoints.write_high_watermarks({("t", 0): 9}.get)
    broker.files.crash()
    other = "/b" if log.log_directory == "/a" else "/a"
    broker.files.set_content(f"{other}/replication-offset-checkpoint", b"0\n1\nt 0 %d\n" % elsewhere)
    for order in (("/a", "/b"), ("/b", "/a")):
        broker.directories = order
        assert broker.start().logs.checkpoints.read_high_watermarks() == {("t", 0): 9}
        broker.files.crash()


RECOVERY_POINTS, CLEANED = "/a/recovery-point-offset-checkpoint", "/a/cleaner-offset-checkpoint"


@pytest.mark.parametrize(
    ("checkpoints", "end_offset"),
    [
        ({RECOVERY_POINTS: b"0\n1\nt 0 101\n"}, 101),
        ({}, 101),
        ({RECOVERY_POINTS: b"0\n1\nt 0 1\n", CLEANED: b"0\n1\nt 0 100\n"}, 101),
        ({RECOVERY_POINTS: b"0\n1\nt 0 1\n", CLEANED: b"0\n1\nt 0 99\n"}, 1),
        ({RECOVERY_POINTS: b"0\n1\nt 0 1\n"}, 1),
    ],
)
def test_a_gap_is_a_lost_end_unless_it_was_on_the_disk_or_is_compactions(
    checkpoints: dict[str, bytes], end_offset: int
) -> None:
    """The topic was compacted once, perhaps by Kafka, and its settings do not say so any more."""
    broker = Broker(("/a",)).start()
    log = broker.logs.get_or_create("t", 0, TOPIC_ID, is_new=True)
    log.append_as_follower(make_batch([b"x"], base_offset=0, epoch=0))
    log.roll(100)
    log.append_as_follower(make_batch([b"x"], base_offset=100, epoch=0))
    log.flush()
    broker.files.kill()
    for path, content in checkpoints.items():
        broker.files.set_content(path, content)
    found = broker.start().logs.get("t", 0)
    assert found is not None and found.log_end_offset == end_offset


def test_retention_runs_from_time_to_time_up_to_the_high_watermark() -> None:
    broker = Broker().start()
    broker.write("t", 0, 10)
    broker.logs.protect_from(lambda log: 5)
    broker.clock.advance(100)
    log = broker.logs.get("t", 0)
    assert log is not None
    assert log.log_start_offset == 4


def test_retention_gives_the_loop_back_between_a_few_segments() -> None:
    broker = Broker(("/a",)).start()
    broker.write("t", 0, 100)
    log = broker.logs.get("t", 0)
    assert log is not None
    before, turns = len(log.segments), []

    def high_watermark_of(log: Log) -> int:
        turns.append(len(log.segments))
        return log.log_end_offset

    broker.logs.protect_from(high_watermark_of)
    broker.clock.advance(100)
    assert before > 3 * SEGMENTS_AT_ONCE and len(log.segments) == 1
    assert turns[: before // SEGMENTS_AT_ONCE] == list(range(before, SEGMENTS_AT_ONCE - 1, -SEGMENTS_AT_ONCE))


def test_the_brokers_own_settings_reach_all_logs() -> None:
    broker = Broker().start()
    broker.write("t", 0)
    broker.write("u", 0)
    broker.config = LogConfig(segment_bytes=123)
    broker.logs.configure_all()
    assert [log.config.segment_bytes for log in broker.logs.all_logs()] == [123, 123]


def test_deleting_renames_at_once_and_removes_later() -> None:
    broker = Broker(("/a",)).start()
    broker.write("t", 0)
    broker.logs.delete("t", 0)
    broker.logs.delete("t", 0)
    assert broker.logs.get("t", 0) is None
    (left,) = [name for name in broker.files.list_directory("/a") if name.endswith("-delete")]
    assert left.startswith("t-0.")
    broker.write("t", 0)
    broker.clock.advance(60_000)
    assert not broker.files.exists(f"/a/{left}")
    assert broker.files.exists("/a/t-0")


def test_what_a_crash_left_deleted_is_removed_at_the_start() -> None:
    broker = Broker(("/a",)).start()
    broker.write("t", 0)
    broker.logs.delete("t", 0)
    broker.files.kill()
    broker.start()
    assert broker.files.list_directory("/a") == [".lock", "meta.properties"]


def test_another_topic_id_is_refused() -> None:
    broker = Broker().start()
    broker.write("t", 0)
    with pytest.raises(KafkaError) as refused:
        broker.logs.get_or_create("t", 0, bytes(15) + b"\1")
    assert refused.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_truncation_below_the_recovery_point_is_checkpointed_at_once() -> None:
    broker = Broker(("/a",)).start()
    broker.write("t", 0, 3)
    log = broker.logs.get("t", 0)
    assert log is not None
    log.flush()
    broker.logs.checkpoints.write_recovery_points()
    log.truncate_to(1)
    broker.clock.advance(0)
    assert broker.files.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 1\n"


def test_settings_change_while_it_runs() -> None:
    broker = Broker().start()
    broker.write("t", 0)
    broker.config = LogConfig(max_message_bytes=1)
    broker.logs.configure("t")
    with pytest.raises(KafkaError) as refused:
        broker.write("t", 0)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_real_directories_are_loaded_in_threads(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "ab"]

    async def run(partitions: int) -> list[tuple[str, int, int]]:
        loop = asyncio.get_running_loop()
        background = ThreadBackground(loop)
        config = LogConfig(segment_bytes=1000, flush_messages=7)
        logs = LogManager(OsFiles(), LoopClock(loop), background, random.Random(), paths, lambda topic: config)
        ready = loop.create_future()
        logs.open(US, lambda: ready.set_result(None))
        await ready
        for partition in range(partitions):
            for _ in range(20):
                log = logs.get_or_create("t", partition, TOPIC_ID)
                log.append_as_leader(make_batch([b"x" * 100]), 0)
        logs.close()
        return sorted((log.topic, log.partition, log.log_end_offset) for log in logs.all_logs())

    written = asyncio.run(run(4))
    assert written == [("t", partition, 20) for partition in range(4)]
    (tmp_path / "b" / ".kafka_cleanshutdown").unlink()
    assert asyncio.run(run(0)) == written


class CountingFiles(SimulatedFiles):
    """Notes which files are opened, and which directories are listed."""

    def __init__(self) -> None:
        super().__init__(7)
        self.opened: list[str] = []
        self.listed: list[str] = []

    def open(self, path: str, *, create: bool = False) -> File:
        self.opened.append(path)
        return super().open(path, create=create)

    def list_directory(self, path: str) -> list[str]:
        self.listed.append(path)
        return super().list_directory(path)


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_opens_and_changes_no_file_of_logs_that_never_held_a_record(clean: bool) -> None:
    """A start with 10,000 of them took 5.5 seconds of a processor, and a sync of each from the second start on."""
    broker = Broker(("/a",))
    files = broker.files = CountingFiles()
    broker.start()
    for partition in range(5):
        broker.logs.get_or_create("t", partition, TOPIC_ID, is_new=True)
    for _ in range(3):
        if clean:
            broker.logs.close()
        files.kill()
        files.opened.clear()
        files.listed.clear()
        syncs = files.syncs
        broker.start()
        assert [log.log_end_offset for log in broker.logs.all_logs()] == [0] * 5
        assert broker.logs.topic_id("t", 4) == TOPIC_ID
        assert [path for path in files.opened if "/t-" in path] == []
        assert files.syncs == syncs
        assert sorted(path for path in files.listed if "/t-" in path) == [f"/a/t-{number}" for number in range(5)]
    log = broker.logs.get_or_create("t", 3, TOPIC_ID)
    log.append_as_leader(make_batch([b"x" * 100]), 0)
    broker.logs.close()
    files.kill()
    ends = {log.partition: log.log_end_offset for log in broker.start().logs.all_logs()}
    assert ends == {0: 0, 1: 0, 2: 0, 3: 1, 4: 0}


def test_flush_ms_bounds_how_long_a_record_is_in_memory_alone_and_syncs_nothing_else() -> None:
    """Each log was synced every `flush.ms`, also those to which nobody wrote."""
    broker = Broker(("/a",))
    broker.config = LogConfig(flush_ms=1000)
    broker.settings = LogManagerSettings(log_initial_task_delay_ms=100, log_flush_scheduler_interval_ms=500)
    broker.start()
    for partition in range(20):
        broker.write("t", partition)
    broker.clock.advance(1500)
    assert [log.recovery_point for log in broker.logs.all_logs()] == [1] * 20
    syncs = broker.files.syncs
    broker.clock.advance(10_000)
    assert broker.files.syncs == syncs
    broker.write("t", 3)
    broker.clock.advance(1000)
    log = broker.logs.get("t", 3)
    assert log is not None and log.recovery_point == 2
    assert broker.files.syncs == syncs + 1
    log.assign_epoch(5, 1)
    assert log.epoch_file.unsynced
    broker.clock.advance(1500)
    assert not log.epoch_file.unsynced, "an epoch is to be on the disk as well"


@pytest.mark.parametrize("where", ["load", "names"])
def test_a_directory_whose_loading_ends_with_an_exception_that_nobody_has_foreseen_is_offline(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker waited for it for ever: not registered, and not ended either."""
    broker = Broker().start()
    broker.write("t", 0)
    broker.write("t", 1)
    broker.files.kill()
    whole = getattr(LogDirectory, where)

    def loaded(directory: LogDirectory, *given: Any) -> Any:
        if directory.path == "/a":
            raise ValueError("bytes that nobody has foreseen")
        return whole(directory, *given)

    monkeypatch.setattr(LogDirectory, where, loaded)

    async def start() -> None:
        background = ThreadBackground(asyncio.get_running_loop())
        logs = LogManager(
            broker.files, broker.clock, background, random.Random(5), broker.directories, lambda topic: broker.config
        )
        ready = asyncio.Event()
        logs.open(US, ready.set)
        await asyncio.wait_for(ready.wait(), PATIENCE_SECONDS)
        background.close()
        assert [str(log) for log in logs.all_logs()] == ["Log(t-1, 0..1)"]
        assert "nobody has foreseen" in str(logs.directories["/a"].offline)

    asyncio.run(start())
