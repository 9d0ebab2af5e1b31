"""Replicas that a reassignment is adding: no screen tells them as missing before the move is done."""

import json

import pytest

from odradek import KafkaAdminClient
from odradek.aio import Admin
from odradek.cli import main as command_line
from odradek.client.admin.values import Reassignment
from odradek.client.metadata import PartitionInfo
from odradek.client.records import TopicPartition
from odradek.console.observer import looker
from odradek.console.snapshot import cluster_model
from odradek.diagnosis.overview import compare
from odradek.diagnosis.watching import Watcher
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing import Cluster
from odradek.testing.virtual_run import VirtualCluster, run
from tests.diagnosis.staged_topics import AT, cluster_controller, flights


async def no_page(host: str, port: int, path: str) -> bytes:
    raise ConnectionRefusedError(f"{host}:{port}{path}")


def partition(replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionInfo:
    return PartitionInfo("flights", 0, 0, 0, replicas, isr, (), ErrorCode.NONE)


@pytest.mark.parametrize(
    ("replicas", "isr", "adding", "lacks"),
    [
        ((0, 1, 2), (0, 1), (2,), False),
        ((0, 1, 2), (0, 2), (2,), False),
        ((0, 1, 2), (0,), (2,), True),
        ((0, 1), (0,), (2,), True),
        ((0, 1), (0, 0), (), True),
        ((0, 1), (0, 1), (), False),
    ],
    ids=["being added", "added makes up", "another lacks", "move is over", "named twice", "whole"],
)
def test_as_many_are_to_be_in_sync_as_without_a_move(
    replicas: tuple[int, ...], isr: tuple[int, ...], adding: tuple[int, ...], lacks: bool
) -> None:
    assert partition(replicas, isr).is_under_replicated(adding) is lacks


def test_no_screen_counts_them_as_missing() -> None:
    """Every planned move looked like an outage, for as long as it took."""

    async def test(cluster: VirtualCluster) -> None:
        leader, stays, new = sorted({0, 1, 2, 3} - {cluster_controller(cluster)})
        await flights(cluster, [leader, stays])
        await cluster.partition(leader, new)
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.alter_partition_reassignments({AT: [leader, stays, new]})
            look = looker(admin, cluster.clock)
            while len((seen := await look()).topics["flights"].partitions[0].replicas) < 3:
                pass
            model = cluster_model(seen)
            assert model["figures"]["under_replicated"] == 0
            assert [one["lagging"] for one in model["brokers"]] == [0, 0, 0, 0]
            assert [topic["partitions"][0][4] for topic in model["topics"] if topic["name"] == "flights"] == [[new]]

            watcher = Watcher(admin, lambda: cluster.clock.monotonic_ms() / 1000, no_page)
            now = await watcher.look()
            assert (now.under_replicated, now.unanswered) == ([], ())
            assert [one.under_replicated for one in compare(now, now).brokers] == [0, 0, 0, 0]

            await cluster.kill(stays)
            await cluster.wait_for("flights", isr={leader})
            while not (model := cluster_model(await look()))["figures"]["under_replicated"]:
                pass
            assert [one["id"] for one in model["brokers"] if one["lagging"]] == [stays]
            assert "flights-0" in (await watcher.look()).under_replicated

    run(test, brokers=4)


def test_the_command_leaves_them_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("flights", partitions=2, replicas=3)
        gone = cluster.leader("flights", 0)
        cluster.kill(gone)
        cluster.wait_for("flights", 0, isr=2)
        cluster.wait_for("flights", 1, isr=2)
        moves = [Reassignment(TopicPartition("flights", 0), (0, 1, 2), (gone,), ())]
        asked = ["topics", "describe", "flights", "--under-replicated", "--json"]
        at = ["--bootstrap-server", cluster.bootstrap]

        def told() -> list[int]:
            assert command_line.run([*asked, *at]) == 0
            return [one["partition"] for one in json.loads(capsys.readouterr().out)]

        assert told() == [0, 1]
        monkeypatch.setattr(KafkaAdminClient, "list_partition_reassignments", lambda *_, **__: moves)
        assert told() == [1]

        def refused(*_: object, **__: object) -> object:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")

        monkeypatch.setattr(KafkaAdminClient, "list_partition_reassignments", refused)
        assert command_line.run([*asked, *at]) == 0
        said = capsys.readouterr()
        assert len(json.loads(said.out)) == 2 and "not known: replicas that are being added" in said.err
