"""Topics as the page shows them: sizes, settings, partitions with their offsets."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from odradek.client.admin.values import ConfigEntry, ConfigSource, LogDirectory
from odradek.client.metadata import TopicInfo
from odradek.client.records import OffsetAndTimestamp, TopicPartition

Model = dict[str, Any]
Offsets = Mapping[TopicPartition, OffsetAndTimestamp | None]


def sizes_model(directories: Mapping[int, Sequence[LogDirectory]]) -> Model:
    """Return the bytes of each topic, all replicas together, and of each broker, with its offline directories."""
    by_topic: dict[str, int] = defaultdict(int)
    brokers: dict[int, Model] = {}
    for broker, found in directories.items():
        for directory in found:
            for replica in directory.replicas:
                by_topic[replica.topic_partition.topic] += replica.size_bytes
        brokers[broker] = {
            "used": sum(replica.size_bytes for directory in found for replica in directory.replicas),
            "offline": [directory.path for directory in found if not directory.online],
        }
    return {"sizes": dict(by_topic), "brokers": brokers}


def topic_model(
    topic: TopicInfo,
    settings: Sequence[ConfigEntry],
    directories: Mapping[int, Sequence[LogDirectory]],
    begins: Offsets,
    ends: Offsets,
    adding: Mapping[TopicPartition, Collection[int]] = MappingProxyType({}),
) -> Model:
    """Return a topic; offsets and sizes that are not known are None. `adding`: replicas that reassignments add."""
    sizes: dict[int, dict[int, int]] = defaultdict(dict)
    for broker, found in directories.items():
        for replica in (replica for directory in found for replica in directory.replicas):
            if replica.topic_partition.topic == topic.name and not replica.is_future:
                sizes[replica.topic_partition.partition][broker] = replica.size_bytes
    partitions = []
    for one in topic.partitions:
        where = TopicPartition(topic.name, one.partition)
        begin, end = _offset(begins, where), _offset(ends, where)
        partitions.append(
            {
                "partition": one.partition,
                "leader": one.leader,
                "epoch": one.leader_epoch,
                "replicas": one.replicas,
                "isr": one.isr,
                "adding": list(adding.get(where, ())),
                "begin": begin,
                "end": end,
                "bytes": sizes[one.partition].get(one.leader),
            }
        )
    return {
        "name": topic.name,
        "internal": topic.internal,
        "partitions": partitions,
        "bytes": sum(size for of_one in sizes.values() for size in of_one.values()),
        "settings": [_setting(entry) for entry in sorted(settings, key=lambda entry: entry.name)],
    }


def _offset(offsets: Offsets, where: TopicPartition) -> int | None:
    found = offsets.get(where)
    return None if found is None else found.offset


def _setting(entry: ConfigEntry) -> Model:
    return {
        "name": entry.name,
        "value": None if entry.sensitive else entry.value,
        "sensitive": entry.sensitive,
        "default": entry.source in (ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG),
        "source": entry.source.name.lower().removesuffix("_config").replace("_", " "),
    }
