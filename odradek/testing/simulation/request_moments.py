"""Faults that wait for the moment in which one broker asks another something: for one of the two to be gone, before the
request arrives, while it is answered, or when it has been; or for the request to arrive when it has been given up."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial

from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.directing import Director
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.repeated_requests import OF_CONTROLLERS, RepeatedRequests
from odradek.testing.virtual_clock import VirtualLoop
from odradek.testing.virtual_pipe import Pipe

REQUESTS_MAX = 6
REQUESTS_PATIENCE_S = 6.0
HELD_MAX = 3
LATE_MS = 3.0
"""Most that passes between a request and what befalls a broker then: about what it takes to be answered."""
SUSPENDED = 0.3
"""Share of the brokers that are suspended instead of killed."""


class RequestMoments(Director):
    """Requests between the brokers of one cluster, at which one of them is gone."""

    def __init__(self, others: Faults, requests: RepeatedRequests) -> None:
        super().__init__(others, requests)
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "death_at_a_request": self.death_at_a_request,
            "given_up_requests": self.given_up_requests,
        }

    async def death_at_a_request(self) -> None:
        """Kill, or suspend, a broker when it asks another something, or is asked; let it go on after a while."""
        if not self.requests.kinds:
            return
        struck: asyncio.Future[EmbeddedBroker] = asyncio.get_running_loop().create_future()
        listener = self._listener(struck)
        self.requests.listeners.append(listener)
        await asyncio.wait([struck], timeout=REQUESTS_PATIENCE_S)
        self.requests.listeners.remove(listener)
        if not struck.done():
            struck.cancel()
            return
        broker = struck.result()
        await self.others.pass_time(0.05, 12.0)
        broker.resume()
        if not broker.running:
            await self.others.start(broker)
        self.others.busy.discard(broker.broker_id)

    def _listener(self, struck: asyncio.Future[EmbeddedBroker]) -> Callable[[int, str, str], None]:
        """Return what strikes a broker at one of the next requests of some kind, and says so by the future."""
        kind, the_one_that_asks = self.random.choice(self.requests.kinds), self.random.random() < 0.5
        left = self.random.randint(1, REQUESTS_MAX)
        delay_ms = self.random.choice((0.0, self.random.uniform(0.0, LATE_MS)))
        deed = EmbeddedBroker.suspend if self.random.random() < SUSPENDED else EmbeddedBroker.kill
        loop, context = asyncio.get_running_loop(), copy_context()
        assert isinstance(loop, VirtualLoop)
        brokers = {broker.host: broker for broker in self.cluster.brokers}

        def strike(broker: EmbeddedBroker, said: str) -> None:
            if not struck.done() and self.others.is_free(broker):
                self.others.busy.add(broker.broker_id)
                self.note(f"{deed.__name__} {broker.host} at {said}")
                deed(broker)
                struck.set_result(broker)

        def hear(api_key: int, source: str, target: str) -> None:
            nonlocal left
            if api_key != kind:
                return
            left -= 1
            if left > 0:
                return
            broker = brokers[source if the_one_that_asks else target]
            strikes = partial(strike, broker, f"a request {kind} of {source} to {target}")
            if delay_ms:
                loop.call_later(delay_ms / 1000, strikes, context=context)
            else:
                loop.call_next(strikes, context)

        return hear

    async def given_up_requests(self) -> None:
        """Hold back something that the controller tells a broker until it has given it up and told it again by another
        connection. What it has to tell: mostly that a topic makes way for another of its name."""
        controller, administrator = self.others.free_controller(), self.others.administrator
        if controller is None:
            return
        told, kind = self.random.choice(self.cluster.brokers), self.random.choice(OF_CONTROLLERS)
        held: asyncio.Future[Pipe] = asyncio.get_running_loop().create_future()
        hold = self._holder(held, kind, controller.host, told.host)
        self.requests.listeners.append(hold)
        work = (administrator.replace_topic, administrator.change_topics, administrator.elect_leaders)
        asked = asyncio.ensure_future(self.random.choices(work, (4, 1, 1))[0]())
        await asyncio.wait([held], timeout=REQUESTS_PATIENCE_S)
        self.requests.listeners.remove(hold)
        if held.done():
            given_up = held.result()
            again = await self.until(lambda: self.requests.way(kind, controller.host, told.host) is not given_up)
            await asyncio.sleep(self.random.uniform(0.0, 2.0))
            self.note(f"{told.host} hears of it now, {'when it has' if again else 'it has not'} been told again")
            given_up.go_on()
        await asked

    def _holder(self, held: "asyncio.Future[Pipe]", kind: int, source: str, target: str) -> Callable[..., None]:
        """Return what stalls the connection of one of the next such requests, and tells it by the future."""
        left = self.random.randint(1, HELD_MAX)

        def hear(*request: object) -> None:
            nonlocal left
            left -= request == (kind, source, target)
            way = self.requests.way(kind, source, target)
            if left == 0 and way is not None and not held.done():
                self.note(f"{target} is to hear late of a request {kind} of {source}, the controller")
                way.stall()
                held.set_result(way)

        return hear
