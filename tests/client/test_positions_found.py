"""Positions of a consumer that begins: what one leader answers counts at once, whatever keeps the others."""

import asyncio
from typing import Any

import pytest

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.values import NewTopic
from odradek.client.errors import ClientTimeout, NoOffsetForPartition
from odradek.client.records import ConsumerGroupMetadata, OffsetAndTimestamp, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.testing import run
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from tests.client.group_of_one import T0, make_coordinator

WAIT_MS = 10_000


@pytest.mark.parametrize("group_id", [None, "g"])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_partition_without_a_leader_keeps_nobody_from_reading_the_others(group_id: str | None, frozen: bool) -> None:
    """A consumer that began while one partition was offline, or its leader frozen, read nothing at all for ever: the
    offsets of all were awaited, for a minute, and those that were known by then dropped."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 3) as cluster:
            world: dict[str, Any] = {
                "bootstrap_servers": "broker-0:9092,broker-1:9092",
                "network": cluster.network.host("client"),
                "clock": clock,
            }
            async with Admin(**world) as admin:
                offsets = NewTopic("__consumer_offsets", replica_assignments={0: [0]})
                await admin.create_topics([NewTopic("t", replica_assignments={0: [0], 1: [1], 2: [2]}), offsets])
            async with Producer(**world) as producer:
                for partition in range(3):
                    await (await producer.send("t", b"", partition=partition))
            if frozen:
                cluster.brokers[2].suspend()
            else:
                await cluster.brokers[2].stop()
            read: set[int] = set()
            async with Consumer("t", auto_offset_reset="earliest", group_id=group_id, **world) as consumer:
                end_ms = clock.monotonic_ms() + WAIT_MS
                while len(read) < 2 and clock.monotonic_ms() < end_ms:
                    read |= {tp.partition for tp in await consumer.getmany(1_000)}
            assert read == {0, 1}
            cluster.brokers[2].resume()

    run_virtual(main)


def test_partitions_that_are_sought_do_not_keep_those_that_are_committed() -> None:
    """Those without a leader were looked up first, and what the group had committed of the others after a minute."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            world: dict[str, Any] = {
                "bootstrap_servers": "broker-0:9092",
                "network": cluster.network.host("client"),
                "clock": clock,
            }
            async with Admin(**world) as admin:
                offsets = NewTopic("__consumer_offsets", replica_assignments={0: [0]})
                await admin.create_topics([NewTopic("t", replica_assignments={0: [0], 1: [1]}), offsets])
            async with Producer(**world) as producer:
                await (await producer.send("t", b"", partition=0))
            await cluster.brokers[1].stop()
            async with Consumer(auto_offset_reset="earliest", group_id="g", **world) as consumer:
                there, away = TopicPartition("t", 0), TopicPartition("t", 1)
                consumer.assign([there, away])
                consumer.seek_to_beginning(away)
                assert list(await consumer.getmany(WAIT_MS)) == [there]

    run_virtual(main)


