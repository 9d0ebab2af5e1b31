"""Timeline of the failover, from the cluster's logs and the producers' acknowledgements. No I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from odradek.demo.entries import (
    BrokersChanged,
    ControllerElected,
    Entry,
    LeadershipChanged,
    Registered,
    TookOver,
    Truncated,
)

E = TypeVar("E")
Around = Mapping[int, tuple[float | None, float | None]]
"""Partition → the last acknowledgement before an election and the first one after it, in ms since 1970."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill of a broker: what it was doing then, and when it was started again. Times in ms since 1970."""

    at_ms: float
    broker: int
    led: tuple[int, ...]
    """The partitions that it led."""
    requests: int
    """Produce requests to it that were not answered."""
    was_controller: bool
    started_ms: float


class Moment(NamedTuple):
    """A line of the timeline. Times in ms since the kill."""

    at_ms: float
    took_ms: float | None
    """Time since the moment that this one follows from; None if it was done from outside."""
    what: str
    detail: str = ""


class Incomplete(Exception):  # noqa: N818 (a sentence for a person)
    """The logs lack an entry that they should have."""


def named(partitions: Iterable[int]) -> str:
    """Name partitions as a person does: `partitions 2, 5`."""
    numbers = [str(one) for one in sorted(partitions)]
    return f"partition{'s' * (len(numbers) != 1)} {', '.join(numbers)}" if numbers else "nothing"


def election_times(kill: Kill, found: Iterable[Entry]) -> dict[int, float]:
    """Return when each partition that the dead broker led got another leader in ZooKeeper (ms). Raises Incomplete."""
    times = {change.partition: change.at_ms for change in reversed(_elections(kill, found))}
    missing = sorted(set(kill.led) - times.keys())
    if missing:
        raise Incomplete(f"no log tells of new leaders for {named(missing)}")
    return {partition: times[partition] for partition in kill.led}


def timeline(kill: Kill, found: Iterable[Entry], around: Around, under_way: int) -> list[Moment]:
    """Return the moments of the failover, in order.

    `around` is about the partitions that the dead broker led; `under_way` is the number of records for them that were
    sent and not acknowledged. Raises Incomplete.
    """
    later = sorted((entry for entry in found if entry.at_ms >= kill.at_ms), key=lambda entry: entry.at_ms)
    moments = [*_loss(kill, around, under_way), *_failover(kill, later, around), *_return(kill, later)]
    return sorted(moments, key=lambda moment: moment.at_ms)


def _loss(kill: Kill, around: Around, under_way: int) -> Iterator[Moment]:
    role = " and was the controller" if kill.was_controller else ""
    yield Moment(0.0, None, f"SIGKILL broker {kill.broker}", f"it led {named(kill.led)}{role}")
    last_ms = max((before for before, _ in around.values() if before is not None), default=kill.at_ms)
    requests = f"{kill.requests} request{'s' * (kill.requests != 1)} open"
    detail = f"{requests}, {under_way:,} records under way"
    yield _moment(kill, last_ms, None, "its last acknowledgement", detail)


def _failover(kill: Kill, later: Sequence[Entry], around: Around) -> Iterator[Moment]:
    expired_ms = _expiry_ms(kill, later)
    yield _moment(kill, expired_ms, kill.at_ms, "ZooKeeper expires its session", f"/brokers/ids/{kill.broker} is gone")
    if kill.was_controller:
        elected = _of(ControllerElected, later)[0]
        yield _moment(
            kill, elected.at_ms, expired_ms, f"broker {elected.broker} becomes controller", f"epoch {elected.epoch}"
        )
    changes = [one for one in _elections(kill, later) if one.at_ms == election_times(kill, later)[one.partition]]
    elected_ms = max(one.at_ms for one in changes)
    detail = ", ".join(f"{one.partition} → broker {one.leader}" for one in sorted(changes, key=lambda x: x.partition))
    yield _moment(kill, elected_ms, expired_ms, "the controller elects leaders", detail)
    serving_ms = max((one.at_ms for one in _take_overs(kill, changes, later)), default=elected_ms)
    yield _moment(kill, serving_ms, elected_ms, "the new leaders serve", f"in sync {_in_sync(changes)}")
    after = {partition: first for partition, (_, first) in around.items() if first is not None}
    if after:
        detail = ", ".join(f"{one}: {(at - kill.at_ms) / 1000:.3f} s" for one, at in sorted(after.items()))
        yield _moment(kill, min(after.values()), serving_ms, "first write acknowledged", f"partition {detail}")


