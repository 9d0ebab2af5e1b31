"""One connection: frames however they are torn, answers in order, waits, throttles, and the peer's mistakes."""

import asyncio
import logging
import struct
from typing import Any

import pytest

from odradek.broker.network.limits import LONG_WAIT_MS, READ_AHEAD_BYTES, UNANSWERED_REQUESTS_MAX
from odradek.broker.network.outcomes import Reply
from odradek.protocol.headers import decode_response
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.testing.virtual_network import PIPE_BYTES


def test_frames_torn_at_every_byte(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        whole = await harness.connect()
        stream = b"".join(whole.heartbeat("", number) for number in range(3))
        for cut in range(1, len(stream)):
            client = await harness.connect()
            await client.send(stream[:cut])
            await harness.settle(5)
            await client.send(stream[cut:])
            assert [await client.number() for _ in range(3)] == [0, 1, 2], cut
            client.endpoint.close()

    play(scenario)


def test_a_frame_that_comes_byte_by_byte(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        for byte in client.heartbeat("a", 7) + client.heartbeat("b", 8):
            await client.send(bytes([byte]))
            await harness.settle(2)
        assert [await client.number(), await client.number()] == [7, 8]

    play(scenario)


@pytest.mark.parametrize("size", [65_000, 65_536, 131_072, 700_001, 3_000_000])
def test_large_frames_among_small_ones(play: Any, size: int) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        records = PartitionProduceData(index=0, records=bytes(size))
        produce = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=[records])])
        for number in range(3):
            await client.send(client.heartbeat("", number) + client.encode(produce, 7) + client.heartbeat("", number))
        assert len([await client.frame() for _ in range(9)]) == 9
        assert harness.handlers.handled == [0, size, 0, 1, size, 1, 2, size, 2]

    play(scenario)


def test_a_large_buffer_is_given_back_when_it_is_not_used(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        records = PartitionProduceData(index=0, records=bytes(1_000_000))
        produce = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=[records])])
        await client.send(client.encode(produce, 7))
        await client.frame()
        (connection,) = harness.server._connections
        assert len(connection._buffer.view) > 1_000_000
        for number in range(40):
            await client.send(client.heartbeat("", number))
            await client.frame()
            await harness.settle(1000)
        assert not connection._buffer.is_own
        assert len(harness.timers) == 1, "only the idle timer is left"

    play(scenario)


