"""Recovery after an unclean stop: logs with much to validate are repaired by child processes, several at a time.

A scan of small batches is Python work, and two threads of that were measured to be slower than one. A child repairs a
log as the broker itself would (`recovery.open_log`), so what a child does not come to is done in this process. What a
child leaves is on the disk: the log cut to its last valid batch, indexes, leader epochs, a snapshot of the producers.
"""

import heapq
import json
import logging
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from odradek.broker.log import checkpoint_format as checkpoints
from odradek.broker.log.directories.directory_files import CLEAN_SHUTDOWN, parse_future_name, parse_partition_name
from odradek.broker.log.directories.log_directory import LogDirectory, gaps_before
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.log.segment import LOG
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import MalformedMessage
from odradek.world.background import InlineBackground
from odradek.world.child_process import main
from odradek.world.children import Child, Children
from odradek.world.clock import StandingClock
from odradek.world.files import Files

logger = logging.getLogger(__name__)

CHILD = "odradek.broker.log.recovery.parallel"
LEAST_BYTES = 64 * 1024 * 1024
"""Bytes to be validated in a directory, before it is worth while to begin processes."""


class TornLog(NamedTuple):
    """A log that was not closed, and what the checkpoints say of it. `size_bytes`: how much is to be validated."""

    directory: str
    topic: str
    partition: int
    recovery_point: int
    log_start_offset: int
    index_interval_bytes: int
    cleanup_policy: list[str]
    gaps_before: int
    size_bytes: int


def encode_request(logs: Sequence[TornLog], now_ms: int, producer_expiration_ms: int) -> bytes:
    return json.dumps([now_ms, producer_expiration_ms, logs]).encode()


def work(files: Files, request: bytes, moved: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the directory of each log that is repaired, one line each. Ends at the first that cannot be."""
    now_ms, producer_expiration_ms, logs = json.loads(request)
    environment = LogEnvironment(
        files,
        StandingClock(now_ms),
        InlineBackground(),
        random.Random(),
        producer_expiration_ms=producer_expiration_ms,
    )
    for torn in map(TornLog._make, logs):
        moved(0)
        try:
            log = open_log(
                environment,
                torn.directory,
                torn.topic,
                torn.partition,
                LogConfig(
                    index_interval_bytes=torn.index_interval_bytes, cleanup_policy=frozenset(torn.cleanup_policy)
                ),
                recovery_point=torn.recovery_point,
                log_start_offset=torn.log_start_offset,
                gaps_before=torn.gaps_before,
            )
        except (OSError, MalformedMessage):
            return  # the broker comes upon the same, and knows what to do
        log.abandon()
        if not log.epoch_file.waits_for_room:  # else the broker has to learn them once more, to keep them in memory
            yield f"{torn.directory}\n".encode()


def torn_logs(
    environment: LogEnvironment, directory: LogDirectory, config_of: Callable[[str], LogConfig]
) -> list[TornLog]:
    """Return the logs of a directory that has no mark of a clean shutdown, none if there is little to be validated.

    Raises OSError.
    """
    files = environment.files
    if files.exists(f"{directory.path}/{CLEAN_SHUTDOWN}"):
        return []
    recovery_points = directory.checkpoints.read(checkpoints.RECOVERY_POINTS)
    starts = directory.checkpoints.read(checkpoints.LOG_START_OFFSETS)
    cleaned = directory.checkpoints.read(checkpoints.CLEANER_OFFSETS)
    found = []
    for name in directory.names():
        key, path = parse_partition_name(name) or parse_future_name(name), f"{directory.path}/{name}"
        names = directory.names_in(path) if key is not None else None
        if key is not None and names is not None:
            point, config = recovery_points.get(key, 0), config_of(key[0])
            interval, policy = config.index_interval_bytes, sorted(config.cleanup_policy)
            size = _unvalidated_bytes(environment, path, names, point)
            gaps = gaps_before(recovery_points, cleaned, key)
            found.append(TornLog(path, *key, point, starts.get(key, 0), interval, policy, gaps, size))
    return found if sum(log.size_bytes for log in found) >= LEAST_BYTES else []


def _unvalidated_bytes(environment: LogEnvironment, directory: str, names: list[str], recovery_point: int) -> int:
    """Sum the sizes of the segment that holds the recovery point, and of those after it."""
    logs = sorted(name for name in names if name.endswith(LOG))
    later = [name for name in logs if name.removesuffix(LOG) > f"{recovery_point:020d}"]
    first = max(len(logs) - len(later) - 1, 0)
    return sum(environment.files.size(f"{directory}/{name}") for name in logs[first:])


def shared_out(logs: list[TornLog], shares: int) -> list[list[TornLog]]:
    """Split logs into at most `shares` parts of about the same size: the largest first, each into the smallest part."""
    heap: list[tuple[int, int, list[TornLog]]] = [(0, number, []) for number in range(shares)]
    for log in sorted(logs, key=lambda log: -log.size_bytes):
        size, number, share = heap[0]
        share.append(log)
        heapq.heapreplace(heap, (size + log.size_bytes, number, share))
    return [share for _, _, share in sorted(heap) if share]


class ParallelRecovery:
    """Recovery of one directory. `done(directories)` hears once, on the loop, which logs are repaired."""

    def __init__(
        self, children: Children, environment: LogEnvironment, done: Callable[[frozenset[str]], object]
    ) -> None:
        self._children = children
        self._environment = environment
        self._done = done
        self._repaired: set[str] = set()
        self._running: list[Child] = []
        self._left = 0

    def begin(self, logs: list[TornLog], processes: int) -> None:
        """Begin with at most `processes`, `num.recovery.threads.per.data.dir`."""
        total = sum(log.size_bytes for log in logs)
        shares = shared_out(logs, processes)
        self._left = len(shares)
        logger.info("validating %d bytes of %d logs in %d processes", total, len(logs), len(shares))
        for share in shares:
            request = encode_request(share, self._environment.clock.now_ms(), self._environment.producer_expiration_ms)
            self._running.append(self._children.run(CHILD, request, self._heard, self._ended))

    def _heard(self, line: bytes) -> None:
        self._repaired.add(line.decode().removesuffix("\n"))

    def _ended(self, well: bool) -> None:
        if not well:
            logger.warning("a process that validates logs has failed: this process does the rest")
        self._left -= 1
        if self._left == 0:
            self._done(frozenset(self._repaired))

    def stop(self) -> None:
        """End the processes. Harmless twice."""
        for child in self._running:
            child.kill()


if __name__ == "__main__":
    sys.exit(main(work, gives_way=False))  # the broker does nothing else until it is done
