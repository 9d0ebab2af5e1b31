"""Rules over several settings, and values that are more than their type says.

Sources: KafkaConfig.validateValues, and for changes while the broker runs the Reconfigurables of DynamicBrokerConfig
(DynamicThreadPool, SocketServer, LogCleaner), of Kafka 3.9.
"""

import os.path
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.broker.settings.catalog import BROKER_SETTINGS
from odradek.broker.settings.definition import BadValue
from odradek.broker.settings.layers import Layers

THREADS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "log.cleaner.threads",
)
"""Numbers of threads: one change may double or halve them at most."""
CONNECTION_LIMITS: Final = ("max.connections", "max.connection.creation.rate")
"""Limits of the broker, and with a prefix of one listener: with 0 nobody could connect any more to take it back."""
LISTENER_LIMIT: Final = re.compile(rf"listener\.name\.([^.]*)\.({'|'.join(map(re.escape, CONNECTION_LIMITS))})")
LEAST_MAP_BYTES: Final = 1024 * 1024
"""Least memory for the map of keys of one compacting child process, in bytes."""


REPLICA_SELECTORS: Final = (
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.LeaderSelector",
)


Values = Mapping[str, Any]
"""Settings by attribute name, as BrokerConfig is to have them."""
RULES: Final[tuple[tuple[str, Callable[[Values], bool], str], ...]] = (
    (
        "zookeeper.connect",
        lambda v: bool(v["zookeeper_connect"]),
        "a ZooKeeper-mode broker needs it",
    ),
    (
        "replica.selector.class",
        lambda v: v["replica_selector_class"] in (None, *REPLICA_SELECTORS),
        f"must be one of {', '.join(REPLICA_SELECTORS)}: no Java class can be loaded",
    ),
    (
        "log.roll.ms",
        lambda v: v["log_roll_ms"] >= 1,
        "must be at least 1",
    ),
    (
        "log.roll.jitter.ms",
        lambda v: v["log_roll_jitter_ms"] >= 0,
        "must be at least 0",
    ),
    ("log.cleaner.threads", lambda v: v["log_cleaner_threads"] >= 1, "value should be at least 1"),
    (
        "log.cleaner.dedupe.buffer.size",
        lambda v: (
            not v["log_cleaner_enable"]
            or v["log_cleaner_dedupe_buffer_size"] >= LEAST_MAP_BYTES * v["log_cleaner_threads"]
        ),
        "must be at least 1 MB for each of log.cleaner.threads",
    ),
    (
        "log.cleaner.io.buffer.load.factor",
        lambda v: 0 < v["log_cleaner_io_buffer_load_factor"] <= 1,
        "must be more than 0 and at most 1",
    ),
    (
        "log.cleaner.io.max.bytes.per.second",
        lambda v: v["log_cleaner_io_max_bytes_per_second"] > 0,
        "must be more than 0",
    ),
    (
        "log.retention.ms",
        lambda v: v["log_retention_ms"] != 0,
        "must be -1 (for ever) or at least 1",
    ),
    (
        "num.replica.fetchers",
        lambda v: v["num_replica_fetchers"] >= 1,
        "must be at least 1: no fetcher could copy anything",
    ),
    (
        "replica.fetch.wait.max.ms",
        lambda v: v["replica_fetch_wait_max_ms"] <= v["replica_socket_timeout_ms"],
        "must not be more than replica.socket.timeout.ms",
    ),
    (
        "replica.fetch.wait.max.ms",
        lambda v: v["replica_fetch_wait_max_ms"] <= v["replica_lag_time_max_ms"],
        "must not be more than replica.lag.time.max.ms, or followers leave the ISR",
    ),
    (
        "group.min.session.timeout.ms",
        lambda v: v["group_min_session_timeout_ms"] <= v["group_max_session_timeout_ms"],
        "must not be more than group.max.session.timeout.ms",
    ),
    (
        "offsets.topic.compression.codec",
        lambda v: v["offsets_topic_compression_codec"] in range(5),
        "is no codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd",
    ),
    (
        "max.connections.per.ip",
        lambda v: v["max_connections_per_ip"] != 0 or bool(v["max_connections_per_ip_overrides"]),
        "may be 0 only with max.connections.per.ip.overrides",
    ),
    (
        "connection.failed.authentication.delay.ms",
        lambda v: (
            v["connections_max_idle_ms"] < 0
            or v["connection_failed_authentication_delay_ms"] < v["connections_max_idle_ms"]
        ),
        "must be less than connections.max.idle.ms",
    ),
    (
        "super.users",
        lambda v: all(map(_names_principal, filter(None, map(str.strip, v["super_users"].split(";"))))),
        "principals are written User:name, with semicolons between",
    ),
)
"""Rules: a setting, what must hold, and what is said of the setting where it does not."""


