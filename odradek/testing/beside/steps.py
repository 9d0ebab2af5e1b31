"""Stories as data: steps, and the values in them that only a broker's earlier answers can tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from odradek.protocol.fields import Array, Message, Struct
from odradek.protocol.headers import API_NAMES, message_classes

KEYS_BY_NAME = {name: key for key, name in API_NAMES.items()}
OWN = "~"
"""A name that begins so gets the play's own ending, so that each play has topics and groups of its own."""


class Answered(Protocol):
    """Answers of one broker so far in a play."""

    play: str
    facts: dict[tuple[str, str], Any]

    def name_of(self, drawn: str) -> str:
        """Return the story's words for an id that the broker has drawn."""


class Later(Protocol):
    """A value that depends on the broker asked."""

    def of(self, side: Answered) -> Any:
        """Return the value for this side."""


@dataclass(frozen=True)
class Known:
    """The last value that an answer to `actor` had in a field of this name, at any depth, or else `otherwise`."""

    actor: str
    name: str
    plus: int = 0
    otherwise: Any = None

    def of(self, side: Answered) -> Any:
        value = side.facts.get((self.actor, self.name), self.otherwise)
        return value + self.plus if self.plus else value


@dataclass(frozen=True)
class Step:
    """A request of a story. `fields`: its fields by name, nested ones too; those that a version does not have are not
    sent.

    `since`, `until`: the versions in which the request says the same.
    """

    actor: str
    api: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    since: int = 0
    until: int = 99
    wanted: str = ""
    """The row of accepted.REASONS that says why the brokers answer differently."""

    def versions(self) -> tuple[int, int]:
        lowest, highest = message_classes(KEYS_BY_NAME[self.api]).request.VERSIONS
        return max(lowest, self.since), min(highest, self.until)

    def version(self, play: int) -> int:
        """Return the version in the play of this number: the newest in play 0, then one older in each."""
        lowest, highest = self.versions()
        return max(lowest, highest - play)

    def request(self, side: Answered) -> Message:
        """Make the request for a side."""
        request: Message = made(message_classes(KEYS_BY_NAME[self.api]).request, settled(self.fields, side))
        return request


@dataclass(frozen=True)
class Story:
    """Steps in order; the name says what they show."""

    name: str
    steps: tuple[Step, ...]
    by_chance: bool = False
    """True if steps are drawn: one whose actor waits for an answer is left out, and who is elected may differ."""
    goes_on: bool = False
    """True if no step depends on the answer to another: a difference does not make those that follow it."""

    def plays(self) -> int:
        """Return how many plays go through every version of every request; one where they are drawn."""
        if self.by_chance:
            return 1
        return max(highest - lowest + 1 for lowest, highest in (step.versions() for step in self.steps))


def wanted(reason: str, step: Step) -> Step:
    """Mark a step whose answers differ as they should. `reason`: a row of accepted.REASONS."""
    return replace(step, wanted=reason)


def story(name: str, *steps: Step) -> Story:
    return Story(name, steps)


def independent(name: str, *steps: Step) -> Story:
    """Make a story whose steps do not depend on the answers to others: each difference counts by itself."""
    return Story(name, steps, goes_on=True)


def settled(value: Any, side: Answered) -> Any:
    """Replace what depends on the side, and names that are the play's own."""
    if isinstance(value, str):
        return value[1:] + side.play if value.startswith(OWN) else value
    if isinstance(value, Mapping):
        return {name: settled(one, side) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [settled(one, side) for one in value]
    return value.of(side) if hasattr(value, "of") else value


def made(kind: type[Any], given: Mapping[str, Any]) -> Any:
    """Make a struct of plain values. Raises KeyError for a field that it does not have."""
    lines = {line.name: line for line in kind.FIELDS}
    return kind(**{name: _made_value(lines[name].wire, value) for name, value in given.items()})


def _made_value(wire: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(wire, Array):
        return [_made_value(wire.element, one) for one in value]
    return made(wire, value) if isinstance(wire, type) and issubclass(wire, Struct) else value
