"""Each kind of damage is seen: histories and clusters in which something is wrong, without a run."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.groups.group_offsets import CommittedOffset, OffsetTable
from odradek.broker.groups.group_records import batch_of as commit_batch
from odradek.broker.groups.group_records import offset_key, offset_value
from odradek.broker.log.batches import Origin
from odradek.broker.log.index import TimeEntry
from odradek.broker.log.producer_state import ProducerEntry, ProducerState, RememberedBatch
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import AwaitedAppend, DelayedProduce
from odradek.broker.settings.topic_settings import LogConfig
from odradek.broker.transactions.transaction_records import batch_of as state_batch
from odradek.broker.transactions.transaction_records import key_of, value_of
from odradek.broker.transactions.transaction_state import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_COMMIT,
    ProducerIdentity,
    TxnState,
)
from odradek.client.consumer.group_protocol import Identity
from odradek.client.consumer.member_states import MemberSettings, State
from odradek.client.consumer.membership import Membership
from odradek.client.records import RecordMetadata, TopicPartition
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.message_set import MAGIC_V0, down_convert
from odradek.protocol.messages.fetch import FetchableTopicResponse, PartitionData
from odradek.protocol.records import Columns, encode_batch
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch, make_environment, open_test_log
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.simulation.clients import SimulatedConsumer
from odradek.testing.simulation.committed_batches import CommittedBatches
from odradek.testing.simulation.coordinators import Coordinators
from odradek.testing.simulation.derived_state import DerivedState
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.fences import Fences
from odradek.testing.simulation.generations import Generations
from odradek.testing.simulation.history import History
from odradek.testing.simulation.inspection import Inspection
from odradek.testing.simulation.lagging import SLACK_MS, Lagging
from odradek.testing.simulation.loose_topic import TOPIC as LOOSE
from odradek.testing.simulation.loose_topic import LooseTopic
from odradek.testing.simulation.newest_records import NewestRecords
from odradek.testing.simulation.old_clients import OldReader
from odradek.testing.simulation.operations import Operations
from odradek.testing.simulation.run import Simulation
from odradek.testing.simulation.safety import Safety
from odradek.testing.simulation.state_changes import broken_rule
from odradek.testing.simulation.transactional_positions import Outcome, Transaction, TransactionalPositions
from odradek.testing.simulation.transactions import CommittedReader, Transactions, held_back, may_be_seen
from odradek.testing.simulation.verdict import Verdict, left_over, other_settings
from odradek.testing.simulation.waits import Waits
from odradek.testing.simulation.work import Work
from odradek.testing.virtual_clock import FIRST_WALL_CLOCK_MS, ManualClock
from odradek.testing.virtual_network import VirtualNetwork
from odradek.zk_schema.store import Create, SetData
from odradek.zk_schema.znodes.topics import LEADER_RECOVERING, PartitionReplicas, PartitionState, TopicAssignment

T0 = TopicPartition("t", 0)
WHERE = ("t", 0)
STATE = PartitionState(leader=0, leader_epoch=5, isr=(0, 1, 2), controller_epoch=3)


class Stage:
    """Brokers that hold one partition, led by broker 0 in epoch 5, with what a test plants into them."""

    def __init__(self, topic: str = "t") -> None:
        self.clock = ManualClock()
        self.history = History(self.clock)
        self.topic = topic
        self.replicas = [self._replica(broker) for broker in range(3)]
        self.brokers = [self._broker(broker, replica) for broker, replica in enumerate(self.replicas)]
        self.zookeeper = MemoryZooKeeper(self.clock)
        self.cluster = cast(
            EmbeddedCluster, SimpleNamespace(brokers=self.brokers, clock=self.clock, zookeeper=self.zookeeper)
        )
        view = PartitionView(0, 5, (0, 1, 2), 0, (0, 1, 2))
        for replica in self.replicas:
            if replica.local_id == 0:
                replica.lead(view, 0.0)
            else:
                replica.follow(view)

    @property
    def leader(self) -> Partition:
        return self.replicas[0]

    @property
    def seen(self) -> str:
        """The first violation."""
        return str(self.history.violation or "")

    def _replica(self, broker: int) -> Partition:
        return Partition(self.topic, 0, broker, open_test_log(make_environment(), LogConfig(min_insync_replicas=2)))

    def _broker(self, broker_id: int, replica: Partition) -> Any:
        held = {(self.topic, 0): replica}
        services = SimpleNamespace(
            replicas=SimpleNamespace(partitions=held),
            controller=SimpleNamespace(controller_epoch=-1, state=None),
            controller_requests=SimpleNamespace(controller_epoch=3),
            groups=SimpleNamespace(groups=[]),
            transactions=SimpleNamespace(all=lambda: (0, []), partition_for=lambda name: 0),
            logs=SimpleNamespace(directories={}),
            producer_ids=SimpleNamespace(left=range(broker_id * 10, broker_id * 10 + 10)),
            identity=SimpleNamespace(broker_epoch=-1),
        )
        server = SimpleNamespace(services=services, tasks=SimpleNamespace(deaths=[]))
        return SimpleNamespace(
            broker_id=broker_id, host=f"broker-{broker_id}", lives=1, running=True, suspended=False, server=server,
            clock=self.clock, log_end=lambda topic, index: replica.log.log_end_offset,
        )  # fmt: skip

    def write(self, *batches: bytearray, to: tuple[int, ...] = (0, 1, 2)) -> None:
        """Append to the leader, and have those of `to` copy it; the leader knows of it."""
        for batch in batches:
            self.leader.log.append_as_leader(batch, 5, origin=Origin.COORDINATOR)
        for follower in to:
            if follower:
                log = self.replicas[follower].log
                records = self.leader.log.read(
                    log.log_end_offset, 1 << 20, self.leader.log.log_end_offset, whole_first_batch=True
                ).records
                log.append_as_follower(records if isinstance(records, bytes) else records.read())
                self.leader.follower_fetched(follower, log.log_end_offset, 0, -1, 1.0)

    @staticmethod
    def other(value: bytes) -> bytes:
        """Make what another leader has written at the beginning of its log."""
        log = open_test_log(make_environment(), LogConfig())
        log.append_as_leader(make_batch([value]), 5)
        records = log.read(0, 1 << 20, 1, whole_first_batch=True).records
        return records if isinstance(records, bytes) else records.read()

    def in_zookeeper(self, state: PartitionState) -> None:
        """Have ZooKeeper take a state of the partition."""
        path = f"/brokers/topics/{self.topic}/partitions/0/state"
        if self.zookeeper.tree.get(path) is not None:
            self.zookeeper.commit([SetData(path, state.encode(), -1)], 0)
            return
        assignment = TopicAssignment({0: PartitionReplicas((0, 1, 2))}, b"i" * 16).encode()
        above = f"/brokers/topics/{self.topic}"
        for node, data in (
            ("/controller_epoch", b"3"), ("/brokers", b""), ("/brokers/topics", b""), (above, assignment),
            (f"{above}/partitions", b""), (f"{above}/partitions/0", b""), (path, state.encode()),
        ):  # fmt: skip
            self.zookeeper.commit([Create(node, data)], 0)

    def safety(self) -> Safety:
        """Make the watcher of safety, which knows the partition's state."""
        safety = Safety(self.cluster, self.history, 2)
        self.in_zookeeper(STATE)
        return safety

    def verdict(self) -> Verdict:
        run = SimpleNamespace(
            cluster=self.cluster, history=self.history, inspection=SimpleNamespace(topic="t", newest={}), members=[],
            programs=SimpleNamespace(former_members=[]), plan=SimpleNamespace(seed=1),
        )  # fmt: skip
        return Verdict(cast(Simulation, run))


