"""History: the journals of all brokers, merged in order of time; how a broker ended, and when it started last."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from odradek.diagnosis.facts import JournalFacts

OFFLINE_REPLICA: Final = "OfflineReplica "
"""Prefix of the rule of a change that was made because a broker is offline; the broker's number follows."""


class Noted(NamedTuple):
    """An entry of a journal, and the broker whose journal it is."""

    broker: int
    entry: Mapping[str, Any]

    @property
    def at_ms(self) -> int:
        return int(self.entry["at_ms"])

    @property
    def kind(self) -> str:
        return str(self.entry["kind"])

    @property
    def subject(self) -> str:
        return str(self.entry["subject"])

    @property
    def change(self) -> str:
        return str(self.entry.get("change", ""))

    @property
    def rule(self) -> str:
        return str(self.entry.get("rule", ""))

    @property
    def isr_before(self) -> list[int]:
        """The ISR before a change of a partition."""
        return list((self.entry.get("before") or {}).get("isr", ()))

    @property
    def isr_after(self) -> list[int]:
        return list(self.entry["after"]["isr"])

    @property
    def event(self) -> str:
        """Event of the controller that caused the entry; empty if none did."""
        return str(self.entry.get("event", ""))


class History:
    """Entries of all journals, oldest first; indexed, since each row of the table looks up those of its subject."""

    def __init__(self, journals: Mapping[int, JournalFacts]) -> None:
        noted = [Noted(one.broker_id, entry) for one in journals.values() for entry in one.entries]
        self.noted = sorted(noted, key=lambda one: (one.at_ms, one.broker, one.entry["number"]))
        self.since_ms = min((one.since_ms for one in journals.values()), default=None)
        """Time from which on at least one journal is complete (ms since 1970); None without journals."""
        self._by_kind: dict[str, list[Noted]] = defaultdict(list)
        self._by_subject: dict[tuple[str, str], list[Noted]] = defaultdict(list)
        self._by_event: dict[tuple[int, int], list[Noted]] = defaultdict(list)
        self._taken_offline: dict[str, Noted] = {}
        for one in self.noted:
            self._by_kind[one.kind].append(one)
            self._by_subject[(one.kind, one.subject)].append(one)
            if "event_number" in one.entry:
                self._by_event[(one.broker, one.entry["event_number"])].append(one)
            if one.rule.startswith(OFFLINE_REPLICA):
                self._taken_offline[one.rule.removeprefix(OFFLINE_REPLICA)] = one

    def about(self, kind: str, subject: str | None = None) -> Sequence[Noted]:
        """Return the entries of a kind, about one subject or all, oldest first."""
        found = self._by_kind.get(kind) if subject is None else self._by_subject.get((kind, subject))
        return found or ()

    def last(self, kind: str, subject: str | None = None, change: str | None = None) -> Noted | None:
        """Return the last entry of a kind, with this subject and change if they are given."""
        found = (one for one in reversed(self.about(kind, subject)) if change in (None, one.change))
        return next(found, None)

    def together(self, noted: Noted) -> Sequence[Noted]:
        """Return the entries that belong to the same event as this one, oldest first; only this one if it has none."""
        number = noted.entry.get("event_number")
        return [noted] if number is None else self._by_event[(noted.broker, number)]

    def taken_offline(self, broker: int) -> Noted | None:
        """Return the last change that a controller made because this broker was offline."""
        return self._taken_offline.get(str(broker))

    def reaches(self, moment_ms: int | None) -> bool:
        """Tell whether at least one journal covers that time."""
        return moment_ms is not None and self.since_ms is not None and self.since_ms <= moment_ms


class BrokerEnd(NamedTuple):
    """End of a broker, as far as the journals know it: its time, and whether it was a controlled shutdown."""

    broker: int
    at_ms: int | None
    controlled: bool

    def told(self, now_ms: int) -> str:
        """Return a clause for people: `broker 1's session ended at 12:03:04`."""
        when = "" if self.at_ms is None else f" at {clock(self.at_ms, now_ms)}"
        if self.controlled:
            return f"broker {self.broker} was shut down{when}"
        if self.at_ms is not None:
            return f"broker {self.broker}'s session ended{when}"
        return f"broker {self.broker} is not registered in ZooKeeper"


def end_of(history: History, broker: int) -> BrokerEnd:
    """Return the end of a broker that is not registered. Ends before its last start do not count."""
    came = last_start(history, broker)
    went = history.last("broker", str(broker), "went")
    if went is not None and (came is None or came.at_ms <= went.at_ms):
        return end_by(history, went)
    found = history.taken_offline(broker)  # by a controller that was elected later, or because of it
    known = found is not None and (came is None or came.at_ms <= found.at_ms)
    return BrokerEnd(broker, found.at_ms if found is not None and known else None, False)


def end_by(history: History, went: Noted) -> BrokerEnd:
    """Return the end of a broker that this entry of a controller is about."""
    asked = history.last("broker", went.subject, "shutting down")
    controlled = asked is not None and asked.entry.get("epoch") == went.entry.get("former_epoch")
    return BrokerEnd(int(went.subject), went.at_ms, controlled)


def last_start(history: History, broker: int) -> Noted | None:
    """Return the last entry about a start of a broker: it came, or bounced (restarted before its session ended)."""
    noted = reversed(history.about("broker", str(broker)))
    return next((one for one in noted if one.change in ("came", "bounced")), None)


def clock(moment_ms: int, now_ms: int) -> str:
    """Return a time (ms since 1970) as local time: `12:03:07`, with the date unless it is today.

    A time that no calendar has is returned as a number: the timestamps of records are what producers say, perhaps
    nanoseconds.
    """
    try:
        moment, now = (datetime.fromtimestamp(one / 1000) for one in (moment_ms, now_ms))
    except (OverflowError, ValueError, OSError):
        return f"{moment_ms} ms"
    return moment.strftime("%H:%M:%S" if moment.date() == now.date() else "%Y-%m-%d %H:%M:%S")
