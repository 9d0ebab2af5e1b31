"""Comparison of two answers: without times, drawn ids by their places in the story, texts by their presence.

`REASONS` has the differences that are wanted. The first six may hold at any step; the others are of single steps, which
name them (`steps.wanted`).
"""

from collections.abc import Iterator
from typing import Any, Final

from odradek.protocol.fields import Struct
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import MAGIC_V2, Entry, entries, read_header

NOT_COMPARED = {
    *("throttle_time_ms", "cluster_id", "host", "port", "client_host", "log_dir"),
    *("log_append_time_ms", "last_timestamp", "transaction_start_time_ms"),
    *("total_bytes", "usable_bytes", "partition_size", "finalized_features_epoch"),
}
TEXTS = {"error_message", "documentation", "batch_index_error_message"}
"""Fields for people: compared by whether there is one."""
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


DEFAULTS: Final = "Ours says of a setting whether it is the default (DescribeConfigs 0); Kafka says of none that it is."
CONVERTED: Final = (
    "Kafka converts into as many bytes as it has read, and cuts off what has grown; ours tells all of it."
)
UNFORESEEN: Final = (
    "Kafka's handler raised an exception that nobody foresaw (UNKNOWN_SERVER_ERROR); ours has an answer."
)
ELECTED: Final = "Who leads when the leader has gone: Kafka takes the first by hash, ours the one longest there."
REPLACED: Final = "A request that another one of the same member replaces is answered; Kafka forgets it."
IN_WORDS: Final = "Ours says in words what is wrong where Kafka gives a number alone."

REASONS: Final[dict[str, str]] = {
    "unread": "Records are read where a rule needs them (keys, times, another codec, old formats); elsewhere the "
    "checksum stands for them.",
    "time's owner": "Kafka means to refuse a batch that claims LogAppendTime, and lets those pass whose times are in "
    "bounds.",
    "nobody's": "A batch of a transaction without a producer id would belong to no transaction for ever.",
    "not again": "What is no batch will be none when it is sent again: CORRUPT_MESSAGE would say that it may.",
    "one batch": "A request has one batch for a partition; Kafka overlooks bytes behind it that make no other.",
    "nothing appended": "Control batches are refused before they come to the log, whose start the answer leaves out.",
    "timeless": "Records without a time have none that could be the largest.",
    "echo": "A topic without partitions is answered as it was asked; Kafka leaves it out.",
    "made": "The topic is made, and waited for no longer: the answer says what was made.",
    "nowhere": "A partition without any replica could never be written.",
    "twice": "A topic that is named twice is refused once.",
    "by id": "Who deletes a topic by its name is told its id, as by brokers of KRaft.",
    "each by itself": "Partitions are verified one by one; Kafka attempts none when one of them does not exist.",
    "not begun": "A producer that has begun no transaction since it was initialised has none of any age.",
    "verified no more": "A verification that failed for good is forgotten, lest producers that do not exist crowd out "
    "others; Kafka holds its sequence against later batches outside of transactions.",
    "newer epoch": "Whoever writes with a newer epoch than that of the open transaction is verified, as by Kafka 4; "
    "Kafka 3.9 leaves it to the sequences, and commits of offsets have none.",
    "older brokers": "Brokers that ask in version 4 do not know TRANSACTION_ABORTABLE: they get INVALID_TXN_STATE.",
    "both old formats": "Messages of both old formats in one request are converted one by one, and a batch behind them "
    "counts as damage.",
    "cut off": "A message that is cut off, or missing, is refused; Kafka drops it and answers that all is well.",
    "no share groups": "A cluster with ZooKeeper never has a coordinator of share groups: no use to ask again.",
    "deleted": "A record that was deleted by offset hides no later one of the time that is asked for, and is no place "
    "to begin (version 0); Kafka looks into one segment, and tells a log's start for each segment below.",
    "one question": "A question that cannot be answered does not hide the answers to the others.",
}
