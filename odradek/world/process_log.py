"""The log of a process: lines for people or JSON, on stderr or in rotated files under Kafka's names.

`ODRADEK_LOG_LEVEL` (INFO) and `ODRADEK_LOG_FORMAT` (text, json) hold for a broker from its first line on, and for its
child processes; its settings `logger.format` and `logger.dir` take over when they have been read. Children stay on
stderr: two processes cannot rotate one file.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

FORMAT_VARIABLE: Final = "ODRADEK_LOG_FORMAT"
LEVEL_VARIABLE: Final = "ODRADEK_LOG_LEVEL"
JSON, TEXT = "json", "text"

FILES: Final[dict[str, str]] = {
    "": "server.log",
    "odradek.controller": "controller.log",
    "state.change.logger": "state-change.log",
    "kafka.request.logger": "kafka-request.log",
    "kafka.authorizer.logger": "kafka-authorizer.log",
    "odradek.broker.log.compaction": "log-cleaner.log",
}
"""Loggers with a file of their own, as in the log4j.properties that Kafka ships; all others write into the root's."""
LEVEL_NAMES: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}
"""Python's names where Kafka has others."""


class TextLines(logging.Formatter):
    """Write a record as one line for people. Names in it may be what a client has chosen: no part of it may look like
    another line, or steer a terminal. A traceback stands on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", datefmt="%Y-%m-%d %H:%M:%S")

        self._second, self._second_in_words = -1, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        """Format the second, and again only when it is another: ten thousand partitions are logged within a few."""
        second = int(record.created)
        if second != self._second:
            self._second, self._second_in_words = second, super().formatTime(record, datefmt)
        return self._second_in_words

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line = f"{record.asctime}.{int(record.msecs):03d} {record.levelname} {record.name}: {record.message}"
        if line.isprintable():
            return line
        return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)


class JsonLines(logging.Formatter):
    """Write a record as one JSON object on one line: `time`, `level`, `logger`, `message`; `broker` and `error` where
    there are any, and the fields that whoever logged gave as `extra={"fields": …}`, perhaps with a `brief` message that
    does not repeat them."""

    def __init__(self, broker: int | None = None) -> None:
        super().__init__()
        self._broker = broker

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told: dict[str, object] = {
            "time": moment.replace("+00:00", "Z"),
            "level": LEVEL_NAMES.get(record.levelname, record.levelname),
            "logger": record.name,
            "message": record.__dict__.get("brief") or record.getMessage(),
        }
        if self._broker is not None:
            told["broker"] = self._broker
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        fields = record.__dict__.get("fields")
        if isinstance(fields, dict):
            told |= {name: value for name, value in fields.items() if name not in told}
        return json.dumps(told, ensure_ascii=False, default=str)


def log_to_stderr() -> None:
    """Log to stderr, with the level and the format that the environment asks for."""
    _leave_out_what_no_line_says()
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(os.environ.get(FORMAT_VARIABLE, TEXT), None))
    logging.basicConfig(level=os.environ.get(LEVEL_VARIABLE, "INFO"), handlers=[handler])


def _leave_out_what_no_line_says() -> None:
    """Keep records free of the place in the source, thread, process and task, whose search is half of what a record
    costs: these switches are in the logging howto of Python, under Optimization."""
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    if sys.version_info >= (3, 12):
        logging.logAsyncioTasks = False


def log_as(form: str | None, broker: int | None, directory: str, max_bytes: int, backups: int) -> None:
    """Take over: lines in the form `text` or `json` (None: as the environment says); in `directory`, unless "", files
    of at most `max_bytes`, of which `backups` older ones are kept as `.1`, `.2`, …. Raises OSError."""
    form = form or os.environ.get(FORMAT_VARIABLE, TEXT)
    os.environ[FORMAT_VARIABLE] = form
    formatter = _formatter(form, broker)
    if not directory:
        for handler in logging.root.handlers:
            handler.setFormatter(formatter)
        return
    Path(directory).mkdir(parents=True, exist_ok=True)
    files = {name: _file(Path(directory) / file, formatter, max_bytes, backups) for name, file in FILES.items()}
    for handler in tuple(logging.root.handlers):
        logging.root.removeHandler(handler)
    for name, file_handler in files.items():
        logger = logging.getLogger(name)
        logger.addHandler(file_handler)
        logger.propagate = not name


def _formatter(form: str, broker: int | None) -> logging.Formatter:
    if form == JSON:
        return JsonLines(broker)
    return TextLines()


def _file(path: Path, formatter: logging.Formatter, max_bytes: int, backups: int) -> logging.Handler:
    handler = RotatingFileHandler(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
    handler.setFormatter(formatter)
    return handler
