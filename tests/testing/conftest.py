"""One cluster for the tests of a module that leave it whole."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from odradek.testing import Cluster


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, trace=False) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Whole again after each test: faults are cleared, brokers run."""
    yield shared_cluster
    shared_cluster.clear()
    shared_cluster.heal()
    for broker in range(3):
        shared_cluster.resume(broker)
        if not shared_cluster.is_running(broker):
            shared_cluster.restart(broker)


_numbers = itertools.count()


@pytest.fixture
def new_topic(cluster: Cluster) -> Callable[..., str]:
    """Creates topics of names of their own."""

    def create(partitions: int = 1, **values: object) -> str:
        name = f"topic-{next(_numbers)}"
        cluster.create_topic(name, partitions, **values)  # type: ignore[arg-type]
        return name

    return create
