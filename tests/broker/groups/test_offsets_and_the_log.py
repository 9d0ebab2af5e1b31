"""What a coordinator shows of a group's offsets is what its successor reads from the log, whatever came between.

Commits with and without a transaction, some of them refused; markers that come twice, or are not replicated in time;
deletions, expiry and changes of the coordinator, over a log that acknowledges late, in its order. Whenever all that was
appended is acknowledged, three say the same: the coordinator, one that loads the log, and one that loads it compacted.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from odradek.broker.groups.group import InTransaction
from odradek.broker.groups.group_coordinator import GroupCoordinator
from odradek.broker.groups.group_offsets import FetchedOffset
from odradek.broker.groups.group_records import OffsetKey, batch_of, read_key
from odradek.protocol.control_records import ControlType, EndTxnMarker, control_type, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode
from odradek.protocol.record_batch import read_header, set_base_offset
from odradek.protocol.records import decode_records
from odradek.protocol.topic_names import PartitionKey

PARTITIONS = [("t", 0), ("t", 1), ("u", 0)]
PRODUCERS = [7, 8]
MINUTE = 60_000
RETENTION_MINUTES = 30
STEPS = 60
SEEDS = 20

Fetched = list[dict[PartitionKey, FetchedOffset]]


def compacted(log: list[bytes], *, tombstones: bool) -> list[bytes]:
    """Leave the newest record of each key, as compaction does below the last stable offset; of those that are
    `tombstones` none, when their time is over."""
    open_transactions: dict[int, list[int]] = {}
    aborted: set[int] = set()
    for batch in log:
        header = read_header(batch)
        if header.is_control:
            ended = open_transactions.pop(header.producer_id, [])
            if control_type(decode_records(batch).keys[0]) is ControlType.ABORT:
                aborted.update(ended)
        elif header.is_transactional:
            open_transactions.setdefault(header.producer_id, []).append(header.base_offset)
    stable = min((offsets[0] for offsets in open_transactions.values()), default=1 << 62)
    newest: dict[bytes | None, int] = {}
    for batch in log:
        header = read_header(batch)
        if header.base_offset < stable and header.base_offset not in aborted:
            newest |= dict.fromkeys(decode_records(batch).keys, header.base_offset)
    left = []
    for batch in log:
        header, records = read_header(batch), decode_records(batch)
        if header.is_control or header.base_offset >= stable:
            left.append(batch)
            continue
        kept = [
            (key, value)
            for key, value in zip(records.keys, records.values, strict=True)
            if key and newest.get(key) == header.base_offset and (tombstones or value is not None)
        ]
        if kept and header.base_offset not in aborted:
            rest = batch_of(kept, 0, 0, *[header.producer_id, header.producer_epoch] * header.is_transactional)
            set_base_offset(rest, 0, header.base_offset)
            left.append(bytes(rest))
    return left


def decoded_partitions(batch: bytes) -> list[PartitionKey]:
    """Of which a batch has commits."""
    named = [read_key(key) for key in decode_records(batch).keys if key]
    return [one.partition for one in named if isinstance(one, OffsetKey)]


@dataclass
class Run:
    """One seed."""

    world: Any
    random: Random
    offset: int = 0
    epoch: int = 0
    compared: int = 0
    told: list[str] = field(default_factory=list)
    """What was done, for who looks for the cause."""

    doubtful: set[PartitionKey] = field(default_factory=set)
    """Partitions of commits whose senders were told that they may not be written, and whose successor shows them."""

    def __post_init__(self) -> None:
        self.world.log.held = True
        self.partition = self.world.coordinator.partition_for("g")

    def step(self) -> None:
        actions: list[tuple[Callable[[], object], int]] = [
            (self.commit, 4),
            (self.commit_in_transaction, 8),
            (self.refuse, 4),
            (self.time_out, 2),
            (self.marker, 4),
            (self.delete, 1),
            (self.expire, 1),
            (self.move, 1),
            (self.acknowledge_some, 8),
        ]
        [action] = self.random.choices([one for one, _ in actions], [weight for _, weight in actions])
        self.told.append(action.__name__)
        action()
        self.compare()

    def some(self) -> dict[PartitionKey, int]:
        self.offset += 1
        return dict.fromkeys(self.random.sample(PARTITIONS, self.random.choice([1, 1, 2])), self.offset)

    def commit(self) -> None:
        offsets = self.some()
        self.told[-1] += f" {offsets}"
        self.world.commit(offsets)

    def commit_in_transaction(self) -> None:
        transaction, offsets = InTransaction(self.random.choice(PRODUCERS), 0), self.some()
        self.told[-1] += f" of {transaction.producer_id} {offsets}"
        request = replace(self.world.commit_attempt(offsets), transaction=transaction)
        self.world.coordinator.commit("g", request, lambda errors: None)

    def refuse(self) -> None:
        """The log refuses a commit, a zombie's perhaps: nothing of it is written."""
        self.world.log.error = self.random.choice([ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NOT_ENOUGH_REPLICAS])
        self.random.choice([self.commit, self.commit_in_transaction])()
        self.world.log.error = ErrorCode.NONE

    def time_out(self) -> None:
        """A commit is written, and refused since that takes the replicas too long."""
        self.random.choice([self.commit, self.commit_in_transaction])()
        done, self.world.log.waiting[-1] = self.world.log.waiting[-1], lambda error: None
        done(ErrorCode.REQUEST_TIMED_OUT)
        self.doubtful.update(decoded_partitions(self.world.log.batches[self.partition][-1]))

    def marker(self) -> None:
        """A marker, which may not be replicated in time: then another one comes, before or after it is known."""
        producer_id, committed = self.random.choice(PRODUCERS), self.random.random() < 0.7
        outcome = ErrorCode.REQUEST_TIMED_OUT if self.random.random() < 0.3 else ErrorCode.NONE
        self.told[-1] += f" of {producer_id}, {committed=}, {outcome.name}"
        self.end(producer_id, committed=committed, outcome=outcome)
        if outcome is not ErrorCode.NONE:
            self.end(producer_id, committed=committed)

    def end(self, producer_id: int, *, committed: bool, outcome: ErrorCode = ErrorCode.NONE) -> None:
        batch = encode_end_txn_marker(EndTxnMarker(committed, 0), 0, producer_id, 0)
        waiting = self.world.log.waiting
        self.world.log.append(self.partition, batch, 0, lambda error: None)
        ended = self.world.coordinator.marker_appended(self.partition, producer_id, committed=committed)
        if self.world.log.held:
            waiting[-1] = lambda error: ended(outcome)
        else:
            ended(outcome)

    def delete(self) -> None:
        partitions = self.random.sample(PARTITIONS, 2)
        how = self.random.randrange(3)
        if how == 0:
            self.world.coordinator.delete("g")
        elif how == 1:
            self.world.coordinator.delete_offsets("g", partitions)
        else:
            self.world.coordinator.on_partitions_deleted(partitions)
            self.world.clock.advance()
        self.doubtful.difference_update(PARTITIONS if how == 0 else partitions)
        self.told[-1] += f" {['group', partitions, f'topics {partitions}'][how]}"

    def expire(self) -> None:
        self.world.clock.advance(self.random.choice([11, 25, 45]) * MINUTE)

    def move(self) -> None:
        """Another broker leads; what only the former one had may be cut off."""
        self.world.coordinator.stop()
        waiting = len(self.world.log.waiting)
        if waiting and self.random.random() < 0.5:
            self.told[-1] += f", {waiting} cut off"
            del self.world.log.batches[self.partition][-waiting:]
        self.world.log.waiting.clear()
        self.epoch += 1
        self.world.coordinator = self.world.broker()
        self.world.coordinator.on_elected(self.partition, self.epoch)
        self.world.clock.advance()
        self.doubtful.clear()

    def acknowledge_some(self) -> None:
        """All in sync have the log up to some batch; who waits hears of it in any order."""
        waiting = self.world.log.waiting
        count = self.random.choice([len(waiting), self.random.randint(0, len(waiting))])
        now, self.world.log.waiting = waiting[:count], waiting[count:]
        self.random.shuffle(now)
        for done in now:
            done(ErrorCode.NONE)
        self.told[-1] += f", {len(self.world.log.waiting)} not yet"

    def compare(self) -> None:
        if self.world.log.waiting:
            return
        self.compared += 1
        shown = self.fetched(self.world.coordinator, self.doubtful)
        batches = self.world.log.batches.get(self.partition, [])
        for name, left in [
            ("the whole log", batches),
            ("the compacted log", compacted(batches, tombstones=True)),
            ("the compacted log without tombstones", compacted(batches, tombstones=False)),
        ]:
            self.world.log.batches[self.partition] = left
            successor = self.world.broker()
            successor.on_elected(self.partition, 0)
            self.world.clock.advance()
            loaded = self.fetched(successor, self.doubtful)
            successor.stop()
            self.world.log.batches[self.partition] = batches
            assert shown == loaded, "\n".join([f"{name} says otherwise after", *self.told])

    @staticmethod
    def fetched(coordinator: GroupCoordinator, doubtful: Collection[PartitionKey]) -> Fetched:
        """What a reader is told, and one who takes nothing that a transaction may change."""
        asked = [at for at in PARTITIONS if at not in doubtful]
        return [coordinator.fetch_offsets("g", asked, require_stable=stable)[1] for stable in (False, True)]


