"""Coordinators of groups and transactions that do what they must not: each kind of damage is found, without a run."""

import asyncio
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from odradek.aio import Consumer
from odradek.broker.groups.group_metadata import GroupState, Member
from odradek.broker.groups.group_offsets import CommittedOffset, OffsetTable
from odradek.broker.groups.group_records import batch_of as commit_batch
from odradek.broker.groups.group_records import offset_key, offset_value
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.replica_manager import AwaitedAppend, DelayedProduce
from odradek.broker.transactions.transaction_records import batch_of as state_batch
from odradek.broker.transactions.transaction_records import key_of, value_of
from odradek.broker.transactions.transaction_state import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    ProducerIdentity,
    TxnState,
)
from odradek.client.consumer.group_protocol import Identity
from odradek.client.consumer.member_states import MemberSettings, State
from odradek.client.consumer.membership import Membership
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.transaction_state import TransactionStatus
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.testing.log_environments import make_batch
from odradek.testing.simulation import decisions as decisions_module
from odradek.testing.simulation.clients import SimulatedConsumer
from odradek.testing.simulation.coordinators import Coordinators
from odradek.testing.simulation.decisions import Decisions
from odradek.testing.simulation.group_members import SESSION_SLACK_MS, DepartedMembers, Generations
from odradek.testing.simulation.history import History
from odradek.testing.simulation.liveness import Waits
from odradek.testing.simulation.transactional_positions import (
    Outcome,
    Transaction,
    TransactionalPositions,
    undisputed_epoch,
)
from odradek.testing.virtual_clock import ManualClock, VirtualClock, run_virtual
from odradek.zk_schema.znodes.topics import PartitionState
from tests.sim.stage import T0, WHERE, Stage


@pytest.mark.parametrize(
    ("found", "seen"),
    [(4, ""), (None, "is at None, committed was 4"), (2, "is at 2, committed was 4"), (5, "which was not committed")],
)
def test_a_position_that_no_transaction_has_committed(found: int | None, seen: str) -> None:
    """4 is committed, nobody has asked to commit 5, and the one with 6 has been seen, and may be committed."""
    transactions = [
        Transaction(Outcome.COMMITTED, [b"a-4"], is_decided=True, position=4),
        Transaction(Outcome.OPEN, [b"a-5"], position=5),
        Transaction(Outcome.UNKNOWN, [b"a-6"], is_decided=True, position=6),
    ]
    history = History(ManualClock())
    positions = TransactionalPositions.__new__(TransactionalPositions)
    positions.group, positions._history, positions._transactions, positions.found = "g", history, transactions, None
    positions.judge(found, least=4)
    assert seen in str(history.violation or "") and bool(seen) == (history.violation is not None)
    if not seen:
        assert positions.unrest({b"a-4"}) is None
        assert positions.unrest({b"a-4", b"a-6"}) == "g is at 4, records say 6"


def test_a_coordinator_that_has_not_heard_of_its_successor() -> None:
    """It tells what it knows, as in Kafka, when it is cut off from the controller alone (seed 700006)."""
    stage = Stage(CONSUMER_OFFSETS)
    for epoch, told in ((5, 5), (6, None)):
        stage.in_zookeeper(PartitionState(0, epoch, (0, 1, 2), 3))
        assert undisputed_epoch(stage.cluster, "g") == told
    positions = TransactionalPositions.__new__(TransactionalPositions)
    positions.group, positions._history, positions._transactions, positions.found = "g", stage.history, [], 4
    positions.judge(2, least=4, sure=False)
    assert not stage.seen and positions.found == 4


def test_a_commit_that_is_told_before_it_is_replicated() -> None:
    stage = Stage(CONSUMER_OFFSETS)
    committed = CommittedOffset(7, 1)
    table = OffsetTable()
    group = SimpleNamespace(metadata=SimpleNamespace(group_id="g"), offsets=table, partition=0)
    stage.brokers[0].server.services.groups.groups.append(group)
    stage.write(commit_batch([(offset_key("g", WHERE), offset_value(committed))], 0, 0), to=(0,))
    coordinators = Coordinators(stage.cluster, stage.history)
    coordinators.look()
    assert not stage.seen
    table.load(WHERE, committed, 0)
    coordinators.look()
    assert "tells g of 7" in stage.seen


