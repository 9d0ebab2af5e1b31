"""The records of a coordinator's topic that nobody can read."""

from odradek.protocol.errors import MalformedMessage


class SkippedRecords:
    """Records that a replay has passed over because their key or value is nonsense: one of them must not keep all that
    lives in the partition from being served. `count` of them, and what is wrong with the first."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def add(self, offset: int, error: MalformedMessage) -> None:
        """Pass over the record at that offset."""
        self.count += 1
        self.first = self.first or f"offset {offset}: {error}"
