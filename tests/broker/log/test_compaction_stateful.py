"""A compacted log against a list: whatever is written, rolled, compacted, cut off or crashed, every key has its last
value, in the order and at the offsets of the list, and a tombstone is seen for as long as it was promised."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.broker.log.compaction.offset_map import SLOT_BYTES
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.compacted_log import COMPACT, CompactedLog, Entry, newest
from odradek.testing.log_environments import close_log
from odradek.testing.simulated_files import SimulatedFiles

RETENTION_MS = 50
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    cleanup_policy=COMPACT,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)
KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]
RECORDS = st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=5)


class CompactionMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32), slots=st.sampled_from([5, 11, 1000]))
    def begin(self, seed: int, slots: int) -> None:
        limits = LogManagerSettings(
            log_cleaner_backoff_ms=2**50,
            log_cleaner_dedupe_buffer_size=slots * SLOT_BYTES,
            log_cleaner_io_buffer_load_factor=0.8,
        )
        self.world = CompactedLog(CONFIG, limits, SimulatedFiles(seed))
        self.model: list[Entry] = []
        """Every record that was ever written and not cut off, aborted ones left out."""
        self.cleaned_ms: dict[int, int] = {}
        """When the tombstone at that offset was seen to be compacted first."""
        self.sequences = {7: 0, 8: 0}
        self.number = 0
        self.replicated = 0
        """The high watermark when the log was compacted last: followers do not cut below it."""
        self.truncated = False

    def value(self, tombstone: bool) -> bytes | None:
        self.number += 1
        return None if tombstone else b"%d" % self.number

    @rule(records=RECORDS, producer_id=st.sampled_from([-1, -1, 7, 8]), codec=st.sampled_from([0, 0, 4]))
    def append(self, records: list[tuple[bytes, bool]], producer_id: int, codec: int) -> None:
        entries = [(key, self.value(tombstone)) for key, tombstone in records]
        sequence = self.sequences.get(producer_id, 0)
        offset = self.world.put(*entries, producer_id=producer_id, sequence=sequence, codec=codec)
        if producer_id >= 0:
            self.sequences[producer_id] += len(entries)
        self.model += [(offset + index, *entry) for index, entry in enumerate(entries)]
        self.world.clock.advance(1)

    @rule(records=RECORDS, committed=st.booleans(), roll=st.booleans())
    def transact(self, records: list[tuple[bytes, bool]], committed: bool, roll: bool) -> None:
        entries = [(key, self.value(tombstone)) for key, tombstone in records]
        offset = self.world.put(*entries, producer_id=9, sequence=self.sequences.get(9, 0), transactional=True)
        self.sequences[9] = self.sequences.get(9, 0) + len(entries)
        if roll:
            self.world.roll()
            self.compact()
        self.world.end_transaction(9, committed=committed)
        if committed:
            self.model += [(offset + index, *entry) for index, entry in enumerate(entries)]

    @rule()
    def roll(self) -> None:
        self.world.roll()

    @rule()
    def compact(self) -> None:
        now_ms = self.world.clock.now_ms()
        before = self.world.entries()
        self.replicated = self.world.log.log_end_offset
        self.world.compact()
        after = set(self.world.entries())
        for entry in before:
            offset, key, value = entry
            if value is None and offset < self.world.log.cleaned_to and self.is_newest(offset, key):
                self.cleaned_ms.setdefault(offset, now_ms)
                if now_ms < self.cleaned_ms[offset] + RETENTION_MS:
                    assert entry in after, f"tombstone {entry} went after {now_ms - self.cleaned_ms[offset]} ms"

    def is_newest(self, offset: int, key: bytes | None) -> bool:
        """Below the cleaned point."""
        end = self.world.log.cleaned_to
        offsets = [one for one, other, _ in self.model if other == key and one < end]
        return bool(offsets) and offsets[-1] == offset

    @rule(delay_ms=st.integers(1, RETENTION_MS))
    def wait(self, delay_ms: int) -> None:
        self.world.clock.advance(delay_ms)

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        """As followers do: nothing that was replicated when it was compacted."""
        log = self.world.log
        log.flush()
        offset = self.replicated + round(fraction * (log.log_end_offset - self.replicated))
        if any(one.transaction_first_offset >= 0 for one in log.producers.producers.values()):
            return
        self.truncated |= log.truncate_to(offset)
        self.model = [entry for entry in self.model if entry[0] < log.log_end_offset]
        for producer_id in self.sequences:
            producer = log.producers.producers.get(producer_id)
            self.sequences[producer_id] = 0 if producer is None else producer.last_sequence + 1
        if any(one.transaction_first_offset >= 0 for one in log.producers.producers.values()):
            self.world.end_transaction(9, committed=False)
            first = log.aborted_transactions(0, log.log_end_offset)[-1].first_offset
            self.model = [entry for entry in self.model if entry[0] < first or not self.is_transactional(entry[0])]

    def is_transactional(self, offset: int) -> bool:
        for segment in self.world.log.segments:
            for batch in segment.batches_from(segment.base_offset):
                if batch.base_offset <= offset <= batch.last_offset:
                    return batch.is_transactional
        return False

    @rule(how=st.sampled_from(["kill", "crash", "close"]))
    def restart(self, how: str) -> None:
        log = self.world.log
        before = {one.producer_id: (one.epoch, one.last_sequence) for one in log.producers.producers.values()}
        if how == "close":
            close_log(log)
        else:
            log.flush()
            (self.world.files.kill if how == "kill" else self.world.files.crash)()
        self.world.reopen(clean=how == "close")
        producers = self.world.log.producers.producers.values()
        assert {one.producer_id: (one.epoch, one.last_sequence) for one in producers} == before

    @rule()
    def reload_producers_from_the_batches_alone(self) -> None:
        """Without any snapshot: what compaction has left must tell the same.

        Not after a truncation that took a producer's last batch: of those before it only the snapshots tell.
        """
        if self.truncated:
            return
        log = self.world.log
        before = {one.producer_id: (one.epoch, one.last_sequence) for one in log.producers.producers.values()}
        log.flush()
        self.world.files.kill()
        for name in self.world.files.list_directory(log.directory):
            if name.endswith(".snapshot"):
                self.world.files.remove(f"{log.directory}/{name}")
        self.world.reopen()
        producers = self.world.log.producers.producers.values()
        assert {one.producer_id: (one.epoch, one.last_sequence) for one in producers} == before

    @invariant()
    def every_key_has_its_last_value(self) -> None:
        entries = self.world.entries()
        assert self.world.read(0) == entries
        assert [offset for offset, _, _ in entries] == sorted({offset for offset, _, _ in entries})
        written = set(self.model)
        aborted = self.world.log.aborted_transactions(0, self.world.log.log_end_offset)
        visible = [one for one in entries if not self.is_aborted(one[0], aborted)]
        assert written.issuperset(visible)
        assert newest(visible) == newest(self.model)
        clean = [key for offset, key, _ in visible if offset < self.world.log.cleaned_to]
        assert len(clean) == len(set(clean))

    def is_aborted(self, offset: int, aborted: list[Any]) -> bool:
        inside = any(one.first_offset <= offset < one.last_offset for one in aborted)
        return inside and self.is_transactional(offset)


CompactionMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestCompactionAgainstModel = CompactionMachine.TestCase
