"""Findings and journals as lines for people. Of an event: its changes and their rules, its writes, its requests."""

from collections.abc import Iterable, Sequence
from typing import Any

from odradek.diagnosis.examination import Subject, merged
from odradek.diagnosis.facts import Facts
from odradek.diagnosis.history import History, Noted, clock
from odradek.diagnosis.situation import Finding, Weight
from odradek.journal.sentences import braces, event_in_words, tell

OTHERS_MAX = 8
"""Most other subjects that are named in a line which several share."""
MARKS = {Weight.LOST: "lost", Weight.STOPPED: "stopped", Weight.DEGRADED: "degraded", Weight.UNEVEN: "uneven"}


def findings_lines(findings: Iterable[Finding]) -> list[str]:
    """Return a line for each finding, in the given order. Findings that differ only in their subject share a line."""
    lines = []
    for alike in merged(findings):
        first, others = alike[0], alike[1:]
        mark = MARKS.get(first.weight, "")
        line = f"{mark}: {first.sentence}" if mark else first.sentence
        if others:
            named = ", ".join(one.subject for one in others[:OTHERS_MAX])
            more = f" and {len(others) - OTHERS_MAX} more" if len(others) > OTHERS_MAX else ""
            line += f" [the same: {named}{more}]"
        lines.append(line)
    return lines


def subject_name(subject: Subject) -> str:
    """Return the subject's name as it is in findings."""
    if subject.group is not None:
        return f"group {subject.group}"
    if subject.broker is not None:
        return f"broker {subject.broker}"
    if subject.partition is not None:
        return f"{subject.topic}-{subject.partition}"
    return "the cluster" if subject.topic is None else subject.topic


def calm(facts: Facts, subject: Subject) -> str:
    """Return a sentence about a subject without findings."""
    if subject.topic is not None:
        chosen = facts.topics[subject.topic].partitions
        some = chosen.values() if subject.partition is None else [chosen[subject.partition]]
        kept = ", ".join(
            f"{one.name} led by {one.leader}, in sync {braces(sorted(one.isr))}" for one in list(some)[:OTHERS_MAX]
        )
        return f"{subject_name(subject)} is well: {kept}"
    if subject.group is not None:
        group = facts.groups[subject.group]
        if not group.state:
            return f"nothing can be said of group {group.group_id}"
        return f"group {group.group_id} is well: {group.state}, {len(group.members)} member(s), nothing left unread"
    return f"{subject_name(subject)} is well: registered, answers, its log directories are online"


def event_lines(facts: Facts, subject: Subject, events_max: int) -> list[str]:
    """Return lines about the last events that concern a subject: when, on which broker, by which rule, and what was
    written and sent."""
    history = History(facts.journals)
    touched = [one for one in history.noted if _is_about(one, subject)]
    lines: list[str] = []
    told: set[tuple[int, Any]] = set()
    for noted in touched[-events_max:] if events_max else []:
        event = (noted.broker, noted.entry.get("event_number", f"alone {noted.entry['number']}"))
        if event in told:
            continue
        told.add(event)
        lines += _event(facts, subject, history.together(noted))
    return lines


def _is_about(noted: Noted, subject: Subject) -> bool:
    if subject.group is not None:
        return noted.kind == "group" and noted.subject == subject.group
    if subject.broker is not None:
        number = str(subject.broker)
        own = noted.kind in ("session", "directory") and noted.broker == subject.broker
        return own or (noted.kind in ("broker", "controller", "session") and noted.subject == number)
    if subject.topic is None:
        return noted.kind in ("broker", "controller")
    if noted.kind not in ("partition", "isr", "truncation", "failure"):
        return False
    topic, _, number = noted.subject.rpartition("-")
    return topic == subject.topic and subject.partition in (None, int(number))


def _event(facts: Facts, subject: Subject, together: Sequence[Noted]) -> list[str]:
    """Return lines about an event of the controller and all that followed from it, or about one entry without event."""
    first = together[0]
    head = f"{clock(first.at_ms, facts.now_ms)} broker {first.broker}"
    if not first.event:
        return [f"{head}: {_words(first)}"]
    lines = [f"{head}: {event_in_words(first.event)}"]
    ours = [one for one in together if _is_about(one, subject)]
    causes = [one for one in together if one.kind in ("broker", "controller") and one not in ours]
    lines += [f"  {_words(one)}" for one in [*causes, *ours]]
    for one in together:
        if one.kind == "write" and _touches(one, subject):
            zxid = "" if one.entry["zxid"] is None else f", zxid {one.entry['zxid']:#x}"
            more = ", …" if one.entry["znodes"] > len(one.entry["paths"]) else ""
            lines.append(f"    wrote {one.entry['znodes']} znode(s){zxid}: {', '.join(one.entry['paths'])}{more}")
    for one in together:
        if one.kind == "requests":
            sent = "; ".join(f"{name} to {', '.join(map(str, to))}" for name, to in one.entry["sent"].items())
            lines.append(f"    sent {sent}")
    return lines


def _touches(noted: Noted, subject: Subject) -> bool:
    """Tell whether a write may be about the subject, too. An entry names only the first znodes of many."""
    place = f"/topics/{subject.topic}/"
    if subject.topic is None or noted.entry["znodes"] > len(noted.entry["paths"]):
        return True
    if subject.partition is not None:
        place += f"partitions/{subject.partition}/"
    return any(place in f"{path}/" for path in noted.entry["paths"])


def _words(noted: Noted) -> str:
    """Return a clause about an entry; if this version does not know its kind, the names in it."""
    return str(tell(noted.entry) or f"{noted.kind} {noted.subject} {noted.change}")
