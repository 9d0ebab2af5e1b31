"""Situations of consumer groups, brought about on virtual time."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from odradek.aio import Admin, Consumer, Producer
from odradek.client.admin.access_values import ACL, ACLOperation, ACLPermissionType, ACLResourceType, ResourcePattern
from odradek.client.consumer.membership import Membership
from odradek.client.errors import ClientError
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.diagnosis import gathering
from odradek.diagnosis.cases import typed
from odradek.diagnosis.examination import Subject, UnknownSubject, examine, subjects
from odradek.diagnosis.questions import ANSWER_S
from odradek.diagnosis.surroundings import check_may_see
from odradek.diagnosis.telling import calm
from odradek.testing.virtual_run import VirtualCluster, run
from odradek.zk_schema.znodes.topics import NO_LEADER
from tests.diagnosis.conftest import facts_of, group, staged

AT = TopicPartition("flights", 0)


async def produce(cluster: VirtualCluster, count: int, topic: str = "flights", partition: int = 0) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for _ in range(count):
            await (await producer.send(topic, value=b"x", partition=partition))


@asynccontextmanager
async def reading(cluster: VirtualCluster, commit: bool = True, **settings: object) -> AsyncIterator[Consumer]:
    """A member of group `billing` that has read, and perhaps committed, one batch of what there is."""
    given = {"group_id": "billing", "auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
    async with Consumer("flights", bootstrap_servers=cluster.bootstrap, **given) as consumer:  # type: ignore[arg-type]
        while not await consumer.getmany(timeout_ms=1_000):
            pass
        if commit:
            await consumer.commit()
        yield consumer


async def committed(cluster: VirtualCluster, topic: str, offset: int) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.alter_group_offsets("billing", {TopicPartition(topic, 0): OffsetAndMetadata(offset)})


def test_no_members() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 2)
        async with reading(cluster):
            pass
        await produce(cluster, 3)
        found = await group(cluster, "billing", "no-members")
        assert "left" in found.sentence and "3 record(s) in 1 partition(s) wait" in found.sentence
        assert found.told.ways_out[1].command == "odradek groups delete billing"
        found = await group(cluster, "billing", "no-members", journals=False)
        assert "no broker has a journal" in found.sentence

    run(test, topics={"flights": 1})


def test_lags_and_nothing_committed() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        async with reading(cluster, commit=False) as consumer:
            found = await group(cluster, "billing", "nothing-committed")
            assert "1 partition(s) are owned by 1 member(s), and none has an offset" in found.sentence
            await consumer.commit()
            await produce(cluster, 7)
            found = await group(cluster, "billing", "lags")
            assert "7 record(s) in 1 partition(s), most in flights-0 (7)" in found.sentence

    run(test, topics={"flights": 1})


def test_a_frozen_member_drops_out_and_the_group_rebalances_on_and_on() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)

        async def member() -> None:
            async with Consumer(
                "flights", bootstrap_servers=cluster.bootstrap, group_id="billing", client_id="frozen",
                session_timeout_ms=3_000, heartbeat_interval_ms=500,
            ) as consumer:  # fmt: skip
                while True:
                    await consumer.getmany(timeout_ms=500)

        cluster.application("frozen", member)
        async with reading(cluster) as steady:
            polling = asyncio.ensure_future(keep_polling(steady))
            await cluster.wait_for(group="billing", members=2, state="Stable")
            for _ in range(3):
                await cluster.suspend_application("frozen")
                await cluster.wait_for(group="billing", members=1, state="Stable")
                await cluster.resume_application("frozen")
                await cluster.wait_for(group="billing", members=2, state="Stable")
            found = await group(cluster, "billing", "rebalances-on-and-on")
            polling.cancel()
        assert "3 time(s) a member dropped out; the last one (frozen) was silent for longer" in found.sentence
        assert "session.timeout.ms=3000" in found.sentence and "see that members send heartbeats" in found.sentence

    run(test, topics={"flights": 2})


def test_consumers_that_are_started_and_closed_are_no_trouble() -> None:
    """Two runs of a program that ends by Ctrl-C were: stopped, and told to have fewer records in a poll."""

    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        for _ in range(4):
            async with reading(cluster, commit=False):
                await cluster.wait_for(group="billing", members=1, state="Stable")
            await cluster.wait_for(group="billing", members=0)
        found = examine(await facts_of(cluster, groups={"billing"}), Subject(group="billing"))
        assert [one.sentence for one in found] == []

    run(test, topics={"flights": 1})


def test_a_client_that_gives_no_reason_for_leaving_has_ended_when_nobody_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As librdkafka does: a group that nobody is in any more was said to wait for all its members to join."""
    leave = Membership.leave_request
    monkeypatch.setattr(Membership, "leave_request", lambda membership, _: leave(membership, ""))

    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        for _ in range(4):
            async with reading(cluster, commit=False):
                await cluster.wait_for(group="billing", members=1, state="Stable")
            await cluster.wait_for(group="billing", members=0)
        found = examine(await facts_of(cluster, groups={"billing"}), Subject(group="billing"))
        assert [one.sentence for one in found] == []

    run(test, topics={"flights": 1})


