"""A conversion keeps nobody waiting: it is done in steps, and an answer with one has an end."""

from odradek.broker.replication.conversion import Unconverted, as_batches, as_messages
from odradek.broker.replication.partition import Partition, PartitionView
from odradek.protocol.compression import GZIP
from odradek.protocol.conversion import records_of
from odradek.protocol.record_batch import entries
from odradek.protocol.records import encode_batch
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
