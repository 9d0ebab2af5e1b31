"""The life of one broker: what is started in which order, and how it ends.

Start: directories are locked, ports bound, ZooKeeper is asked who we are, logs are opened, the broker is registered,
and at the same moment requests are served; clients that came earlier wait in the backlog. Every failure before that is
one clear error and leaves nothing damaged. Stop, in a controlled way: leaders move first, then requests stop, logs are
closed clean, and the end of the session takes the registration away.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from odradek.broker.assembly import Assembly, assemble, make_sockets
from odradek.broker.cluster.directory_events import DirectoryEvents
from odradek.broker.cluster.session import BrokerSession, Identity
from odradek.broker.cluster.shutdown import move_leaders_away
from odradek.broker.cluster.stray_replicas import remove_stray_replicas
from odradek.broker.cluster.unclean_restart import missing_replicas, wait_until_out_of_isr
from odradek.broker.config import BrokerConfig
from odradek.broker.dynamic_config import DynamicConfig
from odradek.broker.listeners import BrokerListeners, CannotListen, urls
from odradek.broker.log.directories.directory_files import NO_BROKER_EPOCH, DirectoryOwner, MetaProperties
from odradek.broker.log.log import Log
from odradek.broker.log.log_manager import LogManager
from odradek.broker.monitoring.monitoring import BrokerState, Monitoring
from odradek.broker.network.outcomes import Dispatch
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.requests import loggers, request_log
from odradek.broker.requests.request_log import RequestLog
from odradek.broker.services import Services
from odradek.broker.setting_changes import SettingChanges
from odradek.broker.settings.topic_settings import LogConfig
from odradek.broker.world import World
from odradek.protocol.topic_names import PartitionKey
from odradek.security.errors import BadSecuritySetting
from odradek.world.periodic import PeriodicActions
from odradek.world.tasks import Tasks
from odradek.zk_schema.lost_answers import in_any_session
from odradek.zk_schema.registration import (
    AddressTaken,
    BrokerIdInUse,
    Registrar,
    create_topmost_paths,
    generate_broker_id,
    get_or_create_cluster_id,
    refuse_taken_addresses,
)
from odradek.zk_schema.store import (
    ConnectionLost,
    NoSuchHost,
    NotAuthorized,
    Store,
    ZooKeeperLoginRefused,
    ZooKeeperWantsALogin,
)
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

ROOM_RETRY_MS = 10_000.0
"""Interval at which a full disk is tried again for replicas that had no room on it."""


class StartFailure(Exception):  # noqa: N818 - a sentence for the person who started the broker
    """A broker cannot start; the message is one sentence for a person."""


class BrokerServer:
    """A broker: `start`, then `stop`; `abort` after a `start` that failed."""

    def __init__(self, config: BrokerConfig, world: World, on_broken: Callable[[], object] = lambda: None) -> None:
        """Make a broker that is not started. `on_broken` is called when it cannot go on and is to be stopped."""
        self._world = world
        self.broken = asyncio.Event()
        """Set when the broker cannot go on by itself."""
        self._on_broken = on_broken
        self.on_loaded: Callable[[], object] = lambda: None
        """Called when all logs are loaded, before anybody hears of this broker."""
        self.tasks = Tasks(world.clock, self._break)
        """Tasks of this broker, all of them."""
        self._sockets: SocketServer = make_sockets(config, world, self.tasks)
        self.setting_changes = changes = SettingChanges(config, self._sockets)
        self._listeners = BrokerListeners(self._sockets, world, self.tasks, changes.find_scram)
        changes.register("listeners", self._listeners.configure)
        changes.register("tls", self._listeners.configure_security)
        changes.register("background", lambda config: world.background.resize(config.background_threads))
        self._monitoring = Monitoring(world.network, world.clock, self.tasks)
        self._store: Store | None = None
        self._logs: LogManager | None = None
        self._dynamic: DynamicConfig | None = None
        self._directory_events: DirectoryEvents | None = None
        self._session: BrokerSession | None = None
        self._assembly: Assembly | None = None
        self._periodic = PeriodicActions(world.clock)
        self.dispatch: Dispatch | None = None
        """Handles the requests of this broker, once it has started; `sockets.dispatch` may be another one around it."""

    @property
    def config(self) -> BrokerConfig:
        """The settings as they are now."""
        return self.setting_changes.config

    @property
    def services(self) -> Services:
        """Parts of the broker that request handlers use, once it has started."""
        assert self._assembly is not None, "not started"
        return self._assembly.services

    @property
    def sockets(self) -> SocketServer:
        """Server of the broker's listeners and connections."""
        return self._sockets

    # ---- start

    async def start(self) -> None:
        """Start everything in its order, and serve. Raises StartFailure, UnusableDirectory: then call `abort`."""
        logs = self._logs = self._make_logs()
        self.setting_changes.obeyed_by_logs(logs)
        owner = logs.owner()
        self._listen()
        store = await self._reach_zookeeper()
        identity = await self._identify(store, owner)
        self._dynamic = DynamicConfig(
            self.config,
            identity.broker_id,
            store,
            self.tasks,
            broker_changed=self.setting_changes.broker_changed,
            topic_changed=self.setting_changes.topic_changed,
            entity_changed=self.setting_changes.entity_changed,
            own_told=self.setting_changes.own_told,
        )
        await self._dynamic.start()
        try:
            self._listeners.check_links()
        except BadSecuritySetting as error:
            raise StartFailure(str(error)) from error
        await self._open_logs(logs, identity)
        self._assembly = assemble(self._dynamic, self._world, store, identity, logs, self._sockets, self.tasks)
        self.setting_changes.obeyed_by(self._assembly)
        services = self._assembly.services
        await self._start_authorizer(services)
        await services.tokens.start(lambda: services.controller.is_active)
        self._directory_events = DirectoryEvents(store, self._world.clock, self.tasks, identity.broker_id)
        logs.protect_from(self._high_watermark_of)
        for count in self._assembly.partition_counts:
            await in_any_session(store, partial(count.read, store))
        services.groups.start()
        services.transactions.start()
        self.on_loaded()
        await self._join(store, identity)
        await remove_stray_replicas(store, identity.broker_id, logs)
        self.levels_changed()
        loggers.listeners.add(self)
        assert self.dispatch is not None
        # Registered first: a controller that has not seen us go would have us lead as the broker that we were.
        self._sockets.serve(self.dispatch)
        services.controller.start()
        self._monitoring.serve(services, self._sockets, self._assembly.fetchers, self._assembly.client)
        config, repeat = self.config, self._periodic.repeat
        repeat("in-sync replicas", config.replica_lag_time_max_ms / 2, services.replicas.check_in_sync_replicas)
        repeat("high watermarks", config.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_watermarks)
        repeat("replicas without room", ROOM_RETRY_MS, self._ask_for_refused_replicas)
        log.info("broker %d has started: %s", identity.broker_id, urls(self._listeners.endpoints(self.config)))

    def _make_logs(self) -> LogManager:
        config, world = self.config, self._world
        return LogManager(
            world.files,
            world.clock,
            world.background,
            world.random,
            config.log_dirs,
            self._log_config,
            settings=config,
            directory_failed=self._directory_failed,
            children=world.children,
        )

    def _log_config(self, topic: str) -> LogConfig:
        assert self._dynamic is not None, "a log before its settings are known"
        return self._dynamic.log_config(topic)

    def _listen(self) -> None:
        """Read keys, and take the ports before anything else is touched."""
        try:
            self._listeners.open(self.config)
        except (BadSecuritySetting, CannotListen) as error:
            raise StartFailure(str(error)) from error
        networks = self._listeners
        self._world = replace(self._world, network=networks.network, controller_network=networks.controller_network)
        if self.config.metrics_port:
            try:
                self._monitoring.listen(self.config.metrics_host, self.config.metrics_port)
            except OSError as error:
                words = error.strerror or error
                raise StartFailure(f"cannot listen on metrics.port {self.config.metrics_port}: {words}") from error

    async def _reach_zookeeper(self) -> Store:
        try:
            store = self._store = self._world.zookeeper(self.config)
            waits_ms = self.config.zookeeper_connection_timeout_ms
            log.info("connecting to ZooKeeper at %s, for up to %d ms", self.config.zookeeper_connect, waits_ms)
            await store.start(waits_ms)
            await in_any_session(store, partial(create_topmost_paths, store))
        except BadSecuritySetting as error:
            raise StartFailure(str(error)) from None
        except ZooKeeperLoginRefused:
            raise StartFailure("ZooKeeper refuses the login of zookeeper.sasl.jaas.config") from None
        except ZooKeeperWantsALogin as error:
            raise StartFailure(error.reason) from None
        except NotAuthorized as error:
            raise StartFailure(
                f"ZooKeeper's access lists do not let this broker create {error.path}: they name another user "
                "(zookeeper.sasl.jaas.config, zookeeper.ssl.keystore.location)"
            ) from error
        except ConnectionLost as error:
            waited = self.config.zookeeper_connection_timeout_ms
            why = f": {error}" if isinstance(error, NoSuchHost) else ""
            raise StartFailure(
                f"ZooKeeper at {self.config.zookeeper_connect} does not answer within {waited} ms{why} "
                "(zookeeper.connect, zookeeper.connection.timeout.ms)"
            ) from error
        return store

    async def _identify(self, store: Store, owner: MetaProperties) -> Identity:
        """Find the ids of this broker and its cluster, on which settings and directories must agree.

        Raises StartFailure when they do not.
        """
        try:
            cluster_id = await in_any_session(store, partial(get_or_create_cluster_id, store, self._world.random))
        except BadZnode as error:
            raise StartFailure(f"the cluster's id cannot be read: {error}") from error
        configured = self.config.broker_id
        if owner.cluster_id not in (None, cluster_id):
            raise StartFailure(
                f"{', '.join(self.config.log_dirs)} belongs to cluster {owner.cluster_id}, "
                f"but ZooKeeper at {self.config.zookeeper_connect} is that of cluster {cluster_id}"
            )
        if owner.broker_id is not None and configured not in (-1, owner.broker_id):
            raise StartFailure(
                f"broker.id is {configured}, but {', '.join(self.config.log_dirs)} belongs to broker {owner.broker_id} "
                "(meta.properties): set broker.id to that, or use another log.dirs"
            )
        if configured >= 0:
            return Identity(configured, cluster_id)
        if owner.broker_id is not None:
            return Identity(owner.broker_id, cluster_id)
        if not self.config.broker_id_generation_enable:
            raise StartFailure("broker.id is not set and broker.id.generation.enable is false")
        above = self.config.reserved_broker_max_id
        return Identity(await in_any_session(store, partial(generate_broker_id, store, above)), cluster_id)

    async def _open_logs(self, logs: LogManager, identity: Identity) -> None:
        opened = asyncio.Event()
        assert self._dynamic is not None
        processes = self._dynamic.config.num_recovery_threads_per_data_dir
        owner = DirectoryOwner(identity.broker_id, identity.cluster_id)
        logs.open(owner, opened.set, recovery_processes=processes)
        await opened.wait()
        if not logs.online():
            causes = "; ".join(f"{path}: {one.offline}" for path, one in logs.directories.items())
            raise StartFailure(f"no log directory can be used: {causes}")

    async def _start_authorizer(self, services: Services) -> None:
        """Read all access lists, before anybody is asked in."""
        if services.authorizer is None:
            return
        try:
            await services.authorizer.start()
        except BadZnode as error:
            raise StartFailure(f"an access list cannot be parsed: {error}") from error

    async def _join(self, store: Store, identity: Identity) -> None:
        assert self._assembly is not None
        endpoints = self._listeners.endpoints(self.config)
        registration = BrokerRegistration(identity.broker_id, endpoints, rack=self.config.broker_rack)
        registrar = Registrar(store, self._world.clock, registration)
        self._listeners.registered_by(registrar)
        services = self._assembly.services
        self._session = BrokerSession(
            store,
            self.tasks,
            identity,
            registrar,
            services.controller_requests.session_expired,
            self._break,
            services.journal,
        )
        assert self._logs is not None
        held = {(one.topic, one.partition): one for one in self._logs.all_logs()}
        in_doubt = self._logs.in_doubt
        doubtful = [partition for partition, one in held.items() if in_doubt or one.clean_end_offset < 0]
        if in_doubt:
            doubtful += await in_any_session(store, partial(missing_replicas, store, identity.broker_id, held))
        clock, timeout_ms = self._world.clock, self.config.zookeeper_session_timeout_ms
        await wait_until_out_of_isr(store, clock, identity.broker_id, doubtful, timeout_ms)
        told = {Endpoint(one.name, one.host, one.port).address for one in self.config.advertised_listeners if one.port}
        try:
            await in_any_session(store, partial(refuse_taken_addresses, store, identity.broker_id, told))
            await self._session.join()
        except (BrokerIdInUse, AddressTaken) as taken:
            raise StartFailure(str(taken)) from taken

    # ---- while it runs

    def _checkpoint_watermarks(self) -> None:
        assert self._logs is not None and self._assembly is not None
        self._logs.checkpoints.write_high_watermarks(self._assembly.services.controller_requests.high_watermark_of)

    def _high_watermark_of(self, replica_log: Log) -> int:
        assert self._assembly is not None
        partition = self._assembly.services.replicas.partitions.get((replica_log.topic, replica_log.partition))
        return replica_log.log_start_offset if partition is None else partition.high_watermark

    def _directory_failed(self, path: str, cause: OSError, partitions: list[PartitionKey]) -> None:
        """Take the directory's partitions offline; the broker lives on while another directory works."""
        if self._assembly is not None:
            services = self._assembly.services
            services.journal.note(
                "directory", path, change="failed", reason=str(cause), partitions=[f"{t}-{p}" for t, p in partitions]
            )
            services.controller_requests.directory_failed(partitions)
        if self._directory_events is not None:
            self._directory_events.changed()
        if self._logs is not None and not self._logs.online():
            self._break("no log directory is left")

    def _ask_for_refused_replicas(self) -> None:
        """Have the controller ask for our replicas once more: a full disk may have room again."""
        assert self._assembly is not None and self._directory_events is not None
        control = self._assembly.services.controller_requests
        if control.lacks_room:
            control.lacks_room = False
            self._directory_events.changed()

    def _break(self, reason: object) -> None:
        log.critical("%s: stopping", reason)
        self.broken.set()
        self._on_broken()

    def levels_changed(self) -> None:
        """Put the request log around the dispatcher while its level asks for lines, and take it away again."""
        assert self._assembly is not None
        plain = self._assembly.dispatcher.dispatch
        self.dispatch = RequestLog(self._world.clock).around(plain) if request_log.is_wanted() else plain
        self._sockets.dispatch = self.dispatch

    # ---- stop

    async def stop(self) -> None:
        """Stop in a controlled way: leaders move to other brokers first."""
        assert self._assembly is not None
        services = self._assembly.services
        self._monitoring.broker_state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        if self.config.controlled_shutdown_enable and not self.broken.is_set():
            await move_leaders_away(services, self._assembly.client)
        await self.abort()
        log.info("broker %d has stopped", services.identity.broker_id)

    async def abort(self) -> None:
        """End everything that was started; harmless at any point of a start that failed."""
        self._periodic.stop()
        loggers.listeners.discard(self)
        if self._session is not None:
            self._session.leave()
        self._monitoring.close()
        self._sockets.stop_listening()
        if self._assembly is not None:
            self._assembly.services.groups.stop()
            self._assembly.services.transactions.stop()
            self._assembly.fetchers.close()
            self._assembly.altering.close()
            self._assembly.markers.close()
            self._assembly.services.transaction_verification.close()
            self._assembly.services.producer_ids.close()
            await self._assembly.services.controller.stop()
        self._directory_events = None  # a disk that fails from here on is told to nobody
        self._sockets.close()
        await asyncio.sleep(0)  # for requests that have just come: Python warns of a coroutine that was never begun
        self.tasks.close()
        if self._logs is not None and self._assembly is not None:
            self._checkpoint_watermarks()
            broker_epoch = self._assembly.services.identity.broker_epoch
            self._logs.close(broker_epoch, joined=broker_epoch != NO_BROKER_EPOCH)
        if self._store is not None:
            await self._store.close()
