"""Records by topic, as columns, made from Spark's rows in Arrow.

The columns are those of Spark's own Kafka sink: `value` (text or bytes), and optionally `key` (text or bytes),
`headers` (a list of structs of `key` and `value`), `topic`, which the option of that name overrides, and `partition`.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow
import pyarrow.compute
from numpy.typing import NDArray

from odradek.client.errors import ClientError
from odradek.client.producer.partitioners import murmur2
from odradek.client.records import Headers

Integers = NDArray[numpy.int64]
NO_PARTITION = -1
LONG_KEY_BYTES = 256
"""Keys up to this length are hashed together, longer ones one by one."""
MASK_64 = (1 << 64) - 1
SEED, MULTIPLIER = 0x9747B28C, 0x5BD1E995


@dataclass(slots=True)
class Records:
    """Records of one topic, as columns. `partition` is None when keys decide, or nothing."""

    topic: str
    partition: int | None
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None
    hashes: NDArray[numpy.uint32] | None
    """murmur2 hashes of the keys, if these decide; meaningless where a key is None."""

    def __len__(self) -> int:
        return len(self.values)

    def digest(self) -> int:
        """Return a number that is the same for equal records in any order."""
        place = zlib.crc32(f"{self.topic} {self.partition}".encode())
        keys = (zlib.crc32(b"" if key is None else b"+" + key, place) for key in self.keys)
        total = sum(
            zlib.crc32(b"" if value is None else value, key) for key, value in zip(keys, self.values, strict=True)
        )
        if self.headers is not None:
            total += sum(zlib.crc32(repr(one).encode(), place) for one in self.headers if one)
        return total & MASK_64


def records_of(batch: pyarrow.RecordBatch, topic: str | None) -> Iterator[Records]:
    """Yield the rows of a batch by topic and partition. Raises ClientError for a row without a topic."""
    if not batch.num_rows:
        return
    names = batch.schema.names
    partitions = _partitions(batch) if "partition" in names else None
    if topic is not None and partitions is None:
        yield _records(batch, topic, None)
        return
    places = _places(batch, topic)
    numbers = partitions if partitions is not None else numpy.full(batch.num_rows, NO_PARTITION)
    keys = numpy.stack([places.indices.to_numpy().astype(numpy.int64), numbers])
    distinct, which = numpy.unique(keys, axis=1, return_inverse=True)
    which = which.reshape(-1)
    for place, (code, partition) in enumerate(distinct.T.tolist()):
        rows = batch if distinct.shape[1] == 1 else batch.take(pyarrow.array(numpy.flatnonzero(which == place)))
        yield _records(rows, places.dictionary[code].as_py(), None if partition == NO_PARTITION else partition)


def _partitions(batch: pyarrow.RecordBatch) -> Integers:
    column = batch.column("partition").cast(pyarrow.int64())
    numbers: Integers = pyarrow.compute.fill_null(column, NO_PARTITION).to_numpy(zero_copy_only=False)
    if (numbers < NO_PARTITION).any():
        raise ClientError(f"column partition: {numbers.min()} is not a partition's number")
    return numbers


def _places(batch: pyarrow.RecordBatch, topic: str | None) -> pyarrow.DictionaryArray:
    if topic is not None:
        zeros = pyarrow.array(numpy.zeros(batch.num_rows, dtype=numpy.int32))
        return pyarrow.DictionaryArray.from_arrays(zeros, pyarrow.array([topic]))
    column = batch.column("topic").cast(pyarrow.string())
    if column.null_count:
        raise ClientError("a row has no topic: fill the column topic, or give the option topic for all rows")
    return column.dictionary_encode()


def _records(batch: pyarrow.RecordBatch, topic: str, partition: int | None) -> Records:
    names = batch.schema.names
    keys: list[bytes | None] = [None] * batch.num_rows
    hashes = None
    if "key" in names:
        column = batch.column("key").cast(pyarrow.binary())
        keys = column.to_pylist()
        if partition is None and column.null_count < len(column):
            hashes = murmur2_of_all(column)
    headers = None
    if "headers" in names:
        headers = [_headers(one) for one in batch.column("headers").to_pylist()]
    values = batch.column("value").cast(pyarrow.binary()).to_pylist()
    return Records(topic, partition, keys, values, headers if headers and any(headers) else None, hashes)


def _headers(found: list[dict[str, Any] | None] | None) -> Headers:
    if not found:
        return ()
    if any(one is None or one["key"] is None for one in found):
        raise ClientError("column headers: a header has no key")
    return [(one["key"], one["value"]) for one in found if one is not None]


def murmur2_of_all(keys: pyarrow.BinaryArray) -> NDArray[numpy.uint32]:
    """Return `murmur2` of each key; for a null the number is meaningless."""
    bounds = numpy.frombuffer(keys.buffers()[1], dtype=numpy.int32)[keys.offset : keys.offset + len(keys) + 1]
    content = keys.buffers()[2]
    data = numpy.frombuffer(content, dtype=numpy.uint8) if content is not None else numpy.empty(0, numpy.uint8)
    starts, lengths = bounds[:-1].astype(numpy.int64), numpy.diff(bounds).astype(numpy.int64)
    hashed = numpy.uint32(SEED) ^ lengths.astype(numpy.uint32)
    short = numpy.where(lengths <= LONG_KEY_BYTES, lengths, 0)
    with numpy.errstate(over="ignore"):
        for position in range(0, int(short.max(initial=0)) & ~3, 4):
            rows = numpy.flatnonzero(short >= position + 4)
            word = _mixed(_little_endian(data, starts[rows] + position, numpy.full(len(rows), 4)))
            hashed[rows] = hashed[rows] * numpy.uint32(MULTIPLIER) ^ word
        rows = numpy.flatnonzero(short & 3)
        rest = _little_endian(data, starts[rows] + (short[rows] & ~3), short[rows] & 3)
        hashed[rows] = (hashed[rows] ^ rest) * numpy.uint32(MULTIPLIER)
        hashed = (hashed ^ (hashed >> numpy.uint32(13))) * numpy.uint32(MULTIPLIER)
    hashed ^= hashed >> numpy.uint32(15)
    for row in numpy.flatnonzero(lengths > LONG_KEY_BYTES).tolist():
        hashed[row] = murmur2(bytes(data[starts[row] : starts[row] + lengths[row]]))
    return hashed


def _little_endian(data: NDArray[numpy.uint8], starts: Integers, counts: Integers) -> NDArray[numpy.uint32]:
    """Return the numbers of `counts` bytes, one to four, at `starts`."""
    number = numpy.zeros(len(starts), dtype=numpy.uint32)
    for place in range(4):
        rows = numpy.flatnonzero(counts > place)
        number[rows] |= data[starts[rows] + place].astype(numpy.uint32) << numpy.uint32(8 * place)
    return number


def _mixed(word: NDArray[numpy.uint32]) -> NDArray[numpy.uint32]:
    word = word * numpy.uint32(MULTIPLIER)
    return (word ^ (word >> numpy.uint32(24))) * numpy.uint32(MULTIPLIER)
