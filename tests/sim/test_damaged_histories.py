"""What clients have seen, with something wrong in it: each kind of damage is found, without a run."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.log.index import TimeEntry
from odradek.client.records import RecordMetadata
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.message_set import MAGIC_V0, down_convert
from odradek.protocol.messages.fetch import FetchableTopicResponse, PartitionData
from odradek.protocol.records import Columns
from odradek.testing.log_environments import make_batch
from odradek.testing.simulation.history import History, logs_noted
from odradek.testing.simulation.loose_topic import TOPIC as LOOSE
from odradek.testing.simulation.loose_topic import LooseTopic
from odradek.testing.simulation.old_clients import OldReader
from odradek.testing.simulation.transactional_positions import Outcome, Transaction
from odradek.testing.simulation.transactions import CommittedReader, Transactions, held_back, may_be_seen
from odradek.testing.simulation.verdict import is_through
from odradek.testing.virtual_clock import FIRST_WALL_CLOCK_MS, ManualClock
from tests.sim.stage import STATE, T0, Stage


def test_two_values_at_one_offset() -> None:
    history = History(ManualClock())
    history.acknowledge(T0, 4, b"producer-0-1", "producer-0")
    history.at(T0, 4, b"producer-1-1", "consumer")
    assert "was seen there" in str(history.violation)


def test_a_duplicate() -> None:
    history = History(ManualClock())
    history.at(T0, 4, b"producer-0-1", "consumer")
    history.at(T0, 9, b"producer-0-1", "consumer")
    assert "a duplicate" in str(history.violation)


def test_an_offset_that_goes_back() -> None:
    history = History(ManualClock())
    history.committed({T0: 7})
    history.committed({T0: 5})
    history.begins(T0, 7, "member-0", history.committed_of(T0))
    assert history.violation is None
    history.begins(T0, 5, "member-1", history.committed_of(T0))
    assert "committed was 7" in str(history.violation)


def test_a_failure_that_is_caught_and_logged() -> None:
    history, ours = History(ManualClock()), logging.getLogger("odradek.broker")
    with logs_noted(history):
        ours.error("a disk has failed")
        assert history.violation is None
        try:
            raise KeyError("t-0")
        except KeyError:
            ours.exception("the action after an append has failed")
    assert "a failure of ours is logged: the action after an append has failed: KeyError('t-0')" in str(
        history.violation
    )


@pytest.mark.parametrize(
    ("expected", "position", "log_start", "right"),
    [(5, 5, 0, True), (3, 5, 5, True), (3, 5, 4, False), (5, 3, 5, False), (5, None, 5, False)],
    ids=["all is read", "the rest has expired", "a record is skipped", "it stands before", "nothing is assigned"],
)
def test_a_reader_that_is_not_through(expected: int, position: int | None, log_start: int, right: bool) -> None:
    history = History(ManualClock())
    history.expires = True
    history.log_start_of = lambda partition: log_start
    states = {} if position is None else {T0: SimpleNamespace(position=position)}
    shared = SimpleNamespace(positions=SimpleNamespace(partitions=states))
    reader = SimpleNamespace(positions={T0: expected}, engine=SimpleNamespace(shared=shared))
    assert is_through(cast(Any, reader), T0, 5, history) is right


def test_a_record_that_a_group_has_never_seen() -> None:
    stage = Stage()
    stage.write(make_batch([b"producer-0-0"]), make_batch([b"producer-0-1"]))
    stage.history.acknowledge(T0, 0, b"producer-0-0", "producer-0")
    stage.groups[:] = [[SimpleNamespace(name=name, read={T0: {at}}) for name, at in (("a", 0), ("b", 1))], []]
    stage.verdict()._acknowledged_is_there()
    assert not stage.seen
    stage.groups[1] = [SimpleNamespace(name="connector-0", read={T0: {1}})]
    stage.verdict()._acknowledged_is_there()
    assert "the group of connector-0 has never seen offsets [0]" in stage.seen


def test_an_acknowledged_record_that_is_lost() -> None:
    stage = Stage()
    stage.write(make_batch([b"producer-0-0"]))
    stage.history.acknowledge(T0, 0, b"producer-0-0", "producer-0")
    stage.verdict()._acknowledged_is_there()
    assert not stage.seen
    stage.history.acknowledge(T0, 1, b"producer-0-1", "producer-0")
    stage.verdict()._acknowledged_is_there()
    assert "acknowledged and lost: {1:" in stage.seen


def test_records_out_of_their_order() -> None:
    stage = Stage()
    for offset, number in enumerate((0, 2, 1)):
        stage.history.at(T0, offset, b"producer-0-%d" % number, "consumer")
    stage.verdict()._order_is_kept()
    assert "comes after 2" in stage.seen


def test_replicas_that_differ() -> None:
    stage = Stage()
    stage.in_zookeeper(STATE)
    stage.write(make_batch([b"producer-0-0"]), to=(0, 1))
    stage.replicas[2].log.append_as_leader(make_batch([b"producer-0-9"]), 5)
    stage.verdict()._replicas_are_the_same()
    assert "the replicas differ" in stage.seen


def test_a_time_that_a_log_does_not_find() -> None:
    stage = Stage()
    stage.in_zookeeper(STATE)
    stage.write(make_batch([b"producer-0-0"]), make_batch([b"producer-0-1"], timestamp_ms=FIRST_WALL_CLOCK_MS + 7))
    stage.verdict()._replicas_are_the_same()
    assert not stage.seen
    stage.replicas[1].log.active._largest = TimeEntry(FIRST_WALL_CLOCK_MS, 0)
    stage.verdict()._replicas_are_the_same()
    assert f"time {FIRST_WALL_CLOCK_MS + 7} is at offset 1" in stage.seen


@pytest.mark.parametrize(("offsets", "seen"), [([0, 1, 2], ""), ([0, 2], "goes on at 2, 1 was to come")])
def test_a_gap_in_what_an_old_client_is_given(offsets: list[int], seen: str) -> None:
    history = History(ManualClock())
    values: list[bytes | None] = [b"old.0-%d" % offset for offset in offsets]
    records = down_convert(Columns(offsets, [0] * len(offsets), [None] * len(offsets), values), MAGIC_V0)
    answer = FetchableTopicResponse(partitions=[PartitionData(records=records)])

    async def ask(*_: Any) -> Any:
        return SimpleNamespace(responses=[answer])

    reader = OldReader.__new__(OldReader)
    reader.topic, reader.positions, reader._history = "t", {0: 0}, history
    reader.ask_leader = ask  # type: ignore[method-assign, assignment]
    asyncio.run(reader._fetch(0, 0))
    assert seen in str(history.violation or "") and bool(seen) == (history.violation is not None)
    assert reader.positions == {0: 3} and history.values[T0][2] == b"old.0-2"


@pytest.mark.parametrize(
    ("outcome", "all_sent", "count", "right"),
    [
        (Outcome.COMMITTED, True, 2, True),
        (Outcome.COMMITTED, True, 1, False),
        (Outcome.ABORTED, True, 0, True),
        (Outcome.ABORTED, True, 1, False),
        (Outcome.UNKNOWN, True, 2, True),
        (Outcome.UNKNOWN, True, 1, False),
        (Outcome.UNKNOWN, False, 2, False),
    ],
)
def test_how_much_of_a_transaction_may_be_seen(outcome: Outcome, all_sent: bool, count: int, right: bool) -> None:
    values = [b"a-0", b"a-1"]
    assert may_be_seen(Transaction(outcome, values, all_sent=all_sent), values[:count]) == right


def test_a_part_of_an_aborted_transaction_that_was_read() -> None:
    stage = Stage()
    aborted = Transaction(Outcome.ABORTED, [b"a-0"], is_decided=True)
    of = cast(Transactions, SimpleNamespace(_history=stage.history, reader=SimpleNamespace(seen={b"a-0": (T0, 0)})))
    Transactions._judge(of, "transactor-0", aborted)
    assert "aborted transaction" in stage.seen


def test_a_transaction_that_is_read_before_it_is_decided() -> None:
    stage = Stage()
    open_one = Transaction(values=[b"a-0"])
    reader: Any = SimpleNamespace(seen={}, _history=stage.history, _transaction_of={b"a-0": open_one})
    CommittedReader._take(reader, T0, 0, b"a-0")
    assert "nobody has asked to commit it" in stage.seen


@pytest.mark.parametrize("known", [True, False])
def test_an_aborted_transaction_that_an_index_does_not_have(known: bool) -> None:
    """Of two, one of which is committed."""
    stage = Stage("transactions")
    stage.in_zookeeper(STATE)
    for producer_id, committed in ((1, True), (2, False)):
        stage.write(make_batch([b"a-0"], producer_id=producer_id, transactional=True))
        stage.write(encode_end_txn_marker(EndTxnMarker(committed, 0), 0, producer_id, 0))
    if not known:
        stage.replicas[1].log.active.transactions.clear()
    stage.verdict()._replicas_are_the_same()
    assert ("that one side alone knows: [(2, 2, 3)]" in stage.seen) is bool(stage.seen) is not known


def test_a_last_stable_offset_that_hangs() -> None:
    stage = Stage()
    stage.write(make_batch([b"a-0"], producer_id=1, transactional=True))
    assert "last stable offset 0, end 1" in str(held_back(stage.leader, 0))
    stage.write(encode_end_txn_marker(EndTxnMarker(True, 0), 0, 1, 0))
    assert "is at 1 of 2" in str(held_back(stage.leader, 1))
    assert held_back(stage.leader, 2) is None


def test_a_last_stable_offset_above_a_transaction_that_is_open_elsewhere() -> None:
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch([b"a-0"], producer_id=1, transactional=True))
    stage.write(encode_end_txn_marker(EndTxnMarker(True, 0), 0, 1, 0), to=(0, 1))
    safety.look()
    assert not stage.seen
    stage.leader.log.producers._unreplicated.clear()
    leader = stage.cluster.brokers[stage.leader.local_id]
    leader.spans_at_death[("t", 0)] = (0, 2)
    safety.look()
    assert not stage.seen, "it was started on a marker that a replica lacks"
    leader.spans_at_death[("t", 0)] = (0, 1)
    safety.look()
    assert "a transaction is open from 0" in stage.seen


def test_a_value_that_is_committed_twice() -> None:
    stage = Stage()
    of = {b"a-0": Transaction(values=[b"a-0"], is_decided=True)}
    reader: Any = SimpleNamespace(seen={}, _history=stage.history, _transaction_of=of)
    CommittedReader._take(reader, T0, 0, b"a-0")
    assert not stage.seen
    CommittedReader._take(reader, T0, 2, b"a-0")
    assert "committed b'a-0' is at" in stage.seen


def loose_topic(stage: Stage) -> LooseTopic:
    """Make a topic to which b"a" and b"b" were sent, with acks=1."""
    loose = LooseTopic(stage.cluster, stage.history, lambda where: stage.leader)
    loose._sent = {b"a", b"b"}
    stage.write(make_batch([b"a"]), to=(0,))
    loose._hear(b"a", RecordMetadata(LOOSE, 0, 0, 0), None)
    return loose


@pytest.mark.parametrize(
    ("there", "seen"),
    [
        ({0: b"a"}, ""),
        ({0: b"a", 1: b"b"}, ""),
        ({0: b"b"}, "lost without an election: {0: b'a'}"),
        ({0: b"a", 1: b"a"}, "is at 0 and at 1"),
        ({0: b"a", 1: b"c"}, "nobody has sent b'c'"),
    ],
)
def test_what_a_topic_may_have_lost_without_an_election(there: dict[int, bytes], seen: str) -> None:
    stage = Stage(LOOSE)
    loose_topic(stage).judge(there)
    assert seen in stage.seen and bool(seen) == bool(stage.seen)


def test_what_is_acknowledged_in_the_middle_of_a_batch_may_not_be_lost_either() -> None:
    stage = Stage(LOOSE)
    loose = loose_topic(stage)
    loose._sent |= {b"c", b"d", b"e"}
    stage.write(make_batch([b"c", b"d", b"e"]), to=(0,))
    for offset, value in ((1, b"c"), (2, b"d"), (3, b"e")):
        loose._hear(value, RecordMetadata(LOOSE, 0, offset, 0), None)
    loose.judge({0: b"a", 1: b"c", 2: b"d"})
    assert "lost without an election: {3: b'e'}" in stage.seen


@pytest.mark.parametrize("unclean", [True, False])
def test_what_a_topic_may_have_lost_by_an_election(unclean: bool) -> None:
    """What one leader alone has acknowledged, and only by an unclean one what was committed."""
    stage = Stage(LOOSE)
    loose = loose_topic(stage)
    loose.elected((LOOSE, 0), unclean=False)
    loose.judge({0: b"b"})
    assert not stage.seen
    stage.leader.high_watermark = 1
    loose.look()
    loose.elected((LOOSE, 0), unclean=unclean)
    loose.judge({0: b"b"})
    assert bool(stage.seen) != unclean
