"""Streams and what is consumed: chunks of real record batches, claims and releases around them."""

import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client.consumer.chunks import Chunk
from odradek.client.errors import ClientClosed, ClientError, CorruptRecords, DeserializationError
from odradek.client.loop_thread import LoopThread
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.config import settings_of
from odradek.client.zookeeper.connector import ConsumerConnector
from odradek.client.zookeeper.consumption import Consumption
from odradek.client.zookeeper.core import StreamTable
from odradek.client.zookeeper.streams import ConsumerTimeout, MessageStream
from odradek.protocol.records import encode_batch
from odradek.testing.forked import in_a_child
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import SessionExpired

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MINE = {T0: "g_a-0", T1: "g_a-0"}
PATIENCE_MS = 1_000


def decoded(topic: str, headers: object, data: bytes | None) -> str | None:
    text = data.decode() if data is not None else None
    if text == "t-0:13":
        raise ValueError("unlucky")
    return text


class World:
    """One stream, its partitions, and what is stored."""

    def __init__(self, clock: VirtualClock, timeout_ms: float = 0) -> None:
        self.stored: dict[TopicPartition, int] = {}
        self.consumption = Consumption(clock, self, self.stored)
        self.stream = MessageStream(2, timeout_ms, None, decoded, lambda: self.consumption.wake())

    def stream_of(self, topic: str, thread: int) -> MessageStream:
        assert (topic, thread) == ("t", 0)
        return self.stream

    def fetched(self, name: TopicPartition, first: int, count: int, last: int | None = None) -> Chunk:
        """An answer of the broker: offsets first … in one batch, which may span more."""
        values = [f"{name}:{offset}".encode() for offset in range(first, first + count)]
        batch = encode_batch(first, [0] * count, [None] * count, values, last_offset=last)
        version = self.consumption.positions.partitions[name].version if name in self.consumption.claimed else 0
        chunk = Chunk(name, memoryview(bytes(batch)), first, version, None)
        self.stream.put(chunk)
        return chunk

    def consumed(self, *, in_hand: bool = False) -> dict[TopicPartition, int]:
        return self.consumption.consumed(in_hand=in_hand)

    async def release(self) -> None:
        """As a member does it with auto commit."""
        await self.consumption.stop(PATIENCE_MS)
        self.stored.update(self.consumed())
        self.consumption.given_up()


def play(test: Callable[[World], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        await test(World(clock))

    run_virtual(main)


def test_messages_come_in_order_and_count_when_the_next_is_asked_for() -> None:
    async def test(world: World) -> None:
        world.stored.update({T0: 5, T1: 0})
        world.consumption.start(MINE)
        assert world.consumed() == {T0: 5, T1: 0}
        world.fetched(T0, 5, 2)
        world.fetched(T1, 0, 1)
        assert next(world.stream).value == "t-0:5"
        assert world.consumed() == {T0: 5, T1: 0}, "in hand"
        assert next(world.stream).value == "t-0:6"
        assert world.consumed() == {T0: 6, T1: 0}
        assert next(world.stream).value == "t-1:0"
        assert world.consumed() == {T0: 7, T1: 0}
        with pytest.raises(ConsumerTimeout):
            next(world.stream)
        assert world.consumed() == {T0: 7, T1: 1}, "who waits in vain is done with what it had"

    play(test)


def test_what_the_application_commits_counts_messages_in_hand() -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 0, 3)
        next(world.stream)
        assert world.consumed(in_hand=True) == {T0: 1}
        assert world.consumed() == {T0: 1}, "it stays so: nothing goes back"

    play(test)


def test_a_message_whose_decoder_is_interrupted_comes_again_and_is_not_committed() -> None:
    """Ctrl-C in a decoder, then `shutdown`: the message counted as one in hand, and was never seen by anybody."""
    interrupts = [KeyboardInterrupt()]

    def interrupted(topic: str, headers: object, data: bytes | None) -> bytes | None:
        if interrupts and data == b"t-0:6":
            raise interrupts.pop()
        return data

    async def test(world: World) -> None:
        world.stream = MessageStream(2, 0, None, interrupted, lambda: world.consumption.wake())
        world.stored.update({T0: 5})
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 5, 2)
        assert next(world.stream).value == b"t-0:5"
        with pytest.raises(KeyboardInterrupt):
            next(world.stream)
        assert world.consumed(in_hand=True) == {T0: 6}
        assert next(world.stream).value == b"t-0:6"
        assert world.consumed(in_hand=True) == {T0: 7}

    play(test)


