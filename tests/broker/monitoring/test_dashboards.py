"""Our own dashboards and alerts ask for nothing that a live cluster does not tell."""

import asyncio
import gc
import importlib.util
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from odradek.aio import Admin
from odradek.broker.monitoring.lag import ConsumerLag, PartitionEnds
from odradek.broker.monitoring.metric import Style
from odradek.broker.monitoring.metrics_catalog import CATALOG
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.scraping import METRICS_PORT, Scrape, get, scrape
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.way_through import PRODUCE_VERSION, TOPIC, accepted, connect, create_topic, produce_request
from odradek.zk_schema.store import create_parents
from odradek.zk_schema.znodes.consumers import consumer_id_path, encode_offset, offset_path

DEPLOY = Path(__file__).parents[3] / "deploy"
OF_THE_MACHINE = frozenset(
    [
        "odradek_task_deaths_total",
        "odradek_log_volume_bytes",
        "process_open_fds",
        "process_resident_memory_bytes",
        "kafka_server_kafkaserver_linux_disk_read_bytes",
        "kafka_server_kafkaserver_linux_disk_write_bytes",
    ]
)
"""Told when there is something to tell: a death, a real disk, Linux. They must stand in the catalog."""


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboards", DEPLOY / "grafana" / "dashboards.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DASHBOARDS = load()


async def lagging_group(cluster: EmbeddedCluster) -> None:
    """Broker 1 leads a partition; a group has committed offset 1 of it, a minute before more records come."""
    await create_topic(cluster, [1, 0])
    client = await connect(cluster, cluster.brokers[1])
    admin = Admin(
        network=cluster.network.host("admin"),
        clock=cluster.clock,
        random=random.Random(1),
        bootstrap_servers="broker-0:9092",
    )
    async with admin:
        offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(1)}
        assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
        await admin.alter_group_offsets("behind", offsets)
        await asyncio.sleep(60)
        assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
        await asyncio.sleep(60)


async def group_of_kafka_0_8(cluster: EmbeddedCluster) -> None:
    """Commits offset 1 to ZooKeeper, by hand, and has a member there."""
    store = cluster.brokers[0].store
    for path, data in (
        (offset_path("old", TOPIC, 0), encode_offset(1)),
        (offset_path("old", TOPIC, 1), b"no number"),
        (consumer_id_path("old", "old_host-1"), b"{}"),
    ):
        await create_parents(store, path)
        await store.create(path, data)
    await asyncio.sleep(40)


def scraped() -> tuple[set[str], list[Scrape]]:
    async def main(clock: VirtualClock) -> tuple[set[str], list[Scrape]]:
        async with EmbeddedCluster(clock, 2, {"metrics.port": str(METRICS_PORT)}) as cluster:
            await lagging_group(cluster)
            await group_of_kafka_0_8(cluster)
            gc.collect()
            scrapes = [await scrape(cluster, broker) for broker in cluster.brokers]
            pages = [json.loads((await get(cluster, one, "/lag"))[1])["zookeeper"] for one in cluster.brokers]
            assert sorted(pages, key=len) == [{}, {"old": 1}]
            (told,) = [
                json.loads((await get(cluster, cluster.brokers[at], "/lag?group=old"))[1])["partitions"]
                for at in (0, 1)
                if pages[at]
            ]
            assert [row[:3] for row in told] == [[TOPIC, 0, 1]] and told[0][3] > 0 and told[0][4] > 20
            return {name for one in scrapes for name in one.samples}, scrapes

    return run_virtual(main)


def test_every_query_of_ours_names_metrics_that_a_live_cluster_tells() -> None:
    told, _ = scraped()
    asked = {name for query in DASHBOARDS.queries() for name in DASHBOARDS.names_in(query)}
    alerts = (DEPLOY / "prometheus" / "alerts.yml").read_text()
    expressions = re.findall(r"expr: (.*)", alerts)
    assert len(expressions) == alerts.count("- alert:") == alerts.count("runbook:")
    asked |= {name for expression in expressions for name in DASHBOARDS.names_in(expression)}
    catalog = {metric.names[Style.JMX_EXPORTER] for metric in CATALOG}
    assert asked - told - OF_THE_MACHINE == set()
    assert asked & OF_THE_MACHINE <= catalog and len(asked) > 50


def test_the_coordinator_tells_how_far_a_group_is_behind() -> None:
    _, scrapes = scraped()
    (coordinator,) = (one for one in scrapes if "behind" in _groups(one))
    labels = {"consumergroup": "behind", "topic": TOPIC, "partition": "0"}
    (end,) = {
        one.value("kafka_topic_partition_current_offset", topic=TOPIC)
        for one in scrapes
        if any(sample.labels["topic"] == TOPIC for sample in one.samples["kafka_topic_partition_current_offset"])
    }
    assert coordinator.value("kafka_consumergroup_lag", **labels) == end - 1 > 0
    assert coordinator.value("kafka_consumergroup_current_offset", **labels) == 1
    assert coordinator.value("kafka_consumergroup_members", consumergroup="behind") == 0
    assert 95 < coordinator.value("kafka_consumergroup_lag_seconds", **labels) < 170


def test_the_controller_tells_how_far_a_group_is_behind_whose_offsets_are_in_zookeeper() -> None:
    _, scrapes = scraped()
    (controller,) = (one for one in scrapes if "old" in _groups(one))
    assert controller.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    labels = {"consumergroup": "old", "topic": TOPIC, "partition": "0"}
    assert controller.value("kafka_consumergroup_current_offset", **labels) == 1
    assert controller.value("kafka_consumergroup_lag", **labels) > 0
    assert controller.value("kafka_consumergroup_lag_seconds", **labels) > 20
    assert controller.value("kafka_consumergroup_members", consumergroup="old") == 1


