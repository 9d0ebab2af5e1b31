"""Fetches of every version from logs that an older Kafka has begun, and by clients that are as old.

The logs are filled with what Apache Kafka wrote (tests/broker/log/golden), as a follower's are.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.broker.replication.conversion import CONVERTED_BYTES_MAX
from odradek.broker.replication.isr import FollowerProgress
from odradek.broker.replication.partition import Partition
from odradek.protocol.compression import GZIP, ZSTD
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode
from odradek.protocol.message_set import encode_message, messages, up_convert
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.record_batch import LOG_OVERHEAD, batches, entries
from odradek.protocol.records import decode_records, encode_batch
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.old_segments import OldRecord, expected, golden_bytes
from odradek.testing.virtual_clock import VirtualClock, run_virtual

LOGS = ("v0-0", "v1-0", "mixed-0")
TIME = 1_700_000_000_000


class Client:
    """Asks the only broker of a cluster, and fills its logs."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.peer = Peer(cluster.network.host("client"), cluster.clock, "broker-0", cluster.port, "test")

    async def create(self, topic: str, **config: str) -> Partition:
        configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in config.items()]
        made = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=configs)
        await self.peer.request(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7, 60_000)
        return self.cluster.brokers[0].server.services.replicas.partitions[(topic, 0)]

    async def filled(self, topic: str, data: bytes, **config: str) -> Partition:
        partition = await self.create(topic, retention_ms="-1", **config)
        partition.log.append_as_follower(data)
        partition.advance_high_watermark()
        return partition

    async def fetch(self, topics: list[str], offset: int, version: int, **request: int) -> list[PartitionData]:
        """`limit` of each partition in bytes."""
        partitions = self.cluster.brokers[0].server.services.replicas.partitions
        limit, replica_id = request.pop("limit", 1 << 20), request.pop("replica_id", -1)
        asked = [
            FetchTopic(
                topic=topic,
                topic_id=partitions[(topic, 0)].topic_id,
                partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=limit)],
            )
            for topic in topics
        ]
        wanted = FetchRequest(
            replica_id=replica_id,
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=-1),
            max_wait_ms=request.pop("max_wait_ms", 500),
            min_bytes=1,
            max_bytes=1 << 26,
            topics=asked,
        )
        response = await self.peer.request(wanted, version, 60_000)
        assert isinstance(response, FetchResponse) and response.error_code == 0
        return [topic.partitions[0] for topic in response.responses]

    async def fetch_one(self, topic: str, offset: int, version: int, **request: int) -> PartitionData:
        return (await self.fetch([topic], offset, version, **request))[0]

    async def read_all(self, topic: str, version: int, limit: int) -> list[OldRecord]:
        """As a consumer does: from offset to offset, records before the one that was asked for left out."""
        found: list[OldRecord] = []
        end = self.cluster.brokers[0].server.services.replicas.partitions[(topic, 0)].high_watermark
        offset = 0
        while offset < end:
            data = (await self.fetch_one(topic, offset, version, limit=limit)).records
            records = [one for one in records_of_answer(bytes(data)) if one[0] >= offset]
            assert records, f"stands at {offset}"
            found += records
            offset = records[-1][0] + 1
        return found


def records_of_answer(data: bytes) -> list[OldRecord]:
    found: list[OldRecord] = []
    for entry in entries(data, allow_partial_tail=True):
        content = data[entry.position : entry.position + entry.size_bytes]
        one = decode_records(content) if entry.magic == 2 else up_convert(content)
        found += zip(one.offsets, one.timestamps, one.keys, one.values, strict=True)
    return found


def run(scenario: Callable[[Client], Awaitable[None]], **settings: str) -> None:
    async def main(clock: VirtualClock) -> None:
        overrides = {"log.retention.ms": "-1", **{name.replace("_", "."): value for name, value in settings.items()}}
        async with EmbeddedCluster(clock, 1, overrides) as cluster:
            await scenario(Client(cluster))

    run_virtual(main)


def test_every_version_reads_every_format() -> None:
    """0 and 1 in format 0, 2 and 3 in at most 1, from 4 on record batches alone."""

    async def scenario(client: Client) -> None:
        for name in LOGS:
            await client.filled(name, golden_bytes(name))
            for version in range(18):
                wanted = expected(name)
                if version < 2:
                    wanted = [(offset, -1, key, value) for offset, _, key, value in wanted]
                for limit in (400, 1 << 20):
                    assert await client.read_all(name, version, limit) == wanted, (name, version)
                data = bytes((await client.fetch_one(name, 0, version)).records)
                magics = {entry.magic for entry in entries(data)}
                assert magics == {2} if version >= 4 else max(magics) <= version // 2

    run(scenario)


