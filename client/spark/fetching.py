"""Reads one range of one partition, an answer at a time and one ahead, whatever happens to its leader meanwhile."""

import logging
from collections.abc import Iterator
from dataclasses import replace

from odradek.client.calls import Deadline, refresh_quietly
from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.fetching import (
    CONSUMER_REPLICA_ID,
    LAST_VERSION_WITH_NAMES,
    NO_SESSION_EPOCH,
    NO_SESSION_ID,
    STALE_VIEW,
)
from odradek.client.errors import BrokerUnreachable
from odradek.client.spark.offsets import Offsets
from odradek.client.spark.options import READ_COMMITTED
from odradek.client.spark.ranges import DataLoss, Lost, OffsetRange, readable
from odradek.client.spark.session import Session
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from odradek.protocol.primitives import ZERO_UUID

logger = logging.getLogger(__name__)
NO_VERSION = 0
"""Positions have versions where they can be sought; here they cannot."""


def read_range(session: Session, wanted: OffsetRange, *, fail_on_data_loss: bool) -> Iterator[Chunk]:
    """Everything between the range's offsets; the first and the last chunk may hold records outside of them.

    Raises DataLoss when the log has lost some of it, or, without `fail_on_data_loss`, warns and goes on behind it;
    ClientTimeout when nothing comes for default.api.timeout.ms; KafkaError for what the broker refuses.
    """
    offset = wanted.start
    ahead = session.begin(_fetched(session, wanted, offset))
    try:
        while True:
            answer = session.finish(ahead)
            offset = (
                _first_left(session, replace(wanted, start=offset), fail_on_data_loss)
                if answer is None
                else answer.next_offset
            )
            if offset < wanted.end:
                ahead = session.begin(_fetched(session, wanted, offset))
            if answer is not None:
                yield answer
            if offset >= wanted.end:
                return
    finally:
        session.give_up(ahead)


def _first_left(session: Session, wanted: OffsetRange, fail_on_data_loss: bool) -> int:
    """Where to go on after the leader has said that an offset is out of range. Raises DataLoss."""
    partition = wanted.topic_partition
    begin: Offsets = session.earliest([partition])
    end: Offsets = session.latest([partition])
    _, lost = readable([wanted], begin)
    where = wanted.end if not lost else min(begin[partition], wanted.end)
    if not lost:
        gone = replace(wanted, start=max(wanted.start, end[partition]))
        lost = [Lost(gone, f"the log now ends at {end[partition]} (recreated or truncated?)")]
    if fail_on_data_loss:
        raise DataLoss(lost)
    logger.warning("data loss: %s; going on at %d", lost[0], where)
    return where


async def _fetched(session: Session, wanted: OffsetRange, offset: int) -> Chunk | None:
    """The next answer with a batch in it; None when the offset is out of range."""
    partition = wanted.topic_partition
    cluster = session.cluster
    cluster.needs.want(partition.topic, cluster.clock.monotonic_ms())
    deadline: Deadline | None = None
    while True:
        try:
            answer = await _answer(session, wanted, offset)
            code = error_code(answer.error_code)
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return None
            if code is ErrorCode.NONE:
                chunk = _chunk(session, wanted, offset, answer)
                if not chunk.empty:
                    return chunk
                failure: Exception = KafkaError(
                    code, f"the leader has nothing there; it ends at {answer.high_watermark}"
                )
            else:
                failure = KafkaError(code, str(partition))
                if code not in STALE_VIEW:
                    raise failure
        except BrokerUnreachable as error:
            failure = error
        if deadline is None:  # only now: an answer may have waited long for whoever reads, with the loop standing still
            what = f"reading {partition} at offset {offset} of {wanted.start} to {wanted.end - 1}"
            deadline = session.deadline(what)
        await deadline.pause_after(failure)
        await refresh_quietly(cluster)


async def _answer(session: Session, wanted: OffsetRange, offset: int) -> PartitionData:
    """One request to the leader. A leader that is not known counts as one that cannot be reached."""
    cluster, settings, partition = session.cluster, session.settings, wanted.topic_partition
    if cluster.view.leader_of(partition) is None:
        await cluster.refresh()
    leader, known = cluster.view.leader_of(partition), cluster.view.partition(partition)
    if leader is None or known is None:
        raise BrokerUnreachable(f"leader of {partition}", "there is none at the moment")
    topic_id = cluster.view.topics[partition.topic].topic_id
    request = FetchRequest(
        replica_id=CONSUMER_REPLICA_ID,
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.max_partition_fetch_bytes,
        isolation_level=settings.isolation,
        session_id=NO_SESSION_ID,
        session_epoch=NO_SESSION_EPOCH,
        topics=[
            FetchTopic(
                topic=partition.topic,
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition=partition.partition,
                        current_leader_epoch=known.leader_epoch,
                        fetch_offset=offset,
                        partition_max_bytes=settings.max_partition_fetch_bytes,
                    )
                ],
            )
        ],
    )
    highest = LAST_VERSION_WITH_NAMES if topic_id == ZERO_UUID else None
    response = await cluster.request(leader, request, FetchResponse, highest_version=highest)
    if response.error_code:
        raise KafkaError(error_code(response.error_code), f"fetch of {partition}")
    found = [one for topic in response.responses for one in topic.partitions]
    if len(found) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(found)} partitions in an answer about {partition}")
    return found[0]


def _chunk(session: Session, wanted: OffsetRange, offset: int, answer: PartitionData) -> Chunk:
    committed = session.settings.isolation == READ_COMMITTED
    aborted = [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()] if committed else None
    return Chunk(wanted.topic_partition, memoryview(answer.records or b""), offset, NO_VERSION, aborted)