def check(layers: Layers, values: Values) -> None:
    """Check settings against each other. `layers` has what was given of them. Raises BadValue."""
    generated = values["broker_id_generation_enable"]
    lowest_id, highest_id = (-1, values["reserved_broker_max_id"]) if generated else (0, 2**31 - 1)
    if not lowest_id <= values["broker_id"] <= highest_id:
        reason = f"must be between {lowest_id} and {highest_id} (reserved.broker.max.id)"
        raise BadValue("broker.id", layers.given("broker.id"), reason)
    if layers.given("node.id") is not None and layers.value("node.id") != values["broker_id"]:
        reason = f"must be the number of broker.id, {values['broker_id']}, whose other name it is"
        raise BadValue("node.id", layers.given("node.id"), reason)
    for name, holds, reason in RULES:
        if not holds(values):
            raise BadValue(name, layers.given(name), reason)


def _names_principal(text: str) -> bool:
    kind, _, name = text.partition(":")
    return bool(kind and name)


def check_live_change(before: Layers, after: Layers) -> None:
    """Refuse what a running broker does not take although its file might say so. Raises BadValue."""
    for name in THREADS:
        old, new = before.value(name), after.value(name)
        assert isinstance(old, int) and isinstance(new, int), (name, old, new)
        if new == old:
            continue
        if new < 1:
            raise BadValue(name, str(new), "value should be at least 1")
        if new > old * 2:
            raise BadValue(name, str(new), f"value should not be greater than double the current value {old}")
        if new < old // 2:
            raise BadValue(name, str(new), f"value should be at least half the current value {old}")
    for name in sorted(after.names()):
        limits = name in CONNECTION_LIMITS or LISTENER_LIMIT.fullmatch(name)
        if limits and after.value(name) == 0 and before.given(name) != after.given(name):
            raise BadValue(name, after.given(name), "no client could connect any more")


def log_directories(layers: Layers) -> tuple[str, ...]:
    """Return log.dirs, or else log.dir, as absolute paths, by which clients name them; each once. Raises BadValue."""
    name = "log.dirs" if layers.given("log.dirs") is not None else "log.dir"
    text = layers.text(name) or ""
    found = tuple(os.path.abspath(part.strip()) for part in text.split(",") if part.strip())
    if not found:
        raise BadValue(name, text, "at least one directory is needed")
    if len(set(found)) != len(found):
        raise BadValue(name, text, "a directory is named twice")
    return found


def listener_limits(layers: Layers) -> dict[tuple[str, str], int]:
    """Return the limits that are set for one listener alone, by the listener's name and the setting's. Raises
    BadValue."""
    limits = {}
    for name in layers.names():
        match = LISTENER_LIMIT.fullmatch(name)
        if match is not None:
            value = layers.value(name)
            assert isinstance(value, int), (name, value)
            limits[match[1], match[2]] = value
    return limits


def connection_overrides(layers: Layers) -> dict[str, int]:
    """Return max.connections.per.ip.overrides by host. Raises BadValue."""
    name = "max.connections.per.ip.overrides"
    text = layers.text(name) or ""
    limits = {}
    for part in text.split(","):
        host, colon, number = part.strip().rpartition(":")
        if not part.strip():
            continue
        try:
            limit = BROKER_SETTINGS["max.connections.per.ip"].read(number)
        except BadValue:
            limit = None
        if not colon or not host or not isinstance(limit, int):
            raise BadValue(name, text, f"{part.strip()!r} is not host:number")
        limits[host] = limit
    return limits
