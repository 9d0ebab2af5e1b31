"""Groups as the page shows them, with their rebalances, and transactions."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from odradek.broker.coordination.partition_count import partition_for
from odradek.broker.groups.group_records import GroupKey, read_group, read_key
from odradek.client.admin.values import (
    GroupDescription,
    GroupListing,
    GroupMember,
    OffsetSpec,
    PartitionLag,
    TransactionDescription,
    TransactionListing,
)
from odradek.client.aio.admin import Admin
from odradek.client.aio.consumer import Consumer
from odradek.client.records import ConsumerRecord, TopicPartition
from odradek.console.reading import Reader
from odradek.diagnosis.overview import IN_ZOOKEEPER
from odradek.protocol.errors import KafkaError, MalformedMessage
from odradek.protocol.topic_names import CONSUMER_OFFSETS

Model = dict[str, Any]
PARTITIONS_MAX = 500
"""Partitions and members of one group that are shown; partitions that are furthest behind come first."""


def groups_model(listed: Sequence[GroupListing], told: Mapping[str, Any]) -> list[list[str]]:
    """Return id, state and protocol type of each group; `told`: the controller's page /lag, with those in ZooKeeper."""
    groups = [[one.group_id, one.state, one.protocol_type] for one in listed]
    return groups + [
        [name, IN_ZOOKEEPER, "consumer"]
        for name in sorted(told.get("zookeeper", {}).keys() - {one[0] for one in groups})
    ]


def lag_model(lags: Sequence[PartitionLag], description: GroupDescription) -> Model:
    """Return the figures of a group's row."""
    return {
        "lag": sum(one.lag for one in lags if one.lag is not None),
        "partitions": len(lags),
        "members": len(description.members),
        "state": description.state,
    }


def zookeeper_lag_model(told: Mapping[str, Any]) -> Model:
    """Return the figures of a group that the controller has read in ZooKeeper."""
    rows = told.get("partitions", [])
    return {"lag": sum(row[3] for row in rows), "partitions": len(rows), "members": None, "state": IN_ZOOKEEPER}


def group_model(
    description: GroupDescription, lags: Sequence[PartitionLag], rebalances: Model, told: Mapping[str, Any]
) -> Model:
    """Return a group with its members, its lag by partition, and its generations on a time line.

    `told` is a broker's page /lag about the group, which has the lag in seconds; for a group in ZooKeeper nothing else
    is known.
    """
    rows = {
        TopicPartition(topic, index): (committed, behind, seconds)
        for topic, index, committed, behind, seconds in told.get("partitions", [])
    }
    in_zookeeper = bool(rows) and not lags
    if in_zookeeper:
        lags = [PartitionLag(at, committed, committed + behind, behind) for at, (committed, behind, _) in rows.items()]
    owners: dict[TopicPartition, str] = {}
    for member in description.members:
        owners.update(dict.fromkeys(member.partitions, member.member_id))
    worst = sorted(lags, key=lambda one: (-(one.lag or 0), one.topic_partition))
    lag_of = {one.topic_partition: one.lag or 0 for one in lags}
    return {
        "id": description.group_id,
        "state": IN_ZOOKEEPER if in_zookeeper else description.state,
        "in_zookeeper": in_zookeeper,
        "seconds": max((seconds for _, _, seconds in rows.values()), default=None),
        "assignor": description.assignor,
        "coordinator": description.coordinator,
        "lag": sum(lag_of.values()),
        "members": [_member(one, lag_of) for one in description.members[:PARTITIONS_MAX]],
        "members_left_out": max(0, len(description.members) - PARTITIONS_MAX),
        "partitions": [
            [
                *one.topic_partition,
                one.committed,
                one.log_end_offset,
                one.lag,
                owners.get(one.topic_partition),
                rows.get(one.topic_partition, (None, None, None))[2],
            ]
            for one in worst[:PARTITIONS_MAX]
        ],
        "partitions_left_out": max(0, len(worst) - PARTITIONS_MAX),
        "rebalances": rebalances,
    }


def _member(member: GroupMember, lag_of: dict[TopicPartition, int]) -> Model:
    return {
        "id": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.host,
        "partitions": len(member.partitions),
        "lag": sum(lag_of.get(one, 0) for one in member.partitions),
    }


TRANSACTIONS_MAX = 1_000


