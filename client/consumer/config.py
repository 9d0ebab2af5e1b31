# ruff: noqa: RUF009 - `setting` makes a dataclass field
"""Settings of the consumer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.client import arguments
from odradek.client.config import ISOLATION_LEVELS, CommonConfig, setting
from odradek.client.consumer.assignors.assignment import Assignor
from odradek.client.consumer.assignors.by_name import ASSIGNORS
from odradek.client.errors import ConfigError

JAVA_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(CommonConfig):
    """Kafka 3.9's names, types and defaults (ConsumerConfig)."""

    group_id: str | None = setting(None)
    group_instance_id: str | None = setting(None)
    partition_assignment_strategy: Any = setting(("range", "cooperative-sticky"))
    """Kafka's assignors, by their names or those of their Java classes, and the application's own; preferred first."""
    auto_offset_reset: str = setting("latest", choices=["earliest", "latest", "none"])
    enable_auto_commit: bool = setting(True)
    auto_commit_interval_ms: int = setting(5_000, at_least=0)
    session_timeout_ms: int = setting(45_000, at_least=1)
    heartbeat_interval_ms: int = setting(3_000, at_least=1)
    max_poll_interval_ms: int = setting(300_000, at_least=1)
    max_poll_records: int = setting(500, at_least=1)
    fetch_min_bytes: int = setting(1, at_least=0)
    fetch_max_bytes: int = setting(52_428_800, at_least=0)
    fetch_max_wait_ms: int = setting(500, at_least=0)
    max_partition_fetch_bytes: int = setting(1_048_576, at_least=0)
    isolation_level: str = setting("read_uncommitted", choices=list(ISOLATION_LEVELS))
    check_crcs: bool = setting(True)
    exclude_internal_topics: bool = setting(True)
    allow_auto_create_topics: bool = setting(True)
    client_rack: str = setting("")
    """Rack of the consumer: brokers with a replica.selector.class send it to a replica in this rack (KIP-392).
    All assignors but `roundrobin` give it partitions that have one, as far as the shares stay even (KIP-881)."""
    default_api_timeout_ms: int = setting(60_000, at_least=0)
    interceptor_classes: Sequence[Any] | None = setting(None)
    """Objects with `on_consume(records)` and `on_commit(offsets)`, called in this order."""
    default_offset_commit_callback: Any = setting(None)
    """Called as `callback(offsets, error)` after a commit that nobody waits for and that was given no callback
    (kafka-python's name)."""
    key_deserializer: Any = setting(None)
    value_deserializer: Any = setting(None)
    consumer_timeout_ms: float = setting(float("inf"), at_least=0)
    """Longest time in ms that an iteration waits for a record before it ends (kafka-python's name, not Kafka's)."""

    @property
    def records_bytes_max(self) -> int:
        return self.fetch_max_bytes

    @property
    def isolation(self) -> int:
        """Number of the isolation level on the wire."""
        return ISOLATION_LEVELS[self.isolation_level]


def assignors(config: ConsumerSettings) -> list[Assignor]:
    """Return the strategies in order of preference. Raises ConfigError for an unknown one, and for two of one name."""
    given = config.partition_assignment_strategy
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    found = [_assignor(one) for one in (given if isinstance(given, (list, tuple)) else [given])]
    if not found:
        raise ConfigError("partition.assignment.strategy is empty")
    if len({one.name for one in found}) < len(found):
        raise ConfigError(
            f"partition.assignment.strategy names {', '.join(one.name for one in found)}: one is named twice"
        )
    return found


def _assignor(given: Any) -> Assignor:
    if isinstance(given, str):
        name = JAVA_NAMES.get(given.rpartition(".")[2], given)
        if name in ASSIGNORS:
            return ASSIGNORS[name]
    else:
        made = given() if isinstance(given, type) else given
        if isinstance(made, Assignor) and isinstance(made.name, str):
            arguments.text(made.name, "the name of an assignor")
            return made
    raise ConfigError(
        f"partition.assignment.strategy: {given!r} is none of {', '.join(ASSIGNORS)}, and no Assignor "
        "(name, which is text, cooperative, assign)"
    )


def cooperative(strategies: list[Assignor]) -> bool:
    """Tell whether all offered strategies are cooperative; otherwise the group may choose an eager one (KIP-429)."""
    return all(one.cooperative for one in strategies)


def check(config: ConsumerSettings) -> ConsumerSettings:
    """Return the settings, checked for values that contradict each other. Raises ConfigError."""
    assignors(config)
    if config.default_offset_commit_callback is not None and not callable(config.default_offset_commit_callback):
        raise ConfigError(
            f"default_offset_commit_callback is not a function: {config.default_offset_commit_callback!r}"
        )
    if config.heartbeat_interval_ms >= config.session_timeout_ms:
        raise ConfigError(
            f"heartbeat.interval.ms={config.heartbeat_interval_ms} must be lower than "
            f"session.timeout.ms={config.session_timeout_ms}"
        )
    if config.group_id == "":
        raise ConfigError("group.id is empty: give a name, or leave it out")
    if config.group_instance_id is not None:
        if config.group_id is None:
            raise ConfigError("group.instance.id needs group.id")
        arguments.legal_name(config.group_instance_id, "group.instance.id")  # JoinGroupRequest.validateGroupInstanceId
    return config


Deserializer = Callable[[str, Any, bytes | None], Any]
"""Function of topic, headers and bytes that returns the key or value."""


def deserializer(given: Any, name: str) -> Deserializer | None:
    """Return a deserializer as one function: from a function of the bytes, or an object with `deserialize(topic,
    headers, data)`; None (bytes as they are) stays None."""
    if given is None:
        return None
    if hasattr(given, "deserialize"):
        found: Deserializer = given.deserialize
        return found
    if callable(given):
        return lambda topic, headers, data: None if data is None else given(data)
    raise ConfigError(f"{name}_deserializer must be a function or have a method deserialize, not {given!r}")
