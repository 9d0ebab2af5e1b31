# ruff: noqa: RUF009 - `setting` makes a dataclass field
"""Settings of the clients: Kafka's names, types, ranges and defaults.

A configuration is a frozen dataclass; the field `linger_ms` is Kafka's `linger.ms`. Users give keywords
(`linger_ms=5`), or a mapping of Kafka's own names (`{"linger.ms": 5}`), or both; keywords win.
"""

import difflib
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.client.arguments import HIGHEST_INT32, HIGHEST_INT64, TEXT_BYTES_LIMIT
from odradek.client.errors import ConfigError
from odradek.client.waiting import grown_ms
from odradek.protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NOT_BUILT_PREFIXES = ("ssl.", "sasl.", "zookeeper.ssl.")
"""Prefixes of Kafka's settings: one that these clients do not have is reported as missing, not as misspelled."""
ALIASES = {
    "ssl.cafile": "ssl.truststore.location",
    "ssl.certfile": "ssl.keystore.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.password": "ssl.key.password",
    "ssl.ciphers": "ssl.cipher.suites",
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "sasl.mechanisms": "sasl.mechanism",
}
"""kafka-python's names of settings (ssl_cafile, …), and Kafka's. Its files are PEM files."""

WITHOUT_EFFECT: Mapping[str, str] = {
    "allow_auto_create_topics": "brokers decide (auto.create.topics.enable)",
    "api_version": "brokers say what they speak",
    "auto_include_jmx_reporter": "call `metrics()` instead",
    "bootstrap_controllers": "the controller is one of the brokers: give bootstrap_servers",
    "bootstrap_timeout_ms": "every call has a timeout of its own",
    "client_dns_lookup": "all addresses of a name are tried",
    "enable_incremental_fetch_sessions": "they are used with every broker that has them",
    "enable_metrics_push": "metrics are never pushed: call `metrics()` instead",
    "group_protocol": "the classic protocol, with partition_assignment_strategy, is the only one",
    "group_remote_assignor": "members assign: see partition_assignment_strategy",
    "kafka_client": "there is nothing to replace",
    "max_in_flight_requests_per_connection": "one fetch at a time is under way to each broker",
    "metric_group_prefix": "groups have Kafka's names",
    "metric_reporters": "call `metrics()` instead",
    "metrics_enabled": "metrics are always on, and cost nothing for each record",
    "metrics_recording_level": "all metrics are always on",
    "partitioner_adaptive_partitioning_enable": "a partition is changed with each batch, whatever its broker's load",
    "partitioner_availability_timeout_ms": "partitions without a leader are passed over at once",
    "proxy_url": "not built",
    "receive_message_max_bytes": "bounded by fetch.max.bytes",
    "retries": "an admin client tries again until default.api.timeout.ms is over",
    "selector": "asyncio has its own",
    "socket_options": "use send_buffer_bytes and receive_buffer_bytes; TCP_NODELAY is on",
    "socks5_proxy": "not built",
}
"""Settings of kafka-python and of Java's clients that would have no effect here, and why. They are refused: who sets
one expects an effect."""

DEFAULT_API_TIMEOUT_MS = 60_000
ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
"""isolation.level → its number on the wire."""


class Missing:
    """The default of a setting that must be given."""


MISSING = Missing()