# ---- histories


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


# ---- transactions


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


# ---- producers in the log


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


# ---- brokers


def test_a_dead_task() -> None:
    stage = Stage()
    stage.brokers[1].server.tasks.deaths.append("log-cleaner")
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert stage.seen == "broker-1: task log-cleaner has died"


def test_a_waiter_that_is_left_over() -> None:
    assert left_over(Counter(DelayedFetch=4)) == {}
    assert left_over(Counter(DelayedFetch=4, DelayedProduce=1)) == {"DelayedProduce": 1}


def test_a_broker_that_has_not_heard_of_a_setting() -> None:
    heard, missed = LogConfig(retention_ms=5, min_insync_replicas=2), LogConfig(min_insync_replicas=2)
    assert other_settings([heard, heard]) == {}
    assert other_settings([heard, missed, heard]) == {"retention_ms": [5, missed.retention_ms, 5]}


@pytest.mark.parametrize(
    ("code", "rotten", "seen"),
    [
        (ErrorCode.CORRUPT_MESSAGE, {0}, False),
        (ErrorCode.CORRUPT_MESSAGE, set[int](), True),
        (ErrorCode.OFFSET_OUT_OF_RANGE, {0}, True),
    ],
)
def test_a_reader_who_is_refused_what_no_disk_has_spoilt(code: ErrorCode, rotten: set[int], seen: bool) -> None:
    history = History(ManualClock())
    history.rotten = rotten
    history.refused("consumer", KafkaError(code, "t-0 at offset 5"))
    assert (history.violation is not None) is seen


