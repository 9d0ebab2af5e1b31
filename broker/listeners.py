"""The broker's listeners: bound at its start; added, removed, moved and registered anew while it runs (KIP-226).

A listener is known by its name. A new one takes its port; one that is gone gives its port back, and its connections are
closed; one whose address has changed is bound there, and its connections go on. Whatever cannot be done is logged, and
what was before stays. Source: DynamicListenerConfig of Kafka 3.9, which leaves a changed port to the next start.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.config import BrokerConfig
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.settings.listener_endpoints import Listener
from odradek.broker.world import World
from odradek.security.errors import BadSecuritySetting
from odradek.security.scram import FindIdentity
from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.registration import Registrar
from odradek.zk_schema.znodes.brokers import Endpoint

if TYPE_CHECKING:
    from odradek.broker.security.listener_security import BrokerSecurity

log = logging.getLogger(__name__)


class CannotListen(Exception):  # noqa: N818 - a sentence for the person who started the broker
    """A port that cannot be had."""


class Bound(NamedTuple):
    """A listener as it was asked for, and the address and port that it has."""

    asked: Listener
    address: str
    port: int


class BrokerListeners:
    """Sockets, keys and registration follow the settings of listeners. Loop-thread only."""

    def __init__(self, sockets: SocketServer, world: World, tasks: Tasks, find_scram: FindIdentity) -> None:
        self.network = self.controller_network = world.network
        """Networks for connections to other brokers, made by brokers and by the controller; from `open` on they
        encrypt and authenticate, if the listeners do."""
        self._sockets, self._clock, self._tasks, self._find_scram = sockets, world.clock, tasks, find_scram
        self._address_of = world.address_of
        self._bound: dict[str, Bound] = {}
        self._wanted: BrokerConfig | None = None
        """Settings that are still to be obeyed, while names are looked up for them."""
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
                self._bind(listener, listener.host)
            except OSError as error:
                raise CannotListen(f"cannot listen on {_url(listener)}: {error.strerror or error}") from error

    def endpoints(self, config: BrokerConfig) -> tuple[Endpoint, ...]:
        """Return the advertised addresses of the listeners that are bound, for clients and brokers to connect to.

        A listener that could not be moved is advertised where it still is.
        """
        asked = {one.name: one for one in config.listeners}
        told = []
        for one in config.advertised_listeners:
            bound = self._bound.get(one.name)
            if bound is None:
                continue
            is_where_it_listens = (one.host, one.port) == (asked[one.name].host, asked[one.name].port)
            place = bound.asked if is_where_it_listens else one
            told.append(Endpoint(one.name, place.host, place.port or bound.port, one.protocol))
        return tuple(told)

    def registered_by(self, registrar: Registrar) -> None:
        """Tell the cluster of changes from now on, through `registrar`."""
        self._registrar = registrar

    # ---- while the broker runs

    def configure(self, config: BrokerConfig) -> None:
        """Obey other settings of listeners, as soon as the addresses behind their hosts are known.

        Those that are gone are closed at once: their security goes now, and nobody is to get in without it."""
        for name in self._bound.keys() - {one.name for one in config.listeners}:
            log.info("listener %s is closed", name)
            self._sockets.unlisten(name, close_connections=True)
            del self._bound[name]
        self.configure_security(config)
        if self._wanted is None:
            self._tasks.spawn("other listeners", self._follow, OnDeath.REPORT)
        self._wanted = config

    async def _follow(self) -> None:
        """Look names up beside the loop, which goes on serving, and then obey what is wanted last."""
        try:
            while (config := self._wanted) is not None:
                addresses = {one.host: await self._address(one.host) for one in config.listeners if self._moves(one)}
                if config is self._wanted:
                    self._wanted = None
                    self._obey(config, addresses)
        finally:
            self._wanted = None

    async def _address(self, host: str) -> str | OSError:
        try:
            return await self._address_of(host)
        except OSError as error:
            return error

    def _moves(self, listener: Listener) -> bool:
        """Tell whether a listener is new, or is to be had at another host or port."""
        bound = self._bound.get(listener.name)
        return bound is None or (bound.asked.host, bound.asked.port) != (listener.host, listener.port)

    def _obey(self, config: BrokerConfig, addresses: Mapping[str, str | OSError]) -> None:
        for listener in filter(self._moves, config.listeners):
            bound, address = self._bound.get(listener.name), addresses[listener.host]
            if isinstance(address, OSError):
                log.error("cannot listen on %s: %s", _url(listener), address)
            elif bound is None:
                self._add(listener, address)
            else:
                self._move(bound, listener, address)
        self._tell(config)

    def check_links(self) -> None:
        """Check, once all settings are known, that brokers could connect to each other. Raises BadSecuritySetting."""
        if self._security is not None:
            self._security.check_links()

    def configure_security(self, config: BrokerConfig) -> None:
        """Take other keys and certificates, for connections to come. Until the broker is registered nobody knows those
        of its file, over which the ones in ZooKeeper go."""
        try:
            if self._security is None:
                self._secure(config)
            else:
                self._security.configure(config, compared=self._registrar is not None)
        except BadSecuritySetting as error:
            log.error("%s: the previous keys and certificates stay in use", error)

    def _secure(self, config: BrokerConfig) -> None:
        """Set up TLS and SASL, whose modules are imported only if a listener needs them. Raises BadSecuritySetting."""
        if all(listener.protocol == "PLAINTEXT" for listener in config.listeners):
            return
        from odradek.broker.network.entrance import Entrance
        from odradek.broker.security.listener_security import BrokerSecurity

        self._security = BrokerSecurity(config, self.network, self._clock, self._find_scram)
        delay_ms = config.connection_failed_authentication_delay_ms
        self._sockets.entrance = Entrance(self._clock, self._security.listener, delay_ms)

    def _add(self, listener: Listener, address: str) -> None:
        if listener.protocol != "PLAINTEXT" and (
            self._security is None or self._security.listener(listener.name) is None
        ):
            log.error("%s is not opened: its settings of TLS or SASL were refused, see above", _url(listener))
            return
        try:
            self._bind(listener, address)
        except OSError as error:
            log.error("cannot listen on %s: %s", _url(listener), error)
        else:
            log.info("listening on %s as well", _url(listener))

    def _move(self, bound: Bound, listener: Listener, address: str) -> None:
        """Bind a listener elsewhere. The old port is closed first, since the new address may include it."""
        self._sockets.unlisten(listener.name, close_connections=False)
        try:
            self._bind(listener, address)
        except OSError as error:
            log.error("cannot listen on %s, it stays %s: %s", _url(listener), _url(bound.asked), error)
            try:
                self._bind(bound.asked._replace(port=bound.port), bound.address)
            except OSError as second:
                log.error("listener %s is closed, its old port cannot be had again: %s", _url(bound.asked), second)
                del self._bound[listener.name]
        else:
            log.info("%s is now %s", _url(bound.asked), _url(listener))

    def _bind(self, listener: Listener, address: str) -> None:
        port = self._sockets.listen(listener.name, address, listener.port)
        self._bound[listener.name] = Bound(listener, address, port)

    def _tell(self, config: BrokerConfig) -> None:
        """Change the registration, which the controller watches and tells everybody of."""
        registrar, endpoints = self._registrar, self.endpoints(config)
        if registrar is None or registrar.registration.endpoints == endpoints:
            return
        registrar.set_endpoints(endpoints)
        self._tasks.spawn("registered listeners", registrar.update, OnDeath.REPORT)
        log.info("this broker is now at %s", urls(endpoints))


def urls(endpoints: Sequence[Endpoint]) -> str:
    """Return the URLs of endpoints, for messages to people."""
    return ", ".join(one.url for one in endpoints)


def _url(listener: Listener) -> str:
    return f"{listener.name}://{listener.host}:{listener.port}"
