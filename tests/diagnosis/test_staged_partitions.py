"""Situations of a partition's replicas, moves and transactions, staged on a cluster on virtual time."""

import asyncio
import json
from dataclasses import replace

import pytest

from odradek.aio import Admin, Producer
from odradek.client.admin.access_values import ACL, ACLOperation, ACLPermissionType, ACLResourceType, ResourcePattern
from odradek.client.admin.values import ConfigResource
from odradek.diagnosis.examination import Subject, examine
from odradek.diagnosis.facts import Facts
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.usual_requests import hanging_request
from odradek.testing.virtual_run import VirtualCluster, run
from odradek.testing.way_through import until
from odradek.zk_schema.znodes.brokers import broker_path
from odradek.zk_schema.znodes.configs import topic_config_path
from odradek.zk_schema.znodes.topics import PartitionReplicas, TopicAssignment, state_path, topic_path
from tests.diagnosis.conftest import facts_of, partition, staged
from tests.diagnosis.staged_topics import AT, OFF, cluster_controller, directory_of, flights, others, produce
from tests.sim.asking import Asking


async def configure(cluster: VirtualCluster, kind: str, name: str, **settings: str) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        await admin.alter_configs([ConfigResource(kind, name, given)], raise_on_unknown=False)


async def throttled_out(cluster: VirtualCluster, leader: int, follower: int) -> None:
    """A follower that may copy a thousand bytes a second has more than that to copy."""
    await configure(cluster, "BROKER", str(follower), follower_replication_throttled_rate="1000")
    await cluster.kill(follower)
    await cluster.wait_for("flights", isr={leader})
    await produce(cluster, 3, 900_000)  # more than a fetch: a throttle lets each burst through
    await configure(cluster, "TOPIC", "flights", follower_replication_throttled_replicas="*")
    await cluster.restart(follower)


def test_under_min_isr() -> None:
    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        await flights(cluster, [leader, follower], **{"min.insync.replicas": "2"})
        await cluster.kill(follower)
        led = cluster.broker(leader).server.services.replicas.partitions[("flights", 0)]
        await until(lambda: list(led.committed_isr) == [leader])  # it has heard of it, too
        with pytest.raises(KafkaError) as refused:
            await produce(cluster, retries=0, enable_idempotence=False)
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        found = await partition(cluster, "flights", "under-min-isr")
        assert "acks=all is refused with NOT_ENOUGH_REPLICAS" in found.sentence
        assert f"broker {follower}'s session ended at" in found.sentence
        assert found.told.ways_out[-1].command == "odradek configs alter --topic flights --set min.insync.replicas=1"

    run(test)


def test_a_broker_that_an_isr_names_twice_is_one_replica_in_sync() -> None:
    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        await flights(cluster, [leader, follower], **{"min.insync.replicas": "2"})
        await cluster.kill(follower)
        await cluster.wait_for("flights", isr={leader})
        store = cluster.embedded.zookeeper.connect()
        await store.start(10_000)
        data, _ = await store.get(state_path("flights", 0))
        state = json.loads(data)
        await store.set(state_path("flights", 0), json.dumps(state | {"isr": [leader, leader]}).encode())
        await store.close()
        found = await partition(cluster, "flights", "under-min-isr")
        assert f"only {{{leader}}} of " in found.sentence

    run(test)


def test_follower_dead_and_at_min_isr() -> None:
    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        await flights(cluster, [leader, follower])
        await cluster.kill(follower)
        await cluster.wait_for("flights", isr={leader})
        found = await partition(cluster, "flights", "follower-dead")
        assert (
            "has had 1 of 2 replicas in sync since " in found.sentence
            and f"start broker {follower} again" in found.sentence
        )
        found = await partition(cluster, "flights", "at-min-isr")
        assert "is one failure away from refusing acks=all" in found.sentence

    run(test)


def test_follower_disk_failed() -> None:
    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        await flights(cluster, [leader, follower])
        await cluster.fail_disk(follower, await directory_of(cluster, follower))
        await produce(cluster)
        await cluster.wait_for("flights", isr={leader}, timeout=60)
        found = await partition(cluster, "flights", "follower-disk-failed")
        assert f"of broker {follower} failed at " in found.sentence
        assert f"mend the disk and start broker {follower} again" in found.sentence

    run(test, settings={"log.dirs": "/a,/b"})


def full(facts: Facts, number: int) -> Facts:
    """The same with a broker whose volumes have 4 KB free."""
    holder = facts.brokers[number]
    paths = tuple(replace(one, total_bytes=1_000_000_000, usable_bytes=4_000) for one in holder.directories)
    return replace(facts, brokers={**facts.brokers, number: replace(holder, directories=paths)})


