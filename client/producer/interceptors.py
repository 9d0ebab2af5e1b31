"""Interceptors of a producer (`interceptor.classes`, KIP-42): they see each record before its send, and its outcome."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from odradek.client import arguments
from odradek.client.producer.batch import Callback
from odradek.client.records import Headers, RecordMetadata

logger = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """A record as interceptors see it: before serializers and partitioner."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptors:
    """Objects with `on_send(record) -> record` and `on_acknowledgement(metadata, error)`, called in their order.

    What one raises is logged, and the next gets the record that this one was given. The same holds when one returns
    something that is no record, such as None.
    """

    def __init__(self, chain: Sequence[Any]) -> None:
        """Take the objects."""
        self._chain = chain

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_send(
        self, record: ProducerRecord, callback: Callback | None
    ) -> tuple[str, Any, Any, Any, int | None, int | None, Callback | None]:
        """Return a record as the interceptors change it, and a callback that tells them, too, what became of it. Raises
        TypeError when `callback` is not a function."""
        if callback is not None:
            arguments.callback(callback, "the callback of a record")
        for one in self._chain:
            try:
                record = ProducerRecord(*one.on_send(record))
            except Exception:
                logger.exception("interceptor %s failed in on_send", type(one).__name__)

        def acknowledge(metadata: RecordMetadata | None, error: Exception | None) -> None:
            self.on_acknowledgement(metadata, error)
            if callback is not None:
                callback(metadata, error)

        return (*record, acknowledge)

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Tell the interceptors what became of a record, also when its `send` raises (Java:
        ProducerInterceptors.onSendError)."""
        for one in self._chain:
            try:
                one.on_acknowledgement(metadata, error)
            except Exception:
                logger.exception("interceptor %s failed in on_acknowledgement", type(one).__name__)
