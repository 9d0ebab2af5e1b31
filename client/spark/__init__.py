"""Odradek as a source of Spark: `register(spark)`, then `spark.readStream.format("odradek")`, or `spark.read`.

Works wherever Spark runs, as long as this package can be imported by the driver's and the executors' Python.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `format("odradek")` known to a session. Harmless twice."""
    from odradek.client.spark.source import OdradekSource

    spark.dataSource.register(OdradekSource)