def test_offsets_without_messages_at_the_end_are_consumed_too() -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 0, 2, last=9)
        assert [next(world.stream).offset for _ in range(2)] == [0, 1]
        with pytest.raises(ConsumerTimeout):
            next(world.stream)
        assert world.consumed() == {T0: 10}

    play(test)


def test_messages_before_the_position_are_passed_over() -> None:
    """A broker answers whole batches."""

    async def test(world: World) -> None:
        world.stored[T0] = 2
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 0, 4)
        assert next(world.stream).offset == 2

    play(test)


def test_a_full_stream_says_so_until_a_chunk_is_taken() -> None:
    async def test(world: World) -> None:
        world.stored.update({T0: 0, T1: 0})
        world.consumption.start(MINE)
        world.fetched(T0, 0, 1)
        assert not world.stream.full
        world.fetched(T0, 1, 1)
        assert world.stream.full
        world.consumption.changed.clear()
        next(world.stream)
        assert not world.stream.full
        assert world.consumption.changed.is_set()

    play(test)


def test_nothing_is_handed_out_after_a_release() -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        late = world.fetched(T0, 0, 9)
        next(world.stream)
        with pytest.raises(StopIteration):
            world.consumption.abandon()
            world.stream.put(late)
            world.stream.close()
            next(world.stream)
        assert world.consumed() == {}, "what is lost is not committed"

    play(test)


def test_an_answer_to_an_earlier_claim_is_dropped() -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        late = world.fetched(T0, 0, 3)
        await world.release()
        world.consumption.start({T0: "g_a-0"})
        world.stream.put(late)
        with pytest.raises(ConsumerTimeout):
            next(world.stream)

    play(test)


def test_a_release_waits_for_the_message_in_hand() -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 0, 3)
        next(world.stream)
        clock = world.consumption._clock

        def come_back() -> None:
            with pytest.raises(ConsumerTimeout):
                next(world.stream)

        clock.call_later(300, come_back)
        before_ms = clock.monotonic_ms()
        await world.release()
        assert clock.monotonic_ms() - before_ms == pytest.approx(300)
        assert world.stored == {T0: 1}

    play(test)


def test_a_message_that_stays_in_hand_is_not_counted_and_comes_to_the_next_owner() -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 0, 3)
        next(world.stream)
        await world.release()
        assert world.consumption._clock.monotonic_ms() == pytest.approx(PATIENCE_MS)
        assert world.stored == {T0: 0}

    play(test)


@pytest.mark.parametrize(("stored", "expected"), [(0, 1), (2, 2), (5, 5)])
def test_a_partition_that_comes_back_goes_on_where_it_was_unless_somebody_else_has_read_it(
    stored: int, expected: int
) -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 0, 3)
        next(world.stream)
        await world.release()
        world.stored[T0] = stored
        world.consumption.start({T0: "g_a-0"})
        assert world.consumption.positions.partitions[T0].fetch_offset == expected

    play(test)


def test_a_partition_without_an_offset_is_located_first() -> None:
    async def test(world: World) -> None:
        world.consumption.start({T0: "g_a-0"})
        assert world.consumption.positions.unlocated(0) == [T0]
        assert world.consumed() == {}
        world.consumption.locate(T0, 42)
        assert world.consumed() == {T0: 42}, "where it starts is committed, or another owner would start elsewhere"

    play(test)


def test_a_message_in_hand_does_not_count_in_a_log_that_begins_anew() -> None:
    """The topic was deleted and made again while the session was lost. With the old message done, its offset was
    committed: whoever started there passed over everything up to it."""

    async def test(world: World) -> None:
        world.stored[T0] = 200
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 200, 1)
        assert next(world.stream).offset == 200
        world.consumption.abandon()
        world.consumption.start({T0: "g_a-0"})
        world.consumption.locate(T0, 0)
        world.fetched(T0, 0, 2)
        assert next(world.stream).offset == 0
        assert world.consumed() == {T0: 0}
        assert next(world.stream).offset == 1
        assert world.consumed() == {T0: 1}

    play(test)


