"""Differences between the versions of Spark whose Python data sources these are: 4.0, 4.1 and from 4.2 on.

Up to 4.1 Spark does not tell a source where a micro-batch starts nor how much it may take, and 4.0 hands a streaming
sink rows instead of Arrow batches. Names below are Spark's own where it has them, else stand-ins that it never sees.
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
            """Limit of what a micro-batch takes."""

        class ReadAllAvailable(ReadLimit):
            """Everything."""

        @dataclass
        class ReadMinRows(ReadLimit):
            """Read limit: no micro-batch before this many records exist."""

            min_rows: int

        @dataclass
        class ReadMaxRows(ReadLimit):
            """Limit of a micro-batch by its number of rows."""

            max_rows: int

        class SupportsTriggerAvailableNow:
            """Plans no further than what there was at the start."""

    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)

TELLS_LIMITS = ReadLimit.__module__.startswith("pyspark")
"""`latestOffset` is told the start of a micro-batch and a limit: since 4.2."""
STREAMS_IN_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")
"""A streaming sink is given Arrow batches: since 4.1."""

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
