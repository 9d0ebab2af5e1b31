"""Journal: the last entries about what a broker and its controller did, and why.

An entry belongs to an event (a watch that fired, a request, a timer). It says which rule was followed, what was written
to ZooKeeper, with epochs and versions, or which requests were sent. The journal is only in memory; the state-change log
is the lasting record. Readers get entries as plain data, which can leave the broker as JSON. Until then an entry refers
to the controller's own values for states of partitions: ten thousand changes then take half the memory.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

ENTRIES_MAX: Final = 10_000
"""Entries that are kept. `forgotten` counts older ones that are gone, so that a reader knows that some are missing."""

OF_EVENTS: Final = frozenset({"broker", "controller", "failure", "partition", "requests", "write"})
"""Kinds of entries that follow from an event of the controller. Others, of groups, leaders and followers, may come
between them."""

Entry = dict[str, Any]


def plain(entry: Entry) -> Entry:
    """Return an entry as plain data: a value with `facts()` is replaced by what that returns."""
    return {name: value.facts() if hasattr(value, "facts") else value for name, value in entry.items()}


class Journal:
    """Entries in the order in which things happened, with growing numbers."""

    def __init__(self, now_ms: Callable[[], int], entries_max: int = ENTRIES_MAX) -> None:
        self._now_ms = now_ms
        self._entries: deque[Entry] = deque(maxlen=entries_max)
        self._noted = 0
        self._event, self._event_number = "", 0
        self.began_ms = now_ms()
        """When the journal began, in ms since 1970: it has nothing from before."""

    def begin(self, event: str) -> None:
        """Set the event to which the entries from now on belong; empty for none."""
        self._event = event
        if event:
            self._event_number += 1

    def note(self, kind: str, subject: str, **facts: Any) -> Entry:
        """Add an entry about a partition, a broker or a group, and return it; `plain` turns it into plain data.

        Each value in `facts` must be one that JSON can represent, or immutable and have `facts()`.
        """
        self._noted += 1
        entry: Entry = {"number": self._noted, "at_ms": self._now_ms(), "kind": kind, "subject": subject}
        if self._event and kind in OF_EVENTS:
            entry["event"], entry["event_number"] = self._event, self._event_number
        entry.update(facts)
        self._entries.append(entry)
        return entry

    @property
    def forgotten(self) -> int:
        """Number of entries that are gone, to make room for others."""
        return self._noted - len(self._entries)

    @property
    def last(self) -> int:
        """Number of the last entry; 0 before there was one."""
        return self._noted

    def entries(self, after: int = 0) -> list[Entry]:
        """Return the entries with a greater number than `after`, oldest first."""
        return [plain(entry) for entry in islice(self._entries, max(0, after - self.forgotten), None)]
