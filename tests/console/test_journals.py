"""Journals of brokers, read entry by entry, wherever they are."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from odradek.client.metadata import Node
from odradek.console.journals import SKIPPED, Journals, over_http
from odradek.protocol.errors import ErrorCode, KafkaError
from tests.console.test_happenings import entry

BROKER = Node(1, "10.0.0.1", 9092)


class Brokers:
    """Answers of one broker."""

    def __init__(self, settings: Mapping[str, str | None] | Exception, answer: Any) -> None:
        self.settings, self.answer = settings, answer
        self.asked: list[str] = []
        self.journals = Journals(self._locate, self._fetch)

    async def _locate(self, broker: int) -> Mapping[str, str | None]:
        if isinstance(self.settings, Exception):
            raise self.settings
        return self.settings

    async def _fetch(self, url: str) -> Any:
        self.asked.append(url)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def read(self, node: Node = BROKER) -> list[str]:
        return [one.title for one in asyncio.run(self.journals.read([node]))]


def session(number: int) -> dict[str, Any]:
    return entry(number, kind="session", subject="1", change="away", session=7)


def journal(*entries: Any) -> dict[str, Any]:
    return {
        "broker": 1,
        "forgotten": 0,
        "last": max([0, *(one["number"] for one in entries)]),
        "entries": list(entries),
    }


def test_only_what_is_new_is_asked_for_and_told() -> None:
    brokers = Brokers({"metrics.port": "9102", "metrics.host": ""}, journal(session(3), session(4)))
    assert len(brokers.read()) == 2
    assert brokers.read() == []
    assert brokers.asked == ["http://10.0.0.1:9102/journal?after=0", "http://10.0.0.1:9102/journal?after=4"]
    assert brokers.journals.readable == [1]


def test_a_broker_that_was_started_anew_is_read_from_its_beginning() -> None:
    brokers = Brokers({"metrics.port": "9102"}, journal(session(30)))
    brokers.read()
    brokers.answer = {**journal(*map(session, range(1, 41))), "began_ms": 9}
    assert brokers.read() == []
    assert len(brokers.read()) == 40


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:1/"), ("0.0.0.0", "http://10.0.0.1:1/"), ("::1", "http://[::1]:1/")],
)
def test_the_address(host: str, url: str) -> None:
    brokers = Brokers({"metrics.port": "1", "metrics.host": host}, journal())
    brokers.read()
    assert brokers.asked[0].startswith(url)


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({}, {}),
        ({"metrics.port": "0"}, {}),
        ({"metrics.port": "nonsense"}, {}),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer"), {}),
        ({"metrics.port": "1"}, aiohttp.ClientConnectionError()),
        ({"metrics.port": "1"}, TimeoutError()),
        ({"metrics.port": "1"}, ValueError("no JSON")),
        ({"metrics.port": "1"}, {"entries": 3}),
        ({"metrics.port": "1"}, {"entries": [{"number": "x"}]}),
        ({"metrics.port": "1"}, {"entries": [{"number": float("inf")}]}),
    ],
)
def test_a_journal_that_cannot_be_read_is_left_out(settings: Any, answer: Any) -> None:
    brokers = Brokers(settings, answer)
    assert brokers.read() == [] and brokers.journals.readable == []


def test_a_journal_that_did_not_answer_is_left_out_for_a_while() -> None:
    brokers = Brokers({"metrics.port": "1"}, TimeoutError())
    for _ in range(1 + SKIPPED):
        brokers.read()
    assert len(brokers.asked) == 1
    brokers.answer = journal(session(1))
    assert len(brokers.read()) == 1


def test_a_broker_that_is_started_again_with_a_journal_is_read() -> None:
    brokers = Brokers({"metrics.port": "0"}, journal(session(1)))
    for _ in range(SKIPPED + 1):
        assert brokers.read() == []
    brokers.settings = {"metrics.port": "9102"}
    assert len(brokers.read()) == 1
    brokers.answer = aiohttp.ClientConnectionError("nobody")
    assert brokers.read() == []
    brokers.settings, brokers.answer = {"metrics.port": "9103"}, journal(session(2))
    assert len(brokers.read()) == 1
    assert brokers.asked[-1].startswith("http://10.0.0.1:9103/")


def test_brackets_without_end_are_no_journal() -> None:
    """They ended the reading of all journals, by a RecursionError."""

    async def main() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"[" * 100_000)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server, aiohttp.ClientSession() as session:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ValueError, match="not a journal"):
                await over_http(session)(f"http://127.0.0.1:{port}/journal")

    asyncio.run(main())


def test_what_is_told_of_groups_is_read_where_it_has_that_shape() -> None:
    """Whatever else answered at the port ended the page's view of groups, and its lags with 500."""
    rows: list[dict[str, Any]] = [{"partitions": [["flights", 0, 10, 42, 1.5], ["flights", 1, 3, 0, 0]]}]
    for told in (*rows, {"zookeeper": {"old": 2}}, {"zookeeper": {}}, {"partitions": []}):
        brokers = Brokers({"metrics.port": "9102"}, told)
        assert asyncio.run(brokers.journals.lag(BROKER, "/lag?group=g")) == told
    others: list[dict[str, Any]] = [
        {"zookeeper": []},
        {"zookeeper": None},
        {"zookeeper": {"old": "two"}},
        {"partitions": None},
        {"partitions": {}},
        {"partitions": ["flights"]},
        {"partitions": [["flights", 0, 10, 42]]},
        {"partitions": [["flights", 0, 10, None, 1.5]]},
    ]
    for other in others:
        assert asyncio.run(Brokers({"metrics.port": "9102"}, other).journals.lag(BROKER, "/lag")) == {}
