"""Odradek as a source and a sink of Spark: `register(spark)`, then `spark.readStream.format("odradek")`, or `read`,
`write`, `writeStream`.

It works wherever Spark runs, if the Python of driver and executors can import this package.

    data_source.py      what Spark asks first: a reader, or a writer

    reading.py          reading as Spark calls it          options.py       its options
    planning.py         where a query starts and ends      offsets.py       offsets as JSON, and ranges of them
    session.py          requests to the cluster            fetching.py      a task's records
    columns.py          records as Arrow's columns         lag.py           how far a query is behind

    writing.py          writing as Spark calls it          sink_options.py  its options
    sink_session.py     the producers of a task            rows.py          Arrow's columns as records
    exactly_once.py     what tasks and the driver do       epochs.py        what is stored in the cluster for that

    process.py          the event loop of a Spark process, its sessions with clusters
    spark_versions.py   differences between versions of Spark
"""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `format("odradek")` known to a Spark session. Calling it again does nothing.

    Spark runs its Python workers with the `python3` of the PATH, unless PYSPARK_PYTHON names another. With a local
    master this function sets the Python that runs now, which can import this package. With Spark Connect the workers
    are the server's.
    """
    from odradek.client.spark.data_source import OdradekSource

    context = getattr(spark, "sparkContext", None)
    if context is not None and "PYSPARK_PYTHON" not in os.environ and (context.master or "").startswith("local"):
        context.pythonExec = sys.executable
    spark.dataSource.register(OdradekSource)
