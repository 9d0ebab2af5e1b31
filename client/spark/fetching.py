"""Fetching of one range of a partition, one answer ahead of the reader, whatever happens to the leader meanwhile."""

import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial

from odradek.client.calls import Deadline, refresh_quietly
from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.fetch_requests import (
    ASK_AGAIN,
    Arrived,
    AskAgain,
    Asked,
    NothingNew,
    OutOfRange,
    Refused,
    Verdict,
    fetch_call,
    judge,
    partitions_of,
)
from odradek.client.errors import BrokerUnreachable
from odradek.client.records import TopicPartition
from odradek.client.spark.offsets import DataLoss, Lost, OffsetRange, Offsets, readable
from odradek.client.spark.session import Session
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.fetch import FetchResponse

logger = logging.getLogger(__name__)
NO_VERSION = 0
"""Version for `Asked`. Here a position never jumps, so versions do not matter."""


async def read_range(
    session: Session, wanted: OffsetRange, *, fail_on_data_loss: bool, patience_ms: int | None
) -> AsyncGenerator[Chunk, None]:
    """Yield chunks with all records of the range; the first and the last may also have records outside of it.

    Raises DataLoss when the log has lost some of them, or, without `fail_on_data_loss`, logs that and goes on behind
    them; ClientTimeout when nothing comes for `patience_ms` (None: default.api.timeout.ms); KafkaError when the broker
    refuses.
    """
    offset = wanted.start
    name = f"reading {wanted.topic_partition}"
    ahead = session.begin(name, partial(_fetched, session, wanted, offset, patience_ms))
    try:
        while True:
            answer = await ahead
            if answer is None:
                offset = await _first_left(session, replace(wanted, start=offset), fail_on_data_loss)
            else:
                offset = answer.next_offset
            if offset < wanted.end:
                ahead = session.begin(name, partial(_fetched, session, wanted, offset, patience_ms))
            if answer is not None:
                yield answer
            if offset >= wanted.end:
                return
    finally:
        session.give_up(ahead)


async def _first_left(session: Session, wanted: OffsetRange, fail_on_data_loss: bool) -> int:
    """Return where to go on after the leader's answer that an offset is out of range. Raises DataLoss."""
    partition = wanted.topic_partition
    begin: Offsets = await session.earliest([partition])
    end: Offsets = await session.latest([partition])
    _, lost = readable([wanted], begin)
    where = wanted.end if not lost else min(begin[partition], wanted.end)
    if not lost:
        gone = replace(wanted, start=max(wanted.start, end[partition]))
        lost = [Lost(gone, f"the log now ends at {end[partition]} (recreated or truncated?)")]
    if fail_on_data_loss:
        raise DataLoss(lost)
    logger.warning("data loss: %s; continuing at %d", lost[0], where)
    return where


async def _fetched(session: Session, wanted: OffsetRange, offset: int, patience_ms: int | None) -> Chunk | None:
    """Return the next answer with a batch in it; None when the offset is out of range."""
    cluster, partition = session.cluster, wanted.topic_partition
    cluster.needs.want(partition.topic, cluster.clock.monotonic_ms())
    deadline: Deadline | None = None
    while True:
        failure: Exception
        try:
            match await _verdict(session, partition, offset):
                case Arrived(chunk):
                    return chunk
                case OutOfRange():
                    return None
                case NothingNew(end):
                    failure = KafkaError(ErrorCode.NONE, f"the leader has nothing there; it ends at {end}")
                case AskAgain(error):
                    failure = KafkaError(error, str(partition))
                case Refused(refusal):
                    raise refusal
        except BrokerUnreachable as unreachable:
            failure = unreachable
        if deadline is None:  # only after the first attempt: before it the loop may have stood still for long
            what = f"reading {partition} at offset {offset} of {wanted.start} to {wanted.end - 1}"
            deadline = session.deadline(what, patience_ms)
        await deadline.pause_after(failure)
        await refresh_quietly(cluster)


async def _verdict(session: Session, partition: TopicPartition, offset: int) -> Verdict:
    """Ask the leader once. Raises BrokerUnreachable, also when no leader is known; KafkaError."""
    cluster, settings = session.cluster, session.settings
    if cluster.view.leader_of(partition) is None:
        await cluster.refresh()
    leader, info = cluster.view.leader_of(partition), cluster.view.partition(partition)
    if leader is None or info is None:
        raise BrokerUnreachable(f"leader of {partition}", "there is none at the moment")
    topic_id = cluster.view.topics[partition.topic].topic_id
    asked = Asked(offset, NO_VERSION, leader_epoch=info.leader_epoch, topic_id=topic_id)
    call = fetch_call(leader, {partition: asked}, settings, settings.max_partition_fetch_bytes)
    answer = await cluster.request(leader, call.request, FetchResponse, highest_version=call.highest_version)
    error = error_code(answer.error_code)
    if error:
        return AskAgain(error) if error in ASK_AGAIN else Refused(KafkaError(error, f"fetch of {partition}"))
    data = partitions_of(call, answer).get(partition)
    if data is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer does not contain {partition}")
    limit = f"max.partition.fetch.bytes={settings.max_partition_fetch_bytes}"
    return judge(partition, asked, data, settings.isolation, limit)