def test_pipelined_requests_are_answered_in_order(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(b"".join(client.heartbeat("", number) for number in range(5000)))
        assert [await client.number() for _ in range(5000)] == list(range(5000))

    play(scenario)


def test_nothing_is_handled_behind_a_request_that_waits(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client, other = await harness.connect(), await harness.connect()
        await client.send(client.heartbeat("", 1) + client.heartbeat("wait", 2) + client.heartbeat("", 3))
        assert await client.number() == 1
        await harness.settle()
        assert harness.handlers.handled == [1, 2]
        await other.send(other.heartbeat("", 9))
        assert await other.number() == 9
        harness.finish(2)
        assert [await client.number(), await client.number()] == [2, 3]

    play(scenario)


def test_a_waiting_request_is_answered_at_its_deadline(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        began_ms = harness.clock.monotonic_ms()
        await client.send(client.heartbeat("wait 500", 2))
        assert await client.number() == 1002
        assert 499 < harness.clock.monotonic_ms() - began_ms <= 510

    play(scenario)


def test_overtaken_requests_keep_the_order_of_the_answers(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        words = ["overtaken", "", "overtaken", "silent", "overtaken", ""]
        await client.send(b"".join(client.heartbeat(word, number) for number, word in enumerate(words)))
        await harness.settle()
        assert harness.handlers.handled == [0, 1, 2, 3, 4, 5]
        assert not client.received
        harness.finish(4)
        harness.finish(2)
        await harness.settle()
        assert not client.received
        harness.finish(0)
        assert [await client.number() for _ in range(5)] == [0, 1, 2, 4, 5]

    play(scenario)


def test_a_request_that_may_not_be_overtaken_behind_one_that_may(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("overtaken", 0) + client.heartbeat("wait", 1) + client.heartbeat("", 2))
        await harness.settle()
        assert harness.handlers.handled == [0, 1]
        harness.finish(1)
        await harness.settle()
        assert harness.handlers.handled == [0, 1, 2]
        harness.finish(0)
        assert [await client.number() for _ in range(3)] == [0, 1, 2]

    play(scenario)


def test_a_handler_that_finishes_the_wait_before_it(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        silent = harness.handlers.heartbeat
        handled = harness.handlers.handled

        def touching(broker: Any, request: Any, context: Any) -> Any:
            outcome = silent(broker, request, context)
            if request.group_id == "silent":
                harness.finish(0)
            return outcome

        harness.handlers.heartbeat = touching
        modules = harness.handlers.modules()
        harness.server.dispatch.__self__._modules.update(modules)
        harness.server.dispatch.__self__._routes.clear()
        await client.send(client.heartbeat("overtaken", 0) + client.heartbeat("silent", 1))
        assert await client.number() == 0
        assert handled == [0, 1]

    play(scenario)


def test_who_waits_is_tried_once_for_all_the_requests_of_a_wake_up(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        tried_after: list[int] = []

        class Follower:
            def try_complete(self) -> bool:
                tried_after.append(len(harness.handlers.handled))
                return False

            def expire(self) -> None:
                raise AssertionError("long before its deadline")

        def appending(broker: Any, request: Any, context: Any) -> Any:
            harness.handlers.handled.append(request.generation_id)
            harness.purgatory.touch("appended")
            return Reply(HeartbeatResponse())

        harness.handlers.heartbeat = appending
        harness.server.dispatch.__self__._modules.update(harness.handlers.modules())
        harness.purgatory.watch(Follower(), ["appended"], 1e6)
        client = await harness.connect()
        await client.send(b"".join(client.heartbeat("batch", number) for number in range(5)))
        assert [await client.number() for _ in range(5)] == [0] * 5
        assert harness.handlers.handled == [0, 1, 2, 3, 4]
        assert tried_after[:2] == [0, 5]

    play(scenario)


def test_only_so_many_requests_are_under_way(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        limit = UNANSWERED_REQUESTS_MAX
        count = limit + 50
        await client.send(b"".join(client.heartbeat("overtaken", number) for number in range(count)))
        await harness.settle()
        assert harness.handlers.handled == list(range(limit))
        harness.finish(0)
        await harness.settle()
        assert harness.handlers.handled == list(range(limit + 1))
        for number in range(1, limit):
            harness.finish(number)
        await harness.settle()
        for number in range(limit, count):
            harness.finish(number)
        assert [await client.number() for _ in range(count)] == list(range(count))

    play(scenario)


def test_an_answer_made_by_a_coroutine(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("later 300", 1) + client.heartbeat("", 2))
        await harness.settle(200)
        assert harness.handlers.handled == [1]
        assert [await client.number(), await client.number()] == [1, 2]

    play(scenario)


def test_a_throttled_client_gets_its_answer_at_once_and_is_muted_then(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        began_ms = harness.clock.monotonic_ms()
        await client.send(client.heartbeat("throttle 2000", 1) + client.heartbeat("", 2))
        assert await client.number() == 1
        assert harness.clock.monotonic_ms() - began_ms < 10
        assert harness.handlers.handled == [1]
        assert await client.number() == 2
        assert 1999 < harness.clock.monotonic_ms() - began_ms < 2020

    play(scenario)


def test_a_longer_throttle_extends_a_shorter_one_and_a_shorter_changes_nothing(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("overtaken", 1) + client.heartbeat("overtaken", 2))
        await client.send(client.heartbeat("overtaken", 3))
        await harness.settle()
        began_ms = harness.clock.monotonic_ms()
        for number, throttle_ms in ((1, 1000), (2, 3000), (3, 2000)):
            harness.finish(number, throttle_ms=throttle_ms)
        await client.send(client.heartbeat("", 4))
        assert [await client.number() for _ in range(4)] == [1, 2, 3, 4]
        assert 2999 < harness.clock.monotonic_ms() - began_ms < 3020

    play(scenario)


def test_a_wait_may_end_with_a_throttle(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("wait", 1) + client.heartbeat("", 2))
        await harness.settle()
        harness.finish(1, throttle_ms=700)
        began_ms = harness.clock.monotonic_ms()
        assert await client.number() == 1
        assert await client.number() == 2
        assert 699 < harness.clock.monotonic_ms() - began_ms < 720

    play(scenario)


def test_close_after_the_answer(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("", 1) + client.heartbeat("close", 2) + client.heartbeat("", 3))
        assert [await client.number(), await client.number()] == [1, 2]
        assert await client.end() == b""
        assert harness.handlers.handled == [1, 2]

    play(scenario)


def test_close_without_an_answer_leaves_the_earlier_ones(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("overtaken", 1) + client.heartbeat("silent-close", 2))
        await harness.settle()
        harness.finish(1)
        assert await client.number() == 1
        assert await client.end() == b""

    play(scenario)


def test_what_is_read_ahead_while_a_request_waits_is_limited(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.heartbeat("wait", 0))
        await harness.settle()
        beat = client.heartbeat("x" * 1000, 1)
        count = (PIPE_BYTES + 2 * READ_AHEAD_BYTES) // len(beat)
        task = asyncio.ensure_future(client.send(beat * count))
        await harness.settle(1000)
        assert not task.done(), "the server stopped reading"
        (connection,) = harness.server._connections
        assert len(connection._buffer.view) == READ_AHEAD_BYTES
        harness.finish(0)
        for _ in range(count + 1):
            await client.number()
        assert task.done()

    play(scenario)


def test_a_full_buffer_behind_handled_requests_is_not_the_clients_end(play: Any) -> None:
    """What is read ahead is below its limit, since requests in front are handled; but there is no room for more."""

    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        handled = [client.heartbeat("overtaken", number) for number in range(UNANSWERED_REQUESTS_MAX)]
        waiting = [client.heartbeat("x" * 1000, number) for number in range(1000, 1200)]
        sending = asyncio.ensure_future(client.send(b"".join([*handled, *waiting])))
        await harness.settle(1000)
        assert len(harness.handlers.handled) == UNANSWERED_REQUESTS_MAX
        for number in range(UNANSWERED_REQUESTS_MAX):
            harness.finish(number)
            await harness.settle()
            assert not client.ended
        await sending
        numbers = [await client.number() for _ in range(UNANSWERED_REQUESTS_MAX + len(waiting))]
        assert numbers == [*range(UNANSWERED_REQUESTS_MAX), *range(1000, 1200)]

    play(scenario)


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


def test_the_context_of_a_request(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect("some-host")
        await client.send(client.heartbeat("", 1, version=4) + client.heartbeat("", 2, version=4))
        await client.send(struct.pack(">ihhih", 18, 12, 0, 1, -1) + struct.pack(">hih", 0, 3, 0))
        await client.frame(), await client.frame(), await client.frame()
        first, second, third = harness.handlers.contexts
        assert first is second
        assert (first.api_version, first.client_id, first.listener) == (4, "me", "PLAINTEXT")
        assert first.peer.startswith("some-host:")
        assert first.client_host == "/some-host"
        assert (third.api_version, third.client_id) == (0, "")

    play(scenario)


def test_api_versions_of_any_version_is_answered(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        for version in range(5):
            await client.send(client.encode(request, version))
            _, response = decode_response(18, version, await client.frame())
            assert isinstance(response, ApiVersionsResponse)
            assert response.error_code == 0
            ranges = [(api.api_key, api.min_version, api.max_version) for api in response.api_keys]
            assert ranges == [(0, 3, 9), (1, 4, 11), (12, 0, 4), (18, 0, 4)]
        for version in (5, 99, 32767, -1):
            await client.send(struct.pack(">ihhih", 14, 18, version, 77, -1) + b"\xff\xff\xff\xff")
            assert await client.frame() == struct.pack(">ihihhh", 77, 35, 1, 18, 0, 4)

    play(scenario)


def test_an_api_that_is_known_but_not_served(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        client = await harness.connect()
        await client.send(client.encode(MetadataRequest(), 12))
        assert await client.end() == b""

    play(scenario)
