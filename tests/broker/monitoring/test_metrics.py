"""Metrics of whole brokers on virtual time: what is counted, under which names, and at which cost to others."""

import asyncio
import gc
import itertools
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.metrics.counters import Traffic
from odradek.broker.metrics.request_metrics import errors_of
from odradek.broker.monitoring.broker_metrics import REPLICATION
from odradek.broker.monitoring.cluster_metrics import CONTROLLER
from odradek.broker.monitoring.exporter import CONNECTIONS_MAX, PIECES_PER_LOOK, pieces
from odradek.broker.monitoring.metric import Kind, Style
from odradek.broker.monitoring.metrics_catalog import CATALOG
from odradek.broker.monitoring.metrics_page import render
from odradek.controller.active_controller import ControllerCounters
from odradek.protocol.headers import RequestHeader, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.scraping import METRICS_PORT, Scrape, get, scrape
from odradek.testing.virtual_clock import ManualClock, VirtualClock, run_virtual
from odradek.testing.virtual_pipe import PIPE_BYTES
from odradek.testing.way_through import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    TOPIC,
    accepted,
    connect,
    create_topic,
    fetch_request,
    produce_request,
)
from odradek.world.durations import Durations
from odradek.world.network import Endpoint

# Names that public dashboards query, as data: nothing else of them is here. Left out is what Kubernetes tells.

STRIMZI_KAFKA = """
jvm_gc_collection_seconds_count jvm_gc_collection_seconds_sum jvm_memory_used_bytes jvm_threads_current
kafka_cluster_partition_atminisr kafka_cluster_partition_replicascount kafka_cluster_partition_underminisr
kafka_controller_controllerstats_uncleanleaderelections_total kafka_controller_kafkacontroller_activecontrollercount
kafka_controller_kafkacontroller_offlinepartitionscount kafka_log_log_size
kafka_network_socketserver_networkprocessoravgidle_percent kafka_server_brokertopicmetrics_bytesin_total
kafka_server_brokertopicmetrics_bytesout_total kafka_server_brokertopicmetrics_failedfetchrequests_total
kafka_server_brokertopicmetrics_failedproducerequests_total kafka_server_brokertopicmetrics_messagesin_total
kafka_server_brokertopicmetrics_totalfetchrequests_total kafka_server_brokertopicmetrics_totalproducerequests_total
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent kafka_server_kafkaserver_linux_disk_read_bytes
kafka_server_kafkaserver_linux_disk_write_bytes kafka_server_replicamanager_leadercount
kafka_server_replicamanager_partitioncount kafka_server_replicamanager_underreplicatedpartitions
kafka_server_socket_server_metrics_connection_count process_open_fds
"""
"""strimzi/strimzi-kafka-operator, examples/metrics/grafana-dashboards/strimzi-kafka.json, with its Prometheus rules."""

CONFLUENT_TOPICS = """
kafka_controller_kafkacontroller_globalpartitioncount kafka_controller_kafkacontroller_globaltopiccount
kafka_log_log_logendoffset kafka_log_log_logstartoffset kafka_log_log_size kafka_log_log_tiersize
kafka_server_brokertopicmetrics_bytesinpersec kafka_server_brokertopicmetrics_bytesoutpersec
kafka_server_brokertopicmetrics_messagesinpersec kafka_server_brokertopicmetrics_totalfetchrequestspersec
kafka_server_brokertopicmetrics_totalproducerequestspersec kafka_server_kafkaserver_brokerstate
"""
"""confluentinc/jmx-monitoring-stacks, jmxexporter-prometheus-grafana/…/dashboards/kafka-topics.json."""

DASHBOARDS = {
    "strimzi-kafka": (Style.JMX_EXPORTER, frozenset(STRIMZI_KAFKA.split())),
    "confluent-topics": (Style.CONFLUENT, frozenset(CONFLUENT_TOPICS.split())),
}

ALERTS = """
kafka_server_replicamanager_underreplicatedpartitions kafka_controller_kafkacontroller_activecontrollercount
kafka_controller_kafkacontroller_offlinepartitionscount kafka_server_replicamanager_underminisrpartitioncount
kafka_log_logmanager_offlinelogdirectorycount
"""
"""strimzi/strimzi-kafka-operator, prometheus-kafka-rules.yaml."""

Scene = Callable[[EmbeddedCluster], Awaitable[None]]


