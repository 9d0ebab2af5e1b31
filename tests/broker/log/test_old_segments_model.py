"""A log of messages, wrappers and batches in any order of growth, against a list: appended, cut, reopened, searched."""

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.compression import GZIP, LZ4, NONE, SNAPPY
from odradek.protocol.message_set import down_convert
from odradek.protocol.records import Columns, encode_batch
from odradek.testing.log_environments import close_log, make_environment, offset_for_timestamp, open_test_log
from odradek.testing.old_segments import OldRecord, read_from, stored

TIME = 1_400_000_000_000
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=60, retention_ms=-1, cleanup_policy=frozenset({"compact"}))
"""Compacted, as there are gaps."""


class Unit(NamedTuple):
    """What stands or falls as a whole."""

    data: bytes
    records: list[OldRecord]

    @property
    def first(self) -> int:
        return self.records[0][0]

    @property
    def last(self) -> int:
        return self.records[-1][0]


@st.composite
def units(draw: st.DrawFn) -> list[Unit]:
    """Formats rise, as they do in a log that outlives its broker's upgrades."""
    made, offset = [], draw(st.integers(0, 3))
    for magic in sorted(draw(st.lists(st.integers(0, 2), min_size=1, max_size=14))):
        codec = draw(st.sampled_from((NONE, GZIP, SNAPPY, LZ4)))
        count = 1 if magic < 2 and codec == NONE else draw(st.integers(1, 4))
        offsets = []
        for _ in range(count):
            offsets.append(offset)
            offset += draw(st.sampled_from((1, 1, 1, 3)))
        times = [-1 if magic == 0 else TIME + draw(st.integers(0, 30)) for _ in offsets]
        columns = Columns(offsets, times, [b"k"] * count, [b"%d" % one for one in offsets])
        if magic == 2:
            data = bytes(encode_batch(offsets[0], times, columns.keys, columns.values, offsets=offsets, codec=codec))
        else:
            data = down_convert(columns, magic, codec)
        made.append(Unit(data, list(zip(offsets, times, columns.keys, columns.values, strict=True))))
    return made


@settings(max_examples=25, deadline=None)
@given(units(), st.data())
def test_against_a_list(made: list[Unit], data: st.DataObject) -> None:
    environment = make_environment()
    log = open_test_log(environment, CONFIG)
    left: list[Any] = []
    waiting = list(made)
    for _ in range(data.draw(st.integers(1, 8))):
        step = data.draw(st.sampled_from(("append", "append", "append", "cut", "reopen", "recover")))
        if step == "append" and waiting:
            count = data.draw(st.integers(1, len(waiting)))
            log.append_as_follower(b"".join(unit.data for unit in waiting[:count]))
            left, waiting = left + waiting[:count], waiting[count:]
        elif step == "cut" and left:
            offset = data.draw(st.integers(1, left[-1].last + 1))
            gone = [unit for unit in left if unit.last >= offset]
            end = min(offset, gone[0].first) if offset < log.log_end_offset else log.log_end_offset
            log.truncate_to(offset)
            left, waiting = [unit for unit in left if unit.last < offset], gone + waiting
            assert log.log_end_offset == end
        elif step in ("reopen", "recover"):
            if step == "reopen":
                close_log(log)
            else:
                log.flush()
            log = open_test_log(environment, CONFIG, clean=step == "reopen")
            assert log.log_end_offset == (left[-1].last + 1 if left else log.log_start_offset)
        records = [record for unit in left for record in unit.records]
        assert stored(log) == records
        for offset, _, _, _ in records:
            assert read_from(log, offset, 1)[-1][0] >= offset
            assert next(unit for unit in left if unit.last >= offset).records == [
                one for one in read_from(log, offset, 1) if one[0] <= next(u for u in left if u.last >= offset).last
            ]
        for timestamp in (TIME, TIME + 15, TIME + 29, TIME + 31):
            found = offset_for_timestamp(log, timestamp)
            wanted = next(((time, offset) for offset, time, _, _ in records if time >= timestamp), None)
            assert (found and found[:2]) == wanted
