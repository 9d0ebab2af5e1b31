"""Faults that wait for the moment in which something is under way that must have no effect any more: an answer to a
follower, batches behind one that is refused."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from odradek.protocol.messages.fetch import FetchRequest
from odradek.testing.simulation.directing import Cast, Director
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.repeated_requests import RepeatedRequests

SLOW_MS = (250.0, 400.0)
UNEVEN_MS = (0.1, 300.0)
PRODUCERS = ("producer-0", "producer-1")


class UnderWayMoments(Director):
    """Situations on the brokers of one cluster; `topic`: that to which idempotent producers write."""

    def __init__(self, others: Faults, requests: RepeatedRequests, topic: str) -> None:
        super().__init__(others, requests)
        self._topic = topic
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "late_answers": self.late_answers,
            "refused_in_between": self.refused_in_between,
        }

    async def late_answers(self) -> None:
        """A leader's answer to a follower is under way while another one leads and the first is back: it has cut off
        what the answer holds."""
        cast = self.cast()
        if cast is None:
            return
        late, heir = cast.followers
        answers = self.requests.way(FetchRequest.API_KEY, late.host, cast.leader.host)
        copies = self.requests.way(FetchRequest.API_KEY, heir.host, cast.leader.host)
        others = self.requests.way(FetchRequest.API_KEY, late.host, heir.host)
        if answers is None or answers.back is None or copies is None or copies.back is None or others is None:
            return
        held = (answers.back, copies.back, others)
        with self.reserved(cast):
            self.note(f"{cast.topic}-{cast.index}: {late.host} is to hear late of what {cast.leader.host} has written")
            for way in held:
                way.stall()
            await self.until(lambda: (led := cast.led) is None or led.log.log_end_offset > led.high_watermark)
            await self._there_and_back(cast, replace(cast, leader=heir), copies.back.go_on)
            with self.others.network_latency.at(SLOW_MS):
                for way in held:
                    way.go_on()
                await asyncio.sleep(0.6)

    async def _there_and_back(self, cast: Cast, heir: Cast, elected: Callable[[], object]) -> None:
        """Have the heir lead (`elected` is called) until the former leader has copied from it; then that one again."""
        partition, give = (cast.topic, cast.index), self.others.administrator.give_the_lead_to
        await give(partition, heir.leader.broker_id)
        await self.until(lambda: heir.led is not None)
        elected()
        await self.until(lambda: heir.led is None or _is_copied(cast, heir))
        await give(partition, cast.leader.broker_id)
        await self.until(lambda: cast.led is not None)
        await asyncio.sleep(0.2)

    async def refused_in_between(self) -> None:
        """A leader is not the leader for a moment, while batches of slow producers are on their way to it: it refuses
        some, and is to refuse those behind them as well."""
        for _ in range(self.random.randint(2, 6)):
            cast = self.cast(self._topic)
            if cast is None:
                return
            with self.reserved(cast):
                self.note(f"{cast.topic}-{cast.index}: {cast.leader.host} is to refuse some batches")
                self.network.latency_ms_from |= dict.fromkeys(PRODUCERS, UNEVEN_MS)
                await asyncio.sleep(self.random.uniform(0.5, 1.0))
                await self._there_and_back(cast, replace(cast, leader=cast.followers[0]), lambda: None)
                for host in PRODUCERS:
                    self.network.latency_ms_from.pop(host, None)


def _is_copied(cast: Cast, heir: Cast) -> bool:
    """Tell whether the former leader has all that the heir has, or one of them is gone."""
    copy, led = cast.replica(cast.leader), heir.led
    return copy is None or led is None or copy.log.log_end_offset == led.log.log_end_offset
