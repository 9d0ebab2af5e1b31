"""Sentences about what happened: from brokers' journals, and from what differs between two looks at the cluster."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from odradek.client.metadata import PartitionInfo
from odradek.console.snapshot import NO_BROKER, Snapshot

JOURNAL, OBSERVED, PAGE = "journal", "observed", "page"
OUTSIDE = "seen from outside, in the metadata: no journal says why"
CAUGHT_UP = "the leader saw a follower catch up"
FELL_BEHIND = "the leader saw a follower fall behind for replica.lag.time.max.ms"
SAME_TIME_MS = 1_500
PARTS_MAX = 40
"""Partitions of one happening that are named; of the others their number is said."""

RULES: Mapping[str, str] = {
    "NewPartition": "a new partition is led by its first live replica",
    "OfflinePartition": "the leader was gone: the first live replica of the ISR leads",
    "ReassignPartition": "a reassignment, step by step",
    "PreferredReplica": "the preferred replica, first in the assignment, is back in the ISR",
    "ControlledShutdown": "the leader is shutting down and has handed over first",
}
EVENTS: Mapping[str, str] = {
    "BrokersChanged": "the brokers registered in ZooKeeper changed",
    "ControllerChanged": "/controller in ZooKeeper changed",
    "TopicsChanged": "the topics in ZooKeeper changed",
    "AssignmentChanged": "an assignment in ZooKeeper changed",
    "LeadersToBalance": "the controller looked for leaders that are not the preferred ones",
    "PreferredElectionAsked": "somebody asked for an election",
    "ReassignmentAsked": "somebody asked for a reassignment",
    "UncleanElectionEnabled": "unclean election was enabled",
    "LogDirectoryFailed": "a log directory failed",
}


@dataclass(slots=True)
class Happening:
    """An entry of the time line. Several partitions to which the same happened at once are one entry."""

    at_ms: int
    kind: str
    """election, isr, truncation, topic, broker, controller, session, failure, action"""
    title: str
    reason: str
    source: str
    """journal, observed, page"""
    broker: int | None = None
    """Whose journal it is from."""
    many: str = ""
    """Title with room for a number, where several may be one entry."""
    count: int = 1
    parts: list[str] = field(default_factory=list)
    """The titles of those that are one entry, the first PARTS_MAX of them."""
    keys: set[tuple[Any, ...]] = field(default_factory=set)
    """What changed, to recognise it in another source. Stays in the server."""

    def as_model(self, number: int) -> dict[str, Any]:
        """Return the entry as the page gets it."""
        names = ("at_ms", "kind", "title", "reason", "source", "broker", "count", "parts")
        return {"number": number} | {name: getattr(self, name) for name in names}


def grouped(happenings: Iterable[Happening]) -> list[Happening]:
    """Join what happened to several partitions within SAME_TIME_MS for the same reason."""
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
        first.title = first.many.format(f"{first.count:,}")
        first.keys |= one.keys
        if len(first.parts) < PARTS_MAX:
            first.parts.append(one.title)
    return found


def change_key(partition: str, leader: int, leader_epoch: int, isr: Iterable[int]) -> tuple[Any, ...]:
    """Identify a partition's state, whoever tells of it."""
    return partition, leader, leader_epoch, tuple(sorted(isr))


# -- from a journal ----------------------------------------------------------------------------------------------------


def from_journal(broker: int, entries: Iterable[Mapping[str, Any]]) -> list[Happening]:
    """Return what new entries of a broker's journal amount to, in order. Unknown shapes are left out."""
    return grouped(one for entry in entries if (one := _happening(broker, entry)) is not None)


def _happening(broker: int, entry: Mapping[str, Any]) -> Happening | None:
    read = _READERS.get(str(entry.get("kind")))
    if read is None:
        return None
    try:
        happening = read(entry)
        happening.at_ms = int(entry["at_ms"])
    except (KeyError, TypeError, ValueError):
        return None
    happening.source, happening.broker = JOURNAL, broker
    return happening


def _said(kind: str, title: str, reason: str = "", *keys: tuple[Any, ...]) -> Happening:
    return Happening(0, kind, title, reason, JOURNAL, keys=set(keys))


