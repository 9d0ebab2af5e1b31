"""`odradek reassign start|list|cancel|directories|move`: replicas on other brokers and log directories."""

from typing import Annotated

import typer

from odradek.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    Json,
    connect,
    new_app,
    settings,
    topic_partition,
)
from odradek.cli.output import print_json, print_table

reassign = new_app("Move partitions to other brokers, or to other log directories of a broker.")


@reassign.command()
def start(
    move: Annotated[list[str], typer.Argument(metavar="TOPIC-PARTITION=ID,ID…", help="for example orders-0=2,3")],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Move partitions to these brokers, the preferred leader first; returns when the move has begun."""
    targets = {topic_partition(name): _brokers(value) for name, value in _pairs(move, "TOPIC-PARTITION=ID,ID…").items()}
    with connect(bootstrap_server) as admin:
        admin.alter_partition_reassignments(targets)
    if json:
        print_json({str(one): brokers for one, brokers in targets.items()})
    else:
        print(f"moving {len(targets)} partition(s); `odradek reassign list` shows what is under way")


def _pairs(given: list[str], form: str) -> dict[str, str]:
    for text in given:
        if "=" not in text:
            raise typer.BadParameter(f"{text!r} is not {form}")
    names = [text.partition("=")[0].strip() for text in given]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(f"{name} is named twice")
    return settings(given, form)


def _brokers(text: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of broker ids such as 1,2") from None


@reassign.command("list")
def list_(bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER, json: Json = False) -> None:
    """List reassignments in progress."""
    with connect(bootstrap_server) as admin:
        found = admin.list_partition_reassignments()
    if json:
        print_json(found)
        return
    print_table(
        ["partition", "replicas", "adding", "removing"],
        [(one.topic_partition, *(",".join(map(str, ids)) for ids in one[1:])) for one in found],
    )


@reassign.command()
def cancel(
    partition: Annotated[list[str], typer.Argument(metavar="TOPIC-PARTITION…")],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Cancel reassignments and return to the previous replicas."""
    wanted = [topic_partition(text) for text in partition]
    with connect(bootstrap_server) as admin:
        admin.alter_partition_reassignments(dict.fromkeys(wanted))
    if json:
        print_json({"cancelled": [str(one) for one in wanted]})
    else:
        print(f"cancelled {', '.join(map(str, wanted))}")


@reassign.command()
def directories(
    broker: Annotated[int, typer.Argument(help="id of the broker")],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Show the log directories of a broker, and the replicas in them."""
    with connect(bootstrap_server) as admin:
        found = admin.describe_log_directories(broker)
    if json:
        print_json(found)
        return
    for one in found:
        room = f", {one.usable_bytes} of {one.total_bytes} bytes free" if one.total_bytes >= 0 else ""
        print_table(
            ["partition", "bytes", "lag", ""],
            [
                (r.topic_partition, r.size_bytes, r.offset_lag, "moving here" if r.is_future else "")
                for r in one.replicas
            ],
            f"{one.path}{room}" if one.online else f"{one.path} is offline",
        )


@reassign.command()
def move(
    broker: Annotated[int, typer.Argument(help="id of the broker that has the replicas")],
    target: Annotated[
        list[str], typer.Argument(metavar="TOPIC-PARTITION=PATH", help="for example orders-0=/disk2/kafka")
    ],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Move replicas to other log directories of their broker; returns when the moves have begun."""
    targets = {topic_partition(name): path for name, path in _pairs(target, "TOPIC-PARTITION=PATH").items()}
    with connect(bootstrap_server) as admin:
        admin.alter_replica_log_directories(broker, targets)
    if json:
        print_json({str(one): path for one, path in targets.items()})
    else:
        print(f"moving {len(targets)} replica(s); `odradek reassign directories {broker}` shows how far they are")
