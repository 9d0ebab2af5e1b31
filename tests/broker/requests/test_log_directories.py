"""AlterReplicaLogDirs and DescribeLogDirs, asked of whole brokers with two log directories."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.broker.network.outcomes import RequestContext
from odradek.broker.replication import log_copy
from odradek.broker.requests import describe_log_dirs
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.fields import Message
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.record_batch import batches
from odradek.protocol.records import decode_records
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.usual_requests import produce_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.files import FileRange

TOPIC = "t"
Where = dict[str, list[tuple[str, int, bool]]]
"""By directory: topic, partition, whether it is a future log."""


class Client:
    """Of brokers with log.dirs=/a,/b; leaders are looked up among the brokers themselves."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        network = cluster.network.host("client")
        self.peers = [Peer(network, cluster.clock, broker.host, cluster.port, "test") for broker in cluster.brokers]

    async def ask(self, request: Message, version: int, broker: int = 0) -> Any:
        return await self.peers[broker].request(request, version, 60_000)

    def leader(self) -> int:
        return next(
            broker.broker_id
            for broker in self.cluster.brokers
            if broker.running
            and (partition := broker.server.services.replicas.partitions.get((TOPIC, 0))) is not None
            and partition.is_leader
        )

    async def create(self, topic: str = TOPIC, partitions: int = 1) -> None:
        controller = next(b.broker_id for b in self.cluster.brokers if b.server.services.controller.is_active)
        replicas = len(self.cluster.brokers)
        made = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas)
        response = await self.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7, controller)
        assert response.topics[0].error_code == 0, response

    async def produce(self, *values: bytes) -> None:
        for value in values:
            request = produce_request(TOPIC, bytes(make_batch([value])))
            (answer,) = (await self.ask(request, 9, self.leader())).responses[0].partition_responses
            assert answer.error_code == 0, answer

    async def fetch(self) -> list[bytes | None]:
        asked = FetchTopic(topic=TOPIC, partitions=[FetchPartition(fetch_offset=0, partition_max_bytes=1 << 20)])
        answer = await self.ask(FetchRequest(max_wait_ms=100, topics=[asked]), 11, self.leader())
        data = answer.responses[0].partitions[0].records
        return [value for at, _ in batches(data) for value in decode_records(data, at).values]

    async def move(self, path: str, topic: str = TOPIC, index: int = 0, broker: int = 0, version: int = 2) -> int:
        wanted = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])])
        (result,) = (await self.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), version, broker)).results
        assert result.topic_name == topic and result.partitions[0].partition_index == index
        return int(result.partitions[0].error_code)

    async def where(self, broker: int = 0, topics: Iterable[str] | None = None) -> Where:
        wanted = None if topics is None else [DescribableLogDirTopic(topic=name, partitions=[0]) for name in topics]
        answer = await self.ask(DescribeLogDirsRequest(topics=wanted), 4, broker)
        return {
            result.log_dir: [(t.name, p.partition_index, p.is_future_key) for t in result.topics for p in t.partitions]
            for result in answer.results
        }


Scenario = Callable[[Client], Awaitable[None]]


def with_brokers(scenario: Scenario, brokers: int = 1, **overrides: str) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = {"log.dirs": "/a,/b"} | {name.replace("_", "."): value for name, value in overrides.items()}
        async with EmbeddedCluster(clock, brokers, settings) as cluster:
            while not any(broker.server.services.controller.is_active for broker in cluster.brokers):
                await asyncio.sleep(0.05)
            await scenario(Client(cluster))

    run_virtual(main)


