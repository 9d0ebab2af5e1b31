"""A log that takes another's place in another directory: its names, a stop at any step, disks that fail."""

import contextlib
import errno
import random

import pytest

from odradek.broker.log.directories.directory_files import (
    DirectoryOwner,
    parse_future_name,
    parse_partition_name,
    replaced_name,
)
from odradek.broker.log.errors import NoRoom, StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import ZERO_UUID
from odradek.testing.log_environments import make_batch, read_batches
from odradek.testing.simulated_files import Fault, MachineStopped, SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground

TOPIC_ID = bytes(range(16))
VALUES = [b"a", b"b", b"c"]


class Broker:
    """`t-0` in /a with three records, and what may become of it."""

    def __init__(self, seed: int = 3) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(seed, self.clock.now_ms)
        self.failed: list[str] = []
        self.start()

    def start(self) -> None:
        self.logs = LogManager(
            self.files,
            self.clock,
            InlineBackground(),
            random.Random(5),
            ["/a", "/b"],
            lambda topic: LogConfig(),
            directory_failed=lambda path, cause, partitions: self.failed.append(path),
        )
        self.logs.open(DirectoryOwner(1, "cluster"), lambda: None)

    def restart(self) -> None:
        self.files.stop_at = self.files.fault = None
        self.failed.clear()
        self.start()

    @property
    def log(self) -> Log:
        log = self.logs.get("t", 0)
        assert log is not None
        return log

    def write(self, topic_id: bytes = TOPIC_ID) -> None:
        self.logs.prefer("t", 0, "/a")
        log = self.logs.get_or_create("t", 0, topic_id, is_new=True)
        for value in VALUES:
            log.append_as_leader(make_batch([value]), 2)
        log.assign_epoch(5, 3)
        log.flush()

    def copy(self) -> Log:
        future = self.logs.create_future_log("t", 0, "/b")
        future.append_as_follower(self.log.read(0, 1 << 20, 3, whole_first_batch=True).records.read())  # type: ignore[union-attr]
        future.flush()
        return future

    def settled(self) -> None:
        """Everything that is done later."""
        self.clock.advance(100_000)

    def directories(self, path: str) -> list[str]:
        return [name for name in self.files.list_directory(path) if name.startswith("t-")]


def values(log: Log) -> list[bytes | None]:
    return [value for batch in read_batches(log) for value in batch.values]


def test_names_are_kafkas() -> None:
    broker = Broker()
    broker.write()
    broker.logs.create_future_log("t", 0, "/b")
    (name,) = broker.directories("/b")
    assert parse_future_name(name) == ("t", 0) and parse_partition_name(name) is None
    assert name.startswith("t-0.") and name.endswith("-future") and len(name) == len("t-0.-future") + 32
    assert replaced_name(name) == name.replace("-future", "-delete")
    assert parse_future_name("t-0") is None and parse_future_name("t-x.0-future") is None
    assert parse_future_name("a.b-c-7.0123-future") == ("a.b-c", 7)


def test_the_future_log_takes_the_place_with_all_that_is_known() -> None:
    broker = Broker()
    broker.write()
    broker.copy()
    broker.log.cleaned_to = 1
    log = broker.logs.promote_future_log("t", 0)
    assert log is broker.log and log.directory == "/b/t-0"
    assert values(log) == VALUES and log.epochs.entries() == [(2, 0), (5, 3)] and log.cleaned_to == 1
    assert broker.logs.topic_id("t", 0) == TOPIC_ID and broker.logs.future_log("t", 0) is None
    log.append_as_leader(make_batch([b"d"]), 5)
    broker.settled()
    assert (broker.directories("/a"), broker.directories("/b")) == ([], ["t-0"])
    assert broker.files.read("/a/recovery-point-offset-checkpoint") == b"0\n0\n"
    assert broker.files.read("/b/recovery-point-offset-checkpoint") == b"0\n1\nt 0 3\n"
    broker.logs.close()
    broker.restart()
    assert values(broker.log) == [*VALUES, b"d"] and broker.logs.topic_id("t", 0) == TOPIC_ID