def test_a_group_that_commits_to_both_places_is_told_once_by_a_broker_that_knows_both() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, {"metrics.port": str(METRICS_PORT)}) as cluster:
            await create_topic(cluster, [0])
            admin = Admin(
                network=cluster.network.host("admin"),
                clock=cluster.clock,
                random=random.Random(1),
                bootstrap_servers="broker-0:9092",
            )
            async with admin:
                await admin.alter_group_offsets("old", {TopicPartition(TOPIC, 0): OffsetAndMetadata(5)})
            await group_of_kafka_0_8(cluster)
            told = await scrape(cluster, cluster.brokers[0])
            assert told.value("kafka_consumergroup_current_offset", consumergroup="old") == 5
            assert told.value("kafka_consumergroup_members", consumergroup="old") == 1
            (row,) = json.loads((await get(cluster, cluster.brokers[0], "/lag?group=old"))[1])["partitions"]
            assert row[:3] == [TOPIC, 0, 5]

    run_virtual(main)


def _groups(scrape: Scrape) -> set[str]:
    return {sample.labels["consumergroup"] for sample in scrape.samples.get("kafka_consumergroup_lag", ())}


@pytest.mark.parametrize("title", DASHBOARDS.BOARDS)
def test_a_dashboard_is_what_the_table_says(title: str) -> None:
    text = (DEPLOY / "grafana" / "dashboards" / f"{title.lower()}.json").read_text()
    assert text == DASHBOARDS.render(title), "run: python deploy/grafana/dashboards.py"
    panels = json.loads(text)["panels"]
    assert len({panel["title"] for panel in panels}) == len(panels)


def lost(given: Any, kept: Any, path: str = "") -> Iterator[str]:
    """Yield the places of what is in one document, and not, or otherwise, in another one."""
    if isinstance(given, dict):
        for name, value in given.items():
            if name in kept:
                yield from lost(value, kept[name], f"{path}/{name}")
            else:
                yield f"{path}/{name}"
    elif isinstance(given, list):
        assert len(given) == len(kept), path
        for number, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from lost(one, other, f"{path}/{number}")
    elif given != kept:
        yield f"{path}: {given!r} became {kept!r}"


@pytest.mark.parametrize("title", DASHBOARDS.BOARDS)
def test_grafanas_own_model_of_a_dashboard_knows_all_of_it(title: str) -> None:
    register_default_plugins()
    board = DASHBOARDS.dashboard(title)
    assert list(lost(board, json.loads(JSONEncoder().encode(Dashboard.from_json(board))))) == []
    misspelt = board | {"templatin": {}}
    assert list(lost(misspelt, json.loads(JSONEncoder().encode(Dashboard.from_json(misspelt))))) == ["/templatin"]


def test_lag_in_time_is_that_of_the_record_read_next() -> None:
    ends = PartitionEnds()
    for at_s, offset in ((0.0, 0), (10.0, 100), (20.0, 100), (30.0, 100), (40.0, 200)):
        ends.note(at_s, offset)
    assert ends.behind_s(200, 50.0) == 0.0
    assert ends.behind_s(150, 50.0) == pytest.approx(15.0)
    assert ends.behind_s(100, 50.0) == pytest.approx(20.0), "the record at 100 came after the last look that had none"
    assert ends.behind_s(50, 50.0) == pytest.approx(45.0)


def test_an_end_that_went_back_makes_what_was_before_it_void() -> None:
    ends = PartitionEnds()
    ends.note(0.0, 100)
    ends.note(10.0, 300)
    ends.note(20.0, 150)
    assert ends.last == 150 and ends.behind_s(150, 30.0) == 0.0
    assert ends.behind_s(120, 30.0) == pytest.approx(30.0 - 8.0)
    assert ends.behind_s(20, 30.0) == pytest.approx(30.0), "at least as long as is remembered"


class OfAnother(dict[Any, Any]):
    """Offsets that nobody has asked for."""

    def items(self) -> Any:
        raise AssertionError("these may be half a million")


def test_the_lag_of_one_group_costs_nothing_for_the_offsets_of_others() -> None:
    """All offsets of all groups were gone over, in one go: hundreds of groups stopped the broker for a second."""

    def group(name: str, offsets: dict[Any, Any]) -> SimpleNamespace:
        return SimpleNamespace(metadata=SimpleNamespace(group_id=name), offsets=offsets)

    offsets = {("t", 0): SimpleNamespace(offset=5), ("unknown", 0): SimpleNamespace(offset=5)}
    groups = SimpleNamespace(groups=[group("a", OfAnother()), group("b", offsets), group("c", OfAnother())])
    clock = SimpleNamespace(perf_counter=lambda: 30.0)
    lag = ConsumerLag(SimpleNamespace(zookeeper=None, groups=groups, clock=clock), None)  # type: ignore[arg-type]
    lag._note(("t", 0), 9)
    assert lag.of_group("b") == [["t", 0, 5, 4, 0.0]]


def test_compose_asks_every_broker() -> None:
    asked = re.findall(r"broker-(\d):(\d+)", (DEPLOY / "prometheus" / "prometheus.yml").read_text())
    told = (DEPLOY.parent / "docker-compose.yml").read_text()
    assert asked == re.findall(r"KAFKA_METRICS_PORT: \$\{ODRADEK_METRICS_PORT_(\d):-(\d+)\}", told) and len(asked) == 3
    overlay = (DEPLOY / "observability.yml").read_text()
    for mounted in re.findall(r"- \./(deploy/[\w./]+):", overlay):
        assert (DEPLOY.parent / mounted).exists(), mounted
