"""Ports that processes find free at the same time."""

from odradek.local.ports import free_port_range
from odradek.testing.forked import in_a_child


def test_a_fork_looks_elsewhere() -> None:
    """Both would find the same port free, and both would listen on it."""
    found = [int(in_a_child(lambda: str(free_port_range(1)))) for _ in range(3)]
    assert len({free_port_range(1), *found}) == 4