def play(scene: Scene, brokers: int = 2, **overrides: str) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = {"metrics.port": str(METRICS_PORT), **{key.replace("_", "."): v for key, v in overrides.items()}}
        async with EmbeddedCluster(clock, brokers, settings) as cluster:
            await scene(cluster)

    run_virtual(main)


async def produced_and_fetched(cluster: EmbeddedCluster) -> None:
    """Three batches of acks=all led by broker 1, one Fetch; and a Produce to a topic that is not there."""
    await create_topic(cluster, [1, 0])
    client = await connect(cluster, cluster.brokers[1])
    for _ in range(3):
        assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
    await client.ask(fetch_request(), FETCH_VERSION)
    stray: ProduceRequest = produce_request()
    stray.topic_data[0].name = "nowhere"
    assert not accepted(await client.ask(stray, PRODUCE_VERSION))
    topics = [MetadataRequestTopic(name="nowhere")]
    await client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)


def test_traffic_is_counted_by_topic_and_by_api() -> None:
    async def scene(cluster: EmbeddedCluster) -> None:
        await produced_and_fetched(cluster)
        leader, follower = await scrape(cluster, cluster.brokers[1]), await scrape(cluster, cluster.brokers[0])
        records = leader.value("kafka_server_brokertopicmetrics_messagesin_total", topic=TOPIC)
        assert records == leader.value("kafka_log_log_logendoffset", topic=TOPIC) > 0
        assert leader.value("kafka_server_brokertopicmetrics_bytesin_total", topic=TOPIC) == leader.value(
            "kafka_log_log_size", topic=TOPIC
        )
        assert leader.value("kafka_server_brokertopicmetrics_totalproducerequests_total", topic=TOPIC) == 3
        assert leader.value("kafka_server_brokertopicmetrics_bytesout_total", topic=TOPIC) > 0
        copied = leader.value("kafka_server_brokertopicmetrics_replicationbytesout_total")
        assert copied == leader.value("kafka_log_log_size", topic=TOPIC)
        assert follower.value("kafka_server_brokertopicmetrics_replicationbytesin_total") == copied
        assert follower.value("kafka_server_fetcherlagmetrics_consumerlag", topic=TOPIC, partition="0") == 0
        version = str(PRODUCE_VERSION)
        assert leader.value("kafka_network_requestmetrics_requests_total", request="Produce", version=version) == 4
        unknown = {"error": "UNKNOWN_TOPIC_OR_PARTITION"}
        assert leader.value("kafka_network_requestmetrics_errors_total", request="Produce", **unknown) == 1
        assert leader.value("kafka_network_requestmetrics_errors_total", request="Metadata", **unknown) == 1
        fetches = [leader.value("kafka_network_requestmetrics_totaltimems_count", request=one) for one in KINDS]
        assert fetches[0] == 1 and fetches[1] > 3
        both = [
            s for s in leader.samples["kafka_network_requestmetrics_requests_total"] if s.labels["request"] == "Fetch"
        ]
        assert sum(sample.value for sample in both) == sum(fetches)

    play(scene)


KINDS = ("FetchConsumer", "FetchFollower")


def test_the_wait_for_followers_is_remote_time() -> None:
    """An acks=all request is handled at once and waits for its follower: a round trip of the virtual network."""

    async def scene(cluster: EmbeddedCluster) -> None:
        await produced_and_fetched(cluster)
        told = await scrape(cluster, cluster.brokers[1])
        times = {
            phase: told.value(f"kafka_network_requestmetrics_{phase}", request="Produce", quantile="0.5")
            for phase in ("localtimems", "remotetimems", "totaltimems")
        }
        assert times["localtimems"] < 0.001 < times["remotetimems"] <= times["totaltimems"] < 10

    play(scene)


def test_of_many_requests_in_one_wake_up_no_more_are_measured_than_of_few() -> None:
    """Fifty requests at once are measured, and then none for 60 ms: they would be a fifth of a busy broker's."""

    async def scene(cluster: EmbeddedCluster) -> None:
        endpoint = await cluster.network.host("busy").connect("broker-0", cluster.port)
        body = b"".join(encode_request(RequestHeader(ApiVersionsRequest.API_KEY, 0, 1, "busy"), ApiVersionsRequest()))
        frame = struct.pack(">i", len(body)) + body

        async def measured_after(requests: int, seconds: float) -> float:
            endpoint.send(frame * requests)
            await asyncio.sleep(seconds)
            metrics = cluster.brokers[0].server.services.request_metrics
            return metrics.of_api("ApiVersions").total.count

        already = await measured_after(1, 1.0)
        assert await measured_after(50, 0.03) == already + 50
        assert await measured_after(50, 0.06) == already + 50
        assert await measured_after(50, 0.03) == already + 100

    play(scene, brokers=1)


def test_the_state_of_partitions_is_read_when_somebody_asks() -> None:
    async def scene(cluster: EmbeddedCluster) -> None:
        await produced_and_fetched(cluster)
        before = await scrape(cluster, cluster.brokers[1])
        assert before.value("kafka_server_replicamanager_leadercount") == 1
        assert before.value("kafka_server_replicamanager_underreplicatedpartitions") == 0
        cluster.brokers[0].kill()
        await asyncio.sleep(20)
        after = await scrape(cluster, cluster.brokers[1])
        assert after.value("kafka_server_replicamanager_underreplicatedpartitions") == 1
        assert after.value("kafka_server_replicamanager_underminisrpartitioncount") == 1
        assert after.value("kafka_cluster_partition_insyncreplicascount", topic=TOPIC) == 1
        assert after.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert after.value("kafka_controller_kafkacontroller_activebrokercount") == 1

    play(scene, min_insync_replicas="2")


def test_the_controller_tells_of_its_elections() -> None:
    async def scene(cluster: EmbeddedCluster) -> None:
        await create_topic(cluster, [1, 0], partitions=3)
        cluster.brokers[1].kill()
        await asyncio.sleep(20)
        told = await scrape(cluster, cluster.brokers[0])
        assert told.value("odradek_controller_elections_total") >= 3
        assert told.value("kafka_controller_controllerstats_leaderelectionrateandtimems_count") >= 1
        assert told.value("kafka_controller_controllerstats_uncleanleaderelections_total") == 0
        assert told.value("kafka_controller_kafkacontroller_globalpartitioncount") == 3
        assert told.value("kafka_controller_kafkacontroller_preferredreplicaimbalancecount") == 3
        assert told.value("kafka_controller_kafkacontroller_offlinepartitionscount") == 0
        assert told.value("kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count") > 10

    play(scene)


def test_the_zookeeper_session_is_watched() -> None:
    async def scene(cluster: EmbeddedCluster) -> None:
        await asyncio.sleep(1)
        cluster.zookeeper.expire_session(cluster.brokers[0].store.session_id)
        await asyncio.sleep(20)
        told = await scrape(cluster, cluster.brokers[0])
        assert told.value("kafka_server_sessionexpirelistener_zookeeperexpires_total") == 1
        assert told.value("kafka_server_sessionexpirelistener_zookeepersyncconnects_total") == 2
        assert told.value("odradek_zookeeper_connected") == 1

    play(scene, brokers=1)


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_public_dashboards_find_what_they_query(dashboard: str) -> None:
    style, queried = DASHBOARDS[dashboard]
    found: set[str] = set()

    async def scene(cluster: EmbeddedCluster) -> None:
        await produced_and_fetched(cluster)
        gc.collect()
        for broker in cluster.brokers:
            found.update((await scrape(cluster, broker, f"?names={style.value}")).samples)

    play(scene)
    assert len(queried & found) >= 0.9 * len(queried), sorted(queried - found)
    assert style is Style.CONFLUENT or found >= set(ALERTS.split())


def test_every_metric_of_the_catalog_is_told_by_some_broker_that_has_something_to_tell() -> None:
    found: set[str] = set()

    async def scene(cluster: EmbeddedCluster) -> None:
        await produced_and_fetched(cluster)
        gc.collect()
        for broker in cluster.brokers:
            found.update((await scrape(cluster, broker)).samples)

    play(scene)
    names = {metric.names[Style.JMX_EXPORTER] for metric in CATALOG}
    seldom = {name for name in names if name not in found and not name.startswith("kafka_controller_controllerstats_")}
    assert seldom <= {
        "odradek_task_deaths_total",
        "odradek_transactions",
        "odradek_log_volume_bytes",
        "kafka_server_kafkaserver_linux_disk_read_bytes",
        "kafka_server_kafkaserver_linux_disk_write_bytes",
        "kafka_server_socket_server_metrics_connection_close_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        *(name for name in names if name.endswith("replication_byte_rate")),
        *(name for name in names if name.startswith(("kafka_consumergroup_", "kafka_topic_", "kafka_server_quota_"))),
    }


