"""A cluster of three, which each test leaves whole, and a topic of the test's own to write to."""

from collections.abc import Iterator

import pytest

from odradek.testing.load import Observer
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpCluster]:
    # To be waited for after each kill, and longer than a busy machine keeps those that live from answering.
    overrides = ["zookeeper.session.timeout.ms=6000"]
    with UpCluster(tmp_path_factory.mktemp("failover") / "cluster", overrides=overrides) as up:
        yield up


@pytest.fixture
def observer(cluster: UpCluster, request: pytest.FixtureRequest) -> Observer:
    one = Observer(cluster, topic=f"{request.module.__name__.rpartition('.')[2]}.{request.node.name}")
    one.create_topic()
    wait_until(one.in_sync, "all replicas in sync")
    return one