def setting(
    default: Any = MISSING,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: Sequence[str] | None = None,
    secret: bool = False,
) -> Any:
    """Make a field of a configuration. A value is compared with `choices` without regard to case, and kept as in there.

    A whole number is at most 2^31-1 unless `at_most` says otherwise: Kafka's settings are INT unless they are LONG.

    The value of a `secret` setting is in no message and no repr().
    """
    metadata = {"default": default, "at_least": at_least, "at_most": at_most, "choices": choices, "secret": secret}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata, repr=not secret)
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Settings of TLS and logins, by which a client and a broker authenticate each other. Secrets are never shown."""

    security_protocol: str = setting("PLAINTEXT", choices=["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
    ssl_keystore_type: str = setting("JKS")
    ssl_keystore_location: str | None = setting(None)
    ssl_keystore_password: str | None = setting(None, secret=True)
    ssl_key_password: str | None = setting(None, secret=True)
    ssl_key_location: str | None = setting(None)
    """A PEM file with only the key, while ssl.keystore.location has the certificates (kafka-python's ssl_keyfile)."""
    ssl_keystore_key: str | None = setting(None, secret=True)
    ssl_keystore_certificate_chain: str | None = setting(None, secret=True)
    ssl_truststore_type: str = setting("JKS")
    ssl_truststore_location: str | None = setting(None)
    ssl_truststore_password: str | None = setting(None, secret=True)
    ssl_truststore_certificates: str | None = setting(None, secret=True)
    ssl_enabled_protocols: list[str] = setting(["TLSv1.2", "TLSv1.3"])
    ssl_cipher_suites: list[str] | None = setting(None)
    ssl_endpoint_identification_algorithm: str = setting("https")
    ssl_check_hostname: bool = setting(True)
    """False is the same as an empty ssl.endpoint.identification.algorithm."""
    ssl_context: Any = setting(None)
    """An ssl.SSLContext of the application's own, in place of all other settings of TLS."""
    sasl_mechanism: str = setting("GSSAPI")
    sasl_jaas_config: str | None = setting(None, secret=True)
    sasl_username: str | None = setting(None)
    sasl_password: str | None = setting(None, secret=True)
    """User and password in place of sasl.jaas.config, for PLAIN and SCRAM, as in librdkafka and kafka-python."""
    sasl_oauth_token_provider: Any = setting(None)
    """An object with a method `token()`, as in kafka-python; it is called in a thread for each connection."""
    sasl_oauthbearer_token_endpoint_url: str | None = setting(None)
    sasl_login_read_timeout_ms: int | None = setting(None)
    sasl_kerberos_service_name: str | None = setting(None)
    """First part of the brokers' principals; `kafka` if neither this nor sasl.jaas.config names it."""
    sasl_kerberos_principal: str | None = setting(None)
    sasl_kerberos_keytab: str | None = setting(None)
    """Principal and keytab in place of sasl.jaas.config, for GSSAPI, as in librdkafka; without them kinit's tickets are
    used."""
    sasl_kerberos_domain_name: str | None = setting(None)
    """Host in the brokers' principals, if it is not the one that is connected to (kafka-python's setting)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonConfig(SecurityConfig):
    """Settings that every client has."""

    bootstrap_servers: list[str] = setting()
    client_id: str = setting("")
    request_timeout_ms: int = setting(30_000, at_least=0)
    metadata_max_age_ms: int = setting(300_000, at_least=0, at_most=HIGHEST_INT64)
    connections_max_idle_ms: int = setting(540_000, at_least=-1, at_most=HIGHEST_INT64)
    reconnect_backoff_ms: int = setting(50, at_least=0, at_most=HIGHEST_INT64)
    reconnect_backoff_max_ms: int = setting(1_000, at_least=0, at_most=HIGHEST_INT64)
    retry_backoff_ms: int = setting(100, at_least=0, at_most=HIGHEST_INT64)
    retry_backoff_max_ms: int = setting(1_000, at_least=0, at_most=HIGHEST_INT64)
    metadata_recovery_strategy: str = setting("rebootstrap", choices=["none", "rebootstrap"])
    """Whether to start again from bootstrap.servers when no known broker can be reached (KIP-899)."""
    metrics_num_samples: int = setting(2, at_least=1)
    metrics_sample_window_ms: int = setting(30_000, at_least=1, at_most=HIGHEST_INT64)
    send_buffer_bytes: int = setting(-1, at_least=-1)
    receive_buffer_bytes: int = setting(-1, at_least=-1)
    """-1, the default, leaves both buffers to the operating system, which lets them grow as needed. With Kafka's 128
    and 64 kB, megabytes go in pieces of 100 kB, each with its turn of the loop: a fifth of the cost of sending a record
    of 1 kB."""
    socket_connection_setup_timeout_ms: int = setting(10_000, at_least=1, at_most=HIGHEST_INT64)
    socket_connection_setup_timeout_max_ms: int = setting(30_000, at_least=1, at_most=HIGHEST_INT64)
    """After each attempt that fails the next may take twice as long, up to this (KIP-601)."""

    def setup_timeout_ms(self, failures: int) -> float:
        """Return how long an attempt to connect may take, after so many in a row that have failed."""
        first_ms = self.socket_connection_setup_timeout_ms
        return grown_ms(first_ms, max(first_ms, self.socket_connection_setup_timeout_max_ms), failures + 1)

    @property
    def records_bytes_max(self) -> int:
        """Return the most bytes of records that an answer is asked to have; 0 unless the client fetches."""
        return 0


Config = TypeVar("Config", bound="DataclassInstance")


def load(config: type[Config], given: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> Config:
    """Check all settings given, and fill in defaults. Raises ConfigError: one line with setting, value and reason."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(
            f"settings are keywords, or one mapping with Kafka's names, not {type(given).__name__}: {given!r}"
        )
    known = {item.name.replace("_", "."): item for item in fields(config)}
    hints = typing.get_type_hints(config)
    merged = {_kafkas_name(name): value for name, value in {**(given or {}), **keywords}.items()}
    values: dict[str, Any] = {}
    for name, value in merged.items():
        if name not in known:
            raise ConfigError(_unknown(name, known))
        item = known[name]
        values[item.name] = _checked(name, value, hints[item.name], item.metadata)
    for name, item in known.items():
        if item.name not in values and item.metadata["default"] is MISSING:
            raise ConfigError(f"{name} is missing: give it as {item.name}=… or {{'{name}': …}}")
    return config(**values)


