"""`odradek top`: two looks compared, and looks at a cluster on virtual time."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.values import ConfigResource
from odradek.client.metadata import PartitionInfo
from odradek.client.records import TopicPartition
from odradek.diagnosis.overview import GroupLook, Look, compare, lines
from odradek.diagnosis.watching import Watcher, metrics_place
from odradek.protocol.errors import ErrorCode
from odradek.testing.virtual_run import VirtualCluster, run

AT = TopicPartition("flights", 0)


def partition(number: int, leader: int, isr: tuple[int, ...]) -> PartitionInfo:
    return PartitionInfo("flights", number, leader, 0, (0, 1), isr, (), ErrorCode.NONE)


def test_what_moved_between_two_looks() -> None:
    partitions = (partition(0, 0, (0,)), partition(1, -1, (1,)))
    known = {0: "a:9092"}
    before = Look(10.0, 0, known, partitions, {AT: 100}, {0: (1000.0, 0.0)}, (GroupLook("g", "Stable", 1, 50),))
    now = Look(12.0, 0, known, partitions, {AT: 120}, {0: (5000.0, 0.0)}, (GroupLook("g", "Stable", 1, 40),))
    found = compare(before, now)
    here, away = found.brokers
    assert (here.controller, here.leads, here.replicas, here.under_replicated) == (True, 1, 2, 1)
    assert (here.records_per_s, here.bytes_in_per_s, here.bytes_out_per_s) == (10.0, 2000.0, 0.0)
    assert (away.broker, away.address, away.bytes_in_per_s) == (1, "offline", None)
    assert (found.leaderless, found.under_replicated) == (("flights-1",), ("flights-0",))
    assert found.topics == (("flights", 2, 10.0),) and found.groups[0].lag_per_s == -5.0
    tables = {title: rows for title, _, rows in lines(found, 5)}
    assert tables["brokers"][0] == ["0 (controller)", "a:9092", 1, 2, 1, "10", "2.0 KB", "0 bytes"]
    assert tables["groups, the furthest behind first"] == [["g", "Stable", 1, 40, "-5"]]


def test_a_broker_that_an_isr_names_twice_is_one_replica_in_sync() -> None:
    look = Look(0.0, 0, {0: "a:1"}, (partition(0, 0, (0, 0)),), {AT: 1}, {})
    assert look.under_replicated == ["flights-0"]
    assert compare(look, replace(look, at_s=1.0)).brokers[0].under_replicated == 1


def test_a_log_or_a_counter_that_began_anew_counts_as_nothing() -> None:
    one = (partition(0, 0, (0, 1)),)
    before = Look(0.0, 0, {0: "a:1"}, one, {AT: 100}, {0: (9.0, 9.0)})
    found = compare(before, Look(1.0, 0, {0: "a:1"}, one, {AT: 3}, {0: (1.0, 2.0)}))
    assert found.brokers[0].records_per_s == found.brokers[0].bytes_in_per_s == 0.0


def test_where_a_broker_tells_its_metrics() -> None:
    assert metrics_place({"metrics.port": "0"}, "b:9092") is None
    assert metrics_place({"metrics.port": "7071", "metrics.host": ""}, "[::1]:9092") == ("::1", 7071)
    assert metrics_place({"metrics.port": "7071", "metrics.host": "10.0.0.1"}, "b:9092") == ("10.0.0.1", 7071)


def test_looks_at_a_cluster_with_and_without_metrics() -> None:
    async def test(cluster: VirtualCluster) -> None:
        counter = [0.0]

        async def get(host: str, port: int, path: str) -> bytes:
            if port != 7071:
                raise ConnectionRefusedError("nobody")
            if path == "/lag":
                return b'{"zookeeper": {"old group": 2, "new": 1}}'
            if path.startswith("/lag?group="):
                return b'{"partitions": [["t", 0, 7, 3, 0.5], ["t", 1, 7, 4, 0.5]]}' if "old%20group" in path else b"{}"
            counter[0] += 500
            return b'kafka_server_brokertopicmetrics_bytesin_total{topic="flights"} %d\n' % counter[0]

        async with (
            Admin(bootstrap_servers=cluster.bootstrap) as admin,
            Producer(bootstrap_servers=cluster.bootstrap) as producer,
            Consumer(
                "flights", bootstrap_servers=cluster.bootstrap, group_id="g", auto_offset_reset="earliest"
            ) as reader,
        ):
            watcher = Watcher(admin, lambda: cluster.clock.monotonic_ms() / 1000, get)
            await (await producer.send("flights", value=b"x"))
            while not await reader.getmany(timeout_ms=1_000):
                pass
            await reader.commit()
            before = await watcher.look()
            for _ in range(10):
                await (await producer.send("flights", value=b"x"))
            await asyncio.sleep(1)
            found = compare(before, await watcher.look())
        assert sum(one.records_per_s for one in found.brokers) * found.seconds == 10
        assert found.brokers[0].bytes_in_per_s is not None and not found.unanswered
        assert [(one.group, one.state, one.members, one.lag) for one in found.groups] == [
            ("g", "Stable", 1, 10),
            ("new", "in ZooKeeper", 1, None),
            ("old group", "in ZooKeeper", 2, 7),
        ]

    run(test, brokers=1, topics={"flights": 1}, settings={"metrics.port": "7071"})


class Pages:
    """What brokers answer over HTTP, by port and path; nobody listens at other ports."""

    def __init__(self) -> None:
        self.by_port: dict[int, dict[str, bytes]] = {}

    async def get(self, _: str, port: int, path: str) -> bytes:
        if port not in self.by_port:
            raise ConnectionRefusedError("nobody")
        return self.by_port[port].get(path, b"{}")


BYTES = {"/metrics": b'kafka_server_brokertopicmetrics_bytesin_total{topic="flights"} 500\n'}


def test_a_broker_that_is_started_again_with_metrics_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was looked for once alone."""

    async def test(cluster: VirtualCluster) -> None:
        port, pages = 0, Pages()

        async def settings(_: Admin, resources: list[ConfigResource]) -> object:
            return {one: [SimpleNamespace(name="metrics.port", value=str(port))] for one in resources}

        monkeypatch.setattr(Admin, "describe_configs", settings)
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            watcher = Watcher(admin, lambda: cluster.clock.monotonic_ms() / 1000, pages.get)
            assert (await watcher.look()).bytes == {}
            port, pages.by_port = 7071, {7071: BYTES}
            assert (await watcher.look()).bytes == {0: (500.0, 0.0)}
            port, pages.by_port = 7072, {7072: BYTES}
            assert (await watcher.look()).unanswered == ("the metrics of broker 0: nobody",)
            found = await watcher.look()
            assert (found.bytes, found.unanswered) == ({0: (500.0, 0.0)}, ())

    run(test, brokers=1, topics={"flights": 1})


@pytest.mark.parametrize(
    "page",
    [b"[" * 100_000, b"[]", b'{"zookeeper": [1]}', b'{"zookeeper": {"g": "many"}}', b"\xff"],
    ids=["deep", "list", "names", "text", "bytes"],
)
def test_what_is_no_page_of_a_broker_does_not_end_the_looking(page: bytes) -> None:
    async def test(cluster: VirtualCluster) -> None:
        pages = Pages()
        pages.by_port = {7071: {"/metrics": b"\xff", "/lag": page}}
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            found = await Watcher(admin, lambda: cluster.clock.monotonic_ms() / 1000, pages.get).look()
            assert found.bytes == {}
            assert [one.partition(":")[0] for one in found.unanswered] == ["the metrics of broker 0"]
            pages.by_port[7071] |= BYTES
            found = await Watcher(admin, lambda: cluster.clock.monotonic_ms() / 1000, pages.get).look()
            assert [one.partition(":")[0] for one in found.unanswered] == ["groups in ZooKeeper, by broker 0"]

    run(test, brokers=1, topics={"flights": 1}, settings={"metrics.port": "7071"})
