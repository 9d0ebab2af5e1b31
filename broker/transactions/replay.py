"""Transactional ids, read back from the batches of one partition of `__transaction_state`."""

from collections.abc import Iterator

from odradek.broker.transactions.records import read_key, read_value
from odradek.broker.transactions.transaction import Snapshot, Transaction
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import batches
from odradek.protocol.records import decode_records


class Replay:
    """What the batches seen so far amount to. `next_offset`: of the first record not seen yet."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self._states: dict[str, Snapshot] = {}

    def steps(self, data: Buffer) -> Iterator[None]:
        """Take in the whole batches of `data`, pausing after each. Raises MalformedMessage."""
        for position, header in batches(data, allow_partial_tail=True):
            if not header.is_control:
                records = decode_records(data, position)
                for offset, key, value in zip(records.offsets, records.keys, records.values, strict=True):
                    self._take(offset, key, value)
            self.next_offset = header.next_offset
            yield

    def results(self) -> Iterator[Transaction]:
        for transactional_id, state in self._states.items():
            yield Transaction(transactional_id, state)

    def _take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            raise MalformedMessage(f"record {offset} has no key")
        transactional_id = read_key(key)
        if transactional_id is None:
            return
        if value is None:
            self._states.pop(transactional_id, None)
        else:
            self._states[transactional_id] = read_value(value)
