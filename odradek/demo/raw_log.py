"""Segment files of the topic, read from the disk, without a broker or a consumer."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from odradek.broker.log.batches import iterate_valid
from odradek.broker.log.segment import LOG
from odradek.protocol.records import decode_records
from odradek.world.os_files import OsFiles


def segments(directory: Path) -> list[Path]:
    """Return the segment files of a partition's directory, oldest first."""
    return sorted(directory.glob(f"*{LOG}"))


def read_records(directory: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, value) of every record, and verify each batch's checksum. Raises CorruptBatch, OSError."""
    files = OsFiles()
    for path in segments(directory):
        file = files.open(str(path))
        for batch, content in iterate_valid(file, file.size()):
            if batch.is_control:
                continue
            columns = decode_records(content)
            for offset, value in zip(columns.offsets, columns.values, strict=True):
                yield offset, value or b""


def different_replicas(replicas: Sequence[Sequence[Path]]) -> int:
    """Count the partitions whose replicas' directories do not all hold the same bytes."""
    return sum(len({_digest(directory) for directory in directories}) > 1 for directories in replicas)


def _digest(directory: Path) -> str:
    digest = hashlib.blake2b()
    for path in segments(directory):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
