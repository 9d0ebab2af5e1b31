"""`odradek broker FILE.properties [--override key=value]…`: one broker, until a signal ends it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

OF_UP = re.compile(r"broker-\d+\.properties")
"""Pattern of the names of files that `up` makes."""


def broker(
    file: Annotated[
        str, typer.Argument(metavar="FILE.properties", help="a server.properties file, with Kafka's names")
    ],
    override: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="override a setting of the file")
    ] = None,
) -> None:
    """Run one broker in the foreground. SIGINT, SIGTERM and SIGHUP shut it down in a controlled way."""
    from odradek.broker.__main__ import main

    arguments = [file]
    for one in override or []:
        arguments += ["--override", one]
    with _pid_file(Path(file).absolute()):
        raise typer.Exit(main(arguments) or 0)


@contextmanager
def _pid_file(file: Path) -> Iterator[None]:
    """Keep a pid file while the broker runs, if `up` has made its properties file: it then belongs to that cluster, and
    `stop` ends it with the others. A folder `run` beside any other file is somebody else's."""
    from odradek.local.processes import locked, read_pid

    pid_file = file.parent.parent / "run" / f"{file.stem}.pid"
    made_by_up = OF_UP.fullmatch(file.name) and file.parent.name == "config" and pid_file.parent.is_dir()
    if not made_by_up or read_pid(pid_file) is not None:
        yield
        return
    try:
        open_file = locked(pid_file)
    except BlockingIOError:  # of another that was started just now: the broker says whose its directories are
        yield
        return
    with open_file:
        print(os.getpid(), file=open_file, flush=True)
        try:
            yield
        finally:
            pid_file.unlink(missing_ok=True)
