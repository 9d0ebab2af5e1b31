"""Checks of a log that was opened after a stop."""

from collections.abc import Iterable

from odradek.broker.log.batches import checksum_of, iterate_headers
from odradek.broker.log.log import Log
from odradek.broker.log.producer_entry import ProducerEntry
from odradek.protocol.records import decode_records
from odradek.testing.crashes.history import Entry, History, Replay, entry_of, replay
from odradek.testing.crashes.machine import Violation
from odradek.testing.log_environments import offset_for_timestamp


def require(holds: bool, log: Log, text: str) -> None:
    """Require that something holds. Raises Violation."""
    if not holds:
        raise Violation(f"{log}: {text}")


def entries_of(log: Log) -> list[Entry]:
    """Read every batch as it is in the files. Raises Violation, CorruptBatch."""
    found: list[Entry] = []
    for segment in log.segments:
        for batch in iterate_headers(segment.file, 0, segment.size_bytes):
            content = segment.file.pread(batch.size_bytes, batch.position)
            require(checksum_of(content) == batch.crc, log, f"checksum of batch {batch}")
            require(batch.base_offset >= segment.base_offset, log, f"{batch} in segment {segment.base_offset}")
            require(not found or batch.base_offset > found[-1].last_offset, log, f"{batch} after {found[-1:]}")
            found.append(entry_of(content))
        require(segment.size_bytes == segment.file.size(), log, f"segment {segment.base_offset} has another size")
    require(not found or found[-1].last_offset < log.log_end_offset, log, f"{found[-1:]} at or after the end")
    return found


def check(log: Log, history: History, certain_end: int, start_at_most: int) -> list[Entry]:
    """Check a log after a stop; return what was written and is left, which compaction may have taken. Raises Violation.

    `certain_end`: what was on the disk at the stop; `start_at_most`: the log start then.
    """
    found = entries_of(log)
    possible = [history.entries, *history.before]
    target = history.target
    if not certain_end:
        possible += history.former
        target = max(target, history.former_end)
        start_at_most = max(start_at_most, history.former_end)
    end = log.log_end_offset
    require(end >= certain_end, log, f"lost what was on the disk before {certain_end}")
    require(log.log_start_offset >= min(history.certain_start, end), log, f"began at {history.certain_start}")
    last = max((one[-1].last_offset + 1 for one in possible if one), default=0)
    require(end <= max(history.end, last, target), log, f"nothing was ever written after {history.end}")
    if found:
        written = [entries for entries in possible if _comes_from(found, entries, history, start_at_most, certain_end)]
        require(bool(written), log, _why_not(found, history, start_at_most, certain_end))
        entries = written[0]
    else:
        entries = history.entries
        lost = [one for one in entries if one.last_offset < certain_end and one.last_offset >= start_at_most]
        require(not lost or history.compacts, log, f"empty, should have {len(lost)} batches")
    if not history.compacts:
        require(end == (found[-1].last_offset + 1 if found else end), log, f"the last batch is {found[-1:]}")
    check_epochs(log, [one for one in found if one.base_offset >= max(start_at_most, history.highest_start)])
    check_producers(log, found, replay(entries, end), max(start_at_most, history.highest_start))
    check_transactions(log, found, replay(entries, end), max(start_at_most, history.highest_start))
    check_reads(log, found)
    if history.compacts:
        check_keys(log, found, history, entries, certain_end)
        limit = max(certain_end, log.log_start_offset)
        kept = [one for one in entries if one.last_offset < limit]
        return kept + [one for one in found if one.last_offset >= limit]
    return [one for one in entries if one.last_offset < end]


def _comes_from(found: list[Entry], entries: list[Entry], history: History, start: int, certain_end: int) -> bool:
    """Tell whether these are what was written, nothing missing in between; of a compacted log, some of it."""
    if history.compacts:
        records = {(offset, key, value) for offset, key, value, _ in _records(entries)}
        return all((offset, key, value) in records for offset, key, value, _ in _records(found))
    if found[0] not in entries:
        return False
    first = entries.index(found[0])
    begins = all(one.last_offset < start for one in entries[:first])
    return begins and entries[first : first + len(found)] == found


def _why_not(found: list[Entry], history: History, start: int, certain_end: int) -> str:
    """Return the first difference."""
    if history.compacts:
        records = {(offset, key, value) for offset, key, value, _ in _records(history.entries)}
        wrong = [one for one in _records(found) if one[:3] not in records]
        return f"records that were never written: {wrong[:3]}"
    known = {one: number for number, one in enumerate(history.entries)}
    numbers = [known.get(one) for one in found]
    offsets = [one.base_offset for one in found]
    return f"batches {numbers} of those written, at {offsets}, before the start {start}; certain until {certain_end}"


def _records(entries: Iterable[Entry]) -> Iterable[tuple[int, bytes | None, bytes | None, Entry]]:
    for entry in entries:
        if not entry.header.is_control and entry.header.record_count:
            columns = decode_records(entry.content)
            for offset, key, value in zip(columns.offsets, columns.keys, columns.values, strict=True):
                yield offset, key, value, entry


def check_epochs(log: Log, found: list[Entry]) -> None:
    """Require that every batch's epoch is the one that its offset has. Raises Violation."""
    entries = log.epochs.entries()
    last = max(log.log_end_offset - 1, log.log_start_offset)
    require(all(start <= last for _, start in entries), log, f"epochs {entries} beyond the end")
    for one in found:
        if one.last_offset >= log.log_start_offset and one.header.magic == 2:
            epoch = log.epochs.epoch_at(max(one.base_offset, log.log_start_offset))
            require(epoch == one.header.leader_epoch, log, f"epochs {entries}, batch {one.header}")


