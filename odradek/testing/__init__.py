"""Tools for tests of programs that use Kafka, and for this project's own.

`Cluster` is a whole cluster inside a test; `run` and `explore` run tests on virtual time: docs/testing-with-odradek.md.
`OdradekContainer` is a cluster in a container; it needs the testcontainers package and an engine. Everything else is
simulated parts of the world (the same protocols as odradek/world, with faults on demand) and what tests share:

    cluster/                `Cluster`, its faults, its looks inside; pytest_plugin: as fixtures
    embedded                brokers in this process on the parts below: what `Cluster` and the simulator stand on
    simulation/             a cluster, clients and faults from one seed; seeds: those that have failed once
    exploration, virtual_run    an application's own test under such faults, or on virtual time alone
    planted_bugs            mistakes that the simulator has to find
    crashes/                a broker's logs on a disk that stops at any byte

    virtual_clock           time                            virtual_network     a network; virtual_pipe: its ways; cuts
    virtual_process         processes; process_loop         socket_network      a real one that a test can cut
    simulated_files         files, on a simulated_disk      small_disk          a real one
    memory_zookeeper        ZooKeeper: memory_tree, its data; memory_ensemble, its servers; memory_store and
                            memory_calls, its clients
    background_work         work beside the loop

    beside/                 the same stories to Apache Kafka and to Odradek, answers compared
    client_contract/        what our clients promise, run in several worlds
    foreign/                clients and brokers that others have written
    up, broker_process, zookeeper_process, forked    real processes that a test starts and kills
    container, compose      the same in containers

    log_environments, compacted_log, old_segments    logs and partitions without a broker
    usual_requests, plausible_requests, mutated_requests, authorization_requests, authorization_cases,
    authorization_record    requests: usual ones, random ones, one for each right
    transaction_bench, transaction_history, balanced_group, spark_stage, load    stages and what is seen on them
    askers, scraping, memory, needs, patience    what a test looks at, needs and waits for
    way_through             the ways of docs/architecture.md, traced
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
