"""What coordinators and logs write beside clients' records, against bytes that Kafka's own classes made.

golden/kafka-3.9.1-records.txt was printed by golden/Records.java with the jars of org.apache.kafka:kafka_2.13:3.9.1.
"""

from pathlib import Path

import pytest

from odradek.broker.log.batches import decode_end_of_transaction
from odradek.broker.log.dump.internal_topics import decoder_for
from odradek.broker.log.producer_entry import RememberedBatch
from odradek.broker.log.producer_sequences import LARGEST_SEQUENCE
from odradek.broker.log.producer_snapshots import decode_snapshot, encode_snapshot
from odradek.broker.log.transaction_index import decode_aborted, encode_aborted
from odradek.protocol.codec import decode_versioned, encode_versioned
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.messages.transaction_state import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    TransactionStatus,
)
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE

TIME = 1_700_000_000_000
LINES = (Path(__file__).parent / "golden" / "kafka-3.9.1-records.txt").read_text().splitlines()
GOLDEN = {name: bytes.fromhex(content) for name, content in (line.split() for line in LINES)}


def transaction(status: TransactionStatus, partitions: list[PartitionsSchema] | None) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=4001,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=status,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=TIME + 5,
        transaction_start_timestamp_ms=TIME,
    )


PARTITIONS = [
    PartitionsSchema(topic="orders", partition_ids=[0, 2]),
    PartitionsSchema(topic="__consumer_offsets", partition_ids=[49]),
]
TRANSACTIONS = {
    "transaction-ongoing": transaction(TransactionStatus.ONGOING, PARTITIONS),
    "transaction-empty": transaction(TransactionStatus.EMPTY, None),
    "transaction-key": TransactionLogKey(transactional_id="payments-1"),
}


@pytest.mark.parametrize("name", [name for name in GOLDEN if name.startswith("transaction-")])
def test_records_of_the_transaction_state_topic(name: str) -> None:
    value = TRANSACTIONS[name[:-3]]
    version = int(name[-1])
    assert encode_versioned(value, version) == GOLDEN[name]
    assert decode_versioned(type(value), GOLDEN[name]) == (version, value)


CLASSES: dict[str, type[Message]] = {
    "offset-key": OffsetCommitKey,
    "offset-value": OffsetCommitValue,
    "group-key": GroupMetadataKey,
    "group-value": GroupMetadataValue,
}


@pytest.mark.parametrize("name", [name for name in GOLDEN if name[:-3] in CLASSES])
def test_records_of_the_offsets_topic_are_the_same_again(name: str) -> None:
    version, value = decode_versioned(CLASSES[name[:-3]], GOLDEN[name])
    assert version == int(name[-1])
    assert encode_versioned(value, version) == GOLDEN[name]


@pytest.mark.parametrize("version", range(5))
def test_what_a_dump_says_of_committed_offsets(version: int) -> None:
    decode = decoder_for(CONSUMER_OFFSETS)
    assert decode is not None
    key, value = decode(GOLDEN["offset-key-v1"], GOLDEN[f"offset-value-v{version}"])
    assert key == {"type": "offset", "version": 1, "group": "readers", "topic": "orders", "partition": 2}
    said = {"version": version, "offset": 4242, "metadata": "note", "commit_timestamp": TIME}
    said |= {"leader_epoch": 7} if version >= 3 else {}
    said |= {"expire_timestamp": TIME + 9} if version == 1 else {}
    assert value == said
    assert decode(GOLDEN["offset-key-v0"], None)[1] is None


@pytest.mark.parametrize("version", range(5))
def test_what_a_dump_says_of_groups(version: int) -> None:
    decode = decoder_for(CONSUMER_OFFSETS)
    assert decode is not None
    key, value = decode(GOLDEN["group-key-v2"], GOLDEN[f"group-value-v{version}"])
    assert key == {"type": "group", "version": 2, "group": "readers"}
    assert isinstance(value, dict)
    assert [value[name] for name in ("protocol_type", "generation", "protocol", "leader")] == [
        "consumer", 5, "range", "member-a",
    ]  # fmt: skip
    assert ("current_state_timestamp" in value) == (version >= 2)
    (member,) = value["members"]
    assert ("rebalance_timeout" in member, "group_instance_id" in member) == (version >= 1, version >= 3)
    assert member["subscription"]["topics"] == ["orders"]
    assert member["assignment"]["assigned_partitions"] == [{"topic": "orders", "partitions": [0, 2]}]


@pytest.mark.parametrize("version", range(3, 9))
def test_groups_of_the_new_protocol_are_named(version: int) -> None:
    decode = decoder_for(CONSUMER_OFFSETS)
    assert decode is not None
    (data,) = [data for name, data in GOLDEN.items() if name.endswith(f"-key-v{version}")]
    key, value = decode(data, b"anything")
    assert isinstance(key, dict)
    assert (key["version"], key["group_id"], key.get("member_id")) == (
        version, "readers", "m" if version in (5, 7, 8) else None,
    )  # fmt: skip
    assert value == b"anything"


def test_what_a_dump_says_of_transactions() -> None:
    decode = decoder_for(TRANSACTION_STATE)
    assert decode is not None
    for version in (0, 1):
        key, value = decode(GOLDEN["transaction-key-v0"], GOLDEN[f"transaction-ongoing-v{version}"])
        assert key == {"type": "transaction", "version": 0, "transactional_id": "payments-1"}
        assert isinstance(value, dict)
        assert (value["transaction_status"], value["producer_id"]) == ("Ongoing", 4001)
        assert value["transaction_partitions"][0] == {"topic": "orders", "partition_ids": [0, 2]}
    with pytest.raises(MalformedMessage, match="key of version 9"):
        decode(b"\x00\x09", None)
    with pytest.raises(MalformedMessage):
        decode(GOLDEN["transaction-key-v0"], GOLDEN["transaction-ongoing-v0"][:-1])
    assert decoder_for("orders") is None


@pytest.mark.parametrize("commit", [True, False])
def test_markers(commit: bool) -> None:
    golden = GOLDEN["marker-commit" if commit else "marker-abort"]
    ours = encode_end_txn_marker(EndTxnMarker(commit, 11), TIME, 4001, 3, base_offset=100, leader_epoch=6)
    assert ours == golden
    assert decode_end_of_transaction(golden) == (not commit, 11)


def test_the_index_of_aborted_transactions() -> None:
    golden = GOLDEN["aborted-index"]
    assert decode_aborted(golden) == [(4001, 10, 20, 15), (4002, 15, 30, 31)]
    assert b"".join(map(encode_aborted, decode_aborted(golden))) == golden


def test_a_snapshot_of_producers() -> None:
    """Its newest batch goes over the wrap of sequences."""
    first, second = decode_snapshot(GOLDEN["snapshot"])
    assert (first.producer_id, first.epoch, first.coordinator_epoch, first.transaction_first_offset) == (
        4001,
        3,
        11,
        90,
    )
    assert first.batches == [RememberedBatch(LARGEST_SEQUENCE - 1, 1, 96, 99, TIME)]
    assert (second.producer_id, second.epoch, second.batches, second.last_timestamp_ms) == (4002, 0, [], TIME)
    assert encode_snapshot([first, second]) == GOLDEN["snapshot"]
