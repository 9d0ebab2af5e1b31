"""What a coordinator needs of the rest of the broker: the log of its topic."""

from collections.abc import Callable
from typing import Protocol

from odradek.protocol.errors import ErrorCode


class TopicStorage(Protocol):
    """The partitions of `__consumer_offsets`, or of `__transaction_state`, as this broker has them."""

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        """Append one batch as the leader with acks=all. `done` is called once, perhaps before this returns.

        NONE: every replica in sync has it. Any error of Produce otherwise; NOT_LEADER_OR_FOLLOWER when not the leader.
        """

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Batches from `offset` on, the first one whole, the last one perhaps not; and the log end offset.

        Raises KafkaError when there is no such log, OSError or KafkaError when it cannot be read.
        """

    def log_start_offset(self, partition: int) -> int:
        """The first offset that can be read; raises KafkaError when there is no such log."""
