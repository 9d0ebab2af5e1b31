"""Produce and Fetch as no client here sends them: what is refused, what is answered twice, what is never null."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.protocol.compression import NONE, ZSTD
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.record_batch import batches
from odradek.protocol.records import encode_batch
from odradek.testing import Cluster
from odradek.testing.foreign.raw import Place, RawConnection, place_of

pytestmark = pytest.mark.cluster

TIME_MS = 2**40
FETCH_VERSIONS = range(18)
FIRST_VERSION_BY_ID = 13
LARGEST_SEQUENCE = 2**31 - 1


class At:
    """A topic of one partition, and connections to its leader and to a follower."""

    def __init__(self, topic: str, place: Place) -> None:
        self.topic, self.place = topic, place
        self.leader, self.follower = RawConnection(place.leader), RawConnection(place.follower)

    def produce(self, records: Any, version: int = 9, acks: int = -1, topic: str = "", at: Any = None) -> Any:
        """The one partition's answer."""
        data = TopicProduceData(name=topic or self.topic, partition_data=[PartitionProduceData(records=records)])
        request = ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[data])
        return (at or self.leader).ask(request, version).responses[0].partition_responses[0]

    def fetch(self, version: int, offset: int = 0, at: Any = None, *, wait_ms: int = 0, **more: Any) -> Any:
        """The whole answer."""
        asked = FetchTopic(
            topic=more.pop("topic", self.topic),
            topic_id=more.pop("topic_id", self.place.topic_id),
            partitions=[FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20, **more)],
        )
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[asked])
        return (at or self.leader).ask(request, version)


@pytest.fixture
def at(cluster: Cluster, new_topic: Callable[..., str]) -> Iterator[At]:
    topic = new_topic(retention_ms="-1")  # the records are of 2004
    one = At(topic, place_of(cluster.bootstrap, topic))
    with one.leader, one.follower:
        yield one


def batch(*values: bytes, **more: Any) -> bytes:
    return bytes(encode_batch(0, [TIME_MS] * len(values), [b"key"] * len(values), list(values), **more))


@pytest.mark.parametrize("version", range(3, 12))
def test_produce(version: int, at: At) -> None:
    assert [at.produce(batch(b"a", b"b"), version).base_offset for _ in range(2)] == [0, 2]
    told = at.produce(batch(b"c"), version)
    assert (told.error_code, told.base_offset, told.log_append_time_ms) == (0, 4, -1)
    assert told.log_start_offset == (0 if version >= 5 else -1)


def test_no_answer_without_acks(at: At) -> None:
    data = TopicProduceData(name=at.topic, partition_data=[PartitionProduceData(records=batch(b"a"))])
    silent = ProduceRequest(acks=0, timeout_ms=1000, topic_data=[data])
    with pytest.raises(AssertionError, match="2"):
        # The answer that comes is the one to the next request.
        _send_and_ask(at.leader, silent, FetchRequest())
    assert at.produce(batch(b"b")).base_offset == 1


def _send_and_ask(connection: RawConnection, silent: ProduceRequest, then: FetchRequest) -> None:
    from odradek.protocol.headers import RequestHeader, decode_correlation_id, encode_request

    connection.send(b"".join(encode_request(RequestHeader(0, 9, 1, "raw"), silent)))
    connection.send(b"".join(encode_request(RequestHeader(1, 11, 2, "raw"), then)))
    raise AssertionError(decode_correlation_id(connection.read_frame()))


def test_an_error_without_acks_closes_the_connection(at: At) -> None:
    data = TopicProduceData(name="nobody", partition_data=[PartitionProduceData(records=batch(b"a"))])
    with pytest.raises(EOFError):
        at.leader.ask(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[data]), 9)


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_acks_that_there_are_not(acks: int, at: At) -> None:
    told = at.produce(batch(b"a"), acks=acks)
    assert (told.error_code, told.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)


def _flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 0x01
    return bytes(changed)


