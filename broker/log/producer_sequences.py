"""Sequence numbers of idempotent producers: their order, and batches that were refused and will come again."""

from typing import Final

from odradek.protocol.errors import ErrorCode, KafkaError

LARGEST_SEQUENCE: Final = 2**31 - 1
IN_FLIGHT_MAX: Final = 5
"""Batches that an idempotent producer may have on their way to a partition."""
REFUSALS_MAX = 100
"""Most producers of a partition for which a refused batch is remembered; the oldest is forgotten first."""


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence number `count` later; after 2147483647 comes 0."""
    return (sequence + count) & LARGEST_SEQUENCE


def is_later(sequence: int, other: int) -> bool:
    """Tell whether `sequence` comes after `other`, across the wrap."""
    return 0 < (sequence - other) & LARGEST_SEQUENCE < 2**30


class RefusedLikewise(KafkaError):  # noqa: N818 - a refusal
    """Refusal of a batch that was sent behind a refused one, with the same error."""


class Refusal:
    """Batches of a producer that were refused, one after the other: the first sequence of the first and of the last."""

    __slots__ = ("code", "epoch", "first", "followers_left", "last")

    def __init__(self, epoch: int, first: int, last: int, code: ErrorCode) -> None:
        self.epoch, self.first, self.last, self.code = epoch, first, last, code
        self.followers_left = IN_FLIGHT_MAX - 1
        """Batches that may yet arrive behind them."""


class Refusals:
    """Batches of a partition's producers that were refused for now, as by a broker that leads a moment later.

    Batches that were on their way behind a refused one are refused with the same error, as if its cause still lasted
    when they arrive; their producer then sends all of them again, in order. Kafka says that they are out of order.
    On that librdkafka takes a new epoch and renumbers what it has for any partition, even a batch that is in the log
    and whose answer was lost with a leader: the log then has it twice. And the batch of a producer that is not known
    here yet would be appended before the one that it came behind.
    """

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Refusal] = {}
        """The one that was refused longest ago comes first."""

    def note(self, producer_id: int, epoch: int, sequence: int, code: ErrorCode, last_written: int) -> None:
        """Note that a batch was refused with `code`; `last_written` is the last sequence of the epoch here, or -1."""
        first = last = sequence
        former = self._by_producer.pop(producer_id, None)
        if former is not None and former.epoch == epoch and (last_written < 0 or is_later(former.last, last_written)):
            first = former.first if is_later(first, former.first) else first
            last = former.last if is_later(former.last, last) else last
        self._by_producer[producer_id] = Refusal(epoch, first, last, code)
        if len(self._by_producer) > REFUSALS_MAX:
            del self._by_producer[next(iter(self._by_producer))]

    def check(self, producer_id: int, epoch: int, sequence: int, expected: int | None = None) -> None:
        """Refuse a batch like those before it, if the `expected` one is among them; None: the producer is not known.

        Raises RefusedLikewise.
        """
        refused = self._by_producer.get(producer_id)
        if refused is None or refused.epoch != epoch or not is_later(sequence, refused.first):
            return
        if expected is not None and (is_later(refused.first, expected) or is_later(expected, refused.last)):
            return
        refused.followers_left -= 1
        if not refused.followers_left:
            del self._by_producer[producer_id]
        raise RefusedLikewise(
            refused.code,
            f"producer {producer_id} epoch {epoch}: {refused.first} was refused, and {sequence} came behind it",
        )

    def clear(self) -> None:
        """Forget all."""
        self._by_producer.clear()