def test_the_disk_of_a_leader_is_full() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        facts = full(await facts_of(cluster, {"flights"}), 0)
        found = staged(examine(facts, Subject(topic="flights")), "leader-disk-full")
        assert "flights-0 has no room for a batch: " in found.sentence and "has 4.0 KB of 1.0 GB free" in found.sentence
        assert "flights-0=1,0`, and when that is done, have it elected" in found.sentence
        ways = [one.command for one in found.told.ways_out if one.command]
        assert ways[-2:] == ["odradek reassign start flights-0=1,0", "odradek elect-leaders flights-0"]
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.alter_partition_reassignments({AT: [1, 0]})
            await admin.elect_leaders("preferred", [AT])
        assert (await facts_of(cluster, {"flights"})).topics["flights"].partitions[0].leader == 1
        assert not examine(full(facts, 2), Subject(topic="flights", partition=0))[1:], "broker 2 has nothing of it"
        both = staged(examine(full(facts, 1), Subject(topic="flights")), "leader-disk-full")
        assert "lead" not in str(both.told.ways_out), "nobody has room"

    run(test)


def test_the_disk_of_a_follower_is_full() -> None:
    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        await flights(cluster, [leader, follower])
        await throttled_out(cluster, leader, follower)
        await configure(cluster, "TOPIC", "flights", min_insync_replicas="2")
        facts = full(await facts_of(cluster, {"flights"}), follower)
        found = examine(facts, Subject(topic="flights"))
        assert f"/data of broker {follower} has 4.0 KB" in staged(found, "follower-disk-full").told.because
        assert f"/data of broker {follower} has 4.0 KB" in staged(found, "under-min-isr").told.because
        assert "follower-throttled" not in {one.situation for one in found}

    run(test)


def test_follower_throttled() -> None:
    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        await flights(cluster, [leader, follower])
        await throttled_out(cluster, leader, follower)
        lift = f"odradek configs alter --broker {follower} --delete follower.replication.throttled.rate"
        await configure(cluster, "TOPIC", "flights", min_insync_replicas="2")
        stopped = await partition(cluster, "flights", "under-min-isr")
        rate = f"follower.replication.throttled.rate=1000 of broker {follower}"
        assert f"broker {follower} is behind, held back by {rate}" in stopped.sentence
        assert lift in [one.command for one in stopped.told.ways_out]
        found = await partition(cluster, "flights", "follower-throttled")
        assert f"follower.replication.throttled.rate=1000 of broker {follower}" in found.sentence
        assert found.told.ways_out[0].command == (
            f"odradek configs alter --broker {follower} --delete follower.replication.throttled.rate"
        )

    run(test)


def test_follower_cut_off_from_its_leader_and_back() -> None:
    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        await flights(cluster, [leader, follower])
        await cluster.partition(leader, follower)
        await produce(cluster, acks=1)
        await cluster.wait_for("flights", isr={leader}, timeout=120)
        found = await partition(cluster, "flights", "follower-behind")
        assert "it left the ISR at " in found.sentence and "by replica.lag.time.max.ms=" in found.sentence
        assert "1 records behind" in found.sentence and found.told.ways_out[0].command == f"odradek why {follower}"
        await cluster.heal()
        await cluster.wait_for("flights", isr={leader, follower}, timeout=120)
        found = await partition(cluster, "flights", "isr-shrank-and-grew")
        assert f"broker {follower} left at " in found.sentence and "and was back at " in found.sentence

    run(test)


def test_one_replica() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [1])
        found = await partition(cluster, "flights", "one-replica")
        assert found.told.ways_out[0].command == "odradek reassign start flights-0=1,0,2"
        facts = await facts_of(cluster, {"flights"})
        alone = {number: replace(one, registered=number == 1) for number, one in facts.brokers.items()}
        found = staged(examine(replace(facts, brokers=alone), Subject(topic="flights")), "one-replica")
        assert str(found.told.ways_out[0]) == "give it more when another broker is there"

    run(test)


def test_reassignment_under_way_and_stuck() -> None:
    async def test(cluster: VirtualCluster) -> None:
        target, leader = await others(cluster)
        await flights(cluster, [leader])
        await produce(cluster, 3, 100_000)
        await cluster.partition(leader, target)
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.alter_partition_reassignments({AT: [target]})
        found = await partition(cluster, "flights", "reassignment-under-way")
        assert f"is being moved to broker {target} and away from broker {leader}" in found.sentence
        assert found.told.ways_out[1].command == "odradek reassign cancel flights-0"
        found = await partition(cluster, "flights", "reassignment-under-way", zookeeper=False)
        assert f"broker {target} copies it" in found.sentence
        await cluster.kill(target)
        found = await partition(cluster, "flights", "reassignment-stuck")
        assert "a move ends when all new replicas are in the ISR" in found.sentence

    run(test)