def defaults(config: "type[DataclassInstance]") -> dict[str, Any]:
    """Return the settings of a configuration with their defaults; None for one that must be given."""
    return {
        item.name: None if item.metadata["default"] is MISSING else item.metadata["default"] for item in fields(config)
    }


def _kafkas_name(name: str) -> str:
    dotted = name.replace("_", ".")
    return ALIASES.get(dotted, dotted)


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    if name.startswith(NOT_BUILT_PREFIXES):
        return f"{name}: these clients cannot do that yet, so the setting is refused rather than ignored"
    if reason := WITHOUT_EFFECT.get(name.replace(".", "_")):
        return f"{name} has no effect here, leave it out: {reason}"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"unknown setting {name}" + (f": did you mean {near[0]}?" if near else "")


def _checked(name: str, value: Any, expected: Any, limits: Mapping[str, Any]) -> Any:
    if value is None and _is_optional(expected):
        return None
    if limits["choices"] is not None:
        return _chosen(name, value, limits["choices"])
    parsed = _parsed(name, value, _without_none(expected))
    low, high = limits["at_least"], limits["at_most"]
    if high is None and type(parsed) is int:
        high = HIGHEST_INT32
    if low is not None and parsed < low:
        raise ConfigError(f"{name} must be at least {low}, not {value!r}")
    if high is not None and parsed > high:
        raise ConfigError(f"{name} must be at most {high}, not {value!r}")
    return parsed


def _chosen(name: str, value: Any, choices: Sequence[str]) -> str:
    for choice in choices:
        if str(value).lower() == choice.lower():
            return choice
    raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def _parsed(name: str, value: Any, expected: Any) -> Any:
    if expected is bool:
        return _boolean(name, value)
    if expected in (int, float):
        return _number(name, value, expected)
    if expected is str:
        if not isinstance(value, str):
            raise ConfigError(f"{name} must be text, not {type(value).__name__}")
        return _text(name, value)
    if expected == list[str]:
        return _texts(name, value)
    if expected == Sequence[Any]:
        return _objects(name, value)
    return value


