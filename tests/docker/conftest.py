"""The image, once, and the cluster of docker-compose.yml, once for its tests; each of them has a topic of its own."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing.compose import ComposeCluster
from odradek.testing.load import Observer
from odradek.testing.needs import need
from odradek.testing.patience import wait_until

REPOSITORY = Path(__file__).parents[2]

# testcontainers' reaper is one more image to fetch; everything here is left by `with`.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")


@pytest.fixture(scope="session")
def engine() -> None:
    need("docker")


@pytest.fixture(scope="session")
def image(engine: None) -> None:
    """Of the source as it is."""
    subprocess.run(["docker", "compose", "build", "--quiet"], cwd=REPOSITORY, check=True)


@pytest.fixture(scope="module")
def cluster(image: None) -> Iterator[ComposeCluster]:
    with ComposeCluster(REPOSITORY) as one:
        yield one


@pytest.fixture
def observer(cluster: ComposeCluster, request: pytest.FixtureRequest) -> Observer:
    one = Observer(cluster, topic=request.node.name.replace("[", ".").rstrip("]"))
    one.create_topic()
    wait_until(one.in_sync, "all replicas in sync")
    return one
