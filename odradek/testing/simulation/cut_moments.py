"""Faults that wait for the moment in which a replica has to cut its log, or must not: what it remembers beside its
records (high watermark, its checkpoint, leader epochs) goes with the tail, and a tail that nobody else has stays."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from odradek.protocol.messages.fetch import FetchRequest
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.administration import OF_TOPIC
from odradek.testing.simulation.directing import Cast, Director
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.loose_topic import TOPIC as LOOSE
from odradek.testing.simulation.repeated_requests import RepeatedRequests

SLOW_ANSWER_MS = (250.0, 400.0)
"""Latency with which the watchers see what is between a cut and the records that follow it."""
SHORT_LIVED = {"segment.bytes": "1000", "retention.ms": "500"}
RETENTION_S = 2.5
"""Within so long a broker has looked for what is to be deleted."""


class CutMoments(Director):
    """Situations on the brokers of one cluster. `topic`: the one that is written to most; `expires`: its old records
    may be deleted."""

    def __init__(self, others: Faults, requests: RepeatedRequests, topic: str, *, expires: bool) -> None:
        super().__init__(others, requests)
        self._topic, self._expires = topic, expires
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "lost_tail": self.lost_tail,
            "two_histories": self.two_histories,
            "early_expiry": self.early_expiry,
        }

    async def lost_tail(self) -> None:
        """A leader alone in the ISR commits, and dies; who was not in the ISR leads, and commits less. The first one
        comes back, cuts off what it counted as committed, and copies what its leader has not committed yet."""
        cast = self.cast(LOOSE)
        if cast is None:
            return
        with self.reserved(cast):
            self.note(f"{LOOSE}: {cast.leader.host} is to commit alone, and to die")
            with self._without_fetches(cast):
                await self.until(lambda: (led := cast.led) is None or led.committed_isr == {cast.leader.broker_id})
                await asyncio.sleep(self.random.uniform(1.0, 4.0))
                if cast.leader.running:
                    cast.leader.kill()
            heirs = [replace(cast, leader=one, followers=[other]) for one, other in _both_ways(cast.followers)]
            await self.until(lambda: any(heir.led is not None for heir in heirs))
            heir = next((one for one in heirs if one.led is not None), heirs[0])
            await self.until(lambda: (led := heir.led) is None or heir.followers[0].broker_id in led.committed_isr)
            latency = self.others.network_latency
            with latency.at(self.random.choice((latency.now, SLOW_ANSWER_MS))), self._without_fetches(heir):
                await self.others.start(cast.leader)
                await asyncio.sleep(3.0)

    async def two_histories(self) -> None:
        """A leader writes what one follower alone copies, and dies; that one leads, writes more, and dies as well. The
        third one leads without either: the others have to cut off the beginning of an epoch and what was before it."""
        cast = self.cast()
        if cast is None or (led := cast.led) is None:
            return
        first, last = sorted(cast.followers, key=lambda broker: led.replicas.index(broker.broker_id))
        heir, third = replace(cast, leader=first), replace(cast, leader=last)
        with self.reserved(cast):
            writing = [cast.leader.host, first.host]
            self.note(f"{cast.topic}-{cast.index}: {writing} are to write without {last.host}")
            with self.apart(last, [cast.leader, first]):
                await self.until(lambda: _has_unconfirmed(cast, heir))
                self._kill(cast.leader)
                await self.until(lambda: heir.led is not None or third.led is not None)
                await self.until(
                    lambda: (led := heir.led) is None or led.log.log_end_offset > led.leader_epoch_start_offset
                )
                self._kill(first)
            await self.until(lambda: third.led is not None)
            with self.others.network_latency.at(SLOW_ANSWER_MS):
                for broker in (cast.leader, first):
                    if not broker.alive:
                        await self.others.start(broker)
                await self.until(lambda: (led := third.led) is None or led.committed_isr == set(led.replicas))

    async def early_expiry(self) -> None:
        """Make what a leader has written and nobody has copied old enough to be deleted, in segments of its own."""
        cast = self.cast(self._topic) if self._expires else None
        if cast is None:
            return
        with self.reserved(cast):
            self.note(f"{cast.topic}-{cast.index}: what {cast.leader.host} writes is to expire before it is replicated")
            for setting, value in SHORT_LIVED.items():
                await self.others.administrator.configure(OF_TOPIC, cast.topic, setting, value)
            with self.apart(cast.leader, cast.followers):
                await self.until(lambda: (led := cast.led) is None or led.log.active.base_offset > led.high_watermark)
                await asyncio.sleep(RETENTION_S)
            for setting in SHORT_LIVED:
                await self.others.administrator.configure(OF_TOPIC, cast.topic, setting, None)

    @staticmethod
    def _kill(broker: EmbeddedBroker) -> None:
        if broker.running:
            broker.kill()

    @contextmanager
    def _without_fetches(self, cast: Cast) -> Iterator[None]:
        """Hold back what the followers ask of the leader."""
        ways = [self.requests.way(FetchRequest.API_KEY, one.host, cast.leader.host) for one in cast.followers]
        held = [way for way in ways if way is not None]
        for way in held:
            way.stall()
        try:
            yield
        finally:
            for way in held:
                way.go_on()


def _both_ways(pair: list[EmbeddedBroker]) -> list[tuple[EmbeddedBroker, EmbeddedBroker]]:
    one, other = pair
    return [(one, other), (other, one)]


def _has_unconfirmed(cast: Cast, heir: Cast) -> bool:
    """Tell whether the heir has copied what is not committed, or the leader is gone."""
    led, copy = cast.led, heir.replica(heir.leader)
    return led is None or copy is None or copy.log.log_end_offset > led.high_watermark
