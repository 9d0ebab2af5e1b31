"""What happened, in words: from the journals of brokers, and from the difference between two looks at the cluster."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odradek.client.metadata import PartitionInfo
from odradek.console.snapshot import NO_BROKER, Snapshot

JOURNAL, OBSERVED, PAGE = "journal", "observed", "page"
OUTSIDE = "seen from outside, in the metadata: no journal says why"
PARTS_MAX = 40
"""Partitions of one happening that are named; of the others their number is said."""

RULES: Mapping[str, str] = {
    "NewPartition": "a new partition is led by its first live replica",
    "OfflinePartition": "the leader was gone: the first live replica in the ISR leads (where unclean election is on: "
    "the first live one at all)",
    "ReassignPartition": "a reassignment, step by step",
    "PreferredReplica": "the preferred replica, first in the assignment, is back in the ISR",
    "ControlledShutdown": "the leader is shutting down and has handed over first",
    "AlterPartition": "the leader asked for it: a follower has caught up, or has not kept up for "
    "replica.lag.time.max.ms",
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
    """An entry of the time line. Many partitions that changed by one event are one entry."""

    at_ms: int
    kind: str
    """election, isr, topic, broker, controller, session, failure, action"""
    title: str
    reason: str
    source: str
    """journal, observed, page"""
    broker: int | None = None
    """Whose journal it is from."""
    count: int = 1
    parts: list[str] = field(default_factory=list)
    """One line for each partition, the first PARTS_MAX of them."""
    keys: set[tuple[Any, ...]] = field(default_factory=set)
    """What changed, to recognise it in another source. Stays in the server."""

    def as_model(self, number: int) -> dict[str, Any]:
        """As the page gets it."""
        names = ("at_ms", "kind", "title", "reason", "source", "broker", "count", "parts")
        return {"number": number} | {name: getattr(self, name) for name in names}


def change_key(partition: str, leader: int, leader_epoch: int, isr: Iterable[int]) -> tuple[Any, ...]:
    """Identify a partition's state, whoever tells of it."""
    return partition, leader, leader_epoch, tuple(sorted(isr))


# -- from a journal ----------------------------------------------------------------------------------------------------


def from_journal(broker: int, entries: Iterable[Mapping[str, Any]]) -> list[Happening]:
    """Return what new entries of a broker's journal amount to, in order. Unknown shapes are left out."""
    found: list[Happening] = []
    open_one: tuple[Any, ...] | None = None
    for entry in entries:
        happening = _happening(broker, entry)
        if happening is None:
            continue
        group = (entry.get("event_number"), happening.kind, happening.reason)
        if happening.kind in _TITLES and group == open_one and entry.get("event_number") is not None:
            _join(found[-1], happening)
        else:
            found.append(happening)
            open_one = group
    for one in found:
        _entitle(one)
    return found


def _happening(broker: int, entry: Mapping[str, Any]) -> Happening | None:
    read = _READERS.get(str(entry.get("kind")))
    if read is None:
        return None
    try:
        kind, title, reason, key = read(entry)
        happening = Happening(int(entry["at_ms"]), kind, title, reason, JOURNAL, broker)
    except (KeyError, TypeError, ValueError):
        return None
    if key is not None:
        happening.keys = {key}
    if kind in _TITLES:
        happening.parts = [title]
    return happening


Read = tuple[str, str, str, tuple[Any, ...] | None]


def _partition_entry(entry: Mapping[str, Any]) -> Read:
    subject, before, after = str(entry["subject"]), entry["before"], entry["after"]
    leader, isr = int(after["leader"]), [int(one) for one in after["isr"]]
    kind, title = _change(
        subject,
        None if before is None else (int(before["leader"]), [int(one) for one in before["isr"]]),
        (leader, isr),
        elected=before is None or before["leader_epoch"] != after["leader_epoch"],
    )
    title += f", epoch {after['leader_epoch']}"
    reason = _rule(str(entry["rule"])) + _event(entry)
    if entry.get("unclean"):
        reason = "UNCLEAN, records may be lost: " + reason
    return kind, title, reason, change_key(subject, leader, int(after["leader_epoch"]), isr)


def _rule(rule: str) -> str:
    name, _, broker = rule.partition(" ")
    if name == "OfflineReplica" and broker:
        return f"broker {broker} is not there: its replica leaves the ISR"
    return RULES.get(rule, rule)


def _event(entry: Mapping[str, Any]) -> str:
    event = str(entry.get("event", ""))
    if not event or event == "Call":
        return ""
    return f" ({EVENTS.get(event, event)})"


def _broker_entry(entry: Mapping[str, Any]) -> Read:
    said = {
        "came": "is registered in ZooKeeper",
        "went": "is not registered any more: its session has ended",
        "bounced": "was away and is back as another life of itself",
        "updated": "has registered with other addresses",
    }
    change = str(entry["change"])
    key = ("broker", int(entry["subject"]), change != "went")
    return "broker", f"broker {entry['subject']} {said.get(change, change)}", "the controller has seen it", key


