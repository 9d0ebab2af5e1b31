"""Dumps of the files of a log, without a broker: `odradek dump-log` prints what these generators give.

Nothing is changed or locked, so the newest batch of a running broker may look cut off.

rows                what is told of a file
batch_rows          batches and records; internal_topics: the records of Kafka's own topics
file_kinds          all other files, told apart by their names
checking            `--verify`: a file, which check_log and check_entries look at, or all of a directory together
survey              a whole entry of `log.dirs`
"""

from collections.abc import Iterator

from odradek.broker.log.dump.batch_rows import batch_rows
from odradek.broker.log.dump.checking import verify
from odradek.broker.log.dump.file_kinds import base_offset_of, kind_of, topic_of
from odradek.broker.log.dump.internal_topics import decoder_for
from odradek.broker.log.dump.rows import Damage, Damaged, Row
from odradek.world.files import Files

__all__ = ["Damage", "Damaged", "Row", "dump", "title", "verify"]


def title(path: str) -> str:
    """Say what the file is, in a word or two. Raises ValueError for a name that no file of a log has."""
    kind = kind_of(path)
    return "batches" if kind is None else kind.title


def dump(files: Files, path: str, *, records: bool = False, topic: str | None = None) -> Iterator[Row]:
    """Yield the entries of any file of a log.

    With `records` each batch of a `.log` is followed by its records; those of Kafka's own topics are decoded, `topic`
    being the name of the directory unless it is said. Raises OSError, ValueError for an unknown name; Damaged and
    CorruptBatch, both with `position` and `reason`, where a file does not go on making sense.
    """
    kind = kind_of(path)
    if kind is None:
        decode = decoder_for(topic_of(path) if topic is None else topic)
        yield from batch_rows(files.open(path), records=records, decode=decode)
        return
    for _, row in kind.read(files.read(path), base_offset_of(path)):
        yield row
