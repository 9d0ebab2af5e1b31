"""Groups as the page shows them."""

from collections.abc import Sequence
from typing import Any

from odradek.client.admin.values import GroupDescription, GroupListing, GroupMember, PartitionLag
from odradek.client.records import TopicPartition

Model = dict[str, Any]
PARTITIONS_MAX = 500
"""Partitions and members of one group that are shown; those that are furthest behind first."""


def groups_model(listed: Sequence[GroupListing]) -> list[list[str]]:
    """Return id, state and protocol type of each group."""
    return [[one.group_id, one.state, one.protocol_type] for one in listed]


def lag_model(lags: Sequence[PartitionLag], description: GroupDescription) -> Model:
    """Return the figures of a group's row."""
    return {
        "lag": sum(one.lag for one in lags if one.lag is not None),
        "partitions": len(lags),
        "members": len(description.members),
        "state": description.state,
    }


def group_model(description: GroupDescription, lags: Sequence[PartitionLag], rebalances: Model) -> Model:
    """Return a group with its members, its lag by partition, and its generations on a time line."""
    owners: dict[TopicPartition, str] = {}
    for member in description.members:
        owners.update(dict.fromkeys(member.partitions, member.member_id))
    worst = sorted(lags, key=lambda one: (-(one.lag or 0), one.topic_partition))
    lag_of = {one.topic_partition: one.lag or 0 for one in lags}
    return {
        "id": description.group_id,
        "state": description.state,
        "assignor": description.assignor,
        "coordinator": description.coordinator,
        "lag": sum(lag_of.values()),
        "members": [_member(one, lag_of) for one in description.members[:PARTITIONS_MAX]],
        "members_left_out": max(0, len(description.members) - PARTITIONS_MAX),
        "partitions": [
            [*one.topic_partition, one.committed, one.log_end_offset, one.lag, owners.get(one.topic_partition)]
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
