"""One cluster of three for all foreign clients, the clients themselves, and what tests share."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from odradek.testing import Cluster
from odradek.testing.foreign.aio import AiokafkaClient
from odradek.testing.foreign.confluent import ConfluentClient
from odradek.testing.foreign.downloads import COPY_JARS, JVM_FLAGS, DownloadFailed, compiled, fetch
from odradek.testing.foreign.driver import DriverClient
from odradek.testing.foreign.interface import Client, Record
from odradek.testing.foreign.kafka_jars import TOOLBOX
from odradek.testing.foreign.kafka_python import KafkaPythonClient
from odradek.testing.foreign.kcat import KcatClient
from odradek.testing.needs import CANNOT_BE_HAD, RUNTIMES, need
from odradek.testing.patience import PATIENCE_SECONDS, UNHURRIED

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache"
CLIENTS = ("confluent", "kafka-python", "aiokafka", "kcat", "kafkajs", "java")
OUR_ERRORS = ("Traceback (most recent call last)", "after an error of ours", "AssertionError")
ANY_ERRORS = (*OUR_ERRORS, " ERROR ", " CRITICAL ")


def check_log(log: Path, signs: Sequence[str]) -> None:
    lines = [line for line in log.read_text().splitlines() if any(sign in line for sign in signs)]
    assert not lines, "\n".join(lines[:20])


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for the data and the logs of the cluster and of the programs beside it."""
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="package")
def cluster(folder: Path) -> Iterator[Cluster]:
    """In a process of its own, as foreign clients expect; data are files, so that they are sent by sendfile.

    In the end no broker may have written of an error.
    """
    log = folder / "cluster.log"
    with Cluster(brokers=3, data=folder / "data", process=True, log=log, trace=False, settings=UNHURRIED) as cluster:
        yield cluster
        check_log(log, ANY_ERRORS)
    check_log(log, OUR_ERRORS)


