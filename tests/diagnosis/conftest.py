"""Clusters on virtual time, asked as `odradek why` asks: their answers are the facts of these tests."""

from collections.abc import Collection

from odradek.aio import Admin
from odradek.diagnosis.examination import Subject, examine
from odradek.diagnosis.facts import BrokerFacts, Facts, JournalFacts
from odradek.diagnosis.gathering import Gathering, Scope
from odradek.diagnosis.situation import Finding
from odradek.testing.virtual_run import VirtualCluster

NO_PORT = "its metrics.port is not set"
SILENT = "what ZooKeeper holds: none answers from here"


async def facts_of(
    cluster: VirtualCluster,
    topics: Collection[str] | None = (),
    groups: Collection[str] | None = (),
    *,
    journals: bool = True,
    zookeeper: bool = True,
) -> Facts:
    """Gather what a command line would know now; without journals or ZooKeeper as where those cannot be reached."""
    store = cluster.embedded.zookeeper.connect()
    await store.start(10_000)

    async def read_journal(broker: BrokerFacts) -> JournalFacts | str:
        if not journals:
            return NO_PORT
        journal = cluster.broker(broker.broker_id).server.services.journal
        return JournalFacts(broker.broker_id, journal.began_ms, journal.forgotten, tuple(journal.entries()))

    try:
        async with Admin(
            bootstrap_servers=cluster.bootstrap,
            request_timeout_ms=4_000,
            default_api_timeout_ms=4_000,
            socket_connection_setup_timeout_ms=1_000,
        ) as admin:
            gathering = Gathering(
                admin, store if zookeeper else None, read_journal, cluster.clock.now_ms(), "127.0.0.1:9092"
            )
            return await gathering.gather(Scope(topics, groups), "" if zookeeper else SILENT)
    finally:
        await store.close()


def staged(findings: list[Finding], situation: str) -> Finding:
    """The finding of a situation, which must be among them."""
    found = [one for one in findings if one.situation == situation]
    assert len(found) == 1, [one.sentence for one in findings]
    return found[0]


async def partition(
    cluster: VirtualCluster,
    topic: str,
    situation: str,
    number: int = 0,
    *,
    journals: bool = True,
    zookeeper: bool = True,
) -> Finding:
    """Find a situation of a partition."""
    return staged(
        examine(
            await facts_of(cluster, {topic}, journals=journals, zookeeper=zookeeper),
            Subject(topic=topic, partition=number),
        ),
        situation,
    )


async def broker(
    cluster: VirtualCluster, number: int, situation: str, *, journals: bool = True, zookeeper: bool = True
) -> Finding:
    """Find a situation of a broker."""
    return staged(
        examine(await facts_of(cluster, None, journals=journals, zookeeper=zookeeper), Subject(broker=number)),
        situation,
    )


async def group(
    cluster: VirtualCluster, name: str, situation: str, *, journals: bool = True, zookeeper: bool = True
) -> Finding:
    """Find a situation of a group."""
    return staged(
        examine(await facts_of(cluster, (), {name}, journals=journals, zookeeper=zookeeper), Subject(group=name)),
        situation,
    )
