"""Stories of logs: what Produce refuses and says of it, and what readers get for every place and time."""

from typing import Any

from odradek.protocol.message_set import encode_message
from odradek.protocol.record_batch import update_crc
from odradek.protocol.records import encode_batch
from odradek.testing.beside.steps import Known, Step, Story, independent, wanted

TOPIC = "~log"
TIME_MS = 1_700_000_000_000
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
FIRST_WITH_BATCHES = 3
"""Version of Produce that takes the newest format only."""
CONTROL, TRANSACTIONAL = 0x20, 0x10


def batch(count: int = 1, codec: int = NONE, key: bytes | None = b"k", at_ms: int = TIME_MS, **more: Any) -> bytes:
    return bytes(encode_batch(0, [at_ms] * count, [key] * count, [b"v" * 20] * count, codec=codec, **more))


def changed(data: bytes, *bytes_at: tuple[int, int], checksum: bool = True) -> bytes:
    """Return the batch with these bytes (place, value), with a checksum that is right or as it was."""
    copy = bytearray(data)
    for at, value in bytes_at:
        copy[at] = value
    if checksum:
        update_crc(copy, 0)
    return bytes(copy)


def message(magic: int, codec: int = NONE, key: bytes | None = b"k", value: bytes | None = b"v") -> bytes:
    return bytes(encode_message(magic, 0, TIME_MS if magic else -1, key, value, codec))


def create(topic: str = TOPIC, partitions: int = 2, **configs: str) -> Step:
    given = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    one = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": given}
    return Step("admin", "CreateTopics", {"topics": [one], "timeout_ms": 5000})


def produce(
    *records: bytes | None,
    topic: str = TOPIC,
    acks: int = -1,
    until: int = 99,
    transactional_id: str | None = None,
    index: int = 0,
) -> Step:
    """Produce each of the records to a partition of its own, from `index` on."""
    data = [{"index": index + number, "records": one} for number, one in enumerate(records)]
    topics = [{"name": topic, "partition_data": data}]
    fields = {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 2000, "topic_data": topics}
    return Step("writer", "Produce", fields, FIRST_WITH_BATCHES if until >= FIRST_WITH_BATCHES else 0, until)


def fetch(
    offset: int = 0,
    *,
    partition: int = 0,
    topic: str = TOPIC,
    bytes_max: int = 1 << 20,
    since: int = 0,
    until: int = 12,
    epoch: int = -1,
    last_epoch: int = -1,
    **fields: Any,
) -> Step:
    one = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": bytes_max,
        "current_leader_epoch": epoch,
        "last_fetched_epoch": last_epoch,
    }
    given = {"topics": [{"topic": topic, "partitions": [one]}]} | fields
    return Step("reader", "Fetch", given, since, until)


def session(epoch: int, session_id: Any = 0, **fields: Any) -> Step:
    """A Fetch within a session; of no partitions unless they are given."""
    return Step("reader", "Fetch", {"session_id": session_id, "session_epoch": epoch} | fields, 7, 12)


def in_session(offset: int = 0, partition: int = 0) -> list[dict[str, Any]]:
    one = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return [{"topic": TOPIC, "partitions": [one]}]


def offsets(
    *times: int, partition: int = 0, topic: str = TOPIC, since: int = 0, epoch: int = -1, most: int = 3, **fields: Any
) -> tuple[Step, ...]:
    """Ask for the offset of each time."""
    steps = []
    for time in times:
        one = {"partition_index": partition, "timestamp": time, "current_leader_epoch": epoch, "max_num_offsets": most}
        given = {"replica_id": -1, "topics": [{"name": topic, "partitions": [one]}]} | fields
        steps.append(Step("reader", "ListOffsets", given, since))
    return tuple(steps)


def epochs(*leader_epochs: int, current: int = -1, partition: int = 0, topic: str = TOPIC, replica: int = -1) -> Step:
    partitions = [
        {"partition": partition, "current_leader_epoch": current, "leader_epoch": one} for one in leader_epochs
    ]
    fields = {"replica_id": replica, "topics": [{"topic": topic, "partitions": partitions}]}
    return Step("reader", "OffsetForLeaderEpoch", fields)


def cut(offset: int, partition: int = 0, topic: str = TOPIC, timeout_ms: int = 2000) -> Step:
    one = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    return Step("admin", "DeleteRecords", {"topics": [one], "timeout_ms": timeout_ms})


def alter(topic: str = TOPIC, **configs: str) -> Step:
    given = [{"name": n.replace("_", "."), "config_operation": 0, "value": value} for n, value in configs.items()]
    resource = {"resource_type": 2, "resource_name": topic, "configs": given}
    return Step("admin", "IncrementalAlterConfigs", {"resources": [resource]})


