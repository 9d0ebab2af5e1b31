"""Journals whose entries are of another shape: of another version, or changed on the way."""

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.aio import Admin
from odradek.client.records import TopicPartition
from odradek.diagnosis import surroundings
from odradek.diagnosis.examination import Subject, examine_all
from odradek.diagnosis.facts import (
    BrokerFacts,
    DirectoryFacts,
    Facts,
    GroupFacts,
    JournalFacts,
    PartitionFacts,
    TopicFacts,
)
from odradek.diagnosis.gathering import Gathering, Scope
from odradek.diagnosis.situation import Weight
from odradek.diagnosis.telling import event_lines, findings_lines
from odradek.testing.virtual_run import VirtualCluster, run

NOW_MS = 1_700_000_100_000
BEFORE = {"leader": 1, "leader_epoch": 3, "isr": [0, 1], "partition_epoch": 4}
AFTER = {"leader": 0, "leader_epoch": 4, "isr": [0], "partition_epoch": 5}
TWICE = BEFORE | {"isr": [0, 1, 1]}
"""A state that somebody has written by hand."""
CHANGE = {"before": BEFORE, "after": AFTER, "rule": "OfflinePartition"}
EVENT = {"event": "BrokersChanged", "event_number": 1}
PATH = "/brokers/topics/flights/partitions/0/state"
LAGGING = {"broker": 1, "records_behind": 17, "silent_ms": 30_000}
ENTRIES: list[dict[str, Any]] = [
    {"kind": "controller", "subject": "1", "change": "resigned", "epoch": 1, "reason": "it stops"},
    {"kind": "controller", "subject": "0", "change": "elected", "epoch": 2, **EVENT},
    {"kind": "session", "subject": "1", "change": "expired", "led": 2, "session": 5},
    {"kind": "session", "subject": "1", "change": "registered", "epoch": 7, "session": 6},
    {"kind": "broker", "subject": "1", "change": "shutting down", "epoch": 5, "led": 3, "still_led": 1},
    {"kind": "broker", "subject": "1", "change": "went", "former_epoch": 5, **EVENT},
    {"kind": "broker", "subject": "0", "change": "came", "epoch": 7, **EVENT},
    {"kind": "partition", "subject": "flights-0", "unclean": True, **CHANGE, **EVENT},
    {"kind": "failure", "subject": "flights-0", "rule": "OfflinePartition", "reason": "nobody is alive", **EVENT},
    {"kind": "write", "subject": "zookeeper", "zxid": 7, "znodes": 1, "paths": [PATH], **EVENT},
    {"kind": "requests", "subject": "controller", "sent": {"LeaderAndIsr": [0]}, **EVENT},
    {"kind": "isr", "subject": "flights-0", "rule": "replica.lag", "limit_ms": 30_000, "lagging": [LAGGING]},
    {"kind": "truncation", "subject": "flights-0", "log_end_offset": 9, "to": 7, "below_high_watermark": 1},
    {"kind": "directory", "subject": "/d", "change": "failed", "reason": "EIO", "partitions": ["flights-0"]},
    {"kind": "fetcher", "subject": "0", "change": "unreachable", "reason": "refused"},
    {"kind": "group", "subject": "g", "change": "rebalancing", "reason": "a member joined", "generation": 1},
    {"kind": "group", "subject": "g", "change": "member left", "reason": None, "member": "m", "client": "c"},
    {"kind": "group", "subject": "g", "change": "member did not rejoin", "rebalance_timeout_ms": 1, "client": "c"},
    {"kind": "group", "subject": "g", "change": "member expired", "session_timeout_ms": 1, "client": "c"},
    {"kind": "group", "subject": "g", "change": "member expired", "session_timeout_ms": 1, "reason": "it slept"},
    {"kind": "partition", "subject": "flights-1", "before": TWICE, "after": BEFORE, "rule": "AlterPartition"},
    {"kind": "of another version", "subject": "x", "change": "y"},
]  # fmt: skip
ODD: tuple[Any, ...] = (None, -1, "x", [], {"x": None})


def changed(value: Any) -> Iterator[Any]:
    """Every value with one thing changed in it: another value put in its place, or in that of a part, or no part."""
    yield from ODD
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in list(parts):
        for other in changed(part):
            copied = copy.deepcopy(value)
            copied[name] = other
            yield copied
        less = copy.deepcopy(value)
        del less[name]
        yield less


def facts(journal: JournalFacts) -> Facts:
    """Facts in which as much as can be is looked up in the journal."""
    partition = PartitionFacts("flights", 0, (0, 1), leader=0, isr=(0,), leader_epoch=4, offline=(1,))
    healthy = PartitionFacts("flights", 1, (0, 1), leader=1, isr=(0, 1), leader_epoch=4)
    failed = (DirectoryFacts("/d", online=False),)
    return Facts(
        NOW_MS,
        controller=0,
        brokers={
            0: BrokerFacts(0, answers=True, directories=failed, registered_ms=NOW_MS - 50),
            1: BrokerFacts(1, registered=False),
        },
        topics={"flights": TopicFacts("flights", {0: partition, 1: healthy})},
        groups={"g": GroupFacts("g", "PreparingRebalance", committed={TopicPartition("flights", 0): 1})},
        journals={0: journal},
    )


def told(journal: JournalFacts) -> list[str]:
    known = facts(journal)
    subjects = [Subject(topic="flights", partition=0), Subject(broker=1), Subject(group="g"), Subject()]
    lines = [line for subject in subjects for line in event_lines(known, subject, 100)]
    return lines + findings_lines(examine_all(known, Weight.NOTE))


@pytest.mark.parametrize("number", range(len(ENTRIES)), ids=lambda number: f"{number} {ENTRIES[number]['kind']}")
def test_an_entry_of_another_shape_ends_nothing(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What read it raised, and `odradek why` and `doctor` ended with a traceback."""
    page = {"began_ms": 0, "forgotten": 0, "entries": []}

    async def get_page(host: str, port: int, path: str) -> bytes:
        return json.dumps(page).encode()

    monkeypatch.setattr(surroundings, "get_page", get_page)
    broker = BrokerFacts(0, address="127.0.0.1:9092", settings={"metrics.port": "7071"})
    entries = [{"number": at, "at_ms": NOW_MS - 100 + at, **entry} for at, entry in enumerate(ENTRIES)]
    page["entries"] = entries
    whole = asyncio.run(surroundings.read_journal(broker))
    assert isinstance(whole, JournalFacts) and list(whole.entries) == entries and not whole.unreadable
    assert told(whole)
    for odd in changed(entries[number]):
        page["entries"] = [*entries[:number], odd, *entries[number + 1 :]]
        journal = asyncio.run(surroundings.read_journal(broker))
        assert isinstance(journal, JournalFacts)
        assert len(journal.entries) + journal.unreadable == len(entries)
        assert told(journal), odd


def test_what_could_not_be_read_is_said() -> None:
    async def read_journal(broker: BrokerFacts) -> JournalFacts | str:
        return JournalFacts(broker.broker_id, 0, unreadable=2)

    async def test(cluster: VirtualCluster) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            gathering = Gathering(admin, None, read_journal, NOW_MS, cluster.bootstrap)
            found = await gathering.gather(Scope((), ()))
        said = "what happened on broker 0, 1, 2: 2 entries of its journal have a form that this version does not know"
        assert said in found.unknown and list(found.journals) == [0, 1, 2]

    run(test)
