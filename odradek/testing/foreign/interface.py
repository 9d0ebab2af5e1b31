"""Interface of any client as a test uses it, and the values it gets back."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.testing.patience import PATIENCE_SECONDS

ALL_CODECS = ("gzip", "snappy", "lz4", "zstd")
LINGER_MS = 500
"""Long enough for records that are sent one after the other to be one batch, though a busy machine lets the process
wait: what is left for a batch of its own some clients send uncompressed, where that is shorter."""

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """Record that a producer hands in and a consumer must get: the same in every respect."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Member(ABC):
    """A consumer of a group, which polls by itself until it is closed."""

    @abstractmethod
    def assignment(self) -> set[int]:
        """Return the partitions it holds."""

    @abstractmethod
    def received(self) -> list[tuple[int, int]]:
        """List (partition, offset) of all it has got so far, in the order of arrival."""

    @abstractmethod
    def close(self) -> None:
        """Commit what it has received and leave the group. A second call does nothing."""


class MemberOnThread(Member):
    """Member whose consumer polls on a thread of its own, which begins with the last line of a subclass's __init__."""

    def __init__(self) -> None:
        self._held: set[int] = set()
        self._received: list[tuple[int, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def _run(self) -> None:
        """Poll until `_stop` is set, keeping `_held` and `_received`; then close the consumer."""

    def assignment(self) -> set[int]:
        return self._held

    def received(self) -> list[tuple[int, int]]:
        return list(self._received)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "a consumer that does not close"


class Client(ABC):
    """A foreign client. Topics exist before it is asked for anything."""

    name: str
    codecs: tuple[str, ...] = ALL_CODECS
    sets_timestamps = True
    """False when the producer cannot give a timestamp: then the broker's readers must agree with one another."""
    headers_per_record = True
    """False when all records of one run have the same headers."""

    @abstractmethod
    def produce(self, topic: str, codec: str, records: Sequence[Record], *, idempotent: bool = False) -> None:
        """Produce to partition 0 with acks=all; return when all are acknowledged. `codec` may be "none"."""

    @abstractmethod
    def consume(self, topic: str, count: int) -> list[Record]:
        """Return the first `count` records of partition 0, read without a group."""

    @abstractmethod
    def join(self, group: str, topic: str, strategy: str | None = None) -> Member:
        """Return a new member of a group, at once; it starts at the beginning where nothing is committed.

        `strategy`: range, roundrobin, sticky or cooperative-sticky, if the client has it; None for its own choice.
        """

    def close(self) -> None:
        """End what runs for it."""
        return
