"""The broker's listeners: bound at its start; added, removed, moved and told anew while it runs (KIP-226).

A listener is known by its name. One that is new takes its port, one that is gone gives it back and its connections are
closed, one whose address has changed is bound there: connections that exist go on. Whatever cannot be done is logged,
and what was before stays. Source: DynamicListenerConfig of Kafka 3.9, which leaves a changed port to the next start.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.config import BrokerConfig
from odradek.broker.network.server import SocketServer
from odradek.broker.settings.listeners import Listener
from odradek.security.errors import BadSecuritySetting
from odradek.security.scram import FindIdentity
from odradek.world.clock import Clock
from odradek.world.network import Network
from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.registration import Registrar
from odradek.zk_schema.znodes.brokers import Endpoint

if TYPE_CHECKING:
    from odradek.broker.security.listener_security import BrokerSecurity

log = logging.getLogger(__name__)


class CannotListen(Exception):  # noqa: N818 - a sentence for the person who started the broker
    """A port that cannot be had."""


class Bound(NamedTuple):
    """A listener as it was asked for, and the port that it has."""

    asked: Listener
    port: int


class BrokerListeners:
    """Sockets, keys and registration follow the settings of listeners. Loop-thread only."""

    def __init__(
        self, sockets: SocketServer, network: Network, clock: Clock, tasks: Tasks, find_scram: FindIdentity
    ) -> None:
        self.network = self.controller_network = network
        """Networks for connections to other brokers, made by brokers and by the controller; it is `open` that has them
        encrypted and authenticated."""
        self._sockets, self._clock, self._tasks, self._find_scram = sockets, clock, tasks, find_scram
        self._bound: dict[str, Bound] = {}
        self._security: BrokerSecurity | None = None
        self._registrar: Registrar | None = None

    def open(self, config: BrokerConfig) -> None:
        """Read keys and certificates, and take the ports. Raises BadSecuritySetting and CannotListen."""
        self._secure(config)
        if self._security is not None:
            self.network = self._security.network(config.inter_broker_listener_name)
            self.controller_network = self._security.network(config.controller_listener_name)
        for listener in config.listeners:
            try:
                self._bind(listener)
            except OSError as error:
                raise CannotListen(f"cannot listen on {_url(listener)}: {error}") from error

    def endpoints(self, config: BrokerConfig) -> tuple[Endpoint, ...]:
        """Return the advertised addresses of the listeners that are bound, for clients and brokers to connect to."""
        return tuple(
            Endpoint(one.name, one.host, one.port or self._bound[one.name].port, one.protocol)
            for one in config.advertised_listeners
            if one.name in self._bound
        )

    def registered_by(self, registrar: Registrar) -> None:
        """Tell the cluster of changes from now on, through `registrar`."""
        self._registrar = registrar

    # ---- while the broker runs

    def configure(self, config: BrokerConfig) -> None:
        """Obey other settings of listeners."""
        self.configure_security(config)
        wanted = {one.name: one for one in config.listeners}
        for name in self._bound.keys() - wanted.keys():
            log.info("listener %s is closed", name)
            self._sockets.unlisten(name, close_connections=True)
            del self._bound[name]
        for listener in wanted.values():
            bound = self._bound.get(listener.name)
            if bound is None:
                self._add(listener)
            elif (bound.asked.host, bound.asked.port) != (listener.host, listener.port):
                self._move(bound, listener)
        self._tell(config)

    def configure_security(self, config: BrokerConfig) -> None:
        """Take other keys and certificates, for connections to come."""
        try:
            if self._security is None:
                self._secure(config)
            else:
                self._security.configure(config)
        except BadSecuritySetting as error:
            log.error("%s: the keys and certificates from before stay in use", error)

    def _secure(self, config: BrokerConfig) -> None:
        """Set up TLS and SASL, whose modules are imported only if a listener needs them. Raises BadSecuritySetting."""
        if all(listener.protocol == "PLAINTEXT" for listener in config.listeners):
            return
        from odradek.broker.network.entrance import Entrance
        from odradek.broker.security.listener_security import BrokerSecurity

        self._security = BrokerSecurity(config, self.network, self._clock, self._find_scram)
        delay_ms = config.connection_failed_authentication_delay_ms
        self._sockets.entrance = Entrance(self._clock, self._security.listener, delay_ms)

    def _add(self, listener: Listener) -> None:
        if listener.protocol != "PLAINTEXT" and (
            self._security is None or self._security.listener(listener.name) is None
        ):
            log.error("%s is not opened: its keys or its mechanisms are not known", _url(listener))
            return
        try:
            self._bind(listener)
        except OSError as error:
            log.error("cannot listen on %s: %s", _url(listener), error)
        else:
            log.info("listening on %s too", _url(listener))

    def _move(self, bound: Bound, listener: Listener) -> None:
        """The old port first: the new address may take it in."""
        self._sockets.unlisten(listener.name, close_connections=False)
        try:
            self._bind(listener)
        except OSError as error:
            log.error("cannot listen on %s, it stays %s: %s", _url(listener), _url(bound.asked), error)
            try:
                self._bind(bound.asked._replace(port=bound.port))
            except OSError as second:
                log.error("%s is lost: %s", _url(bound.asked), second)
                del self._bound[listener.name]
        else:
            log.info("%s is now %s", _url(bound.asked), _url(listener))

    def _bind(self, listener: Listener) -> None:
        port = self._sockets.listen(listener.name, listener.host, listener.port)
        self._bound[listener.name] = Bound(listener, port)

    def _tell(self, config: BrokerConfig) -> None:
        """Change the registration, which the controller watches and tells everybody of."""
        registrar, endpoints = self._registrar, self.endpoints(config)
        if registrar is None or registrar.registration.endpoints == endpoints:
            return
        registrar.tell(endpoints)
        self._tasks.spawn("registered listeners", registrar.update, OnDeath.REPORT)
        log.info("this broker is now at %s", urls(endpoints))


def urls(endpoints: Sequence[Endpoint]) -> str:
    """Return the URLs of endpoints, for messages to people."""
    return ", ".join(one.url for one in endpoints)


def _url(listener: Listener) -> str:
    return f"{listener.name}://{listener.host}:{listener.port}"
