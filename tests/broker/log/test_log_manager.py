"""A broker's logs in several directories: start, checkpoints, deletion, failures, shutdown."""

import asyncio
import random
from pathlib import Path

import pytest

from odradek.broker.log.checkpoint_format import decode_offsets
from odradek.broker.log.directories.checkpoints import MADE_DISTANCE_MS
from odradek.broker.log.directories.directory_files import DirectoryOwner, MetaProperties
from odradek.broker.log.directories.maintenance import SEGMENTS_AT_ONCE
from odradek.broker.log.errors import StorageFailure, UnusableDirectory
from odradek.broker.log.log import Log
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.log_environments import make_batch
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground, ThreadBackground
from odradek.world.clock import LoopClock
from odradek.world.files import Buffer, File
from odradek.world.os_files import OsFiles

US = DirectoryOwner(1, "cluster-a")
TOPIC_ID = bytes(range(16))


class Broker:
    """A log manager that can be started again on the same disks."""

    def __init__(self, directories: tuple[str, ...] = ("/a", "/b")) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(7, self.clock.now_ms)
        self.directories = directories
        self.config = LogConfig(segment_bytes=500, retention_bytes=0, retention_ms=-1)
        self.lost: list[tuple[str, list[tuple[str, int]]]] = []
        self.logs = self.make()

    def make(self) -> LogManager:
        return LogManager(
            self.files,
            self.clock,
            InlineBackground(),
            random.Random(5),
            self.directories,
            lambda topic: self.config,
            settings=LogManagerSettings(log_initial_task_delay_ms=100),
            directory_failed=lambda path, cause, partitions: self.lost.append((path, partitions)),
        )

    def start(self, identity: DirectoryOwner = US) -> "Broker":
        self.logs = self.make()
        ready = []
        self.logs.open(identity, lambda: ready.append(True))
        assert ready == [True]
        return self

    def write(self, topic: str, partition: int, count: int = 1) -> None:
        log = self.logs.get_or_create(topic, partition, TOPIC_ID, is_new=True)
        for _ in range(count):
            log.append_as_leader(make_batch([b"x" * 100]), 0)


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


def test_a_failing_directory_takes_only_its_logs() -> None:
    broker = Broker().start()
    broker.write("t", 0)
    broker.write("t", 1)
    broker.files.broken.add("/a")
    log = broker.logs.get("t", 0)
    assert log is not None
    with pytest.raises(StorageFailure):
        log.append_as_leader(make_batch(), 0)
    assert broker.lost == [("/a", [("t", 0)])]
    assert broker.logs.get("t", 0) is None
    broker.write("t", 1)
    with pytest.raises(KafkaError) as refused:
        broker.logs.get_or_create("t", 0, TOPIC_ID)  # it may be in /a
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.logs.get_or_create("new", 0, is_new=True).directory == "/b/new-0"
    broker.logs.close()
    assert broker.files.exists("/b/.kafka_cleanshutdown")


@pytest.mark.parametrize("order", [("/a", "/b", "/c"), ("/c", "/b", "/a")])
def test_of_a_partition_in_two_directories_neither_copy_is_served(order: tuple[str, ...]) -> None:
    """One directory was away for a while, say: whichever was loaded first would be taken for the partition's log."""
    broker = Broker(order).start()
    for partition in range(3):
        broker.write("t", partition)
    at = {log.partition: log.log_directory for log in broker.logs.all_logs()}
    broker.logs.close()
    broker.directories = tuple(path for path in order if path != at[0])
    broker.start()
    broker.write("t", 0, 2)
    log = broker.logs.get("t", 0)
    assert log is not None
    elsewhere, [third] = log.log_directory, [path for path in order if path not in (at[0], log.log_directory)]
    broker.logs.close()
    broker.directories = order
    broker.start()
    assert [directory.path for directory in broker.logs.online()] == [third]
    assert [log.log_directory for log in broker.logs.all_logs()] == [third]
    for path in (at[0], elsewhere):
        said = str(broker.logs.directories[path].offline)
        assert f"{at[0]}/t-0" in said and f"{elsewhere}/t-0" in said
    with pytest.raises(KafkaError) as refused:
        broker.logs.get_or_create("t", 0, TOPIC_ID)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_directory_has_one_broker_at_a_time() -> None:
    broker = Broker().start()
    with pytest.raises(UnusableDirectory, match="/a cannot be used: another broker is using it"):
        broker.make().open(US, lambda: None)
    broker.logs.close()
    broker.start()


@pytest.mark.parametrize("other", [DirectoryOwner(2, "cluster-a"), DirectoryOwner(1, "cluster-b")])
def test_a_directory_of_another_owner_is_refused(other: DirectoryOwner) -> None:
    broker = Broker(("/a",)).start()
    broker.logs.close()
    assert broker.make().owner() == MetaProperties(*US)
    broker.files.kill()
    with pytest.raises(UnusableDirectory, match="belongs to broker 1 of cluster cluster-a"):
        broker.start(other)


