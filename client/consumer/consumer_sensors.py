"""Sensors of a consumer (Kafka: FetchMetricsRegistry, ConsumerCoordinatorMetrics), told of nothing for each record."""

from odradek.client.metrics import Metrics

FETCHES, COORDINATOR = "consumer-fetch-manager-metrics", "consumer-coordinator-metrics"


class FetchSensors:
    """Sensors of fetches, on the loop."""

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
    """Sensors of a member's requests to its coordinator, on the loop."""

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
    """Sensors of polls, on the application's thread."""

    def __init__(self, metrics: Metrics) -> None:
        """Register them."""
        self._records = metrics.sensor(FETCHES, "records-consumed", "rate")
        self._per_poll = metrics.sensor(FETCHES, "records-per-request", "avg")

    def taken(self, count: int) -> None:
        """Note a poll that has brought so many records."""
        self._records.record(count)
        self._per_poll.record(count)
