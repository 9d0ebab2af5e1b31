"""The newest records of a topic in which many offsets are no records: as many are shown as were asked for."""

from typing import Any

import pytest

from odradek.aio import Admin, Producer
from odradek.console import reading
from odradek.console.reading import Place, Reader
from odradek.testing.virtual_run import VirtualCluster, run

NEWEST = Place("flights", 0, "latest", 0)


def newest(transactions: int, count: int) -> dict[str, Any]:
    """Write records, each in a transaction of its own, whose end has an offset too; read the newest."""

    async def test(cluster: VirtualCluster) -> dict[str, Any]:
        settings = {"bootstrap_servers": cluster.bootstrap}
        async with Producer(settings, transactional_id="t") as producer:
            await producer.init_transactions()
            for number in range(transactions):
                async with producer.transaction():
                    await producer.send("flights", value=b"%d" % number, partition=0)
        async with Admin(settings) as admin:
            return await Reader(admin, settings, cluster.clock).records(NEWEST, count)

    return run(test, brokers=1, topics={"flights": 1})


def test_as_many_are_shown_as_were_asked_for() -> None:
    found = newest(30, 8)
    assert [one["offset"] for one in found["records"]] == [2 * number for number in range(22, 30)]
    assert not found["cut"]


def test_fewer_are_shown_where_there_are_no_more() -> None:
    found = newest(3, 8)
    assert [one["offset"] for one in found["records"]] == [0, 2, 4] and not found["cut"]


def test_it_does_not_go_back_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BACK_ROUNDS_MAX", 0)
    found = newest(30, 8)
    assert [one["offset"] for one in found["records"]] == [52, 54, 56, 58] and found["cut"]
