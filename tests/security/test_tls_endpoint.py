"""TLS over an endpoint: bytes as they were sent, however the transport tears them, and no others."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.security.errors import AuthenticationFailed
from odradek.security.secure_network import ClientSecurity, SecureNetwork
from odradek.security.tls_context import TlsSettings, server_context
from odradek.security.tls_endpoint import TlsEndpoint, new_staging
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from odradek.testing.virtual_pipe import PIPE_BYTES
from odradek.world.network import Endpoint

IDENTIFY = {"ssl.endpoint.identification.algorithm": "https"}


class Server:
    """Accepts TLS connections on host `broker`, and notes who they are."""

    def __init__(self, network: VirtualNetwork, clock: VirtualClock, settings: dict[str, Any]) -> None:
        self.context = server_context(TlsSettings.read(settings.get))
        self.endpoints: list[TlsEndpoint] = []
        self.ended = asyncio.Event()
        """A handshake has, one way or the other."""
        self.established: list[ssl.SSLObject] = []
        self._clock, self._staging = clock, new_staging()
        self.port = network.host("broker").listen("", 0, self._accepted).port

    def _accepted(self, endpoint: Endpoint) -> None:
        tls = TlsEndpoint(
            endpoint,
            self.context,
            self._clock,
            self._staging,
            server_side=True,
            established=self.established.append,
        )
        self.endpoints.append(tls)
        tls.on_readable(lambda: self._shake_hands(tls))

    def _shake_hands(self, tls: TlsEndpoint) -> None:
        try:
            done = tls.shake_hands()
        except OSError:
            tls.close()
            done = True
        if done:
            tls.on_readable(None)
            self.ended.set()


async def send_all(endpoint: Endpoint, data: bytes) -> None:
    rest, room = memoryview(data), asyncio.Event()
    while rest:
        try:
            rest = rest[endpoint.send(rest) :]
        except BlockingIOError:
            room.clear()
            endpoint.on_writable(room.set)
            await room.wait()
            endpoint.on_writable(None)


async def receive(endpoint: Endpoint, size: int, at_once: int = 1 << 16) -> bytes:
    """Receive so many bytes, or those before the end."""
    received, come, buffer = bytearray(), asyncio.Event(), memoryview(bytearray(at_once))
    endpoint.on_readable(come.set)
    try:
        while len(received) < size:
            await come.wait()
            come.clear()
            try:
                some = endpoint.receive_into(buffer)
            except BlockingIOError:
                continue
            if not some:
                break
            received += buffer[:some]
    finally:
        endpoint.on_readable(None)
    return bytes(received)


Scenario = Callable[[Server, Callable[..., Awaitable[Endpoint]]], Awaitable[None]]


@pytest.fixture
def play(people: Any) -> Callable[..., None]:
    """Runs a scenario with a server and a way to connect to it; keywords are settings of the server."""

    def run(scenario: Scenario, **settings: Any) -> None:
        async def main(clock: VirtualClock) -> None:
            network = VirtualNetwork(clock, seed=3)
            named = {name.replace("_", "."): value for name, value in settings.items()}
            server = Server(network, clock, {**people.server(), **named})

            async def connect(**changes: Any) -> Endpoint:
                look = {**IDENTIFY, **people.trust(), **{n.replace("_", "."): v for n, v in changes.items()}}
                security = ClientSecurity.read("SSL", look.get)
                secure = SecureNetwork(network.host("client"), clock, security)
                server.ended.clear()
                client = await secure.connect("broker", server.port)
                await server.ended.wait()
                return client

            await scenario(server, connect)

        run_virtual(main)

    return run


def quietly(endpoint: TlsEndpoint) -> None:
    try:
        if endpoint.shake_hands():
            endpoint.on_readable(None)
    except OSError:
        endpoint.close()


@pytest.mark.parametrize("at_once", [7, 16_384, 65_536, 1_000_000])
def test_bytes_arrive_as_they_were_sent(play: Any, at_once: int) -> None:
    data = bytes(range(256)) * (40 if at_once == 7 else 5000)

    async def scenario(server: Server, connect: Any) -> None:
        client = await connect()
        sending = asyncio.ensure_future(send_all(client, data))
        assert await receive(server.endpoints[0], len(data), at_once) == data
        await sending
        back = asyncio.ensure_future(send_all(server.endpoints[0], data))
        assert await receive(client, len(data), at_once) == data
        await back

    play(scenario)


def test_nothing_on_the_way_can_be_read(play: Any, people: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock, seed=3)
        seen = bytearray()
        raw: list[Endpoint] = []
        network.host("broker").listen("", 9092, raw.append)
        secure = SecureNetwork(network.host("client"), clock, ClientSecurity.read("SSL", people.trust().get))
        connecting = asyncio.ensure_future(secure.connect("broker", 9092))
        await asyncio.sleep(0.1)
        buffer = memoryview(bytearray(1 << 16))
        seen += buffer[: raw[0].receive_into(buffer)]
        assert seen[:2] == b"\x16\x03", "a TLS record that opens a handshake"
        raw[0].send(b"not TLS at all, whatever you say")
        with pytest.raises(AuthenticationFailed, match="TLS handshake failed"):
            await connecting

    run_virtual(main)


def test_files_are_sent_in_pieces_that_are_repeated_when_there_was_no_room(play: Any) -> None:
    async def scenario(server: Server, connect: Any) -> None:
        files = SimulatedFiles()
        files.make_directory("/d")
        file = files.open("/d/f", create=True)
        data = bytes(range(251)) * 8000
        file.append(data)
        client, sent, room = await connect(), 0, asyncio.Event()
        reading = asyncio.ensure_future(receive(client, len(data)))
        while sent < len(data):
            try:
                sent += server.endpoints[0].send_file(file, sent, len(data) - sent)
            except BlockingIOError:
                room.clear()
                server.endpoints[0].on_writable(room.set)
                await room.wait()
                server.endpoints[0].on_writable(None)
        assert await reading == data
        with pytest.raises(OSError, match="promised"):
            server.endpoints[0].send_file(file, len(data), 10)

    play(scenario)


def test_sending_stops_while_nobody_reads(play: Any) -> None:
    async def scenario(server: Server, connect: Any) -> None:
        client = await connect()
        sent = 0
        with pytest.raises(BlockingIOError):
            while True:
                sent += client.send(bytes(50_000))
        assert 0 < sent <= PIPE_BYTES
        reading = asyncio.ensure_future(receive(server.endpoints[0], sent + 50_000))
        await send_all(client, bytes(50_000))
        assert await reading == bytes(sent + 50_000)

    play(scenario)


def test_the_end_of_one_side_is_seen_by_the_other(play: Any) -> None:
    async def scenario(server: Server, connect: Any) -> None:
        client = await connect()
        await send_all(client, b"last words")
        client.close()
        client.close()
        assert await receive(server.endpoints[0], 1000) == b"last words"

    play(scenario)


def test_a_client_shows_its_certificate_when_it_must(play: Any, people: Any) -> None:
    async def scenario(server: Server, connect: Any) -> None:
        await connect(**{n.replace(".", "_"): v for n, v in people.keys(people.client).items()})
        shown = server.established[0].getpeercert()
        assert shown is not None and (("commonName", "alice"),) in shown["subject"]
        nothing: dict[str, Any] = {}
        for keys in (nothing, people.keys(people.stranger)):
            client = await connect(**{n.replace(".", "_"): v for n, v in keys.items()})
            with pytest.raises(OSError, match=r"(?i)certificate|unknown"):  # TLS 1.3: it learns of it afterwards
                await receive(client, 1)
        assert len(server.established) == 1

    play(scenario, ssl_client_auth="required")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_versions_are_those_that_are_enabled(play: Any, version: str) -> None:
    async def scenario(server: Server, connect: Any) -> None:
        await connect()
        assert server.established[0].version() == version
        other = ({"TLSv1.2", "TLSv1.3"} - {version}).pop()
        with pytest.raises(AuthenticationFailed):
            await connect(ssl_enabled_protocols=[other])

    play(scenario, ssl_enabled_protocols=[version])


def test_suites_are_those_that_are_enabled(play: Any) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"

    async def scenario(server: Server, connect: Any) -> None:
        await connect()
        cipher = server.established[0].cipher()
        assert cipher is not None and cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"

    play(scenario, ssl_cipher_suites=[suite])


def test_a_server_is_believed_only_under_its_name(people: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock, seed=3)
        server = server_context(TlsSettings.read({**people.server()}.get))
        held = []

        def accepted(endpoint: Endpoint) -> None:
            tls = TlsEndpoint(endpoint, server, clock, new_staging(), server_side=True)
            tls.on_readable(lambda: quietly(tls))
            held.append(tls)

        network.host("other").listen("", 9092, accepted)
        strict = SecureNetwork(
            network.host("client"), clock, ClientSecurity.read("SSL", {**IDENTIFY, **people.trust()}.get)
        )
        with pytest.raises(AuthenticationFailed, match="not accepted: Hostname mismatch"):
            await strict.connect("other", 9092)
        strict.security = ClientSecurity.read("SSL", people.trust().get)
        assert await strict.connect("other", 9092)
        strict.security = ClientSecurity.read("SSL", lambda name: None)
        with pytest.raises(AuthenticationFailed, match="not accepted"):
            await strict.connect("other", 9092)

    run_virtual(main)
