# ruff: noqa: RUF009 - `setting` makes a dataclass field
"""Settings of the ConsumerConnector: names, types and defaults of Kafka 0.8-1.1 (kafka.consumer.ConsumerConfig)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from odradek.client.config import SecurityConfig, load, setting
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.errors import ConfigError
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.security.errors import BadSecuritySetting
from odradek.zk_schema.link import OPEN, Link

LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
RESET_TIMESTAMPS = {"smallest": EARLIEST_TIMESTAMP, "largest": LATEST_TIMESTAMP}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorSettings(SecurityConfig):
    """Settings of the ConsumerConnector. Durations in ms, sizes in bytes; None is a default that another setting gives.

    The settings of SecurityConfig, which Kafka 0.8 did not have, are for connections to brokers; those for ZooKeeper
    have the names that brokers use.
    """

    zookeeper_connect: str = setting()
    group_id: str = setting()
    consumer_id: str | None = setting(None)
    client_id: str | None = setting(None)
    """group.id unless given."""
    zookeeper_session_timeout_ms: int = setting(6_000, at_least=1)
    zookeeper_connection_timeout_ms: int | None = setting(None)
    """zookeeper.session.timeout.ms unless given."""
    zookeeper_sasl_jaas_config: str | None = setting(None, secret=True)
    """Login at ZooKeeper: DigestLoginModule with username and password."""
    zookeeper_set_acl: bool = setting(False)
    """True to create znodes that only the same user may change: all members of a group must log in as that user."""
    zookeeper_ssl_client_enable: bool = setting(False)
    zookeeper_ssl_keystore_location: str | None = setting(None)
    zookeeper_ssl_keystore_password: str | None = setting(None, secret=True)
    zookeeper_ssl_keystore_type: str | None = setting(None)
    zookeeper_ssl_truststore_location: str | None = setting(None)
    zookeeper_ssl_truststore_password: str | None = setting(None, secret=True)
    zookeeper_ssl_truststore_type: str | None = setting(None)
    zookeeper_ssl_protocol: str = setting("TLSv1.2")
    zookeeper_ssl_enabled_protocols: list[str] | None = setting(None)
    zookeeper_ssl_cipher_suites: list[str] | None = setting(None)
    zookeeper_ssl_endpoint_identification_algorithm: str = setting("HTTPS")
    zookeeper_sync_time_ms: int = setting(2_000, at_least=0)
    socket_timeout_ms: int = setting(30_000, at_least=1)
    socket_receive_buffer_bytes: int = setting(65_536, at_least=-1)
    fetch_message_max_bytes: int = setting(1_048_576, at_least=1)
    fetch_min_bytes: int = setting(1, at_least=0)
    fetch_max_bytes: int = setting(52_428_800, at_least=1)
    fetch_wait_max_ms: int = setting(100, at_least=0)
    num_consumer_fetchers: int = setting(1, at_least=1, at_most=1)
    """Fetchers for each broker: on one event loop more than one would be of no use."""
    queued_max_message_chunks: int = setting(2, at_least=1)
    auto_commit_enable: bool = setting(True)
    auto_commit_interval_ms: int = setting(60_000, at_least=1)
    auto_offset_reset: str = setting("largest", choices=["smallest", "largest"])
    consumer_timeout_ms: int = setting(-1, at_least=-1)
    rebalance_max_retries: int = setting(4, at_least=1)
    rebalance_backoff_ms: int | None = setting(None)
    """zookeeper.sync.time.ms unless given."""
    refresh_leader_backoff_ms: int = setting(200, at_least=0)
    partition_assignment_strategy: str = setting("range", choices=["range", "roundrobin"])
    exclude_internal_topics: bool = setting(True)
    offsets_storage: str = setting("zookeeper", choices=["zookeeper", "kafka"])
    dual_commit_enabled: bool | None = setting(None)
    """True with offsets.storage=kafka, unless given."""
    offsets_channel_backoff_ms: int = setting(1_000, at_least=0)
    offsets_channel_socket_timeout_ms: int = setting(10_000, at_least=1)
    offsets_commit_max_retries: int = setting(5, at_least=0)

    @property
    def backoff_ms(self) -> int:
        """Pause between attempts to rebalance, in ms."""
        return self.zookeeper_sync_time_ms if self.rebalance_backoff_ms is None else self.rebalance_backoff_ms

    @property
    def connection_timeout_ms(self) -> int:
        """Return the time that the first connection to ZooKeeper may take, in ms."""
        given = self.zookeeper_connection_timeout_ms
        return self.zookeeper_session_timeout_ms if given is None else given

    @property
    def dual_commit(self) -> bool:
        """Tell whether offsets that are stored in Kafka are written to ZooKeeper, too."""
        given = self.dual_commit_enabled
        return self.offsets_storage == "kafka" and (given is None or given)

    @property
    def reset_timestamp(self) -> int:
        """Return the ListOffsets timestamp at which to start without a committed offset."""
        return RESET_TIMESTAMPS[self.auto_offset_reset]

    def link(self) -> Link:
        """Return TLS, login and access lists for ZooKeeper; reads key and certificate files. Raises ConfigError."""
        if not (self.zookeeper_ssl_client_enable or self.zookeeper_sasl_jaas_config or self.zookeeper_set_acl):
            return OPEN
        from odradek.security.zookeeper_link import read_link

        try:
            return read_link(lambda name: getattr(self, name.replace(".", "_")))
        except BadSecuritySetting as error:
            raise ConfigError(str(error), setting=error.setting) from None

    def for_brokers(self, bootstrap_servers: list[str]) -> ConsumerSettings:
        """Return these settings in the form of the code that talks to brokers."""
        defaults = load(ConsumerSettings, {"bootstrap.servers": bootstrap_servers}, {})
        return replace(
            defaults,
            client_id=self.client_id or self.group_id,
            request_timeout_ms=self.socket_timeout_ms,
            retry_backoff_ms=self.refresh_leader_backoff_ms,
            retry_backoff_max_ms=self.refresh_leader_backoff_ms,
            receive_buffer_bytes=self.socket_receive_buffer_bytes,
            allow_auto_create_topics=False,
            fetch_min_bytes=self.fetch_min_bytes,
            fetch_max_bytes=self.fetch_max_bytes,
            fetch_max_wait_ms=self.fetch_wait_max_ms,
            max_partition_fetch_bytes=self.fetch_message_max_bytes,
            **{one.name: getattr(self, one.name) for one in fields(SecurityConfig)},
        )


def settings_of(given: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> ConnectorSettings:
    """Check settings and return them. Raises ConfigError."""
    settings = load(ConnectorSettings, given, keywords)
    for name, value in (("group.id", settings.group_id), ("client.id", settings.client_id or settings.group_id)):
        if not LEGAL_NAME.fullmatch(value) or value in (".", ".."):
            raise ConfigError(f"{name}={value!r} must consist of letters, digits, '.', '_' and '-', and not of . or ..")
    if settings.consumer_id is not None and ("/" in settings.consumer_id or not settings.consumer_id):
        raise ConfigError(f"consumer.id={settings.consumer_id!r} must be a name without '/'")
    if settings.fetch_wait_max_ms > settings.socket_timeout_ms:
        raise ConfigError(
            f"fetch.wait.max.ms={settings.fetch_wait_max_ms} must not be more than "
            f"socket.timeout.ms={settings.socket_timeout_ms}"
        )
    return settings
