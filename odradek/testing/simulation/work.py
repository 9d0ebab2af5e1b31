"""Work: nobody asks another host so often that it cannot have a reason to.

A loop that gets nowhere, such as a follower that is told again and again to truncate and does not, harms no record. It
costs a processor.
"""

from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.testing.virtual_network import VirtualNetwork

WINDOW_MS = 2_000.0
MOST_PER_SECOND = 250
"""So often a host may send something to another one."""


class Work:
    """Counts what the hosts of one cluster send each other."""

    def __init__(self, cluster: EmbeddedCluster, history: History) -> None:
        assert isinstance(cluster.network, VirtualNetwork)
        self._network, self._clock, self._history = cluster.network, cluster.clock, history
        self._since_ms = cluster.clock.monotonic_ms()

    def look(self) -> None:
        """Look at what was sent since the last window."""
        passed_ms = self._clock.monotonic_ms() - self._since_ms
        if passed_ms < WINDOW_MS:
            return
        for (source, target), count in self._network.sent.items():
            if count > MOST_PER_SECOND * passed_ms / 1000:
                self._history.violated(f"{source} has sent {target} something {count} times in {passed_ms:.0f} ms")
        self._network.sent.clear()
        self._since_ms += passed_ms
