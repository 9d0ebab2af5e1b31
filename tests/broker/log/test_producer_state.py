"""The producer state table: what is accepted, what is a duplicate, what is refused."""

import pytest
from crcmod.predefined import mkPredefinedCrcFun

from odradek.broker.log.batches import decode_header
from odradek.broker.log.producer_sequences import LARGEST_SEQUENCE, sequence_after
from odradek.broker.log.producer_snapshots import decode_snapshot, encode_snapshot
from odradek.broker.log.producer_state import ProducerState
from odradek.broker.log.verifications import VERIFICATIONS_MAX, VerificationGuard
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import MAGIC_AT
from odradek.protocol.records import encode_batch
from odradek.testing.log_environments import make_batch

PRODUCER = 7
OK, DUPLICATE = "ok", "duplicate"
FENCED, OUT_OF_ORDER = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def write(state: ProducerState, epoch: int, sequence: int, count: int = 1, *, transactional: bool = False) -> None:
    first = state.map_end_offset
    state.append_data(PRODUCER, epoch, sequence, first, first + count - 1, 1000, transactional=transactional)
    state.map_end_offset = first + count


def judge(state: ProducerState, epoch: int, sequence: int, count: int = 1, *, client: bool = True) -> object:
    last = sequence_after(sequence, count - 1)
    try:
        found = state.check(PRODUCER, epoch, sequence, last, transactional=False, client=client)
    except KafkaError as error:
        return error.code
    return OK if found is None else DUPLICATE


# batches written before (epoch, sequence, count), then the one to judge, then the verdict
TABLE = [
    ([], (0, 0, 1), OK),
    ([], (0, 55, 1), OK),  # an unknown producer may begin anywhere: its records may be gone
    ([(0, 0, 1)], (0, 1, 1), OK),
    ([(0, 0, 1)], (0, 0, 1), DUPLICATE),
    ([(0, 0, 1)], (0, 2, 1), OUT_OF_ORDER),
    ([(0, 0, 3)], (0, 1, 1), OUT_OF_ORDER),  # part of a batch is no duplicate of it
    ([(0, 0, 3)], (0, 3, 2), OK),
    ([(0, 0, 3), (0, 3, 2)], (0, 0, 3), DUPLICATE),
    ([(0, i, 1) for i in range(6)], (0, 1, 1), DUPLICATE),
    ([(0, i, 1) for i in range(6)], (0, 0, 1), OUT_OF_ORDER),  # only five are remembered
    ([(1, 0, 1)], (0, 1, 1), FENCED),
    ([(1, 0, 1)], (2, 0, 1), OK),
    ([(1, 0, 1)], (2, 1, 1), OUT_OF_ORDER),  # a new epoch begins at 0
    ([(1, 0, 1), (2, 0, 1)], (2, 1, 1), OK),
    ([(0, LARGEST_SEQUENCE - 1, 2)], (0, 0, 1), OK),
    ([(0, LARGEST_SEQUENCE, 3)], (0, 2, 1), OK),
    ([(0, LARGEST_SEQUENCE, 3)], (0, LARGEST_SEQUENCE, 3), DUPLICATE),
    ([(0, LARGEST_SEQUENCE, 3)], (0, 0, 1), OUT_OF_ORDER),
    ([(0, LARGEST_SEQUENCE, 1)], (0, LARGEST_SEQUENCE, 1), DUPLICATE),
    ([(0, LARGEST_SEQUENCE, 1)], (0, 1, 1), OUT_OF_ORDER),  # a gap across the wrap
    ([(0, LARGEST_SEQUENCE - 1, 1)], (0, 0, 1), OUT_OF_ORDER),
    ([(0, LARGEST_SEQUENCE - 3, 2), (0, LARGEST_SEQUENCE - 1, 4), (0, 2, 1)], (0, LARGEST_SEQUENCE - 1, 4), DUPLICATE),
    ([(0, LARGEST_SEQUENCE - 3, 2), (0, LARGEST_SEQUENCE - 1, 4), (0, 2, 1)], (0, LARGEST_SEQUENCE - 3, 2), DUPLICATE),
    ([(0, i, 1) for i in range(7)], (0, 0, 1), OUT_OF_ORDER),
]


@pytest.mark.parametrize(("written", "judged", "verdict"), TABLE)
def test_table(written: list[tuple[int, int, int]], judged: tuple[int, int, int], verdict: object) -> None:
    state = ProducerState()
    for batch in written:
        write(state, *batch)
    assert judge(state, *judged) == verdict


