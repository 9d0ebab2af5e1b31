"""SimpleConsumer of Kafka 0.7 and 0.8: sends requests to one broker, and keeps no state."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from odradek.client import arguments
from odradek.client.aio.opening import QuestionsClient
from odradek.client.aio.world import World, named
from odradek.client.blocking import Blocking
from odradek.client.cluster import FIRST_BOOTSTRAP_ID
from odradek.client.config import CommonConfig, load
from odradek.client.consumer.chunks import Chunk
from odradek.client.errors import ClientError, ConfigError, CorruptRecords, RecordTooLarge
from odradek.client.metadata import ClusterView, TopicInfo, updated
from odradek.client.offsets import by_topic, commit_errors, commit_request, fetch_request, take_committed, unstable
from odradek.client.original.messages import FetchRequest, MessageSet, distinct
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage, error_code
from odradek.protocol.fields import Message as Request
from odradek.protocol.messages import fetch, find_coordinator, list_offsets, metadata, offset_commit, offset_fetch
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.world.clock import Clock
from odradek.world.network import Network

EARLIEST_TIME, LATEST_TIME = EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
"""Times for `get_offsets_before`, for the first offset of the log, and for the one behind the last."""
LAST_FETCH_WITH_NAMES = 12
OFFSETS_BEFORE = 0
"""The version of ListOffsets whose answer has several offsets."""
ZOOKEEPER, KAFKA = "zookeeper", "kafka"
Response = TypeVar("Response", bound=Request)


class SimpleConsumerCore(QuestionsClient):
    """SimpleConsumer on asyncio: `await start()`, then its methods as coroutines, then `await close()`."""

    _kind = "simple consumer"

    def __init__(
        self,
        host: str,
        port: int,
        so_timeout_ms: int = 30_000,
        buffer_size: int = 65_536,
        client_id: str = "",
        *,
        largest_fetch_bytes: int = 67_108_864,
        highest_fetch_version: int = LAST_FETCH_WITH_NAMES,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Any = None,
    ) -> None:
        """Take parameters as `SimpleConsumer` does; `network`, `clock` and `random` are for tests."""
        given = {
            "bootstrap.servers": [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"],
            "client.id": client_id,
            "request.timeout.ms": so_timeout_ms,
            "receive.buffer.bytes": buffer_size,
        }
        super().__init__(World(network, clock, random))
        self.config = named(load(CommonConfig, given, {}), "simple-consumer")
        self._largest_fetch_bytes = arguments.whole_number(largest_fetch_bytes, "largest_fetch_bytes", lowest=1)
        self._highest_fetch_version = min(highest_fetch_version, LAST_FETCH_WITH_NAMES)

    async def _ask(self, request: Request, response: type[Response], highest_version: int | None = None) -> Response:
        return await self._started().request(
            FIRST_BOOTSTRAP_ID, request, response, purpose=type(request).__name__, highest_version=highest_version
        )

    # -- messages ------------------------------------------------------------------------------------------------------

    async def fetch(self, request: FetchRequest, max_wait_ms: int = 0, min_bytes: int = 0) -> MessageSet:
        """Return the messages of a partition from an offset on. See `SimpleConsumer.fetch`."""
        (found,) = await self.multifetch([request], max_wait_ms, min_bytes)
        if found.error is not None:
            raise found.error
        return found

    async def multifetch(
        self, requests: Sequence[FetchRequest], max_wait_ms: int = 0, min_bytes: int = 0
    ) -> list[MessageSet]:
        """Return the messages of several partitions, in the order asked for. See `SimpleConsumer.multifetch`."""
        wanted = distinct(requests)
        found = await self._fetch(wanted, max_wait_ms, min_bytes) if wanted else {}
        return [await self._until_whole(one, found[one.topic_partition], max_wait_ms, min_bytes) for one in wanted]

    async def _until_whole(
        self, request: FetchRequest, found: MessageSet, max_wait_ms: int, min_bytes: int
    ) -> MessageSet:
        """Ask for twice as many bytes while the answer is only part of a message (brokers before Kafka 0.10.1)."""
        size = request.max_size
        while isinstance(found.error, RecordTooLarge) and size < self._largest_fetch_bytes:
            size = min(size * 2, self._largest_fetch_bytes)
            again = await self._fetch([request._replace(max_size=size)], max_wait_ms, min_bytes)
            found = again[request.topic_partition]
        return found

    async def _fetch(
        self, wanted: Sequence[FetchRequest], max_wait_ms: int, min_bytes: int
    ) -> dict[TopicPartition, MessageSet]:
        asked = {one.topic_partition: one for one in wanted}
        topics = [
            fetch.FetchTopic(
                topic=topic,
                partitions=[_partition(asked[TopicPartition(topic, number)]) for number in numbers],
            )
            for topic, numbers in by_topic(asked).items()
        ]
        most_bytes = min(2**31 - 1, sum(one.max_size for one in wanted))
        request = fetch.FetchRequest(
            max_wait_ms=arguments.whole_number(max_wait_ms, "max_wait_ms", 2**31 - 1),
            min_bytes=arguments.whole_number(min_bytes, "min_bytes", 2**31 - 1),
            max_bytes=most_bytes,
            session_epoch=-1,
            topics=topics,
        )
        answer = await self._ask(request, fetch.FetchResponse, self._highest_fetch_version)
        _raise_for(answer.error_code, "fetch")
        found = {
            TopicPartition(topic.topic, one.partition_index): one
            for topic in answer.responses
            for one in topic.partitions
        }
        return {where: _message_set(one, found.get(where)) for where, one in asked.items()}

    # -- offsets -------------------------------------------------------------------------------------------------------

    async def get_offsets_before(self, topic: str, partition: int, time: int, max_num_offsets: int) -> list[int]:
        """Return offsets of segments before a time, the largest first. See `SimpleConsumer.get_offsets_before`."""
        where = arguments.topic_partition((topic, partition))
        at = arguments.whole_number(time, "time", lowest=-(2**63))
        most = arguments.whole_number(max_num_offsets, "max_num_offsets", 2**31 - 1, 1)
        one = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=at, max_num_offsets=most)
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[one])]
        )
        answer = await self._ask(request, list_offsets.ListOffsetsResponse, OFFSETS_BEFORE)
        found = answer.topics[0].partitions[0]
        _raise_for(found.error_code, str(where))
        return list(found.old_style_offsets)

    async def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Any], storage: str = KAFKA) -> None:
        """Commit offsets of a group. See `SimpleConsumer.commit_offsets`."""
        request = commit_request(group_id, arguments.offsets_to_commit(offsets))
        answer = await self._ask(request, offset_commit.OffsetCommitResponse, _highest_version(storage))
        for code in commit_errors(answer):
            _raise_for(code, f"group {group_id}")

    async def fetch_offsets(
        self, group_id: str, partitions: Collection[TopicPartition], storage: str = KAFKA
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group. See `SimpleConsumer.fetch_offsets`."""
        request = fetch_request(group_id, by_topic(arguments.topic_partitions(partitions)))
        answer = await self._ask(request, offset_fetch.OffsetFetchResponse, _highest_version(storage))
        group = answer.groups[0] if answer.groups else answer
        _raise_for(group.error_code, f"group {group_id}")
        for topic in group.topics if storage == ZOOKEEPER else ():
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # in version 0: no offset is committed
            topic.partitions = [one for one in topic.partitions if one.error_code != unknown]  # type: ignore[assignment]
        found, open_ = take_committed(group.topics)
        if open_:
            raise unstable(open_)
        return found

    # -- where to ask --------------------------------------------------------------------------------------------------

    async def topic_metadata(self, topics: Sequence[str] = ()) -> list[TopicInfo]:
        """Return topics with the leaders of their partitions. See `SimpleConsumer.topic_metadata`."""
        names = arguments.topic_names(topics)
        asked = [metadata.MetadataRequestTopic(name=name) for name in names]
        request = metadata.MetadataRequest(topics=asked or None, allow_auto_topic_creation=False)
        answer = await self._ask(request, metadata.MetadataResponse)
        for one in answer.topics:
            if one.name in names:
                _raise_for(one.error_code, f"topic {one.name}")
        found = updated(ClusterView(), answer, all_topics=True).topics
        return [found[name] for name in sorted(found)]

    async def address_of(self, node_id: int) -> tuple[str, int]:
        """Return host and port of a broker that metadata names. Raises ConfigError for an unknown one."""
        answer = await self._ask(metadata.MetadataRequest(topics=[]), metadata.MetadataResponse)
        for one in answer.brokers:
            if one.node_id == node_id:
                return one.host, one.port
        raise ConfigError(f"there is no broker {node_id} now")

    async def find_coordinator(self, group_id: str) -> tuple[str, int]:
        """Return host and port of the broker that keeps a group's offsets. Raises KafkaError."""
        request = find_coordinator.FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
        answer = await self._ask(request, find_coordinator.FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer
        _raise_for(found.error_code, f"group {group_id}")
        return found.host, found.port


def _partition(one: FetchRequest) -> fetch.FetchPartition:
    return fetch.FetchPartition(
        partition=arguments.whole_number(one.partition, "a partition's number", 2**31 - 1),
        fetch_offset=arguments.offset(one.offset),
        partition_max_bytes=arguments.whole_number(one.max_size, "max_size", 2**31 - 1, 1),
    )


def _message_set(request: FetchRequest, data: fetch.PartitionData | None) -> MessageSet:
    """Return one partition's part of an answer."""
    where = request.topic_partition
    if data is None:
        return MessageSet(request, error=ClientError(f"{where}: the broker's answer leaves it out"))
    if data.error_code:
        error = KafkaError(error_code(data.error_code), f"{where} at offset {request.offset}")
        return MessageSet(request, error=error)
    records = memoryview(data.records or b"")
    try:
        chunk = Chunk(where, records, request.offset, 0, None)
    except MalformedMessage as error:
        return MessageSet(request, error=CorruptRecords(f"{where} from offset {request.offset}: {error}"))
    if chunk.empty and len(records):
        said = f"{where} at offset {request.offset}: the message there is larger than {request.max_size} bytes"
        return MessageSet(request, error=RecordTooLarge(said))
    return MessageSet(request, chunk, high_watermark=data.high_watermark)


def _raise_for(code: int, where: str) -> None:
    if code:
        raise KafkaError(error_code(code), where)


def _highest_version(storage: str) -> int | None:
    """Return the version that keeps offsets in ZooKeeper, or None for the newest, which keeps them in Kafka."""
    if storage not in (ZOOKEEPER, KAFKA):
        raise ConfigError(f"storage is zookeeper or kafka, not {storage!r}")
    return 0 if storage == ZOOKEEPER else None


class SimpleConsumer(Blocking[SimpleConsumerCore]):
    """Client of one broker, for messages and offsets. Thread-safe. The caller keeps the offsets, and finds the leaders.

    consumer = SimpleConsumer("localhost", 9092)
    for message, offset in consumer.fetch(FetchRequest("topic", 0, offset=0)):
        print(offset, message.payload)
    """

    def __init__(
        self,
        host: str,
        port: int,
        so_timeout_ms: int = 30_000,
        buffer_size: int = 65_536,
        client_id: str = "",
        *,
        largest_fetch_bytes: int = 67_108_864,
        highest_fetch_version: int = LAST_FETCH_WITH_NAMES,
    ) -> None:
        """Take a broker's address, the longest wait for an answer (ms), and the size of the socket's receive buffer.

        `largest_fetch_bytes` bounds the doubling for a large message. With a `highest_fetch_version` of 2 or below,
        brokers take FetchRequest.max_size literally and may cut messages, as 0.8 did; later versions return the first
        batch whole. Raises ConfigError.
        """
        core = SimpleConsumerCore(
            host,
            port,
            so_timeout_ms,
            buffer_size,
            client_id,
            largest_fetch_bytes=largest_fetch_bytes,
            highest_fetch_version=highest_fetch_version,
        )
        self._begin(core, core.config.client_id)

    def fetch(self, request: FetchRequest, max_wait_ms: int = 0, min_bytes: int = 0) -> MessageSet:
        """Return the messages of a partition from an offset on; waits `max_wait_ms` for `min_bytes`.

        A message larger than the request's `max_size` is asked for again with twice as much, up to
        `largest_fetch_bytes`, then RecordTooLarge is raised. Raises KafkaError (OFFSET_OUT_OF_RANGE,
        NOT_LEADER_OR_FOLLOWER, …), BrokerUnreachable.
        """
        return self._run(self._core.fetch(request, max_wait_ms, min_bytes))

    def multifetch(
        self, requests: Sequence[FetchRequest], max_wait_ms: int = 0, min_bytes: int = 0
    ) -> list[MessageSet]:
        """Return the messages of several partitions by one request, in the order asked for.

        If the broker refuses a partition, iterating its set raises the set's `error`. Raises ConfigError for a
        partition that is named twice.
        """
        return self._run(self._core.multifetch(requests, max_wait_ms, min_bytes))

    def get_offsets_before(self, topic: str, partition: int, time: int, max_num_offsets: int) -> list[int]:
        """Return at most `max_num_offsets` base offsets of segments before a time (ms since 1970), the largest first.

        With LATEST_TIME the first is the end of the log; EARLIEST_TIME gives the log start offset. Raises KafkaError;
        UnsupportedByBroker from Kafka 4 on.
        """
        return self._run(self._core.get_offsets_before(topic, partition, time, max_num_offsets))

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Any], storage: str = KAFKA) -> None:
        """Commit offsets of a group: in Kafka, where this broker must be the group's coordinator, or in ZooKeeper.

        Raises KafkaError (NOT_COORDINATOR, …).
        """
        self._run(self._core.commit_offsets(group_id, offsets, storage))

    def fetch_offsets(
        self, group_id: str, partitions: Collection[TopicPartition], storage: str = KAFKA
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group; partitions without one are left out. Raises as `commit_offsets`."""
        return self._run(self._core.fetch_offsets(group_id, partitions, storage))

    def topic_metadata(self, topics: Sequence[str] = ()) -> list[TopicInfo]:
        """Return topics (all, when none is named) with the leaders of their partitions. Raises KafkaError."""
        return self._run(self._core.topic_metadata(topics))

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Return host and port of a broker that metadata names. Raises ConfigError for an unknown one."""
        return self._run(self._core.address_of(node_id))

    def find_coordinator(self, group_id: str) -> tuple[str, int]:
        """Return host and port of the broker that keeps a group's offsets. Raises KafkaError."""
        return self._run(self._core.find_coordinator(group_id))
