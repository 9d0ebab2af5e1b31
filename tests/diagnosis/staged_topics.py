"""Topics of a cluster in which situations are staged."""

from collections.abc import Sequence
from typing import Any

from odradek.aio import Admin, Producer
from odradek.client.records import TopicPartition
from odradek.testing.virtual_run import VirtualCluster

AT = TopicPartition("flights", 0)

OFF = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}


async def others(cluster: VirtualCluster) -> tuple[int, int]:
    """Two brokers that are not the controller, whose journal is to live on."""
    first, second = (one for one in range(3) if one != cluster_controller(cluster))
    return first, second


def cluster_controller(cluster: VirtualCluster) -> int:
    return cluster.controllers()[0].broker_id


async def flights(cluster: VirtualCluster, replicas: Sequence[int], **settings: str) -> None:
    await cluster.create_topic("flights", assignment={0: list(replicas)}, settings={**OFF, **settings})


async def produce(cluster: VirtualCluster, count: int = 1, size: int = 1, **settings: Any) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap, **settings) as producer:
        for _ in range(count):
            await (await producer.send("flights", value=bytes(size)))


async def directory_of(cluster: VirtualCluster, broker: int) -> int:
    """The number of the log directory of a broker that has the partition."""
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        directories = await admin.describe_log_directories(broker)
    names = cluster.broker(broker).server.config.log_dirs
    (path,) = [one.path for one in directories if any(r.topic_partition == AT for r in one.replicas)]
    return list(names).index(path)
