"""Ctrl-C in the midst of a poll, or of a close: what was not handed out is read again, and nothing is left behind.

Whoever closes its consumer then commits the position: it must not be behind records that nobody has got.
"""

import gc
import os
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

import pytest

from odradek import KafkaAdminClient, KafkaProducer
from odradek.client.consumer.client import KafkaConsumer
from odradek.testing.patience import PATIENCE_SECONDS
from tests.client.group_of_one import T0, arrive, consumer
from tests.client.test_interrupted_sends import InterruptAt

HERE = (
    "/consumer/",
    "/aio/",
    "/client/waiting.py",
    "/client/sensors.py",
    "/contextlib.py",
    "/client/blocking.py",
    "/client/loop_thread.py",
    "/producer/client.py",
)
"""Files whose lines are interrupted."""
PLACES = 4 if os.environ.get("ODRADEK_COMPILED") == "1" else 20
"""At least so many are met in one poll: inside of a compiled module there are none."""
NOBODY_LISTENS = "127.0.0.1:1"
Call = Callable[[KafkaConsumer], object]


class InterruptExactlyAt(InterruptAt):
    """Leaves out the places behind calls of Python functions: CPython does not look for signals there."""

    def __init__(self, number: int) -> None:
        super().__init__(number, HERE)
        self._called: set[FrameType] = set()

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_back is not None:
            self._called.add(frame.f_back)
        if frame.f_code.co_name == "<genexpr>":  # may be at its end, where Python passes over what is raised
            return None
        return super()._enter(frame, event, arg)

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode" and frame in self._called:
            self._called.discard(frame)
            self._last[frame] = ""
        return super()._step(frame, event, arg)


@pytest.mark.parametrize(
    ("before", "call"),
    [
        (0, lambda reading: reading.poll(0)),
        (0, lambda reading: reading.poll(0, max_records=2)),
        (0, next),
        (1, next),
        (1, lambda reading: reading.poll(0)),
    ],
    ids=["poll", "poll for some", "next", "next of those decoded", "poll for those decoded"],
)
def test_an_interrupt_anywhere_in_a_poll_takes_no_record(broker: Any, before: int, call: Call) -> None:
    """The position was behind all of them where it struck when the fetcher was woken, or the metrics counted."""
    with consumer(broker, enable_auto_commit=False) as reading:
        reading.assign([T0])
        for number in count(1):
            arrive(reading, 0, b"a", b"b", b"c")
            for _ in range(before):
                next(reading)
            try:
                with InterruptExactlyAt(number):
                    call(reading)
            except KeyboardInterrupt:
                assert reading.position(T0) == before, number
            else:
                break
        assert reading.position(T0) > before
        assert number > (PLACES if not before else 1)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # where it struck before there was a task
@pytest.mark.parametrize("kind", [KafkaAdminClient, KafkaConsumer, KafkaProducer])
def test_a_close_that_was_interrupted_anywhere_is_done_by_the_next_one(kind: Any) -> None:
    """Where it struck at the end, the thread went on for ever."""
    for number in count(1):
        client = kind(bootstrap_servers=NOBODY_LISTENS)
        thread = client._thread._thread
        try:
            with InterruptExactlyAt(number):
                client.close()
        except KeyboardInterrupt:
            client.close()
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), number
            gc.collect()  # here its warnings are expected
        else:
            break
    assert number > 4
