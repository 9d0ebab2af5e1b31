"""Assembly of one broker: makes its parts and hands them to each other. It starts only tasks that wait for work."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from odradek.broker.cluster.broker_client import BrokerClient, BrokerClients
from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.cluster.peer import ConnectionSetup, Peer
from odradek.broker.cluster.session import Identity
from odradek.broker.cluster.topic_creation import TopicCreation
from odradek.broker.config import BrokerConfig
from odradek.broker.coordination.owned_partitions import CoordinatorElections
from odradek.broker.coordination.partition_count import PartitionCount
from odradek.broker.coordination.sender_connections import SenderConnections
from odradek.broker.coordination.topic_storage import ReplicatedTopicStorage
from odradek.broker.dynamic_config import DynamicConfig
from odradek.broker.groups.group_coordinator import GroupCoordinator
from odradek.broker.log.log_manager import LogManager
from odradek.broker.metrics.request_metrics import RequestMetrics
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.quotas.client_quotas import ClientQuotas
from odradek.broker.quotas.connection_rates import ConnectionRates
from odradek.broker.quotas.rates import RateWindows
from odradek.broker.replication.alter_partition_manager import AlterPartitionManager
from odradek.broker.replication.controller_requests import ControllerRequests
from odradek.broker.replication.fetch_sessions import FetchSessionCache
from odradek.broker.replication.fetcher_manager import FetcherManager
from odradek.broker.replication.isr import IsrCriteria
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.broker.replication.replica_selection import RACK_AWARE, RackAwareReplicaSelector
from odradek.broker.replication.throttling import Throttling
from odradek.broker.requests.authorization.table import authorized
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.registry import HANDLERS, SERVED
from odradek.broker.requests.throttled import Throttled
from odradek.broker.security.acl_rules import AclRules
from odradek.broker.security.authorizer import AclAuthorizer
from odradek.broker.security.delegation_tokens import DelegationTokens, TokenSettings
from odradek.broker.security.principal import KafkaPrincipal
from odradek.broker.services import Services
from odradek.broker.transactions.producer_ids import ProducerIds
from odradek.broker.transactions.transaction_coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_markers import TransactionMarkers
from odradek.broker.transactions.transaction_verification import TransactionVerification
from odradek.broker.world import World
from odradek.controller.channel_manager import BrokerChannels
from odradek.controller.controller import Controller
from odradek.journal.journal import Journal
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.world.tasks import Tasks
from odradek.zk_schema.store import Store


@dataclass(slots=True)
class Assembly:
    """The objects of one broker that its server starts and stops."""

    services: Services
    client: BrokerClients
    fetchers: FetcherManager
    throttling: Throttling
    altering: AlterPartitionManager
    markers: TransactionMarkers
    dispatcher: Dispatcher
    partition_counts: tuple[PartitionCount, ...]
    """Partition counts of the coordinators' topics, to be read before requests are served."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of one broker that the others are made from."""

    config: BrokerConfig
    world: World
    store: Store
    identity: Identity
    logs: LogManager
    metadata: MetadataCache
    purgatory: Purgatory
    journal: Journal
    tasks: Tasks

    def client(self, client_id: str) -> BrokerClient:
        """Make a client of other brokers."""
        world, config, listener = self.world, self.config, self.config.inter_broker_listener_name
        records_bytes_max = max(config.replica_fetch_response_max_bytes, config.socket_request_max_bytes)
        return BrokerClient(
            world.network, world.clock, self.tasks, self.metadata, listener, client_id, records_bytes_max
        )

    def broker_epoch(self) -> int:
        """Return the epoch of this broker's registration as it is now."""
        return self.identity.broker_epoch


class Replication(NamedTuple):
    """Partitions of this broker, and what changes their roles and copies them."""

    replicas: ReplicaManager
    fetchers: FetcherManager
    throttling: Throttling
    altering: AlterPartitionManager
    controller_requests: ControllerRequests


