"""Clients with quotas on whole brokers, on virtual time: how fast they are, and who else notices."""

import asyncio
import os
from typing import Any

import pytest

from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.broker.quotas.client_quotas import QuotaType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.usual_requests import produce_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from odradek.zk_schema.entity_settings import change_entity, stored_settings

RATE, SECONDS, BATCH_BYTES = 200_000, 60, 4_000


class User:
    """One client id, on connections of its own."""

    def __init__(self, cluster: EmbeddedCluster, client_id: str, host: str = "client") -> None:
        self.cluster = cluster
        self.peer = Peer(cluster.network.host(host), cluster.clock, "broker-0", cluster.port, client_id)

    async def ask(self, request: Message, version: int) -> Any:
        return await self.peer.request(request, version, 120_000)

    async def create(self, *topics: str, partitions: int = 1) -> Any:
        made = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in topics]
        return await self.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000), 6)

    async def produce(self, topic: str, size: int = BATCH_BYTES, acks: int = 1) -> Any:
        return await self.ask(produce_request(topic, bytes(make_batch([os.urandom(size)])), acks=acks), 9)

    async def fetch(self, topic: str, offset: int) -> Any:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=BATCH_BYTES)
        wanted = [FetchTopic(topic=topic, partitions=[partition])]
        request = FetchRequest(replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=BATCH_BYTES, session_epoch=-1,
                               topics=wanted)  # fmt: skip
        return await self.ask(request, 11)

    async def set_quota(self, key: str, value: float | None, **entity: str | None) -> None:
        named = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
        change = OpData(key=key, value=value or 0.0, remove=value is None)
        entry = EntryData(entity=named, ops=[change])
        answer = await self.ask(AlterClientQuotasRequest(entries=[entry]), 1)
        assert answer.entries[0].error_code == 0, answer
        await asyncio.sleep(1)


def travel_time(cluster: EmbeddedCluster, milliseconds: float) -> None:
    """How long everything takes on its way."""
    assert isinstance(cluster.network, VirtualNetwork)
    cluster.network.latency_ms = (milliseconds, milliseconds)


async def produced(user: User, topic: str, seconds: float) -> tuple[int, int]:
    """Bytes and requests of somebody who sends all the time, for so long."""
    count, end_ms = 0, user.cluster.clock.monotonic_ms() + seconds * 1000
    while user.cluster.clock.monotonic_ms() < end_ms:
        await user.produce(topic)
        count += 1
    return count * BATCH_BYTES, count


async def consumed(user: User, topic: str, seconds: float) -> int:
    """Bytes that somebody gets who reads the same again and again, for so long."""
    total, end_ms = 0, user.cluster.clock.monotonic_ms() + seconds * 1000
    while user.cluster.clock.monotonic_ms() < end_ms:
        answer = await user.fetch(topic, 0)
        total += len(answer.responses[0].partitions[0].records)
    return total


async def small_requests(user: User, seconds: float) -> int:
    """How many somebody gets answered who asks all the time, for so long."""
    count, end_ms = 0, user.cluster.clock.monotonic_ms() + seconds * 1000
    while user.cluster.clock.monotonic_ms() < end_ms:
        await user.ask(HeartbeatRequest(group_id="g", member_id="m", generation_id=1), 4)
        count += 1
    return count


def test_a_producer_and_a_consumer_are_as_fast_as_they_may_and_nobody_else_waits() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock) as cluster:
            travel_time(cluster, 4.0)
            free, slow = User(cluster, "free"), User(cluster, "slow")
            await free.create("t", "u")
            alone = await small_requests(free, 2)
            await free.set_quota("producer_byte_rate", RATE, client_id="slow")
            await free.set_quota("consumer_byte_rate", RATE, user="ANONYMOUS", client_id="slow")
            await free.produce("u")
            (written, _), read, beside = await asyncio.gather(
                produced(slow, "t", SECONDS),
                consumed(User(cluster, "slow"), "u", SECONDS),
                small_requests(User(cluster, "free"), 4),
            )
            assert written == pytest.approx(RATE * SECONDS, rel=0.05)
            assert read == pytest.approx(RATE * SECONDS, rel=0.05)
            assert beside >= 0.9 * alone * 4 / 2

    run_virtual(main)