def _return(kill: Kill, later: Sequence[Entry]) -> Iterator[Moment]:
    yield Moment(kill.started_ms - kill.at_ms, None, f"broker {kill.broker} is started again")
    registered = [e for e in _of(Registered, later) if e.broker == kill.broker and e.at_ms >= kill.started_ms]
    if not registered:
        raise Incomplete(f"broker {kill.broker} did not log that it is registered again")
    registered_ms = registered[0].at_ms
    yield _moment(kill, registered_ms, kill.started_ms, "it is registered", "its logs are recovered")
    cut = [entry for entry in _of(Truncated, later) if entry.at_ms >= kill.started_ms]
    if cut:
        records = sum(entry.from_offset - entry.to_offset for entry in cut)
        detail = f"{records} records nobody was promised"
        yield _moment(kill, cut[-1].at_ms, registered_ms, "it drops what only it had", detail)
    back: dict[int, float] = {}
    for change in _of(LeadershipChanged, later):
        if change.at_ms >= registered_ms and kill.broker in change.in_sync:
            back.setdefault(change.partition, change.at_ms)
    if not back:
        raise Incomplete(f"broker {kill.broker} did not come back into any in-sync set")
    yield _moment(kill, max(back.values()), registered_ms, "it is in sync again", named(back))


def _expiry_ms(kill: Kill, later: Sequence[Entry]) -> float:
    """Return when a controller noticed that the broker is gone (ms since 1970). Raises Incomplete.

    It notices that in `/brokers/ids`; if the dead broker was the controller, the others notice it in `/controller`.
    """
    if kill.was_controller:
        seen = [entry.at_ms for entry in _of(ControllerElected, later)]
    else:
        seen = [entry.at_ms for entry in _of(BrokersChanged, later) if kill.broker in entry.dead]
    if not seen:
        raise Incomplete(f"no controller logged that broker {kill.broker} is gone")
    return seen[0]


def _elections(kill: Kill, found: Iterable[Entry]) -> list[LeadershipChanged]:
    """Return the changes of leader from the dead broker to a living one, since it was killed."""
    return [
        change
        for change in _of(LeadershipChanged, found)
        if change.at_ms >= kill.at_ms and change.leader_before == kill.broker and change.leader not in (-1, kill.broker)
    ]


def _take_overs(kill: Kill, changes: Iterable[LeadershipChanged], later: Iterable[Entry]) -> list[TookOver]:
    """Return the first entry in which each elected leader says that it leads."""
    wanted = {(change.partition, change.leader) for change in changes}
    first = {(one.partition, one.broker): one for one in reversed(_of(TookOver, later))}
    return [first[place] for place in wanted if place in first]


def _in_sync(changes: Iterable[LeadershipChanged]) -> str:
    return " and ".join(sorted({",".join(map(str, sorted(change.in_sync))) for change in changes}))


def _moment(kill: Kill, at_ms: float, since_ms: float | None, what: str, detail: str) -> Moment:
    took_ms = None if since_ms is None else max(0.0, at_ms - since_ms)
    return Moment(at_ms - kill.at_ms, took_ms, what, detail)


def _of(kind: type[E], found: Iterable[object]) -> list[E]:
    return [entry for entry in found if isinstance(entry, kind)]
