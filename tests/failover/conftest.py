"""A cluster of three with a topic to write to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing.load import Observer
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[UpCluster]:
    with UpCluster(tmp_path / "cluster") as up:
        yield up


@pytest.fixture
def observer(cluster: UpCluster) -> Observer:
    one = Observer(cluster)
    one.create_topic()
    wait_until(one.in_sync, "all replicas in sync")
    return one
