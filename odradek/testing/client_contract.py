"""Contract of each public method of the clients, as coroutines that any world can run: written once.

A world gives clients: on the virtual clock, against a cluster of processes, against Apache Kafka; the asyncio ones, or
the blocking ones behind `Awaited`. Every function here whose name begins with `check_` is one part of the contract.
"""

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin import configs
from odradek.client.admin.client import KafkaAdminClient
from odradek.client.admin.values import (
    ACL,
    AbortTransactionSpec,
    ACLOperation,
    ACLPermissionType,
    ACLResourceType,
    ClientQuotaAlteration,
    ConfigResource,
    ConfigSource,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    OffsetTimestamp,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    TopicPartitionReplica,
    UserScramCredentialDeletion,
)
from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.consumer.client import KafkaConsumer
from odradek.client.consumer.subscription import RebalanceListener
from odradek.client.errors import (
    AbortRequired,
    ClientClosed,
    ClientError,
    ClientTimeout,
    ConfigError,
    UnsupportedByBroker,
)
from odradek.client.metrics import MetricName
from odradek.client.original import (
    EARLIEST_TIME,
    LATEST_TIME,
    FetchRequest,
    KeyedMessage,
    Message,
    MessageAndOffset,
    SimpleConsumer,
    StringEncoder,
)
from odradek.client.original import Producer as OriginalProducer
from odradek.client.original.simple_consumer import SimpleConsumerCore
from odradek.client.producer.client import KafkaProducer
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

LONG_MS = 30_000
FACES: Mapping[type, type] = {
    Producer: KafkaProducer,
    Consumer: KafkaConsumer,
    Admin: KafkaAdminClient,
    SimpleConsumerCore: SimpleConsumer,
}
RENAMED = {"getmany": "poll", "commit_later": "commit_async"}
"""Methods that have another name in the blocking form."""


class Awaited:
    """A blocking client with the methods of the asyncio one: what waits there runs in a thread here."""

    def __init__(self, core: type, *positional: Any, **settings: Any) -> None:
        self._core = core
        self._blocking = FACES[core](*positional, **settings)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._blocking, RENAMED.get(name, name))
        if inspect.iscoroutinefunction(getattr(self._core, name)):
            return partial(asyncio.to_thread, found)
        return found

    async def send(self, *given: Any, **named: Any) -> Any:
        return await asyncio.to_thread(partial(self._blocking.send, *given, **named))

    async def getone(self, timeout_ms: float = LONG_MS) -> Any:
        return await asyncio.to_thread(partial(next, self._blocking, None))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        manager = self._blocking.transaction()
        await asyncio.to_thread(manager.__enter__)
        try:
            yield
        except BaseException as error:
            await asyncio.to_thread(manager.__exit__, type(error), error, None)
            raise
        await asyncio.to_thread(manager.__exit__, None, None, None)