NOW_AND_THEN = (-1, -2, -3, -4, -5, -6, -7, 0, TIME_MS - 1, TIME_MS, TIME_MS + 1)
PLAIN = batch()

STORIES: tuple[Story, ...] = (
    independent("what is no batch",
        create(), produce(b""), wanted("not again", produce(b"\x00" * 70)), produce(PLAIN[:-1]),
        produce(PLAIN + PLAIN), wanted("not again", produce(changed(PLAIN, (16, 3)))),
        produce(changed(PLAIN, (30, 1), checksum=False)), produce(changed(PLAIN, (16, 1))), produce(PLAIN[:30]),
        produce(message(1)), produce(message(0), until=2), produce(message(1), until=2), produce(PLAIN, until=2),
        produce(PLAIN)),
    independent("batches that say what is not so",
        create(), produce(changed(batch(3), (60, 2))), produce(changed(batch(3), (60, 4))),
        produce(changed(batch(3), (26, 1))), produce(changed(batch(3), (26, 5))),
        produce(changed(batch(3, GZIP), (60, 4))), produce(changed(batch(3), (22, 5))),
        produce(changed(batch(3), (22, 7))), wanted("nothing appended", produce(changed(PLAIN, (22, CONTROL)))),
        produce(changed(PLAIN, (22, TRANSACTIONAL))), produce(changed(PLAIN, (7, 9))),
        produce(changed(PLAIN, (60, 0))), produce(PLAIN, PLAIN, PLAIN),
        *(produce(batch(2, codec)) for codec in range(5)), *(produce(batch(2, codec, None)) for codec in range(5)),
        fetch()),
    independent("batches that one broker takes",
        create(partitions=6), wanted("unread", produce(changed(batch(3, GZIP), (80, 9)))),
        wanted("unread", produce(changed(batch(3, LZ4), (22, 1)), index=1)),
        wanted("unread", produce(changed(PLAIN, (61, 99)), index=2)),
        wanted("one batch", produce(PLAIN + b"\x00", index=3)),
        wanted("time's owner", produce(changed(PLAIN, (22, 8)), index=4)),
        wanted("nobody's", produce(changed(PLAIN, (22, TRANSACTIONAL)), transactional_id="~x", index=5))),
    independent("where nothing can be written",
        create(), produce(PLAIN, topic="missing"), produce(PLAIN, index=7), produce(PLAIN, index=-1),
        produce(PLAIN, topic="__consumer_offsets"), produce(PLAIN, topic="__transaction_state"),
        produce(PLAIN, topic=""), produce(PLAIN, topic="a b"), produce(PLAIN, acks=2), produce(PLAIN, acks=-2),
        wanted("echo", produce()),
        Step("writer", "Produce", {"acks": 1, "timeout_ms": 100, "topic_data": []}, since=3), produce(PLAIN, acks=1),
        produce(PLAIN, acks=1), produce(PLAIN, PLAIN)),
    independent("not enough replicas in sync",
        create(min_insync_replicas="2"), produce(PLAIN), produce(PLAIN, acks=1), alter(min_insync_replicas="1")),
    independent("records that a topic refuses",
        create(max_message_bytes="200", cleanup_policy="compact"), produce(batch()), produce(batch(key=None)),
        produce(batch(2, GZIP, None)), produce(batch(20)), produce(batch(20, GZIP)), produce(batch(20), acks=1),
        produce(batch(key=None), batch(20)), fetch(), *offsets(-1)),
    independent("times out of bounds",
        create(message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000"), produce(batch()),
        produce(batch(2)), produce(batch(2, GZIP)), produce(batch(at_ms=4_000_000_000_000)), produce(batch(at_ms=-1)),
        produce(batch(at_ms=-5)), produce(batch(at_ms=0)), *(wanted("timeless", one) for one in offsets(-3, since=7))),
    independent("times that the broker writes",
        create(message_timestamp_type="LogAppendTime"), produce(batch(2)), produce(batch(2, GZIP)),
        produce(batch(at_ms=-1)), produce(batch(at_ms=-5)), *offsets(-3, since=7), fetch()),
    independent("old formats",
        create(), *(produce(message(magic), until=2) for magic in (0, 1)),
        *(produce(message(magic, key=None), until=2) for magic in (0, 1)),
        *(produce(message(magic, value=None), until=2) for magic in (0, 1)),
        produce(message(1) + message(1), until=2),
        wanted("both old formats", produce(message(0) + message(1), until=2, index=1)),
        wanted("both old formats", produce(message(1) + PLAIN, until=2)),
        produce(changed(message(1), (14, 9), checksum=False), until=2),
        wanted("cut off", produce(message(1)[:-1], until=2)),
        wanted("cut off", produce(message(1) + message(1)[:5], until=2, index=1)),
        wanted("cut off", produce(b"", until=2)), produce(message(1, 1), until=2), produce(message(0, 5), until=2),
        produce(message(1), until=2, topic="compacted"), produce(message(1, key=None), until=2, topic="compacted"),
        produce(message(1), acks=1, until=2), fetch(until=1), fetch(since=2, until=3), fetch(since=4),
        *offsets(-1, -2, -3, TIME_MS)),
    independent("every time and place",
        create(), *offsets(*NOW_AND_THEN), produce(batch(2)), produce(batch(3, GZIP, at_ms=TIME_MS + 1)),
        produce(batch(at_ms=TIME_MS - 5)), *offsets(*NOW_AND_THEN), *offsets(-1, -2, TIME_MS, isolation_level=1),
        *offsets(-1, -2, TIME_MS, replica_id=-2), *offsets(-1, -2, partition=9), *offsets(-1, topic="missing"),
        *offsets(-1, epoch=0), *offsets(-1, epoch=5), *offsets(-1, -2, TIME_MS, most=0),
        *offsets(-1, -2, TIME_MS, most=-1), *offsets(-1, replica_id=0), *offsets(-1, replica_id=5),
        *offsets(-1, isolation_level=7), epochs(0), epochs(1), epochs(-1), epochs(5), epochs(0, current=0),
        epochs(0, current=7), epochs(0, current=-1, replica=5), epochs(0, partition=9), epochs(0, topic="missing"),
        epochs(0, replica=-2)),
    independent("the same partition twice",
        create(), produce(PLAIN),
        Step("reader", "ListOffsets", {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [{"partition_index":
            0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]}]}),
        Step("admin", "DeleteRecords", {"topics": [], "timeout_ms": 100}),
        Step("reader", "Fetch", {"topics": []}, until=12), Step("reader", "ListOffsets", {"topics": []})),
    independent("records deleted",
        create(), cut(0), cut(-1), cut(5), produce(batch(3)), produce(batch(3)), cut(1), *offsets(-2), cut(1), cut(0),
        cut(7), cut(-2), cut(-3), cut(4), fetch(0), fetch(1), fetch(4),
        *(wanted("deleted", one) for one in offsets(-1, -2, -4, TIME_MS)), epochs(0), cut(-1),
        *(wanted("deleted", one) for one in offsets(-1, -2, -3, TIME_MS)), epochs(0), fetch(6), fetch(5), cut(1, 9),
        cut(1, topic="missing"), cut(1, topic=""), cut(0, topic="compacted"), cut(0, topic="__consumer_offsets"),
        produce(batch(2)), fetch(6), cut(7, timeout_ms=0), cut(8, timeout_ms=-1)),
    independent("reading anywhere",
        create(), produce(batch(3)), produce(batch(2)), fetch(), fetch(1), fetch(4), fetch(5), fetch(6), fetch(-1),
        fetch(-5), fetch(0, partition=9), fetch(0, topic="missing"), fetch(0, partition=-1), fetch(bytes_max=0),
        fetch(bytes_max=1), fetch(bytes_max=-1), fetch(max_bytes=0), fetch(max_bytes=1), fetch(max_bytes=-1),
        fetch(isolation_level=1), fetch(epoch=0), fetch(epoch=3), fetch(5, last_epoch=0), fetch(9, last_epoch=0),
        fetch(2, last_epoch=3), fetch(2, epoch=0, last_epoch=0), fetch(min_bytes=1 << 30, max_wait_ms=50),
        fetch(5, min_bytes=1, max_wait_ms=50), fetch(rack_id="r"), fetch(replica_id=-2), fetch(0, topic=""),
        fetch(isolation_level=5)),
    independent("sessions of readers",
        create(), produce(PLAIN, PLAIN), session(0, topics=in_session()),
        session(1, Known("reader", "session_id", otherwise=0)),
        session(1, Known("reader", "session_id", otherwise=0)), session(3, 12345), session(0, topics=in_session()),
        session(1, Known("reader", "session_id", otherwise=0), topics=in_session(0, 1)),
        session(2, Known("reader", "session_id", otherwise=0), forgotten_topics_data=[{"topic": TOPIC, "partitions":
            [0, 9]}]), session(-1, 777, topics=in_session()), session(5, 0), session(-2, 0),
        session(0, 999, topics=in_session()),
        session(1, Known("reader", "session_id", otherwise=0), topics=in_session(0, 9)),
        session(2, Known("reader", "session_id", otherwise=0), topics=in_session(99))),
    independent("leaders' epochs in requests by topic id",
        Step("reader", "Fetch", {"topics": [{"topic_id": b"\x07" * 16, "partitions": [{"partition": 0}]}]}, since=13),
        Step("reader", "Fetch", {"topics": [{"topic_id": bytes(16), "partitions": [{"partition": 0}]}]}, since=13)),
)  # fmt: skip
