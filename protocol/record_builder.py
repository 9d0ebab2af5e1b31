"""A batch that grows record by record, as a producer fills it."""

from odradek.protocol import compression
from odradek.protocol.record_batch import (
    HEADER_BYTES,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    assemble_batch,
    batch_attributes,
)
from odradek.protocol.records import NO_HEADERS, Headers, append_record, encode_headers, wrap_int64


class BatchBuilder:
    """Records are encoded when they come; `build` only compresses and puts the header before them."""

    __slots__ = ("_base_timestamp", "_max_timestamp", "_section", "record_count")

    def __init__(self) -> None:
        self.record_count = 0
        self._section = bytearray()
        self._base_timestamp = 0
        self._max_timestamp = 0

    @property
    def size_bytes(self) -> int:
        """Size of the batch as it would be without compression: exact."""
        return HEADER_BYTES + len(self._section)

    @property
    def max_timestamp(self) -> int:
        """The largest so far; 0 before the first record."""
        return self._max_timestamp

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
        """Add a record; its number in the batch, from 0."""
        index = self.record_count
        if index == 0:
            self._base_timestamp = timestamp_ms
            self._max_timestamp = timestamp_ms
        elif timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        raw_headers = encode_headers(headers) if headers else NO_HEADERS
        append_record(self._section, index, wrap_int64(timestamp_ms - self._base_timestamp), key, value, raw_headers)
        self.record_count = index + 1
        return index

    def build(
        self,
        *,
        codec: int = compression.NONE,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> bytearray:
        """Return the batch, with base offset 0; may be called again. At least one record must have been added."""
        assert self.record_count > 0
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC_V2,
            crc=0,
            attributes=batch_attributes(codec, transactional, False, False, False),
            last_offset_delta=self.record_count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.record_count,
        )
        if codec == compression.NONE:
            return assemble_batch(header, self._section)
        return assemble_batch(header, compression.compress(codec, self._section, level=level))
