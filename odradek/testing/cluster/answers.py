"""Faults by protocol: what clients are answered, and when."""

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
    """Each takes the name of an API, and tells which of its requests it is for.

    `topic`, `partition`: those that name it, and an error is for that part of a request only. `client`: those of one
    client id, else those of all clients; brokers are spared, unless `client` is `broker-N`, or `"*"` for everybody.
    `after`: so many are let through first. `times`: so many are struck, None until `clear`. Each returns a Fault to
    clear or to wait for, and raises ClusterError for a name that is not known.
    """

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
        """Answer with an error, by Kafka's name or number, and do nothing of what is asked."""
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
        """Do what is asked, and answer so many milliseconds later."""
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
        """Do what is asked, and break the connection instead of answering."""
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
        """Break the connection instead of doing what is asked."""
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
        """Do what is asked, and answer when `release` is called. `wait_for(fault=…)` waits until one is held."""
        return self._add(Hold, "held answer to", api, Aim(topic, partition), client, times, after)

    async def release(self, fault: Fault) -> None:
        """Let the answers go out that a `hold` holds, and hold no more."""
        if not isinstance(self.faults.get(fault), Hold):
            raise ClusterError(f"{fault} holds nothing")
        await self.clear(fault)

    async def clear(self, fault: Fault | None = None) -> None:
        """End one fault of these, or all."""
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
