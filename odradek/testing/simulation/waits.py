"""Waiting: no request waits for longer than it has to.

One that is forgotten in the purgatory harms no record: it is answered at its deadline. Its client has waited in vain.
"""

from collections.abc import Iterator

from odradek.broker.replication.replica_manager import AwaitedAppend, DelayedProduce
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.history import History


class Waits:
    """Watches what waits in the brokers of one cluster until records are committed."""

    def __init__(self, cluster: EmbeddedCluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._known: set[DelayedProduce] = set()
        """Operations that could have been answered when they were looked at last."""

    def look(self) -> None:
        """Look at all brokers that run, of which each has had the time to do something since the last look."""
        known = {
            waiting: broker
            for broker in self._cluster.brokers
            if broker.running and not broker.suspended
            for waiting in self._could_be_answered(broker)
        }
        for waiting, broker in known.items():
            if waiting in self._known:
                appended = ", ".join(f"{one.partition} up to {one.required_offset}" for one in waiting.appends)
                self._history.violated(f"{broker.host}: a request waits though its outcome is known: {appended}")
        self._known = set(known)

    @staticmethod
    def _could_be_answered(broker: EmbeddedBroker) -> Iterator[DelayedProduce]:
        for operation in broker.server.services.replicas.purgatory.unfinished():
            if isinstance(operation, DelayedProduce) and all(map(is_known, operation.appends)):
                yield operation


def is_known(append: AwaitedAppend) -> bool:
    """Tell whether the outcome of an append can be told."""
    partition = append.partition
    return append.error is not None or not partition.is_leader or partition.high_watermark >= append.required_offset
