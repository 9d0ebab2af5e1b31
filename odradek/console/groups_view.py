"""Groups as the page shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from odradek.client.admin.values import GroupDescription, GroupListing, GroupMember, PartitionLag
from odradek.client.records import TopicPartition
from odradek.diagnosis.overview import IN_ZOOKEEPER

Model = dict[str, Any]
PARTITIONS_MAX = 500
"""Partitions and members of one group that are shown; those that are furthest behind first."""


def groups_model(listed: Sequence[GroupListing], told: Mapping[str, Any]) -> list[list[str]]:
    """Return id, state and protocol type of each group; `told`: the controller's word of those in ZooKeeper."""
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

    `told`: what a broker tells at /lag of it, which has the seconds; of a group in ZooKeeper it is all there is.
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
