"""Situations: rows of a table, each with its sign, cause, rule and way out. A finding is a subject's situation.

A row is a function of a case. Its docstring is the sign, as docs/why.md shows it. It returns None if the case does not
have the sign, else the words about it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Generic, TypeVar

from odradek.diagnosis.history import Noted

C = TypeVar("C")


class Weight(IntEnum):
    """Weight of a finding: how bad it is."""

    NOTE = 0
    """Something happened, or is unusual; nothing is to be done."""
    UNEVEN = 1
    """Everything works; it could work better."""
    DEGRADED = 2
    """The cluster works, but with less redundancy, or late."""
    STOPPED = 3
    """A client cannot read or write."""
    LOST = 4
    """Acknowledged records are lost."""


@dataclass(frozen=True)
class WayOut:
    """Something to do: in words, and as a command, if there is one that does it."""

    words: str
    command: str = ""

    def __str__(self) -> str:
        return f"{self.words}: `{self.command}`" if self.command else self.words


@dataclass(frozen=True)
class Told:
    """Words of a row about a case: `what` is the case, its cause (`because`), and the rule, mostly a setting, by which
    it follows."""

    what: str
    because: str
    rule: str = ""
    ways_out: tuple[WayOut, ...] = ()
    since_ms: int | None = None
    unknown: str = ""
    """A clause about what is not known, and why."""
    evidence: tuple[Noted, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A situation in which a subject is: `flights-3`, `broker 1`, `group billing`."""

    situation: str
    weight: Weight
    subject: str
    told: Told

    @property
    def sentence(self) -> str:
        """Cause, rule and way out in one sentence."""
        told = self.told
        parts = [f"{self.subject} {told.what}"]
        causes = "; ".join(part for part in (told.because, told.rule) if part)
        text = f"{parts[0]}: {causes}" if causes else parts[0]
        if told.ways_out:
            text += "; " + ", or ".join(map(str, told.ways_out)).replace(", or and ", ", and ")
        return text + (f" ({told.unknown})" if told.unknown else "")


@dataclass(frozen=True)
class Situation(Generic[C]):
    """A row of the table."""

    name: str
    about: str
    weight: Weight
    sign: str
    source: str
    """Source of the rule: a setting, a class of Kafka's, a KIP."""
    way_out: str
    """What to do, in general; a finding says it with names and numbers."""
    look: Callable[[C], Told | None]


@dataclass
class Table(Generic[C]):
    """Situations of one kind of subject. Of those that exclude each other the gravest comes first."""

    about: str
    rows: list[Situation[C]] = field(default_factory=list)

    def row(
        self, weight: Weight, source: str, way_out: str
    ) -> Callable[[Callable[[C], Told | None]], Callable[[C], Told | None]]:
        """Return a decorator that adds a function as a row. The situation has the function's name, with hyphens."""

        def add(look: Callable[[C], Told | None]) -> Callable[[C], Told | None]:
            sign = " ".join((look.__doc__ or "").split())
            self.rows.append(
                Situation(look.__name__.replace("_", "-"), self.about, weight, sign, source, way_out, look)
            )
            return look

        return add

    def findings(self, subject: str, case: C) -> list[Finding]:
        """Return a finding for each row whose sign a case has, the gravest first."""
        told = ((row, row.look(case)) for row in self.rows)
        found = [Finding(row.name, row.weight, subject, one) for row, one in told if one is not None]
        return sorted(found, key=lambda one: -one.weight)


def numbers(brokers: Iterable[int]) -> str:
    """List brokers for people: `1, 2 and 3`, or `none`."""
    texts = [str(one) for one in brokers]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else "none"


def plain(finding: Finding) -> dict[str, Any]:
    """Return the finding as values for JSON."""
    told = finding.told
    return {
        "situation": finding.situation,
        "weight": finding.weight.name,
        "subject": finding.subject,
        "what": told.what,
        "because": told.because,
        "rule": told.rule,
        "ways_out": [{"words": one.words, "command": one.command or None} for one in told.ways_out],
        "since_ms": told.since_ms,
        "unknown": told.unknown or None,
        "evidence": [{"journal_of": one.broker, **one.entry} for one in told.evidence],
        "sentence": finding.sentence,
    }