def test_a_coordinator_has_no_sequences_but_is_fenced_by_epochs() -> None:
    state = ProducerState()
    write(state, 3, 0)
    assert judge(state, 3, -1, client=False) == OK
    assert judge(state, 2, -1, client=False) == FENCED


def test_a_transaction_holds_back_the_stable_offset_until_its_marker_is_replicated() -> None:
    state = ProducerState()
    write(state, 0, 0)
    write(state, 0, 1, 2, transactional=True)
    with pytest.raises(KafkaError) as refused:
        state.check(PRODUCER, 0, 3, 3, transactional=False, client=True)
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    assert state.first_unstable_offset(100) == 1
    completed = state.append_marker(PRODUCER, 0, 5, 3, 1000, aborted=True)
    assert completed is not None
    assert completed == (PRODUCER, 1, 3, True)
    assert state.stable_offset_after(completed) == 4
    state.complete(completed)
    assert state.first_unstable_offset(3) == 1
    assert state.first_unstable_offset(4) is None
    with pytest.raises(KafkaError) as fenced:
        state.check_marker(PRODUCER, 0, 4)
    assert fenced.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_the_earliest_of_the_transactions_that_are_open_or_not_replicated_holds_readers_back() -> None:
    """The one that began first ends last; a marker is no end before it is replicated."""
    state = ProducerState()
    for producer, first in ((7, 0), (8, 5), (9, 6)):
        state.append_data(producer, 0, 0, first, first, 1000, transactional=True)
    unstable = []
    for producer, marker in ((8, 10), (7, 11), (9, 12)):
        completed = state.append_marker(producer, 0, 0, marker, 1000, aborted=False)
        assert completed is not None
        state.complete(completed)
        unstable.append(state.first_unstable_offset(10))
    assert unstable == [0, 0, 0]
    assert [state.first_unstable_offset(high_watermark) for high_watermark in (11, 12, 13)] == [0, 6, None]


def test_a_marker_without_data_before_it_ends_nothing_here() -> None:
    state = ProducerState()
    assert state.append_marker(PRODUCER, 0, 5, 3, 1000, aborted=True) is None
    write(state, 0, 0)
    assert state.append_marker(PRODUCER, 0, 5, 4, 1000, aborted=True) is None


@pytest.mark.parametrize("records", [0, 1])
def test_a_control_batch_that_is_no_marker_says_nothing_of_its_producer(records: int) -> None:
    """Compaction has emptied it, or it is of a type that is not known here."""
    key = b"\x00\x00\x00\x09"
    content = encode_batch(0, [1000], [key], [b""], producer_id=PRODUCER, producer_epoch=0, control=True)
    batch = decode_header(content, 0, 0)._replace(record_count=records)
    state = ProducerState()
    write(state, 0, 0, transactional=True)
    assert state.append(batch, content) is None
    assert state.first_unstable_offset(1) == 0


def test_a_repeated_batch_of_a_transaction_that_has_ended_is_no_duplicate() -> None:
    """librdkafka reuses the sequences of what it purges when it aborts: an acknowledgement would be of aborted data."""
    state = ProducerState()
    write(state, 0, 0, transactional=True)

    def repeated(sequence: int) -> int:
        found = state.check(PRODUCER, 0, sequence, sequence, transactional=True, client=True)
        assert found is not None
        return found.first_offset

    def is_refused(sequence: int) -> bool:
        with pytest.raises(KafkaError, match="in a transaction that has ended") as refused:
            repeated(sequence)
        return refused.value.code == ErrorCode.INVALID_TXN_STATE

    assert repeated(0) == 0, "as long as it is open"
    state.append_marker(PRODUCER, 0, 5, 1, 1000, aborted=True)
    assert is_refused(0), "before the next transaction has written here"
    state.map_end_offset = 2
    write(state, 0, 1, transactional=True)
    assert repeated(1) == 2
    assert is_refused(0), "beside the next transaction"
    state.producers = {one.producer_id: one for one in decode_snapshot(encode_snapshot(state.producers.values()))}
    assert repeated(1) == 2
    state.append_marker(PRODUCER, 0, 5, 3, 1000, aborted=False)
    assert is_refused(1)


def test_a_marker_with_a_new_epoch_makes_the_next_sequence_zero() -> None:
    state = ProducerState()
    write(state, 0, 0, transactional=True)
    assert state.append_marker(PRODUCER, 1, 0, 1, 1000, aborted=False) is not None
    assert judge(state, 1, 1) == OUT_OF_ORDER
    assert judge(state, 1, 0) == OK
    assert judge(state, 0, 1) == FENCED


