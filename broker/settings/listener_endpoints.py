"""Listeners: what a broker binds, what it tells others to connect to, and which of them brokers use themselves.

Sources: SocketServerConfigs, KafkaConfig.validateValues and CoreUtils.listenerListToEndPoints of Kafka 3.9.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from odradek.broker.settings.definition import BadValue

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SERVED_PROTOCOLS: Final = frozenset(PROTOCOLS)
"""Security protocols that a listener may speak here; the others are refused with a clear error."""
MAX_PORT: Final = 65535
META_ADDRESS: Final = "0.0.0.0"
_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[([0-9a-fA-F:.%]*)\]|[0-9A-Za-z_.-]*|[0-9a-fA-F:]*):(-?\d+)")


class Listener(NamedTuple):
    """Endpoint of the broker. `host` is "" for all interfaces; IPv6 addresses stand without brackets."""

    name: str
    host: str
    port: int
    protocol: str


class Listeners(NamedTuple):
    """Listeners of a broker. `inter_broker`, and `control_plane` where there is one, are names of `advertised`, which
    are some of `bound`."""

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker: str
    control_plane: str | None


def parse_protocol_map(text: str) -> dict[str, str]:
    """Return the security protocol of each listener name, which is in upper case. Raises BadValue."""
    setting = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for part in _split(text):
        name, colon, protocol = part.partition(":")
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if not colon or not name:
            raise BadValue(setting, text, f"{part!r} is not NAME:PROTOCOL")
        if protocol not in PROTOCOLS:
            raise BadValue(setting, text, f"{protocol!r} is not a security protocol: {', '.join(PROTOCOLS)}")
        if name in protocols:
            raise BadValue(setting, text, f"{name} is named twice")
        protocols[name] = protocol
    return protocols


def parse_listeners(setting: str, text: str, protocols: dict[str, str]) -> tuple[Listener, ...]:
    """Read the endpoints of `NAME://host:port,…`. Raises BadValue."""
    found = []
    for part in _split(text):
        match = _ENDPOINT.fullmatch(part)
        if match is None:
            raise BadValue(setting, text, f"{part!r} is not NAME://host:port")
        name, port = match[1].upper(), int(match[4])
        if name not in protocols:
            raise BadValue(setting, text, f"listener {name} has no protocol in listener.security.protocol.map")
        if not 0 <= port <= MAX_PORT:
            raise BadValue(setting, text, f"port {port} is not between 0 and {MAX_PORT}")
        if protocols[name] not in SERVED_PROTOCOLS:
            raise BadValue(
                setting, text, f"listener {name} speaks {protocols[name]}, which is not built: {_served()} is"
            )
        found.append(Listener(name, match[2] if match[3] is None else match[3], port, protocols[name]))
    _refuse_twice(setting, text, "listener name", (listener.name for listener in found))
    return tuple(found)


def resolve_listeners(value: Callable[[str], str | None]) -> Listeners:
    """Read all listeners from the texts of the settings, legacy ones too; `value` gives None for what is not set.

    Raises BadValue.
    """
    protocols = parse_protocol_map(value("listener.security.protocol.map") or "")
    text = value("listeners")
    if text is None:
        text = f"PLAINTEXT://{value('host.name') or ''}:{value('port') or 9092}"
    bound = parse_listeners("listeners", text, protocols)
    if not bound:
        raise BadValue("listeners", text, "at least one listener is needed")
    _check_ports(text, bound)
    advertised = _advertised(value, bound, protocols)
    inter_broker = _inter_broker(value, advertised, protocols)
    return Listeners(bound, advertised, inter_broker, _control_plane(value, advertised, inter_broker))


def _advertised(
    value: Callable[[str], str | None], bound: Sequence[Listener], protocols: dict[str, str]
) -> tuple[Listener, ...]:
    setting = "advertised.listeners"
    text = value(setting)
    host, port = value("advertised.host.name"), value("advertised.port")
    if text is None and (host is not None or port is not None):
        first = bound[0]
        text = f"{first.name}://{host or first.host}:{port or first.port}"
    if text is None:
        if any(listener.host == META_ADDRESS for listener in bound):
            raise BadValue(setting, text, f"{META_ADDRESS} cannot be connected to: name the address for clients")
        return tuple(bound)
    listed = {listener.name: listener for listener in parse_listeners(setting, text, protocols)}
    names = {listener.name for listener in bound}
    if not listed.keys() <= names:
        raise BadValue(setting, text, f"{', '.join(sorted(listed.keys() - names))} is not in listeners")
    if any(listener.host == META_ADDRESS for listener in listed.values()):
        raise BadValue(setting, text, f"{META_ADDRESS} cannot be connected to")
    return tuple(listed.values())


def _inter_broker(value: Callable[[str], str | None], advertised: Sequence[Listener], protocols: dict[str, str]) -> str:
    name, protocol = value("inter.broker.listener.name"), value("security.inter.broker.protocol")
    setting = "inter.broker.listener.name"
    if name is not None and protocol is not None:
        raise BadValue(setting, name, "only one of it and security.inter.broker.protocol may be set")
    chosen = (protocol or "PLAINTEXT" if name is None else name).upper()
    if chosen not in protocols:
        raise BadValue(setting, chosen, "has no protocol in listener.security.protocol.map")
    if chosen not in {listener.name for listener in advertised}:
        raise BadValue(setting, chosen, "is not the name of an advertised listener")
    return chosen


def _control_plane(value: Callable[[str], str | None], advertised: Sequence[Listener], inter_broker: str) -> str | None:
    setting = "control.plane.listener.name"
    name = value(setting)
    if name is None:
        return None
    if name.upper() not in {listener.name for listener in advertised}:
        raise BadValue(setting, name, "is not the name of an advertised listener")
    if name.upper() == inter_broker:
        raise BadValue(setting, name, "must be another listener than the one between brokers")
    return name.upper()


def _check_ports(text: str, bound: Sequence[Listener]) -> None:
    """Check that each port is there once, or once for IPv4 and once for IPv6; 0, any free port, may be there often."""
    families = [f"{listener.port}{' of IPv6' * (':' in listener.host)}" for listener in bound if listener.port != 0]
    _refuse_twice("listeners", text, "port", families)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _served() -> str:
    return ", ".join(sorted(SERVED_PROTOCOLS))


def _refuse_twice(setting: str, text: str, what: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for one in values:
        if one in seen:
            raise BadValue(setting, text, f"{what} {one} is named twice")
        seen.add(one)
