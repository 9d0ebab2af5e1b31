"""How the answer to a Fetch is made up: its topics, their order, and who gets his turn in a session."""

from typing import Any

import pytest

from odradek.protocol.messages.fetch import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from tests.broker.requests.whole_broker import TOPIC, Client, with_broker


async def fetch(client: Client, version: int, *asked: tuple[str, int], **fields: Any) -> Any:
    names = client.cluster.brokers[0].server.services.metadata.names
    topics = [
        FetchTopic(
            topic=topic,
            topic_id=names.ids_by_name.get(topic, b"?" * 16),
            partitions=[FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)],
        )
        for topic, index in asked
    ]
    request: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics}
    return await client.ask(FetchRequest(**(request | fields)), version)


def with_data(answer: Any) -> list[int]:
    return [one.partition_index for topic in answer.responses for one in topic.partitions if one.records]


@pytest.mark.parametrize("version", [FIRST_VERSION_WITH_TOPIC_IDS - 1, FIRST_VERSION_WITH_TOPIC_IDS, 17])
def test_partitions_are_answered_in_the_order_in_which_they_were_named(version: int) -> None:
    """Each under its topic, which clients know by its name or by its id; neighbours of one topic together."""

    async def scenario(client: Client) -> None:
        for name in ("t", "u"):
            await client.create(name, partitions=3)
        asked = [("t", 2), ("t", 0), ("u", 1), ("nobody", 0), ("t", 1)]
        answer = await fetch(client, version, *asked)
        ids = client.cluster.brokers[0].server.services.metadata.names.ids_by_name
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        assert [
            (topic.topic_id if by_id else topic.topic, [one.partition_index for one in topic.partitions])
            for topic in answer.responses
        ] == [
            (ids.get(name, b"?" * 16) if by_id else name, indexes)
            for name, indexes in (("t", [2, 0]), ("u", [1]), ("nobody", [0]), ("t", [1]))
        ]

    with_broker(scenario)


def test_a_partition_that_has_been_served_in_a_session_lets_the_others_go_first() -> None:
    """Where an answer has room for one alone the last ones would have starved (KIP-74)."""

    async def scenario(client: Client) -> None:
        await client.create(partitions=3)
        for index in range(3):
            await client.produce_to(index)
        first = await fetch(client, 12, (TOPIC, 0), (TOPIC, 1), (TOPIC, 2), session_epoch=0, max_bytes=1)
        served = [with_data(first)]
        for epoch in range(1, 7):
            session = {"session_id": first.session_id, "session_epoch": epoch}
            served.append(with_data(await fetch(client, 12, max_bytes=1, **session)))
        assert served == [[0], [0], [1], [2], [0], [1], [2]]

    with_broker(scenario)


def test_a_session_looks_only_at_what_has_changed() -> None:
    """Thousands of partitions would have been looked at for each fetch."""

    async def scenario(client: Client) -> None:
        await client.create(partitions=3)
        asked = [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2)]
        first = await fetch(client, 12, *asked, session_epoch=0)
        session = {"session_id": first.session_id}
        [found] = client.cluster.brokers[0].server.services.fetch_sessions._sessions.values()
        assert found.dirty == {}
        await client.produce_to(1)
        assert [one.index for one in found.dirty] == [1]
        assert with_data(await fetch(client, 12, session_epoch=1, **session)) == [1]
        assert [one.index for one in found.dirty] == [1], "there is more to read for whoever has not read it"
        gone = [ForgottenTopic(topic=TOPIC, partitions=[1])]
        await fetch(client, 12, session_epoch=2, forgotten_topics_data=gone, **session)
        assert [index for _, index in found.partitions] == [0, 2] and found.dirty == {}

    with_broker(scenario)
