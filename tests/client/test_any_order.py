"""Methods of the clients in whatever order, with whatever arguments, drawn from a seed.

Whoever calls them so is refused in words: by a KafkaError or a TypeError, in the time that it has. Nothing breaks, and
what comes after it works. What a seed draws is in `said`, in the order of the calls.
"""

import asyncio
import inspect
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from odradek import ConsumerGroupMetadata, KafkaError, OffsetAndMetadata, RebalanceListener, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.client import KafkaAdminClient
from odradek.client.consumer.client import KafkaConsumer
from odradek.client.errors import ClientBroken
from odradek.client.producer.client import KafkaProducer
from odradek.testing import Cluster, run
from odradek.testing.patience import PATIENCE_SECONDS

T0, T1, T2, GONE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("gone", 0)
TOPICS = {"t": 3, "u": 1}
LONG = "x" * 40_000
ODD: Sequence[Any] = (
    None, -1, 0, 2**31, 2**70, 1.5, True, float("nan"), "", "x", LONG, "\ud800", b"", b"x", (), ("t", 0, 1),
    [], [None], [5], ["x"], {}, {"t": None}, {"t": 5}, {"t": "x"}, {None: None}, {T0: None}, {T0: "x"}, {T0: 2**70},
    {T0: OffsetAndMetadata(1, LONG)}, object(), len, T0, [T0], ConsumerGroupMetadata(LONG),
)  # fmt: skip
LIMIT_S = 10.0
"""Longest time of a call on the virtual clock: what it waits for, and what it does behind a timeout to end."""
Calls = Sequence[tuple[str, Callable[[], Any]]]


class Fault(Exception):  # noqa: N818
    """Raised by the application's own code."""


REFUSALS = (KafkaError, TypeError, Fault, StopIteration, StopAsyncIteration, TimeoutError)


