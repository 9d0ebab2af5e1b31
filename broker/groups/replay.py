"""Groups and offsets, read back from the batches of one partition of `__consumer_offsets`: bytes in, groups out."""

from collections.abc import Iterator

from odradek.broker.groups.offsets import OffsetTable
from odradek.broker.groups.records import GroupKey, OffsetKey, read_group, read_key, read_offset
from odradek.broker.groups.roster import Roster
from odradek.protocol.control_records import ControlType, control_type
from odradek.protocol.conversion import has_messages, to_batches
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import BatchHeader, batches
from odradek.protocol.records import Columns, decode_records

RECORDS_PER_STEP = 100


class Replay:
    """What the batches seen so far amount to. `next_offset`: of the first record not seen yet."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self._rosters: dict[str, Roster] = {}
        self._offsets: dict[str, OffsetTable] = {}
        self._transactions: dict[int, set[str]] = {}
        """Groups that an open transaction has commits for, by producer id."""

    def steps(self, data: Buffer) -> Iterator[None]:
        """Take in the whole batches of `data`, pausing after every few records. Raises MalformedMessage."""
        if has_messages(data):  # of an older Kafka's directory
            data = b"".join(to_batches(data, compressed=False))
        for position, header in batches(data, allow_partial_tail=True):
            records = decode_records(data, position)
            if header.is_control:
                self._control(header, records)
            else:
                yield from self._records(header, records)
            self.next_offset = header.next_offset
            yield

    def results(self) -> Iterator[tuple[Roster, OffsetTable]]:
        """Every group that is left; one that has only offsets is empty, without a protocol."""
        for group_id, roster in self._rosters.items():
            yield roster, self._offsets.pop(group_id, OffsetTable())
        for group_id, offsets in self._offsets.items():
            if not offsets.is_empty():
                yield Roster(group_id), offsets

    def _records(self, header: BatchHeader, records: Columns) -> Iterator[None]:
        for index, (key, value) in enumerate(zip(records.keys, records.values, strict=True)):
            if key is None:
                raise MalformedMessage(f"record {records.offsets[index]} has no key")
            named = read_key(key)
            if isinstance(named, OffsetKey):
                self._offset(header, named, value)
            elif isinstance(named, GroupKey):
                self._group(named.group_id, value)
            if index % RECORDS_PER_STEP == RECORDS_PER_STEP - 1:
                yield

    def _offset(self, header: BatchHeader, key: OffsetKey, value: bytes | None) -> None:
        table = self._offsets.setdefault(key.group_id, OffsetTable())
        committed = None if value is None else read_offset(value)
        if header.is_transactional:
            self._transactions.setdefault(header.producer_id, set()).add(key.group_id)
            table.load_transactional(header.producer_id, key.partition, committed, header.base_offset)
        elif committed is None:
            table.remove([key.partition])
        else:
            table.load(key.partition, committed, header.base_offset)

    def _group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self._rosters.pop(group_id, None)
        else:
            self._rosters[group_id] = read_group(group_id, value)

    def _control(self, header: BatchHeader, records: Columns) -> None:
        if not records.keys:
            return  # emptied by compaction
        kind = control_type(records.keys[0])
        if kind is None:
            return
        for group_id in self._transactions.pop(header.producer_id, ()):
            self._offsets[group_id].end_transaction(header.producer_id, committed=kind is ControlType.COMMIT)
