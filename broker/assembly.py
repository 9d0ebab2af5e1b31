"""One broker's objects, put together. Nothing is started here but tasks that wait for work."""

from dataclasses import dataclass, replace
from typing import Any

from odradek.broker.cluster.broker_client import BrokerClient, BrokerClients
from odradek.broker.cluster.connection_setup import ConnectionSetup
from odradek.broker.cluster.identity import Identity
from odradek.broker.cluster.metadata_cache import CONSUMER_OFFSETS, TRANSACTION_STATE, MetadataCache, Node
from odradek.broker.cluster.peer import Peer
from odradek.broker.cluster.topic_creation import TopicCreation
from odradek.broker.config import BrokerConfig
from odradek.broker.coordination.elections import CoordinatorElections
from odradek.broker.coordination.partition_count import PartitionCount
from odradek.broker.coordination.topic_storage import ReplicatedTopicStorage
from odradek.broker.dynamic_config import DynamicConfig
from odradek.broker.groups.group_coordinator import GroupCoordinator
from odradek.broker.log.log_manager import LogManager
from odradek.broker.metrics.journal import Journal
from odradek.broker.metrics.request_metrics import RequestMetrics
from odradek.broker.network.server import SocketServer
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
from odradek.world.tasks import Tasks
from odradek.zk_schema.store import Store


@dataclass(slots=True)
class Assembly:
    """What the server starts and stops."""

    services: Services
    client: BrokerClients
    fetchers: FetcherManager
    throttling: Throttling
    altering: AlterPartitionManager
    markers: TransactionMarkers
    sockets: SocketServer
    dispatcher: Dispatcher
    partition_counts: tuple[PartitionCount, ...]
    """Of the coordinators' topics; to be read before requests are served."""


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
    world = replace(world, network=ConnectionSetup(world.network, config))
    listener = config.inter_broker_listener_name
    metadata = MetadataCache()

    def connect(node: Node, client_id: str) -> Peer:
        return Peer(world.network, world.clock, node.host, node.port, client_id, tasks)

    def client(client_id: str) -> BrokerClient:
        return BrokerClient(world.network, world.clock, tasks, metadata, listener, client_id)

    def broker_epoch() -> int:
        return identity.broker_epoch

    journal = Journal(world.clock.now_ms)
    throttling = _throttling(config, world)
    replicas = _replica_manager(config, world, identity, logs, metadata, sockets.purgatory, throttling)
    fetchers = FetcherManager(
        identity.broker_id, world.clock, tasks, client, sockets.purgatory, config, throttling.following,
        broker_epoch,
    )  # fmt: skip
    altering = AlterPartitionManager(
        replicas, world.clock, tasks, client, broker_epoch, config.controller_socket_timeout_ms
    )
    replicas.alter_partition = altering
    replicas.journal = fetchers.journal = journal
    elections = CoordinatorElections()
    control = ControllerRequests(
        replicas, logs, metadata, fetchers, elections, world.clock,
        lambda: identity.least_obeyed_epoch, logs.checkpoints.read_high_watermarks(),
    )  # fmt: skip
    group_partitions = PartitionCount(CONSUMER_OFFSETS, metadata, config.offsets_topic_num_partitions)
    transaction_partitions = PartitionCount(TRANSACTION_STATE, metadata, config.transaction_state_log_num_partitions)
    groups = _group_coordinator(config, world, replicas, group_partitions, journal)
    markers = TransactionMarkers(identity.broker_id, metadata, world.clock, client, tasks, config.request_timeout_ms)
    transactions = _transaction_coordinator(config, world, replicas, transaction_partitions, markers)
    elections.coordinators = {CONSUMER_OFFSETS: groups, TRANSACTION_STATE: transactions}
    quotas = _quotas(config, world)
    sockets.address_rates = ConnectionRates(world.clock, quotas.windows)
    creation = TopicCreation(store, metadata, lambda: dynamic.config, world.random)
    services = Services(
        identity=identity,
        config=config,
        clock=world.clock,
        tasks=tasks,
        random=world.random,
        zookeeper=store,
        logs=logs,
        metadata=metadata,
        replicas=replicas,
        controller_requests=control,
        fetch_sessions=FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots,
            world.random,
            sockets.purgatory,
            told_watermarks=replicas.selector is not None,
        ),
        producer_ids=ProducerIds(identity.broker_id, broker_epoch, client, config.request_timeout_ms),
        groups=groups,
        transactions=transactions,
        transaction_verification=TransactionVerification(
            identity.broker_id, metadata, client, transactions, config.request_timeout_ms
        ),
        authorizer=_authorizer(config, world, store, tasks),
        tokens=_tokens(config, world, store, tasks),
        controller=_controller(config, world, store, identity, metadata, tasks, journal),
        journal=journal,
        request_metrics=RequestMetrics(),
        quotas=quotas,
        served_versions=SERVED,
        learn_topic_settings=dynamic.learn,
        auto_create_topic=creation.create,
    )
    counts = (group_partitions, transaction_partitions)
    dispatcher = _dispatcher(services, Throttled(quotas, world.processor_ms))
    return Assembly(services, client, fetchers, throttling, altering, markers, sockets, dispatcher, counts)


