"""One cluster of three and one Spark session for all tests, with Spark's own connector beside ours."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from odradek import KafkaAdminClient, NewTopic
from odradek.client.spark import register
from odradek.testing import Cluster
from odradek.testing.foreign.downloads import COPY_JARS, DownloadFailed, fetch
from odradek.testing.foreign.spark_home import spark_environment
from odradek.testing.needs import lacking
from odradek.testing.patience import UNHURRIED

HERE = Path(__file__).parent
CONNECTOR = HERE.parent.parent / ".cache" / "spark-kafka"


@pytest.fixture(scope="package", autouse=True)
def java_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For the JVMs of this process and of those it starts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment(tmp_path_factory.mktemp("spark")).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """In a process of its own, its data in files."""
    with Cluster(3, data=tmp_path_factory.mktemp("cluster"), process=True, trace=False, settings=UNHURRIED) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def connector_jars() -> list[Path]:
    """Of Spark's own connector; none where Maven, or what it asks, is missing. Fetched anew when the listing is new."""
    if lacking("mvn"):
        return []
    try:
        fetch(CONNECTOR, "pom.xml", (HERE / "kafka_connector" / "pom.xml").read_text(), COPY_JARS)
    except DownloadFailed:
        return []
    return sorted((CONNECTOR / "jars").glob("*.jar"))


@pytest.fixture(scope="package")
def spark(connector_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {
        "spark.jars": ",".join(map(str, connector_jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    register(session)
    yield session
    session.stop()


@pytest.fixture
def new_topic(cluster: Cluster, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Creates topics whose names come from the test's and returns the name."""

    def create(partitions: int = 1, suffix: str = "", replicas: int = 1, **configs: str) -> str:
        name = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-") + suffix
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions, replicas, configs=settings)])
        return name

    return create


@pytest.fixture
def load(spark: SparkSession, cluster: Cluster) -> Callable[..., DataFrame]:
    """A batch query: `load(topic, startingOffsets=…)`, of another format or cluster when told so."""

    def read(topic: str, format: str = "odradek", **options: str) -> DataFrame:
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}
        return spark.read.format(format).options(**given).load()

    return read
