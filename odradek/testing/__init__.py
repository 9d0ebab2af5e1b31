"""Tools for tests of programs that use Kafka, and for this project's own.

`Cluster` is a whole cluster inside a test; `run` and `explore` run tests on virtual time: docs/testing-with-odradek.md.
`OdradekContainer` is a cluster in a container; it needs the testcontainers package and an engine. Everything else is
simulated parts of the world: the same protocols as odradek/world, with faults on demand.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.testing.cluster.blocking import Cluster
    from odradek.testing.cluster.control import AsyncCluster
    from odradek.testing.cluster.options import ClusterError
    from odradek.testing.container import OdradekContainer
    from odradek.testing.exploration import explore
    from odradek.testing.virtual_run import run

_HOMES = {
    "AsyncCluster": "odradek.testing.cluster.control",
    "Cluster": "odradek.testing.cluster.blocking",
    "ClusterError": "odradek.testing.cluster.options",
    "OdradekContainer": "odradek.testing.container",
    "explore": "odradek.testing.exploration",
    "run": "odradek.testing.virtual_run",
}
"""Public name → the module that defines it."""

__all__ = ["AsyncCluster", "Cluster", "ClusterError", "OdradekContainer", "explore", "run"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'odradek.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