class Coordination(NamedTuple):
    """The two coordinators."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: TransactionMarkers
    partition_counts: tuple[PartitionCount, ...]


class Admission(NamedTuple):
    """Quotas and rights of clients."""

    quotas: ClientQuotas
    authorizer: AclAuthorizer | None
    """The authorizer; None: everybody may do everything."""
    tokens: DelegationTokens


def assemble(
    dynamic: DynamicConfig,
    world: World,
    store: Store,
    identity: Identity,
    logs: LogManager,
    sockets: SocketServer,
    tasks: Tasks,
) -> Assembly:
    """Make the objects of one broker around its opened logs and its bound sockets. `tasks` starts their tasks."""
    config = dynamic.config
    world = replace(
        world,
        network=ConnectionSetup(world.network, config),
        controller_network=ConnectionSetup(world.controller_network or world.network, config),
    )
    journal = Journal(world.clock.now_ms)
    parts = Parts(config, world, store, identity, logs, MetadataCache(), sockets.purgatory, journal, tasks)
    elections = CoordinatorElections()
    replicas, fetchers, throttling, altering, controller_requests = make_replication(parts, elections, dynamic.forget)
    groups, transactions, markers, partition_counts = make_coordination(parts, replicas, elections)
    quotas, authorizer, tokens = make_admission(parts)
    sockets.address_rates = ConnectionRates(world.clock, quotas.windows)
    creation = TopicCreation(store, parts.metadata, lambda: dynamic.config, world.random)
    services = Services(
        identity=identity,
        config=config,
        clock=world.clock,
        tasks=tasks,
        random=world.random,
        zookeeper=store,
        logs=logs,
        metadata=parts.metadata,
        replicas=replicas,
        controller_requests=controller_requests,
        fetch_sessions=FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots,
            world.random,
            sockets.purgatory,
            woken_by_watermark=replicas.selector is not None,
        ),
        producer_ids=ProducerIds(identity.broker_id, parts.broker_epoch, parts.client, config.request_timeout_ms),
        groups=groups,
        transactions=transactions,
        transaction_verification=TransactionVerification(
            identity.broker_id, parts.metadata, parts.client, transactions, config.request_timeout_ms
        ),
        marker_senders=SenderConnections(),
        authorizer=authorizer,
        tokens=tokens,
        controller=_make_controller(parts, controller_requests),
        journal=journal,
        request_metrics=RequestMetrics(),
        quotas=quotas,
        served_versions=SERVED,
        learn_topic_settings=dynamic.learn,
        auto_create_topic=creation.create,
    )
    dispatcher = _make_dispatcher(services, Throttled(quotas, world.processor_ms))
    return Assembly(services, parts.client, fetchers, throttling, altering, markers, dispatcher, partition_counts)


def make_sockets(config: BrokerConfig, world: World, tasks: Tasks) -> SocketServer:
    """Make timers, purgatory and acceptor; `dispatch` is set when there is something to answer requests."""
    timers = TimingWheel(world.clock)
    sockets = SocketServer(
        world.network, world.clock, tasks, timers, Purgatory(timers), config, _windows_of_clients(config)
    )
    sockets.address_of = world.address_of
    return sockets


def make_replication(
    parts: Parts, elections: CoordinatorElections, topics_deleted: Callable[[Collection[str]], object]
) -> Replication:
    """Make what holds and copies partitions; `elections` hears which ones of coordinators' topics are led here."""
    config, clock, broker_id = parts.config, parts.world.clock, parts.identity.broker_id
    throttling = _make_throttling(config, parts.world)
    rack_aware = config.replica_selector_class == RACK_AWARE
    replicas = ReplicaManager(
        broker_id,
        parts.logs,
        clock,
        parts.purgatory,
        IsrCriteria(config.replica_lag_time_max_ms, parts.metadata.is_alive),
        throttling,
        exists=lambda topic, index: parts.metadata.partition(topic, index) is not None,
        selector=RackAwareReplicaSelector(parts.metadata.node) if rack_aware else None,
        moves_at_once=config.num_replica_alter_log_dirs_threads,
        journal=parts.journal,
    )
    fetchers = FetcherManager(
        broker_id, clock, parts.tasks, parts.client, parts.purgatory, config, throttling.following,
        parts.broker_epoch, parts.journal,
    )  # fmt: skip
    altering = AlterPartitionManager(
        replicas, clock, parts.tasks, parts.client, parts.broker_epoch, config.controller_socket_timeout_ms
    )
    replicas.alter_partition = altering
    controller_requests = ControllerRequests(
        replicas, parts.logs, parts.metadata, fetchers, elections, clock,
        lambda: parts.identity.least_obeyed_epoch, parts.logs.checkpoints.read_high_watermarks(), topics_deleted,
    )  # fmt: skip
    return Replication(replicas, fetchers, throttling, altering, controller_requests)