@pytest.mark.parametrize(("later_ms", "seen"), [(9_000.0, False), (11_000.0, True)])
def test_a_reader_who_is_refused_what_is_on_a_new_disk(later_ms: float, seen: bool) -> None:
    """Not one who holds still what the disk before it has had."""
    clock = ManualClock()
    history = History(clock)
    history.rotten = {0}
    history.mended(0)
    clock.advance(later_ms)
    history.refused("consumer", KafkaError(ErrorCode.CORRUPT_MESSAGE, "t-0 at offset 5"))
    assert (history.violation is not None) is seen


@pytest.mark.parametrize(
    ("expires", "begin", "rotten", "seen"),
    [
        (False, 0, set[int](), False),
        (False, 1, set[int](), True),
        (False, 1, {0}, False),
        (True, 1, set[int](), False),
        (True, 2, set[int](), True),
    ],
    ids=["at 0", "deleted", "rotten", "expired", "not committed"],
)
def test_a_log_that_has_lost_its_beginning(expires: bool, begin: int, rotten: set[int], seen: bool) -> None:
    stage = Stage()
    stage.history.expires, stage.history.rotten = expires, rotten
    stage.write(make_batch(), to=(0, 1, 2))
    stage.write(make_batch(), to=(0, 1))
    stage.leader.log.advance_log_start_offset(begin)
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert (f"begins at {begin} on broker-0, its high watermark is 1" in stage.seen) is bool(stage.seen) is seen


def test_a_watermark_above_the_end_of_its_log() -> None:
    stage = Stage("other")
    stage.write(make_batch(), to=(0, 1, 2))
    stage.replicas[2].high_watermark = 2
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert "ends at 1 on broker-2, its high watermark is 2" in stage.seen


@pytest.mark.parametrize(("begin", "seen"), [(1, False), (2, True)])
def test_a_leader_epoch_beyond_the_end_of_its_log(begin: int, seen: bool) -> None:
    stage = Stage("other")
    stage.write(make_batch(), to=(0, 1, 2))
    stage.replicas[2].log.assign_epoch(6, begin)
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert ("ends at 1 on broker-2, its epoch 6 begins at 2" in stage.seen) is bool(stage.seen) is seen


@pytest.mark.parametrize(("begin", "seen"), [(0, False), (2, True)])
def test_a_first_leader_epoch_beyond_the_end_of_its_log(begin: int, seen: bool) -> None:
    stage = Stage("other")
    stage.replicas[2].log.assign_epoch(0, begin)
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert ("ends at 0 on broker-2, its epoch 0 begins at 2" in stage.seen) is bool(stage.seen) is seen


@pytest.mark.parametrize(("offset", "end", "seen"), [(1, 2, False), (2, 2, True), (2, 1, False)])
def test_a_checkpoint_above_the_high_watermark(offset: int, end: int, seen: bool) -> None:
    """Not one of what has been cut off."""
    stage = Stage()
    stage.write(make_batch(), to=(0, 1, 2))
    stage.write(make_batch(), to=(0, 1))
    stage.leader.log.truncate_to(end)
    checkpoints = SimpleNamespace(newest=lambda name: {WHERE: offset})
    directories = {stage.leader.log.log_directory: SimpleNamespace(checkpoints=checkpoints)}
    stage.brokers[0].server.services.logs.directories = directories
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert ("checkpoint of the high watermark 2, it is 1" in stage.seen) is bool(stage.seen) is seen


