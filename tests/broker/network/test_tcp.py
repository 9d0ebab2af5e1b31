"""The real network: loopback sockets on uvloop and on asyncio's own loop."""

import asyncio
import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from odradek.broker.cluster.peer import Peer
from odradek.broker.settings.network_settings import ConnectionSettings
from odradek.client.connection import Connection, connect
from odradek.client.errors import RequestTimedOut
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.simulated_files import SimulatedFiles
from odradek.world import tcp
from odradek.world.clock import LoopClock
from odradek.world.files import File, FileRange
from odradek.world.network import Endpoint
from odradek.world.os_files import OsFiles
from odradek.world.tasks import Tasks
from odradek.world.tcp import CAN_WAKE_AT, TcpEndpoint, TcpNetwork

PATIENCE_MS = PATIENCE_SECONDS * 1000
MORE_THAN_FAR_TAKES = 400_000
"""Bytes that a system takes of who sends, and does not pass on before they are received."""
Main = Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    def run_main(main: Main) -> None:
        async def started() -> None:
            await asyncio.wait_for(main(asyncio.get_running_loop()), PATIENCE_SECONDS)

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(started())

    return run_main


class Ends:
    """Two connected endpoints."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **options: int) -> None:
        self.network = TcpNetwork(loop, **options)
        self._accepted: asyncio.Future[Endpoint] = loop.create_future()

    async def connect(self) -> tuple[TcpEndpoint, Endpoint]:
        listener = self.network.listen("127.0.0.1", 0, self._accepted.set_result)
        near = await self.network.connect("127.0.0.1", listener.port)
        far = await self._accepted
        listener.close()
        assert far.peer.startswith("127.0.0.1:")
        assert near.peer == f"127.0.0.1:{listener.port}"
        return near, far


async def receive(endpoint: Endpoint, size: int) -> bytes:
    """`size` bytes, or all until the end."""
    data, buffer, ready = bytearray(), memoryview(bytearray(1 << 16)), asyncio.Event()
    endpoint.on_readable(ready.set)
    try:
        while len(data) < size:
            try:
                received = endpoint.receive_into(buffer)
            except BlockingIOError:
                ready.clear()
                await ready.wait()
                continue
            if not received:
                break
            data += buffer[:received]
    finally:
        endpoint.on_readable(None)
    return bytes(data)


def test_bytes_and_the_end(run: Callable[[Main], None]) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        near, far = await Ends(loop).connect()
        near.send(b"he", more=True)
        near.send(b"llo")
        assert await receive(far, 5) == b"hello"
        near.close()
        near.close()
        assert await receive(far, 1) == b""
        far.close()

    run(main)


def test_a_reset_right_behind_some_bytes_is_noticed(run: Callable[[Main], None]) -> None:
    """libuv tells of it once, while there are bytes to receive: the connection and its descriptor stayed for good."""

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        near, far = await Ends(loop).connect()
        pieces: list[int] = []
        buffer, ended = memoryview(bytearray(10)), asyncio.Event()

        def readable() -> None:
            try:
                pieces.append(far.receive_into(buffer))
            except ConnectionResetError:
                pieces.append(0)
            if not pieces[-1]:
                far.on_readable(None)
                ended.set()

        far.on_readable(readable)
        await asyncio.sleep(0)
        near.send(bytes(35))
        near.close(abandon=True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.wait()
        assert pieces in ([10, 10, 10, 5, 0], [0])
        far.close()

    run(main)


@pytest.mark.skipif(not CAN_WAKE_AT, reason="an older Linux may wait for ever")
def test_an_end_that_waits_for_many_bytes_is_woken_once_for_them_and_at_the_end(run: Callable[[Main], None]) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        near, far = await Ends(loop).connect()
        pieces: list[int] = []
        received = asyncio.Event()
        buffer = memoryview(bytearray(1000))

        def readable() -> None:
            pieces.append(far.receive_into(buffer))
            received.set()

        async def piece() -> int:
            received.clear()
            await received.wait()
            return pieces[-1]

        far.wake_at(100)
        far.on_readable(readable)
        near.send(bytes(10))
        for _ in range(20):
            await asyncio.sleep(0)
        near.send(bytes(90))
        assert await piece() == 100 and pieces == [100]
        far.wake_at(1)
        near.send(bytes(10))
        assert await piece() == 10
        far.wake_at(100)
        near.send(bytes(20))
        near.close()
        assert (await piece(), await piece()) == (20, 0)
        far.close()
        far.wake_at(50)

    run(main)


@pytest.mark.parametrize("simulated", [False, True])
def test_ranges_of_files(run: Callable[[Main], None], tmp_path: Path, simulated: bool) -> None:
    def new_file() -> File:
        path = "/log" if simulated else str(tmp_path / "log")
        return (SimulatedFiles() if simulated else OsFiles()).open(path, create=True)

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        near, far = await Ends(loop).connect()
        file, data = new_file(), os.urandom(3_000_000)
        file.append(data)
        reading = asyncio.ensure_future(receive(far, 2_900_000))
        position = 100_000
        while position < 3_000_000:
            try:
                position += near.send_file(file, position, 3_000_000 - position)
            except BlockingIOError:
                await asyncio.sleep(0)
        assert await reading == data[100_000:]
        with pytest.raises(OSError, match="promised"):
            near.send_file(file, 3_000_000, 10)
        near.close()
        far.close()

    run(main)


def test_a_file_that_cannot_be_read_for_its_receiver_is_named(
    run: Callable[[Main], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        near, far = await Ends(loop).connect()
        file = OsFiles().open(f"{tmp_path}/a", create=True)
        monkeypatch.setattr(os, "sendfile", fails)
        with pytest.raises(OSError) as failed:
            near.send_file(file, 0, 1)
        assert str(failed.value) == f"[Errno 5] Input/output error: '{tmp_path}/a'"
        near.close()
        far.close()

    run(main)


def test_a_connection_of_which_the_system_says_an_error_when_it_is_closed_is_closed(
    run: Callable[[Main], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever closed the connections of a log directory that had failed did not come to resigning as leader."""

    def fails(_: socket.socket) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        near, far = await Ends(loop).connect()
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "close", fails)
            near.close()
        far.close()

    run(main)


