"""Totals in Parquet: a directory per query and micro-batch, each written as a whole, over what was there.

A driver that is killed while it writes leaves a directory that is not complete; the repeated micro-batch overwrites it.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from odradek.pipeline.flights import TOTALS


def write_parquet(rows: DataFrame, directory: str, query: str, batch: int) -> None:
    """Write the rows of one micro-batch, into one file."""
    rows.coalesce(1).write.mode("overwrite").parquet(f"{directory}/query={query}/batch={batch}")


def read_parquet(spark: SparkSession, directory: str, query: str) -> DataFrame:
    """Return the newest totals of a query: per airport and day, the row of the highest micro-batch."""
    written = spark.read.option("basePath", f"{directory}/query={query}").parquet(f"{directory}/query={query}")
    newest = f.max_by(f.struct(*TOTALS), "batch").alias("newest")
    return written.groupBy("origin", "day").agg(newest).select("origin", "day", "newest.*").orderBy("origin", "day")
