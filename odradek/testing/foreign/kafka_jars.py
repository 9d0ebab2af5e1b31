"""Apache Kafka 3.9.1 itself, from Maven Central: its broker, its tools, whatever is in its jars. And the newest one,
which knows no ZooKeeper: one process that is broker and controller."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from odradek.local.ports import free_ports
from odradek.testing.broker_process import BrokerProcess
from odradek.testing.foreign.downloads import COPY_JARS, JVM_FLAGS, compiled, fetch
from odradek.testing.patience import PATIENCE_SECONDS

VERSION = "3.9.1"
KRAFT_VERSION = "4.4.0"
"""The newest of those without ZooKeeper."""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>odradek</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>{more}
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>1.7.36</version></dependency>
</dependencies></project>"""
TOOLS = f"""
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>"""
"""A release of Kafka has its tools beside the broker, and logs through reload4j; the broker's jar asks for neither."""

QUIET_FLAGS = ("-Xlog:disable", "-Xlog:all=error")
"""What Java has to say of its archive of classes is no complaint of Kafka's."""
HEAP_MB = 192
TOOLBOX = Path(__file__).with_name("Toolbox.java")
"""Runs tools one after another in one Java machine, which would otherwise start for each."""

LOG4J = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
CALLS_ITSELF_TOO_EARLY = ("could not be established", "was unsuccessful", "java.io.IOException: Connection to")
"""A broker that is its own controller always says so: its listener opens a moment after its election."""
KNOWS_NOBODY_YET = "larger than available brokers: 0"
"""Refusal of a broker whose controller has not told it yet who is there; clients ask again."""
RETENTION_MEETS_COMPACTION = ("in scheduled task 'kafka-log-retention'", "cannot be resumed since it is not paused")
"""Kafka's own race of two chores that run every few hundred milliseconds here; the next turn does the work."""
SNAPSHOT_HAS_GONE = re.compile(r"WARN Failed to flush file (\S+\.snapshot) ")
"""Kafka's words when a snapshot of producers is deleted before it is flushed in the background, which it expects
(Utils.flushFileIfExists); its NoSuchFileException follows."""
ARCHIVING_SECONDS = 4 * PATIENCE_SECONDS
"""How long the broker may take to end that writes the archive: ten thousand classes."""
OF_THE_ARCHIVE = "[warning][cds"
"""The Java machine's own words, of classes that it cannot keep."""


