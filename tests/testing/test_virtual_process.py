"""A process that is suspended and goes on (SIGSTOP, SIGCONT), and one that is killed meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextvars import copy_context
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from odradek.testing.virtual_process import InsideClock, ProcessKilled, VirtualProcess
from odradek.zk_schema.store import Connected, Expired, StoreEvent, Suspended, WatchFired, WatchKind

SESSION_TIMEOUT_MS = 6_000


def test_what_is_due_while_a_process_stands_still_is_done_in_order_when_it_goes_on() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, float]]:
        done: list[tuple[str, float]] = []

        async def ticks() -> None:
            clock.call_later(4_000, lambda: done.append(("timer", clock.monotonic_ms())))
            cancelled = clock.call_later(3_000, lambda: done.append(("cancelled", clock.monotonic_ms())))
            clock.call_later(2_000, cancelled.cancel)
            while len(done) < 4:
                await asyncio.sleep(1)
                done.append(("tick", clock.monotonic_ms()))

        process = VirtualProcess("one")
        running = asyncio.ensure_future(process.run(ticks()))
        await asyncio.sleep(1.5)
        process.suspend()
        await asyncio.sleep(5)
        assert done == [("tick", 1_000)]
        process.resume()
        await running
        return done

    assert run_virtual(main) == [("tick", 1_000), ("timer", 6_500), ("tick", 6_500), ("tick", 7_500)]


def test_a_process_that_is_killed_while_it_stands_still_does_nothing_more() -> None:
    async def main(clock: VirtualClock) -> None:
        process = VirtualProcess("one")
        done: list[str] = []

        async def work() -> None:
            await asyncio.sleep(1)
            done.append("too late")

        running = asyncio.ensure_future(process.run(work()))
        await asyncio.sleep(0.5)
        process.suspend()
        await asyncio.sleep(1)
        process.kill()
        with pytest.raises(ProcessKilled):
            await running
        await asyncio.sleep(5)
        assert not done

    run_virtual(main)


@pytest.mark.parametrize("waits", [False, True])
def test_a_generator_of_a_killed_process_ends_with_it(waits: bool) -> None:
    """asyncio would make a task of its end: one that is never carried out, and that a closing loop waits for."""
    ended: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append("numbers")
            if waits:
                await asyncio.sleep(1)

    async def work() -> None:
        async for _ in numbers():
            await asyncio.sleep(3_600)

    async def main(_: VirtualClock) -> int:
        process = VirtualProcess("one")
        running = asyncio.ensure_future(process.run(work()))
        await asyncio.sleep(1)
        process.kill()
        with pytest.raises(ProcessKilled):
            await running
        await asyncio.sleep(10)
        return len(asyncio.all_tasks())

    assert run_virtual(main) == 1 and ended == ["numbers"]


def test_the_machine_of_a_suspended_process_takes_connections_and_bytes() -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        received: list[bytes] = []
        accepted = []

        def take(endpoint: Any) -> None:
            accepted.append(endpoint)

        network.host("b").listen("", 9, take)
        first = await network.host("a").connect("b", 9)
        (far,) = accepted
        buffer = memoryview(bytearray(100))
        far.on_readable(lambda: received.append(bytes(buffer[: far.receive_into(buffer)])))
        network.suspend_programs("b")
        first.send(b"one")
        await asyncio.sleep(1)
        first.send(b"two")
        await network.host("a").connect("b", 9)
        await asyncio.sleep(1)
        assert (received, len(accepted)) == ([], 1)
        network.resume_programs("b")
        await asyncio.sleep(1)
        assert (received, len(accepted)) == ([b"onetwo"], 2)

    run_virtual(main)


@pytest.mark.parametrize("standing_ms", [SESSION_TIMEOUT_MS - 1_000, SESSION_TIMEOUT_MS + 1_000])
def test_a_suspended_client_of_zookeeper_hears_of_all_in_the_order_it_happened(standing_ms: int) -> None:
    async def main(clock: VirtualClock) -> list[StoreEvent]:
        server = MemoryZooKeeper(clock, session_timeout_ms=SESSION_TIMEOUT_MS)
        process = VirtualProcess("one")
        events: list[StoreEvent] = []

        async def watch() -> None:
            store = server.connect(clock=InsideClock(clock))
            clients.append(store)
            await store.start(1_000)
            store.subscribe(events.append)
            await store.create("/mine", ephemeral=True)
            await store.exists("/x", watch=True)

        clients: list[Any] = []
        await process.run(watch())
        other = server.connect()
        await other.start(1_000)
        process.suspend()
        server.suspend(clients[0])
        await other.create("/x")
        await asyncio.sleep(standing_ms / 1000)
        assert events == []
        process.resume()
        server.resume(clients[0])
        await asyncio.sleep(1)
        return events

    events = run_virtual(main)
    expected: list[StoreEvent] = [WatchFired(WatchKind.CREATED, "/x")]
    if standing_ms > SESSION_TIMEOUT_MS:
        expected += [Suspended(), Expired(), Connected(3)]
    assert events == expected


def test_what_a_broker_held_is_known_when_it_has_gone() -> None:
    """A reader may have been told by it, a moment before, that older records have expired."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=1) as cluster:
            peer = Peer(cluster.network.host("client"), clock, "broker-0", cluster.port, "client")
            made = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            await peer.request(CreateTopicsRequest(topics=[made], timeout_ms=5_000), 7, 10_000)
            [broker] = cluster.brokers
            log = broker.server.services.replicas.partitions["t", 0].log
            for _ in range(3):
                log.append_as_leader(make_batch([b"v"]), 0)
            log.advance_log_start_offset(2)
            assert broker.log_span("t", 0) == (2, 3) and broker.log_span("t", 1) is None
            broker.kill()
            assert broker.log_span("t", 0) == (2, 3) and broker.log_end("t", 0) == 3

    run_virtual(main)


def test_a_process_dies_within_a_change_of_its_disk_and_does_nothing_on_its_way_out() -> None:
    async def main(clock: VirtualClock) -> None:
        process, files, done = VirtualProcess("one"), SimulatedFiles(3), []
        files.make_directory("/data")

        async def waiting(name: str) -> None:
            try:
                await asyncio.sleep(1)
                files.write_atomically(f"/data/{name}", b"x")
                done.append(name)
            finally:
                clock.call_soon(lambda: done.append("on its way out"))
                with contextlib.suppress(OSError):
                    files.write_atomically("/data/way-out", b"x")

        async def work() -> None:
            await asyncio.gather(waiting("other"), waiting("last"), waiting("late"))

        files.stop_at, files.stop_where = 0, "/last"
        loop, context = asyncio.get_running_loop(), copy_context()
        files.on_stop = lambda: loop.call_next(process.kill, context)  # type: ignore[attr-defined]
        with pytest.raises(ProcessKilled):
            await process.run(work())
        files.kill()
        await asyncio.sleep(1)
        assert done == ["other"]
        assert set(files.list_directory("/data")) <= {"other", "way-out", "last.tmp"}
        files.write_atomically("/data/last", b"y")
        assert files.read("/data/last") == b"y"

    run_virtual(main)
