"""Settings and parameters that change what a call does, each given another value than its default."""

from functools import partial
from typing import Any

from odradek.client.admin.values import ConfigResource, NewPartitions, OffsetSpec, ProducerState
from odradek.client.errors import ConfigError
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.client_contract.worlds import ContractWorld, raises, read

READ_COMMITTED = 1
DEFAULT_RETENTION_MS = "604800000"


async def check_serializers_and_partitions_without_keys(world: ContractWorld) -> None:
    topic = await world.topic(partitions=8)
    given: dict[str, Any] = {"key_serializer": str.encode, "value_serializer": str.encode}
    by_key = await world.producer(**given)
    sent = [await by_key.send(topic, "v", key="one") for _ in range(10)]
    assert len({(await one).partition for one in sent}) == 1
    without = await world.producer(**given, partitioner_ignore_keys=True, partitioner="round_robin")
    sent = [await without.send(topic, "v", key="one") for _ in range(16)]
    assert {(await one).partition for one in sent} == set(range(8))
    consumer = await world.consumer(key_deserializer=bytes.decode, value_deserializer=bytes.decode)
    consumer.subscribe([topic])
    record = await consumer.getone()
    assert (record.key, record.value) == ("one", "v")
    await raises(TypeError, lambda: by_key.send(topic, "v", key=1))  # what the function itself raises
    assert (await (await by_key.send(topic, "still there", key="two"))).offset >= 0


async def check_how_much_a_poll_brings(world: ContractWorld) -> None:
    topic = await world.topic(values=20)
    few = await world.consumer(max_poll_records=3)
    few.assign([TopicPartition(topic, 0)])
    sizes = [sum(map(len, (await few.getmany(5_000)).values())) for _ in range(4)]
    assert sizes == [3, 3, 3, 3] and await few.position(TopicPartition(topic, 0)) == 12
    small = await world.consumer(fetch_max_bytes=1, max_partition_fetch_bytes=1)  # a batch comes whole all the same
    small.assign([TopicPartition(topic, 0)])
    assert await read(small, 20) == [b"%d" % number for number in range(20)]
    patient = await world.consumer(fetch_min_bytes=1_000_000, fetch_max_wait_ms=300)  # it waits, and comes then
    patient.assign([TopicPartition(topic, 0)])
    assert await patient.getmany(1) == {}
    assert await read(patient, 20) == [b"%d" % number for number in range(20)]


async def check_what_is_committed_when_closing(world: ContractWorld) -> None:
    topic = await world.topic(values=5)
    where, told = TopicPartition(topic, 0), list[Any]()
    asking = await world.consumer(group_id=topic)
    for autocommit, committed in ((False, None), (True, 5)):
        callback = lambda offsets, error: told.append((offsets, error))  # noqa: E731
        consumer = await world.consumer(group_id=topic, default_offset_commit_callback=callback)
        consumer.subscribe([topic])
        assert len(await read(consumer, 5)) == 5
        await consumer.close(autocommit=autocommit)
        assert await asking.committed(where, timeout_ms=30_000) == committed
    assert told == [], "one who waits for a commit needs no callback"
    consumer = await world.consumer(group_id=topic, default_offset_commit_callback=callback, enable_auto_commit=False)
    consumer.subscribe([topic])
    await world.until(partial(joined, consumer), "an assignment")
    consumer.commit_later({where: 2})
    consumer.commit_later({where: 5}, lambda offsets, error: None)
    await consumer.close()
    assert [(offsets[where].offset, error) for offsets, error in told] == [(2, None)]
    await raises(ConfigError, lambda: world.consumer(group_id=topic, default_offset_commit_callback="told"))
    assert (await asking.committed_offsets(where, timeout_ms=30_000))[where].offset == 5
    assert await asking.beginning_offsets([where], timeout_ms=30_000) == {where: 0}
    found = await asking.offsets_for_times({where: 0}, timeout_ms=30_000)
    assert found[where].offset == 0


async def joined(consumer: Any) -> bool:
    """Poll once; tell whether the group has given it something."""
    await consumer.getmany(50)
    return bool(consumer.assignment())


