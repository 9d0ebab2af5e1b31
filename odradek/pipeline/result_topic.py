"""Result topic: the newest totals of every airport and day, each written once per micro-batch.

A record has a key such as `EWR/2013-01-01`; its value is JSON with the totals, `query` (the id in the checkpoint) and
`batch`. The topic is compacted, so it keeps at least the newest record of every key.
"""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.client.admin.client import KafkaAdminClient
from odradek.client.admin.values import NewTopic
from odradek.client.consumer.client import KafkaConsumer
from odradek.client.errors import ClientTimeout
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError

POLL_MS = 500
READ_ATTEMPTS = 120
"""Polls in a row without records before the end of the topic, after which reading fails: a minute."""
TRANSACTIONAL_ID = "odradek-pipeline"
"""The sink's transactionalId, by which each micro-batch is written exactly once."""
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


def create_result_topic(
    bootstrap: str, topic: str, replication_factor: int, client: Mapping[str, str] = NO_SETTINGS
) -> bool:
    """Create the compacted topic of results, with one partition; return False if it exists. `client`: settings by
    Kafka's names."""
    settings = {"cleanup.policy": "compact"}
    with KafkaAdminClient(client, bootstrap_servers=bootstrap) as admin:
        try:
            admin.create_topics([NewTopic(topic, 1, replication_factor, configs=settings)])
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # only the controller knows that for certain
                raise
            return False
    return True


def read_results(bootstrap: str, topic: str) -> dict[str, dict[str, Any]]:
    """Return the newest committed value of every key: those of newer queries and micro-batches come later."""
    return dict(_records(bootstrap, topic))


def _records(bootstrap: str, topic: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield all records from the topic's beginning to its present end."""
    with KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
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


def write_results(
    rows: DataFrame, bootstrap: str, topic: str, query: str, batch: int, client: Mapping[str, str] = NO_SETTINGS
) -> None:
    """Write the rows of a micro-batch, in one transaction per task; a repeated micro-batch is recognised.

    To be called in `foreachBatch`, whose tasks know the query and the micro-batch. Raises PySparkException.
    """
    value = f.to_json(f.struct(*rows.columns, f.lit(query).alias("query"), f.lit(batch).alias("batch")))
    records = rows.select(f.concat_ws("/", "origin", "day").alias("key"), value.alias("value"))
    writer = records.write.format("odradek").options(**of_source(client))
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    writer.option("transactionalId", TRANSACTIONAL_ID).mode("append").save()


def of_source(client: Mapping[str, str]) -> dict[str, str]:
    """Return settings of a client as options of Spark's source and sink."""
    return {f"kafka.{name}": value for name, value in client.items()}
