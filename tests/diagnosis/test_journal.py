"""Journals of controllers, leaders and coordinators: enough to tell an event from its rule, writes and requests."""

import asyncio
from contextlib import suppress

import pytest

from odradek.aio import Admin
from odradek.diagnosis import surroundings
from odradek.diagnosis.facts import BrokerFacts
from odradek.diagnosis.history import History
from odradek.testing.virtual_run import VirtualCluster, run
from odradek.zk_schema.store import Stat
from odradek.zk_schema.znodes.topics import state_path
from tests.diagnosis.conftest import facts_of


def test_an_election_is_noted_with_the_zxid_of_its_write_and_who_was_told() -> None:
    async def test(cluster: VirtualCluster) -> None:
        controller = cluster.controllers()[0].broker_id
        leader, follower = (one for one in range(3) if one != controller)
        await cluster.create_topic("flights", assignment={0: [leader, follower]})
        await cluster.kill(leader)
        await cluster.wait_for("flights", leader=follower)
        history = History((await facts_of(cluster, {"flights"})).journals)
        elected = [one for one in history.about("partition", "flights-0") if one.rule == "OfflinePartition"][-1]
        together = history.together(elected)
        assert elected.event == "BrokersChanged"
        assert [one.subject for one in together if one.kind == "broker"] == [str(leader)]
        path = state_path("flights", 0)
        writes = [one.entry["zxid"] for one in together if one.kind == "write" and path in one.entry["paths"]]
        stat: Stat = (await cluster.running[0].store.get(path))[1]
        assert stat.mzxid in writes and elected.entry["after"]["partition_epoch"] <= stat.version
        assert any("LeaderAndIsr" in one.entry["sent"] for one in together if one.kind == "requests")

    run(test)


def test_requests_to_the_controller_are_events_by_their_names() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights", assignment={0: [0, 1]})
        await cluster.move_leader("flights", 0, 1)
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.elect_leaders()
        await cluster.stop(next(one.broker_id for one in cluster.running if one not in cluster.controllers()))
        history = History((await facts_of(cluster, {"flights"})).journals)
        events = {one.event for one in history.noted}
        assert {"AlterPartitionReassignments", "ElectLeaders", "ControlledShutdown"} <= events, events

    run(test)


@pytest.mark.parametrize(
    "page", [b"[]", b"{}", b'{"entries": 3}', b'{"entries": [1], "forgotten": 0}', b"<html>", b"[" * 100_000]
)
def test_what_is_no_journal_is_not_taken_for_one(page: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program may have the port by now."""

    async def get_page(host: str, port: int, path: str) -> bytes:
        return page

    monkeypatch.setattr(surroundings, "get_page", get_page)
    broker = BrokerFacts(1, address="127.0.0.1:9092", settings={"metrics.port": "7071"})
    said = asyncio.run(surroundings.read_journal(broker))
    assert isinstance(said, str) and "127.0.0.1:7071" in said


def test_a_page_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What answers there is another program perhaps; all that it sent was kept until it closed the connection."""
    monkeypatch.setattr(surroundings, "JOURNAL_BYTES_MAX", 100_000)

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n" * 1_000)
                await writer.drain()

    async def test() -> str:
        async with await asyncio.start_server(endless, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            with pytest.raises(ValueError, match="more than 100,000 bytes"):
                await surroundings.get_page(host, port, "/journal")
            server.close()
        return "given up"

    assert asyncio.run(test()) == "given up"
