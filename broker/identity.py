"""Who this broker is."""

from dataclasses import dataclass


@dataclass(slots=True)
class Identity:
    """`broker_epoch` changes with each registration in ZooKeeper (the creation's transaction id); -1 before the first."""

    broker_id: int
    cluster_id: str
    broker_epoch: int = -1
