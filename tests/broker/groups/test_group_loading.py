"""A coordinator moves: its partition is read back in slices, and the former one lets go."""

import pytest

from odradek.broker.coordination.owned_partitions import LOAD_RETRY_MS
from odradek.broker.groups.group_offsets import CommittedOffset
from odradek.broker.groups.group_records import GroupReplay, group_key, offset_key, offset_value
from odradek.broker.groups.group_state_machine import GroupStateMachine
from odradek.broker.log.compaction.filter import empty_batch
from odradek.protocol.codec import encode_versioned
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.consumer_offsets import GroupMetadataValue, MemberMetadata
from odradek.protocol.record_batch import HEADER_BYTES, read_header
from odradek.protocol.records import encode_batch
from odradek.testing.old_segments import golden_bytes

T0, T1 = ("t", 0), ("t", 1)


def move(world, epoch=1):
    """Another broker takes over; the former one is not told."""
    world.coordinator = world.broker()
    for partition in range(2):
        world.coordinator.on_elected(partition, epoch)


def test_everything_comes_back(world):
    leader, follower = world.stable(2)
    world.commit({T0: 5, T1: 6}, leader)
    world.commit({T0: 7}, leader)
    world.commit({T1: 1}, group="simple")
    before = world.describe("g")
    move(world)
    world.clock.advance()
    assert world.describe("g") == before
    assert world.offsets() == {T0: 7, T1: 6}
    assert world.offsets("simple") == {T1: 1}
    assert world.heartbeat(leader) is world.heartbeat(follower) is ErrorCode.NONE


def test_requests_while_loading(world):
    leader = world.stable(1)[0]
    move(world)
    assert world.only(world.join()).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.only(world.sync(leader)).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(leader) is ErrorCode.NONE
    assert world.only(world.commit({T0: 1}, leader)) == {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    coordinator = world.coordinator
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.leave("g", [(leader.member_id, None)]) == (loading, [])
    assert coordinator.fetch_offsets("g", None, require_stable=False) == (loading, {})
    assert world.describe().error_code is loading
    assert coordinator.delete("g") is loading
    assert coordinator.list_groups([], []) == (loading, [])
    world.clock.advance()
    assert world.state() == "Stable"


def test_restored_members_must_send_heartbeats(world):
    leader, follower = world.stable(2)
    move(world)
    world.clock.advance(9_000)
    assert world.heartbeat(leader) is ErrorCode.NONE
    world.clock.advance(2_000)
    assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("largest", "state"), [(2, "PreparingRebalance"), (3, "Stable")])
def test_group_that_is_too_large_after_a_move_is_rebalanced(make_world, largest, state):
    world = make_world()
    world.stable(3)
    smaller = make_world(log=world.log, group_max_size=largest)
    assert smaller.state() == state


def test_resignation_answers_those_who_wait(world):
    leader, follower = world.stable(2)
    partition = world.coordinator.partition_for("g")
    joining = world.join(member_id=leader.member_id)
    others = [world.join("h") for _ in range(2)]
    world.clock.advance(6000)
    syncing = world.sync(world.only(others[1]), group="h")
    for one in range(2):
        world.coordinator.on_resigned(one)
    assert world.only(joining).error is ErrorCode.NOT_COORDINATOR
    assert world.only(syncing).error is ErrorCode.NOT_COORDINATOR
    assert world.heartbeat(follower) is ErrorCode.NOT_COORDINATOR
    assert world.clock.outstanding == 1  # the check for expired offsets
    world.coordinator.on_elected(partition, 1)
    world.clock.advance()
    assert world.heartbeat(follower) is ErrorCode.NONE


def test_commit_that_is_acknowledged_after_a_resignation_is_answered_and_not_kept(world):
    world.log.held = True
    answer = world.commit({T0: 5})
    for one in range(2):
        world.coordinator.on_resigned(one)
    world.log.acknowledge()
    assert world.only(answer) == {T0: ErrorCode.NONE}
    for one in range(2):
        world.coordinator.on_elected(one, 4)
    world.clock.advance()
    assert world.offsets() == {T0: 5}


def test_an_older_epoch_than_that_which_is_led_is_ignored(world):
    world.commit({T0: 5})
    partition = world.coordinator.partition_for("g")
    world.coordinator.on_elected(partition, 7)  # leads it already: nothing to load
    world.coordinator.on_elected(partition, 6)
    assert world.offsets() == {T0: 5}
    assert world.coordinator._partitions.epoch(partition) == 7


def test_what_was_deleted_while_nobody_coordinated_the_group_is_forgotten(world):
    """And so is a group of which nothing is left; the next coordinator does not have it again."""
    world.commit({T0: 5, T1: 1})
    world.commit({T0: 5}, group="by hand")
    for deleted in ({T0}, set()):
        move(world)
        world.coordinator._is_deleted = lambda *at, deleted=deleted: at in deleted
        world.clock.advance()
        assert world.offsets() == {T1: 1}
        assert [one.group_id for one in world.coordinator.list_groups([], [])[1]] == ["g"]


