"""The asyncio clients when they are closed, or give up waiting, amid something: scripted brokers, virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from odradek.client.aio.admin import Admin
from odradek.client.aio.consumer import Consumer
from odradek.client.aio.producer import Producer
from odradek.client.consumer.chunks import Chunk
from odradek.client.errors import ClientClosed, ClientError, ClientTimeout, ConfigError
from odradek.client.records import TopicPartition
from odradek.client.waiting import sleep_ms
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.records import encode_batch
from odradek.testing import transaction_bench
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from odradek.world.memory import reuse_freed_memory
from tests.client.group_of_one import make_coordinator

PATIENCE_S = 5


def run(scripted_broker: Any, work: Callable[[Any, dict[str, Any]], Coroutine[Any, Any, None]]) -> None:
    """`work` gets a broker, and what a client needs to reach it."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.handlers[InitProducerIdRequest] = lambda _: InitProducerIdResponse(producer_id=7)
        settings = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        await work(broker, settings)

    run_virtual(main)


@pytest.mark.parametrize("client", [Producer, Consumer])
def test_who_moves_records_has_freed_memory_reused(scripted_broker: Any, client: Any) -> None:
    """tests/world/test_memory.py shows what that means."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        reuse_freed_memory.cache_clear()
        async with client(**settings):
            assert reuse_freed_memory.cache_info().currsize == 1

    run(scripted_broker, work)


def test_a_close_that_is_cancelled_closes_nevertheless(scripted_broker: Any) -> None:
    """`wait_for(producer.close(), …)`: nothing was ended, and another close() did nothing."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        broker.handlers[ProduceRequest] = lambda _: None
        producer = await Producer(**settings).start()
        report = await producer.send("t", b"never acknowledged")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.close(), 1)
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(report, PATIENCE_S)
        assert not producer.bootstrap_connected()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(scripted_broker, work)