def test_a_member_asks_for_its_offsets_where_it_has_joined(scripted_broker: Any) -> None:
    """It looked the coordinator up again, and could be sent to one that had been deposed and had not heard of it: it
    began where the group had been before."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker, deposed = scripted_broker(network), scripted_broker(network, name="deposed")
        make_coordinator(broker)
        make_coordinator(deposed)
        place = Coordinator(key="g", node_id=1, host="deposed", port=9092)
        refused = iter([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE])

        def join(request: JoinGroupRequest) -> JoinGroupResponse:
            broker.handlers[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(coordinators=[place])
            return JoinGroupResponse(generation_id=1, member_id="me", leader="other", protocol_name="range")

        def committed(request: OffsetFetchRequest) -> OffsetFetchResponse:
            group = OffsetFetchResponseGroup(group_id="g", error_code=next(refused, ErrorCode.NONE))
            one = OffsetFetchResponsePartitions(partition_index=0, committed_offset=7)
            group.topics = [OffsetFetchResponseTopics(name="t", partitions=[one])]
            return OffsetFetchResponse(groups=[group])

        broker.handlers |= {JoinGroupRequest: join, OffsetFetchRequest: committed}
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Consumer("t", group_id="g", enable_auto_commit=False, **world) as consumer:
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=100)
            assert await consumer.position(T0) == 7
            assert await consumer.committed(T0) == 7
            assert not deposed.requests(OffsetFetchRequest)
            broker.handlers[OffsetFetchRequest] = lambda _: OffsetFetchResponse(
                groups=[OffsetFetchResponseGroup(group_id="g", error_code=ErrorCode.NOT_COORDINATOR)]
            )
            assert await consumer.committed(T0) is None, "it asks the one that is named now"
            assert deposed.requests(OffsetFetchRequest)

    run_virtual(main)


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_consumer_without_a_committed_offset_begins_without_a_pause(
    group_id: str | None, scripted_broker: Any
) -> None:
    """That nothing was committed counted as a look-up in vain: each start took retry.backoff.ms longer, and a seek
    while a position was looked up, too."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        make_coordinator(broker)
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Consumer(
            auto_offset_reset="earliest", retry_backoff_ms=1_000, group_id=group_id, **world
        ) as consumer:
            await consumer.partitions_for_topic("t")
            begin_ms = clock.monotonic_ms()
            consumer.assign([T0])
            assert await consumer.position(T0) == 3
            list_offsets = broker.handlers[ListOffsetsRequest]
            asked = asyncio.Event()

            def seek(request: ListOffsetsRequest) -> ListOffsetsResponse:
                broker.handlers[ListOffsetsRequest] = list_offsets
                consumer.seek_to_end(T0)
                asked.set()
                return list_offsets(request)

            broker.handlers[ListOffsetsRequest] = seek
            consumer.seek_to_beginning(T0)
            await asked.wait()
            assert await consumer.position(T0) == 3
            assert [one.topics[0].partitions[0].timestamp for one in broker.requests(ListOffsetsRequest)] == [
                -2,
                -2,
                -1,
            ]
            assert clock.monotonic_ms() - begin_ms < 500

    run_virtual(main)


def test_who_seeks_does_not_wait_for_a_partition_without_a_leader() -> None:
    """One look-up for all went on for a minute, and what was sought meanwhile was not looked up before its end."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            world: dict[str, Any] = {
                "bootstrap_servers": "broker-0:9092",
                "network": cluster.network.host("client"),
                "clock": clock,
            }
            async with Admin(**world) as admin:
                await admin.create_topics([NewTopic("t", replica_assignments={0: [0], 1: [1]})])
            async with Producer(**world) as producer:
                await (await producer.send("t", b"", partition=0))
            await cluster.brokers[1].stop()
            async with Consumer(auto_offset_reset="earliest", **world) as consumer:
                there, away = TopicPartition("t", 0), TopicPartition("t", 1)
                consumer.assign([there, away])
                for _ in range(2):
                    assert list(await consumer.getmany(WAIT_MS)) == [there]
                    consumer.seek_to_beginning(there)

    run_virtual(main)


def test_a_partition_that_is_refused_does_not_keep_those_after_it_in_the_answer(scripted_broker: Any) -> None:
    """What the leader said of the others was dropped, each time again."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network, topics={"s": 1, "t": 1})
        refused = ListOffsetsPartitionResponse(
            partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, offset=-1
        )
        broker.handlers[ListOffsetsRequest] = lambda _: ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(name="s", partitions=[refused]),
                ListOffsetsTopicResponse(name="t", partitions=[ListOffsetsPartitionResponse(offset=7)]),
            ]
        )
        broker.handlers[FetchRequest] = lambda _: None
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Consumer(auto_offset_reset="earliest", **world) as consumer:
            consumer.assign([TopicPartition("s", 0), TopicPartition("t", 0)])
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                await consumer.getmany(WAIT_MS)
            assert await consumer.position(TopicPartition("t", 0)) == 7

    run_virtual(main)