def test_what_is_deleted_while_a_group_is_loaded_is_forgotten(world):
    """A topic that was made anew then was read from an offset of the old one on."""
    world.commit({T0: 5, T1: 1})
    world.log.read_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)  # it is read again later
    move(world)
    world.clock.advance()
    world.coordinator.on_partitions_deleted([T0])
    world.clock.advance()
    world.log.read_error = None
    world.clock.advance(LOAD_RETRY_MS)
    assert world.offsets() == {T1: 1}
    move(world)
    world.clock.advance()
    assert world.offsets() == {T1: 1}
    world.commit({T0: 2})
    move(world)
    world.clock.advance()
    assert world.offsets() == {T0: 2, T1: 1}


def test_resignation_while_loading_stops_it(world):
    world.commit({T0: 5})
    move(world)
    for one in range(2):
        world.coordinator.on_resigned(one)
    world.clock.advance()
    assert world.describe("g").error_code is ErrorCode.NOT_COORDINATOR
    move(world)
    partition = world.coordinator.partition_for("g")
    world.coordinator.on_resigned(partition)
    world.coordinator.on_elected(partition, 2)
    world.clock.advance()
    assert world.offsets() == {T0: 5}


@pytest.mark.parametrize("error", [None, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)])
def test_a_coordinator_that_stops_while_it_loads_takes_nothing_over(world, error):
    """The sessions of its groups ran, and ended with a write to the log of a broker that had stopped; a log that could
    not be read was read again for ever."""
    world.stable(2)
    world.coordinator.stop()
    world.log.read_error = error
    move(world)
    world.coordinator.stop()
    world.coordinator.on_elected(0, 2)
    world.clock.advance(2 * LOAD_RETRY_MS)
    assert (world.clock.outstanding, world.coordinator.groups) == (0, [])


def test_long_log_is_loaded_in_slices_and_small_reads(make_world, monkeypatch):
    world = make_world()
    for offset in range(300):
        world.commit({("t", index): offset for index in range(20)})
    other = make_world(log=world.log, loaded=False, offsets_load_buffer_size=1000)
    now = other.clock.monotonic_ms
    steps = [0]

    def slow() -> float:
        steps[0] += 1
        return now() + steps[0]  # a millisecond passes with every look at the clock

    monkeypatch.setattr(other.clock, "monotonic_ms", slow)
    soon: list[object] = []
    call_soon = other.clock.call_soon
    monkeypatch.setattr(other.clock, "call_soon", lambda callback: soon.append(callback) or call_soon(callback))
    for partition in range(2):
        other.coordinator.on_elected(partition, 0)
    other.clock.advance()
    assert len(soon) > 50
    assert other.offsets() == {("t", index): 299 for index in range(20)}


def test_unreadable_log_is_not_served(world):
    world.commit({T0: 5})
    world.log.read_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    move(world)
    world.clock.advance()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.describe("g").error_code is loading
    assert world.coordinator.list_groups([], []) == (loading, [])


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), ValueError("a mistake of ours")])
def test_a_log_that_could_not_be_read_is_read_again(world, error):
    """With an error that nobody had foreseen it was being loaded until the broker was started again."""
    world.commit({T0: 5})
    world.log.read_error = error
    move(world)
    world.clock.advance(3 * LOAD_RETRY_MS)
    world.log.read_error = None
    world.clock.advance(LOAD_RETRY_MS)
    assert world.offsets() == {T0: 5}


def test_a_group_that_cannot_be_taken_over_does_not_keep_the_others_from_being_served(make_world, monkeypatch, caplog):
    """The partition was being loaded until the broker was started again."""
    world = make_world(offsets_topic_num_partitions=1)
    for group in ("bad", "g"):
        world.commit({T0: 5}, world.stable(1, group)[0], group)

    def loaded(machine: GroupStateMachine, now_ms: int) -> None:
        assert machine.group.group_id != "bad"

    monkeypatch.setattr(GroupStateMachine, "loaded", loaded)
    world.coordinator.on_resigned(0)
    world.coordinator.on_elected(0, 1)
    world.clock.advance()
    assert world.offsets() == {T0: 5}
    assert [one.getMessage() for one in caplog.records if one.exc_info] == [
        "__consumer_offsets-0: an entry cannot be taken over"
    ]


def test_commits_of_a_batch_whose_checksum_is_wrong_are_not_believed(world):
    """One bit on the disk had turned an offset into another one, from which the group went on."""
    world.commit({T0: 5})
    [where] = [partition for partition, batches in world.log.batches.items() if batches]
    whole = world.log.batches[where][-1]
    offset = whole.index((5).to_bytes(8, "big"), HEADER_BYTES)
    world.log.batches[where][-1] = whole[:offset] + (5 + (1 << 60)).to_bytes(8, "big") + whole[offset + 8 :]
    move(world)
    world.clock.advance()
    assert world.describe("g").error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.log.batches[where][-1] = whole
    world.clock.advance(LOAD_RETRY_MS)
    assert world.offsets() == {T0: 5}


