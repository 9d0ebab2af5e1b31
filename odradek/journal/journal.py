"""The journal: the last entries about what a broker and its controller did, and why.

An entry belongs to an event (a watch that fired, a request, a timer); it says the rule that was followed, what was
written to ZooKeeper, with epochs and versions, or which requests were sent. In memory only: a state-change log is what
lasts. Whoever reads them is given plain data, so that they leave the broker as JSON. Until then states of partitions
are kept as they are, which the controller has anyway: ten thousand changes take half the memory.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

ENTRIES_MAX: Final = 10_000
"""Older entries go. `forgotten` says how many have gone, so that a reader knows what it does not see."""

OF_EVENTS: Final = frozenset({"broker", "controller", "failure", "partition", "requests", "write"})
"""Kinds of entries that follow from an event of the controller; groups, leaders and followers go on meanwhile."""

Entry = dict[str, Any]


def plain(entry: Entry) -> Entry:
    """Return an entry as plain data: what has `facts()` says itself what JSON can say of it."""
    return {name: value.facts() if hasattr(value, "facts") else value for name, value in entry.items()}


class Journal:
    """Entries in the order in which things happened, with growing numbers."""

    def __init__(self, now_ms: Callable[[], int], entries_max: int = ENTRIES_MAX) -> None:
        self._now_ms = now_ms
        self._entries: deque[Entry] = deque(maxlen=entries_max)
        self._noted = 0
        self._event, self._event_number = "", 0
        self.began_ms = now_ms()
        """Since when it notes; what was before, nobody here knows."""

    def begin(self, event: str) -> None:
        """Say which event the entries from now on belong to; empty: to none."""
        self._event = event
        if event:
            self._event_number += 1

    def note(self, kind: str, subject: str, **facts: Any) -> Entry:
        """Add an entry about a partition, a broker or a group, and return it: `plain` makes it readable.

        `facts` must be what JSON can say, or immutable and have `facts()`.
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
        """Entries that have gone to make room."""
        return self._noted - len(self._entries)

    @property
    def last(self) -> int:
        """Number of the last entry; 0 before there was one."""
        return self._noted

    def entries(self, after: int = 0) -> list[Entry]:
        """Return the entries with a greater number than `after`, oldest first."""
        return [plain(entry) for entry in islice(self._entries, max(0, after - self.forgotten), None)]
