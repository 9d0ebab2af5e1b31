"""Examination: facts in, findings out, for one subject or for the whole cluster."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from odradek.client.errors import ClientError
from odradek.diagnosis import brokers, clusters, groups, leaders, replicas, transactions
from odradek.diagnosis.cases import BROKER, CLUSTER, GROUP, PARTITION, BrokerCase, ClusterCase, GroupCase, PartitionCase
from odradek.diagnosis.facts import BrokerFacts, Facts
from odradek.diagnosis.history import History
from odradek.diagnosis.situation import Finding, Table, Weight
from odradek.zk_schema.znodes.json_data import number_named

TABLES: tuple[Table[Any], ...] = (CLUSTER, BROKER, PARTITION, GROUP)
"""Tables of all situations, one for each kind of subject."""
ROWS = (clusters, brokers, leaders, replicas, transactions, groups)
"""Modules that fill the tables when they are imported."""
NEAREST_MAX = 3


class UnknownSubject(ClientError):  # noqa: N818 - a sentence for the person who asked
    """No topic, partition, broker or group has this name; the message suggests similar ones."""


@dataclass(frozen=True)
class Subject:
    """Subject of a question: a topic, one of its partitions, a broker or a group; with none of them, the cluster."""

    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    group: str | None = None


def subjects(name: str, topics: Iterable[str], groups: Iterable[str], brokers: Iterable[int]) -> list[Subject]:
    """Return the topic, partition (`orders-3`), broker (its number) and group with a name, one at least.

    Raises UnknownSubject.
    """
    known_topics, known_groups, known_brokers = set(topics), set(groups), set(brokers)
    found = [Subject(topic=name)] if name in known_topics else []
    topic, dash, number = name.rpartition("-")
    index = number_named(number) if dash else None
    if not found and index is not None and topic in known_topics:
        found.append(Subject(topic=topic, partition=index))
    if name in known_groups:
        found.append(Subject(group=name))
    if (broker := number_named(name)) in known_brokers:
        found.append(Subject(broker=broker))
    if found:
        return found
    names = sorted(known_topics | known_groups | {str(one) for one in known_brokers})
    near = difflib.get_close_matches(topic if index is not None else name, names, NEAREST_MAX)
    near += [one for one in names if name in one and one not in near][: NEAREST_MAX - len(near)]
    said = f"did you mean {' or '.join(near)}?" if near else _what_there_is(known_topics, known_groups, known_brokers)
    raise UnknownSubject(f"no topic, partition, broker or group {name!r}: {said}")


def _what_there_is(topics: set[str], groups: set[str], brokers: set[int]) -> str:
    named = ", ".join(map(str, sorted(brokers))) or "none"
    return f"there are {len(topics)} topic(s), {len(groups)} group(s), and broker(s) {named}"


def examine(facts: Facts, subject: Subject, history: History | None = None) -> list[Finding]:
    """Return the findings about a subject, the gravest first. Raises UnknownSubject if there is no such partition."""
    history = history or History(facts.journals)
    if subject.group is not None:
        return GROUP.findings(f"group {subject.group}", GroupCase(facts, history, facts.groups[subject.group]))
    if subject.broker is not None:
        broker = facts.brokers.get(subject.broker, BrokerFacts(subject.broker, registered=False))
        return BROKER.findings(f"broker {subject.broker}", BrokerCase(facts, history, broker))
    if subject.topic is None:
        return CLUSTER.findings("the cluster", ClusterCase(facts, history))
    topic = facts.topics[subject.topic]
    if subject.partition is not None and subject.partition not in topic.partitions:
        raise UnknownSubject(
            f"topic {topic.name} has partitions 0 to {len(topic.partitions) - 1}, not {subject.partition}"
        )
    chosen = topic.partitions.values() if subject.partition is None else [topic.partitions[subject.partition]]
    found = [
        finding
        for partition in chosen
        for finding in PARTITION.findings(partition.name, PartitionCase(facts, history, topic, partition))
    ]
    return sorted(found, key=lambda one: -one.weight)


def examine_all(facts: Facts, least: Weight = Weight.UNEVEN) -> list[Finding]:
    """Return the findings of at least this weight about the cluster and all in it, the gravest first."""
    history = History(facts.journals)
    topics = sorted(facts.topics, key=lambda name: name.startswith("__"))  # Kafka's own topics come last
    every = [Subject(), *(Subject(broker=one) for one in facts.brokers), *(Subject(topic=one) for one in topics)]
    every += [Subject(group=one) for one in facts.groups]
    found = [finding for subject in every for finding in examine(facts, subject, history) if finding.weight >= least]
    return sorted(found, key=lambda one: -one.weight)


def merged(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Put findings that differ only in their subject into one list; the lists are in the order of their first ones."""
    alike: dict[Any, list[Finding]] = {}
    for finding in findings:
        told = finding.told
        ways = tuple(replace(way, command=way.command.replace(finding.subject, "…")) for way in told.ways_out)
        alike.setdefault((finding.situation, told.because, told.rule, ways), []).append(finding)
    return list(alike.values())
