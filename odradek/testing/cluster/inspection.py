"""Inspection of a cluster: records, committed offsets, requests, and what happened when."""

from collections.abc import Iterator

from odradek.broker.replication.partition import Partition
from odradek.protocol.control_records import ControlType, control_type
from odradek.protocol.record_batch import batches
from odradek.protocol.records import decode_records
from odradek.testing.cluster.options import ClusterError
from odradek.testing.cluster.views import Moment, SeenRequest, StoredRecord, Timeline
from odradek.testing.cluster.waits import Waits

READ_BYTES = 1 << 20


class Inspection(Waits):
    """Looks into the cluster at what clients do not see, or would have to ask for."""

    async def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """Return all records of a topic, or of one partition, from the logs of its leaders.

        Records that consumers do not see are included: uncommitted, aborted, markers. By partition, then by offset.
        Raises ClusterError when a partition has no leader.
        """
        count = self.partitions_now(topic)
        if partition is not None and not 0 <= partition < count:
            raise ClusterError(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
        found: list[StoredRecord] = []
        for index in range(count) if partition is None else [partition]:
            leader = self.leader_now(topic, index)
            if leader < 0 or not self._leads(leader, topic, index):
                raise ClusterError(f"{topic}-{index} has no leader now: wait_for({topic!r}, {index}, leader=…)")
            found += _stored(self.broker(leader).server.services.replicas.partitions[(topic, index)])
        return found

    async def committed(self, group: str, topic: str | None = None) -> dict[tuple[str, int], int]:
        """Return a group's committed offsets, by (topic, partition); empty for an unknown group."""
        return {at: offset for at, offset in self.committed_offsets(group).items() if topic in (None, at[0])}

    async def requests(self, api: str | None = None, client: str | None = None) -> list[SeenRequest]:
        """Return the last ten thousand requests of clients, or those to one API or of one client.id.

        Raises ClusterError without `trace`.
        """
        if self.trace is None:
            raise ClusterError("nothing was noted: make the cluster with trace=True")
        return [
            request
            for request in self.trace.requests()
            if (api is None or request.api.lower() == api.lower()) and client in (None, request.client)
        ]

    async def timeline(self, *, requests: bool = False) -> Timeline:
        """Return what happened, by time: actions of the test, changes in ZooKeeper, faults that struck.

        With `requests` also the requests of clients; raises ClusterError then without `trace`.
        """
        moments = list(self.moments)
        if requests:
            moments += [Moment(one.at_ms, one.client or one.peer, str(one)) for one in await self.requests()]
        return Timeline(tuple(sorted(moments, key=lambda moment: moment.at_ms)))


def _stored(partition: Partition) -> Iterator[StoredRecord]:
    open_by: dict[int, list[int]] = {}
    """Positions of the records of open transactions, by producer id."""
    found: list[StoredRecord] = []
    log, end = partition.log, partition.log.log_end_offset
    at = log.log_start_offset
    while at < end:
        part = log.read(at, READ_BYTES, end, whole_first_batch=True).records
        data = part if isinstance(part, bytes) else part.read()
        for position, header in batches(data):
            at = header.next_offset
            columns = decode_records(data, position)
            if header.is_control:
                committed = control_type(columns.keys[0]) is ControlType.COMMIT
                for number in open_by.pop(header.producer_id, []):
                    found[number] = _ended(found[number], committed)
            for number, offset in enumerate(columns.offsets):
                if header.is_transactional and not header.is_control:
                    open_by.setdefault(header.producer_id, []).append(len(found))
                kind = control_type(columns.keys[number]) if header.is_control else None
                found.append(
                    StoredRecord(
                        partition.topic,
                        partition.index,
                        offset,
                        columns.timestamps[number],
                        columns.keys[number],
                        columns.values[number],
                        tuple(columns.headers(number)),
                        header.producer_id,
                        header.producer_epoch,
                        -1 if header.base_sequence < 0 else header.base_sequence + number,
                        "open" if header.is_transactional and not header.is_control else None,
                        kind.name if kind is not None else None,
                        offset < partition.high_watermark,
                    )
                )
        if not data:
            break
    return iter(found)


def _ended(record: StoredRecord, committed: bool) -> StoredRecord:
    values = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return StoredRecord(**{**values, "transaction": "committed" if committed else "aborted"})
