"""Traffic of topics, counted by whoever appends or reads (Kafka's BrokerTopicMetrics): integers, nothing else.

A partition holds the counters of its topic, so that counting costs an attribute and an addition. What a topic had
counted when it went stays in the sum over all topics, which must never go back.
"""

from typing import Final

TOPIC_COUNTERS: Final = (
    "messages_in", "bytes_in", "bytes_out", "bytes_rejected", "produce_requests", "fetch_requests",
    "failed_produce_requests", "failed_fetch_requests", "produce_message_conversions",
)  # fmt: skip


class TopicCounters:
    """Totals of one topic on this broker since it started. Requests are counted once per partition, as Kafka does."""

    __slots__ = TOPIC_COUNTERS

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = self.bytes_rejected = 0
        self.produce_requests = self.fetch_requests = 0
        self.failed_produce_requests = self.failed_fetch_requests = 0
        self.produce_message_conversions = 0

    def add(self, other: "TopicCounters") -> None:
        """Take in what another topic has counted."""
        for name in TOPIC_COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """Counters of all topics of a broker, and those that Kafka keeps for all topics together."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounters] = {}
        """Topics that this broker has a partition of."""
        self.replication_bytes_out = self.reassignment_bytes_out = 0
        """Bytes sent to followers; how many of them to replicas that reassignments were adding."""
        self.isr_shrinks = self.isr_expansions = self.failed_isr_updates = 0
        """Changes that this broker's leaders asked for and the controller wrote, or refused."""
        self._former = TopicCounters()

    def of_topic(self, topic: str) -> TopicCounters:
        """Return the counters of a topic, made when there are none."""
        counters = self.topics.get(topic)
        if counters is None:
            counters = self.topics[topic] = TopicCounters()
        return counters

    def forget_topic(self, topic: str) -> None:
        """Take a topic out that has no partition here any more. Harmless twice."""
        gone = self.topics.pop(topic, None)
        if gone is not None:
            self._former.add(gone)

    def all_topics(self) -> TopicCounters:
        """Sum over the topics of now and of before."""
        total = TopicCounters()
        total.add(self._former)
        for counters in self.topics.values():
            total.add(counters)
        return total
