"""The newest record of each key of a compacted log, told from its batches: what compaction has to keep."""

from odradek.protocol.control_records import ControlType, control_type
from odradek.protocol.record_batch import batches
from odradek.protocol.records import decode_records


class NewestRecords:
    """Newest records of the batches seen so far, which come in their order. Those of aborted transactions do not count,
    those of open ones not yet."""

    def __init__(self) -> None:
        self.end = 0
        """Offset after the last batch."""
        self._newest: dict[bytes, tuple[int, bytes | None]] = {}
        self._open: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}
        """Of each producer's open transaction."""

    def take(self, data: bytes) -> None:
        """Take in whole batches; those before `end` are passed over."""
        for position, header in batches(data):
            if header.base_offset < self.end:
                continue
            self.end = header.next_offset
            columns = decode_records(data, position)
            if header.is_control:
                committed = bool(columns.keys) and control_type(columns.keys[0]) is ControlType.COMMIT
                self._end_transaction(header.producer_id, committed=committed)
                continue
            into = self._open.setdefault(header.producer_id, {}) if header.is_transactional else self._newest
            for offset, named, content in zip(columns.offsets, columns.keys, columns.values, strict=True):
                into[named or b""] = (offset, content)

    def _end_transaction(self, producer_id: int, *, committed: bool) -> None:
        ended = self._open.pop(producer_id, {})
        for key, record in ended.items() if committed else ():
            if record[0] > self._newest.get(key, (-1, None))[0]:
                self._newest[key] = record

    @property
    def values(self) -> dict[bytes, bytes]:
        """Value of each key that has one."""
        return {key: value for key, (_, value) in self._newest.items() if value is not None}