def test_a_decision_that_is_acted_upon_before_it_is_replicated() -> None:
    stage = Stage(TRANSACTION_STATE)
    state = TxnState(ProducerIdentity(1, 0), 1000, PREPARE_COMMIT, frozenset({WHERE}), 5, 6)
    stage.write(state_batch("id", state, 0), to=(0,))
    told = [("id", replace(state, updated_ms=4))]
    stage.brokers[0].server.services.transactions.list_transactions = lambda: (0, told)
    coordinators = Coordinators(stage.cluster, stage.history)
    coordinators.look()
    assert not stage.seen
    told[0] = ("id", replace(state, former=ProducerIdentity(1, 0)))
    coordinators.look()
    assert "acts upon id: PREPARE_COMMIT" in stage.seen


def test_a_transaction_that_is_open_in_a_log_and_not_to_its_coordinator() -> None:
    stage = Stage("transactions")
    coordinators = Coordinators(stage.cluster, stage.history)
    coordinators.present_leader = lambda where: stage.leader
    state = TxnState(ProducerIdentity(1, 0), 1000, ONGOING, frozenset({("transactions", 0)}), 5, 6)
    told = [("id", state)]
    stage.brokers[0].server.services.transactions.list_transactions = lambda: (0, told)
    stage.write(make_batch([b"a-0"], producer_id=1, transactional=True))
    coordinators._look_for_left_open()
    assert not stage.seen
    told[0] = ("id", replace(state, status=COMPLETE_COMMIT))
    coordinators._look_for_left_open()
    assert "has a transaction of id open from 0 on, which is COMPLETE_COMMIT to its coordinator" in stage.seen


def states_and_data() -> tuple[Stage, Stage, Decisions]:
    states, data = Stage(TRANSACTION_STATE), Stage("transactions")
    for broker, replica in zip(states.brokers, data.replicas, strict=True):
        broker.server.services.replicas.partitions["transactions", 0] = replica
    leaders = {(TRANSACTION_STATE, 0): states.leader, ("transactions", 0): data.leader}
    decisions = Decisions(
        states.cluster, states.history, ["transactions"], lambda where: states.leader.high_watermark, leaders.get
    )
    return states, data, decisions


def end(data: Stage, *, commits: bool, epoch: int) -> None:
    data.write(make_batch([b"a"], producer_id=1, transactional=True), to=())
    data.write(encode_end_txn_marker(EndTxnMarker(commits, 0), 0, 1, epoch), to=())


@pytest.mark.parametrize(
    ("status", "copied", "commits", "epoch", "seen"),
    [
        (PREPARE_COMMIT, (1, 2), True, 0, False),
        (COMPLETE_COMMIT, (1, 2), True, 0, False),
        (PREPARE_COMMIT, (1,), True, 0, True),
        (PREPARE_COMMIT, (1, 2), False, 0, True),
        (PREPARE_COMMIT, (1, 2), True, 1, True),
        (ONGOING, (1, 2), True, 0, True),
    ],
)
def test_a_marker_of_what_is_not_decided(
    status: TransactionStatus, copied: tuple[int, ...], commits: bool, epoch: int, seen: bool
) -> None:
    """Or not in sync everywhere; a transaction before it has ended so, which is long known."""
    states, data, decisions = states_and_data()
    state = TxnState(ProducerIdentity(1, 0), 1000, PREPARE_COMMIT, frozenset({WHERE}), 5, 6)
    states.write(state_batch("id", state, 0))
    end(data, commits=True, epoch=0)
    decisions.look()
    states.write(state_batch("id", replace(state, status=ONGOING), 0))
    decisions.look()
    decisions.look()
    assert not states.seen
    states.write(state_batch("id", replace(state, status=status), 0), to=copied)
    end(data, commits=commits, epoch=epoch)
    decisions.look()
    assert (
        ("<transactions-0 leader epoch 5 isr [0, 1, 2]> has a marker at 3" in states.seen) is bool(states.seen) is seen
    )


@pytest.mark.parametrize(("commits", "epoch", "seen"), [(True, 0, False), (False, 0, True), (True, 1, True)])
def test_a_marker_of_an_epoch_that_is_over_may_come_twice(commits: bool, epoch: int, seen: bool) -> None:
    """Its first copy was late, and the coordinator has sent another one since (seed 26003188)."""
    states, data, decisions = states_and_data()
    state = TxnState(ProducerIdentity(1, 0), 1000, PREPARE_COMMIT, frozenset({WHERE}), 5, 6)
    states.write(state_batch("id", state, 0))
    decisions.look()
    states.write(state_batch("id", replace(state, producer=ProducerIdentity(1, 2), status=ONGOING), 0))
    decisions.look()
    decisions.look()
    end(data, commits=commits, epoch=epoch)
    decisions.look()
    assert bool(states.seen) is seen


