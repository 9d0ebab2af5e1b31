"""A group that this broker coordinates: carries out what its rules ask for, with timers and the log.

The shell around `GroupStateMachine` and `OffsetTable`. Used on the loop only.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from odradek.broker.coordination.topic_storage import TopicStorage
from odradek.broker.groups.group_effects import (
    AnswerJoin,
    AssignmentWrite,
    Note,
    StartTimer,
    StopTimer,
    StoreGroup,
    TimerKind,
)
from odradek.broker.groups.group_metadata import GroupMetadata, GroupState
from odradek.broker.groups.group_offsets import CommittedOffset, OffsetTable, expired
from odradek.broker.groups.group_records import (
    NOT_MADE,
    Record,
    batch_of,
    batches_of_tombstones,
    group_key,
    group_value,
    offset_record,
    offset_tombstone,
)
from odradek.broker.groups.group_state_machine import GroupStateMachine
from odradek.broker.settings.coordinator_settings import GroupSettings
from odradek.journal.journal import Journal
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock, Timer

log = logging.getLogger(__name__)

APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""Errors of appending to `__consumer_offsets`, and what clients are told; all other errors are told as they are."""
COMMIT_ERRORS = APPEND_ERRORS | {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
GROUP_ERRORS = APPEND_ERRORS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

TAKES_NOTHING = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS})
"""Errors of an append after which this broker still leads the log: the disk is full, too few replicas are in sync."""
REFUSAL_PAUSE_MS: Final = 1000
"""Pause before members are told of these errors. Members with librdkafka join again at once, whatever the error, each
several hundred times a second, for as long as the disk is full. A coordinator that resigns answers them sooner."""

CommitAnswer = Callable[[dict[PartitionKey, ErrorCode]], object]


class InTransaction(NamedTuple):
    """Producer whose transaction a commit is part of."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """An OffsetCommit or TxnOffsetCommit request, without the differences between versions."""

    member_id: str
    instance_id: str | None
    generation: int
    offsets: Mapping[PartitionKey, CommittedOffset]
    transaction: InTransaction | None = None
    records: Mapping[PartitionKey, Record] = field(default_factory=dict)
    """Records of the offsets, if these are so many that they were made in steps beforehand (`offset_records`)."""


@dataclass(slots=True)
class GroupCounters:
    """Counts, since a coordinator began, of what has become of its groups: Kafka's group-coordinator-metrics."""

    offset_commits: int = 0
    """Offsets that were written, also those of transactions."""
    offset_expirations: int = 0
    offset_deletions: int = 0
    """Offsets that OffsetDelete has removed."""
    completed_rebalances: int = 0
    """Assignments by a group's leader that were written."""


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """Clock, storage and settings that all groups of a coordinator share."""

    clock: Clock
    storage: TopicStorage
    config: GroupSettings
    journal: Journal | None = None
    unwritten: Callable[[int, Sequence[Record]], object] = lambda partition, tombstones: None
    """Takes the tombstones for which the disk has no room, to write them later."""
    counters: GroupCounters = field(default_factory=GroupCounters)


