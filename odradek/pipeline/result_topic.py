"""The result topic: the newest totals of every airport and day, each written once per micro-batch.

A record: key `EWR/2013-01-01`, value JSON with the totals, `query` (the id in the checkpoint) and `batch`. The topic is
compacted, so it keeps at least the newest record of every key.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.client.admin.client import KafkaAdminClient
from odradek.client.admin.values import NewTopic
from odradek.client.consumer.client import KafkaConsumer
from odradek.client.errors import ClientTimeout
from odradek.client.producer.client import KafkaProducer
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError

POLL_MS = 500
READ_ATTEMPTS = 120
"""Polls in a row that bring nothing before the end: a minute."""
FLUSH_SECONDS = 120.0


class Written(NamedTuple):
    """Whose newest record of a key is."""

    query: str
    batch: int


def create_result_topic(bootstrap: str, topic: str, partitions: int, replication_factor: int) -> bool:
    """Compacted, unless it is there already; whether it was created."""
    settings = {"cleanup.policy": "compact"}
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        try:
            admin.create_topics([NewTopic(topic, partitions, replication_factor, configs=settings)])
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # the controller knows; a broker may hear of a topic later
                raise
            return False
    return True


def read_results(bootstrap: str, topic: str) -> dict[str, dict[str, Any]]:
    """The newest value of every key: that of the highest micro-batch of the query that wrote last."""
    newest: dict[str, dict[str, Any]] = {}
    for key, value in _records(bootstrap, topic):
        known = newest.get(key)
        if known is None or known["query"] != value["query"] or known["batch"] <= value["batch"]:
            newest[key] = value
    return newest


def _records(bootstrap: str, topic: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Everything between the topic's beginning and its end as it is now."""
    with KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        idle = 0
        while any(consumer.position(one) < ends[one] for one in partitions):
            found = consumer.poll(POLL_MS)
            idle = 0 if found else idle + 1
            if idle > READ_ATTEMPTS:
                raise ClientTimeout(f"reading {topic}: its end {ends} was not reached")
            for records in found.values():
                for record in records:
                    yield record.key.decode(), json.loads(record.value)


class ResultTopic:
    """Writes the rows of micro-batches, in their order. Made anew at every start of the query."""

    def __init__(self, bootstrap: str, topic: str, query: str) -> None:
        self._topic = topic
        self._query = query
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=5)
        self._written = {
            key: Written(value["query"], value["batch"]) for key, value in read_results(bootstrap, topic).items()
        }
        """What was there at the start: only the first micro-batch can be a repeated one."""

    def write(self, batch: int, rows: Iterable[Mapping[str, Any]]) -> int:
        """Write what is not there yet, and wait until it is; how many. Raises what a send failed with."""
        missing = [row for row in rows if not self._is_written(batch, key_of(row))]
        sent = []
        for row in missing:
            value = json.dumps({**row, "query": self._query, "batch": batch}, sort_keys=True)
            sent.append(self._producer.send(self._topic, value.encode(), key=key_of(row).encode()))
        self._producer.flush(FLUSH_SECONDS)
        for future in sent:
            future.result(FLUSH_SECONDS)
        self._written.clear()
        return len(missing)

    def _is_written(self, batch: int, key: str) -> bool:
        known = self._written.get(key)
        return known is not None and known.query == self._query and known.batch >= batch

    def close(self) -> None:
        """Harmless twice."""
        self._producer.close()


def key_of(row: Mapping[str, Any]) -> str:
    """`EWR/2013-01-01`."""
    return f"{row['origin']}/{row['day']}"
