"""Ends of a connection: clients that leave or end their half, mistakes of the peer, and bugs of ours."""

import logging
import struct
from typing import Any

import pytest

from odradek.broker.network.limits import LONG_WAIT_MS


def test_a_client_that_leaves_while_its_request_waits(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("wait 900", 1) + client.heartbeat("overtaken 900", 2))
        await harness.settle()
        client.endpoint.close()
        await harness.settle()
        assert len(harness.purgatory) == 1
        await harness.settle(2000)
        assert harness.handlers.held[1].expired and harness.handlers.held[2].expired
        assert len(harness.purgatory) == 0 and harness.server.connections == 0

    play(scenario)


def test_a_client_that_has_closed_its_half_gets_all_its_answers(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        words = ["wait", "", "throttle 700", "", "overtaken", "", "later 50", ""]
        await client.send(b"".join(client.heartbeat(word, number) for number, word in enumerate(words)))
        client.endpoint.end()
        await harness.settle()
        assert harness.handlers.handled == [0]
        harness.finish(0)
        await harness.settle(1000)
        harness.finish(4)
        assert [await client.number() for _ in words] == list(range(len(words)))
        assert await client.end() == b""
        assert harness.server.connections == 0

    play(scenario)


def test_what_a_client_wants_no_answer_to_is_done_when_it_has_left(play: Any) -> None:
    """An acks=0 producer that is throttled, say, and closes."""

    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("throttle 700", 0))
        assert await client.number() == 0
        await client.send(b"".join(client.heartbeat("silent", number) for number in range(1, 9)))
        await harness.settle()
        assert harness.handlers.handled == [0]
        client.endpoint.close()
        await harness.settle(1000)
        assert harness.handlers.handled == list(range(9))
        assert harness.server.connections == 0

    play(scenario)


def test_what_has_come_is_done_however_long_its_client_is_throttled(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat(f"throttle {LONG_WAIT_MS * 2 + 5000}", 0))
        assert await client.number() == 0
        await client.send(client.heartbeat("silent", 1))
        client.endpoint.close()
        await harness.settle(LONG_WAIT_MS * 2)
        assert harness.handlers.handled == [0] and harness.server.connections == 1
        await harness.settle(10_000)
        assert harness.handlers.handled == [0, 1] and harness.server.connections == 0

    play(scenario)


def test_who_has_left_is_not_waited_for_long(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("wait 3600000", 1))
        client.endpoint.end()
        await harness.settle(LONG_WAIT_MS - 100)
        assert harness.server.connections == 1
        await harness.settle(200)
        assert harness.server.connections == 0

    play(scenario)


MISTAKES = {
    "negative size": struct.pack(">i", -1),
    "two gigabytes": struct.pack(">i", 2_147_483_647) + b"x" * 100,
    "one over the limit": struct.pack(">i", 1_000_001),
    "no room for a header": struct.pack(">i", 5) + b"12345",
    "empty frame": struct.pack(">i", 0),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown api": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "negative api": struct.pack(">ihhih", 10, -3, 0, 1, -1),
    "unknown version": struct.pack(">ihhih", 10, 12, 5, 1, -1),
    "negative version": struct.pack(">ihhih", 10, 12, -1, 1, -1),
    "version below the lowest": struct.pack(">ihhih", 10, 0, 2, 1, -1),
    "client id too long": struct.pack(">ihhih", 10, 12, 0, 1, 30000),
    "truncated body": struct.pack(">ihhih", 13, 12, 0, 1, -1) + b"\0\5a",
    "string longer than the frame": struct.pack(">ihhih", 12, 12, 0, 1, -1) + b"\x7f\xff",
    "flexible without tags": struct.pack(">ihhih", 10, 12, 4, 1, -1),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_closes_only_its_connection(play: Any, caplog: pytest.LogCaptureFixture, mistake: bytes) -> None:
    async def scenario(harness: Any) -> None:
        bad, good = await harness.connect("bad"), await harness.connect("good")
        await bad.send(bad.heartbeat("", 1) + mistake)
        assert await bad.number() == 1, "what came before is answered"
        assert await bad.end() == b""
        await good.send(good.heartbeat("", 2))
        assert await good.number() == 2
        assert harness.server.connections == 1
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "bad:" in record.getMessage()
        assert record.exc_info is None

    play(scenario, socket_request_max_bytes=1_000_000)


def test_nothing_is_allocated_for_an_announced_size(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(struct.pack(">i", 90_000_000) + bytes(100_000))
        await harness.settle()
        (connection,) = harness.server._connections
        assert len(connection._buffer.view) <= 4 * 65_536

    play(scenario)


@pytest.mark.parametrize("word", ["bug", "bug-later", "bug-in-wait"])
def test_a_bug_of_ours_closes_that_connection_and_is_logged(
    play: Any, caplog: pytest.LogCaptureFixture, word: str
) -> None:
    async def scenario(harness: Any) -> None:
        unlucky, other = await harness.connect("unlucky"), await harness.connect()
        await unlucky.send(unlucky.heartbeat("", 1) + unlucky.heartbeat("wait" if word == "bug-in-wait" else word, 2))
        assert await unlucky.number() == 1
        if word == "bug-in-wait":
            await harness.settle()
            harness.handlers.held[2].respond = None
            harness.finish(2)
        assert await unlucky.end() == b""
        await other.send(other.heartbeat("", 3))
        assert await other.number() == 3
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert "unlucky:" in record.getMessage()
        assert record.exc_info is not None
        assert len(harness.purgatory) == 0

    play(scenario)


def test_an_answer_twice_is_a_bug(play: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("overtaken", 1) + client.heartbeat("overtaken", 2))
        await harness.settle()
        harness.finish(2)
        harness.handlers.held[2].try_complete()
        assert await client.end() == b""
        assert "answered twice" in caplog.text

    play(scenario)