def _partition_entry(entry: Mapping[str, Any]) -> Happening:
    subject, before, after = str(entry["subject"]), entry["before"], _state(entry["after"])
    was = None if before is None else _state(before)
    change = _change(subject, was, after)
    rule = str(entry["rule"])
    change.reason = _rule(rule, was, after) + _event(str(entry.get("event", "")), rule)
    if entry.get("unclean"):
        change.reason = "UNCLEAN, records may be lost: " + change.reason
    return change


def _state(facts: Mapping[str, Any]) -> "PartitionState":
    return PartitionState(int(facts["leader"]), int(facts["leader_epoch"]), tuple(int(one) for one in facts["isr"]))


def _rule(rule: str, before: "PartitionState | None" = None, after: "PartitionState | None" = None) -> str:
    name, _, broker = rule.partition(" ")
    if name == "OfflineReplica" and broker:
        return f"broker {broker} is not there: its replica leaves the ISR"
    if name == "AlterPartition" and before is not None and after is not None:
        return CAUGHT_UP if len(after.isr) > len(before.isr) else FELL_BEHIND
    return RULES.get(rule, rule)


def _event(event: str, rule: str) -> str:
    return "" if event in ("", "Call", rule) else f" ({EVENTS.get(event, event)})"


def _broker_entry(entry: Mapping[str, Any]) -> Happening:
    if entry["change"] == "shutting down":
        reason = f"it led {entry['led']}; of these nobody else can lead {entry['still_led']}"
        return _said("broker", f"broker {entry['subject']} is shutting down and hands its partitions over", reason)
    said = {
        "came": "is registered in ZooKeeper",
        "went": "is not registered any more: its session has ended",
        "bounced": "was away and is back as another life of itself",
        "updated": "has registered with other addresses",
    }
    change = str(entry["change"])
    title = f"broker {entry['subject']} {said.get(change, change)}"
    return _said("broker", title, "the controller has seen it", ("broker", int(entry["subject"]), change != "went"))


def _controller_entry(entry: Mapping[str, Any]) -> Happening:
    if entry["change"] == "elected":
        title = f"broker {entry['subject']} is the controller, epoch {entry['epoch']}"
        key = ("controller", int(entry["subject"]))
        return _said("controller", title, "/controller was free, and it was the first to take it", key)
    return _said(
        "controller", f"broker {entry['subject']} is not the controller any more", str(entry.get("reason", ""))
    )


def _session_entry(entry: Mapping[str, Any]) -> Happening:
    said = {
        "registered": ("registered itself in ZooKeeper", ""),
        "away": ("does not reach ZooKeeper", "it goes on with what it knows until its session ends"),
        "expired": (
            "has lost its ZooKeeper session",
            f"it led {_partitions(int(entry.get('led', 0)))} and leads none now",
        ),
        "back": ("reaches ZooKeeper again", "in the same session: nothing is lost"),
    }
    change = str(entry["change"])
    title, reason = said.get(change, (change, ""))
    return _said("session", f"broker {entry['subject']} {title}", reason)


def _lag_entry(entry: Mapping[str, Any]) -> Happening:
    slow = ", ".join(str(one["broker"]) for one in entry["lagging"])
    happening = _said(
        "isr", f"{entry['subject']}: broker {slow} has not kept up for {entry['limit_ms']} ms", FELL_BEHIND
    )
    happening.many = "followers of {} partitions have not kept up"
    return happening


def _truncation_entry(entry: Mapping[str, Any]) -> Happening:
    title = (
        f"{entry['subject']} is cut from {entry['log_end_offset']} to {entry['to']} to follow broker {entry['leader']}"
    )
    lost = int(entry["below_high_watermark"])
    reason = f"{lost} of the records cut were acknowledged" if lost else "what is cut was not acknowledged"
    happening = _said("truncation", title, reason)
    happening.many = "{} partitions are cut to follow another leader"
    return happening


def _failure_entry(entry: Mapping[str, Any]) -> Happening:
    return _said("failure", f"{entry['subject']} stays as it was: {entry['reason']}", _rule(str(entry["rule"])))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Happening]] = {
    "partition": _partition_entry,
    "broker": _broker_entry,
    "controller": _controller_entry,
    "session": _session_entry,
    "failure": _failure_entry,
    "isr": _lag_entry,
    "truncation": _truncation_entry,
}


# -- from two looks ----------------------------------------------------------------------------------------------------


