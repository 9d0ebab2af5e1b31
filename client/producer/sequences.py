"""Idempotence: producer id, epoch and the sequence of every batch (KIP-98, KIP-360; Java's TransactionManager).

No I/O. The rules, for one partition:
- a batch gets the next sequence at its first send and keeps it through retries;
- a batch that is sent again waits until it is the oldest one that is not acknowledged;
- the oldest batch that is not acknowledged is always among the last five sent, acknowledged or not: a broker
  remembers five, and must be able to tell that it already has that batch;
- until a broker has acknowledged a batch under the present identity, only one is on the wire: a broker that has no
  state of the producer accepts whatever sequence comes first (Kafka's ProducerAppendInfo), even a later batch's;
- a gap that retries cannot close is closed by a higher producer epoch: once nothing of the partition is on the wire,
  its batches that are left are numbered again from 0. A broker accepts 0 from a new epoch and refuses the old epoch.
"""

from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field

from odradek.client.producer.batch import ProducerBatch, following_sequence
from odradek.client.records import TopicPartition
from odradek.protocol.errors import RETRIABLE, ErrorCode
from odradek.protocol.record_batch import NO_SEQUENCE

BATCHES_REMEMBERED_BY_BROKER = 5
HIGHEST_EPOCH = 32_767


@dataclass(slots=True)
class PartitionSequences:
    """Sequences of a partition. `unacknowledged`, in order of sequence: batches on the wire, or waiting for a retry."""

    producer_id: int = -1
    producer_epoch: int = -1
    next_sequence: int = 0
    last_acknowledged: int = NO_SEQUENCE
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED_BY_BROKER - 1))
    """First sequences of the batches that were sent last."""
    unacknowledged: list[ProducerBatch] = field(default_factory=list)

    def restart(self, producer_id: int, producer_epoch: int) -> None:
        """Number all unacknowledged batches from 0, in the same order, under a new identity."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next_sequence = 0
        self.last_acknowledged = NO_SEQUENCE
        self.recent.clear()
        for batch in self.unacknowledged:
            batch.producer_id, batch.producer_epoch = producer_id, producer_epoch
            self._number(batch)

    def add(self, batch: ProducerBatch) -> None:
        """Number a new batch."""
        batch.producer_id, batch.producer_epoch = self.producer_id, self.producer_epoch
        self._number(batch)
        self.unacknowledged.append(batch)

    def _number(self, batch: ProducerBatch) -> None:
        batch.base_sequence = self.next_sequence
        self.next_sequence = following_sequence(self.next_sequence, len(batch))
        self.recent.append(batch.base_sequence)

    def has_room(self) -> bool:
        """Tell whether one more batch may be sent. If others are unacknowledged, the broker must have state of the
        producer, and still remember the oldest of them after this one."""
        if not self.unacknowledged:
            return True
        return self.last_acknowledged != NO_SEQUENCE and self.unacknowledged[0].base_sequence in self.recent

    def overtaken(self, batch: ProducerBatch) -> bool:
        """Tell whether a later batch has been acknowledged: sent again, this one would be behind it in the log."""
        return not _after(batch.base_sequence, self.last_acknowledged)

    def split(self, batch: ProducerBatch, halves: tuple[ProducerBatch, ProducerBatch]) -> None:
        """Put the two halves of a batch in its place."""
        place = next(index for index, other in enumerate(self.unacknowledged) if other is batch)
        self.unacknowledged[place : place + 1] = halves
        known = list(self.recent)
        if batch.base_sequence in known:
            known.insert(known.index(batch.base_sequence) + 1, halves[1].base_sequence)
            self.recent = deque(known, maxlen=BATCHES_REMEMBERED_BY_BROKER - 1)

    def expected(self) -> int:
        """Return the sequence that the broker expects next, as far as acknowledgements tell."""
        return 0 if self.last_acknowledged == NO_SEQUENCE else following_sequence(self.last_acknowledged, 1)


class ProducerSequences:
    """Sequences of one idempotent producer, in all its partitions."""

    def __init__(self) -> None:
        self.producer_id = -1
        self.producer_epoch = -1
        self._unused = False
        """True while the identity is new, and no batch carries it yet."""
        self.partitions: dict[TopicPartition, PartitionSequences] = {}
        self._unresolved: set[TopicPartition] = set()
        """Partitions where a batch was given up that the broker may or may not have: no new batch is sent there."""
        self._restart_wanted: set[TopicPartition] = set()

    @property
    def has_identity(self) -> bool:
        """Tell whether the producer has an id; without one nothing can be sent."""
        return self.producer_id >= 0

    def identify(self, producer_id: int, producer_epoch: int) -> None:
        """Use from now on the identity that InitProducerId has returned."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._unused = True

    def may_send(self, batch: ProducerBatch) -> bool:
        """Tell whether this batch, the oldest of its partition that is queued, may be sent now."""
        if not self.has_identity or batch.topic_partition in self._restart_wanted:
            return False
        partition = self.partitions.get(batch.topic_partition)
        if batch.base_sequence >= 0:
            assert partition is not None, f"{batch.topic_partition}: a sequence from nowhere"
            return partition.unacknowledged[0] is batch
        return (partition is None or partition.has_room()) and batch.topic_partition not in self._unresolved

    def assign(self, batch: ProducerBatch) -> None:
        """Give a batch its sequence, when it is sent for the first time."""
        if batch.base_sequence >= 0:
            return
        partition = self.partitions.setdefault(batch.topic_partition, PartitionSequences())
        same = (partition.producer_id, partition.producer_epoch) == (self.producer_id, self.producer_epoch)
        if not same and not partition.unacknowledged:
            partition.restart(self.producer_id, self.producer_epoch)
        partition.add(batch)

    def acknowledged(self, batch: ProducerBatch) -> None:
        """Note that the broker has a batch, even if as a duplicate, or if it was given up before the answer came."""
        partition = self.partitions[batch.topic_partition]
        same = (batch.producer_id, batch.producer_epoch) == (partition.producer_id, partition.producer_epoch)
        if same and _after(batch.last_sequence, partition.last_acknowledged):
            partition.last_acknowledged = batch.last_sequence
        self._forget(batch)

    def replaced(self, batch: ProducerBatch, halves: tuple[ProducerBatch, ProducerBatch]) -> None:
        """Note that a batch was split; its halves share its sequences."""
        self.partitions[batch.topic_partition].split(batch, halves)

    def may_retry(self, batch: ProducerBatch, error: ErrorCode) -> bool:
        """Tell whether a refused batch is sent again; asks for a new epoch where retrying alone cannot help.

        When a broker lacks what comes before this batch, or has forgotten the producer, the batch is sent again as long
        as an earlier one is open, which closes the gap. When this batch is the oldest, nothing closes it but a new
        epoch; unless a later batch was acknowledged: rather than be written out of order, this one is then retried
        under the old epoch until it fails (Java's TransactionManager.canRetry).
        """
        if error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            partition = self.partitions[batch.topic_partition]
            if partition.unacknowledged[0] is batch and not partition.overtaken(batch):
                self._restart_wanted.add(batch.topic_partition)
            return True
        return error in RETRIABLE

    def gave_up(self, batch: ProducerBatch, *, refused: bool) -> None:
        """Note that a batch has failed for good. `refused`: the broker certainly lacks it; otherwise it may have it.

        If this is not the oldest batch, the earlier ones are sent again before the sequences restart: the broker may
        have one of them whose answer was lost.
        """
        if batch.base_sequence < 0:
            return
        is_oldest = self.partitions[batch.topic_partition].unacknowledged[0] is batch
        self._forget(batch)
        (self._restart_wanted if refused and is_oldest else self._unresolved).add(batch.topic_partition)

    def settle(self, on_wire: Container[TopicPartition]) -> None:
        """Restart the sequences of partitions that need it and have nothing on the wire. Before each plan."""
        for topic_partition in [tp for tp in self._unresolved if tp not in on_wire]:
            partition = self.partitions[topic_partition]
            if partition.unacknowledged:
                continue
            self._unresolved.discard(topic_partition)
            if partition.expected() != partition.next_sequence:
                self._restart_wanted.add(topic_partition)
        restarted = [tp for tp in self._restart_wanted if tp not in on_wire]
        unused, self._unused = self._unused, False
        if not restarted or not (unused or self._raise_epoch()):
            return
        for topic_partition in restarted:
            self._restart_wanted.discard(topic_partition)
            self._unresolved.discard(topic_partition)
            self.partitions[topic_partition].restart(self.producer_id, self.producer_epoch)

    def _raise_epoch(self) -> bool:
        """Raise the epoch. Return False where that cannot be: beyond the highest epoch, for which a new producer id has
        to be asked for, and without an identity."""
        if not self.has_identity:
            return False
        if self.producer_epoch >= HIGHEST_EPOCH:
            self.producer_id = self.producer_epoch = -1
            return False
        self.producer_epoch += 1
        return True

    def _forget(self, batch: ProducerBatch) -> None:
        waiting = self.partitions[batch.topic_partition].unacknowledged
        self.partitions[batch.topic_partition].unacknowledged = [other for other in waiting if other is not batch]


def _after(sequence: int, other: int) -> bool:
    """Tell whether a sequence is later than another, on the circle where 0 follows the highest."""
    return other == NO_SEQUENCE or 0 < ((sequence - other) & 0x7FFFFFFF) < 0x40000000
