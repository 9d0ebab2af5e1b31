"""History: the journals of all brokers as one story, and what it says of a broker's end or a partition's change."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from odradek.diagnosis.facts import Facts, JournalFacts


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
        """Of a change of a partition."""
        return list((self.entry.get("before") or {}).get("isr", ()))

    @property
    def isr_after(self) -> list[int]:
        return list(self.entry["after"]["isr"])

    @property
    def event(self) -> str:
        """What set it off; empty where nothing did but a clock or a peer."""
        return str(self.entry.get("event", ""))


class History:
    """Entries of all journals, oldest first."""

    def __init__(self, journals: Mapping[int, JournalFacts]) -> None:
        noted = [Noted(one.broker_id, entry) for one in journals.values() for entry in one.entries]
        self.noted = sorted(noted, key=lambda one: (one.at_ms, one.broker, one.entry["number"]))
        self.since_ms = min((one.since_ms for one in journals.values()), default=None)
        """The first moment that any journal knows; None without journals."""

    def about(self, kind: str, subject: str | None = None) -> list[Noted]:
        """Entries of a kind, about one subject or all, oldest first."""
        return [one for one in self.noted if one.kind == kind and subject in (None, one.subject)]

    def last(self, kind: str, subject: str | None = None, change: str | None = None) -> Noted | None:
        """The last entry of a kind, about a subject, with a change."""
        found = (one for one in reversed(self.about(kind, subject)) if change in (None, one.change))
        return next(found, None)

    def together(self, noted: Noted) -> list[Noted]:
        """All that belongs to the same event, in order; only the entry itself where it belongs to none."""
        number = noted.entry.get("event_number")
        if number is None:
            return [noted]
        return [one for one in self.noted if one.broker == noted.broker and one.entry.get("event_number") == number]

    def reaches(self, moment_ms: int | None) -> bool:
        """Tell whether some journal was being written at that moment."""
        return moment_ms is not None and self.since_ms is not None and self.since_ms <= moment_ms


class BrokerEnd(NamedTuple):
    """How a broker went, as far as the journals know."""

    broker: int
    at_ms: int | None
    controlled: bool

    def told(self, now_ms: int) -> str:
        """A clause: `broker 1's session ended at 12:03:04`."""
        when = "" if self.at_ms is None else f" at {clock(self.at_ms, now_ms)}"
        if self.controlled:
            return f"broker {self.broker} was shut down{when}"
        if self.at_ms is not None:
            return f"broker {self.broker}'s session ended{when}"
        return f"broker {self.broker} is not registered in ZooKeeper"


def end_of(history: History, broker: int) -> BrokerEnd:
    """How it went last."""
    went = history.last("broker", str(broker), "went")
    if went is None:
        found = next(
            (one for one in reversed(history.about("partition")) if one.rule == f"OfflineReplica {broker}"), None
        )
        return BrokerEnd(broker, None if found is None else found.at_ms, False)
    asked = history.last("broker", str(broker), "shutting down")
    epoch = went.entry.get("former_epoch")
    return BrokerEnd(broker, went.at_ms, asked is not None and asked.entry.get("epoch") == epoch)


def clock(moment_ms: int, now_ms: int) -> str:
    """Local time: `12:03:07`; with the day where that is not today."""
    from datetime import datetime

    moment, now = (datetime.fromtimestamp(one / 1000) for one in (moment_ms, now_ms))
    return moment.strftime("%H:%M:%S" if moment.date() == now.date() else "%Y-%m-%d %H:%M:%S")


def story(facts: Facts, history: History, kinds: dict[str, str | None], entries_max: int) -> Iterator[Noted]:
    """The last entries of some kinds, each about one subject (None: any), oldest first."""
    found = [one for one in history.noted if one.kind in kinds and kinds[one.kind] in (None, one.subject)]
    yield from found[-entries_max:]