@pytest.fixture(scope="package")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def new_topic(cluster: Cluster, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Creates topics whose names come from the test's and returns the name, when every broker knows it."""

    def create(suffix: str = "", partitions: int = 1, **config: str) -> str:
        name = re.sub(r"[^a-zA-Z0-9._-]+", "-", f"{request.path.stem[5:]}-{request.node.name[5:]}").strip("-")
        name += suffix
        cluster.create_topic(name, partitions, settings={key.replace("_", "."): value for key, value in config.items()})
        return name

    return create


@pytest.fixture(scope="session")
def make_records() -> Callable[..., list[Record]]:
    """Text that compresses well; a null key, a null value and different headers among it; times an hour ago."""

    def make(
        count: int = 30, *, headers: bool = True, headers_per_record: bool = True, nulls: bool = True
    ) -> list[Record]:
        first_ms = int(time.time() * 1000) - 3_600_000
        records = []
        for number in range(count):
            key = None if nulls and number == 3 else f"schlüssel-{number % 7}".encode()
            value = None if nulls and number == 5 else (f"Odradek {number}, a flat star-shaped spool. " * 5).encode()
            lines = (("kind", b"spool"), ("number", str(number if headers_per_record else 0).encode()))
            records.append(Record(key, value, lines if headers else (), first_ms + number * 1000))
        return records

    return make


def fetched(folder: Path, name: str, listing: str, command: Sequence[str]) -> Path:
    try:
        return fetch(folder, name, listing, command)
    except DownloadFailed as failed:
        pytest.skip(f"{CANNOT_BE_HAD}{failed}")


@pytest.fixture(scope="session")
def java_classpath() -> str:
    """Kafka's client and tools, from Maven; the first time takes a minute."""
    need(*RUNTIMES["java"])
    listing = (HERE / "java" / "pom.xml").read_text()
    return os.path.join(fetched(CACHE / "java", "pom.xml", listing, COPY_JARS), "jars", "*")


def java_program(source: Path, class_path: str, *arguments: str) -> list[str]:
    """The command for a program."""
    classes = compiled(source, CACHE / "java", class_path)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", *JVM_FLAGS, quiet, "-cp", f"{classes}{os.pathsep}{class_path}", source.stem, *arguments]


@pytest.fixture(scope="package")
def new_java(java_classpath: str, folder: Path) -> Callable[[Cluster], DriverClient]:
    """Starts a Java client of a cluster, to be closed by whoever asks."""

    def start(cluster: Cluster) -> DriverClient:
        command = java_program(HERE / "java" / "Driver.java", java_classpath, cluster.bootstrap)
        return DriverClient("java", command, folder / "java.log")

    return start


@pytest.fixture(scope="package")
def java(cluster: Cluster, new_java: Callable[[Cluster], DriverClient]) -> Iterator[DriverClient]:
    driver = new_java(cluster)
    yield driver
    driver.close()


@pytest.fixture(scope="package")
def start_toolbox(java_classpath: str, folder: Path) -> Iterator[Callable[[Cluster], Callable[..., tuple[int, str]]]]:
    """Runs Kafka's command line tools on a cluster, all in one Java."""
    drivers = []

    def start(cluster: Cluster) -> Callable[..., tuple[int, str]]:
        driver = DriverClient("toolbox", java_program(TOOLBOX, java_classpath), folder / "toolbox.log")
        drivers.append(driver)

        def run(main: str, *arguments: str, input: str = "", named: bool = True) -> tuple[int, str]:
            """`named`: the cluster's address is given by --bootstrap-server, otherwise not at all."""
            server = ("--bootstrap-server", cluster.bootstrap) if named else ()
            answer = driver.ask("run", main=main, arguments=[*server, *arguments], input=input)
            return answer["code"], answer["said"]

        return run

    yield start
    for driver in drivers:
        driver.close()


@pytest.fixture(scope="package")
def toolbox(
    cluster: Cluster, start_toolbox: Callable[[Cluster], Callable[..., tuple[int, str]]]
) -> Callable[..., tuple[int, str]]:
    """Runs one of Kafka's command line tools, by the name of its class: its exit code and what it says."""
    return start_toolbox(cluster)


@pytest.fixture(scope="package")
def tool(toolbox: Callable[..., tuple[int, str]]) -> Callable[..., str]:
    """Runs one that must end well; what it says."""

    def run(main: str, *arguments: str, **options: Any) -> str:
        code, said = toolbox(main, *arguments, **options)
        assert code == 0, said
        return said

    return run


@pytest.fixture(scope="session")
def kafkajs_folder() -> Path:
    """Folder with KafkaJS and all that it needs."""
    need(*RUNTIMES["kafkajs"])
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    return fetched(CACHE / "kafkajs", "package.json", (HERE / "kafkajs" / "package.json").read_text(), command)


@pytest.fixture(scope="package")
def kafkajs(cluster: Cluster, kafkajs_folder: Path, folder: Path) -> Iterator[DriverClient]:
    command = ["node", str(HERE / "kafkajs" / "driver.js"), cluster.bootstrap, str(kafkajs_folder)]
    driver = DriverClient("kafkajs", command, folder / "kafkajs.log")
    yield driver
    driver.close()


@pytest.fixture(scope="package")
def kcat(cluster: Cluster) -> KcatClient:
    need(*RUNTIMES["kcat"])
    return KcatClient(cluster.bootstrap)


@pytest.fixture(scope="package")
def confluent(cluster: Cluster) -> ConfluentClient:
    return ConfluentClient(cluster.bootstrap)


@pytest.fixture(scope="package")
def get_client(cluster: Cluster, confluent: ConfluentClient, request: pytest.FixtureRequest) -> Callable[[str], Client]:
    """A client by its name; the test is skipped where its runtime is missing."""
    in_python: dict[str, Client] = {
        "confluent": confluent,
        "kafka-python": KafkaPythonClient(cluster.bootstrap),
        "aiokafka": AiokafkaClient(cluster.bootstrap),
    }

    def get(name: str) -> Client:
        client: Client = in_python.get(name) or request.getfixturevalue(name)
        return client

    return get


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, get_client: Callable[[str], Client]) -> Client:
    """Each in its turn."""
    return get_client(request.param)


@pytest.fixture(scope="package")
def admin_groups(admin: AdminClient) -> Callable[[str], str]:
    """The state of a group, by its name."""

    def state(group: str) -> str:
        described = admin.describe_consumer_groups([group])[group].result(PATIENCE_SECONDS)
        return str(described.state.name)

    return state
