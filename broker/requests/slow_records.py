"""Records of a Produce that take long to append, and so are appended in slices of time (see produce.py).

These are message sets, which are converted to batches first; batches of topics whose rules look at each record, when
they are large or compressed; and whatever a request with very many partitions writes to.
"""

from typing import NamedTuple

from odradek.broker.log.log import Log
from odradek.broker.log.rewriting import Rewritten, rewrite, takes_long
from odradek.broker.requests.old_formats import FIRST_PRODUCE_VERSION_WITH_BATCHES, is_batch, to_batch
from odradek.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceData
from odradek.protocol.primitives import Records
from odradek.protocol.steps import Steps


class SlowRecords(NamedTuple):
    """Records that are not appended at once, and the place of the answer to them."""

    topic: str
    data: PartitionProduceData
    """Its records are a copy: they outlive the call that handles the request."""
    answers: list[PartitionProduceResponse]
    position: int
    log: Log | None
    """Log whose topic's rules they must meet first."""


def put_off_topic(topic: TopicProduceData, slow: list[SlowRecords]) -> list[PartitionProduceResponse]:
    """Have all partitions of a topic written to in slices; their answers will take the places of those returned."""
    answers: list[PartitionProduceResponse] = []
    for data in topic.partition_data:
        answers.append(PartitionProduceResponse(index=data.index))
        slow.append(put_off(topic.name, data, answers, None))
    return answers


def put_off(
    topic: str, data: PartitionProduceData, answers: list[PartitionProduceResponse], log: Log | None
) -> SlowRecords:
    """Put off the partition whose answer is the last of these, with a copy of its records."""
    records = None if data.records is None else bytearray(data.records)
    return SlowRecords(topic, PartitionProduceData(index=data.index, records=records), answers, len(answers) - 1, log)


def are_slow(records: Records) -> bool:
    """Tell whether a look at each of these records takes long."""
    return records is not None and not isinstance(records, Rewritten) and takes_long(records)


def make_ready(records: Records, log: Log | None, version: int) -> Steps[Records]:
    """Turn records into what can be appended; those of `log` must meet its topic's rules. Raises KafkaError."""
    if version < FIRST_PRODUCE_VERSION_WITH_BATCHES and not is_batch(records):
        return (yield from to_batch(records))
    if log is not None and records is not None:
        now_ms = log.environment.clock.now_ms()
        return (yield from rewrite(log.config, f"{log.topic}-{log.partition}", memoryview(records), now_ms))
    return records
