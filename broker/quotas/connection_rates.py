"""Limits on new connections each second, by listener and by address (KIP-612).

Source: ConnectionQuotas of Kafka 3.9.
"""

import ipaddress
import logging
from collections.abc import Mapping
from typing import Final

from odradek.broker.quotas.rates import RateWindows, SampledRate, parse_limit
from odradek.world.clock import Clock
from odradek.zk_schema.znodes.configs import DEFAULT_ENTITY, desanitize

log = logging.getLogger(__name__)

CONNECTION_RATE: Final = "connection_creation_rate"
REMEMBERED_MAX: Final = 10_000
"""Most addresses whose connections are counted; to make room, the one that came first is forgotten."""


class ListenerRates:
    """Counts of the connections that come in by each listener, and by those that share the broker's limit."""

    def __init__(self, clock: Clock, windows: RateWindows) -> None:
        self._clock, self._windows = clock, windows
        self._used: dict[str, SampledRate] = {}

    def throttle_ms(self, listeners: str, limit: int) -> int:
        """Count a connection; return for how many ms the next one is to wait, at most one window."""
        used = self._used.setdefault(listeners, SampledRate(self._windows))
        now_ms = self._clock.monotonic_ms()
        used.record(1, now_ms)
        return min(used.throttle_ms(limit, now_ms), round(self._windows.length_ms))


class ConnectionRates:
    """The limits of addresses, and what each has used."""

    def __init__(self, clock: Clock, windows: RateWindows) -> None:
        self._clock, self._windows = clock, windows
        self._limits: dict[str, float] = {}
        self._used: dict[str, SampledRate] = {}

    def set_address(self, name: str, settings: Mapping[str, str]) -> None:
        """Take over the settings of an address, as its znode is called, or of all others (`<default>`)."""
        address = name if name == DEFAULT_ENTITY else _plain(desanitize(name))
        text = settings.get(CONNECTION_RATE)
        if text is None:
            self._limits.pop(address, None)
            return
        try:
            self._limits[address] = parse_limit(text)
        except ValueError:
            log.error("an invalid limit is ignored: %s of %s is %r", CONNECTION_RATE, address, text)

    def throttle_ms(self, host: str) -> int:
        """Count a connection; return how many ms it is too early, at most one window. Then it does not count."""
        if not self._limits:
            return 0
        address = _plain(host)
        limit = self._limits.get(address, self._limits.get(DEFAULT_ENTITY))
        if limit is None:
            return 0
        used = self._used.get(address)
        if used is None:
            if len(self._used) >= REMEMBERED_MAX:
                self._used.pop(next(iter(self._used)))
            used = self._used[address] = SampledRate(self._windows)
        now_ms = self._clock.monotonic_ms()
        used.record(1, now_ms)
        throttle_ms = min(used.throttle_ms(limit, now_ms), round(self._windows.length_ms))
        if throttle_ms:
            used.record(-1, now_ms)
        return throttle_ms


def _plain(host: str) -> str:
    """Write an address in one way; any other text stays as it is."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