def test_a_replica_moves_while_it_is_written() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(*[b"%d" % n for n in range(50)])
        assert await client.where() == {"/a": [(TOPIC, 0, False)], "/b": []}
        assert await client.move("/b") == ErrorCode.NONE
        await client.produce(b"50")
        await asyncio.sleep(1)
        await client.produce(b"51")
        assert await client.where() == {"/a": [], "/b": [(TOPIC, 0, False)]}
        assert await client.fetch() == [b"%d" % n for n in range(52)]
        assert await client.move("/b") == ErrorCode.NONE
        await asyncio.sleep(61)
        files = client.cluster.brokers[0].files
        assert [name for name in files.list_directory("/a") if name.startswith(TOPIC)] == []
        (broker,) = client.cluster.brokers
        await broker.stop()
        await broker.start()
        while (TOPIC, 0) not in broker.server.services.replicas.partitions:
            await asyncio.sleep(0.05)
        assert await client.fetch() == [b"%d" % n for n in range(52)]

    with_brokers(scenario)


def test_a_move_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 kB at 100 kB per second (KIP-113)."""
    monkeypatch.setattr(log_copy, "READ_BYTES", 60_000)

    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(*[b"%d" % (n % 10) * 50_000 for n in range(10)])
        assert await client.move("/b") == ErrorCode.NONE
        began_ms = client.cluster.clock.monotonic_ms()
        while await client.where() != {"/a": [], "/b": [(TOPIC, 0, False)]}:
            await asyncio.sleep(0.1)
        assert 4_000 < client.cluster.clock.monotonic_ms() - began_ms < 7_000

    with_brokers(scenario, replica_alter_log_dirs_io_max_bytes_per_second="100000")


@pytest.mark.parametrize("version", range(3))
def test_refusals(version: int) -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        assert await client.move("/nowhere", version=version) == ErrorCode.LOG_DIR_NOT_FOUND
        assert await client.move("/b", "unheard-of", version=version) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await client.move("/b", "x" * 215, version=version) == ErrorCode.INVALID_TOPIC_EXCEPTION
        client.cluster.brokers[0].files.broken.add("/b")
        client.cluster.brokers[0].server.services.logs.checkpoints.write_recovery_points()
        assert await client.move("/b", version=version) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await client.move("/a", version=version) == ErrorCode.NONE

    with_brokers(scenario)


def test_a_partition_that_comes_later_goes_where_it_was_wanted() -> None:
    async def scenario(client: Client) -> None:
        for path in ("/b", "/a", "/b"):
            assert await client.move(path, "later") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await client.create("later")
        assert await client.where() == {"/a": [], "/b": [("later", 0, False)]}

    with_brokers(scenario)


def test_a_move_ends_where_it_was_told_last() -> None:
    """To /b and back to /a before anything was copied: nothing is left of it."""

    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(b"a")
        both = [client.move("/b"), client.where(), client.move("/a"), client.where()]
        assert await asyncio.gather(*both) == [
            0,
            {"/a": [(TOPIC, 0, False)], "/b": [(TOPIC, 0, True)]},
            0,
            {"/a": [(TOPIC, 0, False)], "/b": []},
        ]
        await asyncio.sleep(1)
        assert await client.where(topics=["other"]) == {"/a": [], "/b": []}
        assert await client.where(topics=[TOPIC]) == {"/a": [(TOPIC, 0, False)], "/b": []}
        assert await client.fetch() == [b"a"]

    with_brokers(scenario)


@pytest.mark.parametrize("turns", [0, 1, 2, 4])
def test_a_broker_that_died_amid_a_move_goes_on_with_it(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "READ_BYTES", 20_000)
    values = [b"%d" % n * 5_000 for n in range(100)]

    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(*values)
        (broker,) = client.cluster.brokers

        async def move() -> None:
            assert broker.server.services.replicas.moves.alter(TOPIC, 0, "/b", exists=True) == ErrorCode.NONE
            for _ in range(turns):
                await asyncio.sleep(0)

        await broker.run(move())
        assert any(name.endswith("-future") for name in broker.files.list_directory("/b"))
        broker.kill()
        await broker.start()
        await asyncio.sleep(20)
        assert await client.where() == {"/a": [], "/b": [(TOPIC, 0, False)]}
        assert await client.fetch() == list(values)

    with_brokers(scenario)


def test_a_topic_that_is_deleted_amid_a_move_is_gone() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(b"a")
        doomed = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=10_000)
        files = client.cluster.brokers[0].files
        files.capacity_bytes = 0  # the move cannot go on
        assert await client.move("/b") == ErrorCode.KAFKA_STORAGE_ERROR
        files.capacity_bytes = None
        moved, deleted = await asyncio.gather(client.move("/b"), client.ask(doomed, 6))
        assert (moved, deleted.responses[0].error_code) == (0, 0)
        await asyncio.sleep(70)
        names = files.list_directory("/a") + files.list_directory("/b")
        assert [name for name in names if name.startswith(TOPIC)] == []
        await client.create()
        await client.produce(b"new")
        assert await client.fetch() == [b"new"]

    with_brokers(scenario)


def test_so_many_move_at_a_time_and_the_lag_says_how_far_they_are() -> None:
    async def scenario(client: Client) -> None:
        await client.create(partitions=4)
        await client.produce(b"a", b"b")
        (broker,) = client.cluster.brokers
        moves = broker.server.services.replicas.moves

        async def begin() -> Any:
            for index in range(4):
                home = broker.server.services.replicas.partitions[(TOPIC, index)].log.log_directory
                moves.alter(TOPIC, index, "/a" if home == "/b" else "/b", exists=True)
            assert (len(moves._running), len(moves._waiting)) == (1, 3)
            context = RequestContext(4, "test", "client:1", "PLAINTEXT")
            return describe_log_dirs.handle(broker.server.services, DescribeLogDirsRequest(topics=None), context)

        answer = (await broker.run(begin())).response
        found = [one for result in answer.results for topic in result.topics for one in topic.partitions]
        lags = sorted((one.partition_index, one.is_future_key, one.offset_lag) for one in found)
        assert lags == [(index, future, 2 if (index, future) == (0, True) else 0)
                        for index in range(4) for future in (False, True)]  # fmt: skip
        await asyncio.sleep(1)
        assert (len(moves._running), len(moves._waiting)) == (0, 0)
        homes = await client.where()
        assert sorted(index for logs in homes.values() for _, index, future in logs if not future) == [0, 1, 2, 3]
        assert not any(future for logs in homes.values() for _, _, future in logs)

    with_brokers(scenario, num_replica_alter_log_dirs_threads="1")


def test_a_move_that_finds_no_descriptor_goes_on_when_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was dropped without a word, though no directory was offline."""
    read, attempts = log_copy.LogCopy._read, list[int]()

    def exhausted(copy: log_copy.LogCopy, max_bytes: int) -> FileRange | None:
        attempts.append(max_bytes)
        if len(attempts) <= 2:
            cause = OSError(errno.EMFILE, "Too many open files")
            raise copy.source.unreadable(cause) from cause
        return read(copy, max_bytes)

    monkeypatch.setattr(log_copy.LogCopy, "_read", exhausted)

    async def scenario(client: Client) -> None:
        await client.create(partitions=1)
        await client.produce(b"1")
        (broker,) = client.cluster.brokers
        home = next(path for path, logs in (await client.where()).items() if (TOPIC, 0, False) in logs)
        away = "/a" if home == "/b" else "/b"
        assert await client.move(away) == 0
        await asyncio.sleep(5)
        assert broker.server.services.replicas.partitions[TOPIC, 0].log.log_directory == away and len(attempts) > 2

    with_brokers(scenario)


