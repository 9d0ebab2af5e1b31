"""Kafka's own broker as a process, from the same properties file as ours."""

import os
from collections.abc import Sequence
from pathlib import Path

from odradek.testing.broker_process import BrokerProcess
from odradek.testing.foreign.kafka_jars import KafkaJars

LOG4J = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
CALLS_ITSELF_TOO_EARLY = ("could not be established", "was unsuccessful", "java.io.IOException: Connection to")
"""A broker that is its own controller always says so: its listener opens a moment after its election."""
OF_THE_ARCHIVE = "[warning][cds"
"""The Java machine's own words, of classes that it cannot keep."""


class KafkaBroker(BrokerProcess):
    complaint_marks = ("] WARN ", "] ERROR ", "] FATAL ", "Exception")

    def __init__(self, jars: KafkaJars, properties: Path, address: str, log: Path) -> None:
        log4j = properties.with_name("log4j.properties")
        log4j.write_text(LOG4J)
        self._jars = jars
        self._fresh_archive = properties.with_name("broker.jsa")
        known = jars.archive
        archive = f"SharedArchiveFile={known}" if known.exists() else f"ArchiveClassesAtExit={self._fresh_archive}"
        flags = (f"-XX:{archive}", "-Djava.awt.headless=true", f"-Dlog4j.configuration=file:{log4j}")
        super().__init__("kafka", jars.java("kafka.Kafka", str(properties), flags=flags), address, log)

    def stop(self) -> None:
        super().stop()
        known = self._jars.archive
        if self._fresh_archive.exists() and not known.exists():
            for outdated in known.parent.glob("broker*.jsa"):
                outdated.unlink(missing_ok=True)
            beside = known.with_suffix(f".{os.getpid()}")
            beside.write_bytes(self._fresh_archive.read_bytes())
            beside.rename(known)

    def complaints(self, *, but: Sequence[str] = ()) -> list[str]:
        return super().complaints(but=(*CALLS_ITSELF_TOO_EARLY, OF_THE_ARCHIVE, *but))
