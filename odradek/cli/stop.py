"""`odradek stop [BROKER]`: shut down what `up` has started."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 60.0


def stop(
    broker: Annotated[
        int | None, typer.Argument(metavar="[BROKER]", help="id of one broker; without it the whole cluster stops")
    ] = None,
    data: Annotated[Path, typer.Option(metavar="DIR", help="data directory, as given to `up`")] = Path("odradek-data"),
) -> None:
    """Shut down a local cluster, or one of its brokers, in a controlled way."""
    run_directory = data / "run"
    if broker is not None:
        raise typer.Exit(_stop_one(run_directory / f"broker-{broker}.pid", f"broker {broker}"))
    raise typer.Exit(_stop_all(run_directory))


def _stop_all(run_directory: Path) -> int:
    """Stop a whole cluster. Brokers that were started by hand come first, since `up` ends their ZooKeeper; then `up`,
    which shuts down its children. If there is no `up` any more, brokers come before ZooKeeper."""
    from odradek.local.processes import parent_of, read_pid

    up = read_pid(run_directory / "up.pid")
    found = {path: pid for path in sorted(run_directory.glob("*.pid")) if (pid := read_pid(path)) is not None}
    if up is not None:
        by_hand = [path for path, pid in found.items() if path.stem.startswith("broker-") and parent_of(pid) != up]
        return _stop_together(by_hand) or _stop_one(run_directory / "up.pid", "odradek up")
    alive = list(found)
    if not alive:
        print(f"odradek stop: nothing is running in {run_directory.parent}", file=sys.stderr)
        return 1
    brokers = [path for path in alive if path.stem.startswith("broker-")]
    others = [path for path in alive if path not in brokers]
    for group in (brokers, others):
        codes = _stop_together(group)
        if codes:
            return codes
    return 0


def _stop_one(pid_file: Path, name: str) -> int:
    from odradek.local.processes import read_pid

    if read_pid(pid_file) is None:
        print(f"odradek stop: {name} is not running in {pid_file.parent.parent}", file=sys.stderr)
        return 1
    return _stop_together([pid_file])


def _stop_together(pid_files: list[Path]) -> int:
    """Send SIGTERM to all of them, then wait until they are gone."""
    from odradek.local.processes import ELSEWHERE, described, read_pid

    pids = {path: pid for path in pid_files if (pid := read_pid(path)) is not None}
    for path, pid in pids.items():
        if pid == ELSEWHERE:
            print(f"odradek stop: {path.stem} runs {described(pid)}: stop it there", file=sys.stderr)
            return 1
    for pid in pids.values():
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)  # a process that is suspended, as by Ctrl-Z, handles no signals
    give_up_at = time.monotonic() + TIMEOUT_SECONDS
    while any(read_pid(path) in (pid, ELSEWHERE) for path, pid in pids.items()):  # ELSEWHERE: while it ends
        if time.monotonic() > give_up_at:
            names = ", ".join(path.stem for path in pids if read_pid(path) is not None)
            print(f"odradek stop: still running after {TIMEOUT_SECONDS:.0f} s: {names}", file=sys.stderr)
            return 1
        time.sleep(POLL_SECONDS)
    for path in pids:
        path.unlink(missing_ok=True)
    return 0
