"""A partition that is found in more than one log directory: none of its copies is served, whatever is loaded first."""

import random
from itertools import permutations

import pytest

from odradek.broker.log.directories.directory_files import DirectoryOwner, encode_clean_shutdown
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.log_environments import make_batch
from odradek.testing.simulated_files import Fault, SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground

PATHS = ("/a", "/b", "/c", "/d")
ORDERS = sorted(permutations(PATHS))
MARK = ".kafka_cleanshutdown"


class Disks:
    """Log directories, whose `filled` logs have a record each, and a broker that is started on them."""

    def __init__(self, *filled: str, empty: tuple[str, ...] = ()) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(7, self.clock.now_ms)
        for path in PATHS:
            self.files.set_content(f"{path}/{MARK}", b"")
        for path in filled:
            self.files.set_content(f"{path}/{0:020d}.log", bytes(make_batch([b"x"])))
        for path in empty:
            self.files.make_directory(path)

    def start(self, order: tuple[str, ...] = PATHS) -> LogManager:
        config = LogConfig()
        manager = LogManager(self.files, self.clock, InlineBackground(), random.Random(5), order, lambda topic: config)
        ready = []
        manager.open(DirectoryOwner(1, "cluster"), lambda: ready.append(True))
        assert ready == [True]
        return manager


def online(logs: LogManager) -> list[str]:
    return sorted(directory.path for directory in logs.online())


def served(logs: LogManager) -> list[str]:
    return sorted(log.directory for log in logs.all_logs())


@pytest.mark.parametrize("order", ORDERS)
def test_a_partition_in_three_directories_keeps_all_three_offline(order: tuple[str, ...]) -> None:
    logs = Disks("/a/t-0", "/b/t-0", "/c/t-0", "/d/t-1").start(order)
    assert (online(logs), served(logs)) == (["/d"], ["/d/t-1"])
    for path in ("/a", "/b", "/c"):
        said = str(logs.directories[path].offline)
        assert all(f"{other}/t-0" in said for other in ("/a", "/b", "/c"))


@pytest.mark.parametrize("order", ORDERS)
def test_directories_that_share_partitions_in_a_chain_are_all_offline(order: tuple[str, ...]) -> None:
    logs = Disks("/a/t-0", "/b/t-0", "/b/t-1", "/c/t-1", "/d/t-2").start(order)
    assert (online(logs), served(logs)) == (["/d"], ["/d/t-2"])


@pytest.mark.parametrize("order", ORDERS)
def test_an_empty_one_is_not_served_for_those_that_are_offline(order: tuple[str, ...]) -> None:
    logs = Disks("/a/t-0", "/b/t-0", "/d/t-2", empty=("/c/t-0",)).start(order)
    assert (online(logs), served(logs)) == (["/c", "/d"], ["/d/t-2"])


@pytest.mark.parametrize("order", ORDERS)
def test_no_log_is_served_of_a_directory_whose_empty_one_cannot_be_set_aside(order: tuple[str, ...]) -> None:
    disks = Disks("/a/t-0", "/b/r-0", "/b/u-0", empty=("/b/t-0",))
    rename = disks.files.rename

    def refuse(old: str, new: str) -> None:
        if old == "/b/t-0":
            raise OSError("it cannot be renamed")
        rename(old, new)

    disks.files.rename = refuse  # type: ignore[method-assign]
    logs = disks.start(order)
    assert (online(logs), served(logs)) == (["/a", "/c", "/d"], ["/a/t-0"])


@pytest.mark.parametrize("order", ORDERS)
def test_a_stale_copy_beside_a_move_that_was_not_finished_keeps_both_offline(order: tuple[str, ...]) -> None:
    """The log had been set aside in /a, and what takes its place in /b is whole: nothing of them is removed."""
    disks = Disks("/a/t-0.1-delete", "/b/t-0.1-future", "/c/t-0", "/d/t-2")
    logs = disks.start(order)
    assert (online(logs), served(logs), logs.future_logs()) == (["/a", "/d"], ["/d/t-2"], [])
    disks.clock.advance(1_000_000)
    for path in ("/a/t-0.1-delete", "/b/t-0.1-future", "/c/t-0"):
        assert disks.files.exists(f"{path}/{0:020d}.log")


