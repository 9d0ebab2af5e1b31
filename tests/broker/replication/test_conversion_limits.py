"""A conversion keeps nobody waiting: it is done in steps, and an answer with one has an end."""

import tracemalloc

import pytest

from odradek.broker.log.rewriting import rewrite
from odradek.broker.replication.conversion import Unconverted, as_batches, as_messages
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.compression import GZIP, compress
from odradek.protocol.conversion import records_of
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import assemble_batch, entries, read_header
from odradek.protocol.records import encode_batch
from odradek.protocol.records_in_steps import RECORDS_MAX
from odradek.protocol.steps import STEP_RECORDS, at_once
from odradek.testing.log_environments import make_environment, open_test_log
from odradek.testing.old_segments import golden_bytes

MANY = 8 * STEP_RECORDS


def led(data: bytes) -> Partition:
    log = open_test_log(make_environment())
    log.append_as_follower(data)
    partition = Partition("topic", 0, 0, log, log.log_end_offset)
    partition.lead(PartitionView(leader=0, leader_epoch=0, isr=(0,), partition_epoch=0, replicas=(0,)), 0.0)
    return partition


def test_it_converts_what_was_found() -> None:
    partition = led(golden_bytes("v1-0"))
    found = []
    for offset in (0, 20):
        records = partition.read(offset, 1 << 20, to_the_end=False, whole_first_batch=True)
        batches = at_once(as_batches(partition, records).convert())
        messages = at_once(as_messages(partition, records, offset, 1 << 20, 0, to_the_end=False).convert())
        found.append((len(list(entries(batches))), len(list(entries(messages)))))
    assert found == [(7, 20), (5, 9)], "ten messages, or a compressed one, are a batch"


def test_one_batch_of_very_many_records_is_converted_in_steps() -> None:
    """Down and up again, each time with a pause for each few records of each part of the work."""
    data = bytes(encode_batch(0, [1] * MANY, [None] * MANY, [b""] * MANY, codec=GZIP))
    partition = led(data)
    records = partition.read(0, 1 << 20, to_the_end=False, whole_first_batch=True)
    unconverted = as_messages(partition, records, 0, 1 << 20, 2, to_the_end=False)
    pauses = list(unconverted.convert())
    assert len(pauses) >= 2 * MANY // STEP_RECORDS, "decoding and encoding"
    message = at_once(unconverted.convert())
    assert records_of(message).offsets == list(range(MANY))
    partition = led(message)
    records = partition.read(0, 1 << 20, to_the_end=False, whole_first_batch=True)
    unconverted = as_batches(partition, records)
    assert isinstance(unconverted, Unconverted) and len(unconverted) == len(message)
    assert len(list(unconverted.convert())) >= 3 * MANY // STEP_RECORDS, "unwrapping takes two rounds"
    assert records_of(at_once(unconverted.convert())).offsets == list(range(MANY))


def bomb(kind: str) -> bytes:
    """Make a batch of a few kilobytes with one record of 20 MB, or with two million records."""
    if kind == "bytes":
        return bytes(encode_batch(0, [1], [b"k"], [bytes(20 << 20)], codec=GZIP))
    record, count = b"\x0c\x00\x00\x00\x01\x01\x00", 2 * RECORDS_MAX
    header = read_header(encode_batch(0, [1], [None], [b""], codec=GZIP))
    header = header._replace(record_count=count, last_offset_delta=count - 1)
    return bytes(assemble_batch(header, compress(GZIP, record * count)))


@pytest.mark.parametrize("kind", ["bytes", "records"])
def test_a_decompression_bomb_is_not_taken_apart(kind: str) -> None:
    """Neither for an old consumer nor for the rules of a topic; memory does not follow it."""
    data = bomb(kind)
    assert len(data) < 64 << 10
    partition = led(data)
    records = partition.read(0, 1 << 20, to_the_end=False, whole_first_batch=True)
    unconverted = as_messages(partition, records, 0, 1 << 20, 2, to_the_end=False)
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError) as refused:
            at_once(unconverted.convert())
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
        with pytest.raises(KafkaError) as refused:
            at_once(rewrite(LogConfig(cleanup_policy=frozenset({"compact"})), "t-0", memoryview(data), 0))
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()
