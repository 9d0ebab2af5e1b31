"""The offsets of one group: what it has committed, and what is on its way into the log.

A commit is staged when its append begins and becomes visible when the append is acknowledged, never before. Appends of
one partition are acknowledged in any order, so each carries a sequence number, and the later append wins. A commit in a
transaction becomes visible when the transaction is committed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from odradek.broker.groups.group_metadata import GroupMetadata, GroupState
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_names import PartitionKey

NO_EPOCH = -1
NO_OFFSET = -1
NO_EXPIRY = -1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed position: the offset of the next record to read."""

    offset: int
    commit_timestamp_ms: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    expire_timestamp_ms: int = NO_EXPIRY
    """Wall clock at which the offset expires if the client asked for that (OffsetCommit 2-4), else NO_EXPIRY."""


class FetchedOffset(NamedTuple):
    """Answer about a partition in OffsetFetch; NO_OFFSET without an error when nothing is committed."""

    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class _Appended(NamedTuple):
    committed: CommittedOffset
    sequence: int


TransactionOffsets = dict[PartitionKey, list[_Appended]]
"""Commits of one producer in one transaction. The last one of a partition counts; those before it are kept until the
last one is known to be written."""


class _Closed(NamedTuple):
    """A transaction with a marker in the leader's log that may not yet be in those of all replicas in sync."""

    producer_id: int
    marker: int
    """Sequence number of the marker."""
    committed: bool
    offsets: TransactionOffsets


