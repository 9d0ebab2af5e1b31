"""An idempotent producer that repeats itself, asked of whole brokers: each batch is in the log once, and every
acknowledgement names the place where it was written first."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.usual_requests import produce_request
from odradek.testing.virtual_clock import FIRST_WALL_CLOCK_MS, VirtualClock, run_virtual
from odradek.zk_schema.znodes.cluster import PRODUCER_ID_BLOCK_PATH
from tests.sim.asking import Asking

TOPIC = "t"
PRODUCER = 7
ALL = -1
IN_FLIGHT = 5
BROKERS = 4
"""The type of a broker's settings, or of all brokers' when it has no name."""


class Client(Asking):
    """Creates the topic, and writes to whoever leads it."""

    async def create(self, replicas: int) -> None:
        controller = await self.find(lambda broker: controls(broker))
        made = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=replicas)
        response = await self.ask(controller, CreateTopicsRequest(topics=[made], timeout_ms=30_000), 7)
        assert response.topics[0].error_code == 0, response

    async def leader(self) -> EmbeddedBroker:
        return await self.find(leads)

    async def produce(self, sequence: int, timeout_ms: int = 60_000) -> PartitionProduceResponse:
        """One batch of one record whose time is known by its sequence, to whoever leads."""
        return await self.produce_to(await self.leader(), sequence, timeout_ms)

    async def produce_to(
        self, broker: EmbeddedBroker, sequence: int, timeout_ms: int = 60_000
    ) -> PartitionProduceResponse:
        batch = make_batch(producer_id=PRODUCER, sequence=sequence, timestamp_ms=time_of(sequence))
        request = produce_request(TOPIC, batch, acks=ALL, timeout_ms=timeout_ms)
        (answer,) = (await self.ask(broker, request, 9)).responses[0].partition_responses
        assert isinstance(answer, PartitionProduceResponse)
        assert answer.base_offset >= 0 or answer.error_code != 0, answer
        return answer


def time_of(sequence: int) -> int:
    return FIRST_WALL_CLOCK_MS + sequence


def controls(broker: EmbeddedBroker) -> bool:
    metadata = broker.server.services.metadata
    return bool(metadata.brokers) and metadata.controller_id == broker.broker_id


def leads(broker: EmbeddedBroker) -> bool:
    partition = broker.server.services.replicas.partitions.get((TOPIC, 0))
    return partition is not None and partition.is_leader


def with_brokers(brokers: int, scenario: Callable[[Client], Awaitable[None]], **overrides: str) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = {name.replace("_", "."): value for name, value in overrides.items()}
        async with EmbeddedCluster(clock, brokers, settings) as cluster:
            client = Client(cluster)
            await client.create(brokers)
            await scenario(client)

    run_virtual(main)


async def check_last_five(client: Client, count: int) -> None:
    """Each is acknowledged with its place and its time, the sixth is refused, the next is taken."""
    for sequence in range(count - IN_FLIGHT, count):
        again = await client.produce(sequence)
        assert (again.error_code, again.base_offset) == (0, sequence)
        assert again.log_append_time_ms == time_of(sequence)
    old = await client.produce(count - IN_FLIGHT - 1)
    assert old.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await client.produce(count)).base_offset == count


@pytest.mark.parametrize("end", ["stop", "kill", "power_failure"])
@pytest.mark.parametrize("brokers", [1, 3])
def test_the_last_five_batches_are_known_after_a_restart_and_by_a_new_leader(brokers: int, end: str) -> None:
    async def scenario(client: Client) -> None:
        for sequence in range(8):
            assert (await client.produce(sequence)).base_offset == sequence
        leader = await client.leader()
        if end == "stop":
            await leader.stop()
        elif end == "kill":
            leader.kill()
        else:
            leader.server.services.replicas.led(
                TOPIC, 0
            ).log.flush()  # of what one broker alone had nothing is promised
            leader.power_failure()
        if brokers == 1:
            await leader.start()
        await check_last_five(client, 8)

    with_brokers(brokers, scenario)


def test_what_is_repeated_while_it_waits_for_replicas_waits_too_and_gets_its_place() -> None:
    """With acks=all a batch that is already in the leader's log is not acknowledged before it is replicated."""

    async def scenario(client: Client) -> None:
        leader = await client.leader()
        await client.produce(0)
        (follower,) = [broker for broker in client.cluster.brokers if broker is not leader]
        client.cluster.network.cut(leader.host, follower.host)
        timed_out = await client.produce(1, timeout_ms=500)
        assert (timed_out.error_code, timed_out.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 1), "as Kafka tells it"
        timed_out = await client.produce(1, timeout_ms=500)
        assert timed_out.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert leader.server.services.replicas.led(TOPIC, 0).log.log_end_offset == 2
        again, following = await asyncio.gather(client.produce(1), client.produce(2))  # until the ISR has shrunk
        assert [again.base_offset, following.base_offset] == [1, 2]

    with_brokers(2, scenario)


