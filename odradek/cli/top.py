"""`odradek top`: brokers, throughput, partitions in trouble and groups' lag, live."""

import math
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json
from odradek.cli.output import print_json, print_table, printable

if TYPE_CHECKING:
    from odradek.diagnosis.overview import Overview

INTERVAL_MAX_S = 86_400.0
NAMED = 5
"""Largest number of partitions in trouble whose names are shown."""


def top(
    interval: Annotated[float, typer.Option(min=0.2, max=INTERVAL_MAX_S, help="seconds between updates")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="print one screen and exit, for scripts")] = False,
    rows: Annotated[int, typer.Option(min=1, help="number of topics and groups shown")] = 10,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Show a cluster's activity, live, until Ctrl-C. Bytes are shown only for brokers with a metrics.port."""
    import asyncio

    if math.isnan(interval):  # which passes the range check, as it is neither less nor more than any number
        raise typer.BadParameter(f"{interval} is not in the range", param_hint="--interval")
    if not once and not json and not sys.stdout.isatty():
        raise typer.BadParameter("standard output is not a terminal: give --once", param_hint="odradek top")
    try:
        asyncio.run(_watch(bootstrap_server, interval, rows, once=once or json, as_json=json))
    except KeyboardInterrupt:
        if once or json:
            raise


async def _watch(bootstrap: str, interval: float, rows: int, *, once: bool, as_json: bool) -> None:
    import asyncio

    from odradek.cli.options import command_config
    from odradek.diagnosis.overview import compare
    from odradek.diagnosis.surroundings import admin, get_page
    from odradek.diagnosis.watching import Watcher
    from odradek.protocol.errors import KafkaError

    async with admin(command_config, bootstrap) as client:
        watcher = Watcher(client, time.monotonic, get_page)
        before = await watcher.look()
        while True:
            await asyncio.sleep(interval)
            try:
                now = await watcher.look()
            except (KafkaError, OSError) as error:
                if once:
                    raise
                _clear()
                print(printable(f"{_clock()}  no broker answers: {error}"))
                continue
            overview = compare(before, now)
            if as_json:
                print_json(overview)
            else:
                if not once:
                    _clear()
                _print(bootstrap, overview, rows)
            if once:
                return
            before = now


def _print(bootstrap: str, overview: "Overview", rows: int) -> None:
    from odradek.diagnosis.overview import lines

    trouble = [
        f"{len(some)} {what}: {', '.join(some[:NAMED])}{', …' if len(some) > NAMED else ''}"
        for what, some in (("without leader", overview.leaderless), ("under-replicated", overview.under_replicated))
        if some
    ]
    print(f"{_clock()}  {bootstrap}  {overview.partitions} partition(s){''.join('; ' + one for one in trouble)}")
    for title, columns, table in lines(overview, rows):
        if table:
            print()
            print_table(columns, table, title)
    for one in overview.unanswered:
        print(printable(f"not known: {one}"))


def _clear() -> None:
    """Clear the screen and go to its top left (ANSI)."""
    sys.stdout.write("\x1b[H\x1b[2J")


def _clock() -> str:
    return time.strftime("%H:%M:%S")