REFUSED: dict[str, tuple[bytes | None, ErrorCode]] = {
    "a byte changed": (_flipped(batch(b"aaaa"), 70), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
    "magic 1": (_flipped(_flipped(batch(b"a"), 16), 16)[:16] + b"\x01" + batch(b"a")[17:], ErrorCode.INVALID_RECORD),
    "a control batch": (batch(b"a", control=True), ErrorCode.INVALID_RECORD),
    "no sequence": (batch(b"a", producer_id=7, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD),
    "no transaction": (
        batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_batches_that_are_refused(what: str, at: At) -> None:
    """And nothing of them is kept."""
    records, error = REFUSED[what]
    told = at.produce(records)
    assert (ErrorCode(told.error_code), told.base_offset) == (error, -1)
    assert at.produce(batch(b"good")).base_offset == 0


def test_zstd_before_version_7(at: At) -> None:
    told = at.produce(batch(b"a" * 100, codec=ZSTD), 6)
    assert told.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_produce_elsewhere(at: At) -> None:
    told = at.produce(batch(b"a"), topic="nobody-has-made-this")
    assert (told.error_code, told.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    told = at.produce(batch(b"a"), at=at.follower)
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and told.current_leader is None


def test_the_new_leader_is_told(at: At) -> None:
    """From version 10 on (KIP-951)."""
    data = TopicProduceData(name=at.topic, partition_data=[PartitionProduceData(records=batch(b"a"))])
    answer = at.follower.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 10)
    told = answer.responses[0].partition_responses[0]
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and told.current_leader.leader_epoch == 0
    assert [f"{node.host}:{node.port}" for node in answer.node_endpoints] == [at.place.leader]
    assert answer.node_endpoints[0].node_id == told.current_leader.leader_id


def test_idempotence(at: At) -> None:
    """One of the last five batches again is answered as before; a gap and an older epoch are refused."""
    given = at.leader.ask(InitProducerIdRequest(transactional_id=None), 4)
    assert given.error_code == 0 and given.producer_id >= 0

    def send(sequence: int, *values: bytes, epoch: int = 0) -> tuple[int, int]:
        records = batch(*values, producer_id=given.producer_id, producer_epoch=epoch, base_sequence=sequence)
        told = at.produce(records)
        return told.error_code, told.base_offset

    assert [send(number, b"x") for number in range(6)] == [(0, number) for number in range(6)]
    assert [send(number, b"x") for number in range(1, 6)] == [(0, number) for number in range(1, 6)]
    assert send(0, b"x")[0] in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert send(8, b"x")[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(3, b"x", epoch=1)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, b"x", epoch=1) == (0, 6)
    assert send(6, b"x")[0] == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_begin_again_at_zero(at: At) -> None:
    """After 2147483647 comes 0."""
    producer = at.leader.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
    sent = {"producer_id": producer, "producer_epoch": 0}
    first = at.produce(batch(b"a", b"b", **sent, base_sequence=LARGEST_SEQUENCE - 1))
    assert (first.error_code, first.base_offset) == (0, 0)
    after = at.produce(batch(b"c", **sent, base_sequence=0))
    assert (after.error_code, after.base_offset) == (0, 2)


def _part(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_records_are_never_null(version: int, at: At) -> None:
    """Neither at the end of the log nor beside an error."""
    end = _part(at.fetch(version))
    assert (end.error_code, bytes(end.records)) == (0, b"")
    assert end.records is not None
    wrong = [
        (at.fetch(version, offset=5), ErrorCode.OFFSET_OUT_OF_RANGE),
        (at.fetch(version, at=at.follower, topic=at.topic), None),
    ]
    if version < FIRST_VERSION_BY_ID:
        wrong.append((at.fetch(version, topic="nobody-has-made-this"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    else:
        wrong.append((at.fetch(version, topic_id=b"\x01" * 16), ErrorCode.UNKNOWN_TOPIC_ID))
    if version >= 9:
        wrong.append((at.fetch(version, current_leader_epoch=7), ErrorCode.UNKNOWN_LEADER_EPOCH))
    for answer, error in wrong:
        part = _part(answer)
        assert part.records is not None and bytes(part.records) == b"", answer
        assert error is None or ErrorCode(part.error_code) == error


@pytest.mark.parametrize("version", range(4, 18))
def test_fetch(version: int, at: At) -> None:
    """From the middle of a batch the whole batch comes."""
    at.produce(batch(b"a", b"b", b"c"))
    part = _part(at.fetch(version, offset=1, wait_ms=5000))
    [(_, header)] = batches(part.records)
    assert (part.error_code, header.base_offset, header.last_offset) == (0, 0, 2)
    assert part.high_watermark == part.last_stable_offset == 3
    assert part.log_start_offset == (0 if version >= 5 else -1)
    assert part.preferred_read_replica == -1 and not part.aborted_transactions
    assert part.diverging_epoch is None and part.current_leader is None and part.snapshot_id is None


def test_zstd_before_version_10(cluster: Cluster, new_topic: Callable[..., str]) -> None:
    """Where the topic says that it is compressed with it (KIP-110); what a producer chose, nobody looks at."""
    topic = new_topic(compression_type="zstd")
    at = At(topic, place_of(cluster.bootstrap, topic))
    with at.leader, at.follower:
        at.produce(batch(b"a" * 100))
        assert _part(at.fetch(10, wait_ms=5000)).error_code == 0
        refused = _part(at.fetch(9))
    assert ErrorCode(refused.error_code) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE and bytes(refused.records) == b""


def test_a_batch_larger_than_the_limit_comes_whole(at: At) -> None:
    """KIP-74: else the consumer would be stuck; but up to version 2 it is cut, as those clients expect."""
    at.produce(batch(b"a" * 5000, codec=NONE))
    asked = FetchTopic(topic=at.topic, partitions=[FetchPartition(fetch_offset=0, partition_max_bytes=100)])
    request = FetchRequest(max_wait_ms=5000, min_bytes=1, max_bytes=100, topics=[asked])
    assert len(_part(at.leader.ask(request, 11)).records) > 5000
    assert len(_part(at.leader.ask(request, 2)).records) <= 100


def _session(at: At, session_id: int, epoch: int, offset: int | None, wait_ms: int = 0, version: int = 12) -> Any:
    topics = []
    if offset is not None:
        partitions = [FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)]
        topics = [FetchTopic(topic=at.topic, topic_id=at.place.topic_id, partitions=partitions)]
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=topics)
    return at.leader.ask(request, version)


@pytest.mark.parametrize("version", [7, 12, 17])
def test_fetch_sessions(version: int, at: At) -> None:
    """KIP-227: after a full fetch only what has changed is asked and told."""
    made = _session(at, 0, 0, 0, version=version)
    assert made.error_code == 0 and made.session_id > 0 and len(made.responses) == 1
    session = made.session_id
    nothing = _session(at, session, 1, None, version=version)
    assert (nothing.error_code, nothing.session_id, nothing.responses) == (0, session, [])
    at.produce(batch(b"a"))
    more = _session(at, session, 2, None, wait_ms=5000, version=version)
    assert [header.base_offset for _, header in batches(_part(more).records)] == [0]
    assert _session(at, session, 7, None).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert _session(at, session + 1000, 1, None).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    closed = _session(at, session, -1, 0, version=version)
    assert closed.error_code == 0 and closed.session_id == 0
    assert _session(at, session, 3, None, version=version).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_fetch_of_nothing_new_waits(at: At) -> None:
    """An incremental one too: it would be a busy loop."""
    import time

    session = _session(at, 0, 0, 0).session_id
    began = time.monotonic()
    answer = _session(at, session, 1, None, wait_ms=300)
    assert answer.responses == [] and time.monotonic() - began >= 0.25
