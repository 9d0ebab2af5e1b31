"""The producer's accumulator: order, memory, linger."""

import asyncio
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.errors import ClientTimeout, RecordTooLarge
from odradek.client.producer.accumulator import Accumulator, AccumulatorLimits
from odradek.client.producer.batch import FutureContext, ProducerBatch, RecordFuture, record_size_bytes
from odradek.client.records import TopicPartition

T0 = TopicPartition("t", 0)
RECORD_BYTES = record_size_bytes(None, b"x" * 79, ())  # 100


def accumulator(*, batch: int = 361, linger: float = 0, memory: int = 10_000, request: int = 1_000) -> Accumulator:
    return Accumulator(AccumulatorLimits(batch, linger, memory, request))


def put(target: Accumulator, tp: TopicPartition = T0, now_ms: float = 0, size: int = 79) -> ProducerBatch | None:
    return target.append(tp, 0, None, b"x" * size, (), lambda: now_ms)


def test_a_batch_takes_what_batch_size_allows_then_the_next_is_opened() -> None:
    target = accumulator()
    batches = [put(target) for _ in range(7)]
    assert [len(one) for one in target.queues[T0]] == [3, 3, 1]
    assert batches[0] is batches[2] is target.queues[T0][0]
    assert target.used_bytes == sum(one.size_bytes for one in target.queues[T0]) == 7 * RECORD_BYTES + 3 * 61


def test_a_batch_lingers_unless_it_is_full_or_hurried() -> None:
    target = accumulator(linger=50)
    put(target, now_ms=7)
    queue = target.queues[T0]
    assert target.due_at_ms(queue) == 57
    target.memory_waiters[print] = 0
    assert target.due_at_ms(queue) == 7
    del target.memory_waiters[print]
    target.flushing += 1
    assert target.due_at_ms(queue) == 7
    target.flushing -= 1
    for _ in range(3):
        put(target, now_ms=8)
    assert target.due_at_ms(queue) == 7, "a second batch: the first is full"


def test_a_refused_batch_does_not_linger_again_but_backs_off_and_takes_no_more_records() -> None:
    target = accumulator(linger=50)
    put(target)
    batch = target.take(T0)
    batch.closed, batch.ready_at_ms = True, 130
    target.put_back(batch)
    assert target.due_at_ms(target.queues[T0]) == 130
    put(target, now_ms=60)
    assert [len(one) for one in target.queues[T0]] == [1, 1]


def test_memory_is_bounded_and_freed_by_release() -> None:
    target = accumulator(memory=2 * (RECORD_BYTES + 61), batch=0)
    first = put(target)
    assert first is not None and put(target) is not None
    assert put(target) is None
    assert target.used_bytes == 322
    target.take(T0)
    assert put(target) is None, "a batch on the wire still holds its memory"
    target.release(first)
    assert put(target) is not None


def test_a_record_that_will_never_fit_is_refused_with_the_setting_that_says_so() -> None:
    with pytest.raises(RecordTooLarge, match=r"t-0: the record takes 1082 bytes, more than max.request.size=1000"):
        put(accumulator(), size=1000)
    with pytest.raises(RecordTooLarge, match=r"more than buffer.memory=500"):
        put(accumulator(memory=500, request=1000), size=600)


def test_batches_go_back_to_their_place() -> None:
    target = accumulator(batch=0)
    for _ in range(4):
        put(target)
    first, second, third = (target.take(T0) for _ in range(3))
    for one in (second, first, third):
        target.put_back(one)
    assert [one.order[0] for one in target.queues[T0]] == [1, 2, 3, 4]


def test_a_split_keeps_order_memory_callbacks_and_futures() -> None:
    target = accumulator(batch=1000)
    for _ in range(5):
        put(target)
    batch = target.take(T0)
    heard: list[int] = []
    batch.callbacks = [lambda metadata, error, index=index: heard.append(index) for index in range(5)]
    put(target)
    first, second = batch.split()
    target.replace(batch, (first, second))
    assert [len(one) for one in target.queues[T0]] == [2, 3, 1]
    assert target.used_bytes == sum(one.size_bytes for one in target.queues[T0])
    assert batch not in target.unfinished
    for half in (first, second):
        half.outcome.deliver(10, -1, half.timestamps_ms)
        half.outcome.call_all_back(half.callbacks)
    assert heard == [0, 1, 2, 3, 4]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400), st.booleans()), max_size=60))
def test_memory_adds_up_and_order_holds_whatever_happens(events: list[tuple[int, int, bool]]) -> None:
    target = accumulator(memory=3_000)
    on_wire: list[ProducerBatch] = []
    written: dict[TopicPartition, list[bytes | None]] = {}
    appended: dict[TopicPartition, list[bytes | None]] = {}
    for number, (partition, size, send) in enumerate(events):
        tp = TopicPartition("t", partition)
        value = str(number).encode() + b"." * size
        if target.append(tp, 0, None, value, (), lambda: 0) is not None:
            appended.setdefault(tp, []).append(value)
        if send and tp in target.queues:
            batch = target.take(tp)
            written.setdefault(tp, []).extend(batch.values)
            on_wire.append(batch)
        elif on_wire:
            target.release(on_wire.pop(0))
        held = on_wire + [batch for queue in target.queues.values() for batch in queue]
        assert target.used_bytes == sum(batch.size_bytes for batch in held) <= 3_000
        assert target.unfinished == set(held)
    for tp, queue in target.queues.items():
        written.setdefault(tp, []).extend(value for batch in queue for value in batch.values)
    assert written == appended


def test_a_batch_that_is_opened_behind_another_lets_a_sticky_partitioner_move_on() -> None:
    """It moved only when a batch was sent: all records without a key went to the partition of a dead leader."""
    target = accumulator(batch=361)
    moved = []
    for _ in range(7):
        batch = put(target)
        assert batch is not None
        moved.append(len(batch) == 1 and target.waits_behind(batch))
    assert moved == [False, False, False, True, False, False, True]


def test_who_has_waited_for_a_record_leaves_nothing_behind() -> None:
    """Each wait that timed out left a waiter until the batch was decided: a program that polls a future of an
    unreachable broker grew all the while."""
    batch = ProducerBatch(T0, 0)
    producers_loop = asyncio.new_event_loop()
    future = RecordFuture(batch, 0, FutureContext(threading.Lock(), producers_loop))
    for _ in range(3):
        with pytest.raises(ClientTimeout):
            future.result(0)

    async def polled() -> None:
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(future, 0.001)

    asyncio.run(polled())
    producers_loop.close()
    assert not batch.outcome._waiters
