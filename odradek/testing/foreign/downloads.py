"""Folders of downloads that tests keep: jars from Maven, packages from npm. Tests of several processes share them."""

import fcntl
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

FETCH_SECONDS = 170
COPY_JARS = ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars")
"""Beside a pom.xml: puts what it names into `jars`."""


class DownloadFailed(Exception):  # noqa: N818 (a sentence for a person)
    """The command, and what it said."""


def fetch(folder: Path, name: str, listing: str, command: Sequence[str]) -> Path:
    """`folder` with what `command` puts there, when it is run in it beside the file `name` that holds the `listing`.

    Nothing is done when the folder is of this listing already. Raises DownloadFailed, subprocess.TimeoutExpired.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / "fetched"
        if not mark.is_file() or mark.read_text() != listing:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / name).write_text(listing)
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
            if done.returncode:
                raise DownloadFailed(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            mark.write_text(listing)
    return folder
