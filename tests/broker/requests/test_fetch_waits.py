"""Which fetches of consumers are answered at once, and which wait for records."""

from typing import Any

import pytest

from odradek.broker.replication.isr import FollowerProgress
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.requests.whole_broker import TOPIC, Client, with_broker

WAIT_MS, VERSION = 5000, 12


def asked(*indexes: int, offset: int = 0, topic: str = TOPIC) -> FetchTopic:
    partitions = [FetchPartition(partition=one, fetch_offset=offset, partition_max_bytes=1 << 20) for one in indexes]
    return FetchTopic(topic=topic, partitions=partitions)


async def fetch(client: Client, *topics: FetchTopic, **fields: Any) -> tuple[bool, Any]:
    """Whether it has waited as long as it may, and the answer."""
    clock = client.cluster.clock
    began_ms = clock.monotonic_ms()
    request: dict[str, Any] = {"max_wait_ms": WAIT_MS, "min_bytes": 1, "topics": list(topics)}
    answer = await client.ask(FetchRequest(**(request | fields)), VERSION)
    took_ms = clock.monotonic_ms() - began_ms
    assert took_ms < 1000 or WAIT_MS <= took_ms < WAIT_MS + 1000
    return took_ms >= WAIT_MS, answer


def errors(answer: Any) -> list[int]:
    return [one.error_code for topic in answer.responses for one in topic.partitions]


@pytest.mark.parametrize(
    ("topics", "fields", "waits", "told"),
    [
        ([asked(0, 1)], {}, True, [0, 0]),
        ([asked(0, 1)], {"session_epoch": 0}, True, [0, 0]),
        ([asked(0, 1)], {"max_wait_ms": 0}, False, [0, 0]),
        ([asked(0, 1)], {"max_wait_ms": -1}, False, [0, 0]),
        ([asked(0, 1)], {"min_bytes": 0}, False, [0, 0]),
        ([asked(0, 9)], {}, False, [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ([asked(0, offset=1)], {}, False, [ErrorCode.OFFSET_OUT_OF_RANGE]),
        ([], {}, False, []),
        ([], {"session_epoch": 0}, False, []),
        ([asked(0)], {"session_id": 77, "session_epoch": 1}, False, []),
    ],
    ids=[
        "nothing to read", "the first of a session", "no patience", "less than none", "no bytes", "an error",
        "out of range", "no partitions", "a session of none", "no such session",
    ],
)  # fmt: skip
def test_a_fetch_waits_unless_there_is_something_to_say(
    topics: list[FetchTopic], fields: dict[str, int], waits: bool, told: list[int]
) -> None:
    async def scenario(client: Client) -> None:
        await client.create(partitions=2)
        waited, answer = await fetch(client, *topics, **({"session_epoch": -1} | fields))
        assert (waited, errors(answer)) == (waits, told)
        session_is_wanted = fields.get("session_epoch") == 0
        assert (answer.session_id > 0) is session_is_wanted

    with_broker(scenario)


def test_a_fetch_of_a_session_waits_while_nothing_is_new_in_it() -> None:
    async def scenario(client: Client) -> None:
        await client.create(partitions=2)
        _, first = await fetch(client, asked(0, 1), session_epoch=0, max_wait_ms=0)
        session = {"session_id": first.session_id}
        for epoch in (1, 2):
            waited, answer = await fetch(client, session_epoch=epoch, **session)
            assert (waited, answer.session_id, answer.responses) == (True, first.session_id, [])
        waited, answer = await fetch(client, asked(9), session_epoch=3, **session)
        assert (waited, errors(answer)) == (False, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        waited, answer = await fetch(client, session_epoch=4, **session)
        assert (waited, errors(answer)) == (False, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]), "an error is told each time"
        await client.produce(b"a")
        _, answer = await fetch(client, session_epoch=5, **session)
        partitions = [one for topic in answer.responses for one in topic.partitions]
        assert [(one.partition_index, bool(one.records)) for one in partitions] == [(9, False), (0, True)]

    with_broker(scenario)


@pytest.mark.parametrize(("offset", "diverges"), [(1, False), (3, True)])
def test_whoever_has_to_truncate_is_told_at_once(offset: int, diverges: bool) -> None:
    """His last epoch ended before his offset: he is out of no range."""

    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(b"a")
        wanted = asked(0, offset=offset)
        wanted.partitions[0].last_fetched_epoch = 0
        waited, answer = await fetch(client, wanted, session_epoch=-1)
        [one] = answer.responses[0].partitions
        assert (waited, one.error_code, one.records) == (not diverges, ErrorCode.NONE, b"")
        told = one.diverging_epoch and (one.diverging_epoch.epoch, one.diverging_epoch.end_offset)
        assert told == ((0, 1) if diverges else None)

    with_broker(scenario)


@pytest.mark.parametrize(
    ("replica_id", "indexes", "waits", "told"),
    [
        (1, (0,), True, [0]),
        (1, (9, 0), False, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]),
        (1, (0, 9), False, [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        (7, (0,), False, [ErrorCode.NOT_LEADER_OR_FOLLOWER]),
    ],
    ids=["nothing to read", "an error before it", "an error behind it", "no replica of it"],
)
def test_a_follower_hears_of_an_error_at_once_whatever_else_it_asks_for(
    replica_id: int, indexes: tuple[int, ...], waits: bool, told: list[int]
) -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        replicas = client.cluster.brokers[0].server.services.replicas
        replicas.partitions[TOPIC, 0].followers[1] = FollowerProgress(1, 0.0)
        waited, answer = await fetch(client, asked(*indexes), session_epoch=-1, replica_id=replica_id)
        assert (waited, errors(answer)) == (waits, told)

    with_broker(scenario)
