"""Requests to another broker: pipelining, large answers, time limits, broken connections."""

import asyncio
import struct
from typing import Any

import pytest

from odradek.broker.cluster import peer as peer_module
from odradek.broker.cluster.peer import REQUESTS_MAX, BrokerUnreachable, Peer
from odradek.protocol.headers import encode_response
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.broker.requests.whole_broker import Client, with_broker


def peer_of(harness: Any, host: str = "broker", port: int | None = None) -> Peer:
    return Peer(harness.network.host("client"), harness.clock, host, port or harness.port, "broker-1")


def fetched(size: int) -> FetchResponse:
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=bytes(size))])
    return FetchResponse(responses=[topic])


async def beat(peer: Peer, number: int, text: str = "", timeout_ms: float = 5000) -> int:
    request = HeartbeatRequest(group_id=text, generation_id=number)
    response = await peer.request(request, 4, timeout_ms)
    assert isinstance(response, HeartbeatResponse)
    return response.error_code


def test_it_connects_when_needed_and_stays_connected(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        assert not peer.connected
        assert await beat(peer, 1) == 1
        assert await beat(peer, 2) == 2
        assert peer.connected
        assert harness.server.connections == 1
        assert harness.handlers.contexts[0].client_id == "broker-1"
        peer.close()
        peer.close()
        with pytest.raises(BrokerUnreachable, match="closed here"):
            await beat(peer, 3)

    play(scenario)


def test_pipelined_requests_share_one_connection(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        assert await asyncio.gather(*(beat(peer, number) for number in range(500))) == list(range(500))
        assert harness.server.connections == 1

    play(scenario)


@pytest.mark.parametrize("size", [0, 1, 65_000, 65_536, 200_000, 10_000_000])
def test_answers_of_any_size_in_any_company(play: Any, size: int) -> None:
    async def scenario(harness: Any) -> None:
        harness.handlers.fetched = bytes(range(256)) * (size // 256) + bytes(size % 256)
        peer = peer_of(harness)
        requests = [beat(peer, 1), peer.request(FetchRequest(), 11, 60_000), beat(peer, 2)]
        requests += [peer.request(FetchRequest(), 11, 60_000), beat(peer, 3)]
        first, big, second, again, third = await asyncio.gather(*requests)
        assert (first, second, third) == (1, 2, 3)
        for response in (big, again):
            assert isinstance(response, FetchResponse)
            assert bytes(response.responses[0].partitions[0].records) == harness.handlers.fetched

    play(scenario)


def test_an_answer_may_have_the_records_that_were_asked_for(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With replica.fetch.response.max.bytes above 128 MB a follower that was far behind refused every answer."""
    monkeypatch.setattr(peer_module, "RESPONSE_BYTES_MAX", 1000)

    async def scenario(harness: Any) -> None:
        network = harness.network.host("client")
        peer = Peer(network, harness.clock, "broker", harness.port, "broker-1", records_bytes_max=200_000)
        for size, understood in ((200_000, True), (201_000, False)):
            harness.handlers.fetched = bytes(size)
            asking = peer.request(FetchRequest(), 11, 1000)
            if understood:
                assert isinstance(await asking, FetchResponse)
            else:
                with pytest.raises(BrokerUnreachable, match="not understood"):
                    await asking

    play(scenario)


def test_a_follower_takes_what_may_be_produced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "RESPONSE_BYTES_MAX", 10_000)

    async def scenario(client: Client) -> None:
        await client.create(replicas=2)
        assert (await client.produce(bytes(300_000))).error_code == 0

    with_broker(scenario, brokers=2)


def test_records_stay_valid_while_other_answers_come(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        kept: list[Any] = []
        for letter in (b"a", b"b", b"c"):
            harness.handlers.fetched = letter * 1000
            kept.append(await peer.request(FetchRequest(), 11, 1000))
        records = [bytes(response.responses[0].partitions[0].records) for response in kept]
        assert records == [b"a" * 1000, b"b" * 1000, b"c" * 1000]

    play(scenario)


def test_nobody_there(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness, port=1)
        with pytest.raises(BrokerUnreachable, match=r"broker:1: .*refused"):
            await beat(peer, 1)

    play(scenario)


def test_it_connects_again_after_the_connection_broke(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        under_way = [asyncio.ensure_future(beat(peer, number, "overtaken")) for number in range(3)]
        await harness.settle()
        harness.network.reset("client")
        results = await asyncio.gather(*under_way, return_exceptions=True)
        assert all(isinstance(result, BrokerUnreachable) for result in results)
        assert not peer.connected
        assert await beat(peer, 7) == 7

    play(scenario)


def test_the_other_side_closes(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        with pytest.raises(BrokerUnreachable, match="closed by the other side"):
            await beat(peer, 1, "silent-close")
        assert await beat(peer, 2) == 2

    play(scenario)


def test_no_answer_in_time_ends_the_connection(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        assert await beat(peer, 1) == 1
        began_ms = harness.clock.monotonic_ms()
        patient = asyncio.ensure_future(beat(peer, 2, "overtaken"))
        with pytest.raises(BrokerUnreachable, match="no answer within 300 ms"):
            await beat(peer, 3, "overtaken", 300)
        assert 299 < harness.clock.monotonic_ms() - began_ms < 310
        with pytest.raises(BrokerUnreachable):
            await patient
        assert not peer.connected
        assert await beat(peer, 4) == 4

    play(scenario)


def test_a_cut_network_and_its_healing(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        harness.network.cut("client", "broker")
        with pytest.raises(BrokerUnreachable, match="no answer within 200 ms"):
            await beat(peer, 1, timeout_ms=200)
        waiting = asyncio.ensure_future(beat(peer, 2))
        await harness.settle(1000)
        assert not waiting.done()
        harness.network.heal()
        assert await waiting == 2

    play(scenario)


def test_a_request_that_was_given_up_does_not_shift_the_answers(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        given_up = asyncio.ensure_future(beat(peer, 1, "overtaken"))
        await harness.settle()
        given_up.cancel()
        following = asyncio.ensure_future(beat(peer, 2))
        await harness.settle()
        harness.finish(1)
        assert await following == 2
        assert peer.connected

    play(scenario)


@pytest.mark.parametrize(
    "answer",
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\2\0\0", b"\0\0\0\4\0\0\0\x63", b"\0\0\0\6\0\0\0\0\0\1"],
)
def test_nonsense_ends_the_connection(play: Any, answer: bytes) -> None:
    async def scenario(harness: Any) -> None:
        harness.network.listen("odd", 1234, lambda endpoint: endpoint.send(answer))
        peer = peer_of(harness, "odd", 1234)
        with pytest.raises(BrokerUnreachable, match="not understood"):
            await beat(peer, 1)
        assert not peer.connected

    play(scenario)


def test_answers_torn_at_every_byte(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        ends: list[Any] = []
        harness.network.listen("odd", 1234, ends.append)
        answers = b"".join(struct.pack(">iibihb", 12, number, 0, 0, number, 0) for number in range(3))
        for cut in range(1, len(answers)):
            peer = peer_of(harness, "odd", 1234)
            asking = [asyncio.ensure_future(beat(peer, 0)) for _ in range(3)]
            await harness.settle()
            ends[-1].send(answers[:cut])
            await harness.settle()
            ends[-1].send(answers[cut:])
            assert await asyncio.gather(*asking) == [0, 1, 2], cut
            peer.close()

    play(scenario)


@pytest.mark.parametrize("cut", range(-3, 4))
def test_a_size_torn_behind_another_answer(play: Any, cut: int) -> None:
    async def scenario(harness: Any) -> None:
        ends: list[Any] = []
        harness.network.listen("odd", 1234, ends.append)
        frames = [b"".join(encode_response(number, 4, fetched(size))) for number, size in enumerate((300, 70_000))]
        first, second = (struct.pack(">i", len(frame)) + frame for frame in frames)
        peer = peer_of(harness, "odd", 1234)
        asking = [asyncio.ensure_future(peer.request(FetchRequest(), 4, 5000)) for _ in range(2)]
        await harness.settle()
        ends[0].send((first + second)[: len(first) + cut])
        await harness.settle()
        ends[0].send((first + second)[len(first) + cut :])
        assert await asyncio.gather(*asking) == [fetched(300), fetched(70_000)]

    play(scenario)


def test_only_so_many_requests_may_wait(play: Any) -> None:
    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        harness.network.cut("client", "broker")
        waiting = [asyncio.ensure_future(beat(peer, number)) for number in range(REQUESTS_MAX)]
        await harness.settle()
        with pytest.raises(BrokerUnreachable, match="requests wait already"):
            await beat(peer, 0)
        peer.close()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, BrokerUnreachable) for result in results)

    play(scenario)


def test_a_connection_that_breaks_while_it_takes_up_requests_fails_all_that_have_waited_for_it(play: Any) -> None:
    """Those behind the one with which it broke waited for their time limits: nobody connected again for them."""

    async def scenario(harness: Any) -> None:
        peer = peer_of(harness)
        waiting = [asyncio.ensure_future(beat(peer, number, timeout_ms=30_000)) for number in range(3)]
        connect = peer._network.connect

        async def connect_and_break(host: str, port: int) -> Any:
            endpoint = await connect(host, port)
            harness.network.reset("client")
            return endpoint

        peer._network.connect = connect_and_break  # type: ignore[method-assign]
        began_ms = harness.clock.monotonic_ms()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [BrokerUnreachable] * 3
        assert harness.clock.monotonic_ms() - began_ms < 1_000

    play(scenario)
