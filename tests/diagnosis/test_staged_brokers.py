"""Situations of brokers and of the cluster, brought about on virtual time."""

import asyncio
from dataclasses import replace

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.values import ConfigResource
from odradek.client.records import TopicPartition
from odradek.diagnosis.examination import Subject, examine, examine_all
from odradek.diagnosis.facts import DirectoryFacts, PartitionFacts, TopicFacts
from odradek.diagnosis.history import clock
from odradek.diagnosis.situation import Weight
from odradek.testing.virtual_run import VirtualCluster, run
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH
from odradek.zk_schema.znodes.topics import NO_LEADER
from tests.diagnosis.conftest import broker, facts_of, staged


def no_controller_of(cluster: VirtualCluster) -> int:
    """A broker whose end leaves the controller's journal where it is."""
    return next(one for one in range(3) if one != cluster.controllers()[0].broker_id)


def test_died_and_came_back() -> None:
    async def test(cluster: VirtualCluster) -> None:
        number = no_controller_of(cluster)
        await cluster.create_topic("flights", assignment={0: [number]})
        await cluster.kill(number)
        await cluster.wait_for("flights", leader=NO_LEADER)
        found = await broker(cluster, number, "died")
        assert "its ZooKeeper session ended, and it had not asked to be shut down" in found.sentence
        assert "1 partition(s) have no leader without it" in found.sentence
        assert [one.change for one in found.told.evidence] == ["went"]
        found = await broker(cluster, number, "died", journals=False)
        assert "no registration of it is in ZooKeeper" in found.sentence and "not known" in found.told.unknown
        await cluster.restart(number)
        await cluster.wait_for("flights", leader=number)
        found = await broker(cluster, number, "came-back")
        assert "it was gone for " in found.sentence and "its epoch is " in found.sentence

    run(test)


def test_a_controller_that_died_without_a_replica_in_sync_was_gone_before_the_next_one() -> None:
    """It was said that the journals begin later, though they had begun with the cluster."""

    async def test(cluster: VirtualCluster) -> None:
        former = cluster.controllers()[0].broker_id
        await cluster.kill(former)
        await asyncio.sleep(30)
        facts = await facts_of(cluster)
        assert facts.controller is not None and facts.controller_since_ms is not None
        gone = replace(facts.brokers[facts.controller], broker_id=former, registered=False)
        found = staged(examine(replace(facts, brokers={**facts.brokers, former: gone}), Subject(broker=former)), "died")
        elected = clock(facts.controller_since_ms, facts.now_ms)
        said = f"it was gone before broker {facts.controller} became the controller at {elected}"
        assert said in found.told.unknown

    run(test)


def test_was_shut_down() -> None:
    async def test(cluster: VirtualCluster) -> None:
        number = no_controller_of(cluster)
        other = (number + 1) % 3
        await cluster.create_topic("flights", assignment={0: [number, other]})
        await cluster.stop(number)
        found = await broker(cluster, number, "was-shut-down")
        assert "and handed over " in found.sentence and "session ended" not in found.told.because
        assert found.weight is Weight.DEGRADED

    run(test)


def test_answers_nobody_while_it_is_frozen() -> None:
    async def test(cluster: VirtualCluster) -> None:
        number = no_controller_of(cluster)
        await cluster.suspend(number)
        found = await broker(cluster, number, "answers-nobody", journals=False)
        assert "does not answer from here, though ZooKeeper has its registration" in found.sentence
        await asyncio.sleep(60)
        await broker(cluster, number, "died")
        await cluster.resume(number)

    run(test, settings={"zookeeper.session.timeout.ms": "30000"})


