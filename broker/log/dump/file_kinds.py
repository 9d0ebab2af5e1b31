"""Kinds of files beside a `.log`: which one a file is, by its name, and its entries with the byte where each begins.

The readers take what is there and judge as little as they can, so that a damaged file is shown as far as it goes. All
of them take (content, offset in the file's name) and raise Damaged where they cannot go on.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from odradek.broker.log.checkpoint_format import LEADER_EPOCHS, VERSION
from odradek.broker.log.directories.directory_files import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    SET_ASIDE_SUFFIXES,
    decode_properties,
)
from odradek.broker.log.dump.rows import Damaged, Row
from odradek.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from odradek.broker.log.producer_sequences import sequence_after
from odradek.broker.log.producer_snapshots import COUNT, ENTRY, HEAD, SNAPSHOT
from odradek.broker.log.producer_snapshots import VERSION as SNAPSHOT_VERSION
from odradek.broker.log.segment import CLEANED, DELETED, LOG, OFFSET_INDEX, SWAP, TIME_INDEX, TRANSACTION_INDEX
from odradek.broker.log.transaction_index import ENTRY as ABORTED_ENTRY
from odradek.broker.log.transaction_index import VERSION as ABORTED_VERSION
from odradek.protocol.checksum import crc32c

Entries: TypeAlias = Iterator[tuple[int, Row]]
NONE = -1
TRANSITIONS = (DELETED, CLEANED, SWAP)


class Kind(NamedTuple):
    """A kind of file: how its name ends, what to call it, how to read it."""

    name_end: str
    title: str
    read: Callable[[bytes, int], Entries]


def offset_index(data: bytes, base_offset: int) -> Entries:
    """Yield the entries of an `.index` file. Kafka preallocates that of the active segment: zeros are no entries."""
    for at in _places(data, OFFSET_ENTRY.size):
        relative, position = OFFSET_ENTRY.unpack_from(data, at)
        yield at, {"offset": base_offset + relative, "position": position}


def time_index(data: bytes, base_offset: int) -> Entries:
    """Yield the entries of a time index: the largest timestamp so far, and the last offset of its batch."""
    for at in _places(data, TIME_ENTRY.size):
        timestamp, relative = TIME_ENTRY.unpack_from(data, at)
        yield at, {"timestamp_ms": timestamp, "offset": base_offset + relative}


def _places(data: bytes, size: int) -> Iterator[int]:
    whole = len(data) - len(data) % size
    for at in range(0, whole, size):
        if not any(data[at : at + size]) and len(data) > size and not any(data[at:]):
            return
        yield at
    if whole < len(data):
        raise Damaged(whole, f"{len(data)} bytes, entries of {size}: the last is incomplete")


def aborted_transactions(data: bytes, _: int) -> Entries:
    """Read a `.txnindex`."""
    whole = len(data) - len(data) % ABORTED_ENTRY.size
    for at in range(0, whole, ABORTED_ENTRY.size):
        version, producer_id, first, last, stable = ABORTED_ENTRY.unpack_from(data, at)
        if version != ABORTED_VERSION:
            raise Damaged(at, f"entry of version {version}, known is {ABORTED_VERSION}")
        yield at, {
            "producer_id": producer_id, "first_offset": first, "last_offset": last, "last_stable_offset": stable
        }  # fmt: skip
    if whole < len(data):
        raise Damaged(whole, f"{len(data)} bytes, entries of {ABORTED_ENTRY.size}: the last is incomplete")


def producers(data: bytes, _: int) -> Entries:
    """Read a `.snapshot`. Nothing of it is shown when the checksum is wrong."""
    entries_at = HEAD.size + COUNT.size
    if len(data) < entries_at:
        raise Damaged(0, f"{len(data)} bytes are too few for a snapshot")
    version, checksum = HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise Damaged(0, f"snapshot of version {version}, known is {SNAPSHOT_VERSION}")
    computed = crc32c(data[HEAD.size :])
    if computed != checksum:
        raise Damaged(2, f"checksum is {computed}, stored {checksum}")
    (count,) = COUNT.unpack_from(data, HEAD.size)
    if len(data) != entries_at + count * ENTRY.size:
        raise Damaged(HEAD.size, f"{count} producers in {len(data)} bytes")
    for at in range(entries_at, len(data), ENTRY.size):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, transaction = ENTRY.unpack_from(data, at)
        yield (
            at,
            {
                "producer_id": producer_id,
                "epoch": epoch,
                "first_sequence": sequence_after(sequence, -delta) if sequence >= 0 else NONE,
                "last_sequence": sequence,
                "first_offset": offset - delta if offset >= 0 else NONE,
                "last_offset": offset,
                "timestamp_ms": timestamp,
                "coordinator_epoch": coordinator,
                "transaction_first_offset": transaction,
            },
        )


def leader_epochs(data: bytes, _: int) -> Entries:
    """Read a `leader-epoch-checkpoint`."""
    return _checkpoint(data, ("leader_epoch", "start_offset"))


def offsets(data: bytes, _: int) -> Entries:
    """Yield the entries of a checkpoint of a log directory: an offset for each partition."""
    return _checkpoint(data, ("topic", "partition", "offset"))


def _checkpoint(data: bytes, names: Sequence[str]) -> Entries:
    """Yield the entries of a checkpoint: a version, the number of entries, one line each. Empty files have none."""
    lines: list[tuple[int, str]] = []
    at = 0
    for line in data.splitlines(keepends=True):
        lines.append((at, line.decode("utf-8", "replace").strip()))
        at += len(line)
    if not lines:
        return
    if lines[0][1] != str(VERSION):
        raise Damaged(0, f"checkpoint of version {lines[0][1]!r}, known is {VERSION}")
    count_at, count = lines[1] if len(lines) > 1 else (at, "")
    if not (count.isascii() and count.isdigit()):
        raise Damaged(count_at, f"{count!r} is not a number of entries")
    for position, entry in lines[2:]:
        yield position, _entry(position, entry, names)
    if count != str(len(lines) - 2) or not data.endswith(b"\n"):
        raise Damaged(count_at, f"{count} entries announced, {len(lines) - 2} lines follow")


def _entry(position: int, line: str, names: Sequence[str]) -> Row:
    values = line.split()
    if len(values) != len(names):
        raise Damaged(position, f"{line!r} does not have {len(names)} fields")
    try:
        return {name: value if name == "topic" else int(value) for name, value in zip(names, values, strict=True)}
    except ValueError as error:
        raise Damaged(position, f"{line!r}: {error}") from None


def properties(data: bytes, _: int) -> Entries:
    """Read `meta.properties`, or `partition.metadata`, which differs in its colons."""
    text = data.replace(b": ", b"=")
    for name, value in decode_properties(text).items():
        yield max(text.find(name.encode() + b"="), 0), {"property": name, "value": value}


def clean_shutdown(data: bytes, _: int) -> Entries:
    """Read `.kafka_cleanshutdown`, which older brokers leave empty."""
    try:
        values = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Damaged(0, f"not JSON: {error}") from None
    if not isinstance(values, dict):
        raise Damaged(0, f"not a JSON object: {values}")
    for name, value in values.items():
        yield 0, {"property": name, "value": value}


KINDS = (
    Kind(OFFSET_INDEX, "offset index", offset_index),
    Kind(TIME_INDEX, "time index", time_index),
    Kind(TRANSACTION_INDEX, "aborted transactions", aborted_transactions),
    Kind(SNAPSHOT, "producers", producers),
    Kind(LEADER_EPOCHS, "leader epochs", leader_epochs),
    Kind("-offset-checkpoint", "offsets of partitions", offsets),
    Kind(META_PROPERTIES, "whose directory this is", properties),
    Kind(PARTITION_METADATA, "which topic this is", properties),
    Kind(CLEAN_SHUTDOWN, "stopped cleanly", clean_shutdown),
)


def settled(path: str) -> str:
    """Return the path without the suffix of a change that is going on."""
    for suffix in TRANSITIONS:
        path = path.removesuffix(suffix)
    return path


def is_known(path: str) -> bool:
    """Tell whether a file belongs to a log, by its name."""
    name = settled(path).rpartition("/")[2]
    return any(name.endswith(kind.name_end) for kind in KINDS) or name.endswith(LOG)


def kind_of(path: str) -> Kind | None:
    """Return the kind of a small file; None for a `.log`. Raises ValueError for a name that no file of a log has."""
    name = settled(path).rpartition("/")[2]
    for kind in KINDS:
        if name.endswith(kind.name_end):
            return kind
    if not name.endswith(LOG):
        raise ValueError(f"{path}: not a file of a log")
    return None


def base_offset_of(path: str) -> int:
    """Return 42 for `00000000000000000042.log`; 0 for a file whose name has no number."""
    number = path.rpartition("/")[2].partition(".")[0]
    return int(number) if number.isdecimal() else 0


def topic_of(path: str) -> str:
    """Return `orders` for `/data/orders-3/00000000000000000042.log`, also while it is deleted or moved."""
    directory = path.rpartition("/")[0].rpartition("/")[2]
    if directory.endswith(SET_ASIDE_SUFFIXES):
        directory = directory.rpartition(".")[0]
    return directory.rpartition("-")[0]


def log_of(path: str) -> str:
    """Return the `.log` of the segment that an index belongs to."""
    kind = kind_of(path)
    return path if kind is None else settled(path).removesuffix(kind.name_end) + LOG
