"""One partition as this broker holds it: its role, the in-sync replicas and the high watermark.

Rules only: it changes its own state and its log and returns what is to be told to others. Whoever calls must be on the
broker's loop. Two epochs fence it: the leader epoch (who leads) and the partition epoch (the version of the state
znode: which ISR). A request that carries an older one changes nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from odradek.broker.log.local_log import LogSlice
from odradek.broker.log.log import Appended, Log, Origin
from odradek.broker.replication.progress import FollowerProgress
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import ZERO_UUID
from odradek.world.files import Buffer

NO_LEADER = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class PartitionView:
    """What a controller says of a partition (the fields of LeaderAndIsr that matter to a replica)."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class PendingIsr:
    """A change of the in-sync replicas that the leader wants and the controller must write (AlterPartition)."""

    topic: str
    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    """Broker ids with the epochs of their registrations, -1 where not known."""

    @property
    def broker_ids(self) -> frozenset[int]:
        return frozenset(broker for broker, _ in self.isr)


class Partition:
    """A replica of one partition.

    `committed_isr` is what ZooKeeper holds; `pending_isr` is the one change in flight. The high watermark waits for
    both (`maximal_isr`), since nobody knows yet which of the two the controller will have written;
    `min.insync.replicas` counts the committed one only (Kafka: PartitionState in Partition.scala).
    """

    __slots__ = (
        "advanced",
        "appended",
        "committed_isr",
        "followers",
        "high_watermark",
        "index",
        "is_leader",
        "leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "local_id",
        "log",
        "low_watermark_moved",
        "offline",
        "partition_epoch",
        "pending_isr",
        "recovering",
        "replicas",
        "topic",
        "topic_id",
    )  # fmt: skip

    def __init__(self, topic: str, index: int, local_id: int, log: Log, high_watermark: int = 0) -> None:
        self.topic, self.index, self.local_id = topic, index, local_id
        self.topic_id = ZERO_UUID
        self.log = log
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.is_leader = False
        self.leader, self.leader_epoch, self.partition_epoch = NO_LEADER, NO_EPOCH, NO_EPOCH
        self.leader_epoch_start_offset = -1
        self.replicas: tuple[int, ...] = ()
        self.committed_isr: frozenset[int] = frozenset()
        self.pending_isr: PendingIsr | None = None
        self.recovering = False
        self.followers: dict[int, FollowerProgress] = {}
        self.offline = False
        self.appended, self.advanced, self.low_watermark_moved = object(), object(), object()
        """Keys of the purgatory: the log has grown; the high watermark has moved; a follower's log start has moved.
        All are touched when the role changes."""

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else f"follower of {self.leader}"
        return f"<{self.topic}-{self.index} {role} epoch {self.leader_epoch} isr {sorted(self.committed_isr)}>"

    # ---- roles

    def lead(self, view: PartitionView, now_ms: float) -> None:
        """Become, or go on as, the leader of `view.leader_epoch`.

        A new epoch begins at the present end of the log; what followers had fetched under the former epoch says
        nothing now. The same epoch with a newer partition epoch changes the ISR alone.
        """
        new_epoch = view.leader_epoch > self.leader_epoch or not self.is_leader
        self._adopt(view)
        if new_epoch:
            if self.log.latest_epoch < view.leader_epoch:
                self.log.assign_epoch(view.leader_epoch, self.log.log_end_offset)
            self.leader_epoch_start_offset = self.log.log_end_offset
            self.followers = {}
        known = self.followers
        self.followers = {
            broker: known.get(broker) or FollowerProgress(broker, now_ms)
            for broker in view.replicas
            if broker != self.local_id
        }
        self.is_leader = True
        self.advance_high_watermark()

    def follow(self, view: PartitionView) -> None:
        """Become a follower; the ISR is the leader's affair from now on."""
        self._adopt(view)
        self.is_leader = False
        self.pending_isr = None
        self.followers = {}

    def stop_leading(self) -> None:
        """Stop leading, without a word from a controller: our session is gone, so another may lead by now (C16).

        The epochs stay, so that only news may wake the partition.
        """
        self.is_leader = False
        self.leader = NO_LEADER
        self.pending_isr = None
        self.followers = {}

    def _adopt(self, view: PartitionView) -> None:
        told_again = (view.leader_epoch, view.partition_epoch) == (self.leader_epoch, self.partition_epoch)
        if not (told_again and self.is_leader):
            self.pending_isr = None  # else it is as open as before: the controller's answer may be on its way
        self.leader, self.leader_epoch = view.leader, view.leader_epoch
        self.partition_epoch = view.partition_epoch
        self.replicas = view.replicas
        self.committed_isr = frozenset(view.isr)
        self.recovering = view.recovering

    def check_leadership(self, current_leader_epoch: int = NO_EPOCH) -> ErrorCode:
        """Whether a client that believes in `current_leader_epoch` (-1: does not say) may talk to us as the leader."""
        if self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # ---- writing and reading

    def append_as_leader(self, records: Buffer, acks: int, origin: Origin = Origin.CLIENT) -> tuple[Appended, bool]:
        """Append a client's or a coordinator's batches; also whether the high watermark moved.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (acks=all with fewer in the committed ISR than
        `min.insync.replicas`: nothing is written), and what the log refuses.
        """
        if not self.is_leader:
            raise KafkaError(self.check_leadership(), f"{self.topic}-{self.index} is not led here")
        if acks == -1 and self.under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic}-{self.index} has {len(self.committed_isr)} replicas in sync, "
                f"min.insync.replicas is {self.log.config.min_insync_replicas}",
            )
        for follower in self.followers.values():
            follower.overtaken(self.log.log_end_offset)
        appended = self.log.append_as_leader(records, self.leader_epoch, origin=origin)  # type: ignore[arg-type]
        return appended, self.advance_high_watermark()

    def append_as_follower(self, records: Buffer, leader_high_watermark: int, leader_log_start: int) -> None:
        """Append what the leader sent and take over its high watermark and log start, as far as our log reaches."""
        if len(records):
            self.log.append_as_follower(records)
        self.high_watermark = max(self.high_watermark, min(leader_high_watermark, self.log.log_end_offset))
        self.log.producers.replicated_up_to(self.high_watermark)
        if leader_log_start > self.log.log_start_offset:
            self.log.advance_log_start_offset(leader_log_start)
            self.high_watermark = max(self.high_watermark, self.log.log_start_offset)

    def truncate_to(self, offset: int) -> None:
        """Cut what the leader does not have."""
        self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def drop_unconfirmed(self) -> None:
        """A new follower whose log has no leader epochs (message formats 0 and 1) cannot find out where it leaves the
        leader's: it keeps what is replicated for certain (Kafka: truncateToHighWatermark). Raises StorageFailure."""
        if self.log.latest_epoch == NO_EPOCH and self.high_watermark < self.log.log_end_offset:
            self.truncate_to(max(self.high_watermark, self.log.log_start_offset))

    def start_over_at(self, offset: int) -> None:
        """Drop everything: the leader's log begins above our end."""
        self.log.truncate_fully_and_start_at(offset)
        self.high_watermark = offset

    @property
    def last_stable_offset(self) -> int:
        """Up to where the outcome of every transaction is known, and replicated."""
        return self.log.last_stable_offset(self.high_watermark)

    def read(
        self, offset: int, max_bytes: int, *, as_follower: bool, whole_first_batch: bool, committed: bool = False
    ) -> LogSlice:
        """A follower reads to the end of the log, a client to the high watermark, one who wants only what is
        `committed` to the last stable offset. Raises KafkaError, as Log.read does."""
        end = self.high_watermark
        if as_follower:
            end = self.log.log_end_offset
        elif committed:
            end = self.last_stable_offset
        return self.log.read(offset, max_bytes, end, whole_first_batch=whole_first_batch)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """(epoch, end offset) where a follower's history leaves ours, or None while it does not (KIP-595).

        Raises KafkaError OFFSET_OUT_OF_RANGE when our epochs do not reach back so far.
        """
        epoch, end_offset = self.log.end_offset_for_epoch(last_fetched_epoch)
        if epoch == NO_EPOCH or end_offset == -1:
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
        """Committed, plus what may be committed by now."""
        return self.committed_isr if self.pending_isr is None else self.committed_isr | self.pending_isr.broker_ids

    @property
    def under_min_isr(self) -> bool:
        """Fewer replicas in sync than acks=all needs; never asks for more than the partition has."""
        return len(self.committed_isr) < min(self.log.config.min_insync_replicas, max(len(self.replicas), 1))

    def advance_high_watermark(self) -> bool:
        """The smallest log end in the maximal ISR; never back within an epoch (C11)."""
        log_end = self.log.log_end_offset
        if self.high_watermark == log_end or self.under_min_isr:
            return False
        if len(self.replicas) > 1:
            followers = self.followers
            for broker in self.maximal_isr:
                if broker != self.local_id:
                    progress = followers.get(broker)
                    if progress is None or progress.log_end < 0:
                        return False
                    log_end = min(log_end, progress.log_end)
        if log_end <= self.high_watermark:
            return False
        self.high_watermark = log_end
        self.log.producers.replicated_up_to(log_end)
        return True

    def follower_fetched(
        self, broker_id: int, offset: int, log_start: int, broker_epoch: int, now_ms: float
    ) -> tuple[bool, PendingIsr | None]:
        """Note a follower's fetch: whether the high watermark moved, and the ISR change that follows from it.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION for a broker that is no replica of this partition.
        """
        progress = self.followers.get(broker_id)
        if progress is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"broker {broker_id} is no replica of {self.topic}-{self.index}"
            )
        progress.fetched(offset, log_start, broker_epoch, now_ms, self.log.log_end_offset)
        proposal = self._propose_expand(progress) if broker_id not in self.maximal_isr else None
        return self.advance_high_watermark(), proposal

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """From where on every live replica has records (what DeleteRecords waits for)."""
        starts = [follower.log_start for broker, follower in self.followers.items() if is_alive(broker)]
        return min([self.log.log_start_offset, *starts])

    def _propose_expand(self, progress: FollowerProgress) -> PendingIsr | None:
        """A follower may join when it has all that may have been acknowledged: up to the high watermark, and up to
        the start of this leader's epoch, below which the watermark is hearsay (KAFKA-7128)."""
        if self.pending_isr is not None or progress.log_end < max(self.high_watermark, self.leader_epoch_start_offset):
            return None
        return self._propose(self.committed_isr | {progress.broker_id})

    def propose_shrink(self, now_ms: float, lag_time_ms_max: int) -> PendingIsr | None:
        """The ISR less those followers that have not caught up for too long; None while all is well."""
        if not self.is_leader or self.pending_isr is not None:
            return None
        log_end = self.log.log_end_offset
        lagging = {
            broker
            for broker in self.committed_isr
            if broker != self.local_id
            and ((progress := self.followers.get(broker)) is None or progress.lags(log_end, now_ms, lag_time_ms_max))
        }
        return self._propose(self.committed_isr - lagging) if lagging else None

    def _propose(self, isr: Iterable[int]) -> PendingIsr:
        followers = self.followers
        members = tuple(
            (broker, followers[broker].broker_epoch if broker in followers else NO_EPOCH) for broker in sorted(isr)
        )
        self.pending_isr = PendingIsr(
            self.topic, self.topic_id, self.index, self.leader_epoch, self.partition_epoch, members
        )
        return self.pending_isr

    def isr_accepted(self, proposal: PendingIsr, isr: Sequence[int], partition_epoch: int, *, recovering: bool) -> bool:
        """The controller has written it (or more): whether the high watermark moved. An old answer changes nothing."""
        if self.pending_isr is not proposal or partition_epoch < self.partition_epoch:
            return False
        self.committed_isr = frozenset(isr)
        self.partition_epoch = partition_epoch
        self.recovering = recovering
        self.pending_isr = None
        return self.advance_high_watermark()

    def isr_refused(self, proposal: PendingIsr) -> bool:
        """The controller has not written it and will not: the committed ISR holds. As `isr_accepted`."""
        if self.pending_isr is not proposal:
            return False
        self.pending_isr = None
        return self.advance_high_watermark()
