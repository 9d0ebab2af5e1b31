"""`__consumer_offsets` stays small for ever, whatever is committed, and groups load from what is left."""

import random

from odradek.broker.groups.group_records import read_key
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.compacted_log import COMPACT, CompactedLog, newest

CONFIG = LogConfig(segment_bytes=100 * 1024, cleanup_policy=COMPACT, delete_retention_ms=60_000)
"""The topic's settings, with a segment of 100 KB for its 100 MB."""
COMMITS = 12_000


def commit_key(group: int, partition: int) -> bytes:
    name, topic = b"group-%d" % group, b"topic"
    return b"".join((b"\x00\x01", len(name).to_bytes(2), name, len(topic).to_bytes(2), topic, partition.to_bytes(4)))


def test_thousands_of_commits_do_not_make_the_topic_grow() -> None:
    world = CompactedLog(CONFIG, LogManagerSettings(log_cleaner_backoff_ms=15_000))
    world.compaction.start()
    choose = random.Random(3)
    assert read_key(commit_key(1, 2)) is not None
    last: dict[bytes, bytes | None] = {}
    sizes, segments = [], []
    for number in range(COMMITS):
        key = commit_key(choose.randrange(5), choose.randrange(6))
        last[key] = b"%064d" % number if choose.random() < 0.99 else None
        world.put((key, last[key]))
        world.clock.advance(50)
        if number % 100 == 99:
            sizes.append(world.log.size_bytes)
            segments.append(len(world.log.segments))
    written = COMMITS * 160
    assert max(sizes[len(sizes) // 2 :]) <= max(sizes[: len(sizes) // 2]) * 1.1, "it does not grow"
    assert max(sizes) < 4 * CONFIG.segment_bytes < written / 4
    assert max(segments) <= 5
    assert len(world.rounds) > 10
    assert newest(world.entries()) == {key: value for key, value in last.items() if value is not None}
    world.reopen()
    assert newest(world.entries()) == {key: value for key, value in last.items() if value is not None}
    files = world.files.list_directory(world.log.directory)
    world.clock.advance(CONFIG.file_delete_delay_ms)
    assert len(world.files.list_directory(world.log.directory)) <= len(files)
