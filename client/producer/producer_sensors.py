"""Sensors of a producer (Kafka: SenderMetricsRegistry), told once for a request and for a batch."""

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
        """Note a request."""
        records = 0
        for batch in batches:
            records += len(batch)
            self._batch_size.record(batch.size_bytes)
            self._queue_time.record(now_ms - batch.created_ms)
            if batch.attempts > 1:
                self._again.record(len(batch))
            topic = f"producer-topic-metrics.{batch.topic_partition.topic}"
            self._metrics.sensor(topic, "record-send", "rate", "total").record(len(batch))
            self._metrics.sensor(topic, "byte", "rate", "total").record(batch.size_bytes)
        self._requests.record()
        self._records.record(records)

    def settled(self, decided: Iterable[ProducerBatch]) -> None:
        """Note batches that are delivered or have failed."""
        for batch in decided:
            (self._delivered if batch.outcome.error is None else self._failed).record(len(batch))
