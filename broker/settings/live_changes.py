"""What a running broker does not take although its file might say so.

Source: the Reconfigurables of DynamicBrokerConfig (DynamicThreadPool, SocketServer, LogCleaner) of Kafka 3.9.
"""

from typing import Final

from odradek.broker.settings.definition import BadValue
from odradek.broker.settings.layers import Layers

THREADS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "log.cleaner.threads",
)
"""At most doubled and at most halved by one change."""


def check_live_change(before: Layers, after: Layers) -> None:
    """Raises BadValue."""
    for name in THREADS:
        old, new = before.value(name), after.value(name)
        assert isinstance(old, int) and isinstance(new, int), (name, old, new)
        if new > old * 2:
            raise BadValue(name, str(new), f"value should not be greater than double the current value {old}")
        if new < old // 2:
            raise BadValue(name, str(new), f"value should be at least half the current value {old}")
    if after.value("max.connections") == 0:
        raise BadValue("max.connections", "0", "nobody could connect any more")
