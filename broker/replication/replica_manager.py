"""All partitions of this broker, and the paths by which requests reach them."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from odradek.broker.log.log import Appended, Origin
from odradek.broker.log.log_manager import LogManager
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.replication.delayed import AwaitedAppend, DelayedProduce
from odradek.broker.replication.directory_moves import DirectoryMoves
from odradek.broker.replication.fetch_sessions import CachedPartition, FetchSession, OpenedFetch
from odradek.broker.replication.partition import Partition, PendingIsr
from odradek.broker.replication.reading import FetchParameters, PartitionsRead, read_partitions
from odradek.broker.replication.throttling import Throttling
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import PartitionData
from odradek.world.clock import Clock
from odradek.world.files import Buffer

log = logging.getLogger(__name__)


class IsrSubmitter(Protocol):
    """Where a leader's wishes for its ISR go (AlterPartition)."""

    def submit(self, proposal: PendingIsr) -> None:
        """Have the controller write it; the answer comes back to `ReplicaManager.proposal_answered`."""


class Coordinators(Protocol):
    """Who wants to know which partitions this broker leads (group and transaction coordinators)."""

    def on_elected(self, topic: str, index: int, leader_epoch: int) -> None:
        """This broker leads that partition from now on."""

    def on_resigned(self, topic: str, index: int) -> None:
        """It does not, or not any more."""

    def on_partitions_deleted(self, partitions: Sequence[tuple[str, int]]) -> None:
        """The cluster does not have these partitions any more."""


