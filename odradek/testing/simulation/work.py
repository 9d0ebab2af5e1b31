"""Work: nobody asks another host so often that it cannot have a reason to.

A loop that gets nowhere, such as a follower that is told again and again to truncate and does not, harms no record. It
costs a processor. Who gets somewhere has more to say: what the controller writes into ZooKeeper it tells the brokers,
so that forty replicas that move at once are no loop, though they are as loud. A loop that writes each time is one too.
"""

from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.testing.virtual_network import VirtualNetwork

WINDOW_MS = 2_000.0
MOST_PER_SECOND = 250
"""So often a host may send something to another one."""
MOST_FOR_A_CHANGE = 4
"""So much more for each change in ZooKeeper: its controller's LeaderAndIsr and UpdateMetadata, and the answers."""
MOST_CHANGES_PER_SECOND = 200
"""So many changes count; twice what moves of all replicas at once have been seen to need."""


class Work:
    """Counts what the hosts of one cluster send each other."""

    def __init__(self, cluster: EmbeddedCluster, history: History) -> None:
        assert isinstance(cluster.network, VirtualNetwork)
        self._network, self._clock, self._history = cluster.network, cluster.clock, history
        self._zookeeper = cluster.zookeeper
        self._since_ms, self._since_zxid = cluster.clock.monotonic_ms(), cluster.zookeeper.tree.last_zxid

    def look(self) -> None:
        """Look at what was sent since the last window."""
        passed_ms, zxid = self._clock.monotonic_ms() - self._since_ms, self._zookeeper.tree.last_zxid
        if passed_ms < WINDOW_MS:
            return
        changes = min(zxid - self._since_zxid, MOST_CHANGES_PER_SECOND * passed_ms / 1000)
        most = MOST_PER_SECOND * passed_ms / 1000 + MOST_FOR_A_CHANGE * changes
        for (source, target), count in self._network.sent.items():
            if count > most:
                self._history.violated(f"{source} has sent {target} something {count} times in {passed_ms:.0f} ms")
        self._network.sent.clear()
        self._since_ms, self._since_zxid = self._since_ms + passed_ms, zxid
