"""The public names of kafka-python's clients beside ours: the tables of docs/from-kafka-python.md.

    python -m odradek.testing.foreign.kafka_python_names    writes them into the page

What can be computed is computed from the installed package: whether a method is here, and takes all that theirs takes.
What is in its result is written down here.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import kafka

import odradek
from odradek.client.config import WITHOUT_EFFECT, AdminConfig
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.producer.config import ProducerConfig

PAGE = Path(__file__).parents[3] / "docs" / "from-kafka-python.md"
CONFIGS = {"KafkaProducer": ProducerConfig, "KafkaConsumer": ConsumerSettings, "KafkaAdminClient": AdminConfig}
SECURITY = ("ssl_", "sasl_", "security_protocol")
"""Settings of TLS and SASL, which have a page of their own."""

VALUES = "values with attributes, not dicts"
RAISES = "raises, where theirs returns errors; returns None"
RESULTS: Mapping[str, str] = {
    "alter_configs": RAISES,
    "alter_group_offsets": RAISES,
    "alter_partition_reassignments": RAISES,
    "alter_replica_log_dirs": RAISES,
    "alter_user_scram_credentials": RAISES,
    "api_versions": "versions by number of the API",
    "create_acls": RAISES,
    "create_partitions": RAISES,
    "create_topics": "a list of what was created",
    "delete_acls": "a list of what was deleted",
    "delete_group_offsets": RAISES,
    "delete_groups": RAISES,
    "delete_records": "where each log begins now",
    "delete_topics": RAISES,
    "describe_acls": "a list of ACL",
    "describe_cluster": VALUES,
    "describe_configs": f"{VALUES}, by ConfigResource; all settings unless `config_filter` says otherwise",
    "describe_features": VALUES,
    "describe_groups": f"a list: {VALUES}",
    "describe_log_dirs": f"by broker: {VALUES}",
    "describe_topics": VALUES,
    "describe_producers": "a list of ProducerState by partition",
    "describe_user_scram_credentials": "iterations by mechanism, by user",
    "elect_leaders": "the partitions that have another leader",
    "find_hanging_transactions": VALUES,
    "get_broker_version_data": "versions by number of the API",
    "list_group_offsets": "of one group's name: its offsets by partition",
    "list_groups": VALUES,
    "list_partition_reassignments": f"a list: {VALUES}",
    "remove_group_members": RAISES,
    "reset_configs": RAISES,
    "reset_group_offsets": "offsets by partition; raises",
    "update_features": RAISES,
}
"""Methods whose call is the same and whose result is another."""
ABSENT: Mapping[str, str] = {
    "DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735": "session.timeout.ms is 45 seconds, whatever the broker",
    "describe_metadata_quorum": "a ZooKeeper cluster has none",
    "describe_topic_partitions": "KRaft clusters alone answer it; `describe_topics` does",
    "list_config_resources": "Kafka 4.1 and later alone answer it",
}


class Row(NamedTuple):
    """Public name of theirs. `verdict`: same, same call, other, no."""

    client: str
    name: str
    verdict: str
    note: str


def rows() -> Iterator[Row]:
    """Yield a row for each public name of kafka-python's three clients."""
    for client in CONFIGS:
        theirs, ours = getattr(kafka, client), getattr(odradek, client)
        for name in sorted(one for one in dir(theirs) if not one.startswith("_")):
            if not hasattr(ours, name):
                yield Row(client, name, "no", ABSENT.get(name, ""))
            elif not takes_the_same(getattr(theirs, name), getattr(ours, name)):
                yield Row(client, name, "other", "")
            elif client == "KafkaAdminClient" and name in RESULTS:
                yield Row(client, name, "same call", RESULTS[name])
            else:
                yield Row(client, name, "same", "")


def takes_the_same(theirs: object, ours: object) -> bool:
    """Tell whether a call of theirs is one of ours: the same parameters in the same places, no more that are needed."""
    if not callable(theirs) or not callable(ours):
        return callable(theirs) is callable(ours)
    wanted, there = (list(inspect.signature(one).parameters.values()) for one in (theirs, ours))
    named, ours_named = ([one.name for one in some if one.kind is not one.VAR_POSITIONAL] for some in (wanted, there))
    if ours_named[: len(named)] != named:
        return False
    more = [one for one in there if one.name not in named and one.kind is not one.VAR_POSITIONAL]
    return all(one.default is not one.empty for one in more)


def share() -> float:
    """Return which part of the public names is called here as there."""
    found = list(rows())
    return sum(row.verdict in ("same", "same call") for row in found) / len(found)


def refused() -> Iterator[tuple[str, str]]:
    """Yield the settings that kafka-python's clients take and ours do not: name, and client."""
    for client, config in CONFIGS.items():
        ours = {item.name for item in fields(config)}
        for name in sorted(getattr(kafka, client).DEFAULT_CONFIG):
            if name not in ours and not name.startswith(SECURITY):
                yield name, client


def render_names() -> str:
    """Return the table of names as Markdown."""
    lines = ["| class | name | here | |", "|---|---|---|---|"]
    lines += [f"| {row.client} | `{row.name}` | {row.verdict} | {row.note} |" for row in rows()]
    return "\n".join(lines)


def render_settings() -> str:
    """Return the table of refused settings as Markdown."""
    of: dict[str, list[str]] = {}
    for name, client in refused():
        of.setdefault(name, []).append(client.removeprefix("Kafka").removesuffix("Client").lower())
    lines = ["| setting | of | instead |", "|---|---|---|"]
    lines += [f"| `{name}` | {', '.join(of[name])} | {WITHOUT_EFFECT[name]} |" for name in sorted(of)]
    return "\n".join(lines)


def rendered(page: str) -> str:
    """Return the page with both tables as they are now."""
    for mark, table in (("names", render_names()), ("settings", render_settings())):
        begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
