"""Odradek as a source of Spark: `register(spark)`, then `spark.readStream.format("odradek")`, or `spark.read`.

Works wherever Spark runs, as long as this package can be imported by the driver's and the executors' Python.
"""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `format("odradek")` known to a session. Harmless twice.

    Spark's workers are the `python3` of the PATH, unless PYSPARK_PYTHON says otherwise. On the local machine they
    become the Python that runs now, which can import this package.
    """
    from odradek.client.spark.data_source import OdradekSource

    context = spark.sparkContext
    if "PYSPARK_PYTHON" not in os.environ and (context.master or "").startswith("local"):
        context.pythonExec = sys.executable
    spark.dataSource.register(OdradekSource)
