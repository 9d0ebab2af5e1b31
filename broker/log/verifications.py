"""Verifications: for which producers of a partition a transaction's coordinator is being asked (KIP-890).

Who asks, and why, stands in broker/transactions/transaction_verification.py.
Source: VerificationStateEntry and ProducerStateManager of Kafka 3.9.
"""

from typing import Final

from odradek.broker.log.producer_sequences import is_later
from odradek.protocol.errors import ErrorCode, KafkaError

VERIFICATIONS_MAX = 10_000
"""Most producers of a partition whose coordinators are asked at one time; of more, the oldest is dropped."""


class VerificationGuard:
    """Guard of an append while the coordinator is asked about its transaction; compared by identity, not by value.

    Holds the lowest sequence that was to be written in the newest epoch. A later batch must not overtake it when its
    verification has failed: then it would be out of order for ever.
    """

    __slots__ = ("asking", "began_ms", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, began_ms: int) -> None:
        self.epoch, self.lowest_sequence, self.began_ms = epoch, sequence, began_ms
        self.asking = 0
        """Requests that wait for the coordinator's answer."""

    def wanted_by(self, epoch: int, sequence: int) -> None:
        """Take note of a batch that is to be verified."""
        if epoch > self.epoch or (epoch == self.epoch and is_later(self.lowest_sequence, sequence)):
            self.epoch, self.lowest_sequence = epoch, sequence


UNGUARDED: Final = VerificationGuard(-1, -1, 0)
"""The guard of an append that needs none."""


class Verifications:
    """The guard of each producer whose coordinator was asked and who has written nothing since, oldest first."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def begin(self, producer_id: int, epoch: int, first_sequence: int, now_ms: int) -> VerificationGuard:
        """Return the guard for a batch of that epoch and sequence; requests that ask at the same time share it."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = VerificationGuard(epoch, first_sequence, now_ms)
            if len(self._guards) > VERIFICATIONS_MAX:
                del self._guards[next(iter(self._guards))]
        guard.wanted_by(epoch, first_sequence)
        guard.asking += 1
        return guard

    def end(self, producer_id: int, guard: VerificationGuard, *, refused: bool) -> None:
        """Note the coordinator's answer. Once it has `refused` for good, the guard is dropped.

        So producers that do not exist cannot crowd out the others.
        """
        guard.asking -= 1
        if refused and not guard.asking and self.stands(producer_id, guard):
            del self._guards[producer_id]

    def stands(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Tell whether this is the producer's guard, and nothing has been written since it was given out."""
        return guard is not None and self._guards.get(producer_id) is guard

    def check(self, producer_id: int, epoch: int, first_sequence: int, guard: VerificationGuard | None) -> None:
        """Refuse the first batch of a transaction that is not verified, or that would overtake another one.

        Raises KafkaError: INVALID_TXN_STATE, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if guard is None or not self.stands(producer_id, guard):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id}: not verified to be in an ongoing transaction"
            )
        if epoch == guard.epoch and is_later(first_sequence, guard.lowest_sequence):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} epoch {epoch}: sequence {first_sequence}, expected {guard.lowest_sequence}",
            )

    def forget(self, producer_id: int) -> None:
        """Forget the guard of a producer that began or ended a transaction: an answer may be about the one before."""
        self._guards.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget guards that were given out that long ago."""
        for producer_id, guard in list(self._guards.items()):
            if now_ms - guard.began_ms >= expiration_ms:
                del self._guards[producer_id]
