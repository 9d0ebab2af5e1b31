"""A topic that is deleted and made anew while clients use it: another topic, which has the name of the old one."""

import asyncio
from typing import Any

import pytest

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.values import NewTopic
from odradek.client.records import ConsumerRecord
from odradek.testing import run

OLD, NEW = 10, 3


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found = [await consumer.getone(30_000) for _ in range(count)]
    return [one for one in found if one is not None]


def test_the_new_one_is_read_from_its_first_record() -> None:
    """Both have leader epoch 0, so the old position looked like one that was truncated: 0 to 2 were passed over."""

    async def main(cluster: Any) -> None:
        await cluster.create_topic("t")
        settings = {"bootstrap_servers": cluster.bootstrap}
        async with (
            Admin(**settings) as admin,
            Producer(**settings) as producer,
            Consumer("t", auto_offset_reset="earliest", **settings) as consumer,
        ):
            for _ in range(OLD):
                await (await producer.send("t", b"old"))
            assert [one.offset for one in await read(consumer, OLD)] == list(range(OLD))
            await admin.delete_topics(["t"])
            assert await consumer.getone(2_000) is None
            await admin.create_topics([NewTopic("t", 1, 1)])
            for number in range(NEW):
                assert (await (await producer.send("t", b"new"))).offset == number
            assert [(one.offset, one.value) for one in await read(consumer, NEW)] == [
                (number, b"new") for number in range(NEW)
            ]

    run(main, brokers=1, settings={"auto.create.topics.enable": False})


def test_what_was_read_of_the_old_one_is_handed_out_before_the_new_one_is_begun() -> None:
    """Records that iterating had decoded ahead were dropped when their end was out of range in the new one."""

    async def main(cluster: Any) -> None:
        await cluster.create_topic("t")
        settings = {"bootstrap_servers": cluster.bootstrap}
        async with Producer(**settings) as producer:
            for _ in range(OLD):
                await (await producer.send("t", b"old"))
            async with Consumer("t", auto_offset_reset="earliest", **settings) as consumer:
                assert [one.offset for one in await read(consumer, 1)] == [0]
                await cluster.delete_topic("t")
                await cluster.create_topic("t")
                await (await producer.send("t", b"new"))
                await asyncio.sleep(10)  # in the meantime the old end is found to be out of range
                rest = [(one.offset, one.value) for one in await read(consumer, OLD)]
                assert rest == [*((number, b"old") for number in range(1, OLD)), (0, b"new")]

    run(main, brokers=1, settings={"auto.create.topics.enable": False})


def test_a_topic_that_is_not_there_is_told_once_and_again_when_it_has_gone(caplog: pytest.LogCaptureFixture) -> None:
    """A consumer of a name that was misspelled read nothing, and nobody said why."""

    def told() -> int:
        return caplog.text.count("topic t: the cluster does not have it: create it, or check its name")

    async def main(cluster: Any) -> None:
        settings = {"bootstrap_servers": cluster.bootstrap}
        async with Admin(**settings) as admin, Consumer("t", auto_offset_reset="earliest", **settings) as consumer:
            assert await consumer.getone(10_000) is None
            assert told() == 1
            await admin.create_topics([NewTopic("t", 1, 1)])
            async with Producer(**settings) as producer:
                await (await producer.send("t", b"record"))
            assert [one.value for one in await read(consumer, 1)] == [b"record"]
            await admin.delete_topics(["t"])
            assert await consumer.getone(10_000) is None
            assert told() == 2

    run(main, brokers=1, settings={"auto.create.topics.enable": False})
