"""`odradek topics create|list|describe|alter|delete`: topics and their partitions."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, connect, new_app, settings
from odradek.cli.output import print_json, print_table, printable

if TYPE_CHECKING:
    from odradek.client.admin.client import KafkaAdminClient
    from odradek.client.admin.values import CreatedTopic, NewTopic
    from odradek.client.metadata import TopicInfo

MOVES_MS_MAX = 5_000.0
"""Longest wait for the controller's list of reassignments."""

topics = new_app("Create, list, describe, alter and delete topics.")

Configs = Annotated[
    list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="a topic setting by Kafka's name")
]


@topics.command()
def create(
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC…")],
    partitions: Annotated[int, typer.Option(help="number of partitions; -1: the broker's num.partitions")] = -1,
    replication_factor: Annotated[int, typer.Option(help="replicas of each partition; -1: the broker's default")] = -1,
    replica_assignment: Annotated[
        str, typer.Option(metavar="1:2,2:3", help="broker ids of each partition, in place of both numbers")
    ] = "",
    config: Configs = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="no error if the topic exists")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Create topics."""
    from odradek.client.admin.values import NewTopic

    configs = settings(config, "--config")
    assignment = _assignment(replica_assignment)
    if assignment and (partitions, replication_factor) != (-1, -1):
        said = "give either it or --partitions and --replication-factor"
        raise typer.BadParameter(said, param_hint="--replica-assignment")
    with connect(bootstrap_server) as admin:
        existing = set(admin.list_topics(internal=True)) if if_not_exists else set()
        wanted = [name for name in topic if name not in existing]
        new = [NewTopic(name, partitions, replication_factor, assignment, dict(configs)) for name in wanted]
        if if_not_exists:
            created = [made for one in new for made in _created_unless_there(admin, one)]
        else:
            created = admin.create_topics(new)
    if json:
        print_json([_created(one.name, one.num_partitions, one.replication_factor) for one in created])
        return
    for one in created:
        print(f"created {one.name}: {one.num_partitions} partition(s), {one.replication_factor} replica(s)")


def _created_unless_there(admin: "KafkaAdminClient", topic: "NewTopic") -> "list[CreatedTopic]":
    """Create a topic; return none if it exists: it may be newer than the list of topics, or than that broker knew."""
    from odradek.protocol.errors import ErrorCode, KafkaError

    try:
        return admin.create_topics([topic])
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return []


def _created(name: str, partitions: int, replication_factor: int) -> dict[str, object]:
    return {"topic": name, "partitions": partitions, "replication_factor": replication_factor}


def _assignment(text: str) -> dict[int, list[int]]:
    try:
        lists = [[int(broker) for broker in one.split(":")] for one in text.split(",") if text]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not like 1:2,2:3", param_hint="--replica-assignment") from None
    return dict(enumerate(lists))


@topics.command("list")
def list_(
    internal: Annotated[bool, typer.Option("--internal", help="include Kafka's internal topics")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """List the names of all topics."""
    with connect(bootstrap_server) as admin:
        names = admin.list_topics(internal=internal)
    if json:
        print_json(names)
        return
    for name in names:
        print(name)


@topics.command()
def describe(
    topic: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC…]", help="without any: all")] = None,
    unavailable: Annotated[bool, typer.Option("--unavailable", help="only partitions without a leader")] = False,
    under_replicated: Annotated[
        bool,
        typer.Option(
            "--under-replicated",
            help="only partitions with replicas out of sync, but for those being added",
        ),
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Show the partitions of topics: leader, replicas, in-sync replicas."""
    with connect(bootstrap_server) as admin:
        found = admin.describe_topics(topic or None)
        adding = _being_added(admin, found) if under_replicated else {}
    rows = [
        one
        for info in found
        for one in info.partitions
        if (topic or not info.internal)
        and (not unavailable or one.leader < 0)
        and (not under_replicated or one.is_under_replicated(adding.get((one.topic, one.partition), ())))
    ]
    if json:
        print_json(rows)
        return
    print_table(
        ["topic", "partition", "leader", "epoch", "replicas", "isr"],
        [
            (
                one.topic,
                one.partition,
                one.leader if one.leader >= 0 else "none",
                one.leader_epoch,
                ",".join(map(str, one.replicas)),
                ",".join(map(str, one.isr)),
            )
            for one in rows
        ],
    )


def _being_added(admin: "KafkaAdminClient", found: "list[TopicInfo]") -> dict[tuple[str, int], tuple[int, ...]]:
    """Return the replicas that reassignments are adding, by partition. The controller is asked only if something lacks
    a replica; without its answer there is a warning, and they count as missing."""
    from odradek.protocol.errors import KafkaError

    if not any(one.is_under_replicated() for info in found for one in info.partitions):
        return {}
    try:
        moves = admin.list_partition_reassignments(timeout_ms=MOVES_MS_MAX)
    except KafkaError as error:
        print(printable(f"not known: replicas that are being added: {error}"), file=sys.stderr)
        return {}
    return {(one.topic_partition.topic, one.topic_partition.partition): one.adding_replicas for one in moves}


@topics.command()
def alter(
    topic: str,
    partitions: Annotated[int, typer.Option(help="the new total number")],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Add partitions. Use `odradek configs alter` for settings."""
    with connect(bootstrap_server) as admin:
        admin.create_partitions({topic: partitions})
    if json:
        print_json({"topic": topic, "partitions": partitions})
    else:
        print(f"{topic} has {partitions} partitions")


@topics.command()
def delete(
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC…")],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Delete topics with all their records."""
    with connect(bootstrap_server) as admin:
        admin.delete_topics(topic)
    if json:
        print_json({"deleted": topic})
    else:
        print(f"deleted {', '.join(topic)}")