def test_a_log_that_could_not_be_read_is_left_alone_after_a_resignation(world):
    world.commit({T0: 5})
    world.log.read_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    move(world)
    world.clock.advance()
    for partition in range(2):
        world.coordinator.on_resigned(partition)
    world.log.read_error = None
    world.clock.advance(LOAD_RETRY_MS)
    assert world.describe("g").error_code is ErrorCode.NOT_COORDINATOR


def member_twice():
    members = [MemberMetadata(member_id="m", client_id="c", client_host="h")] * 2
    return encode_versioned(GroupMetadataValue(protocol_type="consumer", members=members), 3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\1\0", b"\0\7"),
        (b"\0\0\0\1g\0\1t\0\0\0\0", b"\0\7"),
        (b"\0\1garbage", b"x"),
        (offset_key("g", T0), b"\0\3"),
        (None, b"x"),
        (b"", None),
        (group_key("g"), member_twice()),
    ],
    ids=["cut-off", "offset value", "key", "cut-off value", "no key", "empty key", "member twice"],
)
def test_nonsense_in_the_log_is_passed_over_and_the_rest_served(world, caplog, key, value):
    partition = world.coordinator.partition_for("g")
    world.commit({T0: 5, T1: 6})
    world.log.append(partition, encode_batch(0, [0], [key], [value]), 0, print)
    world.commit({T1: 7})
    move(world)
    world.clock.advance()
    assert world.offsets() == {T0: 5, T1: 7}
    [said] = [one.getMessage() for one in caplog.records if "are invalid and ignored" in one.getMessage()]
    assert said.startswith(f"__consumer_offsets-{partition}: 1 records are invalid and ignored, the first: offset 2")


def test_tombstones_and_unknown_keys(world):
    world.commit({T0: 5, T1: 6})
    world.coordinator.delete_offsets("g", [T0])
    world.commit({T0: 1}, group="deleted")
    world.coordinator.delete("deleted")
    world.leave(world.stable(1, "left")[0].member_id, group="left")
    world.coordinator.delete("left")
    world.log.append(world.coordinator.partition_for("g"), encode_batch(0, [0], [b"\0\x09later"], [b"x"]), 0, print)
    move(world)
    world.clock.advance()
    assert world.offsets() == {T1: 6}
    assert [one.group_id for one in world.coordinator.list_groups([], [])[1]] == ["g"]


def test_transactional_commits_count_when_their_marker_says_so(world):
    partition = world.coordinator.partition_for("g")

    def write(producer_id, at, offset):
        batch = encode_batch(
            0,
            [0],
            [offset_key("g", at)],
            [offset_value(CommittedOffset(offset, 0))],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        world.log.append(partition, batch, 0, print)

    write(1, T0, 10)
    write(2, T1, 20)
    write(3, ("open", 0), 30)
    world.log.append(partition, encode_end_txn_marker(EndTxnMarker(True, 0), 0, 1, 0), 0, print)
    world.log.append(partition, encode_end_txn_marker(EndTxnMarker(False, 0), 0, 2, 0), 0, print)
    move(world)
    world.clock.advance()
    assert world.offsets() == {T0: 10}
    _, fetched = world.coordinator.fetch_offsets("g", [("open", 0)], require_stable=True)
    assert fetched["open", 0].error is ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_log_that_does_not_begin_at_zero_is_read_from_its_start(world, monkeypatch):
    """Somebody has deleted its first records."""
    world.commit({T0: 5})
    world.commit({T1: 6})
    read = world.log.read

    def what_is_left(partition, offset, max_bytes):
        if offset < 1:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "before the start")
        return read(partition, offset, max_bytes)

    monkeypatch.setattr(world.log, "log_start_offset", lambda partition: 1)
    monkeypatch.setattr(world.log, "read", what_is_left)
    move(world)
    world.clock.advance()
    assert world.offsets() == {T1: 6}


def test_a_marker_that_compaction_has_emptied_keeps_nothing_from_being_read(world):
    partition = world.coordinator.partition_for("g")
    world.commit({T0: 5})
    marker = encode_end_txn_marker(EndTxnMarker(True, 0), 0, 1, 0)
    world.log.append(partition, empty_batch(read_header(marker)), 0, print)
    world.commit({T1: 6})
    move(world)
    world.clock.advance()
    assert world.offsets() == {T0: 5, T1: 6}


def test_offsets_that_an_older_kafka_has_kept():
    """In message sets of format 0, compressed with gzip; written by Kafka 3.9.1 (tests/broker/log/golden)."""
    replay = GroupReplay(0)
    for _ in replay.steps(golden_bytes("__consumer_offsets-0")):
        pass
    assert replay.next_offset == 10
    found = {group.group_id: offsets for group, offsets in replay.results()}
    assert sorted(found) == ["first", "second"]
    for group, offset in (("first", 17), ("second", 18)):
        committed = {key: one.offset for key, one in found[group].items()}
        assert committed == {("v0", 0): offset, ("v1", 0): 9}
