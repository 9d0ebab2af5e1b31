"""The producer snapshots of one log: which there are, writing one, loading the newest that is good."""

import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection

from odradek.broker.log.failure import DISK_FULL, CorruptFile
from odradek.broker.log.producers.snapshot_file import decode_snapshot, encode_snapshot
from odradek.broker.log.producers.state import ProducerState
from odradek.broker.log.segment_files import SNAPSHOT, file_name
from odradek.world.files import Files

log = logging.getLogger(__name__)


class Snapshots:
    """Files `<offset>.snapshot` of a partition's directory. Methods raise OSError as the disk does."""

    __slots__ = ("_directory", "_files", "_offsets")

    def __init__(self, files: Files, directory: str, names: list[str]) -> None:
        """`names` is the listing of the directory."""
        self._files = files
        self._directory = directory
        self._offsets = sorted(int(name.removesuffix(SNAPSHOT)) for name in names if is_snapshot(name))

    def moved_to(self, directory: str) -> None:
        """The directory was renamed."""
        self._directory = directory

    @property
    def latest(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        """Where the snapshot at that offset is."""
        return f"{self._directory}/{file_name(offset, SNAPSHOT)}"

    def write(self, state: ProducerState) -> None:
        """At the state's end offset, unless there is one already, or no room. A torn one is found by its checksum."""
        offset = state.map_end_offset
        if offset in self._offsets:
            return
        data = encode_snapshot(state.producers.values())
        try:
            self._files.write_atomically(self.path(offset), data, sync=False)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            log.error("%s is left out: %s", self.path(offset), error)
            return
        insort(self._offsets, offset)

    def load(self, start_offset: int, now_ms: int, expiration_ms: int) -> ProducerState:
        """The newest good one, without producers that have expired; bad ones are removed. Else empty from the start."""
        while self._offsets:
            offset = self._offsets[-1]
            try:
                producers = decode_snapshot(self._files.read(self.path(offset)))
            except (CorruptFile, FileNotFoundError) as error:
                log.warning("%s is dropped: %s", self.path(offset), error)
                self._remove(self._offsets[-1:])
                continue
            state = ProducerState(offset, producers)
            state.expire(now_ms, expiration_ms)
            return state
        return ProducerState(start_offset)

    def remove_outside(self, start_offset: int, end_offset: int) -> None:
        """Drop those at or before the log's start and those after its end."""
        kept = slice(bisect_right(self._offsets, start_offset), bisect_right(self._offsets, end_offset))
        self._remove(self._offsets[: kept.start] + self._offsets[kept.stop :])

    def keep_of_segments(self, base_offsets: Collection[int]) -> None:
        """Drop those at which no segment begins, except the newest when it is after all of these: the one of a clean
        shutdown (ProducerStateManager.removeStraySnapshots)."""
        begins = set(base_offsets)
        stray = [offset for offset in self._offsets if offset not in begins]
        if stray and stray[-1] > max(begins, default=-1):
            stray.pop()
        self._remove(stray)

    def remove_before(self, offset: int) -> None:
        """Drop those before it."""
        self._remove(self._offsets[: bisect_left(self._offsets, offset)])

    def remove_at(self, offsets: list[int]) -> None:
        """Drop those at these offsets, where there are any: no segment begins there any more."""
        self._remove([offset for offset in offsets if offset in self._offsets])

    def _remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            if self._files.exists(self.path(offset)):
                self._files.remove(self.path(offset))
        gone = set(offsets)
        self._offsets = [offset for offset in self._offsets if offset not in gone]


def is_snapshot(name: str) -> bool:
    """`00000000000000000042.snapshot`."""
    return name.endswith(SNAPSHOT) and name.removesuffix(SNAPSHOT).isdigit()
