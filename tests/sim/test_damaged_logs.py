"""Logs, and what is kept beside them, with something wrong in them: each kind of damage is found, without a run."""

from collections.abc import Callable

import pytest

from odradek.broker.log.producer_entry import ProducerEntry, RememberedBatch
from odradek.broker.log.producer_state import ProducerState
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.records import encode_batch
from odradek.testing.log_environments import make_batch
from odradek.testing.simulation.derived_state import DerivedState
from odradek.testing.simulation.inspection import CommittedBatches, NewestRecords
from tests.sim.stage import WHERE, Stage


def batches_of(stage: Stage, *batches: bytearray) -> None:
    """Have the batches be committed one after another."""
    committed, offset = CommittedBatches(stage.history), 0
    for batch in batches:
        batch[0:8] = offset.to_bytes(8, "big")
        offset += int.from_bytes(batch[23:27], "big") + 1
        committed.take(WHERE, bytes(batch), "t-0")


def test_batches_of_a_producer_in_their_order_are_right() -> None:
    stage = Stage()
    batches_of(
        stage,
        make_batch([b"a", b"b"], producer_id=1, sequence=0),
        make_batch([b"c"], producer_id=1, sequence=2),
        encode_end_txn_marker(EndTxnMarker(True, 4), 0, 1, 1),
        make_batch([b"d"], producer_id=1, producer_epoch=2, sequence=0),
    )
    assert not stage.seen


@pytest.mark.parametrize("sequence", [0, 1, 3], ids=["again", "within", "a gap"])
def test_a_sequence_that_does_not_come_next(sequence: int) -> None:
    stage = Stage()
    first, other = (make_batch([b"a", b"b"], producer_id=1, sequence=number) for number in (0, sequence))
    batches_of(stage, first, other)
    assert f"goes on with sequence {sequence}, 2 was to come" in stage.seen


@pytest.mark.parametrize("gap", [0, 9])
def test_an_epoch_that_does_not_begin_at_zero(gap: int) -> None:
    """What has expired unseen may have held its beginning."""
    stage = Stage()
    committed, newer = CommittedBatches(stage.history), make_batch([b"b"], producer_id=1, producer_epoch=1, sequence=5)
    committed.take(WHERE, bytes(make_batch([b"a"], producer_id=1, sequence=0)), "t-0")
    newer[0:8] = (1 + gap).to_bytes(8, "big")
    committed.take(WHERE, bytes(newer), "t-0")
    assert ("goes on with sequence 5, 0 was to come" in stage.seen) is (gap == 0) is bool(stage.seen)


def test_a_record_of_a_fenced_producer() -> None:
    stage = Stage()
    late = make_batch([b"b"], producer_id=1, producer_epoch=3, sequence=0)
    batches_of(stage, make_batch([b"a"], producer_id=1, producer_epoch=4, sequence=0), late)
    assert "writes in epoch 3, fenced by 4" in stage.seen


def test_a_marker_of_a_deposed_coordinator() -> None:
    stage = Stage()
    batches_of(stage, *(encode_end_txn_marker(EndTxnMarker(True, epoch), 0, 1, 0) for epoch in (6, 5)))
    assert "a marker of coordinator epoch 5 after 6" in stage.seen


def test_another_batch_at_an_offset() -> None:
    stage = Stage()
    committed = CommittedBatches(stage.history)
    assert committed.take(WHERE, bytes(make_batch([b"a"])), "t-0") == [0]
    assert committed.take(WHERE, bytes(make_batch([b"a"])), "t-0") == []
    committed.take(WHERE, bytes(make_batch([b"b"])), "t-0")
    assert "another batch was committed at offset 0" in stage.seen


