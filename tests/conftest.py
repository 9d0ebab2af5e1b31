"""Holds for all tests: what asyncio only logs is a failure, and so is a skip where every program is required.

`--processor N` tells which N files took most of the processor, with all the processes that they started.
"""

import gc
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
from xdist.scheduler import LoadScopeScheduling

from odradek.testing.foreign.downloads import DownloadFailed
from odradek.testing.foreign.kafka_jars import KafkaJars, kafka_jars, kraft_jars
from odradek.testing.needs import CANNOT_BE_HAD, allows_skip, need

TESTS = Path(__file__).parent
CACHE = TESTS.parent / ".cache"
ONE_CLUSTER = {"clients", "client/zookeeper", "docker", "failover", "robustness", "spark", "zk_schema"}
"""Folders whose fixtures start one for all of their tests."""
ALONE = {
    "clients/test_log_directories.py",
    "clients/test_old_segments_read.py",
    "robustness/test_disk_full.py",
    "robustness/test_mutated_requests.py",
    "robustness/test_zookeeper_away.py",
}
"""Files there that start their own, or none."""
BY_WIRE = {"test_offsets.py", "test_produce_and_fetch.py", "test_wire.py"}
"""Half of `clients`, on a cluster of its own: they need no program but ours."""
FIRST = (
    "demo",
    "spark",
    "clients",
    "failover",
    "console",
    "docker",
    "client/zookeeper",
    "robustness",
    "witness",
    "local",
    "deploy",
    "zk_schema",
)
"""Folders whose tests start brokers, those that take longest before: while one waits for something, units are run."""
hypothesis.settings.register_profile(
    "gate",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("gate")
"""The same examples each time, and as much time as the machine needs; `--hypothesis-profile default` draws others."""
FORGOTTEN = ("was never retrieved", "Task was destroyed but it is pending")


class Forgotten(logging.Handler):
    """Keeps what asyncio says of tasks and futures whose failure nobody has looked at."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if any(words in record.getMessage() for words in FORGOTTEN):
            self.said.append(logging.Formatter().format(record))

    def check(self) -> None:
        """Raise AssertionError when something has been forgotten since the last time."""
        said, self.said = self.said, []
        assert not said, "\n".join(said)


_forgotten = Forgotten()


@pytest.fixture(autouse=True)
def nothing_forgotten() -> Iterator[None]:
    """Fail the test that leaves a failed task behind, or the one after it, when that lay in a cycle until then."""
    yield
    _forgotten.check()


@pytest.fixture(scope="session")
def kafka() -> KafkaJars:
    """Apache Kafka itself; the first time it is fetched."""
    need("java", "mvn")
    try:
        return kafka_jars(CACHE / "kafka-3.9")
    except DownloadFailed as failed:
        pytest.skip(f"{CANNOT_BE_HAD}{failed}")


@pytest.fixture(scope="session")
def kraft() -> KafkaJars:
    """Apache Kafka 4; the first time it is fetched."""
    need("java", "mvn")
    try:
        return kraft_jars(CACHE / "kafka-4")
    except DownloadFailed as failed:
        pytest.skip(f"{CANNOT_BE_HAD}{failed}")


def group_of(path: Path) -> str:
    """The tests that run in one process, by the path of their file."""
    file = path.relative_to(TESTS).as_posix()
    folder = path.parent.relative_to(TESTS).as_posix()
    if path.name in BY_WIRE:
        return f"{folder}/by wire"
    return folder if folder in ONE_CLUSTER and file not in ALONE else file


class ByCluster(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Gives whatever shares a cluster to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(TESTS.parent / nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCluster | None:
    return ByCluster(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {TESTS / folder: place for place, folder in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.parent, len(FIRST)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have the garbage collector never look at what is there before the first test: modules and tests, a million."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor", type=int, default=0, metavar="N", help="tell the N files that took most of it")


def processor_seconds() -> float:
    """What this process and all that it has started took so far; what is no child of its parent any more is missed."""
    own = os.times()
    seconds = own.user + own.system + own.children_user + own.children_system
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


class Processor:
    """Notes on each report of a test's end what was spent since the one before, and tells the sums by file."""

    def __init__(self, files: int) -> None:
        self._files = files
        self._last = 0.0
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_collection_finish(self) -> None:
        self._last = processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            now = processor_seconds()
            report.user_properties.append(("processor", now - self._last))
            self._last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "processor" and isinstance(value, float):
                self._seconds[report.nodeid.partition("::")[0]] += value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"processor: {sum(self._seconds.values()):.0f} s")
        most = sorted(self._seconds.items(), key=lambda one: one[1], reverse=True)
        for file, seconds in most[: self._files]:
            terminalreporter.line(f"{seconds:7.1f} s  {file}")


def pytest_configure(config: pytest.Config) -> None:
    if files := config.getoption("processor"):
        config.pluginmanager.register(Processor(files), "processor")


def pytest_sessionstart(session: pytest.Session) -> None:
    logging.getLogger("asyncio").addHandler(_forgotten)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.collect()
    _forgotten.check()


@pytest.fixture(autouse=True, scope="module")
def no_client_of_kafka_python_is_left() -> Generator[None]:
    """They ask and log on for ever, in a thread, which other tests would see."""
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("kafka-io-")]
    assert not left, "clients of kafka-python that nobody closed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip that nothing allows is a failure."""
    report = yield
    if report.skipped and not allows_skip(str(report.longrepr)):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report