class OffsetTable:
    """Offsets of one group. Pure bookkeeping: the shell appends, and says how it went."""

    def __init__(self) -> None:
        self._visible: dict[PartitionKey, _Appended] = {}
        self._staged: dict[PartitionKey, set[int]] = {}
        """Sequence numbers of the appends under way; removal of a partition takes its appends out, too."""
        self._open_transactions: dict[int, TransactionOffsets] = {}
        """Commits appended since the producer's last marker, by producer id."""
        self._closed_transactions: list[_Closed] = []
        self._doubtful: set[PartitionKey] = set()
        """Partitions of commits that were answered with an error, and may be in the log all the same: replication took
        too long. They count for nothing here, but the next coordinator reads them."""
        self._next_sequence = 0

    def __len__(self) -> int:
        """Return the number of partitions with a committed offset."""
        return len(self._visible)

    # commits

    def stage(self, partitions: Iterable[PartitionKey]) -> int:
        """Note that an append of commits for these partitions begins; return the sequence number to end it with."""
        sequence = self._take_sequence()
        for partition in partitions:
            self._staged.setdefault(partition, set()).add(sequence)
        return sequence

    def _take_sequence(self) -> int:
        self._next_sequence += 1
        return self._next_sequence - 1

    def acknowledge(self, sequence: int, offsets: Mapping[PartitionKey, CommittedOffset]) -> None:
        """Let commits count whose append every in-sync replica has. Partitions removed meanwhile stay removed."""
        for partition, committed in offsets.items():
            if sequence not in self._staged.get(partition, ()):
                continue
            visible = self._visible.get(partition)
            if visible is None or visible.sequence < sequence:
                self._visible[partition] = _Appended(committed, sequence)
        self._unstage(sequence, offsets)

    def fail(self, sequence: int, partitions: Iterable[PartitionKey]) -> None:
        """End an append that has failed: nothing of it becomes visible."""
        self._doubtful.update(self._unstage(sequence, partitions))

    def _unstage(self, sequence: int, partitions: Iterable[PartitionKey]) -> list[PartitionKey]:
        """End an append; return the partitions that were not removed meanwhile."""
        ended = [partition for partition in partitions if sequence in self._staged.get(partition, ())]
        for partition in ended:
            self._staged[partition].discard(sequence)
            if not self._staged[partition]:
                del self._staged[partition]
        return ended

    # loading and transactions

    def load(self, partition: PartitionKey, committed: CommittedOffset, sequence: int) -> None:
        """Take in a commit that was read from the log; `sequence` is the offset of its batch."""
        self._visible[partition] = _Appended(committed, sequence)
        self._next_sequence = max(self._next_sequence, sequence + 1)

    def load_transactional(
        self, producer_id: int, partition: PartitionKey, committed: CommittedOffset | None, sequence: int
    ) -> None:
        """Take in a commit (or its removal) that was read from the log and belongs to a transaction."""
        transaction = self._open_transactions.setdefault(producer_id, {})
        if committed is None:
            transaction.pop(partition, None)
        else:
            transaction[partition] = [_Appended(committed, sequence)]
        self._next_sequence = max(self._next_sequence, sequence + 1)

    def stage_in_transaction(self, producer_id: int, offsets: Mapping[PartitionKey, CommittedOffset]) -> int:
        """Note that an append of commits of a transaction begins, and return its sequence number.

        They count when the marker is in the log of every replica in sync; by then the commits are, too."""
        sequence = self._take_sequence()
        transaction = self._open_transactions.setdefault(producer_id, {})
        for partition, committed in offsets.items():
            transaction.setdefault(partition, []).append(_Appended(committed, sequence))
        return sequence

    def acknowledge_in_transaction(self, producer_id: int, sequence: int, partitions: Iterable[PartitionKey]) -> None:
        """End an append that every in-sync replica has: earlier commits of its partitions count no more."""
        transaction = self._open_transactions.get(producer_id, {})
        for partition in partitions:
            if partition in transaction:
                transaction[partition] = [one for one in transaction[partition] if one.sequence >= sequence]

    def fail_in_transaction(self, sequence: int) -> None:
        """End an append that has failed: nothing of it counts, whatever becomes of the transaction.

        Earlier commits of the transaction still count: the one that failed may have been a zombie's, which is refused.
        (In Kafka they do not, and the group goes on from where it was before the transaction.)
        """
        for transaction in self._transactions():
            for partition, appended in list(transaction.items()):
                transaction[partition] = [one for one in appended if one.sequence != sequence]
                if len(transaction[partition]) < len(appended):
                    self._doubtful.add(partition)
                if not transaction[partition]:
                    del transaction[partition]
        self._open_transactions = {
            at: transaction for at, transaction in self._open_transactions.items() if transaction
        }

    def close_transaction(self, producer_id: int, *, committed: bool) -> int:
        """Take the producer's marker, which is in the log of the leader by now: what is appended from now on stands
        behind it, and is no part of the transaction that it ends. Return its number, for `end_transactions`.

        The marker stays in the log while this broker leads, though it may take long until it is known to be replicated.
        So if a transaction has two markers, the first one decides what becomes of it."""
        marker = self._take_sequence()
        offsets = self._open_transactions.pop(producer_id, None)
        if offsets:
            self._closed_transactions.append(_Closed(producer_id, marker, committed, offsets))
        return marker

    def end_transactions(self, producer_id: int, marker: int) -> None:
        """End the transactions that the producer's markers up to this one have closed: every replica in sync has this
        marker, and so the ones before it. What was committed becomes visible unless a later commit is."""
        closed, self._closed_transactions = self._closed_transactions, []
        for one in closed:
            if one.producer_id != producer_id or one.marker > marker:
                self._closed_transactions.append(one)
                continue
            for partition, (*_, appended) in one.offsets.items():
                visible = self._visible.get(partition)
                if one.committed and (visible is None or visible.sequence < appended.sequence):
                    self._visible[partition] = appended

    def _transactions(self) -> Iterator[TransactionOffsets]:
        yield from self._open_transactions.values()
        yield from (one.offsets for one in self._closed_transactions)

    def has_transaction(self, producer_id: int) -> bool:
        """Tell whether there are commits in a transaction of the producer that has not come to its end."""
        return producer_id in self._open_transactions or any(
            one.producer_id == producer_id for one in self._closed_transactions
        )

    @property
    def open_producers(self) -> Collection[int]:
        """Ids of the producers whose open transactions have commits here."""
        return self._open_transactions.keys()

    # reading

    def get(self, partition: PartitionKey) -> CommittedOffset | None:
        """Return what the group has committed for the partition."""
        appended = self._visible.get(partition)
        return None if appended is None else appended.committed

    def fetch(self, partition: PartitionKey, *, require_stable: bool) -> FetchedOffset:
        """Return what OffsetFetch is told; with `require_stable`, not while a commit is under way (KIP-447)."""
        if require_stable and not self.is_stable(partition):
            return FetchedOffset(error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.get(partition)
        if committed is None:
            return FetchedOffset()
        return FetchedOffset(committed.offset, committed.leader_epoch, committed.metadata)

    def items(self) -> list[tuple[PartitionKey, CommittedOffset]]:
        """List all visible offsets."""
        return [(partition, appended.committed) for partition, appended in self._visible.items()]

    def is_stable(self, partition: PartitionKey) -> bool:
        """Tell whether no commit of the partition is under way or in an open transaction (KIP-447)."""
        if partition in self._staged:
            return False
        return all(partition not in transaction for transaction in self._transactions())

    def partitions(self) -> Collection[PartitionKey]:
        """Return the partitions that may have records in the log."""
        return dict.fromkeys(chain(self._visible, self._staged, self._doubtful, *self._transactions()))

    def is_empty(self) -> bool:
        """Tell whether nothing is, or may become, visible."""
        return not (self._visible or self._staged or any(self._transactions()))

    # removal

    def remove(self, partitions: Iterable[PartitionKey]) -> list[PartitionKey]:
        """Forget these partitions, in open transactions, too. Return those that may have records in the log, visible or
        not: they need tombstones.

        A commit that only a transaction has needs one as well: it takes the commit out of the transaction for whoever
        reads the log. Without it, the next coordinator would have the offset again once the transaction is committed.
        (Kafka's has; OffsetMetadataManager, by which later versions replace it, does as here.)
        """
        removed = []
        for partition in partitions:
            parts = [transaction.pop(partition, None) for transaction in self._transactions()]
            outside = self._staged.pop(partition, None), self._visible.pop(partition, None)
            if any([*parts, *outside, partition in self._doubtful]):
                removed.append(partition)
            self._doubtful.discard(partition)
        return removed


def expired(group: GroupMetadata, offsets: OffsetTable, now_ms: int, retention_ms: int) -> list[PartitionKey]:
    """Return the partitions whose offsets have expired.

    A group without members keeps its offsets for the retention since it became empty; a stable group of consumers keeps
    those of the topics that it reads, and others since their commit; a group that never had members (offsets committed
    by hand) since their commit; in all other groups nothing expires. A client's own retention overrides the time.

    Nothing expires while a later commit is under way or in a transaction that has not ended: the tombstone would stand
    behind that commit in the log, so compaction would remove the commit, and the next coordinator would not know it.
    (Kafka 3.9 loses the offset this way; OffsetMetadataManager of later versions waits.)
    """
    if group.protocol_type is None:
        kept: frozenset[str] = frozenset()
        since_ms = None
    elif group.state is GroupState.EMPTY:
        kept = frozenset()
        since_ms = group.state_since_ms if group.state_since_ms >= 0 else None
    elif group.state is GroupState.STABLE and group.subscribed_topics is not None:
        kept = group.subscribed_topics
        since_ms = None
    else:
        return []
    return [
        partition
        for partition, committed in offsets.items()
        if partition[0] not in kept
        and _is_over(committed, now_ms, retention_ms, since_ms)
        and offsets.is_stable(partition)
    ]


def _is_over(committed: CommittedOffset, now_ms: int, retention_ms: int, since_ms: int | None) -> bool:
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - (committed.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms
