"""The pipeline's sink: a micro-batch that is written again."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from odradek.client.spark.writing import EPOCH_PROPERTY, QUERY_PROPERTY
from odradek.pipeline.result_topic import create_result_topic, read_results, write_results
from odradek.testing import Cluster
from tests.spark.result_records import all_records

pytestmark = pytest.mark.cluster


def write(spark: SparkSession, cluster: Cluster, topic: str, query: str, batch: int, days: int) -> None:
    """What foreachBatch is called for: its jobs know the query and the micro-batch."""
    set_property: Any = spark.sparkContext.setLocalProperty  # which takes None too
    set_property(QUERY_PROPERTY, query)
    set_property(EPOCH_PROPERTY, str(batch))
    try:
        rows = spark.range(1, days + 1, numPartitions=2).selectExpr(
            "'EWR' as origin", "concat('2013-01-', lpad(id, 2, '0')) as day", "id as flights"
        )
        write_results(rows, cluster.bootstrap, topic, query, batch)
    finally:
        set_property(QUERY_PROPERTY, None)
        set_property(EPOCH_PROPERTY, None)


def test_a_repeated_micro_batch_is_recognised(spark: SparkSession, cluster: Cluster) -> None:
    topic = "repeated"
    assert create_result_topic(cluster.bootstrap, topic, 3)
    assert not create_result_topic(cluster.bootstrap, topic, 3)
    for batch, days in ((0, 10), (1, 4), (1, 4), (2, 1)):
        write(spark, cluster, topic, "query", batch, days)
    written = [(row["day"], row["batch"]) for row in all_records(cluster, topic)]
    assert len(written) == 15 and len(set(written)) == 15
    newest = read_results(cluster.bootstrap, topic)
    assert newest["EWR/2013-01-02"] == {
        "origin": "EWR",
        "day": "2013-01-02",
        "flights": 2,
        "query": "query",
        "batch": 1,
    }
    write(spark, cluster, topic, "another query", 0, 10)
    assert {row["query"] for row in read_results(cluster.bootstrap, topic).values()} == {"another query"}