def test_a_failure_is_raised_once() -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 0, 1)
        world.stream.fail(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            next(world.stream)
        assert next(world.stream).offset == 0

    play(test)


def test_a_waiting_reader_gets_what_arrives_and_ends_with_the_stream() -> None:
    async def test(world: World) -> None:
        stream = world.stream = MessageStream(2, -1, None, None, lambda: None)
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        seen: list[int] = []
        reader = threading.Thread(target=lambda: seen.extend(message.offset for message in stream))
        reader.start()
        world.fetched(T0, 0, 3)
        world.fetched(T0, 3, 1)
        while len(seen) < 4 and reader.is_alive():
            reader.join(0.01)
        stream.close()
        reader.join()
        assert seen == [0, 1, 2, 3]

    play(test)


def test_a_message_that_cannot_be_decoded_is_said_once_and_read_on() -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 12
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 12, 3)
        assert next(world.stream).value == "t-0:12"
        with pytest.raises(DeserializationError, match="t-0 at offset 13: cannot be decoded: unlucky"):
            next(world.stream)
        assert world.consumed() == {T0: 13}
        assert next(world.stream).value == "t-0:14"
        assert world.consumed() == {T0: 14}

    play(test)


def test_damaged_messages_are_told_with_a_way_past_them_that_a_stream_has() -> None:
    """The error said to seek, which no stream can, after the messages before the damage had come."""

    async def test(world: World) -> None:
        world.consumption.start({T0: "g_a-0"})
        world.consumption.locate(T0, 0)
        batches = [bytearray(encode_batch(first, [0, 0], [None] * 2, [b"a", b"b"])) for first in (0, 2)]
        batches[1][-1] ^= 1
        records = memoryview(bytes(b"".join(batches)))
        world.stream.put(Chunk(T0, records, 0, world.consumption.positions.partitions[T0].version, None))
        assert [next(world.stream).offset for _ in range(2)] == [0, 1]
        for _ in range(2):
            with pytest.raises(CorruptRecords) as raised:
                next(world.stream)
            assert "seek" not in str(raised.value)
            assert "commit_offsets({('t', 0): 4})" in str(raised.value)
            assert (raised.value.offset, raised.value.next_offset) == (2, 4)
        assert world.consumed() == {T0: 2}

    play(test)


def test_the_loop_need_not_wait_for_decoders() -> None:
    held: list[bool] = []

    async def test(world: World) -> None:
        world.stream._value = lambda topic, headers, data: held.append(world.stream._arrived._is_owned())  # type: ignore[attr-defined]
        world.stored[T0] = 0
        world.consumption.start({T0: "g_a-0"})
        world.fetched(T0, 0, 1)
        next(world.stream)
        assert held == [False]

    play(test)


def test_readers_end_though_a_shutdown_is_interrupted() -> None:
    """They waited for ever, and the program with them, whose main thread had been told to end twice."""

    class Interrupted:
        running = True

        def run(self, work: Coroutine[Any, Any, None]) -> None:
            work.close()
            raise KeyboardInterrupt

        def stop(self) -> None:
            pass

    async def close(in_hand: bool) -> None:
        pass

    stream = MessageStream(2, -1, None, None, lambda: None)
    connector: Any = object.__new__(ConsumerConnector)
    connector._closed, connector._end, connector._thread = False, threading.RLock(), Interrupted()
    connector._core = SimpleNamespace(streams=StreamTable(), close=close)
    connector._core.streams.add("t", [stream])
    with pytest.raises(KeyboardInterrupt):
        connector.shutdown()
    assert list(stream) == []


def test_streams_of_before_a_fork_refuse_and_need_no_shutdown() -> None:
    """The child processed what was read ahead, as its parent did, and then waited for ever; a `with` that it left was
    an error."""
    stream = MessageStream(2, 0, None, None, lambda: None)
    connector: Any = object.__new__(ConsumerConnector)
    connector._closed, connector._end, connector._thread = False, threading.RLock(), LoopThread("odradek-g")

    def child() -> str:
        with pytest.raises(ClientClosed, match="before a fork"):
            next(stream)
        connector.shutdown()
        return "refused"

    try:
        assert in_a_child(child) == "refused"
    finally:
        connector._thread.stop()


def test_a_commit_that_zookeeper_did_not_take_says_whose_and_what_follows() -> None:
    """It said no more than `/: the ZooKeeper session has expired`."""

    class Expires:
        def run(self, work: Coroutine[Any, Any, None]) -> None:
            work.close()
            raise SessionExpired("/")

    async def commit(offsets: object) -> None:
        pass

    connector: Any = object.__new__(ConsumerConnector)
    connector._closed, connector._thread = False, Expires()
    connector._settings = settings_of({"zookeeper.connect": "z:2181", "group.id": "g"}, {})
    connector._core = SimpleNamespace(commit=commit)
    said = r"group g: ZooKeeper at z:2181: the ZooKeeper session has expired: messages .* come again"
    with pytest.raises(ClientError, match=said):
        connector.commit_offsets()
