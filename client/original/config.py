# ruff: noqa: RUF009 - `setting` makes a dataclass field
"""Settings of the original Producer: names, types and defaults of Kafka 0.8 (kafka.producer.ProducerConfig) and 0.7."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from odradek.client.arguments import HIGHEST_INT32
from odradek.client.config import addresses, load, setting
from odradek.client.errors import ConfigError

OLDER_NAMES = {
    "broker.list": "metadata.broker.list",
    "queue.time": "queue.buffering.max.ms",
    "queue.size": "queue.buffering.max.messages",
    "queue.enqueuetimeout.ms": "queue.enqueue.timeout.ms",
    "batch.size": "batch.num.messages",
    "buffer.size": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "max.message.size": "max.request.size",
}
"""Names of Kafka 0.7 → those of 0.8; for max.message.size, which 0.8 lacks, that of the present producer."""
BROKER_ID = re.compile(r"^\d+:(?=[^:]+:\d+$)")
"""Pattern of the broker id before `host:port` in 0.7's broker.list."""
CODECS = {"0": "none", "1": "gzip", "2": "snappy"}
"""compression.codec as 0.7 numbers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalProducerConfig:
    """Settings of the original Producer. Durations in ms, sizes in bytes."""

    metadata_broker_list: list[str] = setting()
    producer_type: str = setting("sync", choices=["sync", "async"])
    serializer_class: Any = setting("kafka.serializer.DefaultEncoder")
    key_serializer_class: Any = setting(None)
    """serializer.class unless given."""
    partitioner_class: Any = setting(None)
    request_required_acks: int = setting(0, at_least=-1, at_most=1)
    request_timeout_ms: int = setting(10_000, at_least=1)
    compression_codec: str = setting("none", choices=["none", "gzip", "snappy", *CODECS])
    compressed_topics: list[str] = setting(())
    """Topics to which compression.codec applies; all when empty."""
    message_send_max_retries: int = setting(3, at_least=0)
    retry_backoff_ms: int = setting(100, at_least=0)
    topic_metadata_refresh_interval_ms: int = setting(600_000)
    """When negative, metadata are refreshed only after failures."""
    queue_buffering_max_ms: int = setting(5_000, at_least=0)
    queue_buffering_max_messages: int = setting(10_000, at_least=1)
    queue_enqueue_timeout_ms: int = setting(-1, at_least=-1)
    """Longest time that `send` waits for room in the queue: with 0 it does not wait, with -1 there is no limit."""
    batch_num_messages: int = setting(200, at_least=1)
    send_buffer_bytes: int = setting(102_400, at_least=-1)
    max_request_size: int = setting(1_000_000, at_least=1)
    client_id: str = setting("")
    event_handler: Any = setting(None)
    event_handler_props: Any = setting(None)
    callback_handler: Any = setting(None)
    callback_handler_props: Any = setting(None)

    def for_topic(self, topic: str) -> str:
        """Return the name of the codec for a topic's messages."""
        codec = CODECS.get(self.compression_codec, self.compression_codec)
        return codec if not self.compressed_topics or topic in self.compressed_topics else "none"

    def for_brokers(self, codec: str) -> dict[str, Any]:
        """Return these settings in the form of the present producer, which has one codec for all topics.

        It sends one request at a time, so that a repeated message keeps its place, and no sequence numbers.
        """
        request_ms, backoff_ms = self.request_timeout_ms, self.retry_backoff_ms
        refresh_ms = self.topic_metadata_refresh_interval_ms
        return {
            "bootstrap_servers": self.metadata_broker_list,
            "client_id": self.client_id,
            "acks": str(self.request_required_acks),
            "enable_idempotence": False,
            "max_in_flight_requests_per_connection": 1,
            "retries": self.message_send_max_retries,
            "retry_backoff_ms": backoff_ms,
            "retry_backoff_max_ms": backoff_ms,
            "request_timeout_ms": request_ms,
            "delivery_timeout_ms": min(HIGHEST_INT32, (request_ms + backoff_ms) * (self.message_send_max_retries + 1)),
            "max_block_ms": request_ms,
            "max_request_size": self.max_request_size,
            "metadata_max_age_ms": refresh_ms if refresh_ms >= 0 else HIGHEST_INT32,
            "send_buffer_bytes": self.send_buffer_bytes,
            "compression_type": codec,
        }


def settings_of(given: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> OriginalProducerConfig:
    """Return checked settings. Raises ConfigError, also for a setting that is given under both of its names."""
    merged: dict[str, Any] = {}
    for name, value in {**(given or {}), **keywords}.items():
        dotted = name.replace("_", ".")
        present = OLDER_NAMES.get(dotted.lower(), dotted)
        if present in merged:
            raise ConfigError(f"{present} is given twice, once as {dotted}")
        merged[present] = value
    if "zk.connect" in merged:
        raise ConfigError("zk.connect: give metadata.broker.list (broker.list) instead, as from Kafka 0.8 on")
    settings = load(OriginalProducerConfig, merged, {})
    brokers = [BROKER_ID.sub("", one) for one in settings.metadata_broker_list]
    addresses(brokers)
    return replace(settings, metadata_broker_list=brokers)
