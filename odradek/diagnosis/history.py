"""History: the journals of all brokers as one story, and what it says of a broker's end or a partition's change."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from odradek.diagnosis.facts import JournalFacts

OFFLINE_REPLICA: Final = "OfflineReplica "
"""Beginning of the rule by which a replica leaves its ISR with its broker, whose number follows."""


class Noted(NamedTuple):
    """An entry of a journal, and the broker that noted it."""

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
        """The event that set it off; empty where nothing did but a clock or a peer."""
        return str(self.entry.get("event", ""))


class History:
    """Entries of all journals, oldest first. Indexed, since every row of the table asks for those of its subject."""

    def __init__(self, journals: Mapping[int, JournalFacts]) -> None:
        noted = [Noted(one.broker_id, entry) for one in journals.values() for entry in one.entries]
        self.noted = sorted(noted, key=lambda one: (one.at_ms, one.broker, one.entry["number"]))
        self.since_ms = min((one.since_ms for one in journals.values()), default=None)
        """The first moment that any journal knows; None without journals."""
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
        """Entries of a kind, about one subject or all, oldest first."""
        found = self._by_kind.get(kind) if subject is None else self._by_subject.get((kind, subject))
        return found or ()

    def last(self, kind: str, subject: str | None = None, change: str | None = None) -> Noted | None:
        """Return the last entry of a kind, about a subject, with a change."""
        found = (one for one in reversed(self.about(kind, subject)) if change in (None, one.change))
        return next(found, None)

    def together(self, noted: Noted) -> Sequence[Noted]:
        """List the entries that belong to the same event, in order; only the entry itself if it belongs to none."""
        number = noted.entry.get("event_number")
        return [noted] if number is None else self._by_event[(noted.broker, number)]

    def taken_offline(self, broker: int) -> Noted | None:
        """Return the last change that a controller made because this broker was gone."""
        return self._taken_offline.get(str(broker))

    def reaches(self, moment_ms: int | None) -> bool:
        """Tell whether some journal was being written at that moment."""
        return moment_ms is not None and self.since_ms is not None and self.since_ms <= moment_ms


class BrokerEnd(NamedTuple):
    """End of a broker, as far as the journals know: when, and whether it was shut down in a controlled way."""

    broker: int
    at_ms: int | None
    controlled: bool

    def told(self, now_ms: int) -> str:
        """Return a clause: `broker 1's session ended at 12:03:04`."""
        when = "" if self.at_ms is None else f" at {clock(self.at_ms, now_ms)}"
        if self.controlled:
            return f"broker {self.broker} was shut down{when}"
        if self.at_ms is not None:
            return f"broker {self.broker}'s session ended{when}"
        return f"broker {self.broker} is not registered in ZooKeeper"


def end_of(history: History, broker: int) -> BrokerEnd:
    """Return how a broker went that is not there. How it went before it came the last time says nothing of that."""
    came = last_start(history, broker)
    went = history.last("broker", str(broker), "went")
    if went is not None and (came is None or came.at_ms <= went.at_ms):
        return end_by(history, went)
    found = history.taken_offline(broker)  # by a controller that came after it, or was elected because of it
    known = found is not None and (came is None or came.at_ms <= found.at_ms)
    return BrokerEnd(broker, found.at_ms if found is not None and known else None, False)


def end_by(history: History, went: Noted) -> BrokerEnd:
    """Return the end that a controller has noted so."""
    asked = history.last("broker", went.subject, "shutting down")
    controlled = asked is not None and asked.entry.get("epoch") == went.entry.get("former_epoch")
    return BrokerEnd(int(went.subject), went.at_ms, controlled)


def last_start(history: History, broker: int) -> Noted | None:
    """Return the last entry by which a broker was there again: it came, or had been restarted unnoticed (bounced)."""
    noted = reversed(history.about("broker", str(broker)))
    return next((one for one in noted if one.change in ("came", "bounced")), None)


def clock(moment_ms: int, now_ms: int) -> str:
    """Local time: `12:03:07`; with the day where that is not today. The number itself for what no calendar has: records
    have the times that their producers give them, in nanoseconds perhaps."""
    try:
        moment, now = (datetime.fromtimestamp(one / 1000) for one in (moment_ms, now_ms))
    except (OverflowError, ValueError, OSError):
        return f"{moment_ms} ms"
    return moment.strftime("%H:%M:%S" if moment.date() == now.date() else "%Y-%m-%d %H:%M:%S")
