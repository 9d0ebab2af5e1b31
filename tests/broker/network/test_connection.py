"""One connection: frames however they are torn, answers in order, waits, and throttles."""

import asyncio
import struct
from typing import Any

import pytest

from odradek.broker.network.limits import READ_AHEAD_BYTES, UNANSWERED_REQUESTS_MAX
from odradek.broker.network.outcomes import Reply
from odradek.protocol.headers import decode_response
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.testing.virtual_pipe import PIPE_BYTES


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
