"""The group coordinator of one broker: finds the group that a request is for, or says why it cannot be served here.

A request that may have to wait brings the callback that answers it, which is called once, perhaps before the call
returns. Used on the loop only.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from uuid import UUID

from odradek.broker.coordination.owned_partitions import OwnedPartitions
from odradek.broker.coordination.partition_count import LONGEST_TEXT, partition_for
from odradek.broker.coordination.topic_storage import TopicStorage
from odradek.broker.groups.group import CommitAnswer, CommitRequest, CoordinatedGroup, CoordinatorContext, GroupCounters
from odradek.broker.groups.group_effects import (
    UNKNOWN_MEMBER,
    JoinCallback,
    JoinRequest,
    JoinResult,
    SyncCallback,
    SyncRequest,
    SyncResult,
)
from odradek.broker.groups.group_metadata import CONSUMER_PROTOCOL_TYPE, GroupMetadata, GroupState
from odradek.broker.groups.group_offsets import FetchedOffset, OffsetTable
from odradek.broker.groups.group_records import NOT_MADE, GroupReplay, Record, batch_of
from odradek.broker.groups.group_state_machine import check_join
from odradek.broker.groups.unwritten_tombstones import UnwrittenTombstones
from odradek.broker.settings.coordinator_settings import GroupSettings
from odradek.journal.journal import Journal
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_names import CONSUMER_OFFSETS, PartitionKey
from odradek.world.clock import Clock
from odradek.world.periodic import PeriodicActions
from odradek.world.time_slices import run_in_slices

CLASSIC = "classic"
"""Type of every group here (KIP-848 added others)."""


class GroupCoordinator:
    """Coordinator of the groups in the partitions of `__consumer_offsets` that this broker leads.

    `partition_count` says how many partitions that topic has (`offsets.topic.num.partitions` until it exists); it must
    not change while groups exist.
    """

    def __init__(
        self,
        clock: Clock,
        random: Random,
        storage: TopicStorage,
        config: GroupSettings,
        partition_count: Callable[[], int],
        journal: Journal | None = None,
        is_deleted: Callable[[str, int], bool] = lambda topic, index: False,
    ) -> None:
        """`is_deleted` tells whether there is evidence that a partition has been deleted."""
        self._clock = clock
        self._random = random
        self._config = config
        self._partition_count, self._is_deleted = partition_count, is_deleted
        self._groups: dict[str, CoordinatedGroup] = {}
        self._unwritten = UnwrittenTombstones(clock, self._groups, self._write_tombstones)
        self.counters = GroupCounters()
        self._context = CoordinatorContext(clock, storage, config, journal, self._unwritten.add, self.counters)
        self._partitions = OwnedPartitions(
            CONSUMER_OFFSETS, clock, storage, config.offsets_load_buffer_size, GroupReplay, self._install
        )
        self._transactions: dict[tuple[int, int], set[CoordinatedGroup]] = {}
        """Groups with commits in a transaction that is open, or has a marker that may not be replicated, by partition
        and producer id."""
        self._deleted_meanwhile: dict[int, set[PartitionKey]] = {}
        """Partitions that were deleted while groups were being loaded, by the partition that those are loaded from."""
        self._active = False
        self._periodic = PeriodicActions(clock)

    # life

    def start(self) -> None:
        """Serve from now on; before, and after `stop`, everybody is answered COORDINATOR_NOT_AVAILABLE."""
        self._active = True
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._periodic.repeat_for_each("expiry of offsets", interval_ms, self._groups.values, self._expire_offsets)

    def stop(self) -> None:
        """Stop, as the broker goes down: answer all who wait, stop all timers."""
        self._active = False
        self._periodic.stop()
        self._unwritten.stop()
        self._partitions.stop()
        for group in list(self._groups.values()):
            self._unload(group)

    def on_elected(self, partition: int, epoch: int) -> None:
        """Load the groups of a partition that this broker has come to lead, in slices of time."""
        if partition not in self._partitions.loading:
            self._deleted_meanwhile.pop(partition, None)
        self._partitions.elected(partition, epoch)

    def on_resigned(self, partition: int) -> None:
        """Forget the groups of a partition that another broker leads, or none; whoever waits gets NOT_COORDINATOR."""
        self._partitions.resigned(partition)
        self._unwritten.forget(partition)
        for group in [group for group in self._groups.values() if group.partition == partition]:
            self._unload(group)
        for key in [key for key in self._transactions if key[0] == partition]:
            del self._transactions[key]

    def on_partitions_deleted(self, partitions: Sequence[PartitionKey]) -> None:
        """Forget what groups had committed for partitions that have been deleted, in slices of time.

        Groups that are still being loaded forget it once they are there, and also what was deleted earlier, while
        nobody coordinated them. Otherwise readers of a topic that is created again under an old name would go on from
        an offset of the old one. (Kafka's coordinator forgets nothing of those.)
        """
        for loading in self._partitions.loading:
            self._deleted_meanwhile.setdefault(loading, set()).update(partitions)

        def steps() -> Iterator[None]:
            for group in list(self._groups.values()):
                if group.metadata.state is not GroupState.DEAD:
                    group.forget(group.offsets.remove(partitions))
                    self._drop_if_dead(group)
                yield

        run_in_slices(self._clock, steps(), lambda: self._active)

    # membership

    @property
    def offset_metadata_max_bytes(self) -> int:
        """`offset.metadata.max.bytes`, which holds for offsets in ZooKeeper too."""
        return self._config.offset_metadata_max_bytes

    def partition_for(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that the group lives in, wherever that is led."""
        return partition_for(group_id, self._partition_count())

    def fresh_member_id(self, prefix: str) -> str:
        """Return an id for a new member; the prefix is its group.instance.id or else its client id."""
        return f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"

    def join(self, group_id: str, request: JoinRequest, callback: JoinCallback) -> None:
        """Answer JoinGroup."""
        error = self.check(group_id)
        if error is ErrorCode.NONE:
            error = check_join(request, self._config)
        group = self._groups.get(group_id)
        if error is ErrorCode.NONE and group is None:
            if request.member_id == UNKNOWN_MEMBER:
                group = self._create(group_id)
            else:
                error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE or group is None:
            callback(JoinResult(error, request.member_id))
            return
        group.state_machine.join(request, callback, self._clock.now_ms())
        group.run_effects()

    def sync(self, group_id: str, request: SyncRequest, callback: SyncCallback) -> None:
        """Answer SyncGroup. While the group is loading its state is unknown, and the member is told to join again."""
        error = self.check(group_id)
        group = self._groups.get(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            callback(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        elif error is not ErrorCode.NONE:
            callback(SyncResult(error))
        elif group is None:
            callback(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            group.state_machine.sync(request, callback, self._clock.now_ms())
            group.run_effects()

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Answer Heartbeat. While the group is loading nobody's session runs, so the member may go on."""
        error = self.check(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return error
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.state_machine.heartbeat(member_id, instance_id, generation)
        group.run_effects()
        return error

    def leave(
        self, group_id: str, leaving: Sequence[tuple[str, str | None]], reasons: Sequence[str] = ()
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """Answer LeaveGroup for pairs of member id and group.instance.id: one error for all, and one for each.

        `reasons` are theirs, for the journal (KIP-800).
        """
        error = self.check(group_id)
        if error is not ErrorCode.NONE:
            return error, []
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        now_ms = self._clock.now_ms()
        said = [*reasons, *[""] * (len(leaving) - len(reasons))]
        errors = [
            group.state_machine.leave(member_id, instance_id, now_ms, reason)
            for (member_id, instance_id), reason in zip(leaving, said, strict=True)
        ]
        group.run_effects()
        return ErrorCode.NONE, errors

    # offsets

    def commit(self, group_id: str, request: CommitRequest, answer: CommitAnswer) -> None:
        """Answer OffsetCommit or TxnOffsetCommit.

        A group that does not exist is created if no generation is named, as by a consumer that assigns partitions by
        hand. If one is named, the sender is not a member, which is ILLEGAL_GENERATION in OffsetCommit.
        """
        error = self.check(group_id, may_be_empty=request.transaction is None)
        group = self._groups.get(group_id)
        if error is ErrorCode.NONE and group is None:
            if request.generation < 0:
                group = self._create(group_id)
            else:
                plain = request.transaction is None
                error = ErrorCode.ILLEGAL_GENERATION if plain else ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE or group is None:
            answer(dict.fromkeys(request.offsets, error))
        else:
            group.commit(request, answer)
            if request.transaction is not None and request.transaction.producer_id in group.offsets.open_producers:
                self._note_transaction(group, request.transaction.producer_id)

    def fetch_offsets(
        self, group_id: str, partitions: Sequence[PartitionKey] | None, *, require_stable: bool
    ) -> tuple[ErrorCode, dict[PartitionKey, FetchedOffset]]:
        """Answer OffsetFetch; None asks for all partitions that the group has committed."""
        error = self.check(group_id, may_be_empty=True)
        if error is not ErrorCode.NONE:
            return error, {}
        group = self._groups.get(group_id)
        offsets = OffsetTable() if group is None else group.offsets
        asked = [partition for partition, _ in offsets.items()] if partitions is None else partitions
        return error, {at: offsets.fetch(at, require_stable=require_stable) for at in asked}

    def delete_offsets(
        self, group_id: str, partitions: Sequence[PartitionKey], made: Mapping[PartitionKey, Record] = NOT_MADE
    ) -> tuple[ErrorCode, dict[PartitionKey, ErrorCode]]:
        """Answer OffsetDelete: for an empty group all offsets, else those of topics that its consumers do not read.

        `made` are tombstones that were made beforehand, where there are very many (`offset_tombstones`)."""
        error = self.check(group_id)
        if error is not ErrorCode.NONE:
            return error, {}
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND, {}
        metadata = group.metadata
        if metadata.state is not GroupState.EMPTY and metadata.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NON_EMPTY_GROUP, {}
        errors = dict.fromkeys(partitions, ErrorCode.NONE)
        if metadata.state is not GroupState.EMPTY:
            subscribed = [at for at in partitions if metadata.reads(at[0])]
            errors |= dict.fromkeys(subscribed, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        removable = [partition for partition, refusal in errors.items() if refusal is ErrorCode.NONE]
        if removable:
            removed = group.offsets.remove(removable)
            self.counters.offset_deletions += len(removed)
            group.forget(removed, made)
            self._drop_if_dead(group)
        return ErrorCode.NONE, errors

    # transactions

    def serves_partition(self, partition: int) -> bool:
        """Tell whether the groups of that partition of `__consumer_offsets` are all loaded here."""
        return self._active and self._partitions.check(partition) is ErrorCode.NONE

    def marker_appended(self, partition: int, producer_id: int, *, committed: bool) -> Callable[[ErrorCode], None]:
        """Note that a transaction's marker is in this leader's log of that partition.

        Call what is returned when its outcome is known. With NONE it is replicated: what the producer had committed
        before it becomes visible, or is dropped. With any other error that waits until another marker is replicated,
        which may be in the log already, since the sender of this one may have given up waiting for the answer.
        """
        key = (partition, producer_id)
        markers = [
            (group, group.offsets.close_transaction(producer_id, committed=committed))
            for group in self._transactions.get(key, ())
        ]

        def ended(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                return
            for group, marker in markers:
                group.offsets.end_transactions(producer_id, marker)
                if not group.offsets.has_transaction(producer_id):
                    self._forget_transaction(group, key)

        return ended

    def _note_transaction(self, group: CoordinatedGroup, producer_id: int) -> None:
        self._transactions.setdefault((group.partition, producer_id), set()).add(group)

    def _forget_transaction(self, group: CoordinatedGroup, key: tuple[int, int]) -> None:
        groups = self._transactions.get(key, set())
        groups.discard(group)
        if not groups:
            self._transactions.pop(key, None)

    # administration

    @property
    def groups(self) -> list[CoordinatedGroup]:
        """List the groups that are loaded here, in a copy."""
        return list(self._groups.values())

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> tuple[ErrorCode, list[GroupMetadata]]:
        """Answer ListGroups: this broker's groups of these states and types (upper or lower case; none named: all)."""
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._partitions.loading else ErrorCode.NONE
        if types and CLASSIC not in {name.lower() for name in types}:
            return error, []
        wanted = {name.lower() for name in states}
        groups = [group.metadata for group in self._groups.values()]
        return error, [group for group in groups if not wanted or group.state.value.lower() in wanted]

    def describe(self, group_id: str) -> tuple[ErrorCode, GroupMetadata | None]:
        """Answer DescribeGroups for one group: None when there is no such group, or an error."""
        error = self.check(group_id, may_be_empty=True)
        group = self._groups.get(group_id) if error is ErrorCode.NONE else None
        return error, None if group is None else group.metadata

    def delete(self, group_id: str) -> ErrorCode:
        """Answer DeleteGroups for one group, which must be without members."""
        error = self.check(group_id, may_be_empty=True)
        if error is not ErrorCode.NONE:
            return error
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.metadata.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        group.delete()
        self._drop_if_dead(group)
        return ErrorCode.NONE

    # inside

    def check(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
        """Check that requests for the group can be served here; `may_be_empty`: they have always taken the empty id."""
        if len(group_id) > LONGEST_TEXT or not (group_id or may_be_empty):
            return ErrorCode.INVALID_GROUP_ID
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._partitions.check(self.partition_for(group_id))

    def _create(self, group_id: str) -> CoordinatedGroup:
        group = CoordinatedGroup(
            GroupMetadata(group_id, state_since_ms=self._clock.now_ms()),
            OffsetTable(),
            self.partition_for(group_id),
            self._context,
        )
        self._groups[group_id] = group
        return group

    def _install(self, partition: int, loaded: tuple[GroupMetadata, OffsetTable]) -> None:
        metadata, offsets = loaded
        group = CoordinatedGroup(metadata, offsets, partition, self._context)
        self._groups[metadata.group_id] = group
        for producer_id in offsets.open_producers:
            self._note_transaction(group, producer_id)
        group.state_machine.loaded(self._clock.now_ms())
        group.run_effects()
        meanwhile = self._deleted_meanwhile.get(partition, ())
        deleted = [at for at in offsets.partitions() if at in meanwhile or self._is_deleted(*at)]
        if deleted:
            group.forget(offsets.remove(deleted))
            self._drop_if_dead(group)

    def _write_tombstones(self, partition: int, tombstones: Sequence[Record]) -> ErrorCode:
        batch = batch_of(tombstones, self._clock.now_ms(), self._config.offsets_topic_compression_codec)
        return self._context.storage.append_alone(partition, batch)

    def _unload(self, group: CoordinatedGroup) -> None:
        del self._groups[group.metadata.group_id]
        group.die(ErrorCode.NOT_COORDINATOR)

    def _drop_if_dead(self, group: CoordinatedGroup) -> None:
        if group.metadata.state is GroupState.DEAD:
            self._groups.pop(group.metadata.group_id, None)

    def _expire_offsets(self, group: CoordinatedGroup) -> None:
        if group.metadata.state is not GroupState.DEAD:
            group.remove_expired_offsets()
            self._drop_if_dead(group)
