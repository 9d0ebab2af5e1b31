"""Log directories that can and cannot be used: their owner, `meta.properties`, disks that fail."""

import random
from pathlib import Path

import pytest

from odradek.broker.log.directories.directory_files import DirectoryOwner, MetaProperties
from odradek.broker.log.errors import StorageFailure, UnusableDirectory
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.log_environments import make_batch
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles
from tests.broker.log.restarted_logs import TOPIC_ID, US, Broker


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
        (["version=7\n"], "of version '7'"),
        (["broker.id=one\n"], "broker.id='one'"),
        (["broker.id=3000000000\n"], "broker.id='3000000000'"),
        ([f"broker.id={'1' * 4301}\n"], f"broker.id='{'1' * 40}…'"),  # more digits than Python's int takes
        (["directory.id=short\n"], "directory.id='short'"),
        (["directory.id=a\x1b[2Jb\n"], r"directory.id='a\\x1b\[2Jb'"),  # rotten bytes do nothing to a terminal
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


@pytest.mark.parametrize("name", ["copy of t-0", "t-00", "t-4294967296", "t\u0661-0"])
def test_a_directory_that_no_partition_can_have_is_left_alone(name: str) -> None:
    """With a blank in a partition's name all checkpoints of its directory were lost at each start, and with them where
    every log begins and how far it is replicated."""
    broker = Broker(("/a",)).start()
    broker.write("t", 0, 3)
    broker.logs.get_or_create("t", 0).advance_log_start_offset(2)
    broker.files.set_content(f"/a/{name}/{0:020d}.log", bytes(make_batch([b"copied"])))
    broker.logs.close()
    for _ in range(2):
        broker.start()
        broker.logs.checkpoints.write_high_watermarks(lambda key: 3)
        broker.clock.advance(60_000)
        broker.files.kill()
    broker.start()
    assert [str(log) for log in broker.logs.all_logs()] == ["Log(t-0, 2..3)"]
    assert broker.logs.checkpoints.read_high_watermarks() == {("t", 0): 3}
    assert broker.files.list_directory(f"/a/{name}") == [f"{0:020d}.log"]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\0", b"[" * 100_000, b'{"brokerEpoch":1e400}', b'{"brokerEpoch":"x"}', b"7"]
)
def test_a_mark_that_makes_no_sense_is_a_mark_all_the_same(content: bytes) -> None:
    broker = Broker(("/a",)).start()
    broker.write("t", 0)
    broker.logs.close(42)
    broker.files.set_content("/a/.kafka_cleanshutdown", content)
    broker.files.kill()
    assert [log.clean_end_offset for log in broker.start().logs.all_logs()] == [1]
