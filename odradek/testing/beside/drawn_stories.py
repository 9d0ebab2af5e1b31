"""Stories by chance, of one seed each: steps that are mostly right, in any order and in any version."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from odradek.protocol.records import encode_batch
from odradek.testing.beside import group_stories as groups
from odradek.testing.beside import log_stories as logs
from odradek.testing.beside import transaction_stories as transactions
from odradek.testing.beside.steps import Answered, Step, Story, wanted

STEPS = 80
OVER = transactions.describe(transactions.ID, "~other")
"""Answered when no markers are on their way any more."""
INSTANCES = {"s": "one", "t": "two"}
PRODUCERS = {"a": transactions.ID, "b": transactions.ID, "c": "~other", "p": None}


def _story(name: str, seed: int, first: tuple[Step, ...], draw: Callable[[random.Random], Step]) -> Story:
    chance = random.Random(seed)
    steps = list(first)
    for _ in range(STEPS):
        step = _at_some_version(chance, draw(chance))
        steps.append(step)
        if step.api == "EndTxn":
            steps.append(OVER)
    return Story(f"{name}, seed {seed}", tuple(steps), by_chance=True)


def _at_some_version(chance: random.Random, step: Step) -> Step:
    lowest, highest = step.versions()
    version = chance.randint(lowest, highest)
    return replace(step, since=version, until=version)


def drawn_groups(seed: int) -> Story:
    """Five members of one group, two of them static, and somebody who administers it."""
    return _story("a group", seed, (), _group_step)


def _group_step(chance: random.Random) -> Step:
    actor = chance.choice("abcst")
    of = chance.choice("abcst") if chance.random() < 0.06 else actor
    instance = INSTANCES.get(actor)
    plus = chance.choice([-1, 1]) if chance.random() < 0.06 else 0
    who: dict[str, Any] = {"member_id": groups.member(of), "generation_id": groups.generation(of, plus)}
    match chance.choice(["join"] * 6 + ["sync"] * 6 + ["heartbeat"] * 2 + ["leave", "commit", "ask"]):
        case "join":
            again = "" if instance is not None and chance.random() < 0.3 else groups.member(of)
            protocols = chance.choice([("range",), ("range",), ("range", "rr"), ("rr",)])
            metadata = chance.choice([groups.SUBSCRIPTION] * 3 + [groups.OTHER_SUBSCRIPTION])
            since = 5 if instance else 0
            return groups.join(actor, instance, member_id=again, protocols=protocols, metadata=metadata, since=since)
        case "sync":
            return groups.sync(actor, instance, since=3 if instance else 0, assignments=groups.Assignments(of), **who)
        case "heartbeat":
            return replace(groups.heartbeat(actor, instance, **who), since=3 if instance else 0)
        case "leave":
            return replace(groups.leave(actor, (groups.member(of), instance)), since=3 if instance else 0)
        case "commit":
            step = groups.commit_as(actor, plus, instance, offset=chance.randrange(50))
            return replace(step, since=7 if instance else 1)
    return chance.choice([*groups.everything_asked(), groups.describe(), groups.describe()])


class NextBatch:
    """Records of a producer, numbered behind those of it that the broker has taken; `odd` is added to the number."""

    def __init__(self, actor: str, partition: int, odd: int, *, transactional: bool) -> None:
        self._actor, self._partition, self._odd, self._transactional = actor, partition, odd, transactional

    def of(self, side: Answered) -> bytes:
        facts, actor = side.facts, self._actor
        identity = facts.get((actor, "producer_id"), -1), facts.get((actor, "producer_epoch"), -1)
        sent = facts.pop((actor, "sent"), None)
        if sent is not None and facts.get((actor, "base_offset"), -1) >= 0:
            facts[actor, sent] = facts.get((actor, sent), 0) + 1
        facts[actor, "sent"] = place = f"records of {identity} in {self._partition}"
        producing = identity[0] >= 0
        sequence = max(0, facts.get((actor, place), 0) + self._odd) if producing else -1
        data = encode_batch(
            0,
            [transactions.TIME_MS],
            [b"k"],
            [b"v"],
            producer_id=identity[0],
            producer_epoch=max(0, identity[1]) if producing else -1,
            base_sequence=sequence,
            transactional=self._transactional and producing,
        )
        return bytes(data)


def drawn_transactions(seed: int) -> Story:
    """Two producers of one transactional id, one of another, a plain one, and somebody who looks on."""
    return _story("transactions", seed, (transactions.create(),), _transaction_step)


def _transaction_step(chance: random.Random) -> Step:
    actor = chance.choice("aabbcp")
    transactional_id = PRODUCERS[actor]
    own: dict[str, Any] = {"transactional_id": transactional_id}
    odd = chance.choice([-1, 1]) if chance.random() < 0.05 else 0
    partition = chance.choice([0, 0, 1])
    own |= transactions.identity(actor, odd)
    kinds = ["init", "produce", "produce", "produce"] if transactional_id is None else [
        "init", *["add"] * 4, *["produce"] * 5, *["offsets"] * 2, *["commit"] * 2, *["end"] * 4, *["look"] * 6
    ]  # fmt: skip
    match chance.choice(kinds):
        case "init":
            known = transactions.identity(actor) if chance.random() < 0.3 and transactional_id else {}
            return transactions.init(actor, transactional_id, chance.choice([60_000, 60_000, 0]), **known)
        case "add":
            return transactions.add(actor, partition, **own)
        case "produce":
            transactional = transactional_id is not None and chance.random() < 0.95
            batch = NextBatch(actor, partition, odd, transactional=transactional)
            return transactions.produce(actor, batch, partition, transactional_id)
        case "offsets":
            return transactions.add_offsets(actor, **own)
        case "commit":
            return transactions.commit_offsets(actor, chance.randrange(99), **own)
        case "end":
            return transactions.end(actor, committed=chance.random() < 0.6, **own)
    return chance.choice(LOOKS)


LOOKS = (
    transactions.describe(transactions.ID, "~other", "~none"),
    OVER,
    transactions.producers(0, 1),
    groups.fetched(),
)


def drawn_logs(seed: int) -> Story:
    """A log of small segments: written with times of its own, cut, read, and asked for offsets."""
    story = _story("a log", seed, (logs.create(segment_bytes="400"),), _log_step)
    cut = next((number for number, step in enumerate(story.steps) if step.api == "DeleteRecords"), STEPS)
    steps = [
        wanted("deleted", step) if number > cut and step.api == "ListOffsets" else step
        for number, step in enumerate(story.steps)
    ]
    return replace(story, steps=tuple(steps))


def _log_step(chance: random.Random) -> Step:
    at_ms = logs.TIME_MS + chance.randrange(-5, 5)
    match chance.choice(["produce"] * 4 + ["old"] + ["offsets"] * 4 + ["fetch"] * 2 + ["cut", "epochs"]):
        case "produce":
            return logs.produce(logs.batch(chance.choice([1, 2, 5]), chance.randrange(5), at_ms=at_ms))
        case "old":
            return logs.produce(logs.message(chance.choice([0, 1])), until=2)
        case "offsets":
            return logs.offsets(
                chance.choice([-1, -2, -3, -4, 0, at_ms, at_ms]), isolation_level=chance.choice([0, 1])
            )[0]
        case "fetch":
            return logs.fetch(chance.randrange(-1, 60), since=chance.choice([0, 4]))
        case "cut":
            return logs.cut(chance.choice([chance.randrange(30), chance.randrange(30), -1]))
    return logs.epochs(chance.choice([0, 0, 1]))


DRAWN: dict[str, Callable[[int], Story]] = {
    "groups": drawn_groups,
    "transactions": drawn_transactions,
    "logs": drawn_logs,
}
