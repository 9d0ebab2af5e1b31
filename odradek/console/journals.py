"""Journals of brokers, read at `/journal` of their metrics.port, only new entries each time."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import aiohttp

from odradek.client.admin.values import ConfigResource, ResourceType
from odradek.client.aio.admin import Admin
from odradek.client.metadata import Node
from odradek.console.happenings import Happening, from_journal
from odradek.diagnosis.shapes import has_shape
from odradek.diagnosis.watching import metrics_place
from odradek.protocol.errors import KafkaError

log = logging.getLogger(__name__)

ANSWER_BYTES_MAX: Final = 32_000_000
TIMEOUT_SECONDS: Final = 1.0
SKIPPED: Final = 8
"""Readings for which a journal is left out after it did not answer (its broker may be frozen, and the others have to
wait for it) or after its broker had none (it may have one after a restart)."""

LAG_ROW: Final = (str, int, int, int, (int, float))
"""Topic, partition, offset, records and seconds behind."""

Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]
Locate = Callable[[int], Awaitable[Mapping[str, str | None]]]


class Journals:
    """Reader of the brokers' journals: where each one is, and which of its entries were read.

    A broker without one is left out.
    """

    def __init__(self, locate: Locate, fetch: Fetch) -> None:
        self._locate, self._fetch = locate, fetch
        self._urls: dict[Node, str | None] = {}
        self._read: dict[int, int] = {}
        """Number of the last entry read, by broker."""
        self._began_ms: dict[int, Any] = {}
        """Broker → the time at which its journal began, as it says."""
        self._skip: dict[int, int] = {}
        """Number of readings for which a broker is left out, by broker."""
        self.readable: list[int] = []
        """Brokers whose journal could be read the last time."""

    async def read(self, nodes: Iterable[Node]) -> list[Happening]:
        """Return what these brokers' journals have got since the last reading, in the order of times."""
        there = list(nodes)
        answers = await asyncio.gather(*(self._read_one(node) for node in there))
        self.readable = sorted(node.node_id for node, found in zip(there, answers, strict=True) if found is not None)
        happenings = [one for found in answers if found for one in found]
        return sorted(happenings, key=lambda one: one.at_ms)

    async def _read_one(self, node: Node) -> list[Happening] | None:
        if self._skip.get(node.node_id, 0) > 0:
            self._skip[node.node_id] -= 1
            return None
        try:
            if self._urls.get(node) is None:
                self._urls.pop(node, None)
            answer = await self._ask(node, f"/journal?after={self._read.get(node.node_id, 0)}")
            if answer is None:
                self._skip[node.node_id] = SKIPPED
                return None
            entries = [one for one in answer["entries"] if isinstance(one, Mapping)]
            numbers = [int(one["number"]) for one in entries]
        except (KafkaError, aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError, OverflowError) as error:
            log.debug("the journal of broker %d cannot be read: %s", node.node_id, error)
            self._skip[node.node_id] = SKIPPED if isinstance(error, TimeoutError) else 0
            self._urls.pop(node, None)
            return None
        last, began_ms = self._read.get(node.node_id, 0), answer.get("began_ms")
        if began_ms != self._began_ms.setdefault(node.node_id, began_ms):  # the broker was started again
            self._began_ms[node.node_id], self._read[node.node_id] = began_ms, 0
            return []  # its numbers begin again: the next reading starts with the first
        self._read[node.node_id] = max([last, *numbers])
        return from_journal(node.node_id, [one for one, at in zip(entries, numbers, strict=True) if at > last])

    async def lag(self, node: Node, path: str) -> Mapping[str, Any]:
        """Return a broker's page /lag, from its metrics.port; empty if it does not answer, or something else does."""
        try:
            told = await self._ask(node, path) or {}
            if not tells_lag(told):
                raise ValueError("what answers there tells nothing of groups")
        except (KafkaError, aiohttp.ClientError, TimeoutError, ValueError) as error:
            log.debug("broker %d does not tell %s: %s", node.node_id, path, error)
            return {}
        return told

    async def _ask(self, node: Node, path: str) -> Mapping[str, Any] | None:
        """Return a page of a broker; None if it has no metrics.port, or that cannot be found out."""
        if node not in self._urls:
            place = metrics_place(await self._locate(node.node_id), node.address)
            self._urls[node] = None if place is None else f"http://{_bracketed(place[0])}:{place[1]}"
        url = self._urls[node]
        return None if url is None else await self._fetch(url + path)


def tells_lag(told: Mapping[str, Any]) -> bool:
    """Tell whether an answer has the shape of /lag: any program may answer at a port."""
    rows = told.get("partitions", [])
    return (
        has_shape(told, {"zookeeper": ({...: int}, ...), "partitions": ([list], ...)})
        and all(len(row) == len(LAG_ROW) for row in rows)
        and all(has_shape(one, wanted) for row in rows for one, wanted in zip(row, LAG_ROW, strict=True))
    )


def _bracketed(host: str) -> str:
    """Return a host in the form that it has in an address."""
    return f"[{host}]" if ":" in host else host


def settings_of(admin: Admin) -> Locate:
    """Return a function that asks a broker for its settings."""

    async def locate(broker: int) -> Mapping[str, str | None]:
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        try:
            found = await admin.describe_configs([resource])
        except KafkaError as error:
            if error.retriable:
                raise
            return {}  # no right to see them
        return {entry.name: entry.value for entry in found[resource]}

    return locate


def over_http(session: aiohttp.ClientSession) -> Fetch:
    """Return a function that fetches a JSON object over HTTP."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)

    async def fetch(url: str) -> Mapping[str, Any]:
        async with session.get(url, timeout=timeout, allow_redirects=False) as response:
            response.raise_for_status()
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    raise ValueError(f"a journal of more than {ANSWER_BYTES_MAX:,} bytes")
        try:
            answer = json.loads(body)
        except RecursionError:
            raise ValueError("the answer is not a journal: it is nested too deeply") from None
        if not isinstance(answer, dict):
            raise ValueError("a journal is an object")
        return answer

    return fetch
