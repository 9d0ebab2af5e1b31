"""Parts of a broker that request handlers may use, with its clock, its tasks and its ZooKeeper."""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.cluster.session import Identity
from odradek.broker.config import BrokerConfig
from odradek.broker.coordination.sender_connections import SenderConnections
from odradek.broker.groups.group_coordinator import GroupCoordinator
from odradek.broker.log.log_manager import LogManager
from odradek.broker.metrics.request_metrics import RequestMetrics
from odradek.broker.quotas.client_quotas import ClientQuotas
from odradek.broker.replication.controller_requests import ControllerRequests
from odradek.broker.replication.fetch_sessions import FetchSessionCache
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.broker.security.authorizer import AclAuthorizer
from odradek.broker.security.delegation_tokens import DelegationTokens
from odradek.broker.transactions.producer_ids import ProducerIds
from odradek.broker.transactions.transaction_coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_verification import TransactionVerification
from odradek.controller.controller import Controller
from odradek.journal.journal import Journal
from odradek.protocol.errors import ErrorCode
from odradek.world.clock import Clock
from odradek.world.tasks import Tasks
from odradek.zk_schema.store import Store


@dataclass(slots=True)
class Services:
    """The parts of a broker, made once by `assemble`."""

    identity: Identity
    config: BrokerConfig
    clock: Clock
    tasks: Tasks
    random: random.Random
    zookeeper: Store
    logs: LogManager
    metadata: MetadataCache
    replicas: ReplicaManager
    controller_requests: ControllerRequests
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    transaction_verification: TransactionVerification
    marker_senders: SenderConnections
    controller: Controller
    authorizer: AclAuthorizer | None
    """The authorizer; None: everybody may do everything."""
    tokens: DelegationTokens
    journal: Journal
    request_metrics: RequestMetrics
    quotas: ClientQuotas
    served_versions: Mapping[int, tuple[int, int]]
    """The versions that ApiVersions advertises, by API key."""
    learn_topic_settings: Callable[[Iterable[str]], Awaitable[None]]
    """Reads the settings of topics that are new to this broker."""
    auto_create_topic: Callable[[str], Awaitable[ErrorCode]]
    """Creates a topic with the broker's defaults; returns what the client is to be told meanwhile."""
