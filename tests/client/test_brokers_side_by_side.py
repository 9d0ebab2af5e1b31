"""Questions to several brokers, one of which does not answer, and to topics that are not there or are refused."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.values import NewTopic
from odradek.client.errors import BrokerUnreachable, ClientTimeout
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from odradek.testing import run
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from tests.client.group_of_one import make_coordinator

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_transactions_are_listed_though_a_broker_cannot_be_reached() -> None:
    """Nothing was told of any broker's until the session of the one that had died was over."""

    async def main(cluster: Any) -> None:
        settings = {"bootstrap_servers": cluster.bootstrap}
        async with Producer(transactional_id="x", **settings) as producer, Admin(**settings) as admin:
            await producer.init_transactions()
            coordinator = next(broker for broker, some in (await admin.list_transactions()).items() if some)
            dead = (coordinator + 1) % 3
            await cluster.kill(dead, unnoticed=True)
            listed = await admin.list_transactions()
            assert dead not in listed and len(listed) == 2
            assert [one.transactional_id for one in listed[coordinator]] == ["x"]
            with pytest.raises(BrokerUnreachable):
                await admin.list_transactions([dead])

    run(main, brokers=3, seed=7)


def test_leaders_are_asked_side_by_side() -> None:
    """The records of one were deleted when another, which was frozen, had been given up."""

    async def main(cluster: Any) -> None:
        settings = {"bootstrap_servers": cluster.bootstrap}
        async with Admin(**settings) as admin:
            await admin.create_topics([NewTopic("t", replica_assignments={0: [0], 1: [1]})], wait_for_metadata=True)
            async with Producer(**settings) as producer:
                for place in FIRST, SECOND:
                    await producer.send("t", b"", partition=place.partition)
            await cluster.suspend(0)
            deleting = asyncio.ensure_future(admin.delete_records({FIRST: 1, SECOND: 1}))
            await asyncio.sleep(0.5)
            async with Consumer(**settings) as consumer:
                assert await consumer.beginning_offsets([SECOND]) == {SECOND: 1}
            await cluster.resume(0)
            assert await deleting == {FIRST: 1, SECOND: 1}

    run(main, brokers=2, seed=7)


def test_leaders_are_asked_again_when_one_has_died_and_nobody_knows_it_yet() -> None:
    """That its connection was refused was raised at once: a stream of Spark's ended with each broker that died."""

    async def main(cluster: Any) -> None:
        settings = {"bootstrap_servers": cluster.bootstrap}
        async with Admin(**settings) as admin, Consumer(**settings) as consumer, Producer(**settings) as producer:
            layout = {0: [0, 1, 2], 1: [1, 2, 0]}
            await admin.create_topics([NewTopic("t", replica_assignments=layout)], wait_for_metadata=True)
            for place in FIRST, SECOND:
                await (await producer.send("t", b"", partition=place.partition))
            assert await consumer.end_offsets([FIRST, SECOND]) == {FIRST: 1, SECOND: 1}
            await cluster.kill(0, unnoticed=True)
            assert await consumer.end_offsets([FIRST, SECOND]) == {FIRST: 1, SECOND: 1}
            await cluster.kill(1, unnoticed=True)
            assert await admin.delete_records({FIRST: 1, SECOND: 1}) == {FIRST: 1, SECOND: 1}

    run(main, brokers=3, seed=7)


@pytest.mark.parametrize("error", ["UNKNOWN_LEADER_EPOCH", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_OR_PARTITION"])
def test_leaders_are_asked_again_after_an_error_that_may_pass(error: str) -> None:
    """They were raised at once, unless they said that another broker leads; Java's admin client asks again."""

    async def main(cluster: Any) -> None:
        settings = {"bootstrap_servers": cluster.bootstrap}
        async with Admin(**settings) as admin, Producer(**settings) as producer:
            await (await producer.send("t", b"", partition=0))
            await cluster.respond("DeleteRecords", error)
            assert await admin.delete_records({FIRST: 1}) == {FIRST: 1}

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_log_directories_of_several_brokers_are_asked_for_side_by_side() -> None:
    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.describe_log_dirs()
            await cluster.delay("DescribeLogDirs", 1_000, times=None)
            began = asyncio.get_running_loop().time()
            assert sorted(await admin.describe_log_dirs()) == [0, 1, 2]
            assert asyncio.get_running_loop().time() - began < 2

    run(main, brokers=3, seed=7)


def on_scripted_broker(scripted_broker: Any, work: Callable[[Any, dict[str, Any]], Coroutine[Any, Any, None]]) -> None:
    """The broker has the topic `t`; `bad` is refused, and `gone` is not there."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        make_coordinator(broker)

        def metadata(request: MetadataRequest) -> MetadataResponse:
            answer: MetadataResponse = broker.metadata()
            errors = {"bad": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            for one in request.topics or ():
                if one.name in errors:
                    answer.topics.append(MetadataResponseTopic(name=one.name, error_code=errors[one.name]))
            return answer

        broker.handlers[MetadataRequest] = metadata
        await work(broker, {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock})

    run_virtual(main)


def test_a_topic_that_offsets_were_asked_of_in_vain_is_not_asked_for_again(scripted_broker: Any) -> None:
    """The consumer asked for all its metadata each second, until its subscription changed."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        async with Consumer("t", group_id="g", **settings) as consumer:
            await consumer.getmany(5_000)  # it has joined its group
            with pytest.raises(ClientTimeout, match="the topic is not known"):
                await consumer.end_offsets([TopicPartition("gone", 0)], timeout_ms=3_000)
            asked = len(broker.requests(MetadataRequest))
            await consumer.getmany(20_000)
            (last,) = broker.requests(MetadataRequest)[asked:]
            assert [one.name for one in last.topics] == ["t"]

    on_scripted_broker(scripted_broker, work)


def test_offsets_of_a_topic_that_is_refused_are_refused_at_once(scripted_broker: Any) -> None:
    """It was asked for during all of default.api.timeout.ms, and then said not to be known."""

    async def work(_: Any, settings: dict[str, Any]) -> None:
        place = TopicPartition("bad", 0)
        async with Consumer(**settings) as consumer, Admin(**settings) as admin:
            for call in consumer.end_offsets([place]), admin.delete_records({place: 1}):
                with pytest.raises(KafkaError, match="topic bad") as refused:
                    await call
                assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    on_scripted_broker(scripted_broker, work)


def test_a_program_asks_as_much_at_once_as_it_has_to_ask() -> None:
    """What came behind a thousand questions was told that no broker is reachable: 1000 requests are unanswered."""

    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            found = await asyncio.gather(*(admin.list_topics() for _ in range(1_500)))
            assert all(topics == ["t"] for topics in found)
            served = await asyncio.gather(*(admin.get_broker_version_data(0) for _ in range(1_500)))
            assert all(served)

    run(main, brokers=1, topics={"t": 1}, seed=7)
