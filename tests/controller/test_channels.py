"""Channels: order, one request in flight, retries until the broker is removed."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from odradek.controller.channel_manager import BrokerChannels
from odradek.protocol.fields import Message
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks


class Wire:
    """A connection that answers, or fails, when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Message, int]] = []
        self.waiting: asyncio.Future[Message] | None = None
        self.closed = False

    async def request(self, message: Message, version: int, timeout_ms: float) -> Message:
        assert self.waiting is None or self.waiting.done(), "two in flight"
        self.asked.append((message, version))
        self.waiting = asyncio.get_running_loop().create_future()
        return await self.waiting

    def close(self) -> None:
        self.closed = True

    def answer(self) -> None:
        assert self.waiting is not None
        self.waiting.set_result(UpdateMetadataResponse())

    def fail(self) -> None:
        assert self.waiting is not None
        self.waiting.set_exception(ConnectionResetError("gone"))


def play(scenario: Callable[[VirtualClock, BrokerChannels, list[Wire]], Coroutine[Any, Any, None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        wires: list[Wire] = []

        def connect(host: str, port: int) -> Wire:
            wires.append(Wire())
            return wires[-1]

        channels = BrokerChannels(connect, clock, 30_000, Tasks(clock, print))
        channels.add_broker(1, "host", 9092)
        await scenario(clock, channels, wires)

    run_virtual(main)


def note(into: list[int], number: int, _: Message) -> None:
    into.append(number)


async def pass_time(duration_ms: float = 1.0) -> None:
    await asyncio.sleep(duration_ms / 1000)


def test_order_and_one_at_a_time() -> None:
    async def scenario(clock: VirtualClock, channels: BrokerChannels, wires: list[Wire]) -> None:
        answered: list[int] = []
        for number in range(3):
            channels.send(1, UpdateMetadataRequest(controller_epoch=number), partial(note, answered, number))
        assert not answered
        for number in range(3):
            await pass_time()
            message, version = wires[0].asked[-1]
            assert isinstance(message, UpdateMetadataRequest)
            assert (message.controller_epoch, version, len(wires[0].asked)) == (number, 8, number + 1)
            wires[0].answer()
        await pass_time()
        assert answered == [0, 1, 2]
        assert not any(channels.queued_by_broker().values())

    play(scenario)


def test_a_request_is_repeated_until_answered_before_the_next_goes() -> None:
    async def scenario(clock: VirtualClock, channels: BrokerChannels, wires: list[Wire]) -> None:
        answered: list[str] = []
        channels.send(1, LeaderAndIsrRequest(), lambda _: answered.append("first"))
        channels.send(1, UpdateMetadataRequest(), lambda _: answered.append("second"))
        for _ in range(3):
            await pass_time()
            wires[0].fail()
            await pass_time(50)
            assert wires[0].waiting is not None and wires[0].waiting.done(), "it rests before it tries again"
            await pass_time(60)
        assert [type(message) for message, _ in wires[0].asked] == [LeaderAndIsrRequest] * 4
        assert wires[0].asked[0][1] == 7
        wires[0].answer()
        await pass_time()
        wires[0].answer()
        await pass_time()
        assert answered == ["first", "second"]

    play(scenario)


def test_a_broker_at_another_address_gets_what_waits_for_it() -> None:
    """A broker may change its listeners while it runs; what was sent to it and not answered is sent there."""

    async def scenario(clock: VirtualClock, channels: BrokerChannels, wires: list[Wire]) -> None:
        answered: list[int] = []
        for number in range(2):
            channels.send(1, UpdateMetadataRequest(controller_epoch=number), partial(note, answered, number))
        await pass_time()
        channels.add_broker(1, "host", 9092)
        assert len(wires) == 1 and not wires[0].closed, "nothing has changed"
        channels.add_broker(1, "host", 9093)
        assert wires[0].closed and wires[0].waiting is not None
        wires[0].fail()
        await pass_time(200)
        for number in range(2):
            assert wires[1].asked[-1][0] == UpdateMetadataRequest(controller_epoch=number)
            wires[1].answer()
            await pass_time()
        assert answered == [0, 1]

    play(scenario)


def test_a_channel_goes_on_after_a_bug() -> None:
    async def scenario(clock: VirtualClock, channels: BrokerChannels, wires: list[Wire]) -> None:
        def broken(_: Message) -> None:
            raise AssertionError("a bug of ours")

        answered: list[Message] = []
        channels.send(1, LeaderAndIsrRequest(), broken)
        channels.send(1, UpdateMetadataRequest(), answered.append)
        await pass_time()
        wires[0].answer()
        await pass_time(1_500)
        assert [type(message) for message, _ in wires[0].asked] == [LeaderAndIsrRequest, UpdateMetadataRequest]
        wires[0].answer()
        await pass_time()
        assert len(answered) == 1

    play(scenario)


def test_a_removed_broker_is_forgotten_with_its_queue() -> None:
    async def scenario(clock: VirtualClock, channels: BrokerChannels, wires: list[Wire]) -> None:
        answered: list[Message] = []
        channels.send(1, UpdateMetadataRequest(), answered.append)
        channels.send(1, UpdateMetadataRequest(), answered.append)
        await pass_time()
        channels.remove_broker(1)
        assert wires[0].closed
        channels.add_broker(1, "host", 9092)
        channels.send(1, UpdateMetadataRequest(controller_epoch=9), answered.append)
        channels.send(7, UpdateMetadataRequest(), answered.append)
        await pass_time()
        assert len(wires[0].asked) == 1
        assert [message for message, _ in wires[1].asked] == [UpdateMetadataRequest(controller_epoch=9)]
        wires[1].answer()
        await pass_time()
        assert len(answered) == 1

    play(scenario)
