"""Differences between the supported versions of Spark: 4.0, 4.1, and 4.2 and later.

Up to 4.1 Spark does not tell a source where a micro-batch starts, nor how much it may take, and 4.0 hands a streaming
sink rows instead of Arrow batches. The names below are Spark's own if it has them, otherwise stand-ins that it never
sees.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import datasource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:

        class ReadLimit:
            """Limit of a micro-batch."""

        class ReadAllAvailable(ReadLimit):
            """No limit."""

        @dataclass
        class ReadMinRows(ReadLimit):
            """Limit of a micro-batch to at least so many rows."""

            min_rows: int

        @dataclass
        class ReadMaxRows(ReadLimit):
            """Limit of a micro-batch to at most so many rows."""

            max_rows: int

        class SupportsTriggerAvailableNow:
            """A source that can stop at what was available at the start."""

    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)

TELLS_LIMITS = ReadLimit.__module__.startswith("pyspark")
"""Whether `latestOffset` gets the start of a micro-batch and a limit: since 4.2."""
STREAMS_IN_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")
"""Whether a streaming sink gets Arrow batches: since 4.1."""

__all__ = [
    "STREAMS_IN_ARROW",
    "TELLS_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]