class ContractWorld:
    """Makes clients of one cluster, and closes them.

    `kraft`: it is Kafka 4's, which has features and no old versions. `world`: network, clock and random, for the
    virtual one.
    """

    _numbers = itertools.count()

    def __init__(self, bootstrap: list[str], *, blocking: bool = False, kraft: bool = False, **world: Any) -> None:
        self.bootstrap, self.kraft, self._blocking, self._world = bootstrap, kraft, blocking, world
        self._stack = AsyncExitStack()
        self.name = f"contract-{next(self._numbers)}-{'blocking' if blocking else 'aio'}"

    async def __aenter__(self) -> "ContractWorld":
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.aclose()

    async def _made(self, core: type, *positional: Any, **settings: Any) -> Any:
        if core is not SimpleConsumerCore:
            settings = {"bootstrap_servers": self.bootstrap, **settings}
        if self._blocking:
            client: Any = await asyncio.to_thread(partial(Awaited, core, *positional, **settings))
        else:
            client = await core(*positional, **self._world, **settings).start()
        self._stack.push_async_callback(client.close)
        return client

    async def producer(self, **settings: Any) -> Any:
        return await self._made(Producer, **settings)

    async def consumer(self, *topics: str, **settings: Any) -> Any:
        defaults = {"auto_offset_reset": "earliest", "consumer_timeout_ms": LONG_MS, "fetch_max_wait_ms": 50}
        return await self._made(Consumer, *topics, **{**defaults, **settings})

    async def admin(self) -> Any:
        return await self._made(Admin)

    async def simple_consumer(self, host: str, port: int) -> Any:
        return await self._made(SimpleConsumerCore, host, port)

    async def topic(self, partitions: int = 1, values: int = 0, suffix: str = "") -> str:
        """Create a topic that every broker knows, with values b"0", b"1", … in its partition 0; return its name."""
        name = f"{self.name}{suffix}"
        admin = await self.admin()
        await admin.create_topics([NewTopic(name, partitions, 1, configs={"retention.ms": "-1"})])
        await self.until(lambda: self._known_everywhere(name), f"{name} in the metadata of every broker")
        if values:
            producer = await self.producer()
            reports = [await producer.send(name, b"%d" % number, partition=0) for number in range(values)]
            for report in reports:
                await report
        return name

    async def _known_everywhere(self, topic: str) -> bool:
        question = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        async with Admin(bootstrap_servers=self.bootstrap, **self._world) as admin:

            async def ask(cluster: Cluster, deadline: Deadline) -> bool:
                await cluster.refresh()
                answers = [await cluster.request(node, question, MetadataResponse) for node in cluster.view.nodes]
                return not any(one.error_code for answer in answers for one in answer.topics)

            return await admin._run("asking every broker", ask)

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Look again until something is there: clusters need a moment to agree."""
        for _ in range(300):
            found = condition()
            found = await found if inspect.isawaitable(found) else found
            if found:
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"never came: {what}")


async def read(consumer: Any, count: int) -> list[bytes]:
    """Return the values of the next records."""
    found: list[bytes] = []
    for _ in range(200):
        if len(found) >= count:
            break
        for records in (await consumer.getmany(500)).values():
            found += [record.value for record in records]
    return found


async def raises(kind: type[Exception], work: Any) -> Any:
    """Return what an awaitable, or a call, raises."""
    try:
        result = work() if callable(work) else work
        if inspect.isawaitable(result):
            await result
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was to be raised")


# -- producer ----------------------------------------------------------------------------------------------------------


async def check_send(world: ContractWorld) -> None:
    topic = await world.topic()
    producer = await world.producer()
    told: list[Any] = []
    told_once = lambda metadata, error: told.append((metadata, error))  # noqa: E731
    first = await producer.send(topic, b"v", b"k", [("h", b"1"), ("n", None)], 0, 1_600_000_000_000, told_once)
    metadata = await first
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)
    assert metadata.timestamp == 1_600_000_000_000 and metadata.topic_partition == TopicPartition(topic, 0)
    assert told == [(metadata, None)] and first.is_done and first.succeeded() and first.value == metadata
    assert (await (await producer.send(topic, None, key=b"tombstone"))).offset == 1
    consumer = await world.consumer()
    consumer.assign([TopicPartition(topic, 0)])
    record = await consumer.getone()
    assert (record.key, record.value, record.timestamp, record.offset) == (b"k", b"v", 1_600_000_000_000, 0)
    assert list(record.headers) == [("h", b"1"), ("n", None)]
    assert (await consumer.getone()).value is None
    await raises(TypeError, lambda: producer.send(topic.encode(), b""))
    await raises(ConfigError, lambda: producer.send(topic, b"", timestamp_ms=2**63))
    await raises(KafkaError, lambda: producer.send(topic, b"x" * 2_000_000))


async def check_flush_and_close(world: ContractWorld) -> None:
    topic = await world.topic()
    producer = await world.producer(linger_ms=20_000)
    reports = [await producer.send(topic, b"%d" % number) for number in range(5)]
    assert not reports[0].done()
    await producer.flush()
    assert all(report.succeeded() for report in reports)
    last = await producer.send(topic, b"last")
    await producer.close()
    assert (await last).offset == 5
    await producer.close()
    await raises(ClientClosed, lambda: producer.send(topic, b""))


async def check_what_a_producer_knows(world: ContractWorld) -> None:
    topic = await world.topic(partitions=3)
    producer = await world.producer(max_block_ms=2_000)
    assert await producer.partitions_for(topic) == {0, 1, 2}
    described = await producer.describe_partitions(topic)
    assert [one.partition for one in described] == [0, 1, 2] and all(one.leader >= 0 for one in described)
    assert producer.bootstrap_connected()
    await (await producer.send(topic, b"x"))
    measured = producer.metrics()
    assert measured["producer-metrics"]["record-send-total"] == 1 <= measured["producer-metrics"]["request-total"]
    assert (
        measured["producer-metrics"]["request-latency-max"] >= measured["producer-metrics"]["request-latency-avg"] > 0
    )
    assert (
        measured["producer-metrics"]["connection-count"] > 0 < measured[f"producer-topic-metrics.{topic}"]["byte-rate"]
    )
    assert producer.metrics(raw=True)[MetricName("record-send-total", "producer-metrics")].value() == 1
    await raises(KafkaError, lambda: producer.partitions_for("no/topic"))
    versions = ((0, 9), (0, 10, 1), (0, 11), (3, 9))
    assert [KafkaProducer.max_usable_produce_magic(version) for version in versions] == [0, 1, 2, 2]


async def check_transactions(world: ContractWorld) -> None:
    topic = await world.topic(values=3)
    producer = await world.producer(transactional_id=topic)
    await raises(ClientError, producer.begin_transaction)
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send(topic, b"aborted", partition=0)
    await producer.abort_transaction()
    await producer.begin_transaction()
    await producer.send(topic, b"committed", partition=0)
    await producer.commit_transaction()
    async with producer.transaction():
        await producer.send(topic, b"in a block", partition=0)
    try:
        async with producer.transaction():
            await producer.send(topic, b"in a block that fails", partition=0)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    consumer = await world.consumer(group_id=topic, isolation_level="read_committed", enable_auto_commit=False)
    consumer.subscribe([topic])
    assert await read(consumer, 5) == [b"0", b"1", b"2", b"committed", b"in a block"]
    where = TopicPartition(topic, 0)
    async with producer.transaction():
        await producer.send_offsets_to_transaction({where: 2}, consumer.group_metadata())
    assert await consumer.committed(where) == 2
    consumer.seek_to_committed()
    assert await read(consumer, 3) == [b"2", b"committed", b"in a block"]
    await producer.begin_transaction()
    stale = consumer.group_metadata()._replace(generation_id=999)
    error = await raises(AbortRequired, lambda: producer.send_offsets_to_transaction({where: 1}, stale))
    assert error.requires_abort
    await producer.abort_transaction()


# -- consumer ----------------------------------------------------------------------------------------------------------


async def check_subscribe_and_commit(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=4)
    where = TopicPartition(topic, 0)
    heard: list[tuple[str, list[TopicPartition]]] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            heard.append(("assigned", sorted(assigned)))

        def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            heard.append(("revoked", sorted(revoked)))

    consumer = await world.consumer(group_id=topic, enable_auto_commit=False)
    await raises(ConfigError, consumer.getmany)
    consumer.subscribe([topic], listener=Listener())
    assert await read(consumer, 4) == [b"0", b"1", b"2", b"3"]
    both = [where, TopicPartition(topic, 1)]
    assert heard == [("assigned", both)] and consumer.assignment() == set(both) and consumer.subscription() == {topic}
    assert consumer.group_metadata().group_id == topic and consumer.group_metadata().generation_id > 0
    assert await consumer.committed(where) is None
    await consumer.commit({where: OffsetAndMetadata(3, "note")})
    assert (await consumer.committed(where), (await consumer.committed_offsets(where))[where].metadata) == (3, "note")
    await consumer.commit()
    assert await consumer.committed(where) == 4
    told: list[Any] = []
    consumer.commit_later({where: 1}, lambda offsets, error: told.append((offsets[where].offset, error)))
    await world.until(lambda: _polled(consumer, lambda: bool(told)), "a commit's callback")
    assert told == [(1, None)]
    await consumer.unsubscribe()
    assert heard[1:] == [("revoked", both)] and consumer.assignment() == set() and consumer.subscription() == set()
    await consumer.close()
    await consumer.close()
    await raises(ClientClosed, consumer.commit)


async def check_a_pattern_and_two_members(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=2)
    members = [await world.consumer(group_id=topic, metadata_max_age_ms=300) for _ in range(2)]
    for member in members:
        member.subscribe(pattern=f"{topic[:-1]}.")

    async def shared() -> bool:
        for member in members:
            await member.getmany(50)
        return sorted(len(member.assignment()) for member in members) == [1, 1]

    await world.until(shared, "each has a partition")
    assert members[0].subscription() == {topic}
    await members[0].close()
    await world.until(
        lambda: _polled(members[1], lambda: len(members[1].assignment()) == 2), "who stays gets the partitions"
    )


async def _polled(consumer: Any, condition: Callable[[], bool]) -> bool:
    await consumer.getmany(50)
    return condition()


async def check_without_a_group(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=3)
    consumer = await world.consumer(topic)
    assert await read(consumer, 3) == [b"0", b"1", b"2"]
    assert len(consumer.assignment()) == 2
    await raises(ConfigError, consumer.commit)
    await raises(ConfigError, consumer.group_metadata)


async def check_positions(world: ContractWorld) -> None:
    topic = await world.topic(values=6)
    where = TopicPartition(topic, 0)
    consumer = await world.consumer()
    consumer.assign([where])
    assert await consumer.position(where) == 0
    consumer.seek(where, 4)
    assert await read(consumer, 2) == [b"4", b"5"]
    assert await consumer.position(where) == 6 and consumer.highwater(where) == 6
    consumer.seek_to_beginning()
    assert await consumer.position(where) == 0
    consumer.seek_to_end(where)
    assert await consumer.position(where) == 6
    consumer.seek_to_beginning(where)
    consumer.pause(where)
    assert consumer.paused() == {where} and await consumer.getmany(200) == {}
    consumer.resume(where)
    assert consumer.paused() == set() and len(await read(consumer, 6)) == 6
    await raises(ConfigError, lambda: consumer.seek(TopicPartition(topic, 7), 0))
    await raises(TypeError, lambda: consumer.seek(where, 1.0))


async def check_reading_one_by_one_and_waking(world: ContractWorld) -> None:
    topic = await world.topic(values=3)
    where = TopicPartition(topic, 0)
    consumer = await world.consumer()
    consumer.assign([where])
    for number in range(2):
        assert (await consumer.getone()).value == b"%d" % number
        assert await consumer.position(where) == number + 1
    assert len((await consumer.getmany(LONG_MS, 1))[where]) == 1
    consumer.wakeup()
    assert await consumer.getmany(LONG_MS) == {}


async def check_what_a_consumer_knows(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2)
    where, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = await world.producer()
    for number in range(3):
        await (await producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_600_000_000_000 + number))
    consumer = await world.consumer(topic)
    assert await consumer.beginning_offsets([where, other]) == {where: 0, other: 0}
    assert await consumer.end_offsets([where, other]) == {where: 3, other: 0}
    times = await consumer.offsets_for_times({where: 1_600_000_000_001, other: 5})
    assert times[where].offset == 1 and times[where].timestamp == 1_600_000_000_001 and times[other] is None
    assert await consumer.partitions_for_topic(topic) == {0, 1}
    assert await consumer.partitions_for_topic(f"{topic}-not") is None
    assert [one.partition for one in await consumer.describe_partitions(topic)] == [0, 1]
    assert topic in await consumer.topics()
    assert len(await read(consumer, 3)) == 3 and consumer.bootstrap_connected()
    measured = consumer.metrics()["consumer-fetch-manager-metrics"]
    assert measured["records-consumed-total"] == 3 and measured["fetch-total"] > 0 < measured["bytes-consumed-rate"]
    assert (
        consumer.metrics(raw=True)[MetricName("records-consumed-total", "consumer-fetch-manager-metrics")].value() == 3
    )
    await consumer.bootstrap(LONG_MS, refresh=True)


async def check_reading_without_going_on(world: ContractWorld) -> None:
    topic = await world.topic(values=2)
    where = TopicPartition(topic, 0)
    consumer = await world.consumer(group_id=topic)
    consumer.assign([where])
    for _ in range(2):
        seen = await world.until(lambda: consumer.getmany(LONG_MS, 2, update_offsets=False), "records")
        assert (seen[where][0].offset, await consumer.position(where)) == (0, 0)
    assert await read(consumer, 2) == [b"0", b"1"]
    await consumer.commit({where: OffsetAndMetadata(2, "note")})
    assert (await consumer.committed(where, metadata=True, timeout_ms=LONG_MS)).metadata == "note"
    measured = consumer.metrics()["consumer-coordinator-metrics"]
    assert measured["commit-total"] == 1 and measured["commit-latency-max"] > 0


class Interceptor:
    """Doubles values, leaves out b"left out", and notes what was committed."""

    def __init__(self) -> None:
        self.committed: list[Any] = []

    def on_consume(self, records: Any) -> Any:
        return {
            where: [one._replace(value=one.value * 2) for one in some if one.value != b"1"]
            for where, some in records.items()
        }

    def on_commit(self, offsets: Any) -> None:
        self.committed.append(dict(offsets))


class Failing:
    """An interceptor that is broken."""

    def on_consume(self, records: Any) -> Any:
        raise ZeroDivisionError

    def on_commit(self, offsets: Any) -> None:
        raise ZeroDivisionError


async def check_interceptors(world: ContractWorld) -> None:
    topic = await world.topic(values=3)
    where = TopicPartition(topic, 0)
    told = Interceptor()
    consumer = await world.consumer(group_id=topic, interceptor_classes=[Failing(), told], enable_auto_commit=False)
    consumer.assign([where])
    assert await read(consumer, 2) == [b"00", b"22"]
    await consumer.commit()
    consumer.commit_later({where: 1})
    await world.until(lambda: _polled(consumer, lambda: len(told.committed) == 2), "both commits")
    assert [offsets[where].offset for offsets in told.committed] == [3, 1]
    consumer.seek_to_beginning(where)
    assert [(await consumer.getone()).value for _ in range(2)] == [b"00", b"22"]


# -- admin -------------------------------------------------------------------------------------------------------------


async def check_topics_of_admin(world: ContractWorld) -> None:
    topic = await world.topic(partitions=1)
    admin = await world.admin()
    cluster = await admin.describe_cluster()
    assert cluster.controller_id in {node.node_id for node in cluster.nodes} and cluster.cluster_id
    await world.until(lambda: _listed(admin, topic), "the new topic in the list")
    error = await raises(KafkaError, lambda: admin.create_topics([NewTopic(topic, 1, 1)]))
    assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    await admin.create_partitions({topic: 3})

    async def grown() -> bool:
        (described,) = await admin.describe_topics([topic])
        return len(described.partitions) == 3

    await world.until(grown, "three partitions")
    await raises(KafkaError, lambda: admin.describe_topics([f"{topic}-not"]))
    await admin.delete_topics([topic])

    async def gone() -> bool:
        return topic not in await admin.list_topics()

    await world.until(gone, "the topic is deleted")
    await raises(TypeError, lambda: admin.delete_topics([5]))


async def _listed(admin: Any, topic: str) -> bool:
    return topic in await admin.list_topics()


async def check_configurations(world: ContractWorld) -> None:
    topic = await world.topic()
    admin = await world.admin()
    resource = ConfigResource(ResourceType.TOPIC, topic)
    await admin.alter_configs({resource: [("retention.ms", configs.Operation.SET, "12345")]})

    async def altered() -> bool:
        entries = (await admin.describe_configs([resource]))[resource]
        return bool({entry.name: entry.value for entry in entries}.get("retention.ms") == "12345")

    await world.until(altered, "the new retention.ms")
    await raises(KafkaError, lambda: admin.alter_configs({resource: [("retention.ms", configs.Operation.SET, "soon")]}))


async def check_groups_of_admin(world: ContractWorld) -> None:
    topic = await world.topic(values=5)
    group, where = topic, TopicPartition(topic, 0)
    admin = await world.admin()
    consumer = await world.consumer(group_id=group, enable_auto_commit=False)
    consumer.subscribe([topic])
    assert len(await read(consumer, 5)) == 5
    await consumer.commit({where: 2})
    assert group in {one.group_id for one in await admin.list_groups()}
    (described,) = await admin.describe_groups([group])
    assert (described.state, [member.partitions for member in described.members]) == ("Stable", [(where,)])
    (lag,) = await admin.group_lag(group)
    assert (lag.committed, lag.log_end_offset, lag.lag) == (2, 5, 3)
    assert (await admin.list_group_offsets(group))[where].offset == 2
    await raises(KafkaError, lambda: admin.delete_groups([group]))
    await consumer.close()
    await admin.alter_group_offsets(group, {where: OffsetAndMetadata(4)})
    assert (await admin.list_group_offsets(group, [where]))[where].offset == 4
    await admin.delete_groups([group])
    assert group not in {one.group_id for one in await admin.list_groups()}
    assert (await admin.list_offsets({where: -1}))[where].offset == 5


async def check_replicas_of_admin(world: ContractWorld) -> None:
    topic = await world.topic(values=1)
    where = TopicPartition(topic, 0)
    admin = await world.admin()
    (described,) = await admin.describe_topics([topic])
    (leader,) = described.partitions[0].replicas
    assert await admin.elect_leaders("PREFERRED", [where]) == []
    directories = await admin.describe_log_directories(leader)
    assert where in {replica.topic_partition for one in directories for replica in one.replicas}
    nowhere = {where: "/no/such/directory"}
    error = await raises(KafkaError, lambda: admin.alter_replica_log_directories(leader, nowhere))
    assert error.code is ErrorCode.LOG_DIR_NOT_FOUND
    assert await admin.list_partition_reassignments() == []
    error = await raises(KafkaError, lambda: admin.alter_partition_reassignments({where: [12_345]}))
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def check_topics_are_waited_for(world: ContractWorld) -> None:
    admin = await world.admin()
    name = f"{world.name}-waited"
    (created,) = await admin.create_topics([NewTopic(name, 1, 1)], LONG_MS, wait_for_metadata=True)
    assert created.name == name
    assert await admin.create_topics([NewTopic(name, 1, 1)], raise_errors=False) == []
    await admin.create_partitions({name: NewPartitions(2)}, timeout_ms=LONG_MS)
    await admin.create_partitions({name: 1}, raise_errors=False)
    await raises(ClientTimeout, lambda: admin.wait_for_topics([f"{name}-not"], 300))
    await admin.delete_topics([f"{name}-not"], raise_errors=False)
    measured = admin.metrics()["admin-client-metrics"]
    assert measured["connection-count"] > 0 and measured["connection-creation-total"] > 0


async def check_records_are_deleted(world: ContractWorld) -> None:
    topic = await world.topic(values=5)
    where = TopicPartition(topic, 0)
    admin = await world.admin()
    assert await admin.delete_records({where: 3}) == {where: 3}
    assert (await admin.list_partition_offsets({where: OffsetSpec.EARLIEST}))[where].offset == 3
    error = await raises(KafkaError, lambda: admin.delete_records({where: 9}))
    assert error.code is ErrorCode.OFFSET_OUT_OF_RANGE
    (leader,) = (await admin.describe_topics([topic]))[0].partitions
    assert await admin.delete_records({where: -1}, LONG_MS, leader.leader) == {where: 5}
    await raises(TypeError, lambda: admin.delete_records({where: "3"}))


async def check_offsets_of_groups(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=5)
    where, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin = await world.admin()
    await world.until(partial(_altered, admin, topic, {where: 2, other: 0}), "offsets of a new group")
    assert (await admin.list_group_offsets({topic: [where]}))[topic][where].offset == 2
    targets = {where: OffsetSpec.LATEST, other: 7}
    assert await admin.reset_group_offsets(topic, targets) == {where: 5, other: 0}
    assert await admin.reset_group_offsets(topic, {where: OffsetTimestamp(0)}) == {where: 0}
    await admin.delete_group_offsets(topic, [other])
    assert set(await admin.list_group_offsets(topic)) == {where}
    consumer = await world.consumer(group_id=topic, group_instance_id="static")
    consumer.subscribe([topic])
    assert len(await read(consumer, 5)) == 5
    error = await raises(KafkaError, lambda: admin.delete_group_offsets(topic, [where]))
    assert error.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    (described,) = await admin.describe_groups([topic], include_authorized_operations=True)
    assert described.authorized_operations and ACLOperation.READ in described.authorized_operations
    assert topic in {one.group_id for one in await admin.list_groups([described.coordinator], ["Stable"])}
    assert topic not in {one.group_id for one in await admin.list_groups(states_filter=["Empty"])}
    await consumer.close()
    assert len((await admin.describe_groups([topic], described.coordinator))[0].members) == 1, "it keeps its place"
    await admin.remove_group_members(topic, [MemberToRemove(group_instance_id="static", reason="a test")])
    assert (await admin.describe_groups([topic]))[0].members == []
    await raises(KafkaError, lambda: admin.remove_group_members(topic, [MemberToRemove("nobody")]))


async def _altered(admin: Any, group: str, offsets: Any) -> bool:
    """Alter a group's offsets; False while its coordinator refuses: it may be about to take its first group."""
    try:
        await admin.alter_group_offsets(group, offsets)
    except KafkaError as error:
        assert error.retriable
        return False
    return True


