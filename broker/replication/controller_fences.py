"""What is remembered of controllers' requests, so that one that comes late changes nothing."""

from odradek.protocol.primitives import ZERO_UUID

DELETED_REMEMBERED_MAX = 10_000


class DeletedReplicas:
    """Leader epochs that replicas had when they were deleted here, the last DELETED_REMEMBERED_MAX of them.

    A late LeaderAndIsr, from before the deletion, would make an empty replica, which might even lead. The leader epoch
    of a partition only grows as long as its topic has the same id; a topic that is created again under an old name has
    another. Without ids (LeaderAndIsr before version 5) nothing is remembered and nothing refused. After a restart no
    memory is needed: requests for an earlier run of the broker carry its earlier broker epoch.
    """

    def __init__(self) -> None:
        self._leader_epochs: dict[tuple[bytes, int], int] = {}

    def note(self, topic_id: bytes, index: int, leader_epoch: int) -> None:
        """Remember that the replica has been deleted in this leader epoch."""
        if topic_id == ZERO_UUID:
            return
        self.forget(topic_id, index)
        self._leader_epochs[topic_id, index] = leader_epoch
        if len(self._leader_epochs) > DELETED_REMEMBERED_MAX:
            del self._leader_epochs[next(iter(self._leader_epochs))]

    def forget(self, topic_id: bytes, index: int) -> None:
        """Take note that the replica is here again."""
        self._leader_epochs.pop((topic_id, index), None)

    def deleted_after(self, topic_id: bytes, index: int, leader_epoch: int) -> bool:
        """Tell whether the replica has been deleted in a later leader epoch than this."""
        return leader_epoch < self._leader_epochs.get((topic_id, index), leader_epoch)


class LatestConnection:
    """The latest connection on which the current controller has spoken.

    A controller has one connection to each broker. When it waits in vain for an answer it gives that one up, and sends
    the same again on another; what the network still held of the first may arrive much later. A StopReplica names no
    topic id, and for a topic that is being deleted no leader epoch: it would delete the replica of a topic that was
    created again. In Kafka 3.9 it does, and metadata of that time is taken over, too.
    """

    def __init__(self) -> None:
        self._controller_epoch = self._connection = -1

    def is_late(self, controller_epoch: int, connection: int) -> bool:
        """Tell whether a request may have been given up; the epoch is the highest that any controller has named."""
        if controller_epoch != self._controller_epoch:
            self._controller_epoch, self._connection = controller_epoch, connection
        self._connection = max(self._connection, connection)
        return connection < self._connection
