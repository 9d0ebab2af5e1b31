"""Views of a page: requests to the cluster, made only while the view is open."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from multidict import MultiMapping

from odradek.client.admin.values import ConfigResource, OffsetSpec, ResourceType, TransactionDescription
from odradek.client.aio.admin import Admin
from odradek.client.records import TopicPartition
from odradek.console.groups_view import (
    Rebalances,
    group_model,
    groups_model,
    lag_model,
    transactions_model,
    zookeeper_lag_model,
)
from odradek.console.observer import Observer
from odradek.console.reading import Place, Reader
from odradek.console.records_view import AUTO, FORMS
from odradek.console.stream import Asker
from odradek.console.topics_view import sizes_model, topic_model
from odradek.protocol.errors import KafkaError
from odradek.world.clock import Clock, sleep

PAUSE_MS: Final = 2_000.0
LAGS_MAX: Final = 40
"""Groups whose lag is asked for at once: as many as a page shows."""
RECORDS_MAX: Final = 200
DESCRIBED_MAX: Final = 200
"""Transactional ids that are described each time; of further ones only the state is shown."""
DEAD: Final = "Dead"
"""State of a group that no coordinator knows."""
Query = MultiMapping[str]


class BadQuestionError(ValueError):
    """A request of the page is invalid. The message says why, in one line."""


class Views:
    """Data of everything that the page shows besides the map and the time line."""

    def __init__(self, admin: Admin, reader: Reader, observer: Observer, clock: Clock) -> None:
        self._admin, self._reader, self._observer, self._clock = admin, reader, observer, clock

    def asker(self, view: str) -> Asker:
        """Return the generator of a view's values. The view is `topics`, `topic:NAME`, `groups`, `group:ID`,
        `transactions`, `tail:TOPIC` or `tail:TOPIC:PARTITION`. Raises BadQuestionError."""
        kind, _, name = view.partition(":")
        again: dict[str, Callable[[], Awaitable[Any]]] = {
            "topics": self._sizes,
            "topic": partial(self._topic, name),
            "groups": self._groups,
            "transactions": self._transactions,
        }
        if kind == "tail":
            topic, _, partition = name.partition(":")
            return partial(self._reader.tail, topic, _number(partition, "partition") if partition else None)
        if kind == "group":
            return partial(self._group, name)
        if kind not in again:
            raise BadQuestionError(f"there is no view {kind[:40]!r}")
        return partial(self._repeated, again[kind])

    async def _repeated(self, ask: Callable[[], Awaitable[Any]]) -> AsyncGenerator[Any, None]:
        while True:
            yield await _answer(ask)
            await sleep(self._clock, PAUSE_MS)

    # -- topics --------------------------------------------------------------------------------------------------------

    async def _sizes(self) -> Any:
        return sizes_model(await self._directories())

    async def _directories(self) -> Mapping[int, Any]:
        """Return the log directories by broker, without the brokers that do not answer."""
        brokers = [] if self._observer.snapshot is None else sorted(self._observer.snapshot.nodes)
        asked = (self._admin.describe_log_directories(broker) for broker in brokers)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found = {}
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, KafkaError):
                continue
            if isinstance(answer, BaseException):
                raise answer
            found[broker] = answer
        return found

    async def _topic(self, name: str) -> Any:
        resource = ConfigResource(ResourceType.TOPIC, name)
        info = (await self._admin.describe_topics([name]))[0]
        led = [TopicPartition(name, one.partition) for one in info.partitions if one.leader >= 0]
        configs, directories, begins, ends = await asyncio.gather(
            self._admin.describe_configs([resource]),
            self._directories(),
            self._admin.list_offsets(dict.fromkeys(led, OffsetSpec.EARLIEST)),
            self._admin.list_offsets(dict.fromkeys(led, OffsetSpec.LATEST)),
            return_exceptions=True,
        )
        trouble = [str(one) for one in (configs, directories, begins, ends) if isinstance(one, BaseException)]
        model = topic_model(
            info,
            [] if isinstance(configs, BaseException) else configs[resource],
            {} if isinstance(directories, BaseException) else directories,
            {} if isinstance(begins, BaseException) else begins,
            {} if isinstance(ends, BaseException) else ends,
            {} if self._observer.snapshot is None else self._observer.snapshot.adding,
        )
        return model | {"trouble": list(dict.fromkeys(trouble))}

    async def records(self, query: Query) -> Any:
        """Return records. Parameters: `topic`, `partition` (without: all), `from` (earliest, latest, offset, time),
        `at`, `count`. Raises BadQuestionError, KafkaError."""
        kind = query.get("from", "latest")
        if kind not in ("earliest", "latest", "offset", "time"):
            raise BadQuestionError("from: earliest, latest, offset or time")
        at = _number(query.get("at", ""), "at") if kind in ("offset", "time") else 0
        count = min(_number(query.get("count", "50"), "count"), RECORDS_MAX)
        partition = _number(query["partition"], "partition") if query.get("partition") else None
        if kind == "offset" and partition is None:
            raise BadQuestionError("an offset needs a partition: choose one")
        place = Place(_named(query, "topic"), partition, kind, at)
        return await self._reader.records(place, count, _form(query))

    async def field(self, query: Query) -> Any:
        """Return a field of a record. Parameters: `topic`, `partition`, `offset`, `part` (key, value, header:N), `as`
        (a form). Raises BadQuestionError, KafkaError."""
        where = TopicPartition(_named(query, "topic"), _number(query.get("partition", ""), "partition"))
        return await self._reader.field(
            where, _number(query.get("offset", ""), "offset"), query.get("part", "value"), _form(query)
        )

    # -- groups --------------------------------------------------------------------------------------------------------

    async def _groups(self) -> Any:
        return groups_model(await self._admin.list_groups(), await self._told_by_controller("/lag"))

    async def _told_by_controller(self, path: str) -> Mapping[str, Any]:
        """Return a page of the controller, which knows the groups that keep their offsets in ZooKeeper."""
        seen = self._observer.snapshot
        return {} if seen is None else await self._observer.lag(seen.controller_id, path)

    async def lags(self, query: Query) -> Any:
        """Return the lag in records, members and partitions of each `group`; or an `error` that says why not."""
        wanted = list(dict.fromkeys(query.getall("group", [])))[:LAGS_MAX]

        async def one(group: str) -> Any:
            lags = await self._admin.group_lag(group)
            description = (await self._admin.describe_groups([group]))[0]
            if description.state == DEAD and not lags:
                told = await self._told_by_controller(_lag_page(group))
                if told.get("partitions"):
                    return zookeeper_lag_model(told)
            return lag_model(lags, description)

        answers = await asyncio.gather(*(_answer(partial(one, group)) for group in wanted))
        return dict(zip(wanted, answers, strict=True))

    async def _group(self, group: str) -> AsyncGenerator[Any, None]:
        rebalances = Rebalances(self._reader, self._admin, group)
        try:
            while True:
                yield await _answer(partial(self._group_now, group, rebalances))
                await sleep(self._clock, PAUSE_MS)
        finally:
            await rebalances.close()

    async def _group_now(self, group: str, rebalances: Rebalances) -> Any:
        description = (await self._admin.describe_groups([group]))[0]
        lags = await self._admin.group_lag(group)
        if description.state == DEAD and not lags:
            told = await self._told_by_controller(_lag_page(group))
        else:
            told = await self._observer.lag(description.coordinator, _lag_page(group))
        return group_model(description, lags, await rebalances.read(), told)

    # -- transactions --------------------------------------------------------------------------------------------------

    async def _transactions(self) -> Any:
        listed = await self._admin.list_transactions()
        names = sorted(one.transactional_id for some in listed.values() for one in some)[:DESCRIBED_MAX]
        described: dict[str, TransactionDescription] = {}
        for name in names:
            try:
                described |= await self._admin.describe_transactions([name])
            except KafkaError:
                continue  # gone, moving, or not visible to this client: only its listing is shown
        return transactions_model(listed, described, self._clock.now_ms())


async def _answer(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Return the answer, or an object with the `error` when Kafka refuses."""
    try:
        return await ask()
    except KafkaError as error:
        return {"error": str(error)}


def _lag_page(group: str) -> str:
    return f"/lag?group={quote(group, safe='')}"


def _named(query: Query, name: str) -> str:
    value = query.get(name, "")
    if not value:
        raise BadQuestionError(f"{name} is missing")
    return value


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise BadQuestionError(f"{name} is a number of 0 or more")
    return int(text)


def _form(query: Query) -> str:
    form = query.get("as", AUTO)
    if form not in FORMS:
        raise BadQuestionError(f"as: one of {', '.join(FORMS)}")
    return form