def test_a_broker_that_comes_back_meanwhile_hides_no_group() -> None:
    """All was said to be well, without the groups that it had coordinated: partitions were told of before its former
    session ended, groups, for which it was waited, after."""

    async def test(cluster: VirtualCluster) -> None:
        number = no_controller_of(cluster)
        await cluster.create_topic("__consumer_offsets", assignment={0: [number, (number + 1) % 3]})
        async with Consumer(bootstrap_servers=cluster.bootstrap, group_id="g", enable_auto_commit=False) as consumer:
            await consumer.commit({TopicPartition("__consumer_offsets", 0): 0})
        former = (await facts_of(cluster)).brokers[number].epoch
        await cluster.kill(number, unnoticed=True)
        starting = asyncio.create_task(cluster.restart(number))
        asked = []
        for _ in range(40):
            await asyncio.sleep(0.1)
            asked.append(asyncio.create_task(facts_of(cluster, None, None)))
        for facts in await asyncio.gather(*asked):
            back = facts.brokers[number]
            assert "g" in facts.groups or not back.registered or back.epoch == former
        await starting

    run(test, settings={"zookeeper.session.timeout.ms": "3000"})


def test_without_zookeeper() -> None:
    async def test(cluster: VirtualCluster) -> None:
        number = no_controller_of(cluster)
        await cluster.partition(number, "zookeeper")
        await asyncio.sleep(1)
        found = await broker(cluster, number, "without-zookeeper")
        assert "after zookeeper.session.timeout.ms=30000 it is taken for dead" in found.sentence

    run(test, settings={"zookeeper.session.timeout.ms": "30000"})


def test_session_expired() -> None:
    async def test(cluster: VirtualCluster) -> None:
        number = no_controller_of(cluster)
        await cluster.create_topic("flights", assignment={0: [number]})
        await cluster.expire_session(number)
        await asyncio.sleep(5)
        found = await broker(cluster, number, "session-expired")
        assert "lost its ZooKeeper session at " in found.sentence and "registered again at " in found.sentence

    run(test)


def test_disk_failed() -> None:
    async def test(cluster: VirtualCluster) -> None:
        number = no_controller_of(cluster)
        await cluster.create_topic("flights", 4)
        await cluster.fail_disk(number, 0)
        async with Producer(
            bootstrap_servers=cluster.bootstrap, acks=1, delivery_timeout_ms=3_000, request_timeout_ms=2_000
        ) as producer:
            reports = [await producer.send("flights", value=b"x", partition=one) for one in range(4)]
            await asyncio.gather(*reports, return_exceptions=True)
        await asyncio.sleep(5)
        found = await broker(cluster, number, "disk-failed")
        assert "/a failed at " in found.sentence and "mend the disk and start it again" in found.sentence

    run(test, settings={"log.dirs": "/a,/b"})


def test_disk_fills_up() -> None:
    async def test(cluster: VirtualCluster) -> None:
        facts = await facts_of(cluster)
        full = replace(facts.brokers[0], directories=(DirectoryFacts("/data", True, 1_000_000_000, 20_000_000),))
        found = staged(examine(replace(facts, brokers={0: full}), Subject(broker=0)), "disk-fills-up")
        assert "/data has 20.0 MB of 1.0 GB free" in found.sentence

    run(test)


def test_throttle_left() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            rate = {"leader.replication.throttled.rate": "1000000"}
            await admin.alter_configs([ConfigResource("BROKER", "1", rate)], raise_on_unknown=False)
        found = await broker(cluster, 1, "throttle-left")
        assert (
            found.told.ways_out[0].command
            == "odradek configs alter --broker 1 --delete leader.replication.throttled.rate"
        )

    run(test)


def test_is_controller_and_controller_moved() -> None:
    async def test(cluster: VirtualCluster) -> None:
        former = cluster.controllers()[0].broker_id
        found = await broker(cluster, former, "is-controller")
        assert "controller epoch " in found.sentence
        await cluster.expire_session(former)
        await asyncio.sleep(5)
        facts = await facts_of(cluster)
        if facts.controller == former:  # it was the quickest to stand again
            await cluster.kill(former)
            await asyncio.sleep(10)
            facts = await facts_of(cluster)
        found = staged(examine(facts, Subject()), "controller-moved")
        assert (
            f": broker {facts.controller}" in found.sentence
            and f"controller epoch {facts.controller_epoch}" in found.sentence
        )

    run(test)


