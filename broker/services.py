"""What request handlers may use: the rule objects of one broker, and nothing of the outside."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from odradek.broker.config import BrokerConfig
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.log.manager import LogManager
from odradek.broker.metadata import MetadataCache
from odradek.broker.tasks.producer_ids import ProducerIds
from odradek.broker.replication.control import ReplicaControl
from odradek.broker.replication.manager import ReplicaManager
from odradek.broker.replication.sessions import FetchSessionCache
from odradek.controller.loop import Controller
from odradek.protocol.errors import ErrorCode
from odradek.world.clock import Clock
from odradek.zk_schema.store import Store

AutoCreate = Callable[[str], Awaitable[ErrorCode]]
"""Creates a topic with the broker's defaults; the error that the client is to see meanwhile."""


@dataclass(slots=True)
class Identity:
    """Who this broker is. The epoch changes with each registration in ZooKeeper."""

    broker_id: int
    cluster_id: str
    broker_epoch: int = -1


@dataclass(slots=True)
class Services:
    """One broker's rule objects."""

    identity: Identity
    config: BrokerConfig
    clock: Clock
    random: random.Random
    zookeeper: Store
    logs: LogManager
    metadata: MetadataCache
    replicas: ReplicaManager
    control: ReplicaControl
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds
    groups: GroupCoordinator
    controller: Controller
    auto_create_topic: AutoCreate
    served: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The versions that ApiVersions advertises, by API key."""
