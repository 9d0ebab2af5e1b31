"""Times that methods are given while brokers stand still: kept also where an earlier call, or a connection, waits."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.client.admin.values import NewTopic
from odradek.client.aio.admin import Admin
from odradek.client.aio.consumer import Consumer
from odradek.client.aio.producer import Producer
from odradek.client.calls import GRACE_MS
from odradek.client.errors import ClientTimeout
from odradek.client.records import TopicPartition
from odradek.testing import run

PLACE = TopicPartition("t", 0)
SOON_S = 0.8
"""The half second that each method has, and a little for saying why."""


async def _seconds(work: Awaitable[Any]) -> float:
    began = asyncio.get_running_loop().time()
    await work
    return asyncio.get_running_loop().time() - began


async def _too_late(work: Awaitable[Any]) -> None:
    with pytest.raises(ClientTimeout):
        await work


async def _reader(cluster: Any, **settings: Any) -> Consumer:
    settings = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
    consumer = await Consumer("t", bootstrap_servers=cluster.bootstrap, **settings).start()
    while not await consumer.getmany(1_000):
        pass
    return consumer


async def _with_a_record(cluster: Any) -> None:
    await cluster.create_topic("t")
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        await (await producer.send("t", b"a record"))


def test_a_consumer_asks_no_longer_than_it_was_told() -> None:
    questions: list[Callable[[Consumer], Awaitable[Any]]] = [
        lambda consumer: consumer.committed(PLACE, timeout_ms=500),
        lambda consumer: consumer.end_offsets([PLACE], timeout_ms=500),
        lambda consumer: consumer.bootstrap(500, refresh=True),
        lambda consumer: consumer.topics(),
        lambda consumer: consumer.partitions_for_topic("t"),
        lambda consumer: consumer.commit(timeout_ms=500),
    ]

    async def main(cluster: Any) -> None:
        await _with_a_record(cluster)
        consumer = await _reader(cluster, default_api_timeout_ms=500)
        await cluster.suspend(0)
        for ask in questions:
            assert await _seconds(_too_late(ask(consumer))) < SOON_S
        consumer.stop()

    run(main, brokers=1)


def test_a_commit_waits_for_those_before_it_no_longer_than_it_was_told() -> None:
    async def main(cluster: Any) -> None:
        await _with_a_record(cluster)
        consumer = await _reader(cluster)
        await cluster.suspend(0)
        consumer.commit_later()
        await asyncio.sleep(0.01)
        assert await _seconds(_too_late(consumer.commit(timeout_ms=500))) < SOON_S
        consumer.stop()

    run(main, brokers=1)


def test_leaving_takes_two_seconds_and_no_longer_than_closing_may_take() -> None:
    """The new connection for it took the ten seconds of socket.connection.setup.timeout.ms."""

    async def main(cluster: Any) -> None:
        await _with_a_record(cluster)
        consumer = await _reader(cluster)
        await cluster.suspend(0)
        assert await _seconds(consumer.unsubscribe()) <= 2
        await cluster.resume(0)
        consumer.subscribe(["t"])
        while not consumer.assignment():
            await consumer.getmany(1_000)
        await cluster.suspend(0)
        assert await _seconds(consumer.close(timeout_ms=500)) < SOON_S

    run(main, brokers=1)


def test_a_producer_waits_for_metadata_no_longer_than_max_block_ms() -> None:
    async def main(cluster: Any) -> None:
        await _with_a_record(cluster)
        producer = await Producer(bootstrap_servers=cluster.bootstrap, max_block_ms=500).start()
        await (await producer.send("t", b""))
        await cluster.suspend(0)
        assert await _seconds(_too_late(producer.send("unheard-of", b""))) < SOON_S
        assert await _seconds(_too_late(producer.partitions_for("unheard-of"))) < SOON_S
        producer.stop()

    run(main, brokers=1)


def test_a_producer_that_has_waited_in_vain_says_what_went_wrong_before_the_last_attempt() -> None:
    """A wrong password was told as "no broker has answered yet", for the time was over in the midst of an attempt."""

    async def main(cluster: Any) -> None:
        producer = await Producer(bootstrap_servers=cluster.bootstrap, max_block_ms=2_000).start()
        await cluster.kill(0)
        sending = asyncio.ensure_future(producer.send("t", b""))
        await asyncio.sleep(1)
        await cluster.partition("clients", 0)  # from now on attempts take longer than there is time
        with pytest.raises(ClientTimeout, match=r"no metadata after .* not reachable .*refused"):
            await sending
        producer.stop()

    run(main, brokers=1)


def test_who_is_cancelled_just_when_the_time_is_over_is_cancelled() -> None:
    """It was a ClientTimeout, and the task that was to end went on."""

    async def main(cluster: Any) -> None:
        await _with_a_record(cluster)
        consumer = await Consumer(bootstrap_servers=cluster.bootstrap, group_id="g").start()
        await cluster.suspend(0)
        asking = asyncio.ensure_future(consumer.committed(PLACE, timeout_ms=500))  # it looks for the coordinator first
        loop: Any = asyncio.get_running_loop()
        loop.call_later((500 + GRACE_MS) / 1_000, lambda: loop.call_soon(asking.cancel))
        with pytest.raises(asyncio.CancelledError):
            await asking
        consumer.stop()

    run(main, brokers=1)


@pytest.mark.parametrize("api", ["OffsetFetch", "OffsetCommit"])
def test_who_has_no_more_time_does_not_close_the_coordinators_connection(api: str) -> None:
    """A heartbeat, or the JoinGroup of a long rebalance, was lost with each question whose time was short."""

    async def main(cluster: Any) -> None:
        await _with_a_record(cluster)
        consumer = await _reader(cluster)
        await cluster.delay(api, 1_000, times=None)
        opened = consumer.metrics()["consumer-metrics"]["connection-creation-total"]
        for _ in range(3):
            asking = consumer.commit(timeout_ms=200) if api == "OffsetCommit" else consumer.committed(PLACE, False, 200)
            with pytest.raises(ClientTimeout, match=f"no answer to {api}Request within 200 ms|not done within"):
                await asking
            await consumer.getmany(1_000)
        assert consumer.metrics()["consumer-metrics"]["connection-creation-total"] == opened
        await cluster.clear()
        assert await consumer.committed(PLACE) == (1 if api == "OffsetCommit" else None)
        await consumer.close()

    run(main, brokers=1)


def test_a_question_to_the_controller_that_was_given_up_holds_up_none_after_it() -> None:
    """The next one stood behind it on the same connection, until it was answered: and was given up as well."""

    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic("first", 1, 1)])
            await cluster.delay("CreateTopics", 10_000, times=1)
            with pytest.raises(ClientTimeout):
                await admin.create_topics([NewTopic("held-back", 1, 1)], timeout_ms=500)
            assert await _seconds(admin.create_topics([NewTopic("next", 1, 1)], timeout_ms=500)) < SOON_S
            assert await _seconds(admin.delete_topics(["first"], timeout_ms=500)) < SOON_S

    run(main, brokers=1)


def test_topics_are_made_and_waited_for_within_one_time() -> None:
    """Their leaders were waited for for ten seconds more, or, by default, for ten seconds only."""

    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            for name in ("m", "n"):
                hidden = await cluster.respond("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic=name, times=None)
            made = admin.create_topics(["m"], timeout_ms=500, wait_for_metadata=True)
            assert await _seconds(_too_late(made)) < SOON_S
            asyncio.get_running_loop().call_later(20, lambda: asyncio.ensure_future(cluster.clear(hidden)))
            assert 20 < await _seconds(admin.create_topics(["n"], wait_for_metadata=True)) < 30

    run(main, brokers=1)


def test_who_has_waited_in_vain_is_told_which_time_is_over() -> None:
    """It was default.api.timeout.ms, however long that is, also for those who had given a time of their own."""

    async def main(cluster: Any) -> None:
        await _with_a_record(cluster)
        consumer = await _reader(cluster)
        async with Admin(bootstrap_servers=cluster.bootstrap, default_api_timeout_ms=700) as admin:
            await cluster.suspend(0)
            waits: list[tuple[Awaitable[Any], str]] = [
                (consumer.commit(timeout_ms=500), "timeout_ms=500"),
                (admin.list_offsets({PLACE: -1}, timeout_ms=500), "timeout_ms=500"),
                (admin.list_topics(), "default.api.timeout.ms=700"),
            ]
            for waiting, said in waits:
                with pytest.raises(ClientTimeout, match=f"not done within {said}"):
                    await waiting
            await cluster.resume(0)
        consumer.stop()

    run(main, brokers=1)