def test_the_answer_comes_first_and_the_next_request_waits() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock) as cluster:
            free, slow = User(cluster, "free"), User(cluster, "slow")
            await free.create("t")
            await free.set_quota("producer_byte_rate", 1000, client_id="slow")
            began_ms = clock.monotonic_ms()
            answer = await slow.produce("t", 12_000)
            assert answer.throttle_time_ms == pytest.approx(2000, rel=0.1)
            assert clock.monotonic_ms() - began_ms < 100
            await slow.produce("t", 10)
            assert clock.monotonic_ms() - began_ms == pytest.approx(answer.throttle_time_ms, rel=0.05)
            await free.set_quota("producer_byte_rate", None, client_id="slow")
            assert (await slow.produce("t", 100_000)).throttle_time_ms == 0

    run_virtual(main)


def test_the_time_of_the_loop_is_shared_out() -> None:
    """Each request takes 20 ms of it: at 10 %, five of them a second."""

    async def main(clock: VirtualClock) -> None:
        cluster = EmbeddedCluster(clock)
        worked = [0.0]

        def processor_ms() -> float:
            worked[0] += 20.0
            return worked[0]

        cluster.brokers[0].processor_ms = processor_ms
        async with cluster:
            travel_time(cluster, 10.0)
            free, slow = User(cluster, "free"), User(cluster, "slow")
            await free.set_quota("request_percentage", 10, user="ANONYMOUS", client_id="slow")
            answered = await small_requests(slow, SECONDS)
            assert answered == pytest.approx(5 * SECONDS, rel=0.15)
            assert await small_requests(free, 1) > 40

    run_virtual(main)


def test_topics_are_made_at_a_rate() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock) as cluster:
            free, slow = User(cluster, "free"), User(cluster, "slow")
            await free.set_quota("controller_mutation_rate", 1, client_id="slow")
            answer = await slow.create("a", "b", "c", partitions=6)
            assert [one.error_code for one in answer.topics] == [0, 0, 89]
            assert answer.throttle_time_ms == pytest.approx(1000, abs=100)
            more = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="a", count=16, assignments=None)], timeout_ms=10_000
            )
            began_ms = clock.monotonic_ms()
            assert (await slow.ask(more, 2)).results[0].error_code == 0
            assert clock.monotonic_ms() - began_ms == pytest.approx(1000, abs=200)
            assert [one.error_code for one in (await free.create("d", partitions=50)).topics] == [0]

    run_virtual(main)


def test_connections_of_an_address_come_at_a_rate() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock) as cluster:
            free = User(cluster, "free")
            await free.set_quota("connection_creation_rate", 1, ip="10.0.0.1")

            async def served(host: str) -> bool:
                try:
                    return await small_requests(User(cluster, "c", host), 0.001) > 0
                except BrokerUnreachable:
                    return False

            assert [await served("10.0.0.1") for _ in range(12)].count(True) == pytest.approx(11, abs=1)
            assert not await served("10.0.0.1")
            assert await served("10.0.0.2")

    run_virtual(main)


def test_quotas_are_shown_as_they_are_set() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock) as cluster:
            user = User(cluster, "c")
            await user.set_quota("request_percentage", 12.5, user="ann@x", client_id=None)
            await user.set_quota("producer_byte_rate", 7, user="ann@x")
            await user.set_quota("producer_byte_rate", 8, client_id="c 1")
            await user.set_quota("connection_creation_rate", 9, ip=None)

            async def shown(strict: bool, **components: str | None) -> list[dict[str | None, Any]]:
                kinds = {"ANY": 2, None: 1}
                asked = [
                    ComponentData(entity_type=kind.replace("_", "-"), match_type=kinds.get(name, 0),
                                  match=name if name != "ANY" else None)
                    for kind, name in components.items()
                ]  # fmt: skip
                answer = await user.ask(DescribeClientQuotasRequest(components=asked, strict=strict), 1)
                assert answer.error_code == 0, answer
                return [
                    {one.entity_type: one.entity_name for one in entry.entity}
                    | {one.key: one.value for one in entry.values}
                    for entry in answer.entries
                ]

            both = {"user": "ann@x", "client-id": None, "request_percentage": 12.5}
            alone = {"user": "ann@x", "producer_byte_rate": 7.0}
            client = {"client-id": "c 1", "producer_byte_rate": 8.0}
            address = {"ip": None, "connection_creation_rate": 9.0}
            assert await shown(False) == [alone, both, client, address]
            assert await shown(True, user="ANY") == [alone]
            assert await shown(False, user="ANY") == [alone, both]
            assert await shown(True, user="ann@x", client_id=None) == [both]
            assert await shown(True, client_id="c 1") == [client]
            assert await shown(True, ip=None) == [address]
            assert await shown(False, user="nobody") == []
            store = cluster.brokers[0].server.services.zookeeper
            await change_entity(store, "clients/c2", {"producer_byte_rate": "fast", "consumer_byte_rate": "10"})
            damaged = {"client-id": "c2", "consumer_byte_rate": 10.0}
            assert await shown(True, client_id="ANY") == [client, damaged], "what is no number is passed over"

    run_virtual(main)


