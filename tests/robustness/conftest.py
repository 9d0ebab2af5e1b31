"""One broker for all tests that do it no harm, and a client that goes on producing to it meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing.load import PARTITIONS, TOPIC, Load, check_nothing_lost
from odradek.testing.memory import PeakMemory
from odradek.testing.needs import CANNOT_BE_HAD
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.up import UpCluster

BAD_TOPICS = {"bad": {}, "compacted": {"cleanup.policy": "compact"}}
SIGNS_OF_A_BUG = ("Traceback (most recent call last)", "after an error of ours", "AssertionError")


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpCluster]:
    """A cluster of one, with topics for the good client and for the bad ones. It may not write of a bug of ours."""
    # Its session outlasts what a busy machine keeps it waiting: it is not to lose its id to a test's broker.
    overrides = ["zookeeper.session.timeout.ms=10000"]
    with UpCluster(tmp_path_factory.mktemp("robustness") / "cluster", brokers=1, overrides=overrides) as up:
        admin = AdminClient({"bootstrap.servers": up.bootstrap})
        topics = [NewTopic(TOPIC, PARTITIONS, 1)]
        topics += [NewTopic(name, 3, 1, config=config) for name, config in BAD_TOPICS.items()]
        for created in admin.create_topics(topics).values():
            created.result(PATIENCE_SECONDS)
        yield up
        log = up.log_file(0).read_text()
        assert not any(sign in log for sign in SIGNS_OF_A_BUG), log[-5000:]


@pytest.fixture(scope="package")
def good_client(broker: UpCluster) -> Iterator[Load]:
    """Produces all the time; in the end nothing that it was acknowledged is missing."""
    with Load(broker.bootstrap, producers=1) as load:
        yield load
    check_nothing_lost(load, broker.bootstrap)


@pytest.fixture
def undisturbed(good_client: Load) -> Iterator[None]:
    """What the test does keeps the good client from nothing."""
    assert not good_client.failed, good_client.failed[:3]
    yield
    wait_until(good_client.goes_on(), "writes of the good client")
    assert not good_client.failed, good_client.failed[:3]


@pytest.fixture
def memory(broker: UpCluster) -> PeakMemory:
    """Of the shared broker, from the test's beginning."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip(f"{CANNOT_BE_HAD}memory is measured with Linux's /proc")
    return PeakMemory(broker.pid(0))
