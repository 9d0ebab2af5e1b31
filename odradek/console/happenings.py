"""Time line: what happened, from brokers' journals and from differences between two snapshots, each happening once."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from odradek.client.metadata import PartitionInfo
from odradek.console.snapshot import NO_BROKER, Snapshot
from odradek.diagnosis.shapes import is_readable
from odradek.journal.sentences import TABLE, Sentence, tell, tell_change

JOURNAL, OBSERVED, PAGE = "journal", "observed", "page"
OUTSIDE = "seen in the metadata; no journal says why"
SAME_TIME_MS = 1_500
PARTS_MAX = 40
"""Partitions of one happening that are named; of the others only their number is shown."""
ABOUT_PARTITIONS = ("isr", "partition", "truncation")
"""Kinds of journal entries whose subject is a partition."""
LEFT_OUT = ("group",)
"""Kinds of sentences that are not on the time line: the rebalances of a group are in its own view."""


@dataclass(slots=True)
class Happening:
    """An entry of the time line. If the same happened to several partitions at once, they share one entry."""

    at_ms: int
    kind: str
    """election, isr, truncation, topic, broker, controller, session, failure, action"""
    title: str
    reason: str
    source: str
    """journal, observed, page"""
    broker: int | None = None
    """Broker whose journal has it."""
    many: str = ""
    """Title for several partitions, with a place for their number; empty if they cannot share an entry."""
    count: int = 1
    parts: list[str] = field(default_factory=list)
    """Titles of the partitions that share the entry, at most PARTS_MAX."""
    keys: set[tuple[Any, ...]] = field(default_factory=set)
    """Keys of what changed, to recognise it in another source. The page does not get them."""
    topics: set[str] = field(default_factory=set)
    """Topics of the partitions; if there is only one, the title names it. The page does not get them."""

    def as_model(self, number: int) -> dict[str, Any]:
        """Return the entry as the page gets it."""
        names = ("at_ms", "kind", "title", "reason", "source", "broker", "count", "parts")
        return {"number": number} | {name: getattr(self, name) for name in names}


def grouped(happenings: Iterable[Happening]) -> list[Happening]:
    """Join happenings of several partitions within SAME_TIME_MS for the same reason."""
    found: list[Happening] = []
    last: dict[tuple[str, str, str, int | None], Happening] = {}
    for one in happenings:
        group = (one.many, one.reason, one.source, one.broker)
        first = last.get(group)
        if not one.many or first is None or one.at_ms - first.at_ms > SAME_TIME_MS:
            found.append(one)
            last[group] = one
            continue
        first.parts = first.parts or [first.title]
        first.count += one.count
        first.keys |= one.keys
        first.topics |= one.topics
        first.title = _title_of_several(first)
        if len(first.parts) < PARTS_MAX:
            first.parts.append(one.title)
    return found


def _title_of_several(happening: Happening) -> str:
    title = happening.many.format(f"{happening.count:,}")
    if len(happening.topics) == 1:
        (topic,) = happening.topics
        return title.replace("partitions", f"partitions of {topic}", 1)
    return title


# -- from a journal ----------------------------------------------------------------------------------------------------


def from_journal(broker: int, entries: Iterable[Mapping[str, Any]]) -> list[Happening]:
    """Return the happenings in new entries of a broker's journal, in order. Entries of unknown shape are left out."""
    return grouped(one for entry in entries if (one := _happening(broker, entry)) is not None)


def _happening(broker: int, entry: Mapping[str, Any]) -> Happening | None:
    told = tell(entry) if is_readable(entry) else None
    if told is None or told.kind in LEFT_OUT:
        return None
    return _entry(entry["at_ms"], told, JOURNAL, broker, _keys(entry), _topics(entry))


def _entry(
    at_ms: int,
    told: Sentence,
    source: str,
    broker: int | None,
    keys: Collection[tuple[Any, ...]],
    topics: Collection[str],
) -> Happening:
    return Happening(
        at_ms, told.kind, told.what, told.why, source, broker, told.many, keys=set(keys), topics=set(topics)
    )


def _topics(entry: Mapping[str, Any]) -> list[str]:
    """Return the topic of the partition that an entry is about, if it is about one."""
    return [entry["subject"].rpartition("-")[0]] if entry["kind"] in ABOUT_PARTITIONS else []