def _text(name: str, value: str) -> str:
    """Return a text. Raises ConfigError if it cannot be sent; but names of files may have bytes that are not UTF-8."""
    if name.endswith(".location"):
        return value
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"{name} has characters that UTF-8 cannot encode") from None
    if size > TEXT_BYTES_LIMIT and not name.startswith(("ssl.", "sasl.")):
        raise ConfigError(f"{name} must have at most {TEXT_BYTES_LIMIT} bytes, not {size}")
    return value


def _boolean(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ConfigError(f"{name} must be true or false, not {value!r}")


def _number(name: str, value: Any, expected: type[int] | type[float]) -> float:
    wanted = "a whole number" if expected is int else "a number"
    refused = ConfigError(f"{name} must be {wanted}, not {value!r}")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise refused
    try:
        parsed = expected(value)
    except (ValueError, OverflowError):
        raise refused from None
    if parsed != parsed or (isinstance(value, float) and parsed != value):  # NaN, or a fraction for a whole number
        raise refused
    return parsed


def _texts(name: str, value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"{name} must be a list of strings or one string with commas, not {value!r}")
    return [_text(name, part.strip()) for part in parts if part.strip()]


def _objects(name: str, value: Any) -> Sequence[Any]:
    """Return a list of objects. Raises ConfigError for texts and classes, whose calls would fail for each record."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise ConfigError(f"{name} must be a list of objects, not {value!r}")
    for one in value:
        if isinstance(one, (str, bytes, type)):
            raise ConfigError(f"{name} must be objects, not names or classes: {one!r}")
    return value


def _is_optional(expected: Any) -> bool:
    return isinstance(expected, types.UnionType) and type(None) in typing.get_args(expected)


def _without_none(expected: Any) -> Any:
    if not _is_optional(expected):
        return expected
    rest = [choice for choice in typing.get_args(expected) if choice is not type(None)]
    return rest[0] if len(rest) == 1 else Any


ADDRESS = re.compile(r"(?:[\w.%-]+://)?\[?([\w.%:-]+)\]?:(\d{1,5})")
"""Pattern of `host:port`. As with Kafka's clients (Utils.getHost), a line of `listeners` may be given as it is, with
its PLAINTEXT:// before the host."""


def is_address(text: str) -> bool:
    """Tell whether a text is `host:port`, as `addresses` takes it."""
    return _host_and_port(text) is not None


def _host_and_port(text: str) -> tuple[str, int] | None:
    match = ADDRESS.fullmatch(text)
    return (match[1], int(match[2])) if match is not None and 0 < int(match[2]) < 65_536 else None


def addresses(bootstrap_servers: Sequence[str]) -> list[tuple[str, int]]:
    """Parse `host:port` texts into pairs. An IPv6 host is in brackets. Raises ConfigError that names the wrong one."""
    found = []
    for text in bootstrap_servers:
        parsed = _host_and_port(text)
        if parsed is None:
            raise ConfigError(f"bootstrap.servers: {text!r} is not host:port")
        found.append(parsed)
    if not found:
        raise ConfigError("bootstrap.servers is empty: give at least one host:port")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(CommonConfig):
    """Kafka's names, types and defaults (AdminClientConfig)."""

    default_api_timeout_ms: int = setting(DEFAULT_API_TIMEOUT_MS, at_least=0)
    """Time for a whole operation; the default is at least request.timeout.ms."""


def with_time_for_a_request(config: AdminConfig) -> AdminConfig:
    """Return the settings, in which the default of default.api.timeout.ms is at least request.timeout.ms."""
    if config.default_api_timeout_ms != DEFAULT_API_TIMEOUT_MS:
        return config
    return replace(config, default_api_timeout_ms=max(DEFAULT_API_TIMEOUT_MS, config.request_timeout_ms))