def test_a_replica_that_is_being_added_is_not_missing() -> None:
    """A move from two replicas to three was told as a replica out of sync, to be had back before anything stops."""

    async def test(cluster: VirtualCluster) -> None:
        leader, stays, new = sorted({0, 1, 2, 3} - {cluster_controller(cluster)})
        await flights(cluster, [leader, stays], **{"min.insync.replicas": "2"})
        await cluster.partition(leader, new)
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.alter_partition_reassignments({AT: [leader, stays, new]})

        async def situations() -> list[str]:
            found = examine(await facts_of(cluster, {"flights"}), Subject(topic="flights", partition=0))
            return [one.situation for one in found]

        assert await situations() == ["reassignment-under-way"]
        await cluster.kill(new)
        await until(lambda: new not in cluster.controllers()[0].server.services.metadata.brokers)
        assert await situations() == ["reassignment-stuck"]
        await cluster.kill(stays)
        await cluster.wait_for("flights", isr={leader})
        found = await partition(cluster, "flights", "under-min-isr")
        assert f"only {{{leader}}} of" in found.sentence

    run(test, brokers=4)


def test_a_replica_is_missing_beside_one_that_is_being_added() -> None:
    async def test(cluster: VirtualCluster) -> None:
        leader, stays, new = sorted({0, 1, 2, 3} - {cluster_controller(cluster)})
        await flights(cluster, [leader, stays])
        await cluster.partition(leader, new)
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.alter_partition_reassignments({AT: [leader, stays, new]})
        await cluster.kill(stays)
        await cluster.wait_for("flights", isr={leader})
        found = await partition(cluster, "flights", "follower-dead")
        assert "1 of 2 replicas in sync" in found.sentence and f"broker {stays}'s session ended" in found.sentence
        assert f"broker {new}" not in found.sentence

    run(test, brokers=4)


def test_deletion_waits() -> None:
    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        await flights(cluster, [leader, follower])
        await cluster.kill(follower)
        await cluster.wait_for("flights", isr={leader})
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.delete_topics(["flights"])
            await asyncio.sleep(5)
        found = await partition(cluster, "flights", "deletion-waits")
        assert f"broker {follower}'s session ended at" in found.sentence
        assert "a topic is gone when every replica is" in found.sentence

    run(test)


def test_a_topic_waits_as_a_whole_and_nobody_is_asked_of_what_no_broker_knows_any_more() -> None:
    """Partitions without a replica there were said to be on their way; doctor waited five seconds for their logs."""

    async def test(cluster: VirtualCluster) -> None:
        follower, leader = await others(cluster)
        places = {0: [leader, follower], 1: [leader, cluster_controller(cluster)]}
        await cluster.create_topic("flights", assignment=places, settings=OFF)
        await cluster.kill(follower)
        await cluster.wait_for("flights", isr={leader})
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.delete_topics(["flights"])
        await asyncio.sleep(5)
        asked_ms = cluster.clock.monotonic_ms()
        facts = await facts_of(cluster, {"flights"})
        assert cluster.clock.monotonic_ms() - asked_ms < 1_000
        assert not [one for one in facts.unknown if "settings of topics" in one or "logs begin" in one]
        for number in (0, 1):
            found = staged(examine(facts, Subject(topic="flights", partition=number)), "deletion-waits")
            assert f"broker {follower}'s session ended at" in found.sentence

    run(test)


def test_a_topic_that_is_being_moved_waits_with_its_deletion() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("flights", assignment={0: [0, 1], 1: [0, 1]}, settings=OFF)
        facts = await facts_of(cluster, {"flights"})
        whole = facts.topics["flights"]
        moved = {**whole.partitions, 0: replace(whole.partitions[0], replicas=(2, 0, 1), adding=(2,))}
        facts = replace(facts, topics={"flights": replace(whole, deleting=True, partitions=moved)})
        found = staged(examine(facts, Subject(topic="flights", partition=1)), "being-deleted")
        assert "its reassignment has to end first" in found.sentence

    run(test)


def test_being_deleted() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        facts = await facts_of(cluster, {"flights"})
        facts = replace(
            facts, topics={"flights": replace(facts.topics["flights"], deleting=True, deleting_ms=facts.now_ms)}
        )
        found = staged(examine(facts, Subject("flights")), "being-deleted")
        assert "the controller has its replicas deleted" in found.sentence

    run(test)


