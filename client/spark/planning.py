"""Planning on the driver, which asks the cluster: where a query starts and ends, and what its tasks read."""

import logging
from collections.abc import Iterable, Mapping

from odradek.client.errors import ClientError, ConfigError
from odradek.client.records import TopicPartition
from odradek.client.spark.offsets import (
    EARLIEST,
    LATEST,
    DataLoss,
    Lost,
    OffsetRange,
    Offsets,
    between,
    check_complete,
    readable,
    split,
)
from odradek.client.spark.options import Bound, Limit, SourceOptions, for_batch
from odradek.client.spark.session import Session
from odradek.client.waiting import backoff_ms, sleep_ms

logger = logging.getLogger(__name__)
BACKWARD_ATTEMPTS = 8
"""How often log ends are asked for if one is before what was read already: a new leader may not know its end yet."""


async def batch_ranges(session: Session, options: SourceOptions) -> list[OffsetRange]:
    """Return the ranges that the tasks of a batch query read. Raises DataLoss, ConfigError for offsets beyond a log."""
    start_limit, end_limit = for_batch(options)
    if options.max_offsets_per_trigger is not None or options.min_offsets_per_trigger is not None:
        logger.warning("maxOffsetsPerTrigger and minOffsetsPerTrigger have no effect on a batch query")
    partitions = await session.partitions(options)
    earliest, latest = await session.earliest(partitions), await session.latest(partitions)
    start = await resolved(session, start_limit, earliest, latest, latest_when_none=options.latest_when_none)
    end = await resolved(session, end_limit, earliest, latest, latest_when_none=True)
    check_not_beyond(start_limit, start, latest)
    check_not_beyond(end_limit, end, latest)
    backwards = [one for one in partitions if end[one] < start[one]]
    end.update({one: start[one] for one in backwards})
    ranges = _without_lost(options, between(start, end), earliest, [])
    return split(ranges, options.min_partitions, options.max_records_per_partition)


async def initial(session: Session, options: SourceOptions, limit: Limit) -> Offsets:
    """Return where a new streaming query starts. Raises DataLoss when that is before the start of a log."""
    partitions = await session.partitions(options)
    earliest, latest = await session.earliest(partitions), await session.latest(partitions)
    start = await resolved(session, limit, earliest, latest, latest_when_none=options.latest_when_none)
    check_not_beyond(limit, start, latest)
    if limit.kind is Bound.OFFSETS:
        kept = _without_lost(
            options, between(start, {one: max(latest[one], start[one]) for one in start}), earliest, []
        )
        start = {one.topic_partition: one.start for one in kept}
    return start


def starts_at_end(limit: Limit) -> bool:
    """Tell whether a start depends on the present end of some log."""
    some = limit.kind is Bound.OFFSETS and LATEST in (limit.numbers or {}).values()
    return limit.kind is Bound.LATEST or some


async def latest(session: Session, options: SourceOptions, start: Offsets) -> Offsets:
    """Return where the logs end now, asking again while one seems to end before `start` (KAFKA-7703)."""
    for failures in range(1, BACKWARD_ATTEMPTS + 1):
        ends = await session.latest(await session.partitions(options))
        backwards = [one for one, offset in start.items() if ends.get(one, offset) < offset]
        if not backwards:
            break
        config, source = session.settings, session.cluster.random
        pause_ms = backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms, failures, source)
        await sleep_ms(session.cluster.clock, pause_ms)
    return ends


async def stream_ranges(session: Session, options: SourceOptions, start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Return the ranges that the tasks of one micro-batch read. Raises DataLoss.

    Partitions that only `end` has are new, and are read from offset 0; those that only `start` has are gone.
    """
    gone = [OffsetRange(one.topic, one.partition, start[one], start[one] + 1) for one in sorted(set(start) - set(end))]
    lost = [Lost(one, "the partition is gone, with all that was written since") for one in gone]
    new = [one for one in end if one not in start]
    begins = {**start, **dict.fromkeys(new, 0)}
    ranges = [one for one in between(begins, end) if one.start != one.end]
    earliest = await session.earliest(one.topic_partition for one in ranges)
    kept = _without_lost(options, ranges, earliest, lost)
    return split(kept, options.min_partitions, options.max_records_per_partition)


def _without_lost(
    options: SourceOptions, ranges: Iterable[OffsetRange], earliest: Mapping[TopicPartition, int], lost: list[Lost]
) -> list[OffsetRange]:
    """Return the ranges that can be read. Raises DataLoss for others, or, with failOnDataLoss=false, logs them."""
    kept, missing = readable(ranges, earliest)
    missing = [*lost, *missing]
    if missing and options.fail_on_data_loss:
        raise DataLoss(missing)
    for one in missing:
        logger.warning("data loss: %s", one)
    return kept


async def resolved(
    session: Session, limit: Limit, earliest: Offsets, latest_offsets: Offsets, *, latest_when_none: bool
) -> Offsets:
    """Return a limit as offsets of all partitions. Raises ConfigError when it lacks one or names others, ClientError
    for times without a record."""
    if limit.kind is Bound.EARLIEST:
        return dict(earliest)
    if limit.kind is Bound.LATEST:
        return dict(latest_offsets)
    if limit.numbers is not None:
        check_complete(limit.option, limit.numbers, earliest)
    if limit.kind is Bound.TIMESTAMPS:
        return await _at_times(session, limit, earliest, latest_offsets, latest_when_none)
    assert limit.numbers is not None, limit
    special = {EARLIEST: earliest, LATEST: latest_offsets}
    return {one: special.get(number, limit.numbers)[one] for one, number in limit.numbers.items()}


async def _at_times(
    session: Session, limit: Limit, earliest: Offsets, latest_offsets: Offsets, latest_when_none: bool
) -> Offsets:
    times = limit.numbers if limit.numbers is not None else dict.fromkeys(earliest, limit.timestamp_ms)
    found = await session.at_times(times)
    none = sorted(one for one, at in found.items() if at is None)
    if none and not latest_when_none:
        raise ClientError(
            f"{limit.option}: {', '.join(map(str, none))} has no record at or after {times[none[0]]} ms; "
            "with startingOffsetsByTimestampStrategy=latest the query starts at the end there"
        )
    return {one: latest_offsets[one] if at is None else at.offset for one, at in found.items()}


def check_not_beyond(limit: Limit, offsets: Offsets, latest_offsets: Offsets) -> None:
    """Check that no offset of a limit is behind the end of its log. Raises ConfigError."""
    for one, offset in sorted(offsets.items()):
        if offset > latest_offsets[one]:
            raise ConfigError(
                f"{limit.option}: {one} has no offset {offset} yet, its log ends at {latest_offsets[one]}"
            )
