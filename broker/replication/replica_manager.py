"""All partitions of this broker: how requests reach them, and what waits for them."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from odradek.broker.log.batches import Appended, Origin
from odradek.broker.log.errors import OUT_OF_DESCRIPTORS, StorageFailure
from odradek.broker.log.log_manager import LogManager
from odradek.broker.log.verifications import UNGUARDED, VerificationGuard
from odradek.broker.metrics.counters import Traffic
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.replication.directory_moves import DirectoryMoves
from odradek.broker.replication.fetch_sessions import CachedPartition, FetchSession
from odradek.broker.replication.isr import IsrCriteria, PendingIsr
from odradek.broker.replication.partition import NO_EPOCH, NO_LEADER, Partition
from odradek.broker.replication.replica_selection import RackAwareReplicaSelector
from odradek.broker.replication.throttling import Throttling
from odradek.journal.journal import Journal
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import PartitionData
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock
from odradek.world.files import Buffer
from odradek.world.time_slices import run_in_slices

log = logging.getLogger(__name__)


class IsrSubmitter(Protocol):
    """The way of a leader's changes of its ISR to the controller (AlterPartition)."""

    def submit(self, pending: PendingIsr) -> None:
        """Have the controller write a change; its answer comes to `ReplicaManager.isr_accepted` or `isr_refused`."""


class AwaitedAppend:
    """Part of an acks=all request for a partition: answered when the high watermark has passed it."""

    __slots__ = ("error", "partition", "required_offset")

    def __init__(self, partition: Partition, required_offset: int) -> None:
        self.partition, self.required_offset = partition, required_offset
        self.error: ErrorCode | None = None
        """Outcome of the append; None while nobody knows."""

    def settle(self) -> bool:
        """Look for the outcome; tell whether it is known. A partition that we lead no more may yet lose the records."""
        if self.error is None:
            partition = self.partition
            if not partition.is_leader:
                self.error = partition.check_leadership()
            elif partition.high_watermark >= self.required_offset:
                few = partition.under_min_isr
                self.error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if few else ErrorCode.NONE
        return self.error is not None


class DelayedProduce:
    """An acks=all request that waits until the outcome of all its appends is known, or its timeout has passed.

    `done` is called once; an append whose outcome is not known at the deadline has `error` REQUEST_TIMED_OUT.
    """

    __slots__ = ("_done", "appends")

    def __init__(self, appends: Sequence[AwaitedAppend], done: Callable[[], None]) -> None:
        self.appends, self._done = appends, done

    def try_complete(self) -> bool:
        # each append is asked every time: one may be settled for good before another can be
        settled = [append.settle() for append in self.appends]
        if all(settled):
            self._done()
            return True
        return False

    def expire(self) -> None:
        for append in self.appends:
            if not append.settle():
                append.error = ErrorCode.REQUEST_TIMED_OUT
        self._done()


