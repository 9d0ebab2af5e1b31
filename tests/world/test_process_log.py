"""The log of a process: JSON lines, files under Kafka's names, and their rotation."""

import json
import logging
import subprocess
import sys
from pathlib import Path

from odradek.world.process_log import JsonLines, TextLines

SPEAK = """
import logging, sys
from odradek.world.process_log import log_as, log_to_stderr
log_to_stderr()
logging.getLogger("odradek.broker.server").info("early")
log_as(None if sys.argv[1] == "-" else sys.argv[1], 7, sys.argv[2], 2000, 2)
logging.getLogger("odradek.broker.server").info("one\\ntwo")
logging.getLogger("state.change.logger").warning("%d unclean", 3, extra={"fields": {"partition": "t-0"}})
for number in range(int(sys.argv[3])):
    logging.getLogger("odradek.controller.controller").info("event %d", number)
"""


def speak(form: str, directory: Path | str = "", events: int = 0, **environment: str) -> list[str]:
    """What a process that logs writes to stderr."""
    command = [sys.executable, "-c", SPEAK, form, str(directory), str(events)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stderr.splitlines()


def test_a_record_is_one_object_on_one_line() -> None:
    formatter = JsonLines(7)
    try:
        raise ValueError("no\nway")
    except ValueError:
        record = logging.LogRecord("odradek.x", logging.WARNING, "x.py", 1, "a %s\n\u2028b", ("b",), sys.exc_info())
    record.fields = {"partition": "t-0", "level": "not this one"}
    line = formatter.format(record)
    told = json.loads(line)
    assert "\n" not in line and told["message"] == "a b\n\u2028b" and "ValueError: no\nway" in told["error"]
    assert (told["level"], told["logger"], told["broker"], told["partition"]) == ("WARN", "odradek.x", 7, "t-0")
    assert told["time"].endswith("Z") and len(told["time"]) == len("2026-01-31T12:00:00.123Z")


def test_a_name_that_a_client_has_chosen_is_no_other_line() -> None:
    """A transactional id, say, of a transaction that is open for too long."""
    formatter = TextLines()
    name = "x\n2026-01-01 00:00:00.000 INFO odradek: all is well\r\x1b[2J\u2028\ud800 \u00e9"
    record = logging.LogRecord("odradek.x", logging.INFO, "x.py", 1, "%s: aborted", (name,), None)
    line = formatter.format(record)
    assert line.endswith(" INFO odradek: all is well\\r\\x1b[2J\\u2028\\ud800 \u00e9: aborted") and "x\\n2026" in line
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.LogRecord("odradek.x", logging.ERROR, "x.py", 1, "a", (), sys.exc_info())
    assert formatter.format(record).splitlines()[-1] == "ValueError: no"


def test_the_environment_says_the_form_before_the_settings_are_read() -> None:
    early, *later = map(json.loads, speak("-", ODRADEK_LOG_FORMAT="json"))
    assert early["message"] == "early" and "broker" not in early
    assert [one["broker"] for one in later] == [7, 7] and later[1]["partition"] == "t-0"
    early_text, first, *_ = speak("json")
    assert early_text.endswith("INFO odradek.broker.server: early") and json.loads(first)["message"] == "one\ntwo"
    assert speak("-")[-1].endswith("WARNING state.change.logger: 3 unclean")


def test_files_are_named_as_kafkas_and_rotated(tmp_path: Path) -> None:
    assert len(speak("json", tmp_path / "logs", 100)) == 1  # the early line: after it stderr is left alone
    logs = tmp_path / "logs"
    (change,) = map(json.loads, (logs / "state-change.log").read_text().splitlines())
    assert change["logger"] == "state.change.logger"
    (server,) = map(json.loads, (logs / "server.log").read_text().splitlines())
    assert server["message"] == "one\ntwo"  # and nothing of the loggers with a file of their own
    files = sorted(path.name for path in logs.glob("controller.log*"))
    assert files == ["controller.log", "controller.log.1", "controller.log.2"]
    assert all(path.stat().st_size <= 2000 for path in logs.iterdir())
    last = json.loads((logs / "controller.log").read_text().splitlines()[-1])
    assert last["message"] == "event 99"
    assert (logs / "kafka-request.log").read_text() == ""
