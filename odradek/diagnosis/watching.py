"""Watching a cluster, one look after the other, for `odradek top`.

Bytes, and groups in ZooKeeper, come from the metrics server of brokers that have a `metrics.port`; all else comes from
Kafka's APIs.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from odradek.aio import Admin
from odradek.client.admin.values import ConfigResource
from odradek.client.records import TopicPartition
from odradek.diagnosis.overview import IN_ZOOKEEPER, GroupLook, Look
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP

T = TypeVar("T")

ANSWER_S = 3.0
GROUPS_MAX = 50
"""Most groups of each kind that are looked at, in order of name."""
BYTES = re.compile(r"^kafka_server_brokertopicmetrics_bytes(in|out)_total\{.*\} (\S+)$", re.MULTILINE)
"""Pattern of the lines of /metrics with bytes in and out; there is one for each topic."""
EVERYWHERE = frozenset({"", "0.0.0.0", "::"})


class Watcher:
    """Looks at a cluster as often as `look` is called."""

    def __init__(
        self, admin: Admin, now_s: Callable[[], float], get: Callable[[str, int, str], Awaitable[bytes]]
    ) -> None:
        """`get(host, port, path)` returns the body of a page over HTTP. It may raise OSError and ValueError."""
        self._admin, self._now_s, self._get = admin, now_s, get
        self._metrics: dict[int, tuple[str, int]] = {}
        """Addresses of metrics, by broker. Brokers without one are asked at each look, since they may have restarted
        with other settings."""
        self._unanswered: list[str] = []

    async def look(self) -> Look:
        """Look at the cluster. Raises KafkaError when no broker answers."""
        self._unanswered = []
        cluster = await self._admin.describe_cluster()
        addresses = {node.node_id: f"{node.host}:{node.port}" for node in cluster.nodes}
        topics = await self._admin.describe_topics()
        partitions = tuple(one for topic in topics for one in topic.partitions)
        led = [TopicPartition(one.topic, one.partition) for one in partitions if one.leader in addresses]
        at_s = self._now_s()
        found = (
            await self._ask("where logs end", self._admin.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP)), {})
            if led
            else {}
        )
        ends = {at: one.offset for at, one in found.items() if one is not None}
        moves = (
            await self._ask("replicas that are being added", self._admin.list_partition_reassignments(), [])
            if any(one.is_under_replicated() for one in partitions)
            else []
        )
        return Look(
            at_s,
            cluster.controller_id,
            addresses,
            partitions,
            ends,
            await self._bytes(addresses),
            await self._groups(ends) + await self._groups_in_zookeeper(cluster.controller_id),
            tuple(self._unanswered),
            {one.topic_partition: one.adding_replicas for one in moves},
        )

    async def _ask(self, what: str, question: Awaitable[T], otherwise: T) -> T:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await question
        except (TimeoutError, KafkaError, OSError, ValueError, RecursionError) as error:
            self._unanswered.append(f"{what}: {error or 'no answer'}")
        return otherwise

    async def _groups(self, ends: Mapping[TopicPartition, int]) -> tuple[GroupLook, ...]:
        listed = await self._ask("groups", self._admin.list_groups(), [])
        names = [one.group_id for one in listed][:GROUPS_MAX]
        return tuple(
            one for one in await asyncio.gather(*(self._group(name, ends) for name in names)) if one is not None
        )

    async def _group(self, name: str, ends: Mapping[TopicPartition, int]) -> GroupLook | None:
        described = await self._ask(f"group {name}", self._admin.describe_groups([name]), [])
        if not described:
            return None
        committed: Mapping[TopicPartition, Any] = await self._ask(
            f"offsets of group {name}", self._admin.list_group_offsets(name), {}
        )
        behind = [max(0, ends[at] - one.offset) for at, one in committed.items() if at in ends and one.offset >= 0]
        return GroupLook(name, described[0].state, len(described[0].members), sum(behind) if behind else None)

    async def _groups_in_zookeeper(self, controller: int) -> tuple[GroupLook, ...]:
        """Look at groups of Kafka 0.8's consumer, which the controller reads in ZooKeeper and shows at /lag."""
        place = self._metrics.get(controller)
        if place is None:
            return ()
        asked = f"groups in ZooKeeper, by broker {controller}"
        members = await self._ask(asked, self._page(place, "/lag", _members), {})
        names = sorted(members)[:GROUPS_MAX]
        behind = await asyncio.gather(
            *(self._ask(asked, self._page(place, f"/lag?group={quote(name)}", _lags), []) for name in names)
        )
        return tuple(
            GroupLook(name, IN_ZOOKEEPER, members[name], sum(lags) if lags else None)
            for name, lags in zip(names, behind, strict=True)
        )

    async def _page(self, place: tuple[str, int], path: str, read: Callable[[Any], T]) -> T:
        """Return what `read` returns of a page of JSON. Raises OSError, and ValueError or RecursionError if it cannot
        read the page."""
        page = await self._get(*place, path)
        try:
            return read(json.loads(page))
        except (AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"the answer of port {place[1]} does not describe groups") from error

    async def _bytes(self, addresses: Mapping[int, str]) -> dict[int, tuple[float, float]]:
        await asyncio.gather(
            *(self._find_metrics(one, at) for one, at in addresses.items() if one not in self._metrics)
        )
        asked = [(one, place) for one in addresses if (place := self._metrics.get(one)) is not None]
        answers = await asyncio.gather(*(self._scrape(one, place) for one, place in asked))
        return {one: answer for (one, _), answer in zip(asked, answers, strict=True) if answer is not None}

    async def _find_metrics(self, broker: int, address: str) -> None:
        resource = ConfigResource("BROKER", str(broker))
        found = await self._ask(f"the settings of broker {broker}", self._admin.describe_configs([resource]), {})
        if found:
            place = metrics_place({one.name: one.value for one in found[resource]}, address)
            if place is not None:
                self._metrics[broker] = place

    async def _scrape(self, broker: int, place: tuple[str, int]) -> tuple[float, float] | None:
        async def bytes_told() -> tuple[float, float]:
            told = BYTES.findall((await self._get(*place, "/metrics")).decode())
            into, out = (sum(float(text) for which, text in told if which == one) for one in ("in", "out"))
            return into, out

        found = await self._ask(f"the metrics of broker {broker}", bytes_told(), None)
        if found is None:
            del self._metrics[broker]
        return found


def _members(page: Any) -> dict[str, int]:
    return {str(name): int(count) for name, count in page.get("zookeeper", {}).items()}


def _lags(page: Any) -> list[int]:
    return [int(row[3]) for row in page.get("partitions", [])]


def metrics_place(settings: Mapping[str, str | None], address: str) -> tuple[str, int] | None:
    """Return host and port of a broker's metrics and journal; None if it has none. `address`: its listener's."""
    port, host = settings.get("metrics.port") or "0", settings.get("metrics.host") or ""
    if not port.isdecimal() or port == "0":
        return None
    return (address.rpartition(":")[0].strip("[]") if host in EVERYWHERE else host), int(port)
