"""Who this broker is."""

from dataclasses import dataclass


@dataclass(slots=True)
class Identity:
    """`broker_epoch` is the transaction id of the registration in ZooKeeper: each has another, -1 before the first."""

    broker_id: int
    cluster_id: str
    broker_epoch: int = -1