def test_a_topic_that_is_deleted_does_not_keep_a_group_from_reading_the_others() -> None:
    """The automatic commit before the rebalance was repeated for a minute, as the coordinator did not know the topic:
    until then, nothing was read."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            world: dict[str, Any] = {
                "bootstrap_servers": "broker-0:9092",
                "network": cluster.network.host("client"),
                "clock": clock,
            }
            async with Admin(**world) as admin, Producer(**world) as producer:
                await admin.create_topics([NewTopic("stays", 1, 1), NewTopic("goes", 1, 1)])
                for topic in ("stays", "goes"):
                    await (await producer.send(topic, b""))
                settings: dict[str, Any] = {"auto_offset_reset": "earliest", "allow_auto_create_topics": False}
                async with Consumer("stays", "goes", group_id="g", **settings, **world) as consumer:
                    read: set[str] = set()
                    while len(read) < 2:
                        read |= {tp.topic for tp in await consumer.getmany(WAIT_MS)}
                    await admin.delete_topics(["goes"])
                    begin_ms = clock.monotonic_ms()
                    while {tp.topic for tp in consumer.assignment()} != {"stays"}:
                        consumer.engine.cluster.needs.stale()
                        await consumer.getmany(1_000)
                    assert clock.monotonic_ms() - begin_ms < WAIT_MS
                    assert await consumer.committed(TopicPartition("stays", 0)) == 1

    run_virtual(main)


def test_who_reads_a_pattern_does_not_ask_for_a_topic_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    """The group's leader, which had counted the topic's partitions, asked for the metadata of all topics each second,
    for ever, and logged that somebody should create it."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            world: dict[str, Any] = {
                "bootstrap_servers": "broker-0:9092",
                "network": cluster.network.host("client"),
                "clock": clock,
            }
            async with Admin(**world) as admin:
                await admin.create_topics([NewTopic("stays", 1, 1), NewTopic("goes", 1, 1)])
                settings: dict[str, Any] = {"group_id": "g", "metadata_max_age_ms": WAIT_MS}
                async with Consumer(**settings, **world) as consumer:
                    consumer.subscribe(pattern="stays|goes")
                    while len(consumer.assignment()) < 2:
                        await consumer.getmany(100)
                    await admin.delete_topics(["goes"])
                    while len(consumer.assignment()) > 1:
                        await consumer.getmany(100)
                    await consumer.getmany(WAIT_MS)
                    caplog.clear()
                    needs, ages = consumer.engine.cluster.needs, []
                    for _ in range(WAIT_MS // 1_000):
                        await consumer.getmany(1_000)
                        ages.append(needs.age_ms(clock.monotonic_ms()))
                    assert max(ages) > WAIT_MS / 2
                    assert "does not have it" not in caplog.text

    run_virtual(main)


def test_an_open_transaction_holds_back_only_the_partition_whose_offset_it_commits() -> None:
    """Nothing was read of any partition until the transaction of a member that had died was aborted."""

    async def main(cluster: Any) -> None:
        settings = {"bootstrap_servers": cluster.bootstrap}
        held, free = TopicPartition("t", 0), TopicPartition("t", 1)
        async with Producer(**settings) as producer:
            for place in held, free:
                for _ in range(2):
                    await producer.send("t", b"", partition=place.partition)
        async with Producer(transactional_id="x", **settings) as committing:
            await committing.init_transactions()
            await committing.begin_transaction()
            await committing.send_offsets_to_transaction({held: 1}, ConsumerGroupMetadata("g"))
            async with Consumer(group_id="g", auto_offset_reset="earliest", **settings) as consumer:
                consumer.assign([held, free])
                records = await consumer.getmany(5_000)
                assert {place: [one.offset for one in some] for place, some in records.items()} == {free: [0, 1]}
                assert await consumer.getmany(1_000) == {}
                await committing.commit_transaction()
                records = await consumer.getmany(5_000)
                assert {place: [one.offset for one in some] for place, some in records.items()} == {held: [1]}

    run(main, brokers=1, topics={"t": 2}, seed=7)


@pytest.mark.parametrize("seeks", [False, True])
def test_an_error_about_a_place_is_raised_no_more_when_another_is_sought(seeks: bool) -> None:
    """Who looked for the right offset for longer than a moment got the error again behind the seek; and it did not say
    which partition it was about."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for partition in (0, 1):
                await producer.send("t", b"%d" % partition, partition=partition)
        async with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([T0])
            with pytest.raises(NoOffsetForPartition) as raised:
                await consumer.getmany(10_000)
            where = TopicPartition(raised.value.topic or "", raised.value.partition or 0)
            assert where == T0
            await asyncio.sleep(5)  # it is looked for again meanwhile
            if not seeks:
                where = TopicPartition("t", 1)
                consumer.assign([where])
            consumer.seek(where, 0)
            assert list(await consumer.getmany(10_000)) == [where]

    run(main, brokers=1, topics={"t": 2}, seed=7)


@pytest.mark.parametrize("group_id", [None, "g"])
def test_who_reads_a_pattern_is_told_which_topics_match_it(group_id: str | None) -> None:
    """A consumer without a group was told of none."""

    async def main(cluster: Any) -> None:
        async with Consumer(bootstrap_servers=cluster.bootstrap, group_id=group_id) as consumer:
            consumer.subscribe(pattern="r.*")
            await consumer.getmany(10_000)
            assert consumer.subscription() == {"red", "rose"}
            await consumer.unsubscribe()
            assert consumer.subscription() == set()

    run(main, brokers=1, topics={"red": 1, "rose": 1, "blue": 1}, seed=7)


@pytest.mark.parametrize("pattern", [None, "t"])
def test_an_error_of_a_topics_metadata_that_passes_is_over_soon(pattern: str | None) -> None:
    """The consumer said it once, and read nothing for the five minutes of metadata.max.age.ms."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            await (await producer.send("t", b"x"))
        async with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            await cluster.respond("Metadata", "UNKNOWN_SERVER_ERROR", topic=None if pattern else "t")
            consumer.subscribe(() if pattern else ["t"], pattern=pattern)
            if pattern is None:
                with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR: topic t"):
                    await consumer.getmany(10_000)
            assert await consumer.getmany(10_000)

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_who_waits_for_a_position_in_vain_is_told_why() -> None:
    """That it was not found was all."""

    async def main(cluster: Any) -> None:
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
        async with Consumer(**settings, allow_auto_create_topics=False) as consumer:
            nowhere = TopicPartition("nowhere", 0)
            consumer.assign([nowhere, T0])
            with pytest.raises(ClientTimeout, match="; last: LEADER_NOT_AVAILABLE: nowhere-0: the topic is not known"):
                await consumer.position(nowhere, 2_000)
            await cluster.respond("ListOffsets", "OFFSET_NOT_AVAILABLE", times=None)
            consumer.seek_to_end(T0)
            with pytest.raises(ClientTimeout, match="; last: OFFSET_NOT_AVAILABLE: t-0"):
                await consumer.position(T0, 2_000)

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_a_partition_whose_messages_have_no_timestamps_has_none_at_or_after_a_time(scripted_broker: Any) -> None:
    """A broker says so of a topic with message.format.version=0.9, and the offsets of the other partitions were not
    returned either; Kafka's consumer returns null for it."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network, topics={"t": 2})

        def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
            code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            old = ListOffsetsPartitionResponse(partition_index=0, error_code=code)
            new = ListOffsetsPartitionResponse(partition_index=1, offset=7, timestamp=5)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[old, new])])

        broker.handlers[ListOffsetsRequest] = offsets
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Consumer(**world) as consumer:
            found = await consumer.offsets_for_times({T0: 5, TopicPartition("t", 1): 5})
        assert found == {T0: None, TopicPartition("t", 1): OffsetAndTimestamp(7, 5)}

    run_virtual(main)


def test_a_leader_is_asked_for_offsets_in_the_epoch_in_which_it_leads(scripted_broker: Any) -> None:
    """A broker that does not know yet that it was deposed, or that it leads anew, answered out of its old log
    (KIP-320)."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)

        def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
            one = ListOffsetsPartitionResponse(partition_index=0, offset=7, timestamp=5)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])

        broker.handlers[ListOffsetsRequest] = offsets
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Consumer(**world) as consumer:
            consumer.assign([T0])
            assert await consumer.position(T0) == 7
            await consumer.end_offsets([T0])
            await consumer.offsets_for_times({T0: 5})
        async with Admin(**world) as admin:
            await admin.list_offsets({T0: 5})  # it also asks about brokers that are behind
        epochs = [one.topics[0].partitions[0].current_leader_epoch for one in broker.requests(ListOffsetsRequest)]
        assert epochs == [1, 1, 1, -1]

    run_virtual(main)