def test_a_move_that_waits_for_room_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It kept its place, so that none of the others went on as long as its disk was full."""
    append, full = log_copy.LogCopy._append, [True]

    def has_no_room(copy: log_copy.LogCopy, data: memoryview) -> int:
        if full and copy.source.partition == 0:
            cause = OSError(errno.ENOSPC, "No space left on device")
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room") from cause
        return append(copy, data)

    monkeypatch.setattr(log_copy.LogCopy, "_append", has_no_room)

    async def scenario(client: Client) -> None:
        await client.create(partitions=3)
        await client.produce(b"1")
        (broker,) = client.cluster.brokers
        moves, partitions = broker.server.services.replicas.moves, broker.server.services.replicas.partitions
        homes = {index: partitions[TOPIC, index].log.log_directory for index in (0, 1, 2)}
        away = {index: "/a" if home == "/b" else "/b" for index, home in homes.items()}
        for index in (0, 1, 2):
            assert await client.move(away[index], index=index) == 0
        await asyncio.sleep(5)
        assert [partitions[TOPIC, index].log.log_directory for index in (0, 1, 2)] == [homes[0], away[1], away[2]]
        assert await client.move(away[0]) == 0, "asked for again while it waits"
        full.clear()
        await asyncio.sleep(5)
        assert partitions[TOPIC, 0].log.log_directory == away[0]
        full.append(True)
        assert await client.move(homes[0]) == 0
        await asyncio.sleep(1)
        assert await client.move(away[0]) == 0, "it stays, and nothing waits any more"
        assert not (moves._running or moves._waiting or moves._without_room)
        full.clear()
        await asyncio.sleep(5)
        assert partitions[TOPIC, 0].log.log_directory == away[0]

    with_brokers(scenario, num_replica_alter_log_dirs_threads="1")


def test_a_move_that_ends_by_a_bug_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    advance = log_copy.LogCopy.advance

    def stumbles(copy: log_copy.LogCopy, then: Callable[[], object]) -> bool:
        if copy.source.partition == 0:
            raise AssertionError("planted")
        return advance(copy, then)

    monkeypatch.setattr(log_copy.LogCopy, "advance", stumbles)

    async def scenario(client: Client) -> None:
        await client.create(partitions=3)
        (broker,) = client.cluster.brokers
        homes = {index: next(path for path, logs in (await client.where()).items() if (TOPIC, index, False) in logs)
                 for index in (0, 1, 2)}  # fmt: skip
        away = {index: "/a" if home == "/b" else "/b" for index, home in homes.items()}
        for index in (0, 1, 2):
            assert await client.move(away[index], index=index) == 0
        await asyncio.sleep(1)
        partitions = broker.server.services.replicas.partitions
        assert [partitions[TOPIC, index].log.log_directory for index in (0, 1, 2)] == [homes[0], away[1], away[2]]
        assert any(record.exc_info is not None and "does not go on" in record.message for record in caplog.records)
        monkeypatch.undo()
        assert await client.move(away[0]) == 0
        await asyncio.sleep(1)
        assert partitions[TOPIC, 0].log.log_directory == away[0], "when it is asked for again"

    with_brokers(scenario, num_replica_alter_log_dirs_threads="1")


def test_followers_move_as_leaders_do() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(*[b"%d" % n for n in range(20)])
        homes = [next(iter(path for path, logs in (await client.where(n)).items() if logs)) for n in range(3)]
        away = ["/a" if home == "/b" else "/b" for home in homes]
        assert [await client.move(path, broker=n) for n, path in enumerate(away)] == [0, 0, 0]
        await client.produce(b"20")
        leader = client.leader()
        client.cluster.brokers[leader].kill()
        await asyncio.sleep(20)
        await client.cluster.brokers[leader].start()
        await client.produce(b"21")
        await asyncio.sleep(20)
        for n, path in enumerate(away):
            assert (await client.where(n))[path] == [(TOPIC, 0, False)]
        logs = [broker.server.services.logs.get(TOPIC, 0) for broker in client.cluster.brokers]
        assert [log is not None and log.log_end_offset for log in logs] == [22, 22, 22]
        assert await client.fetch() == [b"%d" % n for n in range(22)]

    with_brokers(scenario, 3)
