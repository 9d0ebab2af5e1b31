"""Short ways to make logs, batches and a replica manager in tests, without a broker."""

import posixpath
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from odradek.broker.log.local_log import LocalLog
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.log_manager import LogManager
from odradek.broker.log.offset_lookup import TimestampedOffset, find_max_timestamp, find_offset
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.broker.replication.throttling import Throttling
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.record_batch import batches
from odradek.protocol.records import Columns, decode_records, encode_batch
from odradek.protocol.steps import at_once
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import FIRST_WALL_CLOCK_MS, ManualClock
from odradek.world.background import InlineBackground
from odradek.world.clock import Clock
from odradek.world.files import Files

DIRECTORY = "/data/topic-0"


def make_environment(files: Files | None = None, clock: Clock | None = None) -> LogEnvironment:
    """Make an environment of simulated files, a clock that stands still, and background work done at once."""
    clock = clock or ManualClock()
    files = files or SimulatedFiles(now_ms=clock.now_ms)
    if isinstance(files, SimulatedFiles):
        files.make_directory(posixpath.dirname(DIRECTORY))
        files.sync_directory("/")
    return LogEnvironment(files, clock, InlineBackground(), random.Random(1))


def open_test_log(
    environment: LogEnvironment,
    config: LogConfig | None = None,
    *,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean: bool = False,
) -> Log:
    """Open the log of `topic-0` in /data."""
    return open_log(
        environment, DIRECTORY, "topic", 0, config or LogConfig(),
        recovery_point=recovery_point, log_start_offset=log_start_offset, clean=clean,
    )  # fmt: skip


def close_log(log: Log) -> None:
    """Close a log as the clean shutdown of its directory does (broker/log/directories/loading.py)."""
    flush = log.begin_close()
    if flush is None:
        return
    try:
        flush.sync()
    except OSError as error:
        raise log.give_up_directory(error) from error
    log.end_close(flush)


def make_batch(
    values: Sequence[bytes] = (b"value",),
    *,
    base_offset: int = 0,
    timestamp_ms: int = FIRST_WALL_CLOCK_MS,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    epoch: int = -1,
    codec: int = 0,
    transactional: bool = False,
) -> bytearray:
    """Make a batch without keys; record i has `timestamp_ms + i`."""
    count = len(values)
    return encode_batch(
        base_offset,
        [timestamp_ms + index for index in range(count)],
        [None] * count,
        list(values),
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch if producer_id >= 0 else -1,
        base_sequence=sequence if producer_id >= 0 else -1,
        partition_leader_epoch=epoch,
        transactional=transactional,
    )


def read_batches(log: Log, offset: int | None = None) -> list[Columns]:
    """Read the records of every batch from `offset` (log start) to the log end, as a consumer reads.

    Compaction leaves batches without records."""
    position = log.log_start_offset if offset is None else offset
    end = log.log_end_offset
    found: list[Columns] = []
    while position < end:
        records = log.read(position, 1 << 20, end, whole_first_batch=True).records
        data = records if isinstance(records, bytes) else records.read()
        if not data:
            break
        for at, header in batches(data):
            found.append(decode_records(data, at))
            position = header.next_offset
    return found


def offset_for_timestamp(log: LocalLog, timestamp_ms: int) -> TimestampedOffset | None:
    """Do what `find_offset` does, without a pause."""
    return at_once(find_offset(log, timestamp_ms))


def offset_of_max_timestamp(log: LocalLog) -> TimestampedOffset | None:
    """Do what `find_max_timestamp` does, without a pause."""
    return at_once(find_max_timestamp(log))


def manager_of(
    *partitions: Partition, clock: Clock, purgatory: Purgatory | None = None, throttling: Throttling | None = None
) -> ReplicaManager:
    """Partitions of one broker, which has no log manager: no log is made, moved or deleted."""
    first = partitions[0]
    manager = ReplicaManager(
        first.local_id,
        cast(LogManager, SimpleNamespace(directories={})),
        clock,
        purgatory or Purgatory(TimingWheel(clock)),
        first.criteria,
        throttling or Throttling(clock),
        exists=lambda topic, index: (topic, index) in manager.partitions,
    )
    for partition in partitions:
        manager.partitions[partition.topic, partition.index] = partition
    return manager
