"""Ctrl-C in the midst of a `send`: it may come between any two of its lines, and the producer goes on.

In a notebook the program goes on too; elsewhere it closes its producer, which waits for what is queued.
"""

import dis
import gc
import os
import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

import pytest

from odradek.client.errors import ClientClosed
from odradek.client.producer.client import KafkaProducer
from odradek.testing import Cluster

COLUMNS = ("callbacks", "timestamps_ms", "keys", "values", "headers")
PATIENCE_S = 20
HERE = ("/producer/", "/contextlib.py")
LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD")
"""Instructions after which CPython looks for signals."""
PLACES = 4 if os.environ.get("ODRADEK_COMPILED") == "1" else 20
"""At least so many are met in one send: inside of a compiled module there are none."""


class InterruptAt:
    """Raises KeyboardInterrupt where this thread looks for signals for the n-th time."""

    def __init__(self, number: int, here: tuple[str, ...] = HERE) -> None:
        """`here`: files whose lines are interrupted."""
        self.left, self._here = number, here
        self._last: dict[FrameType, str] = {}

    def __enter__(self) -> "InterruptAt":
        gc.disable()  # of a generator that is collected Python only says that it passes over what is raised in it
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)
        gc.enable()

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not any(one in frame.f_code.co_filename for one in self._here):
            return None
        frame.f_trace = self._step  # from Python 3.13 on, the next line has no effect on a frame without one
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "call":  # of RESUME, with which a function begins, there is no other event
            self._count()
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event != "opcode":
            return self._step
        last, code = self._last.get(frame, ""), frame.f_code.co_code[frame.f_lasti]
        self._last[frame] = dis.opname[code]
        if last.startswith(LOOKS):
            self._count()
        return self._step

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            sys.settrace(None)
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    "settings",
    [{}, {"linger_ms": 5}, {"batch_size": 100}, {"buffer_memory": 300, "batch_size": 100, "linger_ms": 50_000}],
    ids=["at once", "lingering", "a batch each", "waiting for memory"],
)
def test_a_producer_goes_on_after_a_send_was_interrupted_anywhere(settings: dict[str, Any]) -> None:
    """A batch that was counted but not queued had no end: flush and close waited for it for ever. Memory was lost, and
    what waits for memory was counted for ever, after which nothing lingered any more."""
    with Cluster(brokers=1, topics={"t": 1}) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, **settings)
        producer.send("t", b"first")
        producer.flush(PATIENCE_S)
        accumulator = producer._core.engine.accumulator
        for number in count(1):
            kept = [producer.send("t", b"kept") for _ in range(2)]
            try:
                with InterruptAt(number):
                    producer.send("t", b"struck" * 10)
            except KeyboardInterrupt:
                kept.append(producer.send("t", b"after" * 10))
            else:
                break
            producer.flush(PATIENCE_S)
            assert [one.result(0).topic for one in kept] == ["t", "t", "t"]
            assert (accumulator.used_bytes, accumulator.queues, accumulator.unfinished) == (0, {}, set()), number
            assert not accumulator.memory_waiters, number
        assert number > PLACES
        producer.close(PATIENCE_S)
        with pytest.raises(ClientClosed):
            producer.send("t", b"late")


class Watched:
    """The lock of a producer's queues, which looks at what others find when it is given back."""

    def __init__(self, lock: Any, look: Callable[[], None]) -> None:
        self._lock, self._look = lock, look

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: Any) -> None:
        self._lock.release()
        self._look()


def test_nobody_finds_half_a_record_of_a_send_that_was_interrupted() -> None:
    """The sender, which waits for the lock meanwhile, could: of a batch without a record it sent nothing, and the end
    of that batch, which was not counted any more, broke the producer."""
    with Cluster(brokers=1, topics={"t": 1}) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=50_000, batch_size=100)
        producer.send("t", b"first")
        producer.flush(PATIENCE_S)
        engine, intake = producer._core.engine, producer._core.intake
        found: list[set[int]] = []

        def look() -> None:
            tracing = sys.gettrace()
            sys.settrace(None)
            batches = list(engine.accumulator.unfinished)
            found.extend({len(getattr(batch, name)) for name in COLUMNS} for batch in batches)
            sys.settrace(tracing)

        intake._lock = Watched(engine.lock, look)  # type: ignore[assignment]
        for number in count(1):
            try:
                with InterruptAt(number):
                    producer.send("t", b"struck")
            except KeyboardInterrupt:
                producer.flush(PATIENCE_S)
            else:
                break
        assert number > PLACES and found
        assert all(len(lengths) == 1 and 0 not in lengths for lengths in found)
        producer.close(PATIENCE_S)


def test_a_sender_is_woken_after_an_interrupt_has_struck_whoever_was_about_to_wake_it() -> None:
    """A send that waits for memory wakes it too. Nobody did any more: what lingered then filled the memory for good."""

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with Cluster(brokers=1, topics={"t": 1}) as cluster, KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("t", b"first").result(PATIENCE_S)
        for _ in range(10):  # turns of the loop, until it has nothing to do
            producer._thread.call(lambda: None)
        intake = producer._core.intake
        call_on_loop, intake._call_on_loop = intake._call_on_loop, interrupted
        with pytest.raises(KeyboardInterrupt):
            intake.wake_sender()
        intake._call_on_loop = call_on_loop
        assert producer.send("t", b"second").result(PATIENCE_S).offset == 1