def with_meta(*contents: str) -> Broker:
    """Directories of a broker with these `meta.properties`, as another program has left them."""
    broker = Broker(("/a", "/b")[: len(contents)])
    for path, content in zip(broker.directories, contents, strict=True):
        broker.files.make_directory(path)
        broker.files.write_atomically(f"{path}/meta.properties", content.encode())
    return broker


ID = "directory.id=NX7DKZTqRcCLTo2QeYF6tA\n"


def test_what_another_program_says_of_a_directory_is_kept() -> None:
    broker = with_meta(f"#\n#date\nversion=0\n{ID}", "broker.id=1\ncluster.id=cluster-a\n")
    assert broker.logs.owner() == MetaProperties(1, "cluster-a")
    broker.files.kill()
    broker.start()
    lines = broker.files.read("/a/meta.properties").decode().splitlines()[2:]
    assert set(lines) == {"version=0", ID.strip(), "broker.id=1", "cluster.id=cluster-a"}
    assert broker.files.read("/b/meta.properties") == b"broker.id=1\ncluster.id=cluster-a\n"


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (["version=1\nnode.id=1\ncluster.id=cluster-a\n"], "has version 1"),
        (["version=7\n"], "of version 7"),
        (["broker.id=one\n"], "broker.id=one"),
        (["directory.id=short\n"], "directory.id=short"),
        (["directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"], "AAAAAAAAAAAAAAAAAAAAAQ is reserved"),
        ([ID, ID], "/b cannot be used: it has the directory.id of /a"),
        (["broker.id=1\n", "broker.id=2\n"], "different brokers: /a to 1, /b to 2"),
        (["cluster.id=x\n", "cluster.id=y\n"], "different clusters: /a to x, /b to y"),
    ],
)
def test_directories_that_are_not_ours_are_refused(contents: list[str], why: str) -> None:
    with pytest.raises(UnusableDirectory, match=why):
        with_meta(*contents).logs.owner()


def test_half_an_owner_is_checked_too() -> None:
    for content in ("broker.id=2\n", "cluster.id=cluster-b\n"):
        with pytest.raises(UnusableDirectory, match="it belongs to broker"):
            with_meta(content).start()


def test_a_directory_whose_owner_cannot_be_read_is_offline() -> None:
    broker = with_meta("broker.id=1\n", "directory.id=short\n")
    assert broker.logs.owner() == MetaProperties(1)
    assert [directory.path for directory in broker.logs.online()] == ["/a"]


@pytest.mark.parametrize("trouble", ["broken", "full"])
def test_the_only_directory_has_to_work(trouble: str) -> None:
    broker = Broker(("/a",))
    if trouble == "broken":
        broker.files.broken.add("/a")
    else:
        broker.files.capacity_bytes = 0
    with pytest.raises(UnusableDirectory, match="/a"):
        broker.start()


def test_one_of_two_directories_is_enough() -> None:
    broker = Broker()
    broker.files.broken.add("/b")
    broker.start()
    broker.write("t", 0)
    assert [path for path, _ in broker.lost] == ["/b"]


def test_a_file_in_place_of_a_directory_is_an_offline_directory(tmp_path: Path) -> None:
    """As is one that may not be entered, to anybody but root."""
    paths = [str(tmp_path / name) for name in "ab"]
    (tmp_path / "a").write_text("not a directory")
    clock = ManualClock()
    logs = LogManager(OsFiles(), clock, InlineBackground(), random.Random(), paths, lambda topic: LogConfig())
    assert logs.owner() == MetaProperties()
    logs.open(US, lambda: None)
    assert [directory.path for directory in logs.online()] == paths[1:]
    assert isinstance(logs.directories[paths[0]].offline, NotADirectoryError)
    assert logs.get_or_create("t", 0, is_new=True).log_directory == paths[1]
    logs.close()


@pytest.mark.parametrize(("full", "empty"), [("/a", "/b"), ("/b", "/a")])
def test_an_empty_log_gives_way_to_one_of_that_name_in_another_directory(full: str, empty: str) -> None:
    """A failing disk could neither make it nor remove it."""
    broker = Broker()
    broker.files.set_content(f"{full}/t-0/{0:020d}.log", bytes(make_batch([b"kept"])))
    broker.files.make_directory(f"{empty}/t-0")
    broker.start()
    log = broker.logs.get("t", 0)
    assert broker.lost == [] and log is not None
    assert (log.directory, log.log_end_offset) == (f"{full}/t-0", 1)
    assert not broker.files.exists(f"{empty}/t-0")


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


def test_a_file_that_has_the_name_of_a_partition_is_left_alone() -> None:
    for clean in (True, False):
        broker = Broker(("/a",)).start()
        broker.write("t", 0)
        broker.files.set_content("/a/t-1", b"no directory")
        if clean:
            broker.logs.close()
        broker.files.kill()
        assert [str(log) for log in broker.start().logs.all_logs()] == ["Log(t-0, 0..1)"]
        assert broker.files.read("/a/t-1") == b"no directory"