@dataclass(frozen=True)
class KafkaJars:
    """Jars that Maven has put into `directory/jars`."""

    directory: Path

    @property
    def archive(self) -> Path:
        """The classes of a broker as the Java machine has loaded them, once a broker has left that: starts in 1.5 s.

        It holds for these jars and this Java alone, which its name says.
        """
        files = [*self._jars, Path(shutil.which("java") or "java").resolve()]
        stats = [(str(file), (found := file.stat()).st_size, found.st_mtime_ns) for file in files]
        return self.directory / f"broker-{sha256(repr(stats).encode()).hexdigest()[:12]}.jsa"

    @property
    def _jars(self) -> list[Path]:
        return sorted((self.directory / "jars").glob("*.jar"))

    def java(self, main: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
        """Return the command that runs a main class."""
        class_path = ":".join(map(str, self._jars))
        return ["java", *JVM_FLAGS, *QUIET_FLAGS, f"-Xmx{HEAP_MB}m", *flags, "-cp", class_path, main, *arguments]

    def program(self, source: Path, *arguments: str) -> list[str]:
        """Return the command that runs a program of ours with them."""
        class_path = ":".join(map(str, self._jars))
        classes = compiled(source, self.directory, class_path)
        # Behind the jars: an archive holds for class paths that begin as its own.
        flags = (*JVM_FLAGS, *QUIET_FLAGS, *self._known_archive(), f"-Xmx{HEAP_MB}m")
        return ["java", *flags, "-cp", f"{class_path}:{classes}", source.stem, *arguments]

    def _known_archive(self) -> tuple[str, ...]:
        archive = self.archive
        return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()

    def run(self, main: str, *arguments: str) -> str:
        """Return what a tool says, on both outputs. Raises AssertionError when it fails."""
        command = self.java(main, *arguments, flags=self._known_archive())
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout + done.stderr

    def run_each(self, main: str, runs: Sequence[Sequence[str]]) -> list[str]:
        """Return what a tool says each time that it is run with one of these lists of arguments, in one Java machine.

        Raises AssertionError when it fails.
        """
        asked = "".join(json.dumps({"main": main, "arguments": list(one), "input": ""}) + "\n" for one in runs)
        done = subprocess.run(
            self.program(TOOLBOX), input=asked, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert [one.get("code") for one in answers] == [0] * len(runs), (done.stdout + done.stderr)[-3000:]
        return [one["said"] for one in answers]


def kafka_jars(directory: Path) -> KafkaJars:
    """Fetches them the first time, which takes a minute. Raises DownloadFailed."""
    return KafkaJars(fetch(directory, "pom.xml", POM.format(version=VERSION, more=TOOLS), COPY_JARS))


def kraft_jars(directory: Path) -> KafkaJars:
    """Fetches those of Kafka 4 the first time. Raises DownloadFailed."""
    return KafkaJars(fetch(directory, "pom.xml", POM.format(version=KRAFT_VERSION, more=""), COPY_JARS))


class KafkaBroker(BrokerProcess):
    """Kafka's own broker as a process, from the same properties file as ours."""

    complaint_marks = ("] WARN ", "] ERROR ", "] FATAL ", "Exception")

    def __init__(self, jars: KafkaJars, properties: Path, address: str, log: Path, *, once: bool = False) -> None:
        """`once`: it is started once only, so that an archive of its classes would cost more than it saves."""
        log4j = properties.with_name("log4j.properties")
        log4j.write_text(LOG4J)
        self._jars = jars
        self._fresh_archive = properties.with_name("broker.jsa")
        self._keeper: TextIO | None = None
        kept = () if once else self._archive_flags()
        temporary = f"-Djava.io.tmpdir={properties.parent}"  # a killed one leaves its native libraries there
        flags = (*kept, "-Djava.awt.headless=true", temporary, f"-Dlog4j.configuration=file:{log4j}")
        super().__init__("kafka", jars.java("kafka.Kafka", str(properties), flags=flags), address, log)

    def _archive_flags(self) -> tuple[str, ...]:
        """Have the archive used; where there is none, have one broker of all processes leave it: that costs seconds."""
        if not self._jars.archive.exists():
            self._keeper = self._jars.directory.joinpath("broker.lock").open("w")
            try:
                fcntl.flock(self._keeper, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._leave_to_others()
                return ()
        known = self._jars.archive
        if known.exists():
            self._leave_to_others()
            return (f"-XX:SharedArchiveFile={known}",)
        self.ending_seconds = ARCHIVING_SECONDS
        return (f"-XX:ArchiveClassesAtExit={self._fresh_archive}",)

    def _leave_to_others(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def stop(self) -> None:
        super().stop()
        if self._fresh_archive.exists() and self._keeper is not None:
            known = self._jars.archive
            for outdated in known.parent.glob("broker*.jsa"):
                outdated.unlink(missing_ok=True)
            beside = known.with_suffix(f".{os.getpid()}")
            beside.write_bytes(self._fresh_archive.read_bytes())
            beside.rename(known)

    def _end(self, number: signal.Signals) -> int:
        code = super()._end(number)
        if number != signal.SIGTERM:
            self._leave_to_others()
        return code

    def close(self) -> None:
        super().close()
        self._leave_to_others()

    def complaints(self, *, but: Sequence[str] = ()) -> list[str]:
        usual = (*CALLS_ITSELF_TOO_EARLY, KNOWS_NOBODY_YET, *RETENTION_MEETS_COMPACTION, OF_THE_ARCHIVE)
        found = super().complaints(but=(*usual, *but))
        gone = {f"java.nio.file.NoSuchFileException: {path}" for path in SNAPSHOT_HAS_GONE.findall("\n".join(found))}
        return [line for line in found if line not in gone and not SNAPSHOT_HAS_GONE.search(line)]


KRAFT_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
KRAFT_PROPERTIES = """\
process.roles=broker,controller
node.id=0
controller.quorum.voters=0@{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{address},CONTROLLER://{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
log.cleaner.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
group.initial.rebalance.delay.ms=0
num.network.threads=1
num.io.threads=2
background.threads=2
"""


def new_kraft_broker(jars: KafkaJars, directory: Path) -> KafkaBroker:
    """Make a cluster of one broker in an empty directory: formatted, and not started."""
    address, controller = (f"127.0.0.1:{port}" for port in free_ports(2))
    file = directory / "server.properties"
    file.write_text(KRAFT_PROPERTIES.format(address=address, controller=controller, data=directory / "data"))
    jars.run("kafka.tools.StorageTool", "format", "--cluster-id", KRAFT_CLUSTER_ID, "--config", str(file))
    return KafkaBroker(jars, file, address, directory / "kafka.log", once=True)
