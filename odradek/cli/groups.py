"""`odradek groups list|describe|reset-offsets|delete`: consumer groups and their offsets."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, connect, new_app, one_of
from odradek.cli.output import print_json, print_table
from odradek.cli.zookeeper import ZooKeeperFile, with_store, zookeeper_option

if TYPE_CHECKING:
    from odradek.client.admin.client import KafkaAdminClient
    from odradek.client.records import TopicPartition
    from odradek.client.zookeeper.groups import GroupInZooKeeper
    from odradek.zk_schema.store import Store

ZooKeeper = Annotated[str | None, zookeeper_option("show groups of Kafka 0.8's consumers, which this ZooKeeper holds")]

STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead", "Assigning", "Reconciling")
"""States of groups. The last two belong to the newer group protocol (KIP-848), which brokers of Kafka 4 may have."""

groups = new_app("Consumer groups: list, describe with lag, reset offsets, delete.")


@groups.command("list")
def list_(
    state: Annotated[
        list[str] | None, typer.Option(callback=one_of(*STATES), help="only groups in this state: Stable, Empty, …")
    ] = None,
    zookeeper: ZooKeeper = None,
    zk_tls_config_file: ZooKeeperFile = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """List all groups and their states; with --zookeeper those of Kafka 0.8 consumers."""
    if zookeeper:
        from odradek.client.zookeeper.groups import group_ids

        names = with_store(zookeeper, zk_tls_config_file, group_ids)
        print_json(names) if json else print_table(["group"], [(name,) for name in names])
        return
    with connect(bootstrap_server) as admin:
        found = admin.list_groups(states_filter=state)
    if json:
        print_json(found)
    else:
        print_table(["group", "type", "state"], [(one.group_id, one.protocol_type, one.state) for one in found])


@groups.command()
def describe(
    group: Annotated[list[str], typer.Argument(metavar="GROUP…")],
    members: Annotated[bool, typer.Option("--members", help="show the members instead of offsets and lag")] = False,
    zookeeper: ZooKeeper = None,
    zk_tls_config_file: ZooKeeperFile = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Show a group's offsets and lag by partition, and which members read them."""
    from odradek.cli.described_groups import coordinated, in_zookeeper

    seen = _in_zookeeper(group, zookeeper, zk_tls_config_file) if zookeeper else []
    with connect(bootstrap_server) as admin:
        found = [in_zookeeper(admin, one) for one in seen] if zookeeper else [coordinated(admin, one) for one in group]
    if json:
        print_json([one.as_object() for one in found])
        return
    for one in found:
        if members:
            print_table(one.member_columns, one.member_rows, one.title)
        else:
            print_table(["topic", "partition", "committed", "log end", "lag", "member"], one.rows(), one.title)


def _in_zookeeper(group_ids: list[str], address: str, file: Path | None) -> "list[GroupInZooKeeper]":
    from odradek.client.zookeeper.groups import group_in_zookeeper

    async def read(store: "Store") -> "list[GroupInZooKeeper]":
        found = []
        for name in group_ids:
            group = await group_in_zookeeper(store, name)
            if group is None:
                raise OSError(f"there is no group {name} in the ZooKeeper at {address}")
            found.append(group)
        return found

    return with_store(address, file, read)


@groups.command("reset-offsets")
def reset_offsets(
    group: str,
    topic: Annotated[list[str], typer.Option(help="TOPIC, or TOPIC:PARTITION for one partition")],
    to_earliest: Annotated[bool, typer.Option("--to-earliest")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0)] = None,
    to_datetime: Annotated[
        str, typer.Option(metavar="ISO", help="as 2026-01-31T12:00:00+01:00; without a zone, local time")
    ] = "",
    execute: Annotated[
        bool, typer.Option("--execute", help="carry it out; without it only show what would be done")
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Set the committed offsets of a group, which must have no members."""
    from odradek.client.records import OffsetAndMetadata
    from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

    targets = [to_earliest, to_latest, to_offset is not None, bool(to_datetime)]
    if sum(targets) != 1:
        raise typer.BadParameter("give one of --to-earliest, --to-latest, --to-offset, --to-datetime")
    with connect(bootstrap_server) as admin:
        partitions = named_partitions(admin, topic)

        def offsets(timestamp: int) -> "dict[TopicPartition, int | None]":
            found = admin.list_offsets(dict.fromkeys(partitions, timestamp))
            return {at: None if place is None else place.offset for at, place in found.items()}

        first, end = offsets(EARLIEST_TIMESTAMP), offsets(LATEST_TIMESTAMP)
        asked = first if to_earliest else offsets(_milliseconds(to_datetime)) if to_datetime else end
        wanted = {}
        for at in partitions:
            begins, ends = first[at] or 0, end[at] or 0
            target = asked[at] if to_offset is None else to_offset
            wanted[at] = OffsetAndMetadata(ends if target is None else min(max(target, begins), ends))
            if to_offset not in (None, wanted[at].offset):
                print(f"odradek groups: {at} has offsets {begins} to {ends}, not {to_offset}", file=sys.stderr)
        if execute:
            admin.alter_group_offsets(group, wanted)
    rows = [(one.topic, one.partition, position.offset) for one, position in sorted(wanted.items())]
    if json:
        print_json([dict(zip(("topic", "partition", "offset"), row, strict=True)) for row in rows])
    else:
        said = "set" if execute else "would be set with --execute"
        print_table(["topic", "partition", "offset"], rows, f"group {group}: offsets {said}")


def named_partitions(admin: "KafkaAdminClient", topics: list[str]) -> "list[TopicPartition]":
    """Return the partitions of texts `TOPIC` and `TOPIC:PARTITION`. Raises KafkaError, ClientError."""
    from odradek.client.errors import ClientError
    from odradek.client.records import TopicPartition
    from odradek.zk_schema.znodes.json_data import number_named

    found: list[TopicPartition] = []
    for text in topics:
        name, colon, number = text.rpartition(":")
        asked = number_named(number) if colon else None
        topic = text if asked is None else name
        known = [info.partition for info in admin.describe_topics([topic])[0].partitions]
        if asked is not None and asked not in known:
            raise ClientError(f"topic {topic} has partitions 0 to {max(known)}, not {asked}")
        found += [TopicPartition(topic, one) for one in (known if asked is None else [asked])]
    return found


def _milliseconds(text: str) -> int:
    """Return a time in ms since 1970, at least 0: negative numbers would mean other places in a log."""
    from datetime import datetime

    try:
        return max(int(datetime.fromisoformat(text).timestamp() * 1000), 0)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not like 2026-01-31T12:00:00", param_hint="--to-datetime") from None


@groups.command()
def delete(
    group: Annotated[list[str], typer.Argument(metavar="GROUP…")],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Delete groups, which must have no members, and their offsets."""
    with connect(bootstrap_server) as admin:
        admin.delete_groups(group)
    if json:
        print_json({"deleted": group})
    else:
        print(f"deleted {', '.join(group)}")
