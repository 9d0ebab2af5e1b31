"""Holds for all tests: what asyncio only logs is a failure, and so is a skip where every program is required.

`--processor N` tells which N files took most of the processor, with all the processes that they started.
"""

import gc
import logging
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadScopeScheduling

from odradek.testing.foreign.downloads import DownloadFailed
from odradek.testing.foreign.kafka_jars import KafkaJars, kafka_jars, kraft_jars
from odradek.testing.needs import CANNOT_BE_HAD, allows_skip, need

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a suite that a script runs in the background: the programs that its tests interrupt would inherit this, and go on
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
    "spark/test_pipeline.py",
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
providers._get_local_constants = lambda: providers._local_constants
"""Hypothesis mixes numbers and texts from the source of all imported modules into its examples: which, depends on what
ran before in this process. And reading a thousand files takes seconds."""
OWN_LOGGERS = ("odradek", "kafka.", "state.change.logger")
SILENT = ("waitpid-", "login_")
"""Threads that only wait: for a child process (asyncio's), or for the next login of this process's clients."""
KAFKA_PYTHONS = "kafka-io-"
"""Threads of kafka-python's clients, which no fixture keeps from one module to the next."""
ENDING_SECONDS = 60.0
"""For a thread that has been told to end, on a busy machine."""
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
    for child in started_by(os.getpid()):
        try:
            times = psutil.Process(child).cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def started_by(process: int) -> list[int]:
    """Return the processes that it has started, and those that they have.

    The kernel knows them. psutil would read all processes of the machine, 5 ms after each of thousands of tests.
    """
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):  # it has ended, or this is no Linux
        return found
    return found + [one for child in found for one in started_by(child)]


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
def nothing_is_left_to_others(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the module that leaves a thread, or changes what the tests of this process share.

    A client that nobody closed asks and logs on for ever; which tests see that, depends on the order.
    """
    if group_of(request.path) != request.path.relative_to(TESTS).as_posix():
        yield  # what its folder shares may have begun in it
        foreign = [one.name for one in threading.enumerate() if one.name.startswith(KAFKA_PYTHONS)]
        assert not foreign, f"clients that nobody closed: {foreign}"
        return
    threads, shared = set(threading.enumerate()), what_is_shared()
    known = set(logging.Logger.manager.loggerDict)
    yield
    left = [one for one in threading.enumerate() if one not in threads and not one.name.startswith(SILENT)]
    for thread in left:
        thread.join(ENDING_SECONDS)
    assert not (running := [thread.name for thread in left if thread.is_alive()]), f"threads that go on: {running}"
    now = what_is_shared()
    imported = {f"logger: {name}" for name in logging.Logger.manager.loggerDict if name not in known}
    changed = sorted(name for name in {*now, *shared} - imported if now.get(name) != shared.get(name))
    assert not changed, f"changed for the tests after it: {changed}"


def what_is_shared() -> dict[str, object]:
    """Environment, working directory and levels of logging, as far as tests can change them."""
    loggers = logging.Logger.manager.loggerDict
    return {
        **{f"environment: {name}": text for name, text in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        **{
            f"logger: {name}": (one.level, one.disabled)
            for name, one in loggers.items()
            if isinstance(one, logging.Logger) and name.startswith(OWN_LOGGERS) and (one.level or one.disabled)
        },
        "all loggers": (logging.root.level, logging.root.manager.disable),
        "working directory": Path.cwd(),
        "collector": gc.isenabled(),
        "switch interval": sys.getswitchinterval(),
    }


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Hears only threads that began after it, and its own: others' clusters in this process may log at any time."""
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]

    def own(record: logging.LogRecord) -> bool:
        return all(record.thread != thread.ident or not thread.is_alive() for thread in others)

    caplog.handler.addFilter(own)
    yield caplog
    caplog.handler.removeFilter(own)


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