def observed(before: Snapshot, after: Snapshot) -> list[Happening]:
    """Return the differences between two looks, with what can be said of their reasons."""
    return [*_observed_brokers(before, after), *_observed_topics(before, after), *_observed_partitions(before, after)]


def _observed_brokers(before: Snapshot, after: Snapshot) -> Iterator[Happening]:
    for number in sorted(before.nodes.keys() ^ after.nodes.keys()):
        here = number in after.nodes
        title = f"broker {number} is {'registered' if here else 'not registered any more'}"
        yield Happening(after.at_ms, "broker", title, OUTSIDE, OBSERVED, keys={("broker", number, here)})
    controller = after.controller_id
    if before.controller_id != controller:
        title = "there is no controller" if controller == NO_BROKER else f"broker {controller} is the controller"
        yield Happening(after.at_ms, "controller", title, OUTSIDE, OBSERVED, keys={("controller", controller)})


def _observed_topics(before: Snapshot, after: Snapshot) -> Iterator[Happening]:
    for name in sorted(before.topics.keys() - after.topics.keys()):
        yield Happening(after.at_ms, "topic", f"topic {name} is gone", OUTSIDE, OBSERVED)
    for name in sorted(after.topics.keys() - before.topics.keys()):
        topic = after.topics[name]
        keys = {change_key(f"{name}-{p.partition}", p.leader, p.leader_epoch, p.isr) for p in topic.partitions}
        title = f"topic {name} with {_partitions(len(topic.partitions))}"
        yield Happening(after.at_ms, "topic", title, OUTSIDE, OBSERVED, keys=keys)


def _observed_partitions(before: Snapshot, after: Snapshot) -> Iterator[Happening]:
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if known is None or known is topic or known.topic_id != topic.topic_id:
            continue
        for old, new in zip(known.partitions, topic.partitions, strict=False):
            was, now = _told(old), _told(new)
            if (was.leader, was.epoch, set(was.isr)) != (now.leader, now.epoch, set(now.isr)):
                change = _change(f"{name}-{new.partition}", was, now)
                change.at_ms, change.source = after.at_ms, OBSERVED
                change.reason = _seen_reason(change.kind, old, new, before.nodes.keys() - after.nodes.keys())
                yield change


def _told(partition: PartitionInfo) -> "PartitionState":
    return PartitionState(partition.leader, partition.leader_epoch, partition.isr)


def _seen_reason(kind: str, old: PartitionInfo, new: PartitionInfo, gone: Collection[int]) -> str:
    if kind == "isr":
        return "a follower has caught up" if len(new.isr) > len(old.isr) else "a follower has not kept up, or is away"
    if old.leader in gone:
        return f"broker {old.leader}, which led, is not registered any more"
    if new.replicas and new.leader == new.replicas[0] != old.leader:
        return "the preferred replica leads again"
    return OUTSIDE


# -- words -------------------------------------------------------------------------------------------------------------


class PartitionState(NamedTuple):
    """State of a partition that sentences about its changes are made of."""

    leader: int
    epoch: int
    isr: tuple[int, ...]


def _change(subject: str, before: PartitionState | None, after: PartitionState) -> Happening:
    """Return a change in words, without its reason."""
    kind, isr = "election", f"ISR {_ids(after.isr)}"
    if before is None:
        kind, many = "topic", "{} partitions are new"
        title = f"{subject} is new: broker {after.leader} leads, {isr}"
    elif after.leader == NO_BROKER:
        many = "{} partitions have no leader"
        title = f"{subject} has no leader (it was {before.leader}), {isr}"
    elif after.leader != before.leader:
        many = "{} partitions have a new leader"
        was = "nobody" if before.leader == NO_BROKER else str(before.leader)
        title = f"{subject} leader {was} → {after.leader}, {isr}"
    elif set(after.isr) == set(before.isr):
        many = "{} partitions are led anew"
        title = f"{subject} leader {after.leader} again, {isr}"
    else:
        verb = "grown" if len(after.isr) > len(before.isr) else "shrunk"
        kind, many = "isr", f"the ISR of {{}} partitions has {verb}"
        title = f"{subject} ISR {_ids(before.isr)} → {_ids(after.isr)}"
    epoch = f", epoch {after.epoch}" if after.epoch >= 0 else ""
    return Happening(0, kind, title + epoch, "", JOURNAL, many=many, keys={change_key(subject, *after)})


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(brokers))) or "empty"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"