@pytest.mark.parametrize("since", ["nothing", "expiry", "written"])
def test_what_comes_behind_a_refused_batch_is_refused_likewise(since: str) -> None:
    """Not for ever: nor when that one was written at last, and another one is missing."""
    state = ProducerState()
    write(state, 0, 0)
    state.note_refusal(make_batch(producer_id=PRODUCER, sequence=1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if since == "expiry":
        state.expire(1000, 100)
    elif since == "written":
        write(state, 0, 1)
        state.note_refusal(make_batch(producer_id=PRODUCER, sequence=90), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    behind = judge(state, 0, 95 if since == "written" else 2)
    assert behind == (ErrorCode.NOT_LEADER_OR_FOLLOWER if since == "nothing" else OUT_OF_ORDER)


def test_what_was_refused_in_an_old_format_is_no_producers() -> None:
    state = ProducerState()
    write(state, 0, 0)
    old = make_batch(producer_id=PRODUCER, sequence=1)
    old[MAGIC_AT] = 1
    state.note_refusal(old, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert judge(state, 0, 2) == OUT_OF_ORDER


def test_expiry_spares_open_transactions() -> None:
    state = ProducerState()
    write(state, 0, 0, transactional=True)
    state.append_data(8, 0, 0, 1, 1, 1000, transactional=False)
    state.expire(1000 + 99, 100)
    assert set(state.producers) == {PRODUCER, 8}
    state.expire(1000 + 100, 100)
    assert set(state.producers) == {PRODUCER}
    state.append_marker(PRODUCER, 0, 0, 2, 2000, aborted=False)
    state.expire(2000 + 99, 100)
    assert set(state.producers) == {PRODUCER}, "its marker is younger than its records"
    state.append_marker(9, 0, 0, 3, 2001, aborted=False)
    state.expire(2000 + 100, 100)
    assert set(state.producers) == {9}, "of which nothing but a marker is known"
    state.expire(2001 + 100, 100)
    assert not state.producers


def test_a_producer_of_old_timestamps_is_not_forgotten_while_it_writes() -> None:
    state = ProducerState()
    for hour in range(1, 4):
        write(state, 0, hour)
        state.expire(1_000_000 + hour, 100)
        assert judge(state, 0, hour) == DUPLICATE
    state.expire(1_000_003 + 99, 100)
    assert judge(state, 0, 3) == DUPLICATE
    state.expire(1_000_003 + 100, 100)
    assert not state.producers


def test_snapshot_golden_bytes() -> None:
    """Written by hand; Kafka's own snapshots are in test_byte_for_byte.py and test_kafkas_records.py."""
    state = ProducerState(10)
    write(state, 2, 5, 3, transactional=True)
    data = encode_snapshot(state.producers.values())
    assert data.hex() == (
        "0001" + data[2:6].hex() + "00000001"  # version, checksum, one entry
        "0000000000000007" "0002" "00000007"  # producer id, epoch, last sequence
        "000000000000000c" "00000002" "00000000000003e8"  # last offset, delta, timestamp
        "ffffffff" "000000000000000a"  # coordinator epoch, first offset of the transaction
    )  # fmt: skip
    assert int.from_bytes(data[2:6], "big") == mkPredefinedCrcFun("crc-32c")(data[6:])


def test_a_snapshot_remembers_the_newest_batch() -> None:
    state = ProducerState(10)
    write(state, 2, 0, 3)
    write(state, 2, 3, 3)
    again = ProducerState(state.map_end_offset, decode_snapshot(encode_snapshot(state.producers.values())))
    assert judge(again, 2, 3, 3) == DUPLICATE
    assert judge(again, 2, 6) == OK
    assert judge(again, 2, 0, 3) == OUT_OF_ORDER


def test_a_transaction_is_verified_until_a_marker_says_that_one_has_ended() -> None:
    state = ProducerState()
    given = state.begin_verification(7, 0, 0, 0)
    assert given is not None and state.begin_verification(7, 0, 0, 0) is given and state.is_verified(7, given)
    state.append_marker(7, 0, 1, 0, 0, aborted=False)
    assert not state.is_verified(7, given)
    again = state.begin_verification(7, 0, 0, 0)
    assert again is not None and state.is_verified(7, again) and not state.is_verified(7, given)
    state.append_data(7, 0, 0, 1, 1, 0, transactional=True)
    assert state.begin_verification(7, 0, 0, 0) is None and state.is_verified(7, again)
    state.append_marker(7, 0, 1, 2, 0, aborted=True)
    assert not state.is_verified(7, again)


def test_a_newer_epoch_is_verified_although_the_transaction_of_an_older_one_is_open() -> None:
    state = ProducerState()
    state.append_data(PRODUCER, 3, 0, 0, 0, 0, transactional=True)
    assert state.begin_verification(PRODUCER, 3, 1, 0) is None
    assert state.begin_verification(PRODUCER, 2, 1, 0) is None, "the append refuses it"
    guard = state.begin_verification(PRODUCER, 4, 0, 0)
    assert guard is not None and begins(state, guard, 0, epoch=4) == OK


def begins(state: ProducerState, guard: VerificationGuard | None, sequence: int, epoch: int = 0) -> object:
    """Judge the first batch of a transaction."""
    try:
        state.check(PRODUCER, epoch, sequence, sequence, transactional=True, client=True, guard=guard)
    except KafkaError as error:
        return error.code
    return OK


def test_a_transaction_begins_with_a_guard_that_still_holds() -> None:
    state = ProducerState()
    assert begins(state, None, 0) is ErrorCode.INVALID_TXN_STATE
    guard = state.begin_verification(PRODUCER, 0, 0, 0)
    assert begins(state, None, 0) is ErrorCode.INVALID_TXN_STATE
    assert begins(state, guard, 0) == OK
    write(state, 0, 0, transactional=True)
    assert begins(state, None, 1) == OK, "it is open"
    state.append_marker(PRODUCER, 0, 1, 1, 0, aborted=True)
    assert begins(state, None, 1) is begins(state, guard, 1) is ErrorCode.INVALID_TXN_STATE
    assert judge(state, 0, 1) == OK, "no transaction"


@pytest.mark.parametrize("first", [0, 5, LARGEST_SEQUENCE])
def test_a_batch_does_not_overtake_one_whose_verification_failed(first: int) -> None:
    """Else that one, sent again, would be out of order for ever."""
    second = sequence_after(first, 1)
    state = ProducerState()
    guard = state.begin_verification(PRODUCER, 0, first, 0)
    assert state.begin_verification(PRODUCER, 0, second, 0) is guard
    assert begins(state, guard, second) is OUT_OF_ORDER
    assert begins(state, guard, first) == OK
    write(state, 0, first, transactional=True)
    assert begins(state, guard, second) == OK


def test_a_newer_epoch_begins_its_sequences_anew() -> None:
    state = ProducerState()
    state.begin_verification(PRODUCER, 0, 0, 0)
    guard = state.begin_verification(PRODUCER, 1, 3, 0)
    assert begins(state, guard, 3, epoch=1) == OK
    assert begins(state, guard, 4, epoch=1) is OUT_OF_ORDER
    assert state.begin_verification(PRODUCER, 0, 0, 0) is guard, "of an older epoch"
    assert begins(state, guard, 3, epoch=1) == OK


def test_verifications_that_led_to_nothing_are_forgotten() -> None:
    state = ProducerState()
    guard = state.begin_verification(7, 0, 0, 1_000)
    assert guard is not None
    state.expire(1_999, 1_000)
    assert state.is_verified(7, guard)
    state.expire(2_000, 1_000)
    assert not state.is_verified(7, guard)


def test_a_verification_that_was_refused_is_forgotten_when_nobody_asks_any_more() -> None:
    state = ProducerState()
    guard = state.begin_verification(7, 0, 0, 0)
    assert guard is not None and state.begin_verification(7, 0, 1, 0) is guard
    state.verifications.end(7, guard, refused=True)
    assert state.is_verified(7, guard), "another request waits for its answer"
    state.verifications.end(7, guard, refused=True)
    assert not state.is_verified(7, guard)
    newer = state.begin_verification(7, 0, 0, 0)
    assert newer is not None
    state.verifications.end(7, newer, refused=False)
    assert state.is_verified(7, newer)


def test_verifications_under_way_have_a_limit() -> None:
    state = ProducerState()
    guards = [state.begin_verification(producer_id, 0, 0, 0) for producer_id in range(VERIFICATIONS_MAX + 1)]
    first, second, last = guards[0], guards[1], guards[-1]
    assert first is not None and second is not None and last is not None
    assert not state.is_verified(0, first)
    assert state.is_verified(1, second) and state.is_verified(VERIFICATIONS_MAX, last)