def transactions_model(
    listed: Mapping[int, Sequence[TransactionListing]],
    described: Mapping[str, TransactionDescription],
    now_ms: int,
) -> dict[str, Any]:
    """Return all transactional ids, those with an open transaction first, the oldest transaction at the top."""
    rows = []
    for coordinator, some in listed.items():
        for one in some:
            known = described.get(one.transactional_id)
            begun_ms = known.transaction_start_time_ms if known is not None else -1
            rows.append(
                {
                    "id": one.transactional_id,
                    "state": one.state if known is None else known.state,
                    "producer": one.producer_id,
                    "epoch": None if known is None else known.producer_epoch,
                    "coordinator": coordinator,
                    "timeout_ms": None if known is None else known.transaction_timeout_ms,
                    "begun_ms": None if begun_ms < 0 else begun_ms,
                    "overdue": known is not None and 0 <= begun_ms < now_ms - known.transaction_timeout_ms,
                    "partitions": [] if known is None else [str(one) for one in sorted(known.topic_partitions)],
                }
            )
    rows.sort(key=lambda row: (row["begun_ms"] is None, row["begun_ms"] or 0, row["id"]))
    return {"transactions": rows[:TRANSACTIONS_MAX], "left_out": max(0, len(rows) - TRANSACTIONS_MAX)}


RECORDS_BACK: Final = 20_000
"""Latest records of the partition of __consumer_offsets that are read when the view of a group is opened."""
GENERATIONS_MAX: Final = 200


class Rebalances:
    """Reads the generations of one group from __consumer_offsets, while its view is open."""

    def __init__(self, reader: Reader, admin: Admin, group: str) -> None:
        self._reader, self._admin, self._group = reader, admin, group
        self._consumer: Consumer | None = None
        self._where = TopicPartition(CONSUMER_OFFSETS, 0)
        self._found: deque[dict[str, Any]] = deque(maxlen=GENERATIONS_MAX)

    async def read(self) -> dict[str, Any]:
        """Return the generations known by now, oldest first; with `error` if the topic cannot be read."""
        try:
            await self._read()
        except KafkaError as error:
            return {"generations": list(self._found), "error": str(error)}
        return {"generations": list(self._found)}

    async def _read(self) -> None:
        if self._consumer is None:
            await self._begin()
        assert self._consumer is not None
        end = (await self._admin.list_offsets({self._where: OffsetSpec.LATEST}))[self._where]
        while end is not None and await self._consumer.position(self._where) < end.offset:
            for some in (await self._consumer.getmany(500)).values():
                for record in some:
                    self._take(record)

    async def _begin(self) -> None:
        info = (await self._admin.describe_topics([CONSUMER_OFFSETS]))[0]
        self._where = TopicPartition(CONSUMER_OFFSETS, partition_for(self._group, len(info.partitions)))
        begin = (await self._admin.list_offsets({self._where: OffsetSpec.EARLIEST}))[self._where]
        end = (await self._admin.list_offsets({self._where: OffsetSpec.LATEST}))[self._where]
        if begin is None or end is None:
            return
        consumer = await self._reader.consumer().start()
        self._consumer = consumer
        consumer.assign([self._where])
        consumer.seek(self._where, max(begin.offset, end.offset - RECORDS_BACK))

    def _take(self, record: ConsumerRecord) -> None:
        generation = generation_of(self._group, record)
        if generation is not None:
            self._found.append(generation)

    async def close(self) -> None:
        """Stop reading."""
        if self._consumer is not None:
            await self._consumer.close()


def generation_of(group: str, record: ConsumerRecord) -> dict[str, Any] | None:
    """Return the generation of this group in a record of __consumer_offsets; None for any other record."""
    if record.key is None or group.encode("utf-8", "surrogatepass") not in record.key:
        return None
    try:
        key = read_key(record.key)
        if not isinstance(key, GroupKey) or key.group_id != group:
            return None
        if record.value is None:
            return {"at_ms": record.timestamp_ms, "generation": None, "members": [], "assignor": None}
        found = read_group(group, record.value)
    except MalformedMessage:
        return None
    return {
        "at_ms": record.timestamp_ms,
        "generation": found.generation,
        "members": sorted(member.client_id for member in found.members.values()),
        "assignor": found.protocol_name,
    }
