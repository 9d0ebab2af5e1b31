"""Ids of this broker and of its cluster, and the epoch of its registration."""

from dataclasses import dataclass


@dataclass(slots=True)
class Identity:
    """`broker_epoch` is the transaction id of the registration in ZooKeeper: each has another, -1 before the first."""

    broker_id: int
    cluster_id: str
    broker_epoch: int = -1
    session_over: bool = False
    """The session of that registration has ended, and there is no other registration yet."""

    @property
    def least_obeyed_epoch(self) -> int:
        """Smallest broker epoch whose requests of controllers are obeyed.

        While the session is over even those to our last registration are stale: others may lead since.
        """
        return self.broker_epoch + 1 if self.session_over else self.broker_epoch
