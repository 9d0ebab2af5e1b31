"""Kafka's assignors by name."""

from odradek.client.consumer.assignors.assignment import Assignor
from odradek.client.consumer.assignors.range_assignor import RangeAssignor
from odradek.client.consumer.assignors.round_robin_assignor import RoundRobinAssignor
from odradek.client.consumer.assignors.sticky_assignors import CooperativeStickyAssignor, StickyAssignor

ASSIGNORS: dict[str, Assignor] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobinAssignor(),
    "sticky": StickyAssignor(),
    "cooperative-sticky": CooperativeStickyAssignor(),
}
"""Assignors by the names that settings may give; the names of Kafka's Java classes are accepted, too (config.py)."""