class CoordinatedGroup:
    """A group with its timers and appends. `partition` is that of `__consumer_offsets` in which it lives."""

    def __init__(
        self, metadata: GroupMetadata, offsets: OffsetTable, partition: int, context: CoordinatorContext
    ) -> None:
        self.offsets = offsets
        self.partition = partition
        self.state_machine = GroupStateMachine(metadata, context.config)
        self._clock = context.clock
        self._storage = context.storage
        self._config = context.config
        self._journal, self._unwritten = context.journal, context.unwritten
        self._counters = context.counters
        self._timers: dict[tuple[TimerKind, str], Timer] = {}

    @property
    def metadata(self) -> GroupMetadata:
        """Members, state and generation, for reading."""
        return self.state_machine.group

    def run_effects(self) -> None:
        """Carry out the effects that the last call of a rule left. An answer or an append may lead to further ones."""
        effects = self.state_machine.outbox.effects
        while effects:
            effect = effects.popleft()
            if isinstance(effect, StartTimer):
                self._start_timer(effect)
            elif isinstance(effect, StopTimer):
                self._stop_timer(effect.kind, effect.member_id)
            elif isinstance(effect, Note):
                if self._journal is not None:
                    self._journal.note("group", self.metadata.group_id, change=effect.change, **effect.facts)
            elif isinstance(effect, StoreGroup):
                self._store(effect)
            elif isinstance(effect, AnswerJoin):
                effect.callback(effect.result)
            else:  # AnswerSync: apart from AnswerJoin for the types' sake alone
                effect.callback(effect.result)

    def die(self, error: ErrorCode) -> None:
        """End the group, which is deleted or moved away: answer all who wait with `error`, stop all timers."""
        self.state_machine.die(error, self._clock.now_ms())
        self.run_effects()
        assert not self._timers, (self.metadata.group_id, list(self._timers))

    def commit(self, request: CommitRequest, answer: CommitAnswer) -> None:
        """Handle OffsetCommit or TxnOffsetCommit; answer when it is in the log. Too long metadata is refused alone."""
        transaction = request.transaction
        error = self.state_machine.commit(
            request.member_id, request.instance_id, request.generation, transactional=transaction is not None
        )
        self.run_effects()
        if error is not ErrorCode.NONE:
            answer(dict.fromkeys(request.offsets, error))
            return
        limit = self._config.offset_metadata_max_bytes
        fitting = {at: committed for at, committed in request.offsets.items() if len(committed.metadata) <= limit}
        errors = dict.fromkeys(request.offsets, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        if not fitting:
            answer(errors)
            return
        group_id, made = self.metadata.group_id, request.records  # before anything is noted: text may be too long
        records = [made.get(at) or offset_record(group_id, at, committed) for at, committed in fitting.items()]
        ended = self._stage(fitting, transaction)

        def done(append_error: ErrorCode) -> None:
            if self.metadata.state is not GroupState.DEAD:
                ended(append_error)
            if append_error is ErrorCode.NONE:
                self._counters.offset_commits += len(fitting)
            answer(errors | dict.fromkeys(fitting, commit_error(append_error)))

        self._append(records, done, transaction)

    def remove_expired_offsets(self) -> None:
        """Forget what is older than the retention, and the whole group when nothing is left of it."""
        now_ms = self._clock.now_ms()
        over = self.offsets.remove(expired(self.metadata, self.offsets, now_ms, self._config.offsets_retention_ms))
        self._counters.offset_expirations += len(over)
        self.forget(over)

    def forget(self, removed: list[PartitionKey], made: Mapping[PartitionKey, Record] = NOT_MADE) -> None:
        """Write tombstones for offsets that were just removed; some of these may be `made` already. An empty group
        without any offset dies with them."""
        group_id = self.metadata.group_id
        tombstones = [made.get(at) or offset_tombstone(group_id, at) for at in removed]
        if self.metadata.state is GroupState.EMPTY and self.offsets.is_empty():
            doubtful = self.offsets.remove(self.offsets.partitions())
            self._bury([*tombstones, *(offset_tombstone(group_id, at) for at in doubtful)])
        else:
            self._write(tombstones)

    def delete(self) -> None:
        """Delete an empty group, with all that the log has of it."""
        assert self.metadata.state is GroupState.EMPTY, (self.metadata.group_id, self.metadata.state)
        group_id = self.metadata.group_id
        self._bury([offset_tombstone(group_id, at) for at in self.offsets.remove(self.offsets.partitions())])

    def _bury(self, of_offsets: list[Record]) -> None:
        """End the group, and write the tombstones of its offsets and of its own record, if it ever had one."""
        self.die(ErrorCode.NOT_COORDINATOR)
        was_written = self.metadata.generation > 0
        self._write([*of_offsets, (group_key(self.metadata.group_id), None)] if was_written else of_offsets)

    def _write(self, tombstones: list[Record]) -> None:
        """Write tombstones, however few replicas are in sync: what they delete is forgotten here already, and if they
        were given up, the next coordinator would know it again.

        Kafka: GroupMetadataManager.cleanupGroupMetadata.
        """
        for some in batches_of_tombstones(tombstones):
            error = self._storage.append_alone(self.partition, self._batch(some))
            self._log_unwritten("tombstones were", error)
            if error is ErrorCode.KAFKA_STORAGE_ERROR:
                self._unwritten(self.partition, some)

    def _stage(
        self, offsets: Mapping[PartitionKey, CommittedOffset], transaction: InTransaction | None
    ) -> Callable[[ErrorCode], None]:
        """Note that the append of a commit begins; return what to call with its outcome."""
        table = self.offsets
        if transaction is None:
            sequence = table.stage(offsets)
            return lambda error: table.fail(sequence, offsets) if error else table.acknowledge(sequence, offsets)
        producer_id = transaction.producer_id
        sequence = table.stage_in_transaction(producer_id, offsets)
        return lambda error: (
            table.fail_in_transaction(sequence)
            if error
            else table.acknowledge_in_transaction(producer_id, sequence, offsets)
        )

    def _log_unwritten(self, what: str, error: ErrorCode) -> None:
        """Log an append that failed; one to a full disk, which is logged anyway, only as DEBUG: members repeat it."""
        if error is not ErrorCode.NONE:
            level = logging.DEBUG if error is ErrorCode.KAFKA_STORAGE_ERROR else logging.WARNING
            log.log(level, "group %s: %s not written: %s", self.metadata.group_id, what, error.name)

    def _store(self, effect: StoreGroup) -> None:
        def done(error: ErrorCode) -> None:
            self._log_unwritten("its metadata was", error)
            if error in TAKES_NOTHING:
                self._clock.call_later(REFUSAL_PAUSE_MS, partial(ended, error))
            else:
                ended(error)

        def ended(error: ErrorCode) -> None:
            self._counters.completed_rebalances += error is ErrorCode.NONE and isinstance(effect.write, AssignmentWrite)
            self.state_machine.stored(effect.write, group_error(error), self._clock.now_ms())
            self.run_effects()

        value = group_value(self.metadata, effect.assignment)
        self._append([(group_key(self.metadata.group_id), value)], done)

    def _append(
        self, records: list[Record], done: Callable[[ErrorCode], None], transaction: InTransaction | None = None
    ) -> None:
        batch = self._batch(records, transaction)
        self._storage.append(self.partition, batch, self._config.offsets_commit_timeout_ms, done)

    def _batch(self, records: list[Record], transaction: InTransaction | None = None) -> bytearray:
        codec, now_ms = self._config.offsets_topic_compression_codec, self._clock.now_ms()
        return batch_of(records, now_ms, codec, *(transaction or ()))

    def _start_timer(self, effect: StartTimer) -> None:
        key = (effect.kind, effect.member_id)
        self._stop_timer(*key)

        def fired() -> None:
            del self._timers[key]
            self.state_machine.expire(*key, self._clock.now_ms())
            self.run_effects()

        self._timers[key] = self._clock.call_later(effect.delay_ms, fired)

    def _stop_timer(self, kind: TimerKind, member_id: str) -> None:
        timer = self._timers.pop((kind, member_id), None)
        if timer is not None:
            timer.cancel()


def commit_error(error: ErrorCode) -> ErrorCode:
    """Return the error of an OffsetCommit whose append ended with `error`.

    Source: GroupMetadataManager.storeOffsets of Kafka 3.9.
    """
    return COMMIT_ERRORS.get(error, error)


def group_error(error: ErrorCode) -> ErrorCode:
    """Return the error of a SyncGroup or JoinGroup that waits for the group's metadata to be appended.

    Source: GroupMetadataManager.storeGroup of Kafka 3.9.
    """
    return GROUP_ERRORS.get(error, error)
