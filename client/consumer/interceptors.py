"""Interceptors of a consumer (`interceptor.classes`, KIP-42): they see what is handed out and what was committed."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.client.records import ConsumerRecord, OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)
Records = dict[TopicPartition, list[ConsumerRecord]]


class ConsumerInterceptors:
    """Objects with `on_consume(records) -> records` and `on_commit(offsets)`, called in their order.

    What one raises is logged, and the next gets what that one was given.
    """

    def __init__(self, chain: Sequence[Any]) -> None:
        """Take the objects."""
        self._chain = chain

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_consume(self, records: Records) -> Records:
        """Return what the application gets. On the thread that polls."""
        for one in self._chain:
            try:
                records = one.on_consume(records)
            except Exception:
                logger.exception("interceptor %s failed in on_consume", type(one).__name__)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        """Tell of a commit that has succeeded."""
        for one in self._chain:
            try:
                one.on_commit(offsets)
            except Exception:
                logger.exception("interceptor %s failed in on_commit", type(one).__name__)
