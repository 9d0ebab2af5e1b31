"""Who this broker is."""

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
    def least_epoch(self) -> int:
        """What controllers say to an earlier registration comes too late: others may lead since what we led by it."""
        return self.broker_epoch + 1 if self.session_over else self.broker_epoch
