"""`odradek groups list|describe|reset-offsets|delete`: consumer groups and their offsets."""

from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, connect, new_app
from odradek.cli.output import print_json, print_table

if TYPE_CHECKING:
    from odradek.client.admin.client import KafkaAdminClient
    from odradek.client.admin.values import GroupDescription, PartitionLag
    from odradek.client.records import TopicPartition

groups = new_app("Consumer groups: list, describe with lag, reset offsets, delete.")


@groups.command("list")
def list_(
    state: Annotated[list[str] | None, typer.Option(help="only groups in it: Stable, Empty, …")] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """All groups and their state."""
    with connect(bootstrap_server) as admin:
        found = admin.list_groups(states_filter=state)
    if json:
        print_json(found)
    else:
        print_table(["group", "type", "state"], [(one.group_id, one.protocol_type, one.state) for one in found])


@groups.command()
def describe(
    group: Annotated[list[str], typer.Argument(metavar="GROUP…")],
    members: Annotated[bool, typer.Option("--members", help="who is in it, instead of offsets and lag")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Offsets and lag of groups by partition, and who reads it."""
    with connect(bootstrap_server) as admin:
        found = [_describe(admin, name) for name in group]
    if json:
        print_json([_as_object(description, lags) for description, lags in found])
        return
    for description, lags in found:
        title = (
            f"group {description.group_id}: {description.state}, {len(description.members)} member(s), "
            f"assignor {description.assignor or 'none'}, coordinator {description.coordinator}"
        )
        if members:
            _print_members(title, description)
        else:
            _print_lags(title, description, lags)


def _describe(admin: "KafkaAdminClient", group_id: str) -> "tuple[GroupDescription, list[PartitionLag]]":
    from odradek.protocol.errors import ErrorCode, KafkaError

    description = admin.describe_groups([group_id])[0]
    lags = admin.group_lag(group_id)
    if description.state == "Dead" and not lags:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"the cluster has no group {group_id}")
    return description, lags


def _owner(description: "GroupDescription", topic_partition: "TopicPartition") -> str | None:
    for member in description.members:
        if topic_partition in member.partitions:
            return member.group_instance_id or member.member_id
    return None


def _as_object(description: "GroupDescription", lags: "list[PartitionLag]") -> dict[str, object]:
    known = [one.lag for one in lags if one.lag is not None]
    return {
        "group": description.group_id,
        "state": description.state,
        "assignor": description.assignor,
        "coordinator": description.coordinator,
        "members": description.members,
        "partitions": [
            {
                "topic": one.topic_partition.topic,
                "partition": one.topic_partition.partition,
                "committed": one.committed,
                "log_end_offset": one.log_end_offset,
                "lag": one.lag,
                "member": _owner(description, one.topic_partition),
            }
            for one in lags
        ],
        "total_lag": sum(known),
    }


def _print_lags(title: str, description: "GroupDescription", lags: "list[PartitionLag]") -> None:
    print_table(
        ["topic", "partition", "committed", "log end", "lag", "member"],
        [
            (
                one.topic_partition.topic,
                one.topic_partition.partition,
                one.committed,
                one.log_end_offset,
                one.lag,
                _owner(description, one.topic_partition),
            )
            for one in lags
        ],
        title,
    )


def _print_members(title: str, description: "GroupDescription") -> None:
    print_table(
        ["member", "instance", "client", "host", "partitions"],
        [
            (one.member_id, one.group_instance_id, one.client_id, one.host, " ".join(map(str, one.partitions)))
            for one in description.members
        ],
        title,
    )


@groups.command("reset-offsets")
def reset_offsets(
    group: str,
    topic: Annotated[list[str], typer.Option(help="TOPIC, or TOPIC:PARTITION for one partition")],
    to_earliest: Annotated[bool, typer.Option("--to-earliest")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0)] = None,
    to_datetime: Annotated[str, typer.Option(metavar="ISO", help="2026-01-31T12:00:00+01:00; no zone: local")] = "",
    execute: Annotated[bool, typer.Option("--execute", help="do it; else only show what would be done")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Set the offsets of a group that has no members at the moment."""
    from odradek.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
    from odradek.client.records import OffsetAndMetadata

    targets = [to_earliest, to_latest, to_offset is not None, bool(to_datetime)]
    if sum(targets) != 1:
        raise typer.BadParameter("give one of --to-earliest, --to-latest, --to-offset, --to-datetime")
    with connect(bootstrap_server) as admin:
        partitions = _partitions(admin, topic)
        if to_earliest or to_datetime:
            timestamp = _milliseconds(to_datetime) if to_datetime else EARLIEST_TIMESTAMP
        else:
            timestamp = LATEST_TIMESTAMP
        ends = admin.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        found = admin.list_offsets(dict.fromkeys(partitions, timestamp))
        wanted = {}
        for one in partitions:
            place = found[one] or ends[one]
            target = to_offset if to_offset is not None else (place.offset if place is not None else 0)
            wanted[one] = OffsetAndMetadata(target)
        if execute:
            admin.alter_group_offsets(group, wanted)
    rows = [(one.topic, one.partition, position.offset) for one, position in sorted(wanted.items())]
    if json:
        print_json([dict(zip(("topic", "partition", "offset"), row, strict=True)) for row in rows])
    else:
        said = "set" if execute else "would be set with --execute"
        print_table(["topic", "partition", "offset"], rows, f"group {group}: offsets {said}")


def _partitions(admin: "KafkaAdminClient", topics: list[str]) -> "list[TopicPartition]":
    from odradek.client.records import TopicPartition

    found: list[TopicPartition] = []
    for text in topics:
        name, colon, number = text.rpartition(":")
        if colon and number.isdigit():
            found.append(TopicPartition(name, int(number)))
        else:
            info = admin.describe_topics([text])[0]
            found += [TopicPartition(text, one.partition) for one in info.partitions]
    return found


def _milliseconds(text: str) -> int:
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not like 2026-01-31T12:00:00", param_hint="--to-datetime") from None


@groups.command()
def delete(
    group: Annotated[list[str], typer.Argument(metavar="GROUP…")],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Delete groups without members, with their offsets."""
    with connect(bootstrap_server) as admin:
        admin.delete_groups(group)
    if json:
        print_json({"deleted": group})
    else:
        print(f"deleted {', '.join(group)}")