def test_an_id_that_comes_late_moves_with_its_log() -> None:
    """It was written beside the present log alone, and went with that."""
    broker = Broker()
    broker.write(ZERO_UUID)
    broker.copy()
    broker.logs.get_or_create("t", 0, TOPIC_ID)
    broker.files.fault = Fault(broker.files.calls, 1, errno.ENOSPC, "/b")
    with pytest.raises(KafkaError) as refused:
        broker.logs.promote_future_log("t", 0)
    assert isinstance(refused.value.__cause__, OSError) and not broker.failed, "it is tried again"
    broker.logs.promote_future_log("t", 0)
    broker.settled()
    broker.logs.close()
    broker.restart()
    assert broker.log.directory == "/b/t-0" and broker.logs.topic_id("t", 0) == TOPIC_ID


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("step", range(9))
def test_a_stop_at_any_step_leaves_one_whole_log(step: int, power: bool) -> None:
    """It goes on with what it had, or is done; nothing is removed before it is known what is left."""
    for seed in range(4):
        broker = Broker(seed)
        broker.write()
        broker.copy()
        broker.settled()
        broker.files.stop_at = broker.files.changes + step
        with contextlib.suppress(MachineStopped):
            broker.logs.promote_future_log("t", 0)
            broker.clock.advance(0)
        if power:
            broker.files.crash()
        else:
            broker.files.kill()
        broker.restart()
        assert not broker.failed
        assert values(broker.log) == VALUES
        future = broker.logs.future_log("t", 0)
        assert broker.log.directory == ("/a/t-0" if future is not None else "/b/t-0")
        assert future is None or values(future) == VALUES
        broker.settled()
        left = broker.directories("/a") + broker.directories("/b")
        assert len(left) == (1 if future is None else 2), left


def test_what_was_set_aside_stays_while_the_other_directory_is_away() -> None:
    """The power failed between the renamings, and then the new directory's disk: the rest can still be put right."""
    broker = Broker()
    broker.write()
    future = broker.copy()
    (name,) = broker.directories("/b")
    broker.files.rename("/a/t-0", "/a/" + replaced_name(name))
    broker.files.kill()
    broker.files.broken.add("/b")
    broker.restart()
    broker.settled()
    assert broker.directories("/a") == [replaced_name(name)] and broker.logs.get("t", 0) is None
    with pytest.raises(KafkaError) as refused:
        broker.logs.get_or_create("t", 0)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.files.kill()
    broker.files.broken.clear()
    broker.restart()
    broker.settled()
    assert broker.log.directory == "/b/t-0" and values(broker.log) == VALUES and broker.directories("/a") == []
    assert future is not broker.log


def test_the_old_log_comes_back_when_the_new_directory_fails_at_the_last_moment() -> None:
    broker = Broker()
    broker.write()
    broker.copy()
    broker.files.fault = Fault(broker.files.calls, 1000, under="/b", what="changes")
    with pytest.raises(StorageFailure):
        broker.logs.promote_future_log("t", 0)
    assert broker.failed == ["/b"] and broker.log.directory == "/a/t-0"
    broker.log.append_as_leader(make_batch([b"d"]), 5)
    assert values(broker.log) == [*VALUES, b"d"]
    assert broker.directories("/a") == ["t-0"] and broker.logs.future_log("t", 0) is None


def test_a_move_waits_while_its_partitions_directory_is_away() -> None:
    broker = Broker()
    broker.write()
    broker.copy()
    broker.files.kill()
    broker.files.broken.add("/a")
    broker.restart()
    assert broker.logs.get("t", 0) is None and broker.logs.future_log("t", 0) is not None
    broker.files.kill()
    broker.files.broken.clear()
    broker.restart()
    assert broker.log.directory == "/a/t-0" and broker.logs.future_log("t", 0) is not None


def test_future_logs_of_no_use_go() -> None:
    """Its partition is gone; or there are two; or it belongs to another topic of that name."""
    broker = Broker()
    broker.write()
    broker.copy()
    broker.files.remove_directory("/a/t-0")
    broker.files.kill()
    broker.restart()
    assert broker.logs.future_logs() == []
    broker.write()
    for name, topic_id in (("t-0.1-future", b"A" * 22), ("t-0.2-future", b"AAECAwQFBgcICQoLDA0ODw")):
        broker.files.make_directory(f"/b/{name}")
        broker.files.write_atomically(f"/b/{name}/partition.metadata", b"version: 0\ntopic_id: " + topic_id)
    broker.files.make_directory("/b/t-0.3-future")
    broker.files.kill()
    broker.restart()
    (future,) = broker.logs.future_logs()
    assert future.directory == "/b/t-0.2-future"
    broker.settled()
    assert broker.directories("/b") == ["t-0.2-future"]


