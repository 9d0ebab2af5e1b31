"""Simulated parts of the world for tests: the same protocols as odradek/world, with faults on demand.

For tests of programs that use a cluster: `OdradekContainer`, which needs the testcontainers package and an engine.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.testing.container import OdradekContainer

__all__ = ["OdradekContainer"]


def __getattr__(name: str) -> Any:
    if name != "OdradekContainer":
        raise AttributeError(f"module 'odradek.testing' has no attribute {name!r}")
    from odradek.testing.container import OdradekContainer

    return OdradekContainer
