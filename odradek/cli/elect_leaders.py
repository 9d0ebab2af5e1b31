"""`odradek elect-leaders`: preferred or unclean elections of partitions' leaders."""

from typing import Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, connect, topic_partition
from odradek.cli.output import print_json


def elect_leaders(
    partition: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC-PARTITION…]", help="without any: all")
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="elect any live replica, even out of sync: acknowledged records may be lost"),
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Elect the preferred leaders of partitions."""
    if unclean and not partition:
        raise typer.BadParameter("name the partitions: it may lose records", param_hint="--unclean")
    wanted = [topic_partition(text) for text in partition] if partition else None
    with connect(bootstrap_server) as admin:
        changed = admin.elect_leaders("UNCLEAN" if unclean else "PREFERRED", wanted)
    if json:
        print_json([str(one) for one in changed])
    else:
        print(f"{len(changed)} partition(s) have another leader{': ' if changed else ''}{', '.join(map(str, changed))}")
