"""`odradek doctor`: what is wrong with a cluster, worst first, each with the command that fixes it."""

from enum import Enum
from typing import Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json
from odradek.cli.output import print_json, printable
from odradek.cli.why import ZooKeeper
from odradek.cli.zookeeper import ZooKeeperFile, zookeeper_link

WELL, FAILS, BROKEN = 0, 3, 4
"""Exit codes: nothing is degraded; redundancy or timeliness is degraded; something has stopped, or records are lost."""


class Least(Enum):
    """Least weight of the findings that are shown."""

    note = "note"
    uneven = "uneven"
    degraded = "degraded"
    stopped = "stopped"


def doctor(
    least: Annotated[Least, typer.Option("--least", help="least severity of the findings shown")] = Least.uneven,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    zookeeper: ZooKeeper = None,
    zookeeper_file: ZooKeeperFile = None,
    json: Json = False,
) -> None:
    """Check a cluster and list what is wrong, worst first. Exit code 0: nothing is degraded; 3: degraded; 4: stopped or
    lost; 1: the check failed."""
    import asyncio
    from dataclasses import replace

    from odradek.cli.options import command_config, command_config_files
    from odradek.diagnosis.examination import examine_all
    from odradek.diagnosis.gathering import Scope
    from odradek.diagnosis.situation import Weight, plain
    from odradek.diagnosis.surroundings import facts
    from odradek.diagnosis.telling import findings_lines

    known = asyncio.run(facts(command_config, bootstrap_server, zookeeper, Scope(), zookeeper_link(zookeeper_file)))
    known = replace(known, command_config="".join(command_config_files[-1:]))
    every = examine_all(known, Weight.NOTE)
    found = [one for one in every if one.weight >= Weight[least.value.upper()]]
    if json:
        print_json({"findings": [plain(one) for one in found], "unknown": list(known.unknown)})
    else:
        lines = findings_lines(found)
        for line in lines:
            print(printable(line))
        for one in known.unknown:
            print(printable(f"not known: {one}"))
        counted = f"{len(known.brokers)} broker(s), {len(known.topics)} topic(s), {len(known.groups)} group(s)"
        well = "all is well, as far as is known" if known.unknown else "all is well"
        places = f", in {len(found)} places" if len(found) > len(lines) else ""
        print(f"{counted}: {f'{len(lines)} finding(s){places}' if found else well}")
    worst = max((one.weight for one in every), default=Weight.NOTE)
    raise typer.Exit(BROKEN if worst >= Weight.STOPPED else FAILS if worst >= Weight.DEGRADED else WELL)
