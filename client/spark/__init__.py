"""Odradek as a source and a sink of Spark: `register(spark)`, then `spark.readStream.format("odradek")` and its likes.

Works wherever Spark runs, as long as this package can be imported by the driver's and the executors' Python.

    data_source.py      what Spark asks first: a reader, or a writer

    reading.py          reading as Spark calls it          options.py       its options
    planning.py         where a query starts and ends      offsets.py       offsets as JSON, and ranges of them
    session.py          questions to the cluster           fetching.py      a task's records
    columns.py          records as Arrow's columns         lag.py           how far a query is behind

    writing.py          writing as Spark calls it          sink_options.py  its options
    sink_session.py     the producers of a task            rows.py          Arrow's columns as records
    exactly_once.py     what tasks and the driver do       epochs.py        what the cluster remembers of it

    process.py          the loop of a Spark process, its sessions with clusters
    spark_versions.py   what differs from one Spark to another
"""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `format("odradek")` known to a session. Harmless twice.

    Spark's workers are the `python3` of the PATH, unless PYSPARK_PYTHON says otherwise. On the local machine they
    become the Python that runs now, which can import this package. With Spark Connect they are the server's.
    """
    from odradek.client.spark.data_source import OdradekSource

    context = getattr(spark, "sparkContext", None)
    if context is not None and "PYSPARK_PYTHON" not in os.environ and (context.master or "").startswith("local"):
        context.pythonExec = sys.executable
    spark.dataSource.register(OdradekSource)