def test_the_newest_record_of_each_key_counts_and_nothing_aborted() -> None:
    def record(offset: int, key: bytes, value: bytes | None, producer_id: int = -1) -> bytes:
        writer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        return bytes(encode_batch(offset, [0], [key], [value], **(writer if producer_id >= 0 else {})))  # type: ignore[arg-type]

    newest = NewestRecords()
    newest.take(record(0, b"k", b"old") + record(1, b"k", b"new") + record(2, b"gone", b"x") + record(3, b"gone", None))
    newest.take(record(4, b"k", b"aborted", 1) + record(5, b"c", b"committed", 2) + record(6, b"c", b"open", 3))
    assert newest.values == {b"k": b"new"}
    for offset, (producer, committed) in enumerate(((1, False), (2, True)), start=7):
        newest.take(bytes(encode_end_txn_marker(EndTxnMarker(committed, 0), 0, producer, 0, base_offset=offset)))
    assert newest.values == {b"k": b"new", b"c": b"committed"} and newest.end == 9


def _forget(producers: ProducerState) -> None:
    del producers.producers[1]


def _expect_another(producers: ProducerState) -> None:
    producers.producers[1].batches[-1] = producers.producers[1].batches[-1]._replace(last_sequence=9)


def _keep_open(producers: ProducerState) -> None:
    producers.producers[2].transaction_first_offset = 1


def _keep_the_former_epoch(producers: ProducerState) -> None:
    producers.producers[2].epoch = 0


def _forget_the_coordinator(producers: ProducerState) -> None:
    producers.producers[2].coordinator_epoch = -1


def _keep_what_was_cut(producers: ProducerState) -> None:
    producers.producers[8] = ProducerEntry(8)
    producers.producers[8].remember(RememberedBatch(0, 0, 4, 4, 0))


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        (_forget, "producer 1 is not known"),
        (_expect_another, "producer 1:"),
        (_keep_open, "producer 2:"),
        (_keep_the_former_epoch, "producer 2:"),
        (_forget_the_coordinator, "producer 2:"),
        (_keep_what_was_cut, "and has no batch"),
    ],
)
def test_a_producer_that_is_known_otherwise_than_by_its_batches(
    damage: Callable[[ProducerState], None], seen: str
) -> None:
    stage = Stage()
    derived = DerivedState(stage.cluster, stage.history)
    stage.write(
        make_batch([b"a"], producer_id=1), make_batch([b"b"], producer_id=2, transactional=True),
        make_batch([b"c"], producer_id=1, sequence=1), encode_end_txn_marker(EndTxnMarker(True, 4), 0, 2, 1),
    )  # fmt: skip
    derived.look()
    assert not stage.seen
    damage(stage.replicas[1].log.producers)
    derived.look()
    assert not stage.seen, "it has not been cut"
    derived.look(at_all=True)
    assert "broker-1" in stage.seen and seen in stage.seen


@pytest.mark.parametrize(
    ("begins", "seen"),
    [(1, "offset 1 is of leader epoch 5, 6 is known"), (3, "no batch begins at 3, as leader epoch 6")],
)
def test_a_leader_epoch_that_is_known_otherwise_than_by_its_batches(begins: int, seen: str) -> None:
    stage = Stage()
    derived = DerivedState(stage.cluster, stage.history)
    stage.write(make_batch(), make_batch(), make_batch([b"a", b"b"]), make_batch())
    derived.look()
    stage.replicas[1].log.truncate_to(4)
    derived.look()
    assert not stage.seen
    stage.replicas[1].log.epochs.assign(6, begins)
    stage.replicas[1].log.history_changes += 1
    derived.look()
    assert "broker-1" in stage.seen and seen in stage.seen


@pytest.mark.parametrize(("begin", "seen"), [(0, False), (1, True), (2, False)], ids=["batch", "within", "log start"])
def test_a_leader_epoch_that_begins_before_the_log_does(begin: int, seen: bool) -> None:
    """A new follower copies the batch in which its leader's log begins from its first record on."""
    stage = Stage()
    derived = DerivedState(stage.cluster, stage.history)
    stage.write(make_batch([b"a", b"b", b"c"]), make_batch())
    log = stage.replicas[1].log
    log.log_start_offset = 2
    log.epochs.clear()
    log.epochs.assign(5, begin)
    derived.look()
    assert (f"no batch begins at {begin}, as leader epoch 5 does" in stage.seen) is bool(stage.seen) is seen
