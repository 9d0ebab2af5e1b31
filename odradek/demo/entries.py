"""Entries about a failover in the logs of brokers and controller. Text in, values out.

Times are in milliseconds since 1970. The controller's lines have the time after ZooKeeper accepted a change.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from odradek.demo.cluster import TOPIC
from odradek.journal.sentences import NO_LEADER


class BrokersChanged(NamedTuple):
    """The controller has read `/brokers/ids` and found it changed."""

    at_ms: float
    dead: tuple[int, ...]
    new: tuple[int, ...]


class ControllerElected(NamedTuple):
    at_ms: float
    broker: int
    epoch: int


class LeadershipChanged(NamedTuple):
    """ZooKeeper has accepted another leader or another in-sync set."""

    at_ms: float
    partition: int
    leader_before: int
    leader: int
    in_sync: tuple[int, ...]


class TookOver(NamedTuple):
    """A broker has obeyed the controller and leads."""

    at_ms: float
    broker: int
    partition: int


class Registered(NamedTuple):
    at_ms: float
    broker: int


class Truncated(NamedTuple):
    """A follower has given up the end of its log, which the leader of a newer epoch does not have."""

    at_ms: float
    partition: int
    from_offset: int
    to_offset: int


Entry = BrokersChanged | ControllerElected | LeadershipChanged | TookOver | Registered | Truncated


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in re.findall(r"\d+", text))


def _leader(text: str) -> int:
    return NO_LEADER if text == "none" else int(text)


LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) [A-Z]+ \S+: (.*)$")
FORMS: Sequence[tuple[re.Pattern[str], Callable[[float, re.Match[str]], Entry]]] = (
    (
        re.compile(r"brokers: new (\[.*?\]), dead (\[.*?\]), "),
        lambda at, m: BrokersChanged(at, dead=_numbers(m[2]), new=_numbers(m[1])),
    ),
    (
        re.compile(r"broker (\d+) is the controller, epoch (\d+)"),
        lambda at, m: ControllerElected(at, int(m[1]), int(m[2])),
    ),
    (
        re.compile(rf"(\d+) controller {TOPIC}-(\d+) leader (?:(\w+) → )?(\w+), ISR (?:\S+ → )?(\S+), leader epoch"),
        lambda _, m: LeadershipChanged(float(m[1]), int(m[2]), _leader(m[3] or m[4]), _leader(m[4]), _numbers(m[5])),
    ),
    (
        re.compile(rf"broker (\d+) leads {TOPIC}-(\d+) "),
        lambda at, m: TookOver(at, int(m[1]), int(m[2])),
    ),
    (
        re.compile(r"broker (\d+) is registered, "),
        lambda at, m: Registered(at, int(m[1])),
    ),
    (
        re.compile(rf"<{TOPIC}-(\d+) follower .*truncating from (\d+) to (\d+)"),
        lambda at, m: Truncated(at, int(m[1]), int(m[2]), int(m[3])),
    ),
)
"""Patterns of the lines that matter, each with a function that makes the entry."""


def entries(text: str) -> Iterator[Entry]:
    """Yield the entries about elections and memberships in a broker's log, in its order; other lines are skipped."""
    for line in text.splitlines():
        parts = LINE.match(line)
        if parts is None:
            continue
        for form, read in FORMS:
            found = form.match(parts[2])
            if found is not None:
                yield read(datetime.fromisoformat(parts[1]).timestamp() * 1000, found)
                break
