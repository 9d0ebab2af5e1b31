"""The child process that repairs logs after a kill: the request on stdin names them.

What it leaves is on the disk: the log cut to its last valid batch, indexes, leader epochs, a snapshot of the producers.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from odradek.broker.log.log_config import LogConfig
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.log.storage import Storage
from odradek.protocol.errors import MalformedMessage
from odradek.world.background import InlineBackground
from odradek.world.child_process import main
from odradek.world.clock import StandingClock
from odradek.world.files import Files


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
    """The directory of each log that is repaired, one line each. Ends at the first that cannot be."""
    now_ms, producer_expiration_ms, logs = json.loads(request)
    storage = Storage(
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
                storage,
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
        yield f"{torn.directory}\n".encode()


if __name__ == "__main__":
    sys.exit(main(work))
