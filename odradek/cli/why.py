"""`odradek why TOPIC[-PARTITION] | BROKER | GROUP`: the state, the reason for it, and what to do."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json
from odradek.cli.output import print_json, printable
from odradek.cli.zookeeper import ZooKeeperFile, zookeeper_link, zookeeper_option

if TYPE_CHECKING:
    from odradek.diagnosis.examination import Subject
    from odradek.diagnosis.facts import Facts
    from odradek.diagnosis.situation import Finding
    from odradek.zk_schema.link import Link

ZooKeeper = Annotated[
    str | None, zookeeper_option("the cluster's ZooKeeper; default: the one that brokers name; `none`: do without")
]


def why(
    name: Annotated[str, typer.Argument(metavar="TOPIC[-PARTITION] | BROKER | GROUP")],
    history: Annotated[
        int, typer.Option("--history", min=0, help="show at most this many events of the journals")
    ] = 10,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    zookeeper: ZooKeeper = None,
    zookeeper_file: ZooKeeperFile = None,
    json: Json = False,
) -> None:
    """Explain the state of a topic, a partition, a broker or a group, and what to do."""
    import asyncio

    from odradek.diagnosis.examination import examine

    facts, wanted = asyncio.run(_look(name, bootstrap_server, zookeeper, zookeeper_link(zookeeper_file)))
    found = [(subject, examine(facts, subject)) for subject in wanted]
    if json:
        print_json(_as_objects(facts, found, history))
        return
    for subject, findings in found:
        _print(facts, subject, findings, history)
    for one in facts.unknown:
        print(printable(f"not known: {one}"))


async def _look(name: str, bootstrap: str, zookeeper: str | None, link: "Link") -> "tuple[Facts, list[Subject]]":
    """Return what is known, and the subjects that `name` stands for."""
    from dataclasses import replace

    from odradek.cli.options import command_config, command_config_files
    from odradek.diagnosis.examination import UnknownSubject, subjects
    from odradek.diagnosis.gathering import Names, Scope
    from odradek.diagnosis.surroundings import check_may_see, facts

    wanted: list[Subject] = []

    def scope(names: Names) -> Scope:
        wanted[:] = subjects(name, names.topics, names.groups, names.brokers)  # again in each round of requests
        topics = {one.topic for one in wanted if one.topic is not None}
        groups = {one.group for one in wanted if one.group is not None}
        return Scope(None if any(one.broker is not None for one in wanted) else topics, groups)

    try:
        found = await facts(command_config, bootstrap, zookeeper, scope, link)
    except UnknownSubject:
        await check_may_see(command_config, bootstrap, name)
        raise
    return replace(found, command_config="".join(command_config_files[-1:])), wanted


def _print(facts: "Facts", subject: "Subject", findings: "list[Finding]", events: int) -> None:
    from odradek.diagnosis.telling import calm, event_lines, findings_lines

    for line in findings_lines(findings) if findings else [calm(facts, subject)]:
        print(printable(line))
    lines = event_lines(facts, subject, events)
    if lines:
        print("\nwhat the journals say, event → rule → writes → requests:")
        for line in lines:
            print(printable(f"  {line}"))


def _as_objects(facts: "Facts", found: "list[tuple[Subject, list[Finding]]]", events: int) -> dict[str, Any]:
    from odradek.diagnosis.situation import plain
    from odradek.diagnosis.telling import event_lines, subject_name

    return {
        "subjects": [
            {
                "subject": subject_name(subject),
                "findings": [plain(finding) for finding in findings],
                "events": event_lines(facts, subject, events),
            }
            for subject, findings in found
        ],
        "unknown": list(facts.unknown),
    }
