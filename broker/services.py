"""What request handlers may use: the rule objects of one broker, and nothing of the outside."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from odradek.broker.config import BrokerConfig
from odradek.broker.log.manager import LogManager
from odradek.controller.loop import Controller

from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.identity import Identity
from odradek.broker.metadata import MetadataCache
from odradek.broker.replication.control import ReplicaControl
from odradek.broker.replication.manager import ReplicaManager
from odradek.broker.replication.sessions import FetchSessionCache
from odradek.broker.tasks.producer_ids import ProducerIds
from odradek.protocol.errors import ErrorCode
from odradek.world.clock import Clock
from odradek.zk_schema.store import Store

AutoCreate = Callable[[str], Awaitable[ErrorCode]]
"""Creates a topic with the broker's defaults; the error that the client is to see meanwhile."""


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