@pytest.mark.parametrize("topics", [["old", "new"], ["new", "old"]])
def test_what_is_converted_and_what_is_not_come_in_one_answer(topics: list[str]) -> None:
    async def scenario(client: Client) -> None:
        await client.filled("old", golden_bytes("v1-0"))
        await client.filled("new", bytes(encode_batch(0, [TIME], [b"k"], [b"new"])))
        told = dict(zip(topics, await client.fetch(topics, 0, 12), strict=True))
        records = {topic: records_of_answer(bytes(data.records)) for topic, data in told.items()}
        assert records == {"old": expected("v1-0"), "new": [(0, TIME, b"k", b"new")]}

    run(scenario)


def test_a_follower_gets_the_bytes_as_they_are() -> None:
    async def scenario(client: Client) -> None:
        partition = await client.filled("mixed-0", golden_bytes("mixed-0"))
        partition.followers[1] = FollowerProgress(1, 0.0)
        for version in (4, 11, 12, 17):
            data = await client.fetch_one("mixed-0", 0, version, replica_id=1)
            assert bytes(data.records) == golden_bytes("mixed-0")

    run(scenario)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_readers_get_past_what_they_cannot_be_given(version: int) -> None:
    """Control batches convert to nothing: the answer begins behind them, however many there are."""
    marker = bytearray(encode_end_txn_marker(EndTxnMarker(True, 0), TIME, 7, 0))
    data = bytearray(encode_batch(0, [TIME], [b"k"], [b"first"]))
    for offset in range(1, 400):
        marker[:8] = offset.to_bytes(8, "big")
        data += marker
    data += encode_batch(400, [TIME], [b"k"], [b"last"])

    async def scenario(client: Client) -> None:
        await client.filled("t", bytes(data))
        for limit in (100, 1000, 1 << 20):
            for offset in (1, 2, 399):
                answer = await client.fetch_one("t", offset, version, limit=limit)
                assert [(one[0], one[3]) for one in records_of_answer(bytes(answer.records))] == [(400, b"last")]
        assert [one[3] for one in await client.read_all("t", version, 60)] == [b"first", b"last"]

    run(scenario)


@pytest.mark.parametrize("version", [1, 3])
def test_an_old_reader_at_a_marker_waits_for_records(version: int) -> None:
    """It is not answered at once, and for nothing, again and again."""
    marker = bytearray(encode_end_txn_marker(EndTxnMarker(True, 0), TIME, 7, 0))

    async def scenario(client: Client) -> None:
        await client.filled("t", bytes(marker))
        asked_at = client.cluster.clock.monotonic_ms()
        answer = await client.fetch_one("t", 0, version)
        assert (answer.error_code, len(answer.records), answer.high_watermark) == (0, 0, 1)
        assert client.cluster.clock.monotonic_ms() - asked_at >= 500

    run(scenario)


@pytest.mark.parametrize("version", [1, 3])
def test_an_old_reader_at_a_marker_hears_of_the_next_record(version: int) -> None:
    marker = bytearray(encode_end_txn_marker(EndTxnMarker(True, 0), TIME, 7, 0))

    async def scenario(client: Client) -> None:
        partition = await client.filled("t", bytes(marker))
        replicas = client.cluster.brokers[0].server.services.replicas
        asked_at = client.cluster.clock.monotonic_ms()
        waiting = asyncio.ensure_future(client.fetch_one("t", 0, version))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        replicas.append(partition, encode_batch(0, [TIME], [b"k"], [b"next"]), 1)
        answer = await waiting
        assert [(one[0], one[3]) for one in records_of_answer(bytes(answer.records))] == [(1, b"next")]
        assert client.cluster.clock.monotonic_ms() - asked_at < 400

    run(scenario)


def test_downconversion_can_be_forbidden() -> None:
    """Also when nothing would have to be converted, or nothing is there (KafkaApis.maybeConvertFetchedData)."""

    async def scenario(client: Client) -> None:
        await client.filled("v0-0", golden_bytes("v0-0"), message_downconversion_enable="false")
        for version in range(18):
            for offset in (0, 65):
                answer = await client.fetch_one("v0-0", offset, version, max_wait_ms=0)
                wanted = ErrorCode.UNSUPPORTED_VERSION if version < 4 else ErrorCode.NONE
                assert answer.error_code == wanted
                assert (len(answer.records) > 0) == (version >= 4 and offset == 0)

    run(scenario)


