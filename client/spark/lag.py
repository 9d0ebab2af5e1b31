"""Lag of a streaming query behind its topics, from the progress that Spark reports. No I/O but in the listener.

Spark's own Kafka source reports avg-, min- and maxOffsetsBehindLatest among its metrics, which a data source in Python
cannot. But the progress has the offsets at which the micro-batch ended, and those at which the topics ended when it was
planned. These give the same numbers:

    behind = offsets_behind_latest(query.lastProgress.sources[0])   # {"minOffsetsBehindLatest": 0.0, …}
    spark.streams.addListener(LagListener())                        # logs them, and keeps the newest

From the cluster's side the lag is that of the query's group (kafka.group.id, groupIdPrefix), which any tool shows.
"""

import json
import logging
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from odradek.client.spark.offsets import Offsets, from_json

logger = logging.getLogger(__name__)


def offsets_behind_latest(source: Any) -> dict[str, float]:
    """Return Spark's metrics of one source of a progress; empty for another kind of source, or without offsets yet."""
    done, seen = _offsets(source.endOffset), _offsets(source.latestOffset)
    if done is None or seen is None:
        return {}
    behind = [max(0, end - done.get(one, 0)) for one, end in seen.items()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": float(min(behind)),
        "maxOffsetsBehindLatest": float(max(behind)),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def _offsets(text: str | None) -> Offsets | None:
    """Return the offsets in a progress; None when these are not offsets of topics."""
    try:
        found = from_json(json.loads(text or ""))
    except (ValueError, AttributeError, TypeError):
        return None
    return found if all(type(offset) is int for offset in found.values()) else None


class LagListener(StreamingQueryListener):
    """Logs how far each query is behind. `lag` has the newest numbers, by query id and index of the source."""

    def __init__(self) -> None:
        self.lag: dict[tuple[str, int], dict[str, float]] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """Do nothing: there is no progress yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        for place, source in enumerate(progress.sources):
            behind = offsets_behind_latest(source)
            if behind:
                self.lag[str(progress.id), place] = behind
                logger.info("query %s, source %d, batch %d: %s", progress.id, place, progress.batchId, behind)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the progress is the same."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        for key in [key for key in self.lag if key[0] == str(event.id)]:
            del self.lag[key]
