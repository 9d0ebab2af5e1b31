"""The virtual loop, clock and network that other tests stand on."""

import asyncio
from typing import Any

import pytest

from odradek.testing.virtual_clock import ManualClock, NothingLeftToHappen, VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualEndpoint, VirtualNetwork
from odradek.testing.virtual_pipe import PIPE_BYTES, Pipe


class Pair:
    """Two connected ends on hosts `a` and `b`; what arrives at `b` is collected with its time."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self.clock = clock
        self.network = VirtualNetwork(clock, **options)
        self.accepted: list[Any] = []
        self.arrived: list[tuple[float, bytes]] = []
        self.network.host("b").listen("", 9, self._accept)

    def _accept(self, endpoint: Any) -> None:
        self.accepted.append(endpoint)
        endpoint.on_readable(self._read)

    def _read(self) -> None:
        buffer = memoryview(bytearray(100_000))
        try:
            size = self.accepted[0].receive_into(buffer)
        except ConnectionResetError:
            self.arrived.append((self.clock.monotonic_ms(), b"reset"))
            self.accepted[0].on_readable(None)
            return
        self.arrived.append((self.clock.monotonic_ms(), bytes(buffer[:size])))
        if not size:
            self.accepted[0].on_readable(None)

    async def connect(self) -> VirtualEndpoint:
        return await self.network.host("a").connect("b", 9)

    @property
    def bytes_arrived(self) -> bytes:
        return b"".join(data for _, data in self.arrived)


def test_time_passes_only_when_nothing_else_is_to_do() -> None:
    async def main(clock: VirtualClock) -> list[float]:
        await asyncio.sleep(3600)
        await asyncio.gather(asyncio.sleep(5), asyncio.sleep(7))
        return [clock.monotonic_ms(), clock.now_ms() - clock.wall_offset_ms]

    assert run_virtual(main) == [3_607_000, 3_607_000]


def test_waiting_for_nothing_is_an_error() -> None:
    async def main(clock: VirtualClock) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NothingLeftToHappen):
        run_virtual(main)


def test_an_exception_in_a_callback_fails_the_run() -> None:
    async def main(clock: VirtualClock) -> None:
        clock.call_later(1, lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        run_virtual(main)


def test_the_manual_clock() -> None:
    clock, ran = ManualClock(), []
    clock.call_later(10, lambda: ran.append("b"))
    clock.call_later(5, lambda: clock.call_later(5, lambda: ran.append("c")))
    clock.call_later(7, lambda: ran.append("never")).cancel()
    clock.call_soon(lambda: ran.append("a"))
    clock.advance(9)
    assert (ran, clock.outstanding) == (["a"], 2)
    clock.advance(1)
    assert (ran, clock.outstanding, clock.monotonic_ms()) == (["a", "b", "c"], 0, 10)


def test_bytes_arrive_in_order_after_a_latency() -> None:
    async def main(clock: VirtualClock) -> None:
        pair = Pair(clock, seed=3, latency_ms=(5, 20))
        near = await pair.connect()
        sent_ms = clock.monotonic_ms()
        for number in range(50):
            assert near.send(bytes([number])) == 1
        near.close()
        await asyncio.sleep(1)
        assert pair.bytes_arrived == bytes(range(50))
        assert pair.arrived[-1][1] == b"", "the end"
        assert all(time - sent_ms + 1e-6 >= 5 and time - sent_ms <= 20 + 1e-6 for time, _ in pair.arrived)

    run_virtual(main)


def test_a_seed_is_a_run() -> None:
    async def main(clock: VirtualClock) -> list[tuple[float, bytes]]:
        pair = Pair(clock, seed=11, latency_ms=(1, 100))
        near = await pair.connect()
        for number in range(20):
            near.send(bytes([number]))
            await asyncio.sleep(0.003)
        await asyncio.sleep(1)
        return pair.arrived

    assert run_virtual(main) == run_virtual(main)


def test_a_cut_holds_bytes_back_and_may_be_one_way() -> None:
    async def main(clock: VirtualClock) -> None:
        pair = Pair(clock)
        near = await pair.connect()
        pair.network.cut("a", "b", one_way=True)
        near.send(b"held")
        pair.accepted[0].send(b"back")
        await asyncio.sleep(10)
        assert pair.bytes_arrived == b""
        buffer = memoryview(bytearray(10))
        assert near.receive_into(buffer) == 4
        pair.network.heal("a", "b")
        await asyncio.sleep(1)
        assert pair.bytes_arrived == b"held"

    run_virtual(main)


def test_a_connection_that_stalls_holds_back_what_comes_by_it_in_that_direction() -> None:
    async def main(clock: VirtualClock) -> None:
        pair = Pair(clock)
        ways: list[Pipe] = []
        pair.network.tap = lambda way: ways.append(way)
        near = await pair.connect()
        ways[0].stall()
        near.send(b"held")
        pair.accepted[0].send(b"back")
        await asyncio.sleep(10)
        assert pair.bytes_arrived == b"" and near.receive_into(memoryview(bytearray(10))) == 4
        assert pair.network.sent == {("a", "b"): 1, ("b", "a"): 1}
        ways[0].go_on()
        await asyncio.sleep(1)
        assert pair.bytes_arrived == b"held"

    run_virtual(main)


def test_connecting_through_a_cut() -> None:
    async def main(clock: VirtualClock) -> None:
        pair = Pair(clock)
        pair.network.cut("b", "a", one_way=True)
        with pytest.raises(TimeoutError):
            await pair.connect()
        connecting = asyncio.ensure_future(pair.connect())
        await asyncio.sleep(1)
        assert not connecting.done()
        pair.network.heal()
        await connecting
        with pytest.raises(ConnectionRefusedError):
            await pair.network.host("a").connect("b", 10)

    run_virtual(main)


def test_a_full_pipe_and_room_again() -> None:
    async def main(clock: VirtualClock) -> None:
        pair = Pair(clock)
        near = await pair.connect()
        far = pair.accepted[0]
        far.on_readable(None)
        assert near.send(bytes(2 * PIPE_BYTES)) == PIPE_BYTES
        with pytest.raises(BlockingIOError):
            near.send(b"x")
        room = asyncio.Event()
        near.on_writable(room.set)
        await asyncio.sleep(1)
        assert not room.is_set()
        assert far.receive_into(memoryview(bytearray(10))) == 10
        await room.wait()
        near.on_writable(None)
        assert near.send(bytes(100)) == 10

    run_virtual(main)


def test_an_end_may_wait_for_many_bytes() -> None:
    async def main(clock: VirtualClock) -> None:
        pair = Pair(clock)
        near = await pair.connect()
        far = pair.accepted[0]
        far.wake_at(100)
        near.send(bytes(10))
        await asyncio.sleep(1)
        assert not pair.arrived
        near.send(bytes(90))
        await asyncio.sleep(1)
        assert [len(data) for _, data in pair.arrived] == [100]
        near.send(bytes(10))
        await asyncio.sleep(1)
        far.wake_at(1)
        await asyncio.sleep(1)
        assert len(pair.bytes_arrived) == 110
        far.wake_at(10 * PIPE_BYTES)
        sent = 110
        for _ in range(5):
            sent += near.send(bytes(PIPE_BYTES))
            await asyncio.sleep(1)
        assert sent > 110 + 2 * PIPE_BYTES, "it waits for no more than can come"
        near.close()
        await asyncio.sleep(1)
        assert len(pair.bytes_arrived) == sent

    run_virtual(main)


def test_a_reset_breaks_both_ends() -> None:
    async def main(clock: VirtualClock) -> None:
        pair = Pair(clock)
        near = await pair.connect()
        pair.network.reset("a", "c")
        near.send(b"x")
        await asyncio.sleep(1)
        assert pair.bytes_arrived == b"x"
        pair.network.reset("b")
        await asyncio.sleep(1)
        assert pair.arrived[-1][1] == b"reset"
        with pytest.raises(ConnectionResetError):
            near.send(b"x")

    run_virtual(main)


def test_bytes_for_a_closed_end_are_answered_with_a_reset() -> None:
    async def main(clock: VirtualClock) -> None:
        pair = Pair(clock)
        near = await pair.connect()
        pair.accepted[0].close()
        near.send(b"x")
        await asyncio.sleep(1)
        with pytest.raises(ConnectionResetError):
            near.send(b"y")
        near.close()

    run_virtual(main)


def test_any_number_of_connections_wait_for_one_who_goes_on_after_each() -> None:
    """A broker, that is, which asks after each connection whether it may take another one."""

    async def main(clock: VirtualClock) -> int:
        network, accepted = VirtualNetwork(clock), list[Any]()

        def accept(endpoint: Any) -> None:
            accepted.append(endpoint)
            listener.resume()

        listener = network.host("b").listen("", 9, accept)
        listener.pause()
        await asyncio.gather(*(network.host("a").connect("b", 9) for _ in range(2000)))
        assert not accepted
        listener.resume()
        return len(accepted)

    assert run_virtual(main) == 2000
