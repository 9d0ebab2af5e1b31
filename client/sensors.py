"""Sensors of producers and consumers, by Kafka's names (SenderMetricsRegistry, FetchMetricsRegistry, ...).

They record once for a request, a batch or a poll, and never for each record.
"""

from collections.abc import Iterable

from odradek.client.metrics import Metrics
from odradek.client.producer.batch import ProducerBatch

GROUP = "producer-metrics"


class ProducerSensors:
    """The sensors of one producer. On its loop."""

    def __init__(self, metrics: Metrics) -> None:
        """Register them."""
        self._metrics = metrics
        self.latency = metrics.sensor(GROUP, "request-latency", "avg", "max")
        self.throttle = metrics.sensor(GROUP, "produce-throttle-time", "avg", "max")
        self._requests = metrics.sensor(GROUP, "request", "rate", "total")
        self._records = metrics.sensor(GROUP, "records-per-request", "avg")
        self._batch_size = metrics.sensor(GROUP, "batch-size", "avg", "max")
        self._queue_time = metrics.sensor(GROUP, "record-queue-time", "avg", "max")
        self._delivered = metrics.sensor(GROUP, "record-send", "rate")
        self._failed = metrics.sensor(GROUP, "record-error", "rate")
        self._again = metrics.sensor(GROUP, "record-retry", "rate")

    def sent(self, batches: Iterable[ProducerBatch], now_ms: float) -> None:
        """Note a Produce request with these batches."""
        topics: dict[str, tuple[int, int]] = {}
        for batch in batches:
            count, topic = len(batch.values), batch.topic_partition.topic
            self._batch_size.record(batch.size_bytes)
            self._queue_time.record(now_ms - batch.created_ms)
            if batch.attempts > 1:
                self._again.record(count)
            records, size_bytes = topics.get(topic, (0, 0))
            topics[topic] = records + count, size_bytes + batch.size_bytes
        for topic, (records, size_bytes) in topics.items():
            group = f"producer-topic-metrics.{topic}"
            self._metrics.sensor(group, "record-send", "rate", "total").record(records)
            self._metrics.sensor(group, "byte", "rate", "total").record(size_bytes)
        self._requests.record()
        self._records.record(sum(records for records, _ in topics.values()))

    def settled(self, decided: Iterable[ProducerBatch]) -> None:
        """Note batches that are delivered or have failed."""
        delivered = failed = 0
        for batch in decided:
            if batch.outcome.error is None:
                delivered += len(batch.values)
            else:
                failed += len(batch.values)
        if delivered:
            self._delivered.record(delivered)
        if failed:
            self._failed.record(failed)


FETCHES, COORDINATOR = "consumer-fetch-manager-metrics", "consumer-coordinator-metrics"


class FetchSensors:
    """Sensors of fetches. On the loop."""

    def __init__(self, metrics: Metrics) -> None:
        """Register them."""
        self._fetches = metrics.sensor(FETCHES, "fetch", "rate", "total")
        self._latency = metrics.sensor(FETCHES, "fetch-latency", "avg", "max")
        self._size = metrics.sensor(FETCHES, "fetch-size", "avg", "max")
        self._bytes = metrics.sensor(FETCHES, "bytes-consumed", "rate", "total")
        self._throttle = metrics.sensor(FETCHES, "fetch-throttle-time", "avg", "max")

    def answered(self, latency_ms: float, size_bytes: int, throttle_ms: int) -> None:
        """Note an answer, with the bytes of records in it."""
        self._fetches.record()
        self._latency.record(latency_ms)
        self._size.record(size_bytes)
        self._bytes.record(size_bytes)
        self._throttle.record(throttle_ms)


class GroupSensors:
    """Sensors of a member's requests to its coordinator. On the loop."""

    def __init__(self, metrics: Metrics) -> None:
        """Register them."""
        self.commits = metrics.sensor(COORDINATOR, "commit", "rate", "total")
        self.commit_latency = metrics.sensor(COORDINATOR, "commit-latency", "avg", "max")
        self.heartbeats = metrics.sensor(COORDINATOR, "heartbeat", "rate", "total")
        self.heartbeat_response_time = metrics.sensor(COORDINATOR, "heartbeat-response-time", "max")
        self.joins = metrics.sensor(COORDINATOR, "join", "rate", "total")
        self.join_time = metrics.sensor(COORDINATOR, "join-time", "avg", "max")
        self.syncs = metrics.sensor(COORDINATOR, "sync", "rate", "total")
        self.sync_time = metrics.sensor(COORDINATOR, "sync-time", "avg", "max")


class PollSensors:
    """Sensors of polls. On the application's thread."""

    def __init__(self, metrics: Metrics) -> None:
        """Register them."""
        self._records = metrics.sensor(FETCHES, "records-consumed", "rate")
        self._per_poll = metrics.sensor(FETCHES, "records-per-request", "avg")

    def taken(self, count: int) -> None:
        """Note a poll that returns `count` records."""
        self._records.record(count)
        self._per_poll.record(count)
