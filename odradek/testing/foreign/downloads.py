"""Folders that tests keep: jars from Maven, packages from npm, compiled programs; processes may share them."""

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

FETCH_SECONDS = 120
PAUSES_SECONDS = (5, 20)
"""Pauses before the second and the third attempt: a registry may be slow, or away for a moment."""
COPY_JARS = ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars")
"""Beside a pom.xml: puts what it names into `jars`."""


JVM_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData")
"""Flags for programs of some seconds: compiling well would cost them more than it gains."""
MAVEN_FLAGS = {"MAVEN_OPTS": " ".join(JVM_FLAGS)}
"""Environment of Maven, with which a fetch costs 3.5 s of processor and not 6."""


class DownloadFailed(Exception):  # noqa: N818 (a sentence for a person)
    """The command, and what it said."""


def fetch(folder: Path, name: str, listing: str, command: Sequence[str]) -> Path:
    """Return `folder` with what `command` puts there.

    The command is run in it beside the file `name` that holds the `listing`. Nothing is done when the folder is of this
    listing already. Raises DownloadFailed after three attempts.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / "fetched"
        if not mark.is_file() or mark.read_text() != listing:
            for pause in (*PAUSES_SECONDS, None):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                (folder / name).write_text(listing)
                said = _run(command, folder)
                if not said:
                    break
                if pause is None:
                    raise DownloadFailed(f"{' '.join(command)}\n{said}")
                time.sleep(pause)
            mark.write_text(listing)
    return folder


def compiled(source: Path, folder: Path, class_path: str) -> Path:
    """Return the folder in `folder` that holds the compiled classes of a Java program.

    They are kept: `java Program.java` would compile at each start. Raises subprocess.CalledProcessError.
    """
    classes = folder / f"{source.stem}-{sha256(source.read_bytes()).hexdigest()[:12]}"
    with (folder / f"{source.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not classes.is_dir():
            beside = classes.with_suffix(".part")
            command = [
                "javac",
                "-J-XX:TieredStopAtLevel=1",
                "-nowarn",
                "-cp",
                class_path,
                "-d",
                str(beside),
                str(source),
            ]
            subprocess.run(command, check=True)
            beside.rename(classes)
    return classes


def _run(command: Sequence[str], folder: Path) -> str:
    """Return what it says when it fails, in the end at least that it did; nothing when it goes well."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=MAVEN_FLAGS | os.environ,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not within {FETCH_SECONDS} s"
    return f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}" if done.returncode else ""