def test_names_are_unique_and_counters_are_called_so() -> None:
    for style in Style:
        names = [metric.names[style] for metric in CATALOG]
        assert len(set(names)) == len(names)
    for metric in CATALOG:
        assert metric.source and metric.text.endswith("."), metric.names


def test_the_page_of_metrics_is_current() -> None:
    page = Path(__file__).parents[3] / "docs" / "metrics.md"
    assert page.read_text() == render(), "run: python -m odradek.broker.monitoring.metrics_page > docs/metrics.md"


def test_other_paths_and_other_words_are_refused() -> None:
    async def scene(cluster: EmbeddedCluster) -> None:
        broker = cluster.brokers[0]
        assert (await get(cluster, broker, "/"))[0] == "HTTP/1.1 404 Not Found"
        assert (await get(cluster, broker, "/metrics", "POST"))[0] == "HTTP/1.1 400 Bad Request"
        assert (await get(cluster, broker, "/" + "x" * 9000))[0] == "HTTP/1.1 400 Bad Request"
        status, body = await get(cluster, broker, "/metrics", "HEAD")
        assert status == "HTTP/1.1 200 OK" and not body

    play(scene, brokers=1)


def test_who_connects_and_says_nothing_keeps_no_probe_out() -> None:
    """A broker whose /live is not answered is killed by Kubernetes."""

    async def scene(cluster: EmbeddedCluster) -> None:
        host = cluster.network.host("idle")
        silent = [await host.connect("broker-0", METRICS_PORT) for _ in range(CONNECTIONS_MAX)]
        await asyncio.sleep(1)
        assert (await get(cluster, cluster.brokers[0], "/live"))[0] == "HTTP/1.1 200 OK"
        assert [_is_closed(one) for one in silent] == [True] + [False] * (CONNECTIONS_MAX - 1)
        await asyncio.sleep(31)
        assert all(_is_closed(one) for one in silent)

    play(scene, brokers=1)


def _is_closed(endpoint: Endpoint) -> bool:
    try:
        return endpoint.receive_into(memoryview(bytearray(1))) == 0
    except BlockingIOError:
        return False


async def _slow_readers(cluster: EmbeddedCluster) -> list[Endpoint]:
    """Open as many connections as there are places, each in the middle of a large answer."""
    journal = cluster.brokers[0].server.services.journal
    for number in range(10):
        journal.note("failure", str(number), reason="x" * PIPE_BYTES)
    host = cluster.network.host("slow")
    slow: list[Endpoint] = [await host.connect("broker-0", METRICS_PORT) for _ in range(CONNECTIONS_MAX)]
    for one in slow:
        one.send(b"GET /journal HTTP/1.1\r\n\r\n")
    await asyncio.sleep(1)
    return slow


def test_who_does_not_take_an_answer_keeps_no_probe_out() -> None:
    """Sixteen of them held all places for half a minute, which is too long for a probe."""

    async def scene(cluster: EmbeddedCluster) -> None:
        slow = await _slow_readers(cluster)
        assert (await get(cluster, cluster.brokers[0], "/live"))[0] == "HTTP/1.1 200 OK"
        assert sum(map(_was_closed, slow)) == 1

    play(scene, brokers=1)


def test_who_takes_a_byte_now_and_then_keeps_no_place_for_ever() -> None:
    """Each gave them their time anew."""

    async def scene(cluster: EmbeddedCluster) -> None:
        slow = await _slow_readers(cluster)
        for _ in range(4):
            await asyncio.sleep(10)
            for one in slow:
                one.receive_into(memoryview(bytearray(10_000)))
        assert all(map(_was_closed, slow))

    play(scene, brokers=1)


def _was_closed(endpoint: Endpoint) -> bool:
    """Take what is there; tell whether it was the end."""
    try:
        while endpoint.receive_into(memoryview(bytearray(1_000_000))):
            pass
    except BlockingIOError:
        return False
    return True


def test_nothing_listens_without_a_port() -> None:
    async def scene(cluster: EmbeddedCluster) -> None:
        with pytest.raises(OSError, match="refused"):
            await get(cluster, cluster.brokers[0], "/metrics")

    play(scene, brokers=1, metrics_port="0")