def test_two_controllers_of_one_epoch() -> None:
    stage = Stage()
    inspection = Inspection(stage.cluster, stage.history, "t", "transactions")
    stage.brokers[0].server.services.controller.controller_epoch = 3
    inspection.look()
    assert not stage.seen
    stage.brokers[2].server.services.controller.controller_epoch = 3
    inspection.look()
    assert stage.seen == "controller epoch 3: (0, 1) and 2"


def test_a_controller_epoch_that_falls() -> None:
    stage = Stage()
    stage.in_zookeeper(STATE)
    inspection = Inspection(stage.cluster, stage.history, "t", "transactions")
    inspection.look()
    stage.zookeeper.commit([SetData("/controller_epoch", b"2", -1)], 0)
    inspection.look()
    assert stage.seen == "the controller epoch goes from 3 to 2"


def test_two_leaders_of_one_epoch() -> None:
    stage = Stage()
    inspection = Inspection(stage.cluster, stage.history, "t", "transactions")
    stage.replicas[1].lead(PartitionView(1, 5, (0, 1, 2), 0, (0, 1, 2)), 0.0)
    inspection.look()
    assert "led by 0 and 1" in stage.seen


def test_a_follower_that_counts_something_else_as_committed() -> None:
    stage = Stage()
    stage.write(make_batch([b"producer-0-0"]), to=(0, 1, 2))
    stage.replicas[2].log.truncate_to(0)
    stage.replicas[2].append_as_follower(stage.other(b"producer-0-1"), 1, 0)
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert "another batch was committed at offset 0" in stage.seen


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        (replace(STATE, isr=(1, 2)), "the leader is not in the ISR"),
        (replace(STATE, isr=(0, 3)), "not among the replicas"),
    ],
)
def test_an_isr_of_others(state: PartitionState, seen: str) -> None:
    stage = Stage()
    Safety(stage.cluster, stage.history, 2)
    stage.in_zookeeper(state)
    assert seen in stage.seen


def test_a_watermark_that_moves_with_too_few_in_sync() -> None:
    stage = Stage()
    safety = Safety(stage.cluster, stage.history, 2)
    stage.in_zookeeper(replace(STATE, isr=(0,)))
    stage.leader.committed_isr = frozenset({0})
    stage.write(make_batch(), make_batch(), to=(0, 1))
    safety.look()
    assert not stage.seen
    stage.leader.high_watermark = 1
    safety.look()
    assert "high watermark 0 -> 1 with an ISR of 1" in stage.seen


def test_a_watermark_that_falls() -> None:
    stage = Stage()
    inspection = Inspection(stage.cluster, stage.history, "t", "transactions")
    stage.write(make_batch([b"producer-0-0", b"producer-0-1"]))
    inspection.look()
    stage.leader.high_watermark = 1
    inspection.look()
    assert "high watermark 2 -> 1" in stage.seen


def test_a_watermark_within_a_batch() -> None:
    stage = Stage()
    stage.write(make_batch([b"producer-0-0", b"producer-0-1"]))
    stage.leader.high_watermark = 1
    Inspection(stage.cluster, stage.history, "t", "transactions").look()
    assert "cannot be read up to 1" in stage.seen


@pytest.mark.parametrize("what", ["acknowledged", "read"])
def test_a_record_that_too_few_have(what: str) -> None:
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), to=(0, 1))
    stage.leader.high_watermark = 1
    getattr(safety, what)(T0, 0)
    assert not stage.seen
    stage.write(make_batch(), to=(0,))
    getattr(safety, what)(T0, 1)
    assert f"is {what}; log ends by broker: {{0: 2, 1: 1, 2: 0}}" in stage.seen


def test_a_watermark_above_a_replica_in_sync() -> None:
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), to=(0, 1))
    stage.leader.high_watermark = 1
    safety.look()
    assert "broker 2 in the ISR ends at 0" in stage.seen


def test_an_isr_that_its_leader_has_not_asked_for() -> None:
    stage = Stage()
    stage.safety()
    stage.in_zookeeper(replace(STATE, isr=(0, 1)))
    assert "its leader has asked for None" in stage.seen