def test_the_coordinator_and_the_log_say_the_same(make_world):
    compared = 0
    for seed in range(SEEDS):
        world = make_world(offsets_retention_minutes=RETENTION_MINUTES)
        run = Run(world, Random(seed))
        for _ in range(STEPS):
            run.step()
        compared += run.compared
    assert compared > SEEDS * STEPS / 5


@pytest.mark.parametrize("how", ["group", "offsets", "topic"])
def test_what_is_deleted_is_not_back_when_its_transaction_ends_after_a_move(make_world, how):
    """There was no tombstone of what only the transaction had, and none would have counted: the next coordinator showed
    the offset of a deleted group, or from which to read a topic that had been created anew."""
    run = Run(make_world(), Random(0))
    world = run.world
    world.log.held = False
    other = ("u", 0)
    world.commit({other: 1})
    request = replace(world.commit_attempt(dict.fromkeys([PARTITIONS[0]], 5)), transaction=InTransaction(7, 0))
    world.coordinator.commit("g", request, lambda errors: None)
    if how == "group":
        world.coordinator.delete("g")
    elif how == "offsets":
        world.coordinator.delete_offsets("g", [PARTITIONS[0]])
    else:
        world.coordinator.on_partitions_deleted([PARTITIONS[0]])
        world.clock.advance()
    run.end(7, committed=True)
    left = {} if how == "group" else {other: 1}
    assert world.offsets() == left
    run.move()
    assert world.offsets() == left


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("how", ["group", "offsets", "topic", "expiry"])
def test_what_was_written_too_late_is_not_back_when_it_was_deleted(make_world, how, in_transaction):
    """A commit that was refused while it is in the log was forgotten, so deletions wrote no tombstone of it: the next
    coordinator showed it, and a topic that had been created anew was read from there."""
    run = Run(make_world(offsets_retention_minutes=RETENTION_MINUTES), Random(0))
    world = run.world
    request = world.commit_attempt({PARTITIONS[0]: 5})
    if in_transaction:
        request = replace(request, transaction=InTransaction(7, 0))
    world.coordinator.commit("g", request, lambda errors: None)
    world.log.acknowledge(ErrorCode.REQUEST_TIMED_OUT)
    world.log.held = False
    if how == "group":
        assert world.coordinator.delete("g") is ErrorCode.NONE
    elif how == "offsets":
        assert world.coordinator.delete_offsets("g", [PARTITIONS[0]])[0] is ErrorCode.NONE
    elif how == "topic":
        world.coordinator.on_partitions_deleted([PARTITIONS[0]])
        world.clock.advance()
    else:
        world.clock.advance((RETENTION_MINUTES + 11) * MINUTE)
        assert not world.coordinator.groups
    if in_transaction:
        run.end(7, committed=True)
    run.move()
    assert world.offsets() == {}
