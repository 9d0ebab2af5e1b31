"""A replica manager around partitions that a test has made, without a broker."""

from types import SimpleNamespace
from typing import cast

from odradek.broker.log.log_manager import LogManager
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.broker.replication.throttling import Throttling
from odradek.world.clock import Clock


def manager_of(
    *partitions: Partition, clock: Clock, purgatory: Purgatory | None = None, throttling: Throttling | None = None
) -> ReplicaManager:
    """Partitions of one broker, which has no log manager: no log is made, moved or deleted."""
    first = partitions[0]
    manager = ReplicaManager(
        first.local_id,
        cast(LogManager, SimpleNamespace(directories={})),
        clock,
        purgatory or Purgatory(TimingWheel(clock)),
        first.criteria,
        throttling or Throttling(clock),
    )
    for partition in partitions:
        manager.partitions[partition.topic, partition.index] = partition
    return manager
