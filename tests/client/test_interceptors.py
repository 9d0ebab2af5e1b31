"""Interceptors that drop, give nothing back, or want to hear of every record."""

import asyncio
from typing import Any

import pytest

from odradek.client.aio.consumer import Consumer
from odradek.client.aio.producer import Producer
from odradek.client.errors import ClientError, ClientTimeout, ConfigError, RecordTooLarge
from odradek.client.producer.client import KafkaProducer
from odradek.testing import run

MANY = 1_500
"""More than Python lets calls be nested."""


class OnlyLast:
    """Lets nothing pass but the value `last`."""

    def on_consume(self, records: Any) -> Any:
        return {where: [one for one in some if one.value == b"last"] for where, some in records.items()}


class Forgetful:
    """Returns nothing: its `return` was forgotten."""

    def on_consume(self, records: Any) -> None:
        pass

    def on_send(self, record: Any) -> None:
        pass


class Fates:
    """Notes what it hears of records."""

    def __init__(self) -> None:
        self.heard: list[type | None] = []

    def on_send(self, record: Any) -> Any:
        return record

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        self.heard.append(None if error is None else type(error))


def only_text(value: str) -> bytes:
    return value.encode()


WRONG: list[tuple[tuple[Any, ...], type[Exception]]] = [
    (("t", 5), AttributeError),
    (("t", "x" * 2_000_000), RecordTooLarge),
    (("no such!", "x"), ConfigError),
    (("t", "x", None, None, 7), ClientTimeout),
]


def test_a_consumer_that_drops_many_records_goes_on() -> None:
    async def main(cluster: Any) -> None:
        await cluster.create_topic("t")
        async with Producer(bootstrap_servers=cluster.bootstrap, interceptor_classes=[Forgetful()]) as producer:
            for _ in range(MANY):
                await producer.send("t", b"dropped")
            await (await producer.send("t", b"last"))
        settings = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
        async with Consumer("t", **settings, interceptor_classes=[OnlyLast(), Forgetful()]) as consumer:
            record = await consumer.getone(30_000)
            assert record is not None and (record.offset, record.value) == (MANY, b"last")
        async with Consumer("t", **settings, interceptor_classes=[OnlyLast()]) as consumer:
            polled = await consumer.getmany(30_000, update_offsets=False)  # it returned a partition without records
            assert [[one.value for one in some] for some in polled.values()] == [[b"last"]]

    run(main, brokers=1)


class Interrupted:
    """Is struck by Ctrl-C, once."""

    def __init__(self) -> None:
        self.struck = False

    def on_consume(self, records: Any) -> Any:
        if not self.struck:
            self.struck = True
            raise KeyboardInterrupt
        return records


@pytest.mark.parametrize("way", ["poll", "iterate"])
def test_an_interrupt_in_an_interceptor_takes_no_record(way: str) -> None:
    """They were behind the position, and handed out to nobody."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for value in (b"a", b"b"):
                await producer.send("t", value, partition=0)
        settings: dict[str, Any] = {"auto_offset_reset": "earliest", "interceptor_classes": [Interrupted()]}
        async with Consumer("t", bootstrap_servers=cluster.bootstrap, **settings) as consumer:
            while not consumer._shared.readable:
                await asyncio.sleep(0.01)
            with pytest.raises(KeyboardInterrupt):
                _ = consumer.take_now(10) if way == "poll" else consumer.take_one_now()
            left = [await consumer.getone(1_000) for _ in range(2)]
            assert [one and one.value for one in left] == [b"a", b"b"]

    run(main, brokers=1, topics={"t": 1})


def test_interceptors_hear_of_sends_that_raise() -> None:
    fates = Fates()

    async def main(cluster: Any) -> None:
        await cluster.create_topic("t")
        settings: dict[str, Any] = {"value_serializer": only_text, "max_block_ms": 200, "interceptor_classes": [fates]}
        async with Producer(bootstrap_servers=cluster.bootstrap, **settings) as producer:
            for arguments, error in WRONG:
                with pytest.raises(error):
                    await producer.send(*arguments)
            await (await producer.send("t", "good"))

    run(main, brokers=1)
    assert fates.heard == [*(error for _, error in WRONG), None]


def test_interceptors_of_a_blocking_producer_hear_of_sends_that_raise(broker_on_loopback: Any) -> None:
    fates = Fates()
    settings: dict[str, Any] = {"value_serializer": only_text, "acks": 0, "interceptor_classes": [fates]}
    with KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker_on_loopback.port}", **settings) as producer:
        for arguments, error in WRONG[:3]:
            with pytest.raises(error):
                producer.send(*arguments)
    assert fates.heard == [error for _, error in WRONG[:3]]


def test_a_send_that_is_cancelled_has_a_fate_too() -> None:
    """Interceptors that count what is under way counted it for ever."""
    fates = Fates()

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap, interceptor_classes=[fates]) as producer:
            hidden = await cluster.respond("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic="t", times=None)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send("t", b"x"), 1)
            assert fates.heard == [ClientError]
            await cluster.clear(hidden)
            await (await producer.send("t", b"x"))
            assert fates.heard == [ClientError, None]

    run(main, brokers=1, topics={"t": 1})
