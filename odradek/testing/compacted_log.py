"""A compacted log on simulated files with everything around it, for tests: append by key, let time pass, compact."""

from collections.abc import Sequence

from odradek.broker.log.batches import Origin
from odradek.broker.log.compaction.scheduler import Compaction
from odradek.broker.log.log import Log
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.records import decode_records, encode_batch
from odradek.testing.background_work import InlineChildren
from odradek.testing.log_environments import make_environment, open_test_log
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock

COMPACT = frozenset({"compact"})
SMALL = LogConfig(
    segment_bytes=500,
    index_interval_bytes=100,
    cleanup_policy=COMPACT,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    file_delete_delay_ms=60_000,
)
SETTINGS = LogManagerSettings(log_cleaner_backoff_ms=2**50)
"""A test says itself when it is time to look."""

Entry = tuple[int, bytes | None, bytes | None]
"""Offset, key, value."""


class CompactedLog:
    """`high_watermark` None: everything is replicated."""

    def __init__(
        self,
        config: LogConfig = SMALL,
        settings: LogManagerSettings = SETTINGS,
        files: SimulatedFiles | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.files = files or SimulatedFiles(0, self.clock.now_ms)
        self.files.now_ms = self.clock.now_ms
        self.environment = make_environment(self.files, self.clock)
        self.config = config
        self.settings = settings
        self.high_watermark: int | None = None
        self.rounds: list[int] = []
        """Up to where each compaction that came to its end has cleaned."""
        self.log: Log = open_test_log(self.environment, config, clean=True)
        self.compaction = self._compaction()

    def _compaction(self) -> Compaction:
        return Compaction(
            self.clock,
            InlineChildren(self.files, self.clock),
            self.settings,
            lambda: [self.log],
            lambda log: log.log_end_offset if self.high_watermark is None else self.high_watermark,
            lambda log: self.rounds.append(log.cleaned_to),
        )

    # writing

    def put(
        self,
        *entries: tuple[bytes, bytes | None],
        codec: int = 0,
        producer_id: int = -1,
        epoch: int = 0,
        sequence: int = 0,
        transactional: bool = False,
    ) -> int:
        """Append one batch of these keys and values; return its first offset."""
        now_ms = self.clock.now_ms()
        batch = encode_batch(
            0,
            [now_ms] * len(entries),
            [key for key, _ in entries],
            [value for _, value in entries],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=transactional,
        )
        return self.log.append_as_leader(batch, 0).first_offset

    def end_transaction(self, producer_id: int, *, committed: bool, epoch: int = 0) -> int:
        """End the transaction; return the marker's offset."""
        marker = encode_end_txn_marker(EndTxnMarker(committed, 0), self.clock.now_ms(), producer_id, epoch)
        return self.log.append_as_leader(marker, 0, origin=Origin.COORDINATOR).first_offset

    def roll(self) -> None:
        """Allow that what was written so far is compacted from now on."""
        self.log.roll()

    # compacting

    def compact(self) -> None:
        """Compact until there is nothing to do; of the dirtiness that is required too."""
        self.compaction.look()
        self.clock.advance(0)

    def reopen(self, *, clean: bool = False) -> None:
        """Open the log again, as a new process does."""
        recovery_point = self.log.recovery_point
        cleaned_to = self.log.cleaned_to
        self.log = open_test_log(self.environment, self.config, recovery_point=recovery_point, clean=clean)
        self.log.cleaned_to = cleaned_to
        self.compaction = self._compaction()

    # looking

    def headers(self) -> list[tuple[int, int, int]]:
        """List (base offset, last offset, record count) of every batch."""
        return [
            (batch.base_offset, batch.last_offset, batch.record_count)
            for segment in self.log.segments
            for batch in segment.batches_from(segment.base_offset)
        ]

    def batches(self) -> list[bytes]:
        """List every batch as it is in the files."""
        return [
            segment.file.pread(batch.size_bytes, batch.position)
            for segment in self.log.segments
            for batch in segment.batches_from(segment.base_offset)
        ]

    def entries(self) -> list[Entry]:
        """List every record but markers, in the order of the log."""
        found: list[Entry] = []
        for batch in self.batches():
            columns = decode_records(batch)
            if not batch[22] & 0x20:
                found += zip(columns.offsets, columns.keys, columns.values, strict=True)
        return found

    def read(self, offset: int) -> list[Entry]:
        """Read as a consumer does from an offset to the end, slice by slice."""
        found: list[Entry] = []
        end = self.log.log_end_offset
        while offset < end:
            records = self.log.read(offset, 300, end, whole_first_batch=True).records
            data = records if isinstance(records, bytes) else records.read()
            if not data:
                break
            at = 0
            while at + 61 <= len(data) and at + int.from_bytes(data[at + 8 : at + 12], "big") + 12 <= len(data):
                columns = decode_records(data, at)
                if not data[at + 22] & 0x20:
                    found += zip(columns.offsets, columns.keys, columns.values, strict=True)
                offset = int.from_bytes(data[at : at + 8], "big") + int.from_bytes(data[at + 23 : at + 27], "big") + 1
                at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
        return found


def newest(entries: Sequence[Entry]) -> dict[bytes | None, bytes | None]:
    """Key → its last value; tombstones are not in it."""
    values = {key: value for _, key, value in entries}
    return {key: value for key, value in values.items() if value is not None}
