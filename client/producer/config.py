# ruff: noqa: RUF009 - `setting` makes a dataclass field
"""Settings of the producer."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from odradek.client.arguments import HIGHEST_INT32, HIGHEST_INT64
from odradek.client.config import CommonConfig, setting
from odradek.client.errors import ConfigError

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT_WITH_IDEMPOTENCE = 5
DELIVERY_TIMEOUT_MS = 120_000
BATCH_BYTES, KAFKAS_BATCH_BYTES = 131_072, 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(CommonConfig):
    """Kafka 3.9's names, types and defaults (ProducerConfig), but for batch.size, which is 16 kB there."""

    acks: str = setting("all", choices=["all", "-1", "0", "1"])
    batch_size: int | None = setting(None, at_least=0)
    """The most bytes of a batch; None: 128 kB, with acks=0 Kafka's 16 kB."""
    linger_ms: float = setting(0.0, at_least=0, at_most=HIGHEST_INT64)
    buffer_memory: int = setting(33_554_432, at_least=1, at_most=HIGHEST_INT64)
    max_block_ms: int = setting(60_000, at_least=0, at_most=HIGHEST_INT64)
    max_request_size: int = setting(1_048_576, at_least=1)
    max_in_flight_requests_per_connection: int = setting(5, at_least=1)
    retries: int = setting(2_147_483_647, at_least=0)
    delivery_timeout_ms: int = setting(DELIVERY_TIMEOUT_MS, at_least=0)
    """At least linger.ms + request.timeout.ms; the default grows with these."""
    enable_idempotence: bool | None = setting(None)
    compression_type: str = setting("none", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    compression_gzip_level: int = setting(-1, at_least=-1, at_most=9)
    """1 to 9, or -1, which is 6 (KIP-390)."""
    compression_lz4_level: int = setting(9, at_least=1, at_most=17)
    """As in Kafka, 9 is the fast compressor and all others are levels of LZ4HC."""
    compression_zstd_level: int = setting(3, at_least=-131_072, at_most=22)
    metadata_max_idle_ms: int = setting(300_000, at_least=5_000, at_most=HIGHEST_INT64)
    """Metadata of a topic to which nothing has been sent for this long is no longer asked for."""
    partitioner: Any = setting(None)
    """None or "sticky", "round_robin", "random", a Partitioner, or a function (key, all, available) -> partition."""
    partitioner_ignore_keys: bool = setting(False)
    key_serializer: Any = setting(None)
    value_serializer: Any = setting(None)
    transactional_id: str | None = setting(None)
    """Makes the producer transactional. Of two producers with the same id, brokers obey only the later one."""
    transaction_timeout_ms: int = setting(60_000, at_least=1)
    """The coordinator aborts a transaction that is open for longer; at most its transaction.max.timeout.ms."""
    interceptor_classes: Sequence[Any] | None = setting(None)
    """Objects with `on_send(record)` and `on_acknowledgement(metadata, error)`, called in this order."""

    @property
    def batch_bytes(self) -> int:
        """Return how many bytes a batch has at most, unless one record alone has more.

        A batch costs its producer, each broker and each consumer as much as ten records, and takes no more memory than
        its records. The default is therefore eight times Kafka's; a larger one gains nothing. With acks=0 it is
        Kafka's: no answer says that a batch is too large for its topic, and all of it would be lost.
        """
        default = KAFKAS_BATCH_BYTES if self.acks_number == 0 else BATCH_BYTES
        return min(default if self.batch_size is None else self.batch_size, self.max_request_size)

    @property
    def compression_level(self) -> int | None:
        """Return the level of compression.type; None for a codec without levels."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    @property
    def acks_number(self) -> int:
        """Return acks as on the wire: -1, 0 or 1."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def idempotent(self) -> bool:
        """Tell whether idempotence is on: unless it was switched off, or another setting rules it out (as in Kafka)."""
        return self._idempotence_possible() if self.enable_idempotence is None else self.enable_idempotence

    def _idempotence_possible(self) -> bool:
        in_flight = self.max_in_flight_requests_per_connection
        return self.acks_number == -1 and self.retries > 0 and in_flight <= MAX_IN_FLIGHT_WITH_IDEMPOTENCE


def check(config: ProducerConfig) -> ProducerConfig:
    """Return the settings, checked for values that contradict each other. Raises ConfigError."""
    if config.transactional_id is not None:
        _check_transactional(config)
    if config.compression_gzip_level == 0:
        raise ConfigError("compression.gzip.level must be 1 to 9, or -1 for gzip's default, not 0")
    if config.enable_idempotence:
        _check_idempotence(config, "enable.idempotence=true")
    least_ms = min(ceil(config.linger_ms + config.request_timeout_ms), HIGHEST_INT32)
    if config.delivery_timeout_ms >= least_ms:
        return config
    if config.delivery_timeout_ms != DELIVERY_TIMEOUT_MS:
        raise ConfigError(
            f"delivery.timeout.ms={config.delivery_timeout_ms} must be at least "
            f"linger.ms + request.timeout.ms = {least_ms}"
        )
    logger.warning("delivery.timeout.ms is %d: linger.ms + request.timeout.ms", least_ms)
    return replace(config, delivery_timeout_ms=least_ms)


def _check_transactional(config: ProducerConfig) -> None:
    if not config.transactional_id:
        raise ConfigError("transactional.id is empty")
    if config.enable_idempotence is False:
        raise ConfigError("transactional.id needs enable.idempotence=true")
    _check_idempotence(config, "transactional.id")


def _check_idempotence(config: ProducerConfig, because: str) -> None:
    if config.acks_number != -1:
        raise ConfigError(f"{because} needs acks=all, not acks={config.acks}")
    if config.retries == 0:
        raise ConfigError(f"{because} needs retries above 0")
    if config.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
        raise ConfigError(
            f"{because} needs max.in.flight.requests.per.connection of at most "
            f"{MAX_IN_FLIGHT_WITH_IDEMPOTENCE}, not {config.max_in_flight_requests_per_connection}"
        )


Serializer = Callable[[str, Any, Any], bytes | None]
"""Function of topic, headers and key or value that returns its bytes."""


def serializer(given: Any, name: str) -> Serializer:
    """Return a serializer as one function: from None (bytes as they are), a function of the value, or an object with
    `serialize(topic, headers, value)`."""
    if given is None:
        return lambda topic, headers, value: _plain_bytes(value, name)
    if hasattr(given, "serialize"):
        return lambda topic, headers, value: _serialized(given.serialize(topic, headers, value), name)
    if callable(given):
        return lambda topic, headers, value: _serialized(given(value), name)
    raise ConfigError(f"{name}_serializer must be a function or have a method serialize, not {given!r}")


def _serialized(given: Any, name: str) -> bytes | None:
    """Return what a serializer gave, as bytes. Raises TypeError in `send`: later, what cannot be sent would hold up
    other records."""
    if given is None or isinstance(given, (bytes, bytearray, memoryview)):
        return given if given is None or isinstance(given, bytes) else bytes(given)
    raise TypeError(f"{name}_serializer must give bytes, not {type(given).__name__}")


def _plain_bytes(value: Any, name: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(
        f"the {name} must be bytes, not {type(value).__name__}: set {name}_serializer to turn it into bytes"
    )