class Draw:
    """Draws calls, and notes what became of them."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.said: list[str] = []

    def one_of(self, *usual: Any) -> Any:
        """Return one of the usual arguments, or now and then an odd one."""
        return self.source.choice(ODD if self.source.random() < 0.15 else usual)

    def places(self) -> list[TopicPartition]:
        return [self.one_of(T0, T1, T2, GONE) for _ in range(self.source.randrange(3))]

    def raises(self, *_: Any) -> None:
        raise Fault

    def note(self, name: str, error: BaseException | None, took_s: float, limit_s: float = LIMIT_S) -> None:
        self.said.append(f"{name}: {error!r}")
        assert error is None or isinstance(error, REFUSALS), self.said
        assert not isinstance(error, ClientBroken), self.said
        assert took_s < limit_s, self.said


class Reacting(RebalanceListener):
    """A listener that calls its consumer, or fails. With a blocking one `result` returns what a call gives."""

    def __init__(self, draw: Draw, consumer: Any) -> None:
        self.draw, self.consumer = draw, consumer

    def calls(self, partitions: Any) -> Callable[[], Any]:
        consumer = self.consumer
        reactions: list[Callable[[], Any]] = [
            self.draw.raises,
            consumer.unsubscribe,
            lambda: consumer.subscribe(["u"], listener=self),
            lambda: consumer.commit(timeout_ms=500),
            lambda: consumer.position(T0, timeout_ms=500),
            lambda: consumer.seek_to_beginning(*partitions),
            lambda: consumer.pause(*partitions),
            consumer.close,
            *[lambda: None] * 6,
        ]
        return self.draw.source.choice(reactions)


class ReactingOnLoop(Reacting):
    async def on_partitions_revoked(self, revoked: Any) -> None:
        result = self.calls(revoked)()
        if inspect.isawaitable(result):
            await result

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self.on_partitions_revoked(assigned)


class ReactingInPoll(Reacting):
    def on_partitions_revoked(self, revoked: Any) -> None:
        self.calls(revoked)()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.calls(assigned)()


def of_consumers(draw: Draw, consumer: Any, listener: type[Reacting]) -> Calls:
    """Return calls that both faces have."""
    one_of, places = draw.one_of, draw.places

    def heard() -> Any:
        return draw.source.choice([None, listener(draw, consumer)])

    return [
        ("subscribe", lambda: consumer.subscribe(one_of(["t"], ["t", "u"], ["gone"]), listener=heard())),
        ("subscribe to a pattern", lambda: consumer.subscribe(pattern=one_of("t", "t|u", "z"), listener=heard())),
        ("assign", lambda: consumer.assign(one_of([T0], [T0, T1], [GONE], []))),
        ("unsubscribe", lambda: consumer.unsubscribe()),
        ("seek", lambda: consumer.seek(one_of(T0, T1), one_of(0, 3, 10**6))),
        ("seek_to_beginning", lambda: consumer.seek_to_beginning(*places())),
        ("seek_to_end", lambda: consumer.seek_to_end(*places())),
        ("seek_to_committed", lambda: consumer.seek_to_committed(*places())),
        ("position", lambda: consumer.position(one_of(T0, T1), one_of(0, 500))),
        ("highwater", lambda: consumer.highwater(one_of(T0, T1))),
        ("pause", lambda: consumer.pause(*places())),
        ("resume", lambda: consumer.resume(*places())),
        ("commit", lambda: consumer.commit(one_of(None, {}, {T0: 1}, {GONE: 1}), 500)),
        ("committed", lambda: consumer.committed(one_of(T0, T1), timeout_ms=500)),
        ("group_metadata", lambda: consumer.group_metadata()),
        ("end_offsets", lambda: consumer.end_offsets(places(), 500)),
        ("offsets_for_times", lambda: consumer.offsets_for_times(one_of({T0: 0}, {}), 500)),
        ("partitions_for_topic", lambda: consumer.partitions_for_topic(one_of("t", "gone"))),
        ("bootstrap", lambda: consumer.bootstrap(500, refresh=True)),
        ("subscription", lambda: consumer.subscription()),
        ("wakeup", lambda: consumer.wakeup()),
        ("metrics", lambda: consumer.metrics()),
    ]


def of_producers(draw: Draw, producer: Any) -> Calls:
    one_of = draw.one_of

    def send() -> Any:
        record = one_of("t", "gone"), one_of(b"v", None), one_of(None, b"k"), one_of(None, [("h", b"")])
        return producer.send(*record, one_of(None, 0, 9), one_of(None, 5), one_of(None, draw.raises))

    return [
        ("send", send),
        ("send", lambda: producer.send("t", b"v")),
        ("flush", lambda: producer.flush(one_of(0, 1))),
        ("partitions_for", lambda: producer.partitions_for(one_of("t", "gone"))),
        ("init_transactions", lambda: producer.init_transactions(one_of(0, 1))),
        *[("begin_transaction", lambda: producer.begin_transaction())] * 2,
        (
            "send_offsets_to_transaction",
            lambda: producer.send_offsets_to_transaction(
                one_of({T0: 1}, {}, {GONE: 1}),
                one_of(ConsumerGroupMetadata("g"), ConsumerGroupMetadata("g", 5, "m")),
                1,
            ),
        ),
        ("commit_transaction", lambda: producer.commit_transaction(one_of(0, 1))),
        ("abort_transaction", lambda: producer.abort_transaction(one_of(0, 1))),
    ]


def settings_of_consumer(draw: Draw) -> dict[str, Any]:
    choice = draw.source.choice
    return {
        "group_id": choice([None, "g", "g"]),
        "auto_offset_reset": choice(["earliest", "latest", "none"]),
        "partition_assignment_strategy": choice(["range", "cooperative-sticky"]),
        "heartbeat_interval_ms": 300,
        "default_api_timeout_ms": 1_500,
        "consumer_timeout_ms": 200,
    }


def settings_of_producer(draw: Draw) -> dict[str, Any]:
    return {"max_block_ms": 1_000, "transactional_id": draw.source.choice([None, "id", "id"])}


# -- on asyncio --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_asyncio_clients_refuse_in_words_and_go_on(seed: int) -> None:
    draw = Draw(seed)

    async def main(cluster: Any) -> None:
        loop = asyncio.get_running_loop()
        where: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap}
        async with Producer(**where) as producer:
            for place in (T0, T1, T2):
                await producer.send("t", b"x", partition=place.partition)
        consumer = await Consumer(**where, **settings_of_consumer(draw)).start()
        sender = await Producer(**where, **settings_of_producer(draw)).start()
        if sender.config.transactional_id is not None and draw.source.random() < 0.8:
            await sender.init_transactions()
        own: Calls = [
            *[("getmany", lambda: consumer.getmany(draw.one_of(0, 10, 1_000), draw.one_of(None, 1)))] * 4,
            ("getone", lambda: consumer.getone(500)),
            ("commit_later", lambda: consumer.commit_later(draw.one_of(None, {T0: 1}), draw.one_of(None, draw.raises))),
        ]
        calls = [*own, *of_consumers(draw, consumer, ReactingOnLoop), *of_producers(draw, sender)]
        for _ in range(150):
            name, call = draw.source.choice(calls)
            began, error = loop.time(), None
            try:
                result = call()
                if asyncio.iscoroutine(result):
                    await asyncio.wait_for(result, draw.source.choice([0.001, 0.05, LIMIT_S]))
            except BaseException as raised:  # noqa: BLE001 - also a cancellation, which nobody has asked for
                error = raised
            draw.note(name, error, loop.time() - began)
        for client in (consumer, sender):
            began = loop.time()
            with suppress(Fault):
                await client.close()
            assert loop.time() - began < LIMIT_S, draw.said
            assert client._engine is not None and not client._engine.tasks.deaths, draw.said

    run(main, brokers=1, topics=TOPICS, seed=seed)


# -- blocking ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, topics=TOPICS) as started:
        yield started


@pytest.mark.parametrize("seed", range(3))
def test_blocking_clients_refuse_in_words_and_go_on(cluster: Cluster, seed: int) -> None:
    draw = Draw(seed)
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, **settings_of_consumer(draw))
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, **settings_of_producer(draw))

    def call_back(*_: Any) -> None:
        reactions: list[Callable[[], object]] = [draw.raises, producer.flush, lambda: None]
        draw.source.choice(reactions)()

    own: Calls = [
        *[("poll", lambda: consumer.poll(draw.one_of(0, 10, 100), draw.one_of(None, 1)))] * 4,
        ("next", lambda: next(consumer)),
        ("commit_async", lambda: consumer.commit_async(draw.one_of(None, {T0: 1}), draw.one_of(None, draw.raises))),
        ("send", lambda: producer.send("t", b"v", callback=call_back)),
        ("result", lambda: producer.send("t", b"v").result(draw.one_of(0, 1))),
    ]
    calls = [*own, *of_consumers(draw, consumer, ReactingInPoll), *of_producers(draw, producer)]
    for name, call in [
        *draw.source.choices(calls, k=60),
        *[("close", client.close) for client in (consumer, producer)],
    ]:
        note(draw, name, call)
    for client in (consumer, producer):
        client._thread._thread.join(PATIENCE_SECONDS)
        assert not client._thread._thread.is_alive(), draw.said
    for name, call in draw.source.choices(calls, k=20):  # of what is closed
        note(draw, name, call)


def note(draw: Draw, name: str, call: Callable[[], Any]) -> None:
    began, error = time.monotonic(), None
    try:
        call()
    except BaseException as raised:  # noqa: BLE001 - judged below
        error = raised
    draw.note(name, error, time.monotonic() - began, PATIENCE_SECONDS)


# -- administration ----------------------------------------------------------------------------------------------------

WAITS_LONG = "timeout_ms"
"""Arguments that let a method wait for as long as they say."""
METHODS = [
    name
    for name, _ in inspect.getmembers(Admin, inspect.iscoroutinefunction)
    if name[0] != "_" and name not in ("start", "close", "abandon")
]


def arguments_of(name: str, source: random.Random) -> Iterator[dict[str, Any]]:
    """Yield some odd values for each argument of a method, and for all others that it needs an empty list."""
    parameters = list(inspect.signature(getattr(Admin, name)).parameters.values())[1:]
    needed: dict[str, Any] = {one.name: [] for one in parameters if one.default is one.empty}
    for one in parameters:
        for value in source.sample(ODD, 8) if one.name != WAITS_LONG else ():
            yield needed | {one.name: value}


def test_an_admin_client_refuses_odd_arguments_in_words() -> None:
    draw = Draw(0)

    async def main(cluster: Any) -> None:
        loop = asyncio.get_running_loop()
        async with Admin(bootstrap_servers=cluster.bootstrap, default_api_timeout_ms=300) as admin:
            for name in METHODS:
                for given in arguments_of(name, draw.source):
                    began, error = loop.time(), None
                    try:
                        await getattr(admin, name)(**given)
                    except BaseException as raised:  # noqa: BLE001 - judged below
                        error = raised
                    draw.said.clear()
                    draw.note(f"{name} {given}", error, loop.time() - began)
            assert "u" in await admin.list_topics()

    run(main, brokers=1, topics=TOPICS, seed=7)


def test_a_blocking_admin_client_that_is_closed_says_so() -> None:
    client = KafkaAdminClient(bootstrap_servers="127.0.0.1:1")
    client.close()
    client.close()
    for name in METHODS:
        parameters = list(inspect.signature(getattr(Admin, name)).parameters.values())[1:]
        with pytest.raises((KafkaError, TypeError)):
            getattr(client, name)(*[[] for one in parameters if one.default is one.empty])
