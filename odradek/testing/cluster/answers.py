"""Faults of the protocol: which answers clients get, and when."""

from odradek.protocol.errors import ErrorCode
from odradek.testing.cluster.core import ClusterCore
from odradek.testing.cluster.options import ClusterError
from odradek.testing.cluster.protocol_faults import (
    ActiveFault,
    Delay,
    DropAnswer,
    DropConnection,
    Fault,
    Hold,
    Refuse,
    error_named,
)
from odradek.testing.cluster.refusals import Aim


class AnswerFaults(ClusterCore):
    """Faults of requests to one API, `Produce` for example; `respond` explains the arguments that they share."""

    async def respond(
        self,
        api: str,
        error: str | int,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client: str | None = None,
        times: int | None = 1,
        after: int = 0,
    ) -> Fault:
        """Answer requests to an API with an error, by Kafka's name or number, instead of handling them.

        `topic`, `partition`: only requests that name it, and only that part of them. `client`: only those of this
        client.id; without it those of all clients but the brokers, which are `broker-N`; `"*"` is everybody. `after`:
        let so many through first. `times`: strike so many, None for all until `clear`. Returns the fault, for `clear`
        and `wait_for`. Raises ClusterError for an unknown API, error, topic or partition.
        """
        code = error_named(error)
        if code is ErrorCode.NONE:
            raise ClusterError("NONE is no error: delay, drop_answer and hold leave the answer as it is")
        aim = Aim(topic, partition)
        return self._add(Refuse, f"{code.name} to", api, aim, client, times, after, code=code)

    async def delay(
        self,
        api: str,
        ms: float,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client: str | None = None,
        times: int | None = 1,
        after: int = 0,
    ) -> Fault:
        """Handle requests to an API, but answer `ms` milliseconds later. Other arguments: see `respond`."""
        if ms < 0:
            raise ClusterError(f"ms={ms}: a delay is not negative")
        return self._add(
            Delay, f"{ms:g} ms before answers to", api, Aim(topic, partition), client, times, after, delay_ms=ms
        )

    async def drop_answer(
        self,
        api: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client: str | None = None,
        times: int | None = 1,
        after: int = 0,
    ) -> Fault:
        """Handle requests to an API, then break the connection instead of answering. Arguments: see `respond`."""
        aim = Aim(topic, partition)
        return self._add(DropAnswer, "lost answer to", api, aim, client, times, after, network=self.network)

    async def drop_connection(
        self,
        api: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client: str | None = None,
        times: int | None = 1,
        after: int = 0,
    ) -> Fault:
        """Break the connection instead of handling requests to an API. Arguments: see `respond`."""
        return self._add(DropConnection, "broken connection for", api, Aim(topic, partition), client, times, after)

    async def hold(
        self,
        api: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client: str | None = None,
        times: int | None = 1,
        after: int = 0,
    ) -> Fault:
        """Handle requests to an API, but hold the answers until `release`. Arguments: see `respond`.

        `wait_for(fault=…)` waits until an answer is held.
        """
        return self._add(Hold, "held answer to", api, Aim(topic, partition), client, times, after)

    async def release(self, fault: Fault) -> None:
        """Send the answers that a `hold` holds back, and end it. Raises ClusterError for another kind of fault."""
        if not isinstance(self.faults.get(fault), Hold):
            raise ClusterError(f"{fault} holds nothing")
        await self.clear(fault)

    async def clear(self, fault: Fault | None = None) -> None:
        """End a fault that `respond`, `delay`, `hold` or a `drop_…` has returned; without one, all of them."""
        self.faults.clear(fault)
        self.arrange_all()

    def _add(
        self,
        kind: type[ActiveFault],
        text: str,
        api: str,
        aim: Aim,
        client: str | None,
        times: int | None,
        after: int,
        **values: object,
    ) -> Fault:
        fault = self.faults.add(kind, text, api, aim, client, times, after, **values)
        self.note("test", f"wants {fault}")
        self.arrange_all()
        return fault