class ReplicaManager:
    """Partitions by topic and index. Requests that wait for one wait in `purgatory` for one of its three keys."""

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        clock: Clock,
        purgatory: Purgatory,
        criteria: IsrCriteria,
        throttling: Throttling,
        *,
        exists: Callable[[str, int], bool],
        selector: RackAwareReplicaSelector | None = None,
        moves_at_once: int | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Take the `criteria` that this broker's followers must meet.

        `exists` tells whether the cluster has a partition, here or elsewhere. `selector` sends consumers to other
        replicas (`replica.selector.class`); None lets them read here.
        """
        self.broker_id = broker_id
        self.logs, self.clock = logs, clock
        self.purgatory = purgatory
        self.criteria = criteria
        self.partitions: dict[PartitionKey, Partition] = {}
        self.traffic = Traffic()
        self.throttling = throttling
        self.moves = DirectoryMoves(self.partitions, logs, clock, throttling.moving, moves_at_once)
        self.exists, self.selector, self._journal = exists, selector, journal or Journal(clock.now_ms)
        self.alter_partition: IsrSubmitter | None = None
        """Set once it exists: it is made later than this object, to which it brings its answers."""

    def partition(self, topic: str, index: int) -> Partition | ErrorCode:
        """Return the partition, or why it cannot be used here."""
        partition = self.partitions.get((topic, index))
        if partition is None:
            return self.why_absent(topic, index)
        return ErrorCode.KAFKA_STORAGE_ERROR if partition.offline else partition

    def why_absent(self, topic: str, index: int) -> ErrorCode:
        """Return the error for a partition that is not here: only one that no broker has is unknown."""
        known = self.exists(topic, index)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def why_not_served(self, partition: Partition, current_leader_epoch: int = NO_EPOCH) -> ErrorCode:
        """Return the error for a partition that this broker has, and neither leads nor lets consumers read."""
        error = partition.check_leadership(current_leader_epoch)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition.leader == NO_LEADER:
            return self.why_absent(partition.topic, partition.index)  # its topic may be about to be deleted
        return error

    def led(self, topic: str, index: int) -> Partition:
        """Return the partition if this broker leads it. Raises KafkaError otherwise."""
        partition = self.partitions.get((topic, index))
        if partition is not None and partition.is_leader:
            return partition
        error = self.why_absent(topic, index) if partition is None else self.why_not_served(partition)
        raise KafkaError(error, f"{topic}-{index} is not led by broker {self.broker_id}")

    def led_in_epoch(
        self, topic: str, index: int, current_leader_epoch: int, *, or_follower: bool = False
    ) -> Partition:
        """Return the partition if this broker leads it, for a client that names this leader epoch (-1: none).

        `or_follower`: a follower that knows its leader will do. Raises KafkaError otherwise (Kafka:
        Partition.localLogWithEpochOrThrow).
        """
        partition = self.partitions.get((topic, index))
        if partition is None:
            error = self.why_absent(topic, index)
        else:
            error = partition.check_leadership(current_leader_epoch, or_follower=or_follower)
            if error is ErrorCode.NONE:
                return partition
        raise KafkaError(
            error, f"broker {self.broker_id} does not lead {topic}-{index} in epoch {current_leader_epoch}"
        )

    # ---- writing

    def append(
        self,
        partition: Partition,
        records: Buffer,
        acks: int,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = UNGUARDED,
    ) -> Appended:
        """Append to a partition that `led` has just given, and wake whoever waits for it. Raises KafkaError."""
        try:
            appended, advanced = partition.append_as_leader(records, acks, origin, guard)
        except StorageFailure as failure:
            if failure.cause.errno in OUT_OF_DESCRIPTORS:
                self._flush_later(partition)
            raise
        counters = partition.counters
        counters.messages_in += appended.last_offset - appended.first_offset + 1
        counters.bytes_in += len(records)
        self.purgatory.touch(partition.appended)
        if advanced:
            self.purgatory.touch(partition.advanced)
        return appended

    def _flush_later(self, partition: Partition) -> None:
        """Have what was appended flushed, and count as replicated then, after a flush that lacked a descriptor.

        Where a leader is alone in its ISR nobody else asks again, if its clients have given up.
        """

        def flushed() -> None:
            if partition.is_leader and partition.advance_high_watermark():
                self.purgatory.touch(partition.advanced)

        partition.log.flush_in_background(flushed)

    def append_and_wait(
        self, partition: Partition, records: Buffer, timeout_ms: float, done: Callable[[ErrorCode], None]
    ) -> None:
        """Append with acks=all on behalf of a coordinator; `done` is called once, possibly before this returns."""
        try:
            appended = self.append(partition, records, -1, Origin.COORDINATOR)
        except KafkaError as error:
            done(error.code)
            return
        awaited = AwaitedAppend(partition, appended.last_offset + 1)

        def settled() -> None:
            assert awaited.error is not None
            done(awaited.error)

        self.purgatory.watch(DelayedProduce([awaited], settled), [partition.advanced], timeout_ms)

    # ---- followers

    def note_follower_fetch(
        self,
        replica_id: int,
        replica_epoch: int,
        answers: Iterable[tuple[CachedPartition, PartitionData]],
        session: FetchSession | None,
    ) -> bool:
        """Advance a follower's progress by its fetch, partition by partition, and complete the answers accordingly.

        Tells whether it was refused some partition, as the answer says: one of which it is no replica, say.
        """
        refused = False
        now_ms = self.clock.monotonic_ms()
        moved = []
        for wanted, answer in answers:
            if answer.error_code or answer.diverging_epoch is not None:
                continue
            partition = self.partitions[(wanted.topic, wanted.index)]
            follower = partition.followers.get(replica_id)
            former_start = None if follower is None else follower.log_start
            try:
                advanced, pending = partition.follower_fetched(
                    replica_id, wanted.fetch_offset, wanted.log_start_offset, replica_epoch, now_ms, wanted.leader_epoch
                )
            except KafkaError as error:
                answer.error_code, answer.records = error.code, b""
                refused = True
                continue
            assert follower is not None
            follower.session = session
            answer.high_watermark = partition.high_watermark
            answer.last_stable_offset = partition.last_stable_offset
            if advanced:
                moved.append(partition.advanced)
            if former_start != wanted.log_start_offset:
                moved.append(partition.low_watermark_moved)
            if pending is not None:
                self.submit_isr(pending)
        for key in moved:
            self.purgatory.touch(key)
        return refused

    def count_sent_to_follower(self, replica_id: int, answers: Iterable[tuple[CachedPartition, PartitionData]]) -> None:
        """Count what is sent to a follower now, also against the limit on it when there is one."""
        serving = self.throttling.serving
        limited = serving.limit.bytes_per_second is not None
        for wanted, answer in answers:
            if not answer.records:
                continue
            self.traffic.replication_bytes_out += len(answer.records)
            partition = self.partitions.get((wanted.topic, wanted.index))
            if partition is None:
                continue
            if replica_id in partition.adding:
                self.traffic.reassignment_bytes_out += len(answer.records)
            if limited:
                serving.copied(partition, len(answer.records))

    def count_sent_to_consumer(self, answers: Iterable[tuple[CachedPartition, PartitionData]]) -> None:
        """Count what is sent to a consumer now."""
        for wanted, answer in answers:
            if answer.records:
                partition = self.partitions.get((wanted.topic, wanted.index))
                if partition is not None:
                    partition.counters.bytes_out += len(answer.records)

    def role_changed(self, partition: Partition) -> None:
        """Wake all that wait for a partition: its answer may be an error now."""
        for key in (partition.appended, partition.advanced, partition.low_watermark_moved):
            self.purgatory.touch(key)

    def members_changed(self, partition: Partition) -> None:
        """Wake those that wait for followers of a partition, which goes on under the same leader epoch.

        Followers' fetches sleep on: each looks at all of its partitions when it is woken.
        """
        for key in (partition.advanced, partition.low_watermark_moved):
            self.purgatory.touch(key)

    # ---- in-sync replicas

    def check_in_sync_replicas(self) -> None:
        """Propose the removal of followers that lag, and stop waiting for those that were about to join and have not.

        Called every half `replica.lag.time.max.ms` and when brokers have left the cluster; done in slices.
        """
        run_in_slices(self.clock, self._check(list(self.partitions.values())))

    def _check(self, partitions: Iterable[Partition]) -> Iterator[None]:
        for partition in partitions:
            if partition.is_leader and (partition.followers or partition.leaving):
                pending = partition.propose_shrink(self.clock.monotonic_ms())
                if pending is not None:
                    log.info("%s: proposing the ISR %s, the others lag", partition, sorted(pending.broker_ids))
                    self._note_lagging(partition, pending)
                    self.submit_isr(pending)
                if partition.advance_high_watermark():
                    self.purgatory.touch(partition.advanced)
            yield

    def _note_lagging(self, partition: Partition, pending: PendingIsr) -> None:
        """Note in the journal who is to leave the ISR, how far behind it is, and for how long it has not asked."""
        now_ms, end = self.clock.monotonic_ms(), partition.log.log_end_offset
        lagging = []
        for broker in sorted(partition.committed_isr - pending.broker_ids):
            follower = partition.followers.get(broker)
            asked = follower is not None and follower.log_end >= 0
            lagging.append(
                {
                    "broker": broker,
                    "records_behind": end - follower.log_end if follower is not None and asked else None,
                    "silent_ms": round(now_ms - follower.last_fetch_ms) if follower is not None and asked else None,
                }
            )
        self._journal.note(
            "isr", f"{partition.topic}-{partition.index}", rule="replica.lag.time.max.ms",
            limit_ms=self.criteria.lag_time_ms_max, leader_epoch=partition.leader_epoch, log_end_offset=end,
            lagging=lagging,
        )  # fmt: skip

    def submit_isr(self, pending: PendingIsr) -> None:
        """Send a change that a partition wants to the controller."""
        assert self.alter_partition is not None, "a leader before the broker has started"
        self.alter_partition.submit(pending)

    def isr_accepted(self, pending: PendingIsr, isr: Sequence[int], partition_epoch: int) -> None:
        """Adopt what the controller has written: `isr`, as version `partition_epoch`."""
        partition = self.partitions.get((pending.topic, pending.index))
        if partition is None:
            return
        before = len(partition.committed_isr)
        advanced = partition.isr_accepted(pending, isr, partition_epoch)
        shrunk = len(partition.committed_isr) < before
        if advanced or shrunk:  # a follower that has caught up since is looked at again: its next fetch proposes it
            self.purgatory.touch(partition.advanced)
        self.traffic.isr_shrinks += shrunk
        self.traffic.isr_expansions += len(partition.committed_isr) > before

    def isr_refused(self, pending: PendingIsr) -> None:
        """Drop a change that the controller has not written and will not write."""
        self.traffic.failed_isr_updates += 1
        partition = self.partitions.get((pending.topic, pending.index))
        if partition is not None:
            partition.isr_refused(pending)
            self.members_changed(partition)  # so that the next fetch of a follower that was refused is looked at

    # ---- this broker's own health

    def stop_leading_all(self) -> list[Partition]:
        """Lead nothing until a controller says so again: our session with ZooKeeper is over. Returns what we led."""
        led = [partition for partition in self.partitions.values() if partition.is_leader]
        self.stop_leading(led)
        return led

    def stop_leading(self, led: Sequence[Partition]) -> None:
        """Stop leading these at once, and wake in slices of time all that wait for them."""
        for partition in led:
            partition.stop_leading()

        def wake() -> Iterator[None]:
            for partition in led:
                self.role_changed(partition)
                yield

        run_in_slices(self.clock, wake(), at_once=True)

    def directory_failed(self, keys: Iterable[PartitionKey]) -> list[Partition]:
        """Take these partitions offline: their log directory cannot be used any more. Returns those that are here.

        Moves into that directory end, too.
        """
        self.moves.directory_failed()
        failed = [partition for key in keys if (partition := self.partitions.get(key)) is not None]
        for partition in failed:
            partition.offline = True
            partition.stop_leading()
            self.role_changed(partition)
        return failed
