"""A log on a disk that crashes."""

from typing import Any

from odradek.broker.log.log import Log
from odradek.testing.log_environments import (
    make_batch,
)

SEEDS = range(8)


def batch(number: int, **more: Any) -> bytearray:
    return make_batch([b"%060d" % number], timestamp_ms=1000 + number, **more)


def write(log: Log, count: int) -> None:
    for number in range(count):
        log.append_as_leader(batch(number), 0)
