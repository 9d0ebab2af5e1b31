"""Metrics of the coordinators of groups and transactions."""

from collections import Counter
from typing import Final

from odradek.broker.groups.group_metadata import GroupState
from odradek.broker.monitoring.metric import Kind, Metric, Samples, attribute, gauge, one, own
from odradek.broker.monitoring.observed import Observed


def _group_gauge(name: str, state: GroupState | None) -> Metric:
    def read(broker: Observed) -> Samples:
        groups = broker.services.groups.groups
        return one(sum(state in (None, group.metadata.state) for group in groups))

    text = "Groups that this broker coordinates" + (f", in state {state.value}." if state else ".")
    return gauge(f"kafka.coordinator.group:type=GroupMetadataManager,name={name}", text, read)


def _count(name: str, text: str, counter: str) -> Metric:
    return attribute(
        "kafka.server:type=group-coordinator-metrics",
        name,
        text,
        lambda b: one(getattr(b.services.groups.counters, counter)),
        kind=Kind.COUNTER,
    )


def _transactions(broker: Observed) -> Samples:
    _, found = broker.services.transactions.list_transactions()
    for status, count in Counter(str(state.status) for _, state in found).items():
        yield (status,), count


COORDINATORS: Final = (
    _group_gauge("NumGroups", None),
    _group_gauge("NumGroupsPreparingRebalance", GroupState.PREPARING_REBALANCE),
    _group_gauge("NumGroupsCompletingRebalance", GroupState.COMPLETING_REBALANCE),
    _group_gauge("NumGroupsStable", GroupState.STABLE),
    _group_gauge("NumGroupsDead", GroupState.DEAD),
    _group_gauge("NumGroupsEmpty", GroupState.EMPTY),
    gauge(
        "kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets",
        "Offsets that groups have committed.",
        lambda b: one(sum(len(group.offsets) for group in b.services.groups.groups)),
    ),
    _count("offset-commit-count", "Offsets that were committed.", "offset_commits"),
    _count("offset-expiration-count", "Committed offsets that have expired.", "offset_expirations"),
    _count("offset-deletion-count", "Committed offsets that OffsetDelete has removed.", "offset_deletions"),
    _count("group-completed-rebalance-count", "Rebalances that were completed.", "completed_rebalances"),
    own(
        "odradek_transactions",
        "Transactional ids that this broker coordinates, by state.",
        _transactions,
        "state",
        source="TransactionCoordinator",
    ),
)
