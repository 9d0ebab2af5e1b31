"""The real files, where a simulation could hide a mistake."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.world.files import FileRange
from odradek.world.os_files import OsFile, OsFiles, ReadOnlyOsFiles


@pytest.fixture
def files() -> OsFiles:
    return OsFiles()


def test_append_and_read(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/a", create=True)
    assert file.append(b"hello ") + file.append(memoryview(b"world")) == 11
    assert (file.pread(100, 6), file.pread(5, 11), file.size()) == (b"world", b"", 11)
    file.truncate(5)
    file.append(b"!")
    assert files.read(f"{tmp_path}/a") == b"hello!"
    assert FileRange(file, 1, 4).read() == b"ello"


def test_a_missing_file_is_not_made_by_opening(files: OsFiles, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(f"{tmp_path}/a")


def test_what_cannot_be_read_is_named(files: OsFiles, tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as refused:
        files.read(str(tmp_path))
    assert str(refused.value) == f"[Errno 21] Is a directory: '{tmp_path}'"


@pytest.mark.parametrize(
    "call",
    [
        lambda file: file.append(b"x"),
        lambda file: file.pread(1, 0),
        lambda file: file.truncate(0),
        lambda file: file.sync(),
    ],
)
def test_an_open_file_that_fails_is_named(call: Callable[[OsFile], object], tmp_path: Path) -> None:
    """A broker said that its log directory goes offline, `[Errno 5] Input/output error`, and of which file nothing."""
    path = f"{tmp_path}/a"
    (tmp_path / "a").touch()
    with pytest.raises(OSError) as failed:
        call(OsFile(path, os.open(path, os.O_PATH)))
    assert str(failed.value) == f"[Errno 9] Bad file descriptor: '{path}'"


def test_an_open_file_whose_size_nobody_tells_is_named() -> None:
    with pytest.raises(OSError) as failed:
        OsFile("a", -1).size()
    assert str(failed.value) == "[Errno 9] Bad file descriptor: 'a'"


def test_a_file_that_cannot_be_locked_is_named(files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError) as failed:
        files.lock(f"{tmp_path}/.lock")
    assert str(failed.value) == f"[Errno 37] No locks available: '{tmp_path}/.lock'"


def test_a_small_file_for_which_there_is_no_room_is_named_and_leaves_nothing(files: OsFiles, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    (tmp_path / "a.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError) as failed:
        files.write_atomically(f"{tmp_path}/a", b"after")
    assert str(failed.value) == f"[Errno 28] No space left on device: '{tmp_path}/a.tmp'"
    assert files.read(f"{tmp_path}/a") == b"before" and files.list_directory(str(tmp_path)) == ["a"]


def test_a_directory_that_cannot_be_synced_is_named(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError) as failed:
        files.sync_directory(str(tmp_path))
    assert str(failed.value) == f"[Errno 5] Input/output error: '{tmp_path}'"


def test_a_range_outlives_the_name_and_the_log_that_opened_it(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/a", create=True)
    file.append(b"content")
    sent = FileRange(file, 0, 7)
    descriptor = file.fileno()
    files.rename(f"{tmp_path}/a", f"{tmp_path}/a.deleted")
    files.remove(f"{tmp_path}/a.deleted")
    del file
    assert sent.read() == b"content"
    del sent
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize("sync", [True, False])
def test_write_atomically_replaces(files: OsFiles, tmp_path: Path, sync: bool) -> None:
    for content in (b"one", b"2"):
        files.write_atomically(f"{tmp_path}/a", content, sync=sync)
        assert files.read(f"{tmp_path}/a") == content
    assert files.list_directory(str(tmp_path)) == ["a"]


def test_of_a_directory_behind_a_link_the_link_is_removed(files: OsFiles, tmp_path: Path) -> None:
    """As by Apache Kafka, of a partition that somebody has put on another disk."""
    partition, link = tmp_path / "elsewhere", tmp_path / "link"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(b"batch")
    link.symlink_to(partition)
    files.remove_directory(str(link))
    assert os.listdir(tmp_path) == ["elsewhere"] and len(os.listdir(partition)) == 1
    files.remove_directory(str(partition))
    assert not os.listdir(tmp_path)


def test_a_lock_is_held_once(files: OsFiles, tmp_path: Path) -> None:
    lock = files.lock(f"{tmp_path}/.lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{tmp_path}/.lock")
    lock.close()
    files.lock(f"{tmp_path}/.lock").close()


def test_directories(files: OsFiles, tmp_path: Path) -> None:
    files.make_directory(f"{tmp_path}/a/b")
    files.make_directory(f"{tmp_path}/a/b")
    assert files.is_directory(f"{tmp_path}/a/b")
    files.sync_directory(f"{tmp_path}/a")
    files.remove_directory(f"{tmp_path}/a")
    assert not files.exists(f"{tmp_path}/a")
    total, usable = files.free_bytes(str(tmp_path))
    assert 0 < usable <= total


def test_a_file_that_the_disk_does_not_tell_of_is_not_taken_for_missing(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of a clean shutdown stayed, and was believed after the next kill; a compacted segment was left aside
    while those that it replaces went; the aborted transactions of a segment were read as committed."""
    path = f"{tmp_path}/file"
    (tmp_path / "file").touch()

    def fails(path: str) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    with monkeypatch.context() as disk:
        disk.setattr(os, "stat", fails)
        for ask in (files.exists, files.is_directory):
            with pytest.raises(OSError) as told:
                ask(path)
            assert (told.value.errno, told.value.filename) == (errno.EIO, path)
    assert files.exists(path) and not files.is_directory(path)


def test_there_is_no_file_behind_a_link_that_leads_nowhere(files: OsFiles, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").touch()
    for name in ("loop", "dangling", "file/below"):
        assert not files.exists(f"{tmp_path}/{name}") and not files.is_directory(f"{tmp_path}/{name}")


def test_files_for_reading_only_cannot_be_changed(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"abc")
    file = ReadOnlyOsFiles().open(path)
    assert file.pread(3, 0) == b"abc"
    with pytest.raises(OSError):
        file.append(b"d")
    with pytest.raises(OSError):
        file.truncate(0)
    with pytest.raises(FileNotFoundError):
        ReadOnlyOsFiles().open(path + "2", create=True)
