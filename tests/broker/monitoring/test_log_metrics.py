"""Metrics of reassignments, open transactions, flushes and compaction: they tell what happened."""

import asyncio
import posixpath
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from odradek.broker.monitoring.log_metrics import CHORES, PRODUCERS
from odradek.broker.monitoring.metric import Metric, Style
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.protocol.topic_names import TopicPartition
from odradek.testing.compacted_log import CompactedLog
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.scraping import METRICS_PORT, Scrape, scrape
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.way_through import (
    PRODUCE_VERSION,
    TOPIC,
    accepted,
    connect,
    create_topic,
    produce_request,
)

SETTINGS = {"metrics.port": str(METRICS_PORT)}
REASSIGNING = "kafka_server_replicamanager_reassigningpartitions"
BYTES_IN = "kafka_server_brokertopicmetrics_reassignmentbytesin_total"
BYTES_OUT = "kafka_server_brokertopicmetrics_reassignmentbytesout_total"
REPLICATED = "kafka_server_brokertopicmetrics_replicationbytesin_total"


def test_a_reassignment_is_told_while_it_lasts_with_what_it_copies() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 4, SETTINGS) as cluster:
            _controller, leader, stays, new = cluster.brokers
            await create_topic(cluster, [1, 2])
            client = await connect(cluster, leader)
            assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
            before = [await scrape(cluster, one) for one in (leader, stays, new)]
            assert [one.value(REASSIGNING) for one in before] == [0, 0, 0]
            assert before[1].value(REPLICATED) > 0
            assert [one.value(BYTES_IN) for one in before] == [one.value(BYTES_OUT) for one in before] == [0, 0, 0]

            cluster.network.cut(leader.host, new.host)
            (active,) = (one.server.services for one in cluster.brokers if one.server.services.controller.is_active)
            await active.controller.alter_reassignments({TopicPartition(TOPIC, 0): [1, 3]})
            partition = leader.server.services.replicas.partitions[TOPIC, 0]
            while 3 not in partition.replicas:
                await asyncio.sleep(0.1)
            during = await scrape(cluster, leader)
            assert (during.value(REASSIGNING), (await scrape(cluster, stays)).value(REASSIGNING)) == (1, 0)

            cluster.network.heal()
            while active.controller.state is None or active.controller.state.reassigning:
                await asyncio.sleep(0.1)
            while partition.replicas != (1, 3) or partition.removing:
                await asyncio.sleep(0.1)
            sent, stayed, copied = [await scrape(cluster, one) for one in (leader, stays, new)]
            copied_bytes = copied.value(BYTES_IN)
            assert copied_bytes == copied.value(REPLICATED) == sent.value(BYTES_OUT) > 0
            assert (sent.value(REASSIGNING), stayed.value(BYTES_IN), sent.value(BYTES_IN)) == (0, 0, 0)
            assert sent.value("kafka_controller_controllereventmanager_eventqueuetimems_count") > 0
            assert sent.value("kafka_controller_kafkacontroller_replicasineligibletodeletecount") == 0

    run_virtual(main)


def text_of(metrics: Sequence[Metric], observed: object) -> Scrape:
    return Scrape("".join(line for one in metrics for line in one.lines(observed, Style.JMX_EXPORTER)))


def told(world: CompactedLog, directory: str = "/logs") -> Scrape:
    logs = SimpleNamespace(
        compaction=world.compaction, flush_times=world.environment.flush_times, directories={directory: None}
    )
    return text_of(CHORES, SimpleNamespace(services=SimpleNamespace(logs=logs, clock=world.clock)))


def test_compaction_tells_its_last_runs_and_what_waits() -> None:
    world = CompactedLog(settings=LogManagerSettings(log_cleaner_backoff_ms=2**50))
    for value in (b"1", b"2", b"3"):
        world.put((b"key", value * 400))
        world.roll()
    world.clock.advance(5_000)
    before = told(world)
    assert before.value("kafka_log_logcleanermanager_time_since_last_run_ms") == 5_000
    assert before.value("kafka_log_logcleaner_cleaner_recopy_percent") == 0
    world.compact()
    after = told(world)
    assert after.value("kafka_log_logcleanermanager_max_dirty_percent") == 0, "after it nothing was left"
    assert 30 <= after.value("kafka_log_logcleaner_cleaner_recopy_percent") <= 40, "one record of three"
    assert after.value("kafka_log_logcleanermanager_time_since_last_run_ms") == 0
    assert after.value("kafka_log_logcleaner_max_clean_time_secs") == 0
    world.log.flush()
    assert told(world).value("kafka_log_logflushstats_logflushrateandtimems_count") >= 1
    assert told(world).value("kafka_log_logcleanermanager_uncleanable_partitions_count", logDirectory="/logs") == 0


def test_a_log_that_cannot_be_compacted_is_counted_with_what_waits_in_it() -> None:
    world = CompactedLog()
    for value in (b"1", b"2"):
        world.put((b"key", value * 100))
        world.roll()
    sizes = [one.size_bytes for one in world.log.segments[:-1]]
    world.compaction._give_up(world.log, "damaged")
    directory = posixpath.dirname(world.log.directory)
    found = told(world, directory)
    assert found.value("kafka_log_logcleanermanager_uncleanable_partitions_count", logDirectory=directory) == 1
    assert found.value("kafka_log_logcleanermanager_uncleanable_bytes", logDirectory=directory) == sum(sizes)
    world.compact()
    assert world.rounds == []
    world.log.truncate_to(world.log.log_end_offset - 1)
    assert (
        told(world, directory).value("kafka_log_logcleanermanager_uncleanable_partitions_count", logDirectory=directory)
        == 0
    ), "it was truncated, and is tried again"


@pytest.mark.parametrize(("minutes", "late"), [(19, 0), (21, 1)])
def test_a_transaction_that_its_coordinator_should_have_ended_is_late(minutes: int, late: int) -> None:
    world = CompactedLog()
    world.put((b"key", b"value"), producer_id=7, transactional=True)
    world.put((b"key", b"value"), producer_id=8)
    world.clock.advance(minutes * 60_000)
    partition = SimpleNamespace(log=world.log, offline=False)
    config = SimpleNamespace(transaction_max_timeout_ms=15 * 60_000)
    observed = SimpleNamespace(
        services=SimpleNamespace(clock=world.clock, config=config),
        led=lambda: [partition],
        partitions=lambda: [partition],
        sockets=SimpleNamespace(purgatory=SimpleNamespace(expired=Counter(DelayedProduce=3))),
    )
    found = text_of(PRODUCERS, observed)
    assert found.value("kafka_server_replicamanager_partitionswithlatetransactionscount") == late
    assert found.value("kafka_server_replicamanager_produceridcount") == 2
    assert found.value("kafka_server_delayedproducemetrics_expires_total") == 3
    world.end_transaction(7, committed=True)
    found = text_of(PRODUCERS, observed)
    assert found.value("kafka_server_replicamanager_partitionswithlatetransactionscount") == 0