def test_options(run: Callable[[Main], None]) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        near, far = await Ends(loop, send_buffer_bytes=50_000, receive_buffer_bytes=60_000).connect()
        assert isinstance(far, TcpEndpoint)
        for endpoint in (near, far):
            connected = endpoint._socket
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 100_000  # the kernel doubles it
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 120_000
            endpoint.close()

    run(main)


def test_a_port_in_use_and_nobody_there(run: Callable[[Main], None]) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        network = TcpNetwork(loop)
        listener = network.listen("127.0.0.1", 0, lambda endpoint: endpoint.close())
        with pytest.raises(OSError, match="in use"):
            network.listen("127.0.0.1", listener.port, lambda endpoint: endpoint.close())
        listener.close()
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await network.connect("127.0.0.1", listener.port)

    run(main)


def test_an_address_that_says_nothing_does_not_keep_from_the_next(
    run: Callable[[Main], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with an address that is dead, or reachable from elsewhere only, was never connected to: the time for the
    connection was over before the next address had its turn, each time anew."""
    monkeypatch.setattr(tcp, "NEXT_ADDRESS_AFTER_S", 0.05)

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        network = TcpNetwork(loop)
        listener = network.listen("127.0.0.1", 0, lambda endpoint: endpoint.close())
        with socket.socket() as dead, socket.socket() as waiting:
            dead.bind(("127.0.0.2", listener.port))
            dead.listen(0)
            waiting.connect(dead.getsockname())  # the queue is full: whoever comes next gets no answer
            found = [(socket.AF_INET, 0, 0, "", (host, listener.port)) for host in ("127.0.0.2", "127.0.0.1")]

            async def resolve(host: str, port: int) -> Any:
                return found

            network._resolve = resolve  # type: ignore[method-assign]
            endpoint = await network.connect("broker", listener.port)
            assert endpoint.peer == f"127.0.0.1:{listener.port}"
            endpoint.close()
            listener.close()
            with pytest.raises(ConnectionRefusedError):
                await network.connect("broker", listener.port)

    run(main)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_connecting_when_the_main_thread_has_ended(host: str) -> None:
    """With it end the threads in which asyncio looks up names; a client on another thread goes on."""
    program = f"""
import asyncio, socket, threading
from odradek.world.tcp import TcpNetwork
listening = socket.create_server(("127.0.0.1", 0))

async def connect():
    endpoint = await TcpNetwork(asyncio.get_running_loop()).connect({host!r}, listening.getsockname()[1])
    print("connected to", endpoint.peer.split(":")[0])
    endpoint.close()

def outlive():
    threading.main_thread().join()
    asyncio.run(connect())

threading.Thread(target=outlive).start()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("connected to 127.0.0.1\n", "")


def test_every_address(run: Callable[[Main], None]) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        network, accepted = TcpNetwork(loop), loop.create_future()
        listener = network.listen("", 0, accepted.set_result)
        near = await network.connect("localhost", listener.port)
        far = await accepted
        assert far.peer.rpartition(":")[0] in ("127.0.0.1", "::1")
        near.close()
        far.close()
        listener.close()

    run(main)


def test_a_paused_listener_leaves_them_in_the_backlog(run: Callable[[Main], None]) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        network, accepted = TcpNetwork(loop), loop.create_future()
        listener = network.listen("127.0.0.1", 0, accepted.set_result)
        listener.pause()
        near = await network.connect("127.0.0.1", listener.port)
        near.send(b"x")
        await asyncio.sleep(0.01)
        assert not accepted.done()
        listener.resume()
        far = await accepted
        assert await receive(far, 1) == b"x"
        far.close()
        near.close()
        listener.close()

    run(main)


@pytest.mark.parametrize("broken", [errno.EPROTO, errno.EHOSTUNREACH, errno.EPERM])
def test_a_connection_that_broke_before_it_was_accepted_is_passed_over(
    run: Callable[[Main], None], broken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """accept(2) tells of it, and the log had a stack for each."""
    accept, accepts = socket.socket.accept, list[int]()

    def fail_first(listening: socket.socket) -> tuple[socket.socket, Any]:
        accepts.append(listening.fileno())
        if len(accepts) == 1:
            raise OSError(broken, os.strerror(broken))
        return accept(listening)

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        complaints: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        monkeypatch.setattr(socket.socket, "accept", fail_first)
        near, far = await Ends(loop).connect()
        assert len(accepts) > 1 and not complaints
        near.close()
        far.close()

    run(main)


def test_requests_over_real_sockets(run: Callable[[Main], None], tmp_path: Path, make_harness: Any) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        clock, network = LoopClock(loop), TcpNetwork(loop)
        harness = make_harness(clock, ConnectionSettings(), network)
        file = OsFiles().open(str(tmp_path / "log"), create=True)
        data = os.urandom(2_000_000)
        file.append(data)
        harness.handlers.fetched = FileRange(file, 0, len(data))
        peer = Peer(network, clock, "127.0.0.1", harness.port, "test")
        beats = [peer.request(HeartbeatRequest(generation_id=number), 4, PATIENCE_MS) for number in range(300)]
        fetches = [peer.request(FetchRequest(), 11, PATIENCE_MS) for _ in range(5)]
        answers = await asyncio.gather(*beats, *fetches)
        for number, answer in enumerate(answers[:300]):
            assert isinstance(answer, HeartbeatResponse)
            assert answer.error_code == number
        for answer in answers[300:]:
            assert isinstance(answer, FetchResponse)
            assert answer.responses[0].partitions[0].records == data
        waiting = asyncio.ensure_future(peer.request(HeartbeatRequest(group_id="wait 30"), 4, PATIENCE_MS))
        assert (await waiting) == HeartbeatResponse(error_code=1000)
        peer.close()
        harness.server.close()

    run(main)


async def received_whole(endpoint: Endpoint, size: int) -> bool:
    """Tell whether so many bytes come; the connection may be reset before."""
    try:
        return len(await receive(endpoint, size)) >= size
    except ConnectionResetError:
        return False


@pytest.mark.parametrize("abandon", [False, True])
def test_what_is_abandoned_is_not_sent_any_more(run: Callable[[Main], None], abandon: bool) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        near, far = await Ends(loop).connect()
        taken = 0
        try:
            while True:
                taken += near.send(bytes(1 << 16))
        except BlockingIOError:
            near.close(abandon=abandon)
        assert await received_whole(far, taken) is not abandon
        far.close()

    run(main)


async def ask_a_broker(network: TcpNetwork, clock: LoopClock, port: int) -> None:
    await Peer(network, clock, "127.0.0.1", port, "test").request(HeartbeatRequest(), 3, 100)


async def connect_a_client(network: TcpNetwork, clock: LoopClock, port: int) -> None:
    await connect(network, clock, Tasks(clock, print), "127.0.0.1", port, "test", 100)


@pytest.mark.parametrize("ask", [ask_a_broker, connect_a_client])
def test_a_request_that_is_given_up_does_not_come_later(run: Callable[[Main], None], ask: Any) -> None:
    """The network may hold it for a minute, when it was sent again and answered: a late marker of one transaction
    ended the next one in that partition."""

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        network: TcpNetwork = TcpNetwork(loop)
        accepted: asyncio.Future[Endpoint] = loop.create_future()
        listener = network.listen("127.0.0.1", 0, accepted.set_result)
        with pytest.raises(OSError, match="no answer"):
            await ask(network, LoopClock(loop), listener.port)
        with pytest.raises(ConnectionResetError):
            await receive(await accepted, 1 << 16)
        listener.close()

    run(main)


def test_what_counts_as_delivered_comes_although_a_later_request_is_given_up(run: Callable[[Main], None]) -> None:
    """Records with acks=0 on the connection whose Metadata is not answered in time were taken back with that."""

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        near, far = await Ends(loop).connect()
        connection = Connection(near, LoopClock(loop), "far", "test")
        connection.served = {message.API_KEY: message.VERSIONS for message in (ProduceRequest, MetadataRequest)}
        records = PartitionProduceData(records=bytes(MORE_THAN_FAR_TAKES))
        told = ProduceRequest(acks=0, topic_data=[TopicProduceData(name="t", partition_data=[records])])
        await connection.send_unanswered(told, PATIENCE_MS)
        with pytest.raises(RequestTimedOut):
            await connection.request(MetadataRequest(), MetadataResponse, 100)
        assert await received_whole(far, MORE_THAN_FAR_TAKES)
        far.close()

    run(main)


def test_a_name_is_looked_up_without_holding_the_loop(
    run: Callable[[Main], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[threading.Thread] = []
    look_up = socket.getaddrinfo

    def slow(host: str, port: int, *rest: Any, flags: int = 0, **more: Any) -> Any:
        if host == "a-name" and not flags & socket.AI_NUMERICHOST:
            asked.append(threading.current_thread())
            return look_up("127.0.0.1", port, *rest, **more)
        return look_up(host, port, *rest, flags=flags, **more)

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        network = TcpNetwork(loop)
        assert [await network.address_of(one) for one in ("", "127.0.0.1", "::1")] == ["", "127.0.0.1", "::1"]
        assert not asked
        if isinstance(loop, uvloop.Loop):  # it asks libuv, in a thread of that
            assert await network.address_of("localhost") in ("127.0.0.1", "::1")
        else:
            monkeypatch.setattr(socket, "getaddrinfo", slow)
            assert await network.address_of("a-name") == "127.0.0.1"
            assert asked and asked[0] is not threading.main_thread()
        with pytest.raises(OSError, match="not a host name"):
            await network.address_of("a..b")
        with pytest.raises(OSError, match="not a host name"):
            network.listen("a..b", 0, print)

    run(main)
