"""Situations of a partition's leader, staged on a cluster on virtual time."""

from dataclasses import replace

import pytest

from odradek.diagnosis.examination import Subject, examine
from odradek.protocol.errors import KafkaError
from odradek.testing.virtual_run import VirtualCluster, run
from odradek.zk_schema.znodes.topics import NO_LEADER
from tests.diagnosis.conftest import facts_of, partition, staged
from tests.diagnosis.staged_topics import directory_of, flights, others, produce


def test_isr_died() -> None:
    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        await flights(cluster, [leader, follower])
        await cluster.kill(follower)
        await cluster.wait_for("flights", isr={leader})
        await cluster.kill(leader)
        await cluster.wait_for("flights", leader=NO_LEADER)
        found = await partition(cluster, "flights", "isr-died")
        assert f"its ISR was {{{leader}}}; broker {leader}'s session ended at " in found.sentence
        assert "unclean election is off" in found.sentence and "unknown" not in found.sentence
        assert [way.command for way in found.told.ways_out] == [""]  # the other replica is away too
        await cluster.restart(follower)
        found = await partition(cluster, "flights", "isr-died")
        assert f"it comes back with broker {leader}, or from broker {follower}" in found.sentence
        assert found.told.ways_out[1].command == "odradek elect-leaders --unclean flights-0"
        (evidence,) = found.told.evidence
        assert evidence.rule == f"OfflineReplica {leader}" and evidence.entry["after"]["controller_epoch"] > 0
        found = await partition(cluster, "flights", "isr-died", journals=False)
        assert "its cause is not known: no broker has a journal that could be read" in found.told.unknown
        assert found.told.since_ms is not None  # ZooKeeper knows when it wrote that
        found = await partition(cluster, "flights", "isr-died", journals=False, zookeeper=False)
        assert found.told.since_ms is None and f"its ISR was {{{leader}}}" in found.told.because

    run(test)


def test_a_journal_that_began_later_does_not_know_what_set_it_off() -> None:
    async def test(cluster: VirtualCluster) -> None:
        _, leader = await others(cluster)
        await flights(cluster, [leader])
        await cluster.kill(leader)
        await cluster.wait_for("flights", leader=NO_LEADER)
        facts = await facts_of(cluster, {"flights"})
        rotated = {
            one: replace(journal, forgotten=9, entries=({**journal.entries[-1], "at_ms": facts.now_ms},))
            for one, journal in facts.journals.items()
        }
        found = staged(
            examine(replace(facts, now_ms=facts.now_ms + 60_000, journals=rotated), Subject("flights")), "isr-died"
        )
        at_ms = facts.topics["flights"].partitions[0].changed_ms
        assert at_ms is not None and (at_ms >= facts.now_ms or "the journals begin only at " in found.told.unknown)

    run(test)


def test_the_disk_of_the_last_replica_in_sync_failed() -> None:
    async def test(cluster: VirtualCluster) -> None:
        leader, _ = await others(cluster)
        await flights(cluster, [leader])
        await cluster.fail_disk(leader, await directory_of(cluster, leader))
        await produce_in_vain(cluster)
        await cluster.wait_for("flights", leader=NO_LEADER)
        found = await partition(cluster, "flights", "isr-died")
        assert f"its log directory on broker {leader} is offline" in found.sentence
        assert f"mend the disk of broker {leader} and start it again" in found.sentence

    run(test, settings={"log.dirs": "/a,/b"})


async def produce_in_vain(cluster: VirtualCluster) -> None:
    """A write finds out what a disk is like."""
    with pytest.raises(KafkaError):
        await produce(cluster, delivery_timeout_ms=3_000, request_timeout_ms=2_000)


def test_nobody_elects() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        facts = await facts_of(cluster, {"flights"})
        topic = facts.topics["flights"]
        leaderless = replace(topic, partitions={0: replace(topic.partitions[0], leader=NO_LEADER)})
        facts = replace(facts, controller=NO_LEADER, topics={"flights": leaderless})
        found = staged(examine(facts, Subject("flights")), "nobody-elects")
        assert "there is no controller to elect one; broker 0 and 1 is in sync and could lead it" in found.sentence
        assert found.told.ways_out[0].command == "odradek doctor"
        later = replace(facts, controller=2)
        assert (
            "controller 2 has not elected one yet"
            in staged(examine(later, Subject("flights")), "nobody-elects").sentence
        )

    run(test)


def test_leader_not_preferred() -> None:
    async def test(cluster: VirtualCluster) -> None:
        first, second = await others(cluster)
        await flights(cluster, [first, second])
        await cluster.kill(first)
        await cluster.wait_for("flights", leader=second)
        await cluster.restart(first)
        await cluster.wait_for("flights", isr={0, 1, 2} & {first, second})
        found = await partition(cluster, "flights", "leader-not-preferred")
        assert f"flights-0 is led by broker {second}: broker {first} is the first of its replicas" in found.sentence
        assert "(OfflinePartition)" in found.sentence
        assert found.told.ways_out[0].command == "odradek elect-leaders flights-0"

    run(test)


def test_leader_moved_by_a_controlled_shutdown() -> None:
    async def test(cluster: VirtualCluster) -> None:
        first, second = await others(cluster)
        await flights(cluster, [first, second])
        await cluster.stop(first)
        await cluster.wait_for("flights", leader=second)
        found = await partition(cluster, "flights", "leader-moved")
        assert f"from {first} to broker {second}" in found.sentence
        assert "handed over first (ControlledShutdown)" in found.sentence

    run(test)


def test_unclean_election_and_what_it_cost() -> None:
    async def test(cluster: VirtualCluster) -> None:
        first, second = await others(cluster)
        await flights(cluster, [first, second])
        await produce(cluster)
        await cluster.kill(second)
        await cluster.wait_for("flights", isr={first})
        await produce(cluster, 5)
        await cluster.kill(first)
        await cluster.wait_for("flights", leader=NO_LEADER)
        await cluster.restart(second)
        await cluster.elect("flights", unclean=True)
        found = await partition(cluster, "flights", "unclean-election")
        assert f"broker {second} was elected though the ISR was {{{first}}}" in found.sentence
        assert f"what it cost is not known before broker {first} is back" in found.sentence
        assert "`elect-leaders --unclean` asked for it" in found.sentence
        await produce(cluster)
        await cluster.restart(first)
        await cluster.wait_for("flights", isr={first, second})
        found = await partition(cluster, "flights", "unclean-election")
        assert (
            f"broker {first} cut 5 record(s) from offset 1 on" in found.sentence and "not known" not in found.sentence
        )

    run(test)


def test_leader_recovers() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        facts = await facts_of(cluster, {"flights"})
        topic = facts.topics["flights"]
        recovering = replace(topic, partitions={0: replace(topic.partitions[0], recovering=True)})
        facts = replace(facts, topics={"flights": recovering})
        found = staged(examine(facts, Subject("flights")), "leader-recovers")
        assert "broker 0 was elected from outside the ISR; leader_recovery_state=1" in found.sentence

    run(test)