async def check_kafkas_own_topics(world: ContractWorld) -> None:
    topic = await world.topic(values=1)
    consumer = await world.consumer(group_id=topic)
    consumer.subscribe([topic])
    await read(consumer, 1)
    await consumer.commit()
    admin = await world.admin()
    assert "__consumer_offsets" in await admin.list_topics(internal=True)
    assert "__consumer_offsets" not in await admin.list_topics() and topic in await admin.list_topics()
    for exclude in (True, False):
        reader = await world.consumer(exclude_internal_topics=exclude)
        reader.subscribe(pattern=f"__consumer_offsets|{topic}")
        await read(reader, 1)
        await world.until(partial(joined, reader), "an assignment")
        assert ("__consumer_offsets" in {one.topic for one in reader.assignment()}) is not exclude


async def check_what_is_only_validated(world: ContractWorld) -> None:
    topic = await world.topic(values=1)
    admin, resource = await world.admin(), ConfigResource("TOPIC", topic)
    await admin.create_partitions({topic: NewPartitions(3)}, validate_only=True)
    error = await raises(KafkaError, lambda: admin.create_partitions({topic: NewPartitions(1)}, validate_only=True))
    assert error.code == ErrorCode.INVALID_PARTITIONS
    assert len((await admin.describe_topics([topic]))[0].partitions) == 1
    changed = ConfigResource("TOPIC", topic, configs={"retention.ms": "5"})
    await admin.alter_configs([changed], validate_only=True)
    assert await retention(admin, resource) == "-1"
    bad = ConfigResource("TOPIC", topic, configs={"retention.ms": "soon"})
    error = await raises(KafkaError, lambda: admin.alter_configs([bad], validate_only=True))
    assert error.code == ErrorCode.INVALID_CONFIG
    await admin.reset_configs([changed], validate_only=True)
    assert await retention(admin, resource) == "-1"
    await raises(ConfigError, lambda: admin.reset_configs([changed], incremental=False))
    unknown = ConfigResource("TOPIC", topic, configs={"retention": "1"})
    await raises(ConfigError, lambda: admin.reset_configs([unknown]))
    await admin.reset_configs([unknown], raise_on_unknown=False)  # brokers take it: it has no value now
    await admin.reset_configs([changed], incremental=True)
    await world.until(partial(is_reset, admin, resource), "the default")


async def retention(admin: Any, resource: ConfigResource) -> str:
    """Return a topic's retention.ms."""
    found = (await admin.describe_configs([resource]))[resource]
    return next(str(one.value) for one in found if one.name == "retention.ms")


async def is_reset(admin: Any, resource: ConfigResource) -> bool:
    """Tell whether it is the default again, which brokers of KRaft hear of later."""
    return await retention(admin, resource) == DEFAULT_RETENTION_MS


async def check_transactions_that_are_looked_for(world: ContractWorld) -> None:
    topic = await world.topic(values=1)
    where, admin = TopicPartition(topic, 0), await world.admin()
    producer = await world.producer(transactional_id=topic)
    await producer.init_transactions()
    await producer.begin_transaction()
    await (await producer.send(topic, b"open", partition=0))
    latest = {where: OffsetSpec.LATEST}
    assert (await admin.list_offsets(latest, timeout_ms=30_000))[where].offset == 2
    assert (await admin.list_offsets(latest, isolation_level=READ_COMMITTED))[where].offset == 1
    assert (await admin.list_partition_offsets(latest, READ_COMMITTED, 30_000))[where].offset == 1
    leader = (await admin.describe_topics([topic]))[0].partitions[0].leader
    (state,) = [one for one in (await admin.describe_producers([where], leader))[where] if is_open(one)]
    brokers = [node.node_id for node in (await admin.describe_cluster()).nodes]

    async def ids(**filters: Any) -> list[str]:
        found = await admin.list_transactions(**filters)
        return [one.transactional_id for some in found.values() for one in some if one.transactional_id == topic]

    assert await ids(broker_ids=brokers) == await ids(producer_id_filters=[state.producer_id]) == [topic]
    assert await ids(state_filters=["Ongoing"]) == [topic] and await ids(state_filters=["Empty"]) == []
    assert await ids(producer_id_filters=[state.producer_id + 1_000]) == []
    assert await ids(duration_filter_ms=3_600_000) == []
    await producer.abort_transaction()


def is_open(state: ProducerState) -> bool:
    """Tell whether a producer has a transaction open in the partition."""
    return state.current_transaction_start_offset >= 0
