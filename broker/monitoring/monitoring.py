"""Monitoring of one broker: off without `metrics.port`, and then nothing ticks and nobody listens."""

from enum import IntEnum

from odradek.broker.cluster.broker_client import BrokerClients
from odradek.broker.monitoring.exporter import Exporter
from odradek.broker.monitoring.lag import ConsumerLag
from odradek.broker.monitoring.observed import CollectionWatch, LoopWatch, Observed, SessionWatch
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.replication.fetcher_manager import FetcherManager
from odradek.broker.services import Services
from odradek.world.clock import Clock
from odradek.world.network import Network
from odradek.world.tasks import OnDeath, Tasks


class BrokerState(IntEnum):
    """Kafka's numbers, of the states in which metrics can be asked for."""

    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6


class Monitoring:
    """Monitoring of one broker: the watches over it, and the HTTP server that tells what they see."""

    def __init__(self, network: Network, clock: Clock, tasks: Tasks) -> None:
        self.broker_state = BrokerState.RUNNING
        self._clock = clock
        self._exporter = Exporter(network, clock, tasks)
        self._loop, self._collections = LoopWatch(clock), CollectionWatch(clock)
        self._listens = False
        self._tasks = tasks
        self._lag: ConsumerLag | None = None

    def listen(self, host: str, port: int) -> None:
        """Take the port; requests that come before `serve` wait. Raises OSError."""
        self._exporter.listen(host, port)
        self._listens = True

    def serve(
        self, services: Services, sockets: SocketServer, fetchers: FetcherManager, clients: BrokerClients
    ) -> None:
        """Begin to watch and to answer; nothing without `listen`."""
        if not self._listens:
            return
        lag = self._lag = ConsumerLag(services, clients(f"consumer-lag-{services.identity.broker_id}"))
        self._tasks.spawn("consumer lag", lag.run, OnDeath.RESTART)
        observed = Observed(
            services,
            sockets,
            fetchers,
            lag,
            SessionWatch(services.zookeeper),
            self._loop,
            self._collections,
            lambda: self.broker_state,
            started_s=self._clock.now_ms() / 1000.0,
        )
        self._loop.on_period.append(observed.begin_period)
        self._loop.start()
        self._collections.start()
        self._exporter.serve(observed)

    def close(self) -> None:
        """Stop listening and ticking. Harmless twice, and without `listen`."""
        if self._lag is not None:
            self._lag.close()
        self._loop.stop()
        self._collections.stop()
        self._exporter.close()
