"""Clients that are closed by two at once: neither returns before everything is delivered, committed and left."""

import asyncio
import threading
from typing import Any

import pytest

from odradek import KafkaConsumer, KafkaProducer, TopicPartition
from odradek.aio import Consumer, Producer
from odradek.client.consumer.subscription import RebalanceListener
from odradek.client.errors import ClientClosed
from odradek.testing import Cluster, run
from odradek.testing.patience import PATIENCE_SECONDS

SOON_SECONDS = 0.2


def test_a_producer_that_is_closed_by_two_tasks_has_delivered_everything_when_either_goes_on() -> None:
    """The second close returned at once. Where the program ended then, asyncio.run cancelled the first one, and what
    was not acknowledged yet failed."""

    async def main(cluster: Any) -> None:
        await cluster.create_topic("t")
        held = await cluster.hold("Produce")
        producer = await Producer(bootstrap_servers=cluster.bootstrap).start()
        sent = await producer.send("t", b"record")
        first = asyncio.ensure_future(producer.close())
        await cluster.wait_for(fault=held)
        await producer.close(timeout=1)
        assert not first.done() and not sent.done(), "no longer than it is told to"
        second = asyncio.ensure_future(producer.close())
        await asyncio.sleep(1)
        assert not second.done()
        await cluster.release(held)
        await second
        assert (await sent).offset == 0
        await first
        await producer.close()

    run(main, brokers=1)


def test_a_producer_that_is_closed_by_two_threads_has_delivered_everything_when_either_goes_on() -> None:
    with Cluster(brokers=1, topics={"t": 1}) as cluster:
        held = cluster.hold("Produce")
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
        sent = producer.send("t", b"record")
        first = threading.Thread(target=producer.close, daemon=True)
        first.start()
        cluster.wait_for(fault=held)
        threading.Timer(SOON_SECONDS, cluster.release, [held]).start()
        producer.close()
        assert sent.done() and sent.result(0).offset == 0
        first.join(PATIENCE_SECONDS)
        producer.close()


def test_a_consumer_that_is_closed_by_two_tasks_has_committed_and_left_when_either_goes_on() -> None:
    """Where the program ended behind the second close, which returned at once, the first one was cancelled: what was
    read came again, and the group waited for a member that was gone."""

    async def main(cluster: Any) -> None:
        await cluster.create_topic("t")
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            await producer.send("t", b"record")
        settings = {"bootstrap_servers": cluster.bootstrap, "group_id": "g", "auto_offset_reset": "earliest"}
        consumer = await Consumer("t", **settings).start()
        assert await consumer.getone() is not None
        held = await cluster.hold("OffsetCommit")
        first = asyncio.ensure_future(consumer.close())
        await cluster.wait_for(fault=held)
        await consumer.close(timeout_ms=1_000)
        assert not first.done(), "no longer than it is told to"
        second = asyncio.ensure_future(consumer.close())
        await asyncio.sleep(1)
        assert not second.done()
        await cluster.release(held)
        await second
        async with Consumer("t", **settings) as another:
            assert await another.committed(TopicPartition("t", 0)) == 1
        await first
        await consumer.close()

    run(main, brokers=1)


def test_a_consumer_that_is_closed_by_two_threads_has_committed_and_left_when_either_goes_on() -> None:
    with Cluster(brokers=1, topics={"t": 1}) as cluster:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send("t", b"record")
        settings = {"bootstrap_servers": cluster.bootstrap, "group_id": "g", "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer("t", **settings)
        assert next(consumer).value == b"record"
        held = cluster.hold("OffsetCommit")
        first = threading.Thread(target=consumer.close, daemon=True)
        first.start()
        cluster.wait_for(fault=held)
        released = threading.Event()

        def release() -> None:
            released.set()
            cluster.release(held)

        threading.Timer(SOON_SECONDS, release).start()
        consumer.close()
        assert released.is_set(), "it returned while the commit of the first was under way"
        with KafkaConsumer("t", **settings) as another:
            assert another.committed(TopicPartition("t", 0)) == 1
        first.join(PATIENCE_SECONDS)
        consumer.close()


@pytest.mark.parametrize("called", ["by the listener", "by the commit"])
def test_a_callback_may_close_the_consumer_whose_close_calls_it(called: str) -> None:
    class Closes(RebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            closes("by the listener")

    def closes(who: str) -> None:
        if who == called:
            consumer.close()
            told.append(who)

    told: list[str] = []
    with Cluster(brokers=1, topics={"t": 1}) as cluster:
        consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id="g")
        consumer.subscribe(["t"], listener=Closes())
        while not consumer.assignment():
            consumer.poll(100)
        consumer.commit_async({TopicPartition("t", 0): 0}, callback=lambda *_: closes("by the commit"))
        consumer.close()
        assert told == [called]


def test_a_listener_may_close_the_consumer_that_is_being_closed() -> None:
    async def main(cluster: Any) -> None:
        await cluster.create_topic("t")

        class Closes(RebalanceListener):
            async def on_partitions_revoked(self, revoked: Any) -> None:
                await consumer.close()
                told.append(revoked)

        told: list[Any] = []
        consumer = await Consumer(bootstrap_servers=cluster.bootstrap, group_id="g").start()
        consumer.subscribe(["t"], listener=Closes())
        while not consumer.assignment():
            await consumer.getmany(timeout_ms=100)
        await consumer.close()
        assert told == [[TopicPartition("t", 0)]]

    run(main, brokers=1)


def test_a_poll_of_a_consumer_that_is_closed_meanwhile_says_so() -> None:
    """It said that the consumer's tasks were cancelled."""

    async def main(cluster: Any) -> None:
        await cluster.create_topic("t")
        consumer = await Consumer(bootstrap_servers=cluster.bootstrap).start()
        consumer.assign([TopicPartition("t", 0)])
        polling = asyncio.ensure_future(consumer.getmany(timeout_ms=60_000))
        await asyncio.sleep(1)
        await consumer.close()
        with pytest.raises(ClientClosed, match=r"^the consumer is closed$"):
            await polling

    run(main, brokers=1)
