"""Produce and fetch requests that cannot be answered yet (FEATURES N3)."""

from collections.abc import Callable, Sequence

from odradek.broker.replication.partition import Partition
from odradek.broker.replication.reading import PartitionsRead
from odradek.protocol.errors import ErrorCode


class AwaitedAppend:
    """One partition's part of an acks=all request: answered when the high watermark has passed it."""

    __slots__ = ("error", "partition", "required_offset")

    def __init__(self, partition: Partition, required_offset: int) -> None:
        self.partition, self.required_offset = partition, required_offset
        self.error: ErrorCode | None = None
        """None while nobody knows."""

    def settle(self) -> bool:
        """Whether the outcome is known by now. A partition that we do not lead any more may yet lose the records."""
        if self.error is None:
            partition = self.partition
            if not partition.is_leader:
                self.error = partition.check_leadership()
            elif partition.high_watermark >= self.required_offset:
                few = partition.under_min_isr
                self.error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if few else ErrorCode.NONE
        return self.error is not None


class DelayedProduce:
    """Waits until all its appends are settled, at the latest until the request's timeout.

    `done` is called once; an append that is not settled at the deadline has `error` REQUEST_TIMED_OUT.
    """

    __slots__ = ("_appends", "_done")

    def __init__(self, appends: Sequence[AwaitedAppend], done: Callable[[], None]) -> None:
        self._appends, self._done = appends, done

    def try_complete(self) -> bool:
        # each append is asked every time: one may be settled for good before another can be
        settled = [append.settle() for append in self._appends]
        if all(settled):
            self._done()
            return True
        return False

    def expire(self) -> None:
        for append in self._appends:
            if not append.settle():
                append.error = ErrorCode.REQUEST_TIMED_OUT
        self._done()


class DelayedFetch:
    """Waits until `min_bytes` can be read, something is wrong with a partition, or `max_wait_ms` are over."""

    __slots__ = ("_done", "_min_bytes", "_read")

    def __init__(
        self, read: Callable[[], PartitionsRead], min_bytes: int, done: Callable[[PartitionsRead], None]
    ) -> None:
        self._read, self._min_bytes, self._done = read, min_bytes, done

    def try_complete(self) -> bool:
        read = self._read()
        if read.failed or read.total_bytes >= self._min_bytes:
            self._done(read)
            return True
        return False

    def expire(self) -> None:
        self._done(self._read())