def test_a_leader_that_lost_its_session_in_between_gives_the_place_of_the_first_time() -> None:
    """Its ZooKeeper is away for longer than the session: what was appended is refused, repeated, and found. A producer
    that pipelines may hear of the second batch first: librdkafka then reports the first without an offset."""

    async def scenario(client: Client) -> None:
        (leader,) = client.cluster.brokers
        await client.produce(0)
        store = leader.store
        client.cluster.zookeeper.partition(store)
        while leads(leader):
            await asyncio.sleep(0.1)
        refused = await client.produce_to(leader, 1)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await client.produce_to(leader, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        client.cluster.zookeeper.heal(store)
        assert [(await client.produce(sequence)).base_offset for sequence in (0, 1, 2, 1, 0)] == [0, 1, 2, 1, 0]

    with_brokers(1, scenario)


def test_a_new_leader_knows_what_was_aborted_and_what_is_open() -> None:
    """Followers keep transactions as the leader does; their indexes are the same to the byte."""

    async def scenario(client: Client) -> None:
        leader = await client.leader()
        await client.produce(0)

        def write(producer_id: int) -> None:
            replicas = leader.server.services.replicas
            replicas.append(replicas.led(TOPIC, 0), make_batch(producer_id=producer_id, transactional=True), ALL)

        async def abort(broker: EmbeddedBroker, producer_id: int) -> int:
            topics = [WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])]
            marker = WritableTxnMarker(producer_id=producer_id, topics=topics)
            response = await client.ask(broker, WriteTxnMarkersRequest(markers=[marker]), 1)
            return int(response.markers[0].topics[0].partitions[0].error_code)

        for producer_id in (20, 21, 22):
            write(producer_id)
        assert await abort(leader, 20) == await abort(leader, 22) == 0
        leader.kill()
        new = await client.leader()
        assert (await client.produce(1)).base_offset == 6
        log = new.server.services.replicas.led(TOPIC, 0).log
        assert log.last_stable_offset(7) == 2
        assert [one[:3] for one in log.aborted_transactions(0, 7)] == [(20, 1, 4), (22, 3, 5)]
        assert await abort(new, 21) == 0
        assert log.last_stable_offset(8) == 8
        await leader.start()
        partitions = leader.server.services.replicas.partitions
        while (TOPIC, 0) not in partitions or partitions[(TOPIC, 0)].log.log_end_offset < 8:
            await asyncio.sleep(0.1)
        indexes = [broker.files.read(f"/data/{TOPIC}-0/{0:020d}.txnindex") for broker in client.cluster.brokers]
        assert indexes == [indexes[0]] * 3 and len(indexes[0]) == 3 * 34

    with_brokers(3, scenario)


def test_how_long_a_silent_producer_is_remembered_may_be_changed_while_brokers_run() -> None:
    """`producer.id.expiration.ms`, looked at every `producer.id.expiration.check.interval.ms`."""

    async def scenario(client: Client) -> None:
        (leader,) = client.cluster.brokers
        await client.produce(0)
        await asyncio.sleep(3600)
        assert (await client.produce(5)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        change = AlterableConfig(name="producer.id.expiration.ms", config_operation=0, value="60000")
        resource = AlterConfigsResource(resource_type=BROKERS, resource_name="", configs=[change])
        response = await client.ask(leader, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert response.responses[0].error_code == 0, response
        await asyncio.sleep(601)
        assert (await client.produce(5)).base_offset == 1

    with_brokers(1, scenario)


def test_producer_ids_are_handed_out_once_whoever_stops_or_fails() -> None:
    """Restarts in the middle of a block, a controller that is killed, an answer of the controller that gets lost."""

    async def scenario(client: Client) -> None:
        seen: list[int] = []
        refused = 0

        async def ask_all() -> None:
            nonlocal refused
            for broker in client.cluster.brokers:
                for _ in range(2):
                    response = await client.ask(broker, InitProducerIdRequest(transactional_id=None), 4)
                    if response.error_code:
                        assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, response
                        refused += 1
                    else:
                        seen.append(response.producer_id)

        await ask_all()
        assert sorted(seen) == [0, 1, 1000, 1001, 2000, 2001]
        controller = await client.find(controls)
        controller.kill()
        await controller.start()
        await client.find(controls)
        await ask_all()
        for broker in client.cluster.brokers:
            await broker.stop()
            await broker.start()
        await client.find(controls)
        await ask_all()
        assert len(set(seen)) == len(seen) >= 14
        data, _ = await client.cluster.brokers[0].store.get(PRODUCER_ID_BLOCK_PATH)
        first = max(seen) // 1000 * 1000
        said = b'{"version":1,"broker":%d,"block_start":"%d","block_end":"%d"}'
        assert data in [said % (broker, first, first + 999) for broker in range(3)]

    with_brokers(3, scenario)
