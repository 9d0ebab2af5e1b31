"""Differences from Kafka's answers that are wanted, each with its reason.

The first six may hold at any step; the others are of single steps, which name them (`steps.wanted`).
"""

from typing import Final

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
