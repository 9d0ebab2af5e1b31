"""Control of a cluster: all that can be done with it, as coroutines on its own loop.

Its faults of the protocol (which answers clients get, and when) are here; brokers, waits and looks inside are bases.
Tests on a cluster's own loop (odradek.testing.run) use it directly; `Cluster` has the same methods without `async`.
"""

import random

from odradek.protocol.errors import ErrorCode
from odradek.testing.cluster.core import ClusterCore
from odradek.testing.cluster.inspection import Inspection
from odradek.testing.cluster.options import ClusterError, Options
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
from odradek.testing.process_loop import SocketLoop
from odradek.testing.socket_network import PortTaken, SocketNetwork
from odradek.world.clock import LoopClock


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
        how many to let through first. `times`: how many to strike, None for all until `clear`. Returns the fault, for
        `clear` and `wait_for`. The topic may be created later; `wait_for` says when it is not there. Raises
        ClusterError for an unknown API or error.
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


class AsyncCluster(Inspection, AnswerFaults):
    """Brokers 0 to n-1 and their ZooKeeper, and all that a test may do to them and see of them."""


class SocketClock(LoopClock):
    """Wall time, which may be set wrong for one machine."""

    def __init__(self, loop: SocketLoop) -> None:
        super().__init__(loop)
        self._socket_loop = loop
        self.wall_offset_ms = 0
        """What is added to the real time."""

    def now_ms(self) -> int:
        return super().now_ms() + self.wall_offset_ms

    def now_s(self) -> float:
        return self.now_ms() / 1000.0

    def beside(self) -> "SocketClock":
        """Return a clock of the same loop with a wall clock of its own."""
        return SocketClock(self._socket_loop)


async def on_sockets(options: Options, loop: SocketLoop) -> AsyncCluster:
    """Make a cluster on real sockets of 127.0.0.1 and wall time, not started. Raises ClusterError."""
    network = SocketNetwork(loop)
    try:
        return AsyncCluster(options, SocketClock(loop), network, seed=random.SystemRandom().randrange(1 << 32))
    except PortTaken as taken:
        network.close()
        raise ClusterError(str(taken.strerror)) from taken
    except BaseException:
        network.close()
        raise