def _keys(entry: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    """Return the keys of an entry's changes: those that two snapshots would give for the same."""
    match entry["kind"], entry.get("change"):
        case "partition", _:
            return {_partition_key(entry["subject"], entry["after"])}
        case "broker", "came" | "went" | "bounced" as change:
            return {("broker", int(entry["subject"]), change != "went")}
        case "controller", "elected":
            return {("controller", int(entry["subject"]))}
    return set()


def _partition_key(partition: str, state: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a key of a partition's state, which is the same from every source."""
    return partition, state["leader"], state["leader_epoch"], tuple(sorted(state["isr"]))


# -- from two looks ----------------------------------------------------------------------------------------------------


def observed(before: Snapshot, after: Snapshot) -> list[Happening]:
    """Return the differences between two snapshots, with their reasons as far as these can be told."""
    return [*_observed_brokers(before, after), *_observed_topics(before, after), *_observed_partitions(before, after)]


def _observed_brokers(before: Snapshot, after: Snapshot) -> Iterator[Happening]:
    for number in sorted(before.nodes.keys() ^ after.nodes.keys()):
        here = number in after.nodes
        title = TABLE["broker came" if here else "broker went"].what.format(subject=number)
        yield Happening(after.at_ms, "broker", title, OUTSIDE, OBSERVED, keys={("broker", number, here)})
    controller = after.controller_id
    if before.controller_id != controller:
        title = "there is no controller" if controller == NO_BROKER else f"broker {controller} is the controller"
        yield Happening(after.at_ms, "controller", title, OUTSIDE, OBSERVED, keys={("controller", controller)})


def _observed_topics(before: Snapshot, after: Snapshot) -> Iterator[Happening]:
    for name in sorted(before.topics.keys() - after.topics.keys()):
        yield Happening(after.at_ms, "topic", f"topic {name} is gone", OUTSIDE, OBSERVED)
    for name in sorted(after.topics.keys() - before.topics.keys()):
        partitions = after.topics[name].partitions
        keys = {_partition_key(f"{name}-{one.partition}", _state(one)) for one in partitions}
        count = "1 partition" if len(partitions) == 1 else f"{len(partitions):,} partitions"
        yield Happening(after.at_ms, "topic", f"topic {name} with {count}", OUTSIDE, OBSERVED, keys=keys)


def _observed_partitions(before: Snapshot, after: Snapshot) -> Iterator[Happening]:
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if known is None or known is topic or known.topic_id != topic.topic_id:
            continue
        for old, new in zip(known.partitions, topic.partitions, strict=False):
            was, now = _state(old), _state(new)
            subject = f"{name}-{new.partition}"
            if _partition_key(subject, was) != _partition_key(subject, now):
                told = tell_change(subject, was, now)
                told = told._replace(why=_seen_reason(told.kind, old, new, before.nodes.keys() - after.nodes.keys()))
                yield _entry(after.at_ms, told, OBSERVED, None, [_partition_key(subject, now)], [name])


def _state(partition: PartitionInfo) -> dict[str, Any]:
    """Return a partition's state as journals have it."""
    return {"leader": partition.leader, "leader_epoch": partition.leader_epoch, "isr": partition.isr}


def _seen_reason(kind: str, old: PartitionInfo, new: PartitionInfo, gone: Collection[int]) -> str:
    if kind == "isr":
        return (
            "a follower has caught up" if len(new.isr) > len(old.isr) else "a follower has not kept up, or is offline"
        )
    if old.leader in gone:
        return f"broker {old.leader}, which led, is not registered any more"
    if new.replicas and new.leader == new.replicas[0] != old.leader:
        return "the preferred replica leads again"
    return OUTSIDE


HAPPENINGS_MAX: Final = 1_000
KEYS_MAX: Final = 50_000
PATIENCE_MS: Final = 2_500
"""Time for which an observation is held back, since a journal may have it with its reason."""
SAME_MS: Final = 20_000
"""Time within which an observation counts as one that a journal has had already, and not as a repetition of it."""


class Timeline:
    """The last happenings, numbered in the order in which they became known."""

    def __init__(self) -> None:
        self._known: deque[tuple[int, Happening]] = deque(maxlen=HAPPENINGS_MAX)
        self._held: list[Happening] = []
        self._told_ms: dict[tuple[Any, ...], int] = {}
        self.last_number = 0

    def add(self, happenings: Iterable[Happening], now_ms: int) -> None:
        """Add happenings. Those that were only observed wait, as a journal may have them, too."""
        for one in happenings:
            if one.source == OBSERVED and one.keys:
                self._held.append(one)
            else:
                self._number(one)
        self.settle(now_ms)

    def settle(self, now_ms: int) -> None:
        """Show the observations that have waited long enough, unless a journal has had them."""
        ready = [one for one in self._held if now_ms - one.at_ms >= PATIENCE_MS]
        self._held = [one for one in self._held if now_ms - one.at_ms < PATIENCE_MS]
        for one in grouped(one for one in ready if not self._is_told(one)):
            self._number(one)

    def _is_told(self, happening: Happening) -> bool:
        return all(self._told_ms.get(key, -SAME_MS) >= happening.at_ms - SAME_MS for key in happening.keys)

    def _number(self, happening: Happening) -> None:
        self.last_number += 1
        self._known.append((self.last_number, happening))
        for key in happening.keys:
            self._told_ms.pop(key, None)
            self._told_ms[key] = happening.at_ms
        while len(self._told_ms) > KEYS_MAX:
            del self._told_ms[next(iter(self._told_ms))]

    def since(self, number: int) -> list[dict[str, Any]]:
        """Return the happenings with a greater number, for the page."""
        return [one.as_model(at) for at, one in self._known if at > number]