def test_the_sender_is_woken_by_a_new_batch_and_by_a_full_one_only(
    scripted_broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(broker: Any, settings: dict[str, Any]) -> None:
        async with Producer(batch_size=361, linger_ms=1_000, **settings) as producer:
            await producer.partitions_for("t")
            woken: list[int] = []
            for number in range(5):

                def call_on_loop(wake: Any, number: int = number) -> None:
                    woken.append(number)
                    wake()

                monkeypatch.setattr(producer.intake, "_call_on_loop", call_on_loop)
                await producer.send("t", bytes(79), partition=0)  # at most 100 bytes in the batch
            assert woken == [0, 2, 3]
            producer.stop()

    run(scripted_broker, work)


@pytest.mark.parametrize("silent", [ApiVersionsRequest, MetadataRequest])
def test_who_waits_for_a_producer_that_is_closed_hears_that_it_is_closed(scripted_broker: Any, silent: type) -> None:
    """It was a CancelledError, as if somebody had cancelled the task."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        broker.handlers[silent] = lambda _: None
        producer = await Producer(**settings).start()
        waiting = [asyncio.ensure_future(one) for one in (producer.send("t", b""), producer.partitions_for("t"))]
        await asyncio.sleep(1)
        await producer.close(0)
        for one in waiting:
            with pytest.raises(ClientClosed):
                await asyncio.wait_for(asyncio.shield(one), PATIENCE_S)

    run(scripted_broker, work)


def test_who_waits_for_a_consumer_that_is_closed_hears_that_it_is_closed(scripted_broker: Any) -> None:
    async def work(broker: Any, settings: dict[str, Any]) -> None:
        broker.handlers[ApiVersionsRequest] = lambda _: None
        consumer = await Consumer(group_id="g", **settings).start()
        waiting = asyncio.ensure_future(consumer.committed(TopicPartition("t", 0)))
        await asyncio.sleep(1)
        await consumer.close()
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(asyncio.shield(waiting), PATIENCE_S)

    run(scripted_broker, work)


def test_a_time_that_is_no_number_is_refused(scripted_broker: Any) -> None:
    """Its timer stood in the way of all others of the application's loop."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        consumer, producer = await Consumer("t", **settings).start(), await Producer(**settings).start()
        nan = float("nan")
        for call in (consumer.getone(nan), consumer.getmany(nan), consumer.bootstrap(nan, refresh=True)):
            with pytest.raises(ConfigError, match="a timeout must be a number, not nan"):
                await call
        for call in (producer.flush(nan), producer.close(nan)):
            with pytest.raises(ConfigError, match="a timeout must be a number, not nan"):
                await call
        await producer.close()
        await consumer.close()

    run(scripted_broker, work)


def test_a_cancelled_send_is_cancelled(scripted_broker: Any) -> None:
    async def work(broker: Any, settings: dict[str, Any]) -> None:
        broker.handlers[MetadataRequest] = lambda _: None
        producer = await Producer(**settings).start()
        sending = asyncio.ensure_future(producer.send("t", b""))
        await asyncio.sleep(1)
        sending.cancel()
        await producer.close(0)
        with pytest.raises(asyncio.CancelledError):
            await sending

    run(scripted_broker, work)


@pytest.mark.parametrize("aborted", [False, True])
def test_a_new_block_waits_for_the_end_of_the_last_one(scripted_broker: Any, aborted: bool) -> None:
    """After one timeout a loop over blocks stood still for ever: each block was refused because of the one before."""

    async def work(bench: transaction_bench.Bench) -> None:
        network = bench.network.host("another client")
        settings = {"transactional_id": "id", "max_block_ms": 2_000, "request_timeout_ms": 1_000}
        async with Producer(settings, bootstrap_servers="broker:9092", network=network, clock=bench.clock) as producer:
            await producer.init_transactions()
            bench.silent.add(EndTxnRequest)
            with pytest.raises(ClientTimeout, match="not done within"):
                async with producer.transaction():
                    await (await producer.send("t", b"x", partition=0))
                    if aborted:
                        raise ZeroDivisionError
            with pytest.raises(ClientTimeout, match="not done within"):
                async with producer.transaction():
                    pytest.fail("the last one has not ended")
            bench.silent.clear()
            async with producer.transaction():
                await producer.send("t", b"y", partition=0)

    bench = transaction_bench.run(scripted_broker, work)
    assert bench.model.committed[0] == ([b"y"] if aborted else [b"x", b"y"])


@pytest.mark.parametrize("closed", [False, True])
def test_a_call_on_another_loop_is_refused_in_one_line(closed: bool) -> None:
    """A send was queued and never sent; the others raised RuntimeError, and broke the consumer."""
    clients: list[Any] = []

    async def begin() -> None:
        settings: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1"}
        clients.extend([Producer(**settings), Consumer("t", **settings, group_id="g"), Admin(**settings)])
        for client in clients:
            await client.start()

    async def use() -> None:
        producer, consumer, admin = clients
        calls = [
            producer.send("t", b""), producer.flush(), producer.partitions_for("t"), producer.close(),
            consumer.getmany(1_000), consumer.getone(), consumer.commit(), consumer.topics(), consumer.close(),
            admin.list_topics(),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(ClientError, match="the event loop on which it was started is"):
                await call

    async def end() -> None:
        for client in clients:
            await client.close()

    if closed:
        asyncio.run(begin())
        asyncio.run(use())
        for client in clients:
            client._closing = client._closed = True  # else they would complain that nobody has closed them
        return
    with asyncio.Runner() as theirs:
        theirs.run(begin())
        asyncio.run(use())
        theirs.run(end())


@pytest.mark.parametrize("way", ["getmany", "getone", "iterate"])
def test_a_call_on_another_loop_takes_no_record_that_has_been_fetched(way: str) -> None:
    """It was refused when the position was behind them."""

    async def begin() -> Consumer:
        consumer = await Consumer(bootstrap_servers="127.0.0.1:1").start()
        consumer.assign([place])
        consumer.seek(place, 0)
        version = consumer._shared.positions.partitions[place].version
        records = memoryview(encode_batch(0, [0], [None], [b"x"]))
        consumer._shared.keep(Chunk(place, records, 0, version, None))
        return consumer

    async def use() -> None:
        with pytest.raises(ClientError, match="the event loop on which it was started is"):
            if way == "iterate":
                async for _ in consumer:
                    pass
            else:
                await getattr(consumer, way)()

    place = TopicPartition("t", 0)
    with asyncio.Runner() as theirs:
        consumer = theirs.run(begin())
        asyncio.run(use())
        record = theirs.run(consumer.getone(0))
        assert record is not None and record.value == b"x"
        theirs.run(consumer.close())


def test_a_cancelled_block_is_cancelled_also_when_its_abort_is_not_answered(scripted_broker: Any) -> None:
    """It was the ClientTimeout of the abort: the task that was to end went on."""

    async def work(bench: transaction_bench.Bench) -> None:
        network = bench.network.host("another client")
        settings = {"transactional_id": "id", "max_block_ms": 2_000, "request_timeout_ms": 1_000}
        async with Producer(settings, bootstrap_servers="broker:9092", network=network, clock=bench.clock) as producer:
            await producer.init_transactions()
            bench.silent.add(EndTxnRequest)

            async def block() -> None:
                async with producer.transaction():
                    await (await producer.send("t", b"x", partition=0))
                    await asyncio.sleep(3_600)

            task = asyncio.ensure_future(block())
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            bench.silent.clear()

    transaction_bench.run(scripted_broker, work)


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
@pytest.mark.parametrize("assigned", [False, True])
def test_a_poll_raises_why_a_topic_is_refused(scripted_broker: Any, error: ErrorCode, assigned: bool) -> None:
    """It was empty for ever; and of a topic that was assigned, the metadata were asked for without a growing pause."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        refused = MetadataResponseTopic(name="t", error_code=error)
        nodes = [MetadataResponseBroker(node_id=0, host="broker", port=9092)]
        broker.handlers[MetadataRequest] = lambda _: MetadataResponse(brokers=nodes, topics=[refused])
        async with Consumer(**settings) as consumer:
            if assigned:
                consumer.assign([TopicPartition("t", 0)])
            else:
                consumer.subscribe(["t"])
            with pytest.raises(KafkaError, match=error.name):
                await consumer.getmany(PATIENCE_S * 1_000)
            broker.handlers[MetadataRequest] = lambda _: broker.metadata()
            make_coordinator(broker)
            while not broker.requests(FetchRequest):  # access is granted: it goes on by itself
                with suppress(KafkaError):
                    await consumer.getmany(1_000)
                assert len(broker.requests(MetadataRequest)) < 10

    run(scripted_broker, work)


@pytest.mark.parametrize("sends", [False, True])
def test_a_topic_that_is_refused_is_not_asked_for_each_second(scripted_broker: Any, sends: bool) -> None:
    """Nothing but its administrator mends that, and the metadata of all other topics were asked for with it."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        def metadata(request: MetadataRequest) -> MetadataResponse:
            answer: MetadataResponse = broker.metadata()
            if any(one.name == "bad" for one in request.topics or ()):
                answer.topics.append(MetadataResponseTopic(name="bad", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            return answer

        broker.handlers[MetadataRequest] = metadata
        make_coordinator(broker)
        if sends:
            async with Producer(enable_idempotence=False, **settings) as producer:
                with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                    await producer.send("bad", b"")
                await sleep_ms(settings["clock"], 20_000)
        else:
            async with Consumer("t", "bad", group_id="g", **settings) as consumer:
                with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                    await consumer.getmany(1_000)
                await consumer.getmany(20_000)
                assert consumer.assignment() == {TopicPartition("t", 0)}
        assert len(broker.requests(MetadataRequest)) <= 3

    run(scripted_broker, work)


def test_commits_go_out_in_the_order_in_which_they_were_asked_for(scripted_broker: Any) -> None:
    """Who waits for a commit overtook those that nobody waits for, and was overtaken by later ones: the group went back
    to an older offset. A commit that was given up in the line holds up nobody."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        make_coordinator(broker)
        async with Consumer(group_id="g", **settings) as consumer:
            place = TopicPartition("t", 0)
            consumer.assign([place])
            consumer.commit_later({place: 1})
            second = asyncio.ensure_future(consumer.commit({place: 2}))
            given_up = [asyncio.ensure_future(consumer.commit({place: number})) for number in (3, 4)]
            given_up[0].cancel()
            await asyncio.sleep(0)
            given_up[1].cancel()
            consumer.commit_later({place: 5})
            await consumer.commit({place: 6})
            assert second.done()
            commits = broker.requests(OffsetCommitRequest)
            assert [one.topics[0].partitions[0].committed_offset for one in commits] == [1, 2, 5, 6]

    run(scripted_broker, work)


def test_a_topic_that_was_asked_about_while_it_was_being_created_is_not_asked_for_again(scripted_broker: Any) -> None:
    """The view kept its error for ever, so that the metadata of the topics that are read were asked for each second."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        def metadata(request: MetadataRequest) -> MetadataResponse:
            answer: MetadataResponse = broker.metadata()
            if [one.name for one in request.topics or ()] == ["new"]:
                answer.topics = [MetadataResponseTopic(name="new", error_code=ErrorCode.LEADER_NOT_AVAILABLE)]
            return answer

        broker.handlers[MetadataRequest] = metadata
        make_coordinator(broker)
        async with Consumer("t", **settings) as consumer:
            await consumer.getmany(1_000)
            await consumer.describe_partitions("new")
            asked = len(broker.requests(MetadataRequest))
            consumer.engine.cluster.needs.stale()
            await consumer.getmany(20_000)
            assert len(broker.requests(MetadataRequest)) == asked + 1

    run(scripted_broker, work)


def test_a_partition_that_its_topic_does_not_have_is_asked_for_with_a_growing_pause(scripted_broker: Any) -> None:
    """The metadata were asked for ten times a second, for ever."""

    async def work(broker: Any, settings: dict[str, Any]) -> None:
        make_coordinator(broker)
        async with Consumer(auto_offset_reset="earliest", **settings) as consumer:
            consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
            await consumer.getmany(20_000)
            assert 10 < len(broker.requests(MetadataRequest)) < 30

    run(scripted_broker, work)