async def keep_polling(consumer: Consumer) -> None:
    while True:
        await consumer.getmany(timeout_ms=500)


def test_a_member_that_is_too_slow_between_polls() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        async with reading(cluster, client_id="slow", max_poll_interval_ms=5_000, session_timeout_ms=6_000) as slow:
            for _ in range(4):
                await asyncio.sleep(8)
                await slow.getmany(timeout_ms=2_000)
            found = await group(cluster, "billing", "rebalances-on-and-on")
        assert "a member dropped out; the last one (slow) left" in found.sentence
        assert "max.poll.interval.ms" in found.sentence

    run(test, topics={"flights": 1})


def test_partition_without_owner() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        await produce(cluster, 4, "hotels")
        await committed(cluster, "hotels", 1)
        async with reading(cluster):
            found = await group(cluster, "billing", "partition-without-owner")
        assert "hotels-0 (3 behind): no member subscribes to hotels any more" in found.sentence

    run(test, topics={"flights": 1, "hotels": 1})


def test_added_partitions_that_nobody_has_been_given() -> None:
    """No offset tells of them: nothing has ever been read there."""

    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        async with reading(cluster), Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.create_partitions({"flights": 3})
            await produce(cluster, 4, partition=2)
            found = await group(cluster, "billing", "partition-without-owner")
        assert "flights-2 (4 behind): the assignor range gave it to nobody" in found.sentence
        assert found.told.ways_out[0].words == "have the group rebalance: restart a member"

    run(test, topics={"flights": 1})


def test_added_partitions_stay_without_owner_when_a_static_member_has_restarted() -> None:
    """It comes back knowing them, so that nothing changes for it, and its return is no rebalance."""

    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        async with reading(cluster, group_instance_id="w0"), Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.create_partitions({"flights": 2})
            await produce(cluster, 4, partition=1)
        again = {"group_id": "billing", "group_instance_id": "w0", "metadata_max_age_ms": 5_000}
        async with Consumer("flights", bootstrap_servers=cluster.bootstrap, **again) as consumer:  # type: ignore[arg-type]
            await consumer.getmany(timeout_ms=60_000)
            found = await group(cluster, "billing", "partition-without-owner")
            assert "flights-1 (4 behind)" in found.sentence
            assert "one more member" in found.told.ways_out[0].words
            async with Consumer("flights", bootstrap_servers=cluster.bootstrap, group_id="billing") as one_more:
                polling = [asyncio.create_task(keep_polling(one)) for one in (consumer, one_more)]
                await cluster.wait_for(group="billing", members=2, state="Stable")
                facts = await facts_of(cluster, groups={"billing"})
                for one in polling:
                    one.cancel()
        assert sum(len(one.partitions) for one in facts.groups["billing"].members) == 2

    run(test, topics={"flights": 1})


def test_committed_out_of_range() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 9)
        await committed(cluster, "flights", 2)
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.delete_records({AT: 6})
        found = await group(cluster, "billing", "committed-out-of-range")
        assert "flights-0: committed 2, the log begins at 6: 4 record(s) went unread" in found.sentence
        assert found.told.ways_out[0].command == (
            "odradek groups reset-offsets billing --topic flights:0 --to-earliest --execute"
        )
        await committed(cluster, "flights", 12)
        found = await group(cluster, "billing", "committed-out-of-range")
        assert "flights-0: committed 12, the log ends at 9" in found.sentence

    run(test, topics={"flights": 1})


def test_behind_an_open_transaction() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("flights", value=b"x"))
            async with reading(cluster, isolation_level="read_committed"):
                found = await group(cluster, "billing", "behind-open-transaction")
            await producer.abort_transaction()
        assert "waits for a transaction in flights-0 (1 behind): the transaction of bills is Ongoing" in found.sentence
        assert found.told.ways_out[0].command == "odradek why flights-0"

    run(test, topics={"flights": 1})


def test_coordinator_unavailable() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        await committed(cluster, "flights", 0)
        (coordinator,) = [one for one in cluster.running if "billing" in groups_of(one)]
        await cluster.kill(coordinator.broker_id)
        await asyncio.sleep(10)
        found = await group(cluster, "billing", "coordinator-unavailable")
        assert "has no leader; its offsets are in __consumer_offsets-" in found.sentence
        assert found.told.ways_out[0].command.startswith("odradek why __consumer_offsets-")

    run(test, topics={"flights": 1}, settings={"offsets.topic.replication.factor": "1"})