class ReplicaManager:
    """Partitions by topic and index. Requests that wait for one wait in `purgatory` for its two keys."""

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        clock: Clock,
        purgatory: Purgatory,
        lag_time_ms_max: int,
        throttling: Throttling,
    ) -> None:
        self.broker_id = broker_id
        self.logs, self.clock = logs, clock
        self.purgatory = purgatory
        self.lag_time_ms_max = lag_time_ms_max
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.serving = throttling.serving
        self.moves = DirectoryMoves(self.partitions, logs, clock, throttling.moving)
        self.alter_partition: IsrSubmitter | None = None
        self.exists: Callable[[str, int], bool] = lambda topic, index: False
        """Whether the cluster has that partition, here or elsewhere."""

    def partition(self, topic: str, index: int) -> Partition | ErrorCode:
        """The partition, or why there is none here: only what no broker has is unknown."""
        partition = self.partitions.get((topic, index))
        if partition is None and self.exists(topic, index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.KAFKA_STORAGE_ERROR if partition.offline else partition

    def led(self, topic: str, index: int) -> Partition:
        """The partition if this broker leads it. Raises KafkaError otherwise."""
        partition = self.partition(topic, index)
        error = partition if isinstance(partition, ErrorCode) else partition.check_leadership()
        if error is not ErrorCode.NONE:
            raise KafkaError(error, f"{topic}-{index} is not led by broker {self.broker_id}")
        assert isinstance(partition, Partition)
        return partition

    # ---- writing

    def append(self, partition: Partition, records: Buffer, acks: int, origin: Origin = Origin.CLIENT) -> Appended:
        """Append as the leader and wake whoever waits for it. Raises KafkaError."""
        appended, advanced = partition.append_as_leader(records, acks, origin)
        self.purgatory.touch(partition.appended)
        if advanced:
            self.purgatory.touch(partition.advanced)
        return appended

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

    # ---- reading

    def read(self, opened: OpenedFetch, parameters: FetchParameters) -> PartitionsRead:
        """Read, and when it is a follower who asks, note how far it has come."""
        read = self.read_again(opened, parameters)
        if parameters.as_follower:
            refused = self._follower_fetched(read, parameters, opened.session)
            return read._replace(failed=True) if refused else read
        return read

    def read_again(self, opened: OpenedFetch, parameters: FetchParameters) -> PartitionsRead:
        """What there is by now, for a request that has waited."""
        return read_partitions(self.partition, opened.partitions, parameters, self.serving)

    def served(self, answers: Iterable[tuple[CachedPartition, PartitionData]]) -> None:
        """These are sent to a follower now."""
        if self.serving.limit.bytes_per_second is not None:
            for wanted, answer in answers:
                partition = self.partitions.get((wanted.topic, wanted.index))
                if partition is not None and answer.records:
                    self.serving.copied(partition, len(answer.records))

    def _follower_fetched(
        self, read: PartitionsRead, parameters: FetchParameters, session: FetchSession | None
    ) -> bool:
        """Whether it may not follow one of the partitions, which is in its answer."""
        refused = False
        now_ms = self.clock.monotonic_ms()
        moved = []
        for wanted, answer in read.answers:
            if answer.error_code or answer.diverging_epoch is not None:
                continue
            partition = self.partitions[(wanted.topic, wanted.index)]
            follower = partition.followers.get(parameters.replica_id)
            trimmed = follower is not None and follower.log_start != wanted.log_start_offset
            try:
                advanced, proposal = partition.follower_fetched(
                    parameters.replica_id,
                    wanted.fetch_offset,
                    wanted.log_start_offset,
                    parameters.replica_epoch,
                    now_ms,
                )
            except KafkaError as error:
                answer.error_code, answer.records = error.code, b""
                refused = True
                continue
            partition.followers[parameters.replica_id].fetcher = session
            answer.high_watermark = partition.high_watermark
            answer.last_stable_offset = partition.last_stable_offset
            if advanced:
                moved.append(partition.advanced)
            if trimmed:
                moved.append(partition.low_watermark_moved)
            if proposal is not None:
                self._submit(proposal)
        for key in moved:
            self.purgatory.touch(key)
        return refused

    def role_changed(self, partition: Partition) -> None:
        """Wake all that wait for a partition: its answer may be an error now."""
        for key in (partition.appended, partition.advanced, partition.low_watermark_moved):
            self.purgatory.touch(key)

    # ---- in-sync replicas

    def shrink_in_sync_replicas(self) -> None:
        """Propose the removal of followers that lag (called every half `replica.lag.time.max.ms`)."""
        now_ms = self.clock.monotonic_ms()
        for partition in list(self.partitions.values()):
            proposal = partition.propose_shrink(now_ms, self.lag_time_ms_max)
            if proposal is not None:
                log.info("%s: proposing the ISR %s, the others lag", partition, sorted(proposal.broker_ids))
                self._submit(proposal)

    def _submit(self, proposal: PendingIsr) -> None:
        assert self.alter_partition is not None, "a leader before the broker has started"
        self.alter_partition.submit(proposal)

    def isr_accepted(self, proposal: PendingIsr, isr: Sequence[int], partition_epoch: int, *, recovering: bool) -> None:
        partition = self.partitions.get((proposal.topic, proposal.index))
        if partition is not None and partition.isr_accepted(proposal, isr, partition_epoch, recovering=recovering):
            self.purgatory.touch(partition.advanced)

    def isr_refused(self, proposal: PendingIsr) -> None:
        partition = self.partitions.get((proposal.topic, proposal.index))
        if partition is not None and partition.isr_refused(proposal):
            self.purgatory.touch(partition.advanced)

    # ---- this broker's own health

    def stop_leading_all(self) -> list[Partition]:
        """Our session with ZooKeeper is over: lead nothing until a controller says so again. Returns what we led."""
        led = [partition for partition in self.partitions.values() if partition.is_leader]
        for partition in led:
            partition.stop_leading()
            self.role_changed(partition)
        return led

    def directory_failed(self, keys: Iterable[tuple[str, int]]) -> list[Partition]:
        """The log directory of these partitions cannot be used any more: they are offline here. Returns them.

        Moves into it are at an end, too.
        """
        self.moves.directory_failed()
        failed = [partition for key in keys if (partition := self.partitions.get(key)) is not None]
        for partition in failed:
            partition.offline = True
            partition.stop_leading()
            self.role_changed(partition)
        return failed

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """For the checkpoint file."""
        return {key: p.high_watermark for key, p in self.partitions.items() if not p.offline}