async def check_transactions_of_admin(world: ContractWorld) -> None:
    topic = await world.topic(values=1)
    where = TopicPartition(topic, 0)
    admin = await world.admin()
    producer = await world.producer(transactional_id=topic)
    await producer.init_transactions()
    await producer.begin_transaction()
    await (await producer.send(topic, b"open", partition=0))
    described = (await admin.describe_transactions([topic]))[topic]
    assert described.state == "Ongoing" and described.topic_partitions == {where}
    assert described.producer_id >= 0 and described.transaction_start_time_ms > 0
    listed = await admin.list_transactions(state_filters=["Ongoing"], transactional_id_pattern=topic)
    assert [one.producer_id for one in listed[described.coordinator_id]] == [described.producer_id]
    assert await admin.find_hanging_transactions() == []
    open_ones = [
        one for one in (await admin.describe_producers([where]))[where] if one.current_transaction_start_offset >= 0
    ]
    assert [(one.producer_id, one.current_transaction_start_offset) for one in open_ones] == [
        (described.producer_id, 1)
    ]
    consumer = await world.consumer(isolation_level="read_committed")
    assert await consumer.end_offsets([where]) == {where: 1}
    await admin.abort_transaction(AbortTransactionSpec(where, open_ones[0].producer_id, open_ones[0].producer_epoch))

    async def released() -> bool:
        return bool(await consumer.end_offsets([where]) == {where: 3})

    await world.until(released, "the end of the transaction")
    error = await raises(KafkaError, lambda: admin.describe_transactions([f"{topic}-not"]))
    assert error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def check_settings_by_resource(world: ContractWorld) -> None:
    topic = await world.topic()
    admin = await world.admin()
    await admin.alter_configs([ConfigResource("topic", topic, {"retention.ms": "777", "segment.ms": "888"})])
    plain = ConfigResource(ResourceType.TOPIC, topic)

    async def modified() -> dict[str, str]:
        entries = (await admin.describe_configs([plain], config_filter="modified"))[plain]
        return {one.name: one.value for one in entries if one.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}

    async def there() -> bool:
        return await modified() == {"retention.ms": "777", "segment.ms": "888"}

    async def gone() -> bool:
        return await modified() == {"segment.ms": "888"}

    await world.until(there, "both settings")
    await admin.reset_configs([ConfigResource("topic", topic, ["retention.ms"])])
    await world.until(gone, "the default again")
    await raises(ConfigError, lambda: admin.alter_configs([plain]))
    await raises(ConfigError, lambda: admin.alter_configs([ConfigResource("topic", topic, {"retention": "1"})]))
    await admin.alter_configs([ConfigResource("topic", topic, {"retention.ms": "99"})], incremental=False)

    async def replaced() -> bool:
        return await modified() == {"retention.ms": "99"}

    await world.until(replaced, "nothing but what was named")
    (entry,) = (
        one
        for one in (await admin.describe_configs([plain], include_synonyms=True))[plain]
        if one.name == "retention.ms"
    )
    assert entry.synonyms[0] == ("retention.ms", "99", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    await raises(ConfigError, lambda: admin.describe_configs([plain], config_filter="some"))


async def check_what_brokers_serve(world: ContractWorld) -> None:
    topic = await world.topic()
    where = TopicPartition(topic, 0)
    admin = await world.admin()
    (leader,) = (await admin.describe_topics([topic]))[0].partitions[0].replicas
    assert 18 in await admin.api_versions() and (await admin.get_broker_version_data(leader))[1][1] >= 11
    finalized = (await admin.describe_features(send_request_to_controller=True)).finalized_features
    assert ("metadata.version" in finalized) == world.kraft
    await raises(KafkaError, lambda: admin.update_features({"metadata.version": 1}))
    directories = (await admin.describe_log_dirs([where], [leader]))[leader]
    assert [one.topic_partition for directory in directories for one in directory.replicas] == [where]
    nowhere = {TopicPartitionReplica(topic, 0, leader): "/no/such/directory"}
    error = await raises(KafkaError, lambda: admin.alter_replica_log_dirs(nowhere))
    assert error.code is ErrorCode.LOG_DIR_NOT_FOUND


async def check_access_without_an_authorizer(world: ContractWorld) -> None:
    admin = await world.admin()
    pattern = ResourcePattern(ACLResourceType.TOPIC, "t")
    entry = ACL("User:me", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
    for call in (
        lambda: admin.create_acls([entry]),
        lambda: admin.describe_acls(entry),
        lambda: admin.delete_acls([entry]),
    ):
        error = await raises(KafkaError, call)
        assert error.code is ErrorCode.SECURITY_DISABLED
    await raises(KafkaError, lambda: admin.describe_user_scram_credentials([f"{world.name}-nobody"]))
    deletion = UserScramCredentialDeletion(f"{world.name}-nobody", ScramMechanism.SCRAM_SHA_256)
    await raises(KafkaError, lambda: admin.alter_user_scram_credentials([deletion]))


async def check_tokens_where_nobody_is_known(world: ContractWorld) -> None:
    admin = await world.admin()
    for call in (
        lambda: admin.create_delegation_token(["User:me"]),
        lambda: admin.renew_delegation_token(b"hmac"),
        lambda: admin.expire_delegation_token(b"hmac"),
        admin.describe_delegation_token,
    ):
        await raises(KafkaError, call)


async def check_client_quotas(world: ContractWorld) -> None:
    admin = await world.admin()
    entity = {"client-id": world.name}

    async def described(limits: Mapping[str, float]) -> bool:
        return [one.quotas for one in await admin.describe_client_quotas(entity)] == ([limits] if limits else [])

    await admin.alter_client_quotas([ClientQuotaAlteration(entity, {"producer_byte_rate": 1e6})])
    await world.until(lambda: described({"producer_byte_rate": 1e6}), "the quota")
    await admin.alter_client_quotas([ClientQuotaAlteration(entity, {"producer_byte_rate": None})])
    await world.until(lambda: described({}), "its end")


# -- the original clients ----------------------------------------------------------------------------------------------


async def check_simple_consumer(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=3)
    where, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    host, _, port = world.bootstrap[0].rpartition(":")
    first = await world.simple_consumer(host, int(port))
    (described,) = await first.topic_metadata([topic])
    assert topic in {one.name for one in await first.topic_metadata()}
    leader = await world.simple_consumer(*await first.address_of(described.partitions[0].leader))
    found = await leader.fetch(FetchRequest(topic, 0, 1))
    assert list(found) == [MessageAndOffset(Message(b"%d" % n), n) for n in (1, 2)]
    assert (found.next_offset, found.high_watermark) == (3, 3) and found.size_in_bytes > 0
    assert next(iter(await leader.fetch((topic, 0, 0, 1)))).offset == 0, "a whole message, whatever the size"
    nothing = await leader.fetch(FetchRequest(topic, 0, 3), max_wait_ms=10, min_bytes=1)
    assert list(nothing) == [] and nothing.next_offset == 3
    error = await raises(KafkaError, lambda: leader.fetch(FetchRequest(topic, 0, 4)))
    assert error.code is ErrorCode.OFFSET_OUT_OF_RANGE
    good, bad = await leader.multifetch([FetchRequest(topic, 0, 2), FetchRequest(topic, 7, 0)])
    assert [one.next_offset for one in good] == [3]
    await raises(KafkaError, lambda: list(bad))
    await raises(ConfigError, lambda: leader.multifetch([FetchRequest(topic, 0, 0), FetchRequest(topic, 0, 1)]))
    if world.kraft:  # the versions that this consumer and no newer one speaks are gone
        await raises(UnsupportedByBroker, lambda: leader.get_offsets_before(topic, 0, LATEST_TIME, 5))
        return
    assert await leader.get_offsets_before(topic, 0, LATEST_TIME, 5) == [3, 0]
    assert await leader.get_offsets_before(topic, 0, EARLIEST_TIME, 5) == [0]
    await raises(KafkaError, lambda: leader.get_offsets_before(f"{topic}-not", 0, LATEST_TIME, 5))
    group = await world.until(partial(_coordinated, first, topic), "a coordinator")
    keeper = await world.simple_consumer(*group)
    for storage in ("kafka", "zookeeper"):
        await keeper.commit_offsets(f"{topic}-{storage}", {where: 2}, storage)
        kept = await keeper.fetch_offsets(f"{topic}-{storage}", [where, other], storage)
        assert {tp: one.offset for tp, one in kept.items()} == {where: 2}
    await raises(ConfigError, lambda: keeper.fetch_offsets(topic, [where], "tape"))
    await leader.close()
    await raises(ClientClosed, lambda: leader.fetch(FetchRequest(topic, 0, 0)))


async def _coordinated(consumer: Any, topic: str) -> Any:
    """Return the coordinator of the topic's groups; None while there is none."""
    try:
        return await consumer.find_coordinator(f"{topic}-kafka")
    except KafkaError as error:
        assert error.retriable
        return None


async def socket_check_original_producer(world: ContractWorld) -> None:
    topic = await world.topic(partitions=3)
    settings = {"metadata.broker.list": world.bootstrap, "serializer.class": StringEncoder}
    for kind, acks in (("sync", 1), ("sync", -1), ("async", 0)):
        given = {**settings, "producer.type": kind, "request.required.acks": acks}
        with await asyncio.to_thread(OriginalProducer, given) as producer:
            texts = [f"{kind} {acks} {number}" for number in range(5)]
            await asyncio.to_thread(producer.send, [KeyedMessage(topic, text, key="b") for text in texts])
            await asyncio.to_thread(producer.close)
    consumer = await world.consumer()
    consumer.assign([TopicPartition(topic, 98 % 3)])
    expected = [
        b"%s %d %d" % (kind, acks, n) for kind, acks in ((b"sync", 1), (b"sync", -1), (b"async", 0)) for n in range(5)
    ]
    assert await read(consumer, 15) == expected


SOCKET_CHECKS = {"original_producer": socket_check_original_producer}
"""Parts of the contract of clients that are blocking alone: not for the virtual clock."""
CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}
"""The parts of the contract, by name."""
