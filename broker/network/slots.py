"""The requests of one connection that are not answered yet, in their order (FEATURES N2: answers in order)."""

from collections import deque
from collections.abc import Callable

from odradek.broker.requests.dispatch import Deferred
from odradek.protocol.fields import Message
from odradek.protocol.primitives import Part


class Slot:
    """The place of one answer. `answer` is what handlers know as `respond`."""

    __slots__ = ("_answered", "deferred", "overtaken", "parts", "size_bytes")

    def __init__(
        self, deferred: Deferred | None, overtaken: bool, answered: Callable[["Slot", Message, int], object]
    ) -> None:
        self.deferred = deferred
        self.overtaken = overtaken
        """Whether requests that came later may be handled before this one is answered."""
        self.parts: list[Part] | None = None
        self.size_bytes = 0
        self._answered = answered

    def answer(self, response: Message, throttle_ms: int = 0) -> None:
        """See odradek.broker.requests.outcome.Respond."""
        self._answered(self, response, throttle_ms)

    def fill(self, parts: list[Part]) -> None:
        """The answer is known."""
        self.parts = parts
        self.size_bytes = sum(map(len, parts))
        self.deferred = None


class Slots:
    """A queue of slots: filled in any order, emptied from the front."""

    __slots__ = ("_queue", "_waiting", "filled_bytes")

    def __init__(self) -> None:
        self._queue: deque[Slot] = deque()
        self._waiting = 0
        self.filled_bytes = 0
        """Size of the answers that wait for one before them."""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def must_wait(self) -> bool:
        """Whether there is a request without an answer that may not be overtaken."""
        return self._waiting > 0

    def add(self, slot: Slot) -> None:
        """Behind the others."""
        self._queue.append(slot)
        if slot.parts is not None:
            self.filled_bytes += slot.size_bytes
        elif not slot.overtaken:
            self._waiting += 1

    def fill(self, slot: Slot, parts: list[Part]) -> None:
        """The answer of one of them."""
        assert slot.parts is None, "answered twice"
        slot.fill(parts)
        self.filled_bytes += slot.size_bytes
        if not slot.overtaken:
            self._waiting -= 1

    def take_ready(self, push: Callable[[list[Part]], object]) -> None:
        """Hand over, in order, the answers that no unanswered request precedes."""
        queue = self._queue
        while queue and (parts := queue[0].parts) is not None:
            slot = queue.popleft()
            self.filled_bytes -= slot.size_bytes
            push(parts)

    def clear(self) -> None:
        """The connection is closed."""
        self._queue.clear()
        self._waiting = self.filled_bytes = 0