def test_open_and_hanging_transactions() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("flights", value=b"x"))
            found = await partition(cluster, "flights", "open-transaction")
            assert "nothing from offset 0 on: the transaction of bills is Ongoing" in found.sentence
            facts = await facts_of(cluster, {"flights"})
            topic = facts.topics["flights"]
            (one,) = topic.partitions[0].transactions
            lost = replace(topic.partitions[0], transactions=(replace(one, transactional_id=None, state=""),))
            facts = replace(facts, topics={"flights": replace(topic, partitions={0: lost})})
            found = staged(examine(facts, Subject("flights")), "hanging-transaction")
            assert found.told.ways_out[0].command == (
                f"odradek transactions abort flights-0 --producer-id {one.producer_id} --producer-epoch 0"
            )
            in_nanoseconds = replace(one, last_timestamp_ms=1_700_000_000_000_000_000)
            odd = replace(topic.partitions[0], transactions=(in_nanoseconds,))
            facts = replace(facts, topics={"flights": replace(topic, partitions={0: odd})})
            found = staged(examine(facts, Subject("flights")), "open-transaction")
            assert "last record 1700000000000000000 ms" in found.sentence
            await producer.abort_transaction()

    run(test)


def test_a_bad_topic_hides_nothing_of_the_others() -> None:
    """One name that no client may say, or one setting that cannot be read, took the answers about all topics away."""

    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        await produce(cluster, 3)
        await cluster.create_topic("trains", assignment={0: [0]})
        bare = TopicAssignment({0: PartitionReplicas((0,))}).encode()
        admin = cluster.embedded.zookeeper.connect()
        await admin.start(10_000)
        await admin.create(topic_path("no name!"), bare)
        await admin.create(topic_path("broken"), b"{")
        await admin.create(broker_path(9), b"{", ephemeral=True)
        await admin.set(topic_config_path("trains"), b"{")
        await cluster.wait_for("no name!", leader=0)
        facts = await facts_of(cluster, None)
        await admin.close()
        assert facts.topics["flights"].settings["min.insync.replicas"] == "1"
        assert facts.topics["flights"].partitions[0].high_watermark == 3
        assert facts.topics["no name!"].partitions[0].high_watermark is None
        for said in (
            "where logs begin and end: a topic's name has",
            "the settings of topics: INVALID_TOPIC_EXCEPTION: no name!",
            "/config/topics/trains: not JSON",
            "/brokers/topics/broken: not JSON",
            "/brokers/ids/9: not JSON",
        ):
            assert any(said in one for one in facts.unknown), (said, facts.unknown)

    run(test)


@pytest.mark.parametrize("question", ["list_transactions", "describe_transactions"])
def test_a_transaction_whose_coordinator_cannot_be_asked_is_not_said_to_hang(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "still loading")

    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("flights", value=b"x"))
            with monkeypatch.context() as context:
                context.setattr(Admin, question, refuse)
                facts = await facts_of(cluster, {"flights"})
            findings = examine(facts, Subject("flights"))
            assert "is open (last record" in staged(findings, "open-transaction").sentence
            assert "hanging-transaction" not in {one.situation for one in findings}
            assert any("still loading" in one for one in facts.unknown)
            await producer.abort_transaction()

    run(test)


def test_a_transaction_that_may_not_be_seen_is_not_said_to_hang() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        async with (
            Admin(bootstrap_servers=cluster.bootstrap) as admin,
            Producer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer,
        ):
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("flights", value=b"x"))
            bills = ResourcePattern(ACLResourceType.TRANSACTIONAL_ID, "bills")
            await admin.create_acls([ACL("User:clerk", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, bills)])
            await asyncio.sleep(1)
            facts = await facts_of(cluster, {"flights"})
            findings = examine(facts, Subject("flights"))
            assert "is open (last record" in staged(findings, "open-transaction").sentence
            assert "hanging-transaction" not in {one.situation for one in findings}
            assert any(one.startswith("whether open transactions hang: you may not") for one in facts.unknown)

    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    run(test, settings=settings)


def test_a_transaction_that_no_coordinator_knows_hangs() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer:
            await producer.init_transactions()
        leader = cluster.broker(cluster.leader_now("flights", 0))
        await Asking(cluster.embedded).ask(leader, hanging_request("flights", 999), 9)
        found = await partition(cluster, "flights", "hanging-transaction")
        assert found.told.ways_out[0].command == (
            "odradek transactions abort flights-0 --producer-id 999 --producer-epoch 0"
        )

    run(test, settings={"transaction.partition.verification.enable": "false"})


def test_a_transaction_that_ends_between_two_questions_is_not_said_to_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way out that was told would have aborted the next one of its producer."""

    async def test(cluster: VirtualCluster) -> None:
        await flights(cluster, [0, 1])
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("flights", value=b"x"))
            listed = Admin.list_transactions

            async def commit_and_list(admin: Admin) -> object:
                await producer.commit_transaction()
                while any(one.state != "CompleteCommit" for some in (await listed(admin)).values() for one in some):
                    await asyncio.sleep(0.1)
                return await listed(admin)

            with monkeypatch.context() as context:
                context.setattr(Admin, "list_transactions", commit_and_list)
                facts = await facts_of(cluster, {"flights"})
            assert facts.topics["flights"].partitions[0].transactions == ()

    run(test)
