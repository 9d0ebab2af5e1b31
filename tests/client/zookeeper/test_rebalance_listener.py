"""The listener of a ConsumerConnector: told before partitions are given up, and before new ones are read."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from odradek.client.records import TopicPartition
from odradek.client.zookeeper.assignment import Assignment
from odradek.client.zookeeper.core import ANY_TOPIC, ConnectorCore
from odradek.client.zookeeper.listener import Listener, ListenerOnThread
from odradek.client.zookeeper.streams import MessageStream
from odradek.client.zookeeper.subscriptions import consumer_of
from odradek.testing import run
from odradek.testing.virtual_run import VirtualCluster
from odradek.zk_schema.znodes.consumers import STATIC, ConsumerRegistration
from tests.client.zookeeper.test_calls_in_odd_orders import connect

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Noted(Listener):
    """Notes what it is told, and whether the member reads then."""

    def __init__(self, core: ConnectorCore) -> None:
        self.core = core
        self.told: list[tuple[str, Any, bool]] = []
        core.member.listener = self

    def _note(self, what: str, told: Any) -> None:
        self.told.append((what, told, bool(self.core.consumption.claimed)))

    async def releasing(self, partitions: Iterable[TopicPartition]) -> None:
        self._note("releasing", sorted(partitions))
        assert set(self.core.member.balance.owned) == set(partitions), "still nobody else's"

    async def starting(self, consumer_id: str, assignment: Assignment) -> None:
        assert consumer_id == self.core.consumer_id
        self._note("starting", {name: consumer_of(thread) for name, thread in assignment.items()})


async def join(core: ConnectorCore) -> None:
    stream = MessageStream(10, -1, None, None, lambda: None)
    core.streams.add(ANY_TOPIC, [stream])
    await core.begin(ConsumerRegistration({"t": 1}, STATIC))


def test_a_member_tells_what_it_gives_up_and_what_the_group_has() -> None:
    async def main(cluster: VirtualCluster) -> None:
        first, second = [await connect(cluster, consumer_id=name, rebalance_backoff_ms=500) for name in "ab"]
        of_first, of_second = Noted(first), Noted(second)
        await join(first)
        assert of_first.told == [("starting", {T0: "g_a", T1: "g_a"}, False)]
        await join(second)
        shared = ("starting", {T0: "g_a", T1: "g_b"}, False)
        async with asyncio.timeout(30):
            while set(first.consumption.claimed) != {T0} or set(second.consumption.claimed) != {T1}:
                await asyncio.sleep(0.1)
        assert of_first.told[1:] == [("releasing", [T0, T1], False), shared]
        assert of_second.told[-1] == shared
        await second.close(in_hand=True)
        await first.close(in_hand=True)
        assert of_second.told[-1] == shared, "a shutdown is no rebalance"

    run(main, brokers=1, topics={"t": 2})


class Recorder:
    """A listener of an application."""

    def __init__(self) -> None:
        self.released: Mapping[str, set[int]] = {}
        self.started: dict[str, Any] = {}

    def before_releasing_partitions(self, ownership: Mapping[str, set[int]]) -> None:
        self.released = ownership

    def before_starting_fetchers(self, consumer_id: str, assignment: Mapping[str, Mapping[int, str]]) -> None:
        self.started[consumer_id] = assignment


def test_an_applications_listener_gets_topics_and_numbers() -> None:
    async def main() -> None:
        listener = Recorder()
        on_thread = ListenerOnThread(listener)
        await on_thread.releasing([T1, T0])
        await on_thread.starting("g_a", {T1: "g_b-0", T0: "g_a-0"})
        assert listener.released == {"t": {0, 1}}
        assert listener.started == {"g_a": {"t": {0: "g_a-0", 1: "g_b-0"}}}

    asyncio.run(main())


def test_what_a_listener_raises_is_logged_and_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        def before_releasing_partitions(self, ownership: Mapping[str, set[int]]) -> None:
            raise RuntimeError("its database is away")

    with caplog.at_level(logging.ERROR):
        asyncio.run(ListenerOnThread(Broken()).releasing([T0]))
    assert "before_releasing_partitions failed; the rebalance goes on" in caplog.text
    assert "its database is away" in caplog.text