@pytest.mark.parametrize(("controller_epoch", "seen"), [(3, True), (2, False)], ids=["the present", "a deposed"])
def test_one_who_joins_by_what_it_had_fetched_in_another_life(controller_epoch: int, seen: bool) -> None:
    """As far as the controller knows that writes it; what a deposed one knows is of no matter."""
    stage = Stage()
    stage.safety()
    stage.in_zookeeper(replace(STATE, leader_epoch=6, isr=(0, 1)))
    view = PartitionView(0, 6, (0, 1), 1, (0, 1, 2))
    assert stage.leader.lead(view, 0.0) is None
    stage.brokers[1].server.services.controller.state = SimpleNamespace(
        controller_epoch=controller_epoch, brokers={2: SimpleNamespace(epoch=40)}
    )
    _, asked = stage.leader.follower_fetched(2, 0, 0, 30, 1.0)
    assert asked is not None
    stage.in_zookeeper(replace(STATE, leader_epoch=6, isr=(0, 1, 2)))
    assert ("in its life 30" in stage.seen) == seen


def test_a_replica_in_sync_without_what_a_former_leader_has_committed() -> None:
    """The new leader does not know yet how much of its log is committed: a watermark never shows it."""
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), to=(0, 1, 2))
    safety.look()
    stage.replicas[2].log.truncate_to(0)
    stage.leader.high_watermark = 0
    safety.look()
    assert "high watermark 0, the highest yet 1, broker 2 in the ISR ends at 0" in stage.seen


@pytest.mark.parametrize(("isr", "seen"), [((1, 2), False), ((0, 1, 2), True)])
def test_an_election_that_leaves_the_dead_in_the_isr(isr: tuple[int, ...], seen: bool) -> None:
    stage = Stage()
    stage.safety()
    living = {broker: SimpleNamespace(epoch=broker) for broker in (1, 2)}
    stage.brokers[1].server.services.controller.state = SimpleNamespace(controller_epoch=3, brokers=living)
    stage.in_zookeeper(replace(STATE, leader=1, leader_epoch=6, isr=isr))
    assert ("with [0] in the ISR, who are gone" in stage.seen) == seen


@pytest.mark.parametrize(("times", "seen"), [(400, False), (600, True)])
def test_one_who_asks_without_end(times: int, seen: bool) -> None:
    stage = Stage()
    network = VirtualNetwork(stage.clock)
    stage.cluster.network = network
    work = Work(stage.cluster, stage.history)
    network.sent["broker-1", "broker-0"] = times
    stage.clock.advance(2_000.0)
    work.look()
    assert ("broker-1 has sent broker-0 something 600 times" in stage.seen) == seen
    work.look()
    assert not network.sent


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


def test_one_who_joins_below_the_start_of_the_epoch() -> None:
    stage = Stage()
    safety = stage.safety()
    stage.in_zookeeper(replace(STATE, leader_epoch=6, isr=(0, 1)))
    stage.write(make_batch(), to=(0, 1))
    stage.leader.lead(PartitionView(0, 6, (0, 1), 1, (0, 1, 2)), 0.0)
    stage.leader.high_watermark = 0
    stage.leader.pending_isr = stage.leader._propose((0, 1, 2))
    safety.look()
    assert "broker 2 joins the ISR with 0, the epoch begins at 1" in stage.seen


@pytest.mark.parametrize(
    ("after", "seen"),
    [
        (replace(STATE, isr=(0, 1)), None),
        (replace(STATE, leader=1, leader_epoch=6, isr=(1, 2)), None),
        (replace(STATE, leader=3, leader_epoch=6, isr=(3,), leader_recovery_state=LEADER_RECOVERING), "[3] in the ISR"),
        (replace(STATE, controller_epoch=2), "written in controller epoch 2"),
        (replace(STATE, leader_epoch=4), "the leader epoch falls from 5"),
        (replace(STATE, leader=1), "the leader was 0 in the same epoch"),
        (replace(STATE, leader_epoch=6, isr=(0, 3)), "elected with [3] in the ISR"),
    ],
)
def test_what_may_follow_upon_a_state(after: PartitionState, seen: str | None) -> None:
    broken = broken_rule(STATE, after, 3)
    assert broken is None if seen is None else broken is not None and seen in broken