def test_no_controller() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for number in range(3):
            await cluster.partition(number, "zookeeper")
        await asyncio.sleep(60)
        facts = await facts_of(cluster)
        found = staged(examine(facts, Subject()), "no-controller")
        assert "no broker is registered" in found.sentence and found.weight is Weight.STOPPED

    run(test)


def test_who_is_told_of_no_controller_is_sent_to_the_log_that_says_why_none_is_elected() -> None:
    """Where `/controller_epoch` could not be read it was to see that brokers reach ZooKeeper, in which they were."""

    async def test(cluster: VirtualCluster) -> None:
        store = cluster.embedded.zookeeper.connect()
        await store.start(10_000)
        await store.set(CONTROLLER_EPOCH_PATH, b"garbage")
        await store.delete(CONTROLLER_PATH)
        await asyncio.sleep(1)
        found = staged(examine(await facts_of(cluster), Subject()), "no-controller")
        await store.close()
        assert "read in the brokers' logs why: `no election`" in found.sentence

    run(test)


def test_a_controller_whose_znode_cannot_be_read_is_not_said_to_be_missing() -> None:
    async def test(cluster: VirtualCluster) -> None:
        store = cluster.embedded.zookeeper.connect()
        await store.start(10_000)
        await store.set(CONTROLLER_PATH, b"{")
        facts = await facts_of(cluster)
        await store.close()
        assert facts.controller is None and any("/controller: not JSON" in one for one in facts.unknown)
        assert "no-controller" not in {one.situation for one in examine(facts, Subject())}
        found = staged(examine(facts, Subject()), "znode-unreadable")
        assert "/controller: not JSON" in found.sentence and found.weight is Weight.DEGRADED

    run(test)


def test_zookeeper_is_gone_for_everybody() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights", assignment={0: [0, 1, 2]})
        for number in range(3):
            await cluster.partition(number, "zookeeper")
        await asyncio.sleep(60)
        began_ms = cluster.clock.now_ms()
        facts = await facts_of(cluster, None, zookeeper=False)
        assert cluster.clock.now_ms() - began_ms < 3_000  # each question waited for its whole time
        assert "reassignments: there is no controller to ask" in facts.unknown
        throttled = replace(facts.brokers[1], settings={"leader.replication.throttled.rate": "1000000"})
        examined = examine(replace(facts, brokers={**facts.brokers, 1: throttled}), Subject(broker=1))
        assert "throttle-left" not in {one.situation for one in examined}, "nobody knows what is being moved"
        led = staged(examine(facts, Subject(topic="flights")), "leader-without-session")
        assert "flights-0 is led by nobody: broker 0 lost its ZooKeeper session at " in led.sentence
        for number in range(3):
            over = staged(examine(facts, Subject(broker=number)), "session-over").sentence
            assert "has not answered it since " in over and "start ZooKeeper again" in over, over
        assert (facts.controller, facts.zookeeper_silent) == (NO_LEADER, True)
        told = staged(examine(facts, Subject()), "no-controller").sentence
        assert "ZooKeeper, which has its name, does not answer" in told and "/controller" not in told
        for number in range(3):
            await cluster.heal(number, "zookeeper")
        await cluster.wait_for("flights", leader=0)
        await asyncio.sleep(5)
        names = {one.situation for one in examine_all(await facts_of(cluster, None))}
        assert not names & {"session-over", "leader-without-session", "no-controller"}

    run(test)


def test_leaders_uneven() -> None:
    async def test(cluster: VirtualCluster) -> None:
        facts = await facts_of(cluster)
        partitions = {one: PartitionFacts("flights", one, (one % 3, 0), 0, (0, one % 3)) for one in range(12)}
        facts = replace(facts, topics={"flights": TopicFacts("flights", partitions)})
        found = staged(examine(facts, Subject()), "leaders-uneven")
        assert "broker 0 leads 12 of 12, its share would be 4" in found.sentence
        assert found.told.ways_out[0].command == "odradek elect-leaders"

    run(test)


def test_a_whole_cluster_has_nothing_to_mend() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights", 3)
        found = examine_all(await facts_of(cluster, None, None), Weight.DEGRADED)
        assert not found, [one.sentence for one in found]

    run(test)
