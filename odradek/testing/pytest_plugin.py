"""pytest fixtures `kafka` and `kafka_cluster`; installing Odradek is enough, nothing has to be imported.

    def test_orders(kafka):
        topic = kafka.topic("orders", partitions=3)
        place_orders(kafka.bootstrap, topic)
        assert [record.value for record in kafka.records(topic)] == [...]

`kafka` is one cluster for all tests of a run; after each test its faults end and the test's topics are deleted.
`kafka_cluster` is a new cluster for each test. The report of a failed test says what happened to its cluster. Odradek
is imported only when a test asks for one of the two.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odradek.testing.cluster.blocking import Cluster
    from odradek.testing.cluster.of_tests import ClusterOfTests

FIXTURES = ("kafka", "kafka_cluster")
SECTION = "Kafka: what happened"
LINES_MAX = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--kafka-brokers` and `--kafka-keep`."""
    group = parser.getgroup("kafka", "Odradek: a Kafka cluster for tests")
    group.addoption("--kafka-brokers", type=int, default=3, metavar="N", help="brokers of each cluster (default: 3)")
    group.addoption(
        "--kafka-keep",
        action="store_true",
        help="write the data of clusters to files, and keep them and all topics after the tests",
    )


@pytest.fixture(scope="session")
def _kafka_of_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[ClusterOfTests]":
    from odradek.testing.cluster.of_tests import ClusterOfTests

    keep = request.config.getoption("--kafka-keep")
    folder = tmp_path_factory.mktemp("kafka") if keep else None
    with ClusterOfTests(request.config.getoption("--kafka-brokers"), data=folder) as cluster:
        _say_where(request.config, folder)
        yield cluster


@pytest.fixture
def kafka(request: pytest.FixtureRequest, _kafka_of_session: "ClusterOfTests") -> "Iterator[ClusterOfTests]":
    """Cluster that all tests of the run share; each test finds it without faults and with all brokers running.

    `kafka.topic()` creates a topic whose name no other test uses. What a test creates is deleted after it.
    """
    _kafka_of_session.begin(request.node.name)
    yield _kafka_of_session
    _kafka_of_session.mend(keep=request.config.getoption("--kafka-keep"))


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """Cluster of its own for this test, started before it and closed after it."""
    from odradek.testing.cluster.blocking import Cluster

    folder = tmp_path_factory.mktemp("kafka") if request.config.getoption("--kafka-keep") else None
    with Cluster(request.config.getoption("--kafka-brokers"), data=folder) as cluster:
        _say_where(request.config, folder)
        yield cluster


def _say_where(config: pytest.Config, folder: object) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if folder is not None and reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(f"Kafka's data: {folder}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Put into the report of a test that has failed what happened to its cluster."""
    report = yield
    if call.when == "call" and report.failed:
        for name in FIXTURES:
            cluster = getattr(item, "funcargs", {}).get(name)
            if cluster is not None and hasattr(cluster, "timeline"):
                report.sections.append((SECTION, _transcript(cluster)))
    return report


def _transcript(cluster: "Cluster") -> str:
    from odradek.testing.cluster.options import ClusterError

    try:
        began_ms = getattr(cluster, "began_ms", 0.0)
        lines = [str(one) for one in cluster.timeline(requests=True).moments if one.at_ms >= began_ms]
    except ClusterError as error:  # the test has closed it
        return str(error)
    left_out = [f"({len(lines) - LINES_MAX} lines before)"] if len(lines) > LINES_MAX else []
    return "\n".join([*left_out, *lines[-LINES_MAX:]]) or "nothing"