@pytest.mark.parametrize("order", ORDERS)
def test_an_empty_one_gives_way_to_a_move_that_was_not_finished(order: tuple[str, ...]) -> None:
    logs = Disks("/a/t-0.1-delete", "/b/t-0.1-future", empty=("/c/t-0",)).start(order)
    assert (online(logs), served(logs)) == (sorted(PATHS), ["/b/t-0"])


def test_logs_may_be_missing_while_a_directory_is_offline() -> None:
    assert not Disks("/a/t-0").start().in_doubt
    assert Disks("/a/t-0", "/b/t-0").start().in_doubt
    disks = Disks("/a/t-0")
    disks.files.set_content("/b/meta.properties", b"broker.id=two\n")
    logs = disks.start()
    assert online(logs) == ["/a", "/c", "/d"] and logs.in_doubt
    disks = Disks("/a/t-0")
    disks.files.fault = Fault(disks.files.calls, 1000, under="/b", what="changes")
    logs = disks.start()
    assert online(logs) == ["/a", "/c", "/d"] and logs.in_doubt
    disks = Disks("/a/t-0", "/b/t-1")
    for path, epoch in zip(PATHS, (7, 5, 7, 7), strict=True):
        disks.files.set_content(f"{path}/{MARK}", encode_clean_shutdown(epoch))
    logs = disks.start()
    assert online(logs) == list(PATHS) and logs.in_doubt, "/b was away in the last life"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"version":0}', b'{"brokerEpoch":"x"}', b"\xff", b'{"brokerEpoch":-1}']
)
def test_marks_that_say_no_life_put_nothing_in_doubt(content: bytes) -> None:
    disks = Disks("/a/t-0")
    for path in PATHS[1:]:
        disks.files.set_content(f"{path}/{MARK}", content)
    assert not disks.start().in_doubt


FAILURES = ["its owner cannot be read", "a log cannot be read", "nothing can be changed"]


def broken(disks: Disks, path: str, failure: str) -> None:
    """Have the directory fail while it is loaded."""
    disks.files.set_content(f"{path}/r-0/{0:020d}.log", bytes(make_batch([b"x"])))
    if failure == FAILURES[0]:
        disks.files.set_content(f"{path}/meta.properties", b"broker.id=two\n")
    else:
        under, what = (f"{path}/r-0", "all") if failure == FAILURES[1] else (path, "changes")
        disks.files.fault = Fault(disks.files.calls, 1000, under=under, what=what)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("order", ORDERS[::5])
def test_no_copy_is_served_of_a_partition_whose_directory_cannot_be_loaded(
    order: tuple[str, ...], failure: str
) -> None:
    """It was, although the other one may have what was acknowledged last."""
    disks = Disks("/a/t-0", "/b/t-0", "/d/t-1", empty=("/c/r-0",))
    broken(disks, "/b", failure)
    logs = disks.start(order)
    assert (online(logs), served(logs)) == (["/c", "/d"], ["/d/t-1"])
    assert all(f"{path}/t-0" in str(logs.directories["/a"].offline) for path in ("/a", "/b"))


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("order", ORDERS[::5])
def test_a_copy_is_served_if_the_directory_that_cannot_be_loaded_has_an_empty_one(
    order: tuple[str, ...], failure: str
) -> None:
    disks = Disks("/a/t-0", "/d/t-1", empty=("/b/t-0",))
    broken(disks, "/b", failure)
    logs = disks.start(order)
    assert (online(logs), served(logs)) == (["/a", "/c", "/d"], ["/a/t-0", "/d/t-1"])