@pytest.mark.parametrize("compacted", [True, False])
def test_a_marker_whose_decision_has_been_compacted_away(compacted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    states, data, decisions = states_and_data()
    state = TxnState(ProducerIdentity(1, 0), 1000, PREPARE_ABORT, frozenset({WHERE}), 5, 6)
    states.write(state_batch("id", state, 0))
    left = state_batch("id", replace(state, status=ONGOING), 0)
    states.write(left)
    if compacted:
        data_of = decisions_module._bytes_between
        monkeypatch.setattr(
            decisions_module,
            "_bytes_between",
            lambda *asked: data_of(*asked)[-len(left) if asked[0] is states.leader else 0 :],
        )
    end(data, commits=False, epoch=0)
    decisions.look()
    assert not states.seen
    end(data, commits=True, epoch=0)
    decisions.look()
    assert "COMMIT of producer 1" in states.seen


def test_decisions_of_a_leader_whose_disk_rots_are_read_from_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that nobody can decode ended the run."""
    states, data, decisions = states_and_data()
    state = TxnState(ProducerIdentity(1, 0), 1000, PREPARE_COMMIT, frozenset({WHERE}), 5, 6)
    states.write(state_batch("id", state, 0))
    data_of = decisions_module._bytes_between
    monkeypatch.setattr(decisions_module, "_bytes_between", lambda *asked: bytes(make_batch([b"rot"])))
    states.history.rotten.add(0)
    decisions.look()
    monkeypatch.setattr(decisions_module, "_bytes_between", data_of)
    states.history.mended(0)
    decisions.look()
    end(data, commits=False, epoch=0)
    decisions.look()
    assert "ABORT of producer 1" in states.seen


def test_a_coordinator_that_keeps_what_another_one_leads() -> None:
    stage = Stage(CONSUMER_OFFSETS)
    group = SimpleNamespace(metadata=SimpleNamespace(group_id="g"), offsets=OffsetTable(), partition=0)
    stage.brokers[1].server.services.groups.groups.append(group)
    Coordinators(stage.cluster, stage.history).look()
    assert "broker-1 keeps g of ('__consumer_offsets', 0), which it does not lead" in stage.seen


def test_a_coordinator_that_does_not_tell_the_newest_of_a_group() -> None:
    stage = Stage(CONSUMER_OFFSETS)
    table, group = OffsetTable(), SimpleNamespace(group_id="g")
    stage.brokers[0].server.services.groups.groups.append(SimpleNamespace(metadata=group, offsets=table, partition=0))
    coordinators, written = Coordinators(stage.cluster, stage.history), CommittedOffset(7, 1)
    table.load(WHERE, written, 0)
    coordinators.judge((CONSUMER_OFFSETS, 0), {offset_key("g", WHERE): offset_value(written)})
    assert not stage.seen
    table.load(WHERE, replace(written, offset=6), 1)
    coordinators.judge((CONSUMER_OFFSETS, 0), {offset_key("g", WHERE): offset_value(written)})
    assert (
        "the coordinator tells of OffsetKey(group_id='g', partition=('t', 0)): CommittedOffset(offset=6" in stage.seen
    )


@pytest.mark.parametrize("status", [PREPARE_COMMIT, None])
def test_a_coordinator_that_does_not_tell_the_newest_of_a_transaction(status: object) -> None:
    stage = Stage(TRANSACTION_STATE)
    written = TxnState(ProducerIdentity(1, 0), 1000, COMPLETE_COMMIT, frozenset(), 5, 6)
    coordinators, told = Coordinators(stage.cluster, stage.history), [("id", written)]
    stage.brokers[0].server.services.transactions.list_transactions = lambda: (0, told)
    coordinators.judge((TRANSACTION_STATE, 0), {key_of("id"): value_of(written)})
    assert not stage.seen
    told[:] = [("id", replace(written, status=PREPARE_COMMIT))] if status is PREPARE_COMMIT else []
    coordinators.unsure.add("id")
    coordinators.judge((TRANSACTION_STATE, 0), {key_of("id"): value_of(written)})
    assert not stage.seen
    coordinators.unsure.clear()
    coordinators.judge((TRANSACTION_STATE, 0), {key_of("id"): value_of(written)})
    assert stage.seen.startswith("the coordinator tells of id: ")


@pytest.mark.parametrize(("status", "waits"), [(ONGOING, True), (PREPARE_ABORT, False)])
def test_there_is_no_rest_while_a_transaction_is_to_be_aborted(status: TransactionStatus, waits: bool) -> None:
    """Its abort could not be written: until the next attempt the coordinator has an epoch that is in no log."""
    stage = Stage(TRANSACTION_STATE)
    begun = TxnState(ProducerIdentity(1, 0), 1000, status, frozenset(), stage.clock.now_ms(), 6)
    services = stage.brokers[1].server.services
    services.clock, services.transactions.list_transactions = stage.clock, lambda: (0, [("id", begun)])
    coordinators = Coordinators(stage.cluster, stage.history)
    stage.clock.advance(1000)
    assert coordinators.unrest() is None
    stage.clock.advance(1)
    assert (coordinators.unrest() == f"id is to be aborted: {begun}") is waits


@pytest.mark.parametrize("kind", ["groups", "transactions"])
def test_there_is_no_rest_while_a_coordinator_loads(kind: str) -> None:
    """What could not be read (no descriptor was left) is read again seconds later; till then nothing is known of it."""
    stage = Stage(TRANSACTION_STATE)
    services = stage.brokers[1].server.services
    coordinators = Coordinators(stage.cluster, stage.history)
    assert coordinators.unrest() is None
    listing = "list_groups" if kind == "groups" else "list_transactions"
    setattr(getattr(services, kind), listing, lambda *_: (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []))
    assert coordinators.unrest() == "broker-1 loads what it coordinates"


def test_producer_ids_that_two_brokers_give_out() -> None:
    stage = Stage()
    coordinators = Coordinators(stage.cluster, stage.history)
    coordinators.look()
    stage.brokers[2].server.services.producer_ids.left = range(28, 30)
    coordinators.look()
    assert not stage.seen
    stage.brokers[2].server.services.producer_ids.left = range(12, 20)
    coordinators.look()
    assert stage.seen == "broker-2 in its life 1 gives out the producer ids up to 20, as broker-1 in its life 1 does"


def test_producer_ids_that_somebody_else_has_taken() -> None:
    stage = Stage()
    coordinators = Coordinators(stage.cluster, stage.history)
    coordinators.give_out(40, "an old broker")
    coordinators.look()
    assert not stage.seen
    coordinators.give_out(30, "an old broker")
    assert stage.seen == "an old broker gives out the producer ids up to 30, as broker-2 in its life 1 does"


def test_a_block_of_producer_ids_that_the_same_one_is_given_twice() -> None:
    stage = Stage()
    coordinators = Coordinators(stage.cluster, stage.history)
    coordinators.answer(40)
    coordinators.answer(50)
    assert not stage.seen
    coordinators.answer(40)
    assert stage.seen == "ask 3 gives out the producer ids up to 40, as ask 1 does"


@pytest.mark.parametrize("touched", [True, False])
def test_a_request_that_is_not_answered_when_its_outcome_is_known(touched: bool) -> None:
    stage = Stage()
    for broker in stage.brokers:
        broker.server.services.replicas.purgatory = Purgatory(TimingWheel(stage.clock))
    waits, purgatory = Waits(stage.cluster, stage.history), stage.brokers[0].server.services.replicas.purgatory
    purgatory.watch(DelayedProduce([AwaitedAppend(stage.leader, 1)], lambda: None), [stage.leader.advanced], 1000)
    stage.write(make_batch([b"x"]), to=())
    for _ in range(3):
        waits.look()
    assert not stage.seen, "the followers do not have it"
    stage.write(to=(1, 2))
    assert stage.leader.high_watermark == 1
    waits.look()
    assert not stage.seen, "it is about to be answered"
    if touched:
        purgatory.touch(stage.leader.advanced)
    waits.look()
    assert bool(stage.seen) is not touched


@pytest.mark.parametrize(
    ("generation", "state", "seen"), [(4, "stable", True), (3, "stable", False), (4, "joining", False)]
)
def test_two_members_of_a_generation_that_have_the_same_partition(generation: int, state: str, seen: bool) -> None:
    stage = Stage()
    members = [
        SimpleNamespace(
            name=name,
            engine=SimpleNamespace(
                group=SimpleNamespace(
                    membership=Membership(
                        cast(MemberSettings, None), state=State(state), identity=Identity(name, number), owned=(T0,)
                    )
                )
            ),
        )
        for name, number in (("member-0", 4), ("member-1", generation))
    ]
    Generations(stage.cluster, lambda: cast(list[SimulatedConsumer], members), stage.history).look()
    assert ("belongs to member-0 and member-1 in generation 4" in stage.seen) is bool(stage.seen) is seen


def test_a_member_that_is_gone_and_stays_in_its_group() -> None:
    """Who waits for an answer may wait for the others, and a static member for its successor to be written down."""
    stage = Stage(CONSUMER_OFFSETS)
    gone = Member("gone", None, "client", "/host", 20_000, 8_000, "consumer", ())
    there = replace(gone, member_id="there")
    former = replace(gone, member_id="former", instance_id="static")

    class Group:
        metadata = SimpleNamespace(group_id="g", members={"gone": gone, "there": there, "former": former})

    stage.brokers[0].server.services.groups.groups.append(Group())
    settings = SimpleNamespace(group_instance_id="static")
    membership = SimpleNamespace(identity=Identity("there", 1), settings=settings)
    member = SimpleNamespace(engine=SimpleNamespace(group=SimpleNamespace(membership=membership)))
    departed = DepartedMembers(stage.cluster, lambda: cast(list[SimulatedConsumer], [member]), stage.history)
    departed.look()
    stage.clock.advance(8_000 + SESSION_SLACK_MS)
    departed.look()
    gone.join_callback = lambda *_: None
    stage.clock.advance(1)
    departed.look()
    gone.join_callback = None
    departed.look()
    stage.clock.advance(8_000 + SESSION_SLACK_MS)
    departed.look()
    assert not stage.seen
    stage.clock.advance(1)
    departed.look()
    assert "broker-0 keeps gone in g, which is gone for 17001 ms" in stage.seen
    gone.join_callback, settings.group_instance_id = lambda *_: None, "another"
    stage.history.violation = None
    departed.look()
    stage.clock.advance(8_000 + SESSION_SLACK_MS + 1)
    departed.look()
    assert "keeps former in g" in stage.seen


@pytest.mark.parametrize("state", [GroupState.STABLE, GroupState.COMPLETING_REBALANCE])
def test_a_static_member_whose_id_is_written_is_not_to_be_fenced(state: GroupState) -> None:
    """One whose id was in no generation that could be written may be: the next coordinator knows its former id."""
    stage = Stage()
    group = SimpleNamespace(metadata=SimpleNamespace(state=GroupState.STABLE, members={"former": None}))
    stage.brokers[0].server.services.groups.groups.append(group)
    membership = Membership(cast(MemberSettings, None), identity=Identity("former", 1))
    member = SimpleNamespace(name="member-0", engine=SimpleNamespace(group=SimpleNamespace(membership=membership)))
    generations = Generations(stage.cluster, lambda: [cast(SimulatedConsumer, member)], stage.history)
    assert not generations.may_be_fenced("member-0")
    generations.look()
    group.metadata = SimpleNamespace(state=state, members={"present": None})
    membership.identity = Identity("present", 2)
    generations.look()
    membership.identity = Identity()  # as it is when it has been fenced
    generations.look()
    assert generations.may_be_fenced("member-0") is (state is not GroupState.STABLE)


@pytest.mark.parametrize("may_be", [True, False])
def test_a_member_that_is_fenced_without_a_reason(may_be: bool) -> None:
    async def main(clock: VirtualClock) -> None:
        async def getmany(max_records: int) -> None:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, "group g")

        history, asked = History(clock), []
        member = SimulatedConsumer.__new__(SimulatedConsumer)
        member.name, member.wanders, member.on_fenced = "member-0", False, lambda: bool(asked.append(1)) or may_be
        member._history, member._random, member._grouped = history, random.Random(0), True
        member._consumer = cast(Consumer, SimpleNamespace(getmany=getmany))
        polling = asyncio.ensure_future(member._work())
        await asyncio.wait([polling], timeout=5)
        polling.cancel()
        assert asked and (history.violation is None) is may_be is polling.done()

    run_virtual(main)
