"""Delivery callbacks that raise what is no Exception, and futures that outlive their producer's loop."""

import asyncio
import sys
import threading
from typing import Any

import pytest

from odradek.aio import Producer
from odradek.client.consumer.client import KafkaConsumer
from odradek.client.errors import ClientClosed
from odradek.client.producer.batch import FutureContext, ProducerBatch, RecordFuture
from odradek.client.producer.client import KafkaProducer
from odradek.client.records import TopicPartition
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.testing import run

PATIENCE_S = 60


def raise_cancelled(metadata: Any, error: Any) -> None:
    """As one does that asks for the result of a task that was cancelled."""
    raise asyncio.CancelledError


def end_program(metadata: Any, error: Any) -> None:
    sys.exit(3)


def test_a_callback_that_raises_a_cancellation_ends_no_task_of_its_producer() -> None:
    """The records of that answer were never settled: their futures, flush and close waited for ever."""
    heard: list[str] = []

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap, linger_ms=5) as producer:
            await producer.partitions_for("t")
            first = await producer.send("t", b"first", partition=0, callback=raise_cancelled)
            last = await producer.send("t", b"last", partition=1, callback=lambda *_: heard.append("last"))
            assert [(await one).offset for one in (first, last)] == [0, 0]
            first.add_callback(lambda metadata: raise_cancelled(metadata, None))

    run(main, brokers=1, topics={"t": 2}, seed=7)
    assert heard == ["last"]


def test_a_callback_that_ends_the_program_ends_it_once_all_have_heard() -> None:
    """Those behind it heard, if anything, that the producer was closed before their records were acknowledged."""
    heard: list[Any] = []

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap, linger_ms=5) as producer:
            await producer.partitions_for("t")
            await producer.send("t", b"first", partition=0, callback=end_program)
            await producer.send("t", b"last", partition=1, callback=lambda _, error: heard.append(error))
            await asyncio.sleep(PATIENCE_S)

    with pytest.raises(SystemExit):
        run(main, brokers=1, topics={"t": 2}, seed=7)
    assert heard == [None]


class Watching:
    """An interceptor that changes nothing."""

    def on_send(self, record: Any) -> Any:
        return record

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        pass


async def nobody_awaits(*_: Any) -> None:
    pass


@pytest.mark.parametrize("intercepted", [False, True])
@pytest.mark.parametrize("callback", [nobody_awaits, 5])
def test_a_callback_that_cannot_be_called_is_refused(callback: Any, intercepted: bool) -> None:
    """A coroutine function was called, and its coroutine dropped; with interceptors, any object was taken."""

    async def main(cluster: Any) -> None:
        settings: dict[str, Any] = {"interceptor_classes": [Watching()] if intercepted else None}
        async with Producer(bootstrap_servers=cluster.bootstrap, **settings) as producer:
            with pytest.raises(TypeError, match="the callback of a record must be a"):
                await producer.send("t", b"x", callback=callback)
            report = await producer.send("t", b"x")
            for add in (report.add_callback, report.add_errback, report.add_both):
                with pytest.raises(TypeError, match="the argument of add_"):
                    add(callback)
            assert (await report).offset == 0

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_a_blocking_consumer_takes_no_coroutine_function_as_the_callback_of_its_commits() -> None:
    with pytest.raises(TypeError, match="default_offset_commit_callback must be a plain function"):
        KafkaConsumer(bootstrap_servers="broker:9092", default_offset_commit_callback=nobody_awaits)


@pytest.fixture
def sending(broker_on_loopback: Any) -> Any:
    """A KafkaProducer of a broker that takes everything, at offset 0."""
    one = PartitionProduceResponse(index=0, base_offset=0)
    answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[one])])
    broker_on_loopback.handlers |= {
        InitProducerIdRequest: lambda _: InitProducerIdResponse(producer_id=7),
        ProduceRequest: lambda _: answer,
    }
    with KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker_on_loopback.port}") as producer:
        yield producer


def test_a_callback_does_not_end_the_thread_of_its_producer(caplog: pytest.LogCaptureFixture, sending: Any) -> None:
    """The thread was gone, and who waited for a record waited for ever."""
    assert sending.send("t", b"x", callback=end_program).result(PATIENCE_S).offset == 0
    assert sending.send("t", b"y").result(PATIENCE_S).offset == 0
    assert "a callback raised this to end the program" in caplog.text


def test_a_send_that_another_threads_close_overtakes_has_its_record_delivered(sending: Any) -> None:
    """It said RuntimeError, Event loop is closed, of a record that was delivered."""
    sending.partitions_for("t")
    intake = sending._core.intake
    call_on_loop = intake._call_on_loop

    def overtaken(wake: Any) -> None:
        closing = threading.Thread(target=sending.close)
        closing.start()
        closing.join(PATIENCE_S)
        call_on_loop(wake)

    intake._call_on_loop = overtaken
    assert sending.send("t", b"x").result(0).offset == 0


def test_nobody_waits_for_a_record_whose_producers_loop_is_closed() -> None:
    """Nobody would ever tell them."""
    loop = asyncio.new_event_loop()
    loop.close()
    report = RecordFuture(ProducerBatch(TopicPartition("t", 0), 0.0), 0, FutureContext(threading.Lock(), loop))
    with pytest.raises(ClientClosed, match="event loop was closed"):
        report.result(PATIENCE_S)
