"""A client of another language: a program that stays, takes one JSON command a line and answers with one line.

    {"do": "produce", "topic": …, "codec": …, "records": […], "idempotent": false}   -> {}
    {"do": "consume", "topic": …, "count": …}                                        -> {"records": […]}
    {"do": "join", "member": …, "group": …, "topic": …, "strategy": name or null}    -> {}
    {"do": "look", "member": …}                          -> {"assignment": […], "received": [[partition, offset], …]}
    {"do": "leave", "member": …}                                                     -> {}
    {"do": "admin", …}                                   -> whatever the scenario of that language found
    failure                                              -> {"error": text}

A record is [key, value, [[name, value], …], timestamp_ms], its bytes as base64 or null.
"""

import base64
import itertools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from odradek.testing.foreign.interface import Client, Member, Record
from odradek.testing.patience import PATIENCE_SECONDS

LAST_WORDS = 4000
"""Characters of the program's own log that stand in the message of a failed test."""


class DriverClient(Client):
    """`log` gets what the program writes on stderr."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self._numbers = itertools.count()
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Ask the program. Raises AssertionError with its own words when it failed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{self.name} has ended: {self._last_words()}"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, f"{self.name}: {answer['error']}; before it: {self._last_words()}"
        return answer

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-LAST_WORDS:]

    def produce(self, topic: str, codec: str, records: Sequence[Record], *, idempotent: bool = False) -> None:
        packed = [_packed(record) for record in records]
        self.ask("produce", topic=topic, codec=codec, records=packed, idempotent=idempotent)

    def consume(self, topic: str, count: int) -> list[Record]:
        return [_unpacked(record) for record in self.ask("consume", topic=topic, count=count)["records"]]

    def join(self, group: str, topic: str, strategy: str | None = None) -> Member:
        member = f"member-{next(self._numbers)}"
        self.ask("join", member=member, group=group, topic=topic, strategy=strategy)
        return DriverMember(self, member)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)
        self._process.stdout.close()


class DriverMember(Member):
    def __init__(self, driver: DriverClient, member: str) -> None:
        self._driver, self._member = driver, member
        self._left = False
        self._last_received: list[tuple[int, int]] = []

    def assignment(self) -> set[int]:
        return set(self._look()["assignment"])

    def received(self) -> list[tuple[int, int]]:
        if not self._left:
            self._last_received = [(partition, offset) for partition, offset in self._look()["received"]]
        return self._last_received

    def _look(self) -> dict[str, Any]:
        return self._driver.ask("look", member=self._member)

    def close(self) -> None:
        if not self._left:
            self._driver.ask("leave", member=self._member)
            self.received()
            self._left = True


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _packed(record: Record) -> list[Any]:
    headers = [[name, _base64(value)] for name, value in record.headers]
    return [_base64(record.key), _base64(record.value), headers, record.timestamp_ms]


def _unpacked(record: list[Any]) -> Record:
    key, value, headers, timestamp_ms = record
    return Record(_bytes(key), _bytes(value), tuple((name, _bytes(data)) for name, data in headers), timestamp_ms)
