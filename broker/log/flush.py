"""A flush of one log: which files are synced, and up to which offset the log is safe then."""

import contextlib

from odradek.world.clock import Clock
from odradek.world.files import Files


class Flush:
    """The files to be synced so that everything before `offset` is safe. Made on the loop; `sync` runs anywhere.

    The order is the promise: files first, then the recovery point moves. Leader epochs are synced with the data that
    was written in them, so a recovery point never passes an epoch that a crash could take away.
    """

    __slots__ = (
        "_clock", "_directory", "_files", "_names_changed", "_paths", "epochs_written", "history_changes", "offset",
        "synced", "took_s",
    )  # fmt: skip

    def __init__(
        self,
        files: Files,
        clock: Clock,
        directory: str,
        paths: list[str],
        *,
        names_changed: bool,
        offset: int,
        history_changes: int,
        epochs_written: int,
    ) -> None:
        """`names_changed`: `directory`, the log's, may have new files. `history_changes` and `epochs_written` are the
        log's counts now: if one has risen by the end, the flush says nothing of the log, or of its epochs. `took_s` is
        known once it is `synced`."""
        self.offset = offset
        self.history_changes = history_changes
        self.epochs_written = epochs_written
        self.synced, self.took_s = False, 0.0
        self._clock = clock
        self._files = files
        self._directory = directory
        self._paths = paths
        self._names_changed = names_changed

    def sync(self) -> None:
        """Block until all is on the disk. Files that were deleted meanwhile do not matter any more. Raises OSError."""
        began_s = self._clock.perf_counter()
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                self._files.open(path).sync()
        if self._names_changed:
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_directory(self._directory)
                self._files.sync_directory(self._directory.rpartition("/")[0])
        self.synced, self.took_s = True, self._clock.perf_counter() - began_s