def _controller_entry(entry: Mapping[str, Any]) -> Read:
    if entry["change"] == "elected":
        title = f"broker {entry['subject']} is the controller, epoch {entry['epoch']}"
        key = ("controller", int(entry["subject"]))
        return "controller", title, "/controller was free, and it was the first to take it", key
    return "controller", f"broker {entry['subject']} is not the controller any more", str(entry.get("reason", "")), None


def _session_entry(entry: Mapping[str, Any]) -> Read:
    said = {
        "registered": ("registered itself in ZooKeeper", ""),
        "away": ("does not reach ZooKeeper", "it goes on with what it knows until its session ends"),
        "expired": ("has lost its ZooKeeper session", f"it led {entry.get('led', 0)} partitions and leads none now"),
        "back": ("reaches ZooKeeper again", "in the same session: nothing is lost"),
    }
    change = str(entry["change"])
    title, reason = said.get(change, (change, ""))
    return "session", f"broker {entry['subject']} {title}", reason, None


def _failure_entry(entry: Mapping[str, Any]) -> Read:
    return "failure", f"{entry['subject']} stays as it was: {entry['reason']}", _rule(str(entry["rule"])), None


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Read]] = {
    "partition": _partition_entry,
    "broker": _broker_entry,
    "controller": _controller_entry,
    "session": _session_entry,
    "failure": _failure_entry,
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


def _observed_partitions(before: Snapshot, after: Snapshot) -> list[Happening]:
    found: dict[tuple[str, str], Happening] = {}
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if known is None or known is topic or known.topic_id != topic.topic_id:
            continue
        for old, new in zip(known.partitions, topic.partitions, strict=False):
            if (old.leader, old.leader_epoch, set(old.isr)) == (new.leader, new.leader_epoch, set(new.isr)):
                continue
            happening = _observed_partition(f"{name}-{new.partition}", old, new, before, after)
            group = (happening.kind, happening.reason)
            if group in found:
                _join(found[group], happening)
            else:
                found[group] = happening
    for one in found.values():
        _entitle(one)
    return list(found.values())


def _observed_partition(
    subject: str, old: PartitionInfo, new: PartitionInfo, before: Snapshot, after: Snapshot
) -> Happening:
    elected = old.leader != new.leader or old.leader_epoch != new.leader_epoch
    kind, title = _change(subject, (old.leader, old.isr), (new.leader, new.isr), elected=elected)
    title += f", epoch {new.leader_epoch}" if new.leader_epoch >= 0 else ""
    gone = before.nodes.keys() - after.nodes.keys()
    if kind == "election" and old.leader in gone:
        reason = f"broker {old.leader}, which led, is not registered any more"
    elif kind == "election" and new.leader == new.replicas[0]:
        reason = "the preferred replica leads again"
    elif kind == "isr":
        reason = "a follower has caught up" if len(new.isr) > len(old.isr) else "a follower has not kept up, or is away"
    else:
        reason = OUTSIDE
    key = change_key(subject, new.leader, new.leader_epoch, new.isr)
    return Happening(after.at_ms, kind, title, reason, OBSERVED, parts=[title], keys={key})


# -- words -------------------------------------------------------------------------------------------------------------


def _change(
    subject: str,
    before: tuple[int, Sequence[int]] | None,
    after: tuple[int, Sequence[int]],
    *,
    elected: bool,
) -> tuple[str, str]:
    """Kind and title of a change of leader, or of the ISR alone."""
    leader, isr = after
    if before is None:
        return "topic", f"{subject} is new: broker {leader} leads, ISR {_ids(isr)}"
    if leader == NO_BROKER:
        return "election", f"{subject} has no leader (it was {before[0]}), ISR {_ids(isr)}"
    if leader != before[0]:
        was = "nobody" if before[0] == NO_BROKER else str(before[0])
        return "election", f"{subject} leader {was} → {leader}, ISR {_ids(isr)}"
    if set(isr) == set(before[1]) and elected:
        return "election", f"{subject} leader {leader} again, ISR {_ids(isr)}"
    return "isr", f"{subject} ISR {_ids(before[1])} → {_ids(isr)}"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(brokers))) or "empty"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _join(first: Happening, other: Happening) -> None:
    first.count += other.count
    first.keys |= other.keys
    if len(first.parts) < PARTS_MAX:
        first.parts += other.parts


_TITLES = {"election": "{} with a new leader", "isr": "{} with another ISR", "topic": "{} created"}


def _entitle(happening: Happening) -> None:
    """Give one that stands for several a title of its own."""
    if happening.count > 1:
        happening.title = _TITLES[happening.kind].format(_partitions(happening.count))
    else:
        happening.parts = []
