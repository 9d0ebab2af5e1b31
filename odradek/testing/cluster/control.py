"""Control of a cluster: all that can be done with it, as coroutines on its own loop.

Tests on a cluster's own loop (odradek.testing.run) use this directly; `Cluster` has the same methods without `async`.
"""

import random

from odradek.testing.cluster.answers import AnswerFaults
from odradek.testing.cluster.inspection import Inspection
from odradek.testing.cluster.options import ClusterError, Options
from odradek.testing.process_loop import SocketLoop
from odradek.testing.socket_network import PortTaken, SocketNetwork
from odradek.world.clock import LoopClock


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