def make_sockets(config: BrokerConfig, world: World, tasks: Tasks) -> SocketServer:
    """Timers, purgatory and acceptor; `dispatch` is put in when there is somebody to answer."""
    timers = TimingWheel(world.clock)
    return SocketServer(world.network, world.clock, tasks, timers, Purgatory(timers), config)


def _quotas(config: BrokerConfig, world: World) -> ClientQuotas:
    """Nobody has one until ZooKeeper is asked."""
    windows = RateWindows(config.quota_window_num, config.quota_window_size_seconds * 1000.0)
    mutations = RateWindows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000.0)
    return ClientQuotas(world.clock, windows, mutations)


def _dispatcher(services: Services, throttled: Throttled) -> Dispatcher:
    """Handlers with what must come before them: rights, and around all quotas, while there are any."""
    authorizer, quotas = services.authorizer, services.quotas

    def guarded(handle: Any, key: int) -> Any:
        if authorizer is not None:
            handle = authorized(handle, key, authorizer)
        return throttled.around(handle, key) if quotas.any else handle

    return Dispatcher(
        services,
        HANDLERS,
        guarded,
        services.request_metrics,
        noting=lambda decode: throttled.noting(decode) if quotas.any else decode,
    )


def _authorizer(config: BrokerConfig, world: World, store: Store, tasks: Tasks) -> AclAuthorizer | None:
    if not config.authorizer_class_name:
        return None
    super_users = [KafkaPrincipal.parse(one.strip()) for one in config.super_users.split(";") if one.strip()]
    rules = AclRules(super_users, allow_everyone=config.allow_everyone_if_no_acl_found)
    return AclAuthorizer(store, world.clock, tasks, rules)


def _tokens(config: BrokerConfig, world: World, store: Store, tasks: Tasks) -> DelegationTokens:
    def milliseconds(name: str) -> int:
        return int(str(config.value(f"delegation.token.{name}.ms")))

    settings = TokenSettings(
        str(config.value("delegation.token.secret.key") or config.value("delegation.token.master.key") or ""),
        milliseconds("max.lifetime"),
        milliseconds("expiry.time"),
        milliseconds("expiry.check.interval"),
    )
    return DelegationTokens(store, world.clock, tasks, world.random, settings)


def _replica_manager(
    config: BrokerConfig,
    world: World,
    identity: Identity,
    logs: LogManager,
    metadata: MetadataCache,
    purgatory: Purgatory,
    throttling: Throttling,
) -> ReplicaManager:
    criteria = IsrCriteria(config.replica_lag_time_max_ms, metadata.is_alive)
    replicas = ReplicaManager(identity.broker_id, logs, world.clock, purgatory, criteria, throttling)
    replicas.exists = lambda topic, index: metadata.partition(topic, index) is not None
    if config.replica_selector_class == RACK_AWARE:
        replicas.selector = RackAwareReplicaSelector(metadata.node)
    replicas.moves.at_once = config.num_replica_alter_log_dirs_threads
    return replicas


def _throttling(config: BrokerConfig, world: World) -> Throttling:
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
    """As they are now: reassignments change them."""
    throttling.serving.limit.bytes_per_second = config.leader_replication_throttled_rate
    throttling.following.limit.bytes_per_second = config.follower_replication_throttled_rate
    throttling.moving.bytes_per_second = config.replica_alter_log_dirs_io_max_bytes_per_second


def _group_coordinator(
    config: BrokerConfig, world: World, replicas: ReplicaManager, partition_count: PartitionCount, journal: Journal
) -> GroupCoordinator:
    return GroupCoordinator(
        world.clock,
        world.random,
        ReplicatedTopicStorage(replicas, CONSUMER_OFFSETS, config.offsets_commit_required_acks),
        config,
        partition_count,
        journal,
    )


def _transaction_coordinator(
    config: BrokerConfig,
    world: World,
    replicas: ReplicaManager,
    partition_count: PartitionCount,
    markers: TransactionMarkers,
) -> TransactionCoordinator:
    return TransactionCoordinator(
        world.clock,
        ReplicatedTopicStorage(replicas, TRANSACTION_STATE),
        config,
        partition_count,
        markers,
        config.request_timeout_ms,
    )


def _controller(
    config: BrokerConfig,
    world: World,
    store: Store,
    identity: Identity,
    metadata: MetadataCache,
    tasks: Tasks,
    journal: Journal,
) -> Controller:
    channels = BrokerChannels(
        lambda host, port: Peer(world.network, world.clock, host, port, f"controller-{identity.broker_id}", tasks),
        world.clock,
        config.controller_socket_timeout_ms,
        tasks,
    )
    return Controller(
        store,
        world.clock,
        identity.broker_id,
        config,
        channels,
        world.random,
        tasks,
        on_controller=metadata.controller_changed,
        journal=journal,
    )
