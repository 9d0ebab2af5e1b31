"""Producers that are closed by two at once: neither returns before everything is delivered."""

import asyncio
import threading
from typing import Any

from odradek import KafkaProducer
from odradek.aio import Producer
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