def _summary(producer: ProducerEntry) -> tuple[int, int, int, int]:
    last = producer.batches[-1].last_offset if producer.batches else -1
    return producer.epoch, producer.last_sequence, last, producer.transaction_first_offset


def _less(known: ProducerEntry, start_offset: int, producer: ProducerEntry) -> set[tuple[int, int, int, int]]:
    """Return what may be left to know of a producer when the records before the start are gone.

    Each is its epoch, last sequence and offset, and the offset at which a transaction began.
    """
    epoch, sequence, last, transaction = _summary(known)
    batches = {(sequence, last)} | ({(-1, -1)} if last < start_offset else set())
    began = {transaction}
    if 0 <= transaction < min(start_offset, producer.transaction_first_offset):
        began.add(producer.transaction_first_offset)
    return {(epoch, *one, first) for one in batches for first in began}


def check_producers(log: Log, found: list[Entry], written: Replay, known_from: int) -> None:
    """Require the producers that a replay of what is there gives, with nothing that a replay of all written does not.

    Who wrote only before `known_from`, where the log once began, may be forgotten. Raises Violation.
    """
    state = log.producers
    require(state.map_end_offset == log.log_end_offset, log, f"producers up to {state.map_end_offset}")
    present = replay([one for one in found if one.last_offset >= log.log_start_offset], log.log_end_offset).state
    whole = replay(found, log.log_end_offset).state
    for producer_id, producer in state.producers.items():
        known = written.state.producers.get(producer_id)
        if known is None:
            raise Violation(f"{log}: producer {producer_id} never wrote")
        right = {_summary(known)} | {_summary(one.producers[producer_id]) for one in (present, whole)
                                     if producer_id in one.producers}  # fmt: skip
        right |= _less(known, max(known_from, log.log_start_offset), producer)
        require(_summary(producer) in right, log, f"producer {producer_id} is {_summary(producer)}, not of {right}")
        ids = [batch[:4] for batch in producer.batches]
        newest = [one[:4] for one in known.batches][len(known.batches) - len(ids) :]
        require(ids == newest or log.config.compacts, log, f"producer {producer_id} has {ids}, not {newest}")
    missing = set(whole.producers) - set(state.producers)
    require(not missing, log, f"producers {missing} are not known")


def check_transactions(log: Log, found: list[Entry], written: Replay, known_from: int) -> None:
    """Require that aborted data is known as such, and nothing else is. Raises Violation."""
    aborted = log.aborted_transactions(0, log.log_end_offset)
    for one in found:
        header = one.header
        if not header.is_transactional or header.is_control or not header.record_count:
            continue
        listed = any(
            entry.producer_id == header.producer_id and entry.first_offset <= one.base_offset < entry.last_offset
            for entry in aborted
        )
        really = any(
            end.aborted and end.producer_id == header.producer_id
            and end.first_offset <= one.base_offset < end.marker_offset
            for end in written.ended
        )  # fmt: skip
        if one.last_offset >= log.log_start_offset:
            require(listed == really, log, f"batch {header} is aborted: {really}; transaction index {aborted}")
    stable = log.last_stable_offset(log.log_end_offset)
    visible = replay([one for one in found if one.last_offset >= log.log_start_offset], log.log_end_offset)
    certain = replay([one for one in found if one.base_offset >= known_from], log.log_end_offset)
    possible = {_first_unstable(one, log) for one in (written, visible, certain)}
    require(stable in possible, log, f"last stable offset {stable}, not {possible}")


def _first_unstable(replayed: Replay, log: Log) -> int:
    open_since = [one.transaction_first_offset for one in replayed.state.producers.values()]
    first = min([first for first in open_since if first >= 0], default=log.log_end_offset)
    return max(first, log.log_start_offset)


def check_reads(log: Log, found: list[Entry]) -> None:
    """Require that each offset gives the right batch, and each time the right record. Raises Violation."""
    visible = [one for one in found if one.last_offset >= log.log_start_offset]
    for offset in range(log.log_start_offset, log.log_end_offset):
        expected = next((one for one in visible if one.last_offset >= offset), None)
        records = log.read(offset, 1, log.log_end_offset, whole_first_batch=True).records
        data = records if isinstance(records, bytes) else records.read()
        wanted = b"" if expected is None else expected.content
        require(data == wanted, log, f"offset {offset} is not read as {expected and expected.header}")
    timed: list[tuple[int, int]] = []
    for one in visible:
        if one.header.record_count:
            columns = decode_records(one.content)
            timed += zip(columns.timestamps, columns.offsets, strict=True)
    for timestamp in sorted({time for time, _ in timed})[:: max(1, len(timed) // 8)]:
        first = next((o for t, o in timed if t >= timestamp and o >= log.log_start_offset), None)
        answer = offset_for_timestamp(log, timestamp)
        require((answer[1] if answer else None) == first, log, f"time {timestamp}: {answer}, should be {first}")


def check_keys(log: Log, found: list[Entry], history: History, entries: list[Entry], certain_end: int) -> None:
    """The newest value of each key that was on the disk is there, or one that is newer still."""
    present: dict[bytes | None, int] = {}
    for offset, key, _, _ in _records(found):
        present[key] = max(offset, present.get(key, -1))
    mine = History(history.topic, history.compacts)
    mine.entries, mine.end = entries, log.log_end_offset
    newest: dict[bytes | None, tuple[int, bytes | None]] = {}
    for offset, key, value in mine.records(min(certain_end, log.log_end_offset)):
        newest[key] = (offset, value)
    for key, (offset, value) in newest.items():
        if value is not None and offset >= log.log_start_offset:
            require(present.get(key, -1) >= offset, log, f"key {key!r} has lost its value at {offset}")
