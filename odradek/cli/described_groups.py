"""Description of a group for `odradek groups describe`, balanced by a coordinator, or by its members in ZooKeeper."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.client.admin.client import KafkaAdminClient
    from odradek.client.admin.values import PartitionLag
    from odradek.client.records import TopicPartition
    from odradek.client.zookeeper.groups import GroupInZooKeeper


@dataclass
class DescribedGroup:
    """A group as tables and as JSON."""

    title: str
    fields: dict[str, Any]
    """Fields of the group itself, for JSON."""
    lags: "list[PartitionLag]"
    owners: "dict[TopicPartition, str]"
    member_columns: list[str]
    member_rows: list[tuple[Any, ...]]

    def rows(self) -> list[tuple[Any, ...]]:
        """Return topic, partition, committed offset, end of the log, lag and owner of each partition."""
        return [
            (*one.topic_partition, one.committed, one.log_end_offset, one.lag, self.owners.get(one.topic_partition))
            for one in self.lags
        ]

    def as_object(self) -> dict[str, Any]:
        """Return the group for JSON."""
        names = ("topic", "partition", "committed", "log_end_offset", "lag", "member")
        return {
            **self.fields,
            "partitions": [dict(zip(names, row, strict=True)) for row in self.rows()],
            "total_lag": sum(one.lag for one in self.lags if one.lag is not None),
        }


def coordinated(admin: "KafkaAdminClient", group_id: str) -> DescribedGroup:
    """Describe a group that a coordinator balances. Raises KafkaError, GROUP_ID_NOT_FOUND if there is none."""
    from odradek.protocol.errors import ErrorCode, KafkaError

    group = admin.describe_groups([group_id])[0]
    lags = admin.group_lag(group_id)
    if group.state == "Dead" and not lags:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"the cluster has no group {group_id}; --zookeeper HOST:PORT shows groups of Kafka 0.8's consumer",
        )
    return DescribedGroup(
        f"group {group_id}: {group.state}, {len(group.members)} member(s), "
        f"assignor {group.assignor or 'none'}, coordinator {group.coordinator}",
        {
            "group": group_id,
            "state": group.state,
            "assignor": group.assignor,
            "coordinator": group.coordinator,
            "members": group.members,
        },
        lags,
        {at: member.group_instance_id or member.member_id for member in group.members for at in member.partitions},
        ["member", "instance", "client", "host", "partitions"],
        [
            (one.member_id, one.group_instance_id, one.client_id, one.host, " ".join(map(str, one.partitions)))
            for one in group.members
        ],
    )


def in_zookeeper(admin: "KafkaAdminClient", group: "GroupInZooKeeper") -> DescribedGroup:
    """Describe a group of Kafka 0.8's consumer; an offset that is not in ZooKeeper may be in the cluster."""
    from odradek.client.admin.values import PartitionLag
    from odradek.client.records import TopicPartition
    from odradek.diagnosis.overview import IN_ZOOKEEPER
    from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP

    leaders = {
        TopicPartition(one.name, partition.partition): partition.leader
        for one in admin.describe_topics()
        for partition in one.partitions
    }
    stored = {at: one.offset for at, one in admin.list_group_offsets(group.group_id).items()} | group.offsets
    there = sorted(leaders.keys() & (stored.keys() | group.owners.keys()))
    ends = admin.list_offsets({at: LATEST_TIMESTAMP for at in there if leaders[at] >= 0})
    lags = []
    for at in there:
        committed, found = stored.get(at), ends.get(at)
        end = None if found is None else found.offset
        lag = None if committed is None or end is None else max(0, end - committed)
        lags.append(PartitionLag(at, committed, end, lag))
    subscriptions = {name: " ".join(sorted(one.subscription)) for name, one in group.members.items()}
    return DescribedGroup(
        f"group {group.group_id}: {IN_ZOOKEEPER}, {len(group.members)} member(s)",
        {"group": group.group_id, "state": IN_ZOOKEEPER, "members": subscriptions},
        lags,
        group.owners,
        ["member", "pattern", "subscription", "partitions"],
        [
            (
                name,
                one.pattern,
                subscriptions[name],
                " ".join(str(at) for at, owner in sorted(group.owners.items()) if owner.rpartition("-")[0] == name),
            )
            for name, one in group.members.items()
        ],
    )