def make_coordination(parts: Parts, replicas: ReplicaManager, elections: CoordinatorElections) -> Coordination:
    """Make the coordinators of groups and of transactions, and have `elections` tell them."""
    config, world, metadata = parts.config, parts.world, parts.metadata
    broker_id, timeout_ms = parts.identity.broker_id, config.request_timeout_ms
    group_partitions = PartitionCount(CONSUMER_OFFSETS, metadata, config.offsets_topic_num_partitions, parts.tasks)
    groups = GroupCoordinator(
        world.clock,
        world.random,
        ReplicatedTopicStorage(replicas, CONSUMER_OFFSETS, config.offsets_commit_required_acks),
        config,
        group_partitions,
        parts.journal,
        metadata.is_deleted,
    )
    markers = TransactionMarkers(broker_id, metadata, world.clock, parts.client, parts.tasks, timeout_ms)
    transaction_partitions = PartitionCount(
        TRANSACTION_STATE, metadata, config.transaction_state_log_num_partitions, parts.tasks
    )
    transactions = TransactionCoordinator(
        world.clock,
        ReplicatedTopicStorage(replicas, TRANSACTION_STATE),
        config,
        transaction_partitions,
        markers,
        timeout_ms,
    )
    elections.coordinators = {CONSUMER_OFFSETS: groups, TRANSACTION_STATE: transactions}
    return Coordination(groups, transactions, markers, (group_partitions, transaction_partitions))


def make_admission(parts: Parts) -> Admission:
    """Make what limits clients. Nobody has a quota until ZooKeeper is asked."""
    config, clock = parts.config, parts.world.clock
    windows = _windows_of_clients(config)
    mutations = RateWindows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000.0)
    authorizer = None
    if config.authorizer_class_name:
        super_users = [KafkaPrincipal.parse(one.strip()) for one in config.super_users.split(";") if one.strip()]
        rules = AclRules(super_users, allow_everyone=config.allow_everyone_if_no_acl_found)
        authorizer = AclAuthorizer(parts.store, clock, parts.tasks, rules)
    token_settings = TokenSettings.of(config.value)
    tokens = DelegationTokens(parts.store, clock, parts.tasks, parts.world.random, token_settings)
    return Admission(ClientQuotas(clock, windows, mutations), authorizer, tokens)


def _windows_of_clients(config: BrokerConfig) -> RateWindows:
    return RateWindows(config.quota_window_num, config.quota_window_size_seconds * 1000.0)


def _make_dispatcher(services: Services, throttled: Throttled) -> Dispatcher:
    """Make the dispatcher: each handler behind the authorizer, if there is one, and both inside the quotas, if any."""
    authorizer, quotas = services.authorizer, services.quotas

    def guarded(handle: Any, key: int) -> Any:
        if authorizer is not None:
            handle = authorized(handle, key, authorizer)
        return throttled.around(handle, key) if quotas.any else handle

    return Dispatcher(
        services,
        HANDLERS,
        services.clock,
        guarded,
        services.request_metrics,
        noting=lambda decode: throttled.noting(decode) if quotas.any else decode,
    )


def _make_throttling(config: BrokerConfig, world: World) -> Throttling:
    replication = RateWindows(
        config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000.0
    )
    moves = RateWindows(
        config.alter_log_dirs_replication_quota_window_num,
        config.alter_log_dirs_replication_quota_window_size_seconds * 1000.0,
    )
    throttling = Throttling(world.clock, replication, moves)
    set_rates(throttling, config)
    return throttling


def set_rates(throttling: Throttling, config: BrokerConfig) -> None:
    """Take over the limits that are set now: reassignments change them."""
    throttling.serving.limit.bytes_per_second = config.leader_replication_throttled_rate
    throttling.following.limit.bytes_per_second = config.follower_replication_throttled_rate
    throttling.moving.bytes_per_second = config.replica_alter_log_dirs_io_max_bytes_per_second


def _make_controller(parts: Parts, controller_requests: ControllerRequests) -> Controller:
    config, world, broker_id, tasks = parts.config, parts.world, parts.identity.broker_id, parts.tasks
    network = world.controller_network or world.network
    channels = BrokerChannels(
        lambda host, port: Peer(network, world.clock, host, port, f"controller-{broker_id}", tasks),
        world.clock,
        config.controller_socket_timeout_ms,
        tasks,
    )
    return Controller(
        parts.store,
        world.clock,
        broker_id,
        config,
        channels,
        world.random,
        tasks,
        on_controller=parts.metadata.controller_changed,
        epoch_obeyed=lambda: controller_requests.controller_epoch,
        journal=parts.journal,
    )
