"""Comparison of two answers: without times, drawn ids by their places in the story, texts by their presence."""

from collections.abc import Iterator
from typing import Any

from odradek.protocol.fields import Struct
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import MAGIC_V2, Entry, entries, read_header

NOT_COMPARED = {
    *("throttle_time_ms", "cluster_id", "host", "port", "client_host", "log_dir"),
    *("log_append_time_ms", "last_timestamp", "transaction_start_time_ms"),
    *("total_bytes", "usable_bytes", "partition_size", "finalized_features_epoch"),
}
TEXTS = {"error_message", "documentation", "batch_index_error_message"}
"""For people: compared by whether there is one."""
DRAWN = {"topic_id", "session_id"}
"""Drawn at random: compared by whether there is one."""
UUID_CHARACTERS = 36
LONG_AGO_MS = 1_760_000_000_000
"""Later than every time in a story but those of the far future."""
FAR_AWAY_MS = 3_000_000_000_000


def plain(value: Any, version: int, names: dict[Any, str], name: str = "") -> Any:
    """Return an answer as it is compared. `names`: ids that this broker has drawn → the story's words for them."""
    if isinstance(value, Struct):
        lines = [line for line in value.FIELDS if version in line.versions and line.name not in NOT_COMPARED]
        return {line.name: plain(getattr(value, line.name), version, names, line.name) for line in lines}
    if isinstance(value, list):
        return sorted((plain(one, version, names, name) for one in value), key=repr)
    if name == "records":
        return [_entry(value, one, names) for one in entries(value or b"", allow_partial_tail=True)]
    if name == "aborted_transactions" and value is None:
        return []
    if name in TEXTS:
        return "a text" if value else None
    if name == "timestamp" and LONG_AGO_MS < value < FAR_AWAY_MS:
        return "the broker's time"
    if name in DRAWN:
        return "drawn" if any(value if isinstance(value, bytes) else [value]) else value
    if isinstance(value, str) and len(value) > UUID_CHARACTERS:
        return names.get(value, value[:-UUID_CHARACTERS])
    return names.get(value, value) if name == "producer_id" else value


def _entry(records: Buffer, entry: Entry, names: dict[Any, str]) -> Any:
    """Return what is compared of a batch, or of a message of the old formats."""
    if entry.magic != MAGIC_V2:
        return [entry.offset, entry.magic]
    header = read_header(records, entry.position)
    producer = names.get(header.producer_id, header.producer_id)
    where = [header.base_offset, header.next_offset, header.attributes, header.leader_epoch]
    return [*where, producer, header.producer_epoch, header.base_sequence]


def differences(kafka: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield path and both values wherever two plain answers differ."""
    if isinstance(kafka, dict) and isinstance(ours, dict) and kafka.keys() == ours.keys():
        for name in kafka:
            yield from differences(kafka[name], ours[name], f"{path}.{name}" if path else name)
    elif isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        for pair in zip(kafka, ours, strict=True):
            yield from differences(*pair, f"{path}[]")
    elif kafka != ours:
        yield path, kafka, ours
