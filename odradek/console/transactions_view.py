"""Transactions as the page shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from odradek.client.admin.values import TransactionDescription, TransactionListing

TRANSACTIONS_MAX = 1_000


def transactions_model(
    listed: Mapping[int, Sequence[TransactionListing]],
    described: Mapping[str, TransactionDescription],
    now_ms: int,
) -> dict[str, Any]:
    """Return all transactional ids, those with an open transaction first, the oldest of them before the others."""
    rows = []
    for coordinator, some in listed.items():
        for one in some:
            known = described.get(one.transactional_id)
            begun_ms = known.transaction_start_time_ms if known is not None else -1
            rows.append(
                {
                    "id": one.transactional_id,
                    "state": one.state if known is None else known.state,
                    "producer": one.producer_id,
                    "epoch": None if known is None else known.producer_epoch,
                    "coordinator": coordinator,
                    "timeout_ms": None if known is None else known.transaction_timeout_ms,
                    "begun_ms": None if begun_ms < 0 else begun_ms,
                    "overdue": known is not None and 0 <= begun_ms < now_ms - known.transaction_timeout_ms,
                    "partitions": [] if known is None else [str(one) for one in sorted(known.topic_partitions)],
                }
            )
    rows.sort(key=lambda row: (row["begun_ms"] is None, row["begun_ms"] or 0, row["id"]))
    return {"transactions": rows[:TRANSACTIONS_MAX], "left_out": max(0, len(rows) - TRANSACTIONS_MAX)}