UNCLEAN = replace(STATE, leader=3, leader_epoch=6, isr=(3,), leader_recovery_state=LEADER_RECOVERING)


@pytest.mark.parametrize(
    ("after", "right"),
    [
        (UNCLEAN, True),
        (replace(UNCLEAN, isr=(3, 0)), False),
        (replace(UNCLEAN, leader_recovery_state=0), False),
        (replace(UNCLEAN, leader=0, isr=(0,)), False),
    ],
    ids=["alone, to recover", "with another one", "as if nothing were", "of one in the ISR"],
)
def test_an_unclean_election_where_it_is_allowed(after: PartitionState, right: bool) -> None:
    assert (broken_rule(STATE, after, 3, unclean=True) is None) == right


@pytest.mark.parametrize("online", [True, False])
def test_an_unclean_election_although_one_of_the_isr_can_lead(online: bool) -> None:
    stage = Stage()
    safety = stage.safety()
    safety.allows_unclean = lambda topic: True
    led: list[bool] = []
    safety.on_leader = lambda where, unclean: led.append(unclean)
    stage.in_zookeeper(replace(STATE, leader_epoch=6, isr=(0, 1)))
    living = {2: SimpleNamespace(epoch=2)}
    state = SimpleNamespace(controller_epoch=3, brokers=living, is_online=lambda one, where: online and one == 1)
    stage.brokers[1].server.services.controller.state = state
    recovering = replace(STATE, leader=2, leader_epoch=7, isr=(2,), leader_recovery_state=LEADER_RECOVERING)
    stage.in_zookeeper(recovering)
    assert ("though [1] could lead" in stage.seen) == online and led == [True]


# ---- a topic that may lose records


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


def to_epoch(stage: Stage, epochs: tuple[int, int]) -> None:
    stage.leader.leader_epoch, stage.leader.partition_epoch = epochs


def obey(stage: Stage, epoch: int) -> None:
    stage.brokers[0].server.services.controller_requests.controller_epoch = epoch


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        (lambda stage: obey(stage, 2), "broker-0 obeys controller epoch 2 after 3"),
        (lambda stage: to_epoch(stage, (4, 9)), "goes from leader and partition epoch (5, 0) back to (4, 9)"),
        (lambda stage: to_epoch(stage, (5, -1)), "goes from leader and partition epoch (5, 0) back to (5, -1)"),
    ],
)
def test_an_epoch_that_falls(damage: Callable[[Stage], None], seen: str) -> None:
    stage = Stage()
    fences = Fences(stage.cluster, stage.history)
    fences.look()
    assert not stage.seen
    damage(stage)
    fences.look()
    assert seen in stage.seen


def test_followers_that_are_kept_over_an_epoch() -> None:
    stage = Stage()
    fences = Fences(stage.cluster, stage.history)
    stage.write(make_batch())
    stage.clock.advance(10)
    fences.elected(WHERE, 5)
    fences.look()
    assert "fetched before its epoch began" in stage.seen


@pytest.mark.parametrize("running", [True, False])
def test_a_record_that_is_acknowledged_above_every_high_watermark(running: bool) -> None:
    """Also one that all have: their leader may not know it. Who has died may have known of more."""
    stage = Stage()
    safety = stage.safety()
    stage.write(make_batch(), make_batch())
    safety.acknowledged(T0, 1)
    assert not stage.seen
    stage.write(make_batch(), to=(0, 1))
    stage.brokers[2].running = running
    safety.acknowledged(T0, 2)
    assert ("t-0 offset 2 is acknowledged, no high watermark was above 2" in stage.seen) is bool(stage.seen) is running


def test_a_follower_of_which_more_is_counted_than_it_has() -> None:
    stage = Stage()
    fences = Fences(stage.cluster, stage.history)
    stage.write(make_batch(), make_batch())
    stage.replicas[2].log.truncate_to(1)
    stage.brokers[2].server.services.identity.broker_epoch = 7
    fences.look()
    assert not stage.seen, "it has not fetched in its present life"
    stage.brokers[2].server.services.identity.broker_epoch = -1
    fences.look()
    assert "counts 2 of broker 2, which ends at 1" in stage.seen