def test_deleting_takes_the_future_log_first() -> None:
    for step in range(4):
        broker = Broker()
        broker.write()
        broker.copy()
        broker.files.stop_at = broker.files.changes + step
        with contextlib.suppress(MachineStopped):
            broker.logs.delete("t", 0)
        broker.files.kill()
        names = broker.directories("/a") + broker.directories("/b")
        assert "t-0" in names or not any(name.endswith("-future") for name in names), names


def test_none_is_begun_while_a_directory_is_away() -> None:
    broker = Broker()
    broker.write()
    broker.files.kill()
    broker.files.broken.add("/b")
    broker.restart()
    with pytest.raises(KafkaError) as refused:
        broker.logs.create_future_log("t", 0, "/b")
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("under", ["/a", "/b"])
def test_a_move_that_lacks_a_descriptor_at_its_end_costs_no_directory_and_is_tried_again(under: str) -> None:
    broker = Broker()
    broker.write()
    broker.copy()
    broker.files.fault = Fault(broker.files.calls, 1000, errno.EMFILE, under, "descriptors")
    with pytest.raises(KafkaError) as refused:
        broker.logs.promote_future_log("t", 0)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR and isinstance(refused.value.__cause__, OSError)
    assert not broker.failed and broker.log.directory == "/a/t-0"
    broker.files.fault = None
    assert "t-0" in broker.directories("/a")
    log = broker.logs.promote_future_log("t", 0)
    assert log.directory == "/b/t-0" and values(log) == VALUES
    broker.settled()
    assert (broker.directories("/a"), broker.directories("/b")) == ([], ["t-0"])


@pytest.mark.parametrize("old", ["/a/t-0", "-future"])
def test_a_move_that_lacks_room_for_a_name_at_its_end_costs_no_directory_and_is_tried_again(
    old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker()
    broker.write()
    broker.copy()
    rename = broker.files.rename

    def rename_unless_full(former: str, new: str) -> None:
        if former.endswith(old):
            raise OSError(errno.ENOSPC, "No space left on device", former)
        rename(former, new)

    with monkeypatch.context() as full:
        full.setattr(broker.files, "rename", rename_unless_full)
        with pytest.raises(KafkaError) as refused:
            broker.logs.promote_future_log("t", 0)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR and isinstance(refused.value.__cause__, OSError)
    assert not broker.failed and broker.log.directory == "/a/t-0" and "t-0" in broker.directories("/a")
    log = broker.logs.promote_future_log("t", 0)
    assert log.directory == "/b/t-0" and values(log) == VALUES


def test_a_new_log_goes_where_it_was_wanted_or_where_it_can() -> None:
    broker = Broker()
    broker.write()
    broker.logs.prefer("u", 0, "/a")
    assert broker.logs.get_or_create("u", 0, is_new=True).directory == "/a/u-0"
    assert broker.logs.get_or_create("u", 1, is_new=True).directory == "/b/u-1"
    broker.files.fault = Fault(broker.files.calls, 1000, under="/b", what="changes")
    assert broker.logs.get_or_create("u", 2, is_new=True).directory == "/a/u-2"
    assert broker.failed == ["/b"]


def test_a_directory_that_was_wanted_and_was_full_is_wanted_still() -> None:
    broker = Broker()
    broker.write()
    broker.logs.prefer("u", 0, "/a")
    broker.files.fault = Fault(broker.files.calls, 1000, errno.ENOSPC, "/a", "room")
    for is_new in (True, False):
        with pytest.raises(NoRoom):
            broker.logs.get_or_create("u", 0, is_new=is_new)
    broker.files.fault = None
    assert broker.logs.get_or_create("u", 0, is_new=True).directory == "/a/u-0"
    broker.logs.delete("u", 0)
    assert broker.logs.get_or_create("u", 0, is_new=True).directory == "/b/u-0", "it was wanted once"