@pytest.mark.parametrize(
    ("entity", "key", "value", "error"),
    [
        ({"user": ""}, "producer_byte_rate", 1, "Empty user not supported"),
        ({"group": "g"}, "producer_byte_rate", 1, "Unhandled client quota entity type: group"),
        ({"user": "u", "ip": "10.0.0.1"}, "producer_byte_rate", 1, "should not be used with"),
        ({"ip": "nowhere"}, "connection_creation_rate", 1, "not a valid IP"),
        ({"ip": "10.0.0.1"}, "connection_creation_rate", -1, "Value must be at least 0"),
        ({"user": "u"}, "connection_creation_rate", 1, "Invalid configuration key"),
        ({"user": "u"}, "producer_byte_rate", 1.5, "must be a LONG value"),
        ({"user": "u"}, "producer_byte_rate", 1e19, "must be a LONG value"),
        ({"user": "u"}, "producer_byte_rate", float("nan"), "must be a LONG value"),
        ({"user": "u"}, "producer_byte_rate", float("inf"), "must be a LONG value"),
        ({"ip": "10.0.0.1"}, "connection_creation_rate", 2.0**31, "must be a INT value"),
        ({}, "producer_byte_rate", 1, "empty client quota entity"),
    ],
)
def test_quotas_that_cannot_be(entity: dict[str, str], key: str, value: float, error: str) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock) as cluster:
            named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
            entry = EntryData(entity=named, ops=[OpData(key=key, value=value)])
            [answer] = (await User(cluster, "c").ask(AlterClientQuotasRequest(entries=[entry]), 1)).entries
            assert answer.error_code == 42 and error in answer.error_message
            assert [one.entity_type for one in answer.entity] == list(entity)

    run_virtual(main)


def test_the_largest_number_of_java_is_a_quota() -> None:
    """Clients set Long.MAX_VALUE for "unlimited"; as a double it is one more than that."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock) as cluster:
            await User(cluster, "c").set_quota("producer_byte_rate", 2.0**63, user="u")
            store = cluster.brokers[0].server.services.zookeeper
            assert await stored_settings(store, "users/u") == {"producer_byte_rate": str(2**63 - 1)}

    run_virtual(main)


BY_HAND = ("Infinity", "-Infinity", "NaN", "-1", "1e400", "9" * 400, "5e-324", "0x10", "")


@pytest.mark.parametrize("number", [11, 1])
def test_whatever_is_written_into_zookeeper_by_hand_requests_are_answered(number: int) -> None:
    """AlterClientQuotas refuses some of these; kafka-configs.sh with --zookeeper, or zkCli, does not."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, {"quota.window.num": str(number)}) as cluster:
            store = cluster.brokers[0].store
            await change_entity(store, "ips/<default>", {"connection_creation_rate": "Infinity"})
            await User(cluster, "maker").create("t")
            for count, value in enumerate(BY_HAND):
                name = f"client-{count}"
                await change_entity(store, f"clients/{name}", {kind.value: value for kind in QuotaType})
                await asyncio.sleep(0.1)
                produced = await User(cluster, name).produce("t")
                assert produced.responses[0].partition_responses[0].error_code == 0, value
                fetched = await User(cluster, name).fetch("t", 0)
                assert fetched.responses[0].partitions[0].error_code == 0, value
                made = await User(cluster, name).create(f"of-{name}")
                assert made.topics[0].error_code in (0, ErrorCode.THROTTLING_QUOTA_EXCEEDED), value
                shown = await User(cluster, name).ask(DescribeClientQuotasRequest(components=[], strict=False), 1)
                assert shown.error_code == 0, value

    run_virtual(main)