def test_a_frozen_coordinator_costs_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups were asked for some at a time, and each lot waited for it anew."""
    monkeypatch.setattr(gathering, "GROUPS_AT_ONCE", 3)
    names = {f"group-{number}" for number in range(30)}

    async def test(cluster: VirtualCluster) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            for name in names:
                await admin.alter_group_offsets(name, {AT: OffsetAndMetadata(0)})
        frozen = next(one for one in cluster.running if one not in cluster.controllers())
        theirs = groups_of(frozen)
        assert len(theirs) > 2 * gathering.GROUPS_AT_ONCE
        await cluster.suspend(frozen.broker_id)
        began_ms = cluster.clock.monotonic_ms()
        found = await facts_of(cluster, (), names, journals=False)
        assert cluster.clock.monotonic_ms() - began_ms < 4 * ANSWER_S * 1_000
        assert {name for name, one in found.groups.items() if "did not answer" in one.refusal} == theirs
        await cluster.resume(frozen.broker_id)

    session = {"zookeeper.session.timeout.ms": "300000", "offsets.topic.replication.factor": "1"}
    run(test, topics={"flights": 1}, settings=session)


def groups_of(broker: object) -> set[str]:
    """Groups that a broker coordinates."""
    return {one.group_id for one in broker.server.services.groups.list_groups([], [])[1]}  # type: ignore[attr-defined]


def test_reads_what_has_no_leader() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        await committed(cluster, "flights", 0)
        facts = await facts_of(cluster, (), {"billing"})
        topic = facts.topics["flights"]
        leaderless = replace(topic, partitions={0: replace(topic.partitions[0], leader=NO_LEADER)})
        facts = replace(facts, topics={**facts.topics, "flights": leaderless})
        found = staged(examine(facts, Subject(group="billing")), "reads-what-has-no-leader")
        assert found.told.ways_out[0].command == "odradek why flights-0"

    run(test, topics={"flights": 1})


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["g", "two words", "it's", "g\x1b[2J'x\\y", "a\nb", "\u2028$HOME", "ü\x85", "-`date`"])
def test_a_shell_takes_a_name_out_of_a_command_as_it_is(name: str) -> None:
    """And a terminal only shows it: what was shown as `\\x1b` named another group, that of these four characters."""
    command, environment = f"printf %s {typed(name)}", os.environ | {"LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
    assert done.stdout == name and typed(name).isprintable()


def test_names_mean_a_topic_a_partition_a_broker_a_group_or_several_of_them() -> None:
    known = {"flights", "flights-3", "7"}, {"billing", "flights"}, {0, 7}
    assert subjects("flights", *known) == [Subject(topic="flights"), Subject(group="flights")]
    assert subjects("flights-3", *known) == [Subject(topic="flights-3")]
    assert subjects("flights-2", *known) == [Subject(topic="flights", partition=2)]
    assert subjects("7", *known) == [Subject(topic="7"), Subject(broker=7)]
    assert subjects("billing", *known) == [Subject(group="billing")]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("fligths", "no topic, partition, broker or group 'fligths': did you mean flights?"),
        ("fligths-2", "did you mean flights"),
        ("bill", "did you mean billing?"),
        ("9", "there are 1 topic(s), 1 group(s), and broker(s) 0, 1"),
    ],
)
def test_an_unknown_name_is_told_what_comes_near(asked: str, said: str) -> None:
    with pytest.raises(UnknownSubject, match="no topic") as unknown:
        subjects(asked, {"flights"}, {"billing"}, {0, 1})
    assert said in str(unknown.value)


# -- rights ------------------------------------------------------------------------------------------------------------


def test_a_group_that_may_not_be_seen_is_not_taken_for_one_without_coordinator() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await produce(cluster, 1)
        await committed(cluster, "flights", 0)
        pattern = ResourcePattern(ACLResourceType.GROUP, "billing")
        await asyncio.sleep(1)
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.create_acls([ACL("User:clerk", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)])
        await asyncio.sleep(5)
        facts = await facts_of(cluster, (), {"billing"})
        assert examine(facts, Subject(group="billing")) == []
        assert "group billing: you may not see it (Describe on the group is missing)" in facts.unknown
        assert calm(facts, Subject(group="billing")) == "nothing can be said of group billing"
        with pytest.raises(
            ClientError, match="you may not see group 'billing', if there is one: Describe on that group"
        ):
            await check_may_see({}, cluster.bootstrap, "billing")
        await check_may_see({}, cluster.bootstrap, "nothing")

    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    run(test, topics={"flights": 1}, settings=settings)