@pytest.mark.parametrize("version", range(4))
def test_zstd_is_refused_when_its_turn_comes(version: int) -> None:
    data = encode_batch(0, [TIME], [b"k"], [b"a"], codec=GZIP) + encode_batch(1, [TIME], [b"k"], [b"b"], codec=ZSTD)

    async def scenario(client: Client) -> None:
        await client.filled("t", bytes(data))
        first = await client.fetch_one("t", 0, version)
        assert [one[3] for one in records_of_answer(bytes(first.records))] == [b"a"]
        second = await client.fetch_one("t", 1, version)
        assert (second.error_code, len(second.records)) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0)

    run(scenario)


@pytest.mark.parametrize("name", ["v1-0", "today"])
def test_damage_is_not_converted(name: str) -> None:
    data = golden_bytes("v1-0")
    if name == "today":
        data = bytes(encode_batch(0, [TIME], [b"k"], [b"a"]) + encode_batch(1, [TIME], [b"k"], [b"bbb"]))
    second = list(entries(data))[1]

    async def scenario(client: Client) -> None:
        partition = await client.filled(name, data)
        file = partition.log.segments[0].file
        stored = bytearray(file.pread(file.size(), 0))
        stored[second.position + second.size_bytes - 2] ^= 1
        file.truncate(0)
        file.append(stored)
        for version in (0, 3) if name == "today" else (0, 4, 17):
            good = await client.fetch_one(name, 0, version)
            assert [one[0] for one in records_of_answer(bytes(good.records))] == [0]
            answer = await client.fetch_one(name, 1, version)
            assert (answer.error_code, len(answer.records)) == (ErrorCode.CORRUPT_MESSAGE, 0)

    run(scenario)


def test_a_conversion_has_a_limit() -> None:
    """Of all partitions together: the loop has others to serve. Who comes next gets more."""
    one = bytes(encode_message(0, 0, -1, b"k", bytes(50_000)))
    data = b"".join(offset.to_bytes(8, "big") + one[8:] for offset in range(60))
    assert len(data) > 2 * CONVERTED_BYTES_MAX

    async def scenario(client: Client) -> None:
        for topic in ("a", "b"):
            await client.filled(topic, data)
        first, second = await client.fetch(["a", "b"], 0, 12, limit=1 << 26)
        assert 0.9 * CONVERTED_BYTES_MAX < len(first.records) <= CONVERTED_BYTES_MAX
        assert len(second.records) < CONVERTED_BYTES_MAX / 10
        offset = list(batches(bytes(first.records)))[-1][1].next_offset
        answer = await client.fetch_one("a", offset, 12, limit=1 << 26)
        assert records_of_answer(bytes(answer.records))[0][0] == offset

    run(scenario)


def test_messages_take_more_room_than_batches() -> None:
    """What is over the limit then waits for the next fetch; from version 3 the first batch goes whole."""
    batch = encode_batch(0, [TIME] * 50, [b"k"] * 50, [b"v"] * 50)
    data = b"".join(offset.to_bytes(8, "big") + bytes(batch[8:]) for offset in range(0, 500, 50))
    limit = 2 * len(batch)

    async def scenario(client: Client) -> None:
        await client.filled("t", data)
        for version, sizes in ((0, range(limit, limit + 1)), (3, range(limit + 1, 2 * limit))):
            answer = bytes((await client.fetch_one("t", 0, version, limit=limit)).records)
            assert len(answer) in sizes
            found = records_of_answer(answer)
            assert 20 <= len(found) <= 50 and len(found) == (50 if version == 3 else limit // 28)
        assert len(await client.read_all("t", 3, limit)) == 500

    run(scenario)


def test_a_message_that_is_too_large_is_cut_for_the_oldest() -> None:
    """They see from it that their limit is too small; later versions get it whole."""

    async def scenario(client: Client) -> None:
        await client.filled("v1-0", golden_bytes("v1-0"))
        for version in range(18):
            data = bytes((await client.fetch_one("v1-0", 10, version, limit=50)).records)
            assert (len(data) == 50) if version < 3 else (len(list(entries(data))) == 1)
        cut = bytes((await client.fetch_one("v1-0", 10, 0, limit=50)).records)
        assert list(messages(cut, allow_partial_tail=True)) == []
        assert int.from_bytes(cut[8:12], "big") + LOG_OVERHEAD > 50

    run(scenario)