def test_thousands_of_partitions_do_not_keep_the_loop() -> None:
    """The text is made in slices: on a clock that shows a millisecond more at each look, others run after six looks."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        looks = itertools.count()
        clock: Any = ManualClock()
        clock.monotonic_ms = lambda: float(next(looks))
        partitions = [_partition(number) for number in range(5_000)]
        broker: Any = SimpleNamespace(led=lambda: iter(partitions))
        rows = [metric for metric in REPLICATION if metric.names[Style.JMX_EXPORTER].startswith("kafka_cluster_")]
        at_once = longest = total = 0

        def others() -> None:
            nonlocal at_once
            at_once = 0
            loop.call_soon(others)

        loop.call_soon(others)
        async for _ in pieces(broker, clock, Style.JMX_EXPORTER, rows):
            at_once, total = at_once + 1, total + 1
            longest = max(longest, at_once)
        assert total == 5_000 * len(rows) and longest <= 6 * PIECES_PER_LOOK

    asyncio.run(main())


def _partition(number: int) -> Any:
    log = SimpleNamespace(config=SimpleNamespace(min_insync_replicas=1))
    return SimpleNamespace(
        topic="t", index=number, committed_isr=(1, 2), replicas=(1, 2, 3), adding=(), under_min_isr=False, log=log,
        high_watermark=9, last_stable_offset=7,
    )  # fmt: skip


def test_a_topic_that_goes_takes_nothing_from_the_sum_of_all() -> None:
    traffic = Traffic()
    traffic.of_topic("a").messages_in = 3
    traffic.of_topic("b").messages_in = 4
    traffic.forget_topic("a")
    traffic.forget_topic("a")
    assert traffic.all_topics().messages_in == 7 and list(traffic.topics) == ["b"]


def test_quantiles_are_of_recent_periods_and_interpolated() -> None:
    durations = Durations()
    for _ in range(100):
        durations.add(1.0)
    assert 0.5 < durations.quantile_s(0.5) <= 1.1
    for _ in range(6):
        durations.begin_period()
    assert durations.quantile_s(0.99) == 0.0 and durations.count == 100
    durations.add(0.004)
    assert 0.002 <= durations.quantile_s(0.99) <= 0.0041
    assert Durations().quantile_s(0.5) == 0.0


def test_a_state_of_the_controller_counts_all_of_its_events() -> None:
    counters = ControllerCounters()
    broker: Any = SimpleNamespace(services=SimpleNamespace(controller=SimpleNamespace(counters=counters)))
    (metric,) = (one for one in CONTROLLER if "TopicChangeRateAndTimeMs" in one.source)

    def told(name: str, **labels: str) -> float:
        text = "".join(metric.lines(broker, Style.JMX_EXPORTER))
        return Scrape(text).value(f"kafka_controller_controllerstats_topicchangerateandtimems{name}", **labels)

    for _ in range(5):
        counters.handled("AssignmentChanged", 1.0)
    assert told("_count") == 5
    counters.handled("TopicsChanged", 0.001)
    assert told("_count") == 6
    assert told("", quantile="0.5") > 500
    for _ in range(6):
        counters.events["AssignmentChanged"].begin_period()
    assert told("_count") == 6 and told("", quantile="0.99") < 3


def test_errors_are_found_at_any_depth() -> None:
    response = produce_answer([6, 0, 3])
    assert sorted(errors_of(response)) == [0, 3, 6]


def produce_answer(codes: list[int]) -> Any:
    partitions = [PartitionProduceResponse(index=at, error_code=code) for at, code in enumerate(codes)]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=partitions)])


def test_what_is_in_a_label_cannot_break_the_text() -> None:
    hostile = 'a"b\\c\nd{}'
    broker: Any = SimpleNamespace(traffic=Traffic())
    broker.traffic.of_topic(hostile).bytes_in = 5
    (metric,) = (one for one in REPLICATION if "BytesInPerSec,topic" in one.source and "Replication" not in one.source)
    told = Scrape("".join(metric.lines(broker, Style.JMX_EXPORTER)))
    assert told.value("kafka_server_brokertopicmetrics_bytesin_total", topic=hostile) == 5
    assert metric.kind is Kind.COUNTER
