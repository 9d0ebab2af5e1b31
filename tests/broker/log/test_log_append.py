"""What a leader and a follower accept, and what an append leaves behind."""

import errno

import pytest

from odradek.broker.log.batches import Origin
from odradek.broker.log.errors import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import FULL_DISK_PAUSE_MS
from odradek.broker.log.rewriting import BadRecords
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol import compression, record_batch
from odradek.protocol.compression import LZ4, NONE
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.records import decode_records, encode_batch
from odradek.testing.log_environments import (
    DIRECTORY,
    close_log,
    make_batch,
    make_environment,
    open_test_log,
    read_batches,
)
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock


def new_log(config: LogConfig | None = None, files: SimulatedFiles | None = None) -> Log:
    return open_test_log(make_environment(files), config, clean=True)


def broken_crc(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


def with_field(batch: bytearray, at: int, value: bytes) -> bytearray:
    batch[at : at + len(value)] = value
    record_batch.update_crc(batch, 0)
    return batch


def negative_length(batch: bytearray) -> bytearray:
    batch[8:12] = b"\xff\xff\xff\xf0"
    return batch


REFUSED = [
    ("checksum", lambda: broken_crc(make_batch()), ErrorCode.CORRUPT_MESSAGE),
    ("cut off", lambda: make_batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
    ("less than a header", lambda: make_batch()[:40], ErrorCode.CORRUPT_MESSAGE),
    ("rest after a batch", lambda: make_batch() + b"x", ErrorCode.CORRUPT_MESSAGE),
    ("negative length", lambda: negative_length(make_batch()), ErrorCode.CORRUPT_MESSAGE),
    ("nothing", bytearray, ErrorCode.INVALID_RECORD),
    ("too large", lambda: make_batch([b"x" * 1000]), ErrorCode.MESSAGE_TOO_LARGE),
    ("base offset", lambda: make_batch(base_offset=5), ErrorCode.INVALID_RECORD),
    ("record count", lambda: with_field(make_batch(), 57, b"\0\0\0\2"), ErrorCode.INVALID_RECORD),
    ("no records", lambda: with_field(make_batch(), 57, b"\0\0\0\0"), ErrorCode.INVALID_RECORD),
    ("negative delta", lambda: with_field(make_batch(), 23, b"\xff\xff\xff\xff"), ErrorCode.INVALID_RECORD),
    ("control", lambda: with_field(make_batch(), 21, b"\0\x20"), ErrorCode.INVALID_RECORD),
    ("no sequence", lambda: make_batch(producer_id=1, sequence=-1), ErrorCode.INVALID_RECORD),
    ("append time", lambda: with_field(make_batch(), 21, b"\0\x08"), ErrorCode.INVALID_TIMESTAMP),
    ("codec", lambda: with_field(make_batch(), 21, b"\0\x05"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ("magic 1", lambda: with_field(make_batch(), 16, b"\1"), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
]


@pytest.mark.parametrize(("what", "make", "code"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refused_whole(what: str, make, code: ErrorCode) -> None:
    log = new_log(LogConfig(max_message_bytes=1000))
    log.append_as_leader(make_batch([b"first"]), 0)
    size = log.size_bytes
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(make(), 0)
    assert refused.value.code == code, what
    if make():
        with pytest.raises(KafkaError):
            log.append_as_leader(make_batch([b"good"]) + make(), 0)
    assert (log.log_end_offset, log.size_bytes) == (1, size)
    assert [columns.values for columns in read_batches(log)] == [[b"first"]]


def test_the_file_holds_the_batch_with_offset_and_epoch() -> None:
    files = SimulatedFiles()
    log = new_log(files=files)
    log.append_as_leader(make_batch([b"a", b"b"]), 3)
    appended = log.append_as_leader(make_batch([b"c"]), 4)
    assert appended == (2, 2, -1, 0, False)
    expected = make_batch([b"a", b"b"], epoch=3) + make_batch([b"c"], base_offset=2, epoch=4)
    assert files.read(f"{DIRECTORY}/{0:020d}.log") == expected
    assert files.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n3 0\n4 2\n"
    assert (log.epochs.latest, log.end_offset_for_epoch(3)) == (4, (3, 2))


def test_an_epoch_is_written_with_its_first_record() -> None:
    files = SimulatedFiles()
    log = new_log(files=files)
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    log.assign_epoch(3, 0)
    assert not files.exists(path)
    log.append_as_leader(make_batch([b"a", b"b"]), 3)
    assert files.read(path) == b"0\n1\n3 0\n"
    log.assign_epoch(5, 2)
    assert (files.read(path), log.end_offset_for_epoch(3)) == (b"0\n1\n3 0\n", (3, 2))
    log.append_as_follower(make_batch([b"c"], base_offset=2, epoch=5))
    assert files.read(path) == b"0\n2\n3 0\n5 2\n"


def test_several_batches_at_once_get_consecutive_offsets() -> None:
    log = new_log()
    appended = log.append_as_leader(make_batch([b"a", b"b"]) + make_batch([b"c"]), 0)
    assert (appended.first_offset, appended.last_offset) == (0, 2)
    assert [columns.offsets for columns in read_batches(log)] == [[0, 1], [2]]
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(make_batch(producer_id=1) + make_batch(producer_id=1, sequence=1), 0)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_a_duplicate_gets_its_first_offsets_and_is_not_written() -> None:
    log = new_log()
    for sequence in range(3):
        log.append_as_leader(make_batch(producer_id=9, sequence=sequence), 0)
    again = log.append_as_leader(make_batch(producer_id=9, sequence=1), 0)
    assert (again.first_offset, again.last_offset, again.duplicate) == (1, 1, True)
    assert log.log_end_offset == 3
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(make_batch(producer_id=9, sequence=7), 0)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_duplicates_are_known_after_a_restart(how: str) -> None:
    environment = make_environment()
    log = open_test_log(environment, clean=True)
    for sequence in range(3):
        log.append_as_leader(make_batch(producer_id=9, sequence=sequence), 0)
    if how == "clean":
        close_log(log)
    log = open_test_log(environment, clean=how == "clean")
    assert log.append_as_leader(make_batch(producer_id=9, sequence=2), 0).duplicate
    assert log.append_as_leader(make_batch(producer_id=9, sequence=3), 0).first_offset == 3


def test_truncation_forgets_what_the_producer_wrote() -> None:
    log = new_log(LogConfig(segment_bytes=200))
    for sequence in range(6):
        log.append_as_leader(make_batch(producer_id=9, sequence=sequence), 0)
    log.truncate_to(4)
    appended = log.append_as_leader(make_batch(producer_id=9, sequence=4), 1)
    assert (appended.first_offset, appended.duplicate) == (4, False)


@pytest.mark.parametrize("beyond", [0, 1])
def test_an_epoch_in_which_nothing_was_written_is_forgotten_when_another_leader_is_followed(beyond: int) -> None:
    """Followers of this broker would take the next leader's records for those of the epoch."""
    log = new_log()
    log.append_as_leader(make_batch([b"a"] * 2), 19)
    log.assign_epoch(20, 2)
    assert log.end_offset_for_epoch(20) == (20, 2)
    assert not log.truncate_to(2 + beyond)
    assert (log.epochs.entries(), log.end_offset_for_epoch(20)) == ([(19, 0)], (-1, -1))


def test_a_follower_takes_nothing_of_what_is_out_of_order() -> None:
    log = new_log()
    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(b"".join(make_batch(base_offset=offset, epoch=0) for offset in (0, 1, 3, 2, 4)))
    assert (refused.value.code, log.log_end_offset) == (ErrorCode.CORRUPT_MESSAGE, 0)


def test_a_log_that_starts_over_knows_no_epochs() -> None:
    log = new_log()
    log.append_as_leader(make_batch(), 3)
    log.truncate_fully_and_start_at(29)
    assert log.epochs.entries() == []
    log.append_as_follower(make_batch(base_offset=29, epoch=2))
    assert log.epochs.entries() == [(2, 29)]


def test_a_marker_ends_a_transaction_and_is_indexed_when_it_aborts() -> None:
    log = new_log()
    log.append_as_leader(make_batch([b"a"] * 2, producer_id=9, transactional=True), 0)
    assert log.last_stable_offset(2) == 0
    marker = encode_batch(
        0, [1], [b"\0\0\0\0"], [b"\0\0\0\0\0\7"], producer_id=9, producer_epoch=0, transactional=True, control=True
    )  # fmt: skip
    log.append_as_leader(marker, 0, origin=Origin.COORDINATOR)
    assert log.last_stable_offset(2) == 0
    assert log.last_stable_offset(3) == 3
    assert log.aborted_transactions(0, 3) == [(9, 0, 2, 3)]
    assert log.environment.files.read(f"{DIRECTORY}/{0:020d}.txnindex").hex() == (
        "0000" "0000000000000009" "0000000000000000" "0000000000000002" "0000000000000003"
    )  # fmt: skip
    log = open_test_log(log.environment)
    assert log.aborted_transactions(0, 3) == [(9, 0, 2, 3)]


def test_log_append_time_is_given_to_the_batch() -> None:
    clock = ManualClock()
    log = open_test_log(make_environment(clock=clock), LogConfig(message_timestamp_type="LogAppendTime"), clean=True)
    appended = log.append_as_leader(make_batch([b"a", b"b"], timestamp_ms=5), 0)
    assert appended.log_append_time_ms == clock.now_ms()
    assert read_batches(log)[0].timestamps == [clock.now_ms()] * 2


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_a_largest_timestamp_that_cannot_be_is_that_of_the_records(codec: int) -> None:
    batch = encode_batch(0, [5, 9, 7], [None] * 3, [b"v"] * 3, codec=codec)
    record_batch.set_max_timestamp(batch, 0, -1)
    log = new_log()
    log.append_as_leader(batch, 0)
    assert log.segments[-1].largest_timestamp == (9, 2)
    assert read_batches(log)[0].timestamps == [5, 9, 7]


def test_a_compacted_topic_needs_keys() -> None:
    log = new_log(LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(make_batch(), 0)
    assert refused.value.code == ErrorCode.INVALID_RECORD
    log.append_as_leader(encode_batch(0, [1], [b"key"], [None]), 0)
    assert log.log_end_offset == 1


def test_every_record_that_is_bad_is_named() -> None:
    log = new_log(LogConfig(cleanup_policy=frozenset({"compact"})))
    keys = [None, b"a", None, None, None]
    with pytest.raises(BadRecords) as refused:
        log.append_as_leader(encode_batch(0, [1] * 5, keys, [b"v"] * 5), 0)
    message = "Compacted topic cannot accept message without key in topic partition topic-0."
    assert refused.value.record_errors == [(index, message) for index in (0, 2, 3, 4)]
    told = ", ".join(f"RecordError(batchIndex={index}, message='{message}')" for index in (0, 2, 3))
    assert refused.value.message == (
        "One or more records have been rejected due to 4 record errors in total, "
        f"and only showing the first three errors at most: [{told}]"
    )


def test_one_untimely_record_makes_it_a_matter_of_timestamps() -> None:
    clock = ManualClock()
    config = LogConfig(cleanup_policy=frozenset({"compact"}), message_timestamp_after_max_ms=5)
    log = open_test_log(make_environment(clock=clock), config, clean=True)
    now_ms = clock.now_ms()
    timestamps = [now_ms, now_ms + 6, now_ms + 7]
    with pytest.raises(BadRecords) as refused:
        log.append_as_leader(encode_batch(0, timestamps, [b"k", None, b"k"], [b"v"] * 3), 0)
    assert refused.value.code == ErrorCode.INVALID_TIMESTAMP
    assert refused.value.message == "One or more records have been rejected due to invalid timestamp"
    assert [one.batch_index for one in refused.value.record_errors] == [1, 2]
    assert refused.value.record_errors[1].message == (
        f"Timestamp {now_ms + 7} of message with offset 2 is out of range. The timestamp should be within "
        f"[{now_ms - config.message_timestamp_before_max_ms}, {now_ms + 5}]"
    )


@pytest.mark.parametrize(("timestamp", "accepted"), [(-10, True), (-11, False), (5, True), (6, False)])
def test_timestamps_out_of_range_are_refused(timestamp: int, accepted: bool) -> None:
    clock = ManualClock()
    config = LogConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=5)
    log = open_test_log(make_environment(clock=clock), config, clean=True)
    batch = make_batch(timestamp_ms=clock.now_ms() + timestamp)
    if accepted:
        log.append_as_leader(batch, 0)
        return
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(batch, 0)
    assert refused.value.code == ErrorCode.INVALID_TIMESTAMP


def test_a_record_without_a_timestamp_is_within_all_limits() -> None:
    log = new_log(LogConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=5))
    log.append_as_leader(encode_batch(0, [-1, -1], [None] * 2, [b"v"] * 2), 0)
    with pytest.raises(BadRecords) as refused:
        log.append_as_leader(encode_batch(0, [-1, 0], [None] * 2, [b"v"] * 2), 0)
    assert [one.batch_index for one in refused.value.record_errors] == [1]


def test_a_forced_codec_recompresses() -> None:
    log = new_log(LogConfig(compression_type="lz4"))
    log.append_as_leader(make_batch([b"a" * 50] * 4, producer_id=2, codec=NONE), 0)
    data = log.read(0, 1000, 4, whole_first_batch=True).records
    assert not isinstance(data, bytes)
    header = record_batch.read_header(data.read())
    assert (header.codec, header.producer_id, header.record_count) == (LZ4, 2, 4)
    assert read_batches(log)[0].values == [b"a" * 50] * 4


def test_a_forced_codec_has_the_topics_level() -> None:
    sizes = []
    for level in (1, 9):
        log = new_log(LogConfig(compression_type="gzip", compression_gzip_level=level))
        log.append_as_leader(make_batch([bytes(n * n % 251 for n in range(4000))], codec=NONE), 0)
        data = log.read(0, 100_000, 1, whole_first_batch=True).records
        assert not isinstance(data, bytes)
        sizes.append(len(data.read()))
    assert sizes[0] > sizes[1]


def test_a_follower_takes_what_the_leader_gave() -> None:
    leader, follower = new_log(), new_log()
    for epoch in (1, 1, 2):
        leader.append_as_leader(make_batch([b"a", b"b"]), epoch)
    records = leader.read(0, 10_000, 6, whole_first_batch=True).records
    assert not isinstance(records, bytes)
    data = records.read()
    follower.append_as_follower(data[:-3])
    assert (follower.log_end_offset, follower.epochs.entries()) == (4, [(1, 0)])
    follower.append_as_follower(data[len(data) // 3 * 2 :])
    assert (follower.log_end_offset, follower.epochs.entries()) == (6, [(1, 0), (2, 4)])
    with pytest.raises(KafkaError) as refused:
        follower.append_as_follower(data)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    damaged = bytearray(make_batch(base_offset=6))
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        follower.append_as_follower(bytes(damaged))
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_follower_takes_more_than_a_segment_holds() -> None:
    follower = new_log(LogConfig(segment_bytes=150))
    data = b"".join(bytes(make_batch([b"x" * 100], base_offset=offset)) for offset in range(3))
    follower.append_as_follower(data)
    assert [segment.base_offset for segment in follower.segments] == [0, 1, 2]
    assert [columns.offsets for columns in read_batches(follower)] == [[0], [1], [2]]
    with pytest.raises(KafkaError) as refused:
        follower.append_as_leader(make_batch([b"x" * 100]), 0)
    assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_an_empty_follower_may_begin_within_a_batch() -> None:
    follower = new_log()
    follower.truncate_fully_and_start_at(12)
    follower.append_as_follower(bytes(make_batch([b"x"] * 5, base_offset=10)))
    assert (follower.log_start_offset, follower.log_end_offset) == (12, 15)
    assert follower.segments[0].base_offset == 10
    assert [columns.offsets for columns in read_batches(follower)] == [[10, 11, 12, 13, 14]]


def test_a_full_disk_leaves_no_half_batch_and_the_log_goes_on_when_there_is_room() -> None:
    files, clock = SimulatedFiles(), ManualClock()
    log = open_test_log(make_environment(files, clock), clean=True)
    log.append_as_leader(make_batch(), 0)
    size = log.size_bytes
    files.capacity_bytes = sum(files.size(f"{DIRECTORY}/{name}") for name in files.list_directory(DIRECTORY)) + 30
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(make_batch([b"b"]), 0)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert files.size(f"{DIRECTORY}/{0:020d}.log") == size
    files.capacity_bytes = None
    clock.advance(FULL_DISK_PAUSE_MS)
    assert log.append_as_leader(make_batch([b"b"]), 0).first_offset == 1
    assert [columns.values for columns in read_batches(log)] == [[b"value"], [b"b"]]


def test_a_failing_disk_is_reported_once_and_raised() -> None:
    files, heard = SimulatedFiles(), []
    environment = make_environment(files)
    environment.failed = lambda directory, cause: heard.append((directory, cause.errno))
    log = open_test_log(environment, clean=True)
    files.broken.add(DIRECTORY)
    with pytest.raises(StorageFailure) as failure:
        log.append_as_leader(make_batch(), 0)
    assert heard == [("/data", errno.EIO)]
    assert failure.value.directory == "/data"


def test_records_decode_from_a_cut_slice() -> None:
    log = new_log()
    for _ in range(3):
        log.append_as_leader(make_batch([b"x" * 100]), 0)
    found = log.read(0, 200, 3, whole_first_batch=True)
    assert len(found.records) == 200
    assert not isinstance(found.records, bytes)
    assert decode_records(found.records.read()).offsets == [0]
    assert len(log.read(0, 10, 3, whole_first_batch=True).records) == len(make_batch([b"x" * 100]))
    assert len(log.read(0, 200, 3, whole_first_batch=False).records) == 200
    assert log.read(0, 10, 3, whole_first_batch=False).records == b""


@pytest.mark.parametrize("codec", [compression.GZIP, compression.LZ4, compression.SNAPPY, compression.ZSTD])
def test_a_batch_that_holds_too_much_to_be_looked_at_can_be_sent_again_in_smaller_ones(codec: int) -> None:
    """Producers split a batch that is MESSAGE_TOO_LARGE; one that is CORRUPT_MESSAGE they repeat until they give up."""
    log = new_log(LogConfig(cleanup_policy=frozenset({"compact"}), max_message_bytes=100_000))
    values: list[bytes | None] = [b"x" * 400_000] * 5
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(encode_batch(0, [1] * 5, [b"k"] * 5, values, codec=codec), 0)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    for start in (0, 2):
        log.append_as_leader(encode_batch(0, [1] * 2, [b"k"] * 2, values[start : start + 2], codec=codec), 0)
    assert log.log_end_offset == 4


def test_a_batch_is_measured_before_the_topic_compresses_it() -> None:
    log = new_log(LogConfig(compression_type="zstd", max_message_bytes=1000))
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(make_batch([b"x" * 2000]), 0)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    log.append_as_leader(make_batch([b"x" * 500]), 0)
