"""A small file system of its own, in memory, that can be filled: for tests of full disks. Linux, and root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK_BYTES = 4096
FILLER = "filler"


class CannotMount(Exception):  # noqa: N818 - a sentence for a person
    """Failure to mount a file system: not root, or not Linux."""


@contextmanager
def small_disk(directory: Path, size_bytes: int, *, read_only: bool = False) -> Iterator[Path]:
    """Mount a file system of that size at `directory`, which is made. Raises CannotMount."""
    directory.mkdir()
    options = f"size={size_bytes}{',ro' if read_only else ''}"
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotMount(f"cannot mount a tmpfs at {directory}: {error}") from error
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True, capture_output=True)


def fill(directory: Path) -> None:
    """Leave no room on the file system of `directory`; `free` gives it back."""
    block = bytes(BLOCK_BYTES)
    descriptor = os.open(directory / FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        while os.write(descriptor, block):
            pass
    except OSError:
        return
    finally:
        os.close(descriptor)


def free(directory: Path) -> None:
    (directory / FILLER).unlink()