def test_a_follower_that_adds_what_its_leader_has_cut_off() -> None:
    stage = Stage()
    fences = Fences(stage.cluster, stage.history)
    stage.write(make_batch(), to=(0, 1))
    fences.look()
    stage.write(make_batch(), to=(0, 1))
    fences.look()
    assert not stage.seen
    stage.leader.log.truncate_to(1)
    records = stage.replicas[1].log.read(0, 1 << 20, 2, whole_first_batch=True).records
    stage.replicas[2].log.append_as_follower(records if isinstance(records, bytes) else records.read())
    fences.look()
    assert "has added records of epoch 5 up to 2, its leader has 1 of it" in stage.seen


# ---- coordinators


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
    stage.brokers[0].server.services.transactions.all = lambda: (0, told)
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
    stage.brokers[0].server.services.transactions.all = lambda: (0, told)
    stage.write(make_batch([b"a-0"], producer_id=1, transactional=True))
    coordinators._look_for_left_open()
    assert not stage.seen
    told[0] = ("id", replace(state, status=COMPLETE_COMMIT))
    coordinators._look_for_left_open()
    assert "has a transaction of id open from 0 on, which is COMPLETE_COMMIT to its coordinator" in stage.seen


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
    stage.brokers[0].server.services.transactions.all = lambda: (0, told)
    coordinators.judge((TRANSACTION_STATE, 0), {key_of("id"): value_of(written)})
    assert not stage.seen
    told[:] = [("id", replace(written, status=PREPARE_COMMIT))] if status is PREPARE_COMMIT else []
    coordinators.judge((TRANSACTION_STATE, 0), {key_of("id"): value_of(written)})
    assert stage.seen.startswith("the coordinator tells of id: ")


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


# ---- what is kept beside the log, who lags, who shares


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


def test_a_deletion_that_is_told_before_a_follower_has_heard_of_it() -> None:
    stage = Stage()
    stage.write(make_batch(), make_batch())
    operations = Operations.__new__(Operations)
    operations._others = cast(Faults, SimpleNamespace(cluster=stage.cluster, history=stage.history))
    for replica in stage.replicas[:2]:
        replica.log.advance_log_start_offset(1)
    operations._judge_deletion(stage.leader, 1, [1, 1, 0])
    assert not stage.seen, "broker 2 has been started again meanwhile"
    operations._judge_deletion(stage.leader, 1, [1, 1, 1])
    assert "all before 1 is deleted, broker-2 begins at 0" in stage.seen


@pytest.mark.parametrize("pending", [False, True])
def test_a_follower_that_lags_and_stays_in_sync(pending: bool) -> None:
    stage = Stage()
    lagging = Lagging(stage.cluster, stage.history, 4_000)
    stage.write(make_batch())
    lagging.look()
    stage.clock.advance(60_000)
    stage.write(make_batch(), to=(0, 1))
    lagging.look()
    stage.clock.advance(4_000 + SLACK_MS)
    stage.write(make_batch(), to=(0, 1))
    lagging.look()
    assert not stage.seen
    if pending:
        stage.leader.propose_shrink(stage.clock.monotonic_ms())
    stage.clock.advance(1)
    lagging.look()
    assert ("keeps broker 2 in the ISR, which has lacked something for 8001 ms" in stage.seen) is not pending
    assert bool(stage.seen) is not pending


def test_a_follower_that_comes_back_into_the_isr_has_its_time_once_more() -> None:
    stage = Stage()
    lagging = Lagging(stage.cluster, stage.history, 4_000)
    lagging.look()
    stage.write(make_batch(), to=(0, 1))
    lagging.look()
    for partition_epoch, isr in ((1, (0, 1)), (2, (0, 1, 2))):
        stage.clock.advance(4_000 + SLACK_MS)
        stage.leader.lead(PartitionView(0, 5, isr, partition_epoch, (0, 1, 2)), stage.clock.monotonic_ms())
        lagging.look()
    stage.clock.advance(4_000 + SLACK_MS)
    lagging.look()
    assert not stage.seen
    stage.clock.advance(1)
    lagging.look()
    assert "keeps broker 2 in the ISR, which has lacked something for 8001 ms" in stage.seen


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
    Generations(lambda: cast(list[SimulatedConsumer], members), stage.history).look()
    assert ("belongs to member-0 and member-1 in generation 4" in stage.seen) is bool(stage.seen) is seen
