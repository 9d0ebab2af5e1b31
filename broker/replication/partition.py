"""A partition as this broker holds it: its role, the in-sync replicas and the high watermark.

Rules only: a partition changes its own state and its log, and returns what others are to be told. It is used on the
broker's loop. Two epochs fence it: the leader epoch (who leads) and the partition epoch (the version of the state
znode, and so which ISR). A request that carries an older one changes nothing.
"""

import math
from collections.abc import Iterable, Sequence

from odradek.broker.log.batches import Appended, Origin
from odradek.broker.log.local_log import LogSlice
from odradek.broker.log.log import Log
from odradek.broker.log.verifications import UNGUARDED, VerificationGuard
from odradek.broker.metrics.counters import TopicCounters
from odradek.broker.replication.isr import (
    NO_BROKER_EPOCH,
    FollowerProgress,
    IsrCriteria,
    PartitionView,
    PendingIsr,
    broker_set,
)
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import ZERO_UUID
from odradek.world.files import Buffer

NO_LEADER = -1
NO_EPOCH = -1


class Partition:
    """A replica of one partition.

    `committed_isr` is what ZooKeeper holds; `pending_isr` is the one change in flight. The high watermark waits for
    both (`maximal_isr`), since nobody knows yet which of the two the controller will have written;
    `min.insync.replicas` counts the committed one only (Kafka: PartitionState in Partition.scala).
    """

    __slots__ = (
        "adding", "advanced", "appended", "committed_isr", "counters", "criteria", "followers", "high_watermark",
        "index", "is_leader", "leader", "leader_epoch", "leader_epoch_start_offset", "leaving", "local_id", "log",
        "low_watermark_moved", "offline", "partition_epoch", "pending_isr", "removing", "replicas", "topic", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        index: int,
        local_id: int,
        log: Log,
        high_watermark: int = 0,
        criteria: IsrCriteria = IsrCriteria(),
        counters: TopicCounters | None = None,
    ) -> None:
        """`high_watermark` is the one that was checkpointed last; it is moved within the bounds of the log."""
        self.topic, self.index, self.local_id = topic, index, local_id
        self.topic_id = ZERO_UUID
        self.log, self.criteria = log, criteria
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.is_leader = False
        self.leader, self.leader_epoch, self.partition_epoch = NO_LEADER, NO_EPOCH, NO_EPOCH
        self.leader_epoch_start_offset, self.offline = -1, False
        self.replicas: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.committed_isr = self.leaving = broker_set(())
        """Members that are `leaving` are no replicas any more: a reassignment has come to its end."""
        self.pending_isr: PendingIsr | None = None
        self.followers: dict[int, FollowerProgress] = {}
        self.counters = counters or TopicCounters()
        self.appended, self.advanced, self.low_watermark_moved = object(), object(), object()
        """Keys of the purgatory: the log has grown; the high watermark has moved; the start of the leader's log or of
        a follower's has moved. All are touched when the role changes."""

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else f"follower of {self.leader}"
        return f"<{self.topic}-{self.index} {role} epoch {self.leader_epoch} isr {sorted(self.committed_isr)}>"

    # ---- roles

    def lead(self, view: PartitionView, now_ms: float) -> PendingIsr | None:
        """Become, or go on as, the leader of `view.leader_epoch`; return the change that the controller is to write.

        A new epoch begins at the current end of the log. What followers fetched under the previous epoch no longer
        counts, and those in the ISR count as caught up. The same epoch with a newer partition epoch only changes the
        ISR. After an unclean election this leader's log is the partition's log from now on: the controller is to write
        that the partition has recovered. In all other cases the result is None.
        """
        new_epoch = view.leader_epoch > self.leader_epoch or not self.is_leader
        self._adopt(view)
        if new_epoch:
            if self.log.epochs.latest < view.leader_epoch:
                self.log.assign_epoch(view.leader_epoch, self.log.log_end_offset)
            self.leader_epoch_start_offset = self.log.log_end_offset
            self.followers = {}
        known = self.followers
        self.followers = {
            broker: known.get(broker) or FollowerProgress(broker, now_ms if broker in view.isr else -math.inf)
            for broker in view.replicas
            if broker != self.local_id
        }
        self.is_leader = True
        self.advance_high_watermark()
        return self._propose(self.committed_isr) if view.recovering and self.pending_isr is None else None

    def follow(self, view: PartitionView) -> None:
        """Become a follower; from now on only the leader proposes changes of the ISR."""
        self._adopt(view)
        self.is_leader, self.pending_isr, self.followers = False, None, {}

    def stop_leading(self) -> None:
        """Lead and follow nobody: the ZooKeeper session is gone, the replica is stopped here, or its disk has failed.

        The epochs stay, so that a request with an older one still changes nothing.
        """
        self.is_leader, self.leader, self.pending_isr, self.followers = False, NO_LEADER, None, {}

    def _adopt(self, view: PartitionView) -> None:
        told_again = (view.leader_epoch, view.partition_epoch) == (self.leader_epoch, self.partition_epoch)
        if not told_again:
            self.pending_isr = None  # else it is as open as before: the controller's answer may be on its way
        self.leader, self.leader_epoch = view.leader, view.leader_epoch
        self.partition_epoch = view.partition_epoch
        self.replicas, self.adding, self.removing = view.replicas, view.adding, view.removing
        self._commit_isr(view.isr)

    def _commit_isr(self, isr: tuple[int, ...]) -> None:
        self.committed_isr, staying = broker_set(isr), (*self.replicas, self.local_id)
        self.leaving = broker_set(tuple(broker for broker in isr if broker not in staying))

    def check_leadership(self, current_leader_epoch: int = NO_EPOCH, *, or_follower: bool = False) -> ErrorCode:
        """Return why a client that names `current_leader_epoch` (-1: none) cannot be served here; NONE if it can.

        `or_follower`: a follower that knows its leader may serve the client too (KIP-392).
        """
        if self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        served = self.is_leader or (or_follower and self.leader != NO_LEADER)
        return ErrorCode.NONE if served else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # ---- writing and reading

    def append_as_leader(
        self, records: Buffer, acks: int, origin: Origin = Origin.CLIENT, guard: VerificationGuard | None = UNGUARDED
    ) -> tuple[Appended, bool]:
        """Append a client's or a coordinator's batches; also tell whether the high watermark moved. Leaders only.

        `guard` is handed to `Log.append_as_leader`, which knows when one is needed.
        Raises KafkaError: NOT_ENOUGH_REPLICAS (acks=all with fewer in the committed ISR than `min.insync.replicas`:
        nothing is written), and what the log refuses.
        """
        assert self.is_leader, f"an append to {self}"
        if acks == -1 and self.under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic}-{self.index} has {len(self.committed_isr)} replicas in sync, "
                f"min.insync.replicas is {self.log.config.min_insync_replicas}",
            )
        for follower in self.followers.values():
            follower.overtaken(self.log.log_end_offset)
        appended = self.log.append_as_leader(records, self.leader_epoch, origin=origin, guard=guard)  # type: ignore[arg-type]
        return appended, self.advance_high_watermark()

    def append_as_follower(self, records: Buffer, leader_high_watermark: int, leader_log_start: int) -> bool:
        """Append what the leader sent and take over its high watermark and log start, as far as our log reaches; tell
        whether the high watermark moved.

        Raises KafkaError: CORRUPT_MESSAGE, StorageFailure, and what else the log refuses.
        """
        if len(records):
            self.log.append_as_follower(records, self.leader_epoch)
        former = self.high_watermark
        self.high_watermark = max(self.high_watermark, min(leader_high_watermark, self.log.log_end_offset))
        self.log.producers.replicated_up_to(self.high_watermark)
        if leader_log_start > self.log.log_start_offset:
            self.log.advance_log_start_offset(leader_log_start)
            self.high_watermark = max(self.high_watermark, self.log.log_start_offset)
        return self.high_watermark != former

    def truncate_to(self, offset: int) -> None:
        """Drop what the leader does not have, from `offset` on. Raises StorageFailure, KafkaError CORRUPT_MESSAGE."""
        self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def drop_unconfirmed(self) -> None:
        """Keep only what is certainly replicated, when this is a new follower whose log has no leader epochs (message
        formats 0 and 1): it cannot find out where its log and the leader's part.

        Raises StorageFailure. Source: Kafka, truncateToHighWatermark.
        """
        if self.log.epochs.latest == NO_EPOCH and self.high_watermark < self.log.log_end_offset:
            self.truncate_to(max(self.high_watermark, self.log.log_start_offset))

    def start_over_at(self, offset: int) -> None:
        """Drop everything and begin at `offset`: the leader's log begins above our end. Raises StorageFailure."""
        self.log.truncate_fully_and_start_at(offset)
        self.high_watermark = offset

    @property
    def last_stable_offset(self) -> int:
        """Offset before which the outcome of every transaction is known, and replicated."""
        return self.log.last_stable_offset(self.high_watermark)

    def read(
        self, offset: int, max_bytes: int, *, to_the_end: bool, whole_first_batch: bool, committed: bool = False
    ) -> LogSlice:
        """Read up to the high watermark; a follower reads `to_the_end` of the log, one who wants only what is
        `committed` up to the last stable offset. Raises KafkaError, as Log.read does."""
        end = self.high_watermark
        if to_the_end:
            end = self.log.log_end_offset
        elif committed:
            end = self.last_stable_offset
        return self.log.read(offset, max_bytes, end, whole_first_batch=whole_first_batch)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """Return (epoch, end offset) where a follower's history leaves ours, or None while it does not (KIP-595).

        Raises KafkaError OFFSET_OUT_OF_RANGE when our epochs or our log do not reach back that far: then truncating
        step by step would lead nowhere.
        """
        epoch, end_offset = self.log.end_offset_for_epoch(last_fetched_epoch)
        if epoch == NO_EPOCH or end_offset == -1 or fetch_offset < self.log.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic}-{self.index}: epoch {last_fetched_epoch} at {fetch_offset} is not in our history",
            )
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    # ---- in-sync replicas and the high watermark

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Brokers of the committed ISR, and of the pending one, which the controller may have written by now."""
        return self.committed_isr if self.pending_isr is None else self.committed_isr | self.pending_isr.broker_ids

    @property
    def under_min_isr(self) -> bool:
        """True when fewer replicas are in sync than acks=all needs, which is never more than the partition has."""
        return len(self.committed_isr) < min(self.log.config.min_insync_replicas, max(len(self.replicas), 1))

    def advance_high_watermark(self) -> bool:
        """Move the high watermark up to the smallest log end in the maximal ISR, never back; tell whether it moved.

        It also waits for followers that are about to join the ISR. Otherwise a leader alone in its ISR would commit
        each record at once, and a follower that is one round trip behind would never reach the high watermark, as it
        must to be let in (Kafka: Partition.maybeIncrementLeaderHW, shouldWaitForReplicaToJoinIsr).

        It stands still while a member of the ISR is no replica any more: the next controller, who may still find the
        old assignment, would elect it, without what was committed meanwhile (Kafka goes on without that member).
        """
        end = watermark = self.log.log_end_offset
        if self.high_watermark == end or self.under_min_isr:
            return False
        if self.followers:
            isr = self.committed_isr if self.pending_isr is None else self.maximal_isr
            for broker, follower in self.followers.items():
                if follower.log_end < watermark and (broker in isr or self._is_about_to_join(follower, end)):
                    watermark = follower.log_end
        if watermark <= self.high_watermark or self.leaving:
            return False
        self.high_watermark = watermark
        self.log.producers.replicated_up_to(watermark)
        return True

    def _is_about_to_join(self, follower: FollowerProgress, log_end: int) -> bool:
        lag_time_ms_max, is_alive, _ = self.criteria
        now_ms = self.log.environment.clock.monotonic_ms()
        return follower.is_caught_up(log_end, now_ms, lag_time_ms_max) and is_alive(follower.broker_id)

    def follower_fetched(
        self,
        broker_id: int,
        offset: int,
        log_start: int,
        broker_epoch: int,
        now_ms: float,
        current_leader_epoch: int = NO_EPOCH,
    ) -> tuple[bool, PendingIsr | None]:
        """Note a follower's fetch; return whether the high watermark moved, and the ISR change that follows from it.

        Raises KafkaError for a broker that is no replica of this partition, or not yet as far as this leader knows:
        UNKNOWN_LEADER_EPOCH when it named the epoch, NOT_LEADER_OR_FOLLOWER when it did not. Both make it ask again.
        NOT_LEADER_OR_FOLLOWER also for a late fetch, from before the broker registered anew: what it had then, it may
        have lost. Sources: Kafka, Partition.followerReplicaOrThrow, Replica.updateFetchStateOrThrow (there with KRaft).
        """
        progress = self.followers.get(broker_id)
        if progress is None:
            named = current_leader_epoch != NO_EPOCH
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if named else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} is not a replica of {self.topic}-{self.index}",
            )
        if NO_BROKER_EPOCH < broker_epoch < progress.broker_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker_id} has epoch {progress.broker_epoch} by now"
            )
        progress.fetched(offset, log_start, broker_epoch, now_ms, self.log.log_end_offset)
        pending = self._propose_expand(progress) if broker_id not in self.maximal_isr else None
        return self.advance_high_watermark(), pending

    def low_watermark(self) -> int:
        """Return the smallest log start of all live replicas, which DeleteRecords waits for."""
        is_alive = self.criteria.is_alive
        starts = [follower.log_start for broker, follower in self.followers.items() if is_alive(broker)]
        return min([self.log.log_start_offset, *starts])

    def _propose_expand(self, follower: FollowerProgress) -> PendingIsr | None:
        """Propose a follower for the ISR when it has everything that may have been acknowledged: up to the high
        watermark, and up to the start of this leader's epoch, as the watermark may still be too low (KAFKA-7128)."""
        if self.pending_isr is not None or not self.criteria.is_alive(follower.broker_id):
            return None
        if follower.last_fetch_ms < follower.refused_ms + self.criteria.refused_pause_ms:
            return None
        if follower.log_end < max(self.high_watermark, self.leader_epoch_start_offset):
            return None
        return self._propose(self.committed_isr | {follower.broker_id})

    def propose_shrink(self, now_ms: float) -> PendingIsr | None:
        """Propose the ISR without the followers that are not in sync any more; None when there is nothing to propose.

        `now_ms` is of the monotonic clock. Only leaders propose, and only while no other change is pending.
        """
        if not self.is_leader or self.pending_isr is not None or len(self.committed_isr) < 2:
            return None
        log_end, lag_time_ms_max = self.log.log_end_offset, self.criteria.lag_time_ms_max
        followers = self.followers.items()
        caught_up = {broker for broker, one in followers if one.is_caught_up(log_end, now_ms, lag_time_ms_max)}
        lagging = self.committed_isr - caught_up - {self.local_id}
        return self._propose(self.committed_isr - lagging) if lagging else None

    def _propose(self, isr: Iterable[int]) -> PendingIsr:
        followers = self.followers
        members = tuple(
            (broker, followers[broker].broker_epoch if broker in followers else NO_BROKER_EPOCH)
            for broker in sorted(isr)
        )
        self.pending_isr = PendingIsr(
            self.topic, self.topic_id, self.index, self.leader_epoch, self.partition_epoch, members
        )
        return self.pending_isr

    def isr_accepted(self, pending: PendingIsr, isr: Sequence[int], partition_epoch: int) -> bool:
        """Adopt the ISR that the controller has written; tell whether the high watermark moved.

        An answer to another proposal, or with an older partition epoch, changes nothing.
        """
        if self.pending_isr is not pending or partition_epoch < self.partition_epoch:
            return False
        self._commit_isr(tuple(isr))
        self.partition_epoch = partition_epoch
        self.pending_isr = None
        return self.advance_high_watermark()

    def isr_refused(self, pending: PendingIsr) -> None:
        """Keep the committed ISR: the controller has not written the change and will not."""
        if self.pending_isr is pending:
            self.pending_isr = None
            for broker in pending.broker_ids & (self.followers.keys() - self.committed_isr):
                self.followers[broker].refused_ms = self.followers[broker].last_fetch_ms
            self.advance_high_watermark()
