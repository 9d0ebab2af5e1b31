"""Situations of a partition whose readers of committed data wait."""

from odradek.diagnosis.cases import PARTITION, PartitionCase
from odradek.diagnosis.facts import OpenTransaction
from odradek.diagnosis.situation import Told, WayOut, Weight

row = PARTITION.row


@row(
    Weight.STOPPED,
    "KIP-664; transaction.max.timeout.ms",
    "`odradek transactions abort T-P --producer-id … --producer-epoch …`",
)
def hanging_transaction(case: PartitionCase) -> Told | None:
    """A transaction is open in the partition that no coordinator knows: it will never end, and read_committed consumers
    wait."""
    hanging = next((one for one in case.partition.transactions if one.state == ""), None)
    if hanging is None or not case.is_led:
        return None
    whose = f"producer {hanging.producer_id}, epoch {hanging.producer_epoch}, began it at offset {hanging.start_offset}"
    by = f"--producer-id {hanging.producer_id} --producer-epoch {hanging.producer_epoch}"
    return Told(
        f"has had a hanging transaction since {case.time(hanging.last_timestamp_ms)}",
        f"{whose}; no coordinator knows it any more",
        _held_back(case),
        (case.way("end it", f"transactions abort {case.name} {by}"),),
        hanging.last_timestamp_ms,
    )


@row(
    Weight.NOTE,
    "isolation.level=read_committed; transaction.timeout.ms",
    "its timeout ends it, or its producer when it starts again",
)
def open_transaction(case: PartitionCase) -> Told | None:
    """An open transaction holds back read_committed consumers: they see nothing from its first record on."""
    first = min(
        (one for one in case.partition.transactions if one.state != ""), key=lambda one: one.start_offset, default=None
    )
    if first is None or not case.is_led:
        return None
    return Told(
        f"shows read_committed consumers nothing from offset {case.partition.last_stable_offset} on",
        transaction_of(case, first),
        _held_back(case),
        (WayOut("it ends by itself at its timeout, or when its producer starts again"),),
        first.last_timestamp_ms,
    )


def transaction_of(case: PartitionCase, one: OpenTransaction) -> str:
    """Tell in a clause whose transaction is open, its state and its last record."""
    left = ""
    if one.timeout_ms is not None:
        left = f", transaction.timeout.ms={one.timeout_ms}"
    since = case.time(one.last_timestamp_ms)
    whose = one.transactional_id or f"producer {one.producer_id}"
    return f"the transaction of {whose} is {one.state or 'open'} (last record {since}{left})"


def _held_back(case: PartitionCase) -> str:
    stable, end = case.partition.last_stable_offset, case.partition.high_watermark
    return "" if stable is None or end is None else f"read_committed ends at {stable}, the log at {end}"
