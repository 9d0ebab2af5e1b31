"""Transactions that hang: those that partitions have open and no coordinator knows, and what one may say of them."""

import asyncio
import logging

import pytest

from odradek.aio import Admin, Producer
from odradek.client.admin.access_values import ACL, ACLOperation, ACLPermissionType, ACLResourceType, ResourcePattern
from odradek.client.records import TopicPartition
from odradek.testing.usual_requests import hanging_request
from odradek.testing.virtual_run import VirtualCluster, run
from tests.sim.asking import Asking

UNCHECKED = {"transaction.partition.verification.enable": "false"}
STRANGER = 999
"""Producer id that no coordinator has given out."""
LAX = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


async def open_strange(cluster: VirtualCluster, topic: str = "t", partition: int = 0) -> None:
    """Leave a transaction open that no coordinator knows."""
    leader = cluster.broker(cluster.leader_now(topic, partition))
    answer = await Asking(cluster.embedded).ask(leader, hanging_request(topic, STRANGER, partition), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def test_what_partitions_have_open_and_no_coordinator_knows_is_found() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with (
            Admin(bootstrap_servers=cluster.bootstrap) as admin,
            Producer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer,
        ):
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("t", b"x", partition=0))
            assert await admin.find_hanging_transactions() == []
            for partition in (0, 1):
                await open_strange(cluster, partition=partition)
            (found,) = await admin.find_hanging_transactions()
            assert found.producer_id == STRANGER and found.topic_partitions == (
                TopicPartition("t", 0),
                TopicPartition("t", 1),
            )
            assert (found.transactional_id, found.state, found.coordinator_id) == ("", "", -1)
            (one,) = await admin.find_hanging_transactions([cluster.leader_now("t", 1)])
            assert one.topic_partitions == (TopicPartition("t", 1),)
            await producer.abort_transaction()

    run(test, brokers=2, topics={"t": 2}, settings=UNCHECKED)


def test_one_that_may_not_be_seen_is_not_taken_for_one_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """Coordinators leave out what one may not describe: whoever believed that aborted a good transaction's records."""

    async def test(cluster: VirtualCluster) -> None:
        async with (
            Admin(bootstrap_servers=cluster.bootstrap) as admin,
            Producer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer,
        ):
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("t", b"x"))
            await open_strange(cluster)
            (found,) = await admin.find_hanging_transactions()
            assert (found.producer_id, caplog.messages) == (STRANGER, [])
            bills = ResourcePattern(ACLResourceType.TRANSACTIONAL_ID, "bills")
            await admin.create_acls([ACL("User:clerk", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, bills)])
            await asyncio.sleep(1)
            with caplog.at_level(logging.WARNING, "odradek.client.admin"):
                assert await admin.find_hanging_transactions() == []
            (said,) = caplog.messages
            assert said.startswith("whether the transactions open in t-0 hang cannot be told: you may not describe all")

    run(test, brokers=1, topics={"t": 1}, settings=UNCHECKED | LAX)


def test_what_has_no_leader_hides_nothing_of_the_others() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create_topic("away", assignment={0: [1]})
        await cluster.create_topic("t", assignment={0: [0]})
        await open_strange(cluster)
        await cluster.kill(1)
        await cluster.wait_for("away", leader=-1)
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            (found,) = await admin.find_hanging_transactions()
        assert found.topic_partitions == (TopicPartition("t", 0),)

    run(test, brokers=2, settings=UNCHECKED)
