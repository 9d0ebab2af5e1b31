"""Methods of the admin client that are given several items: what cannot be done for one is done for the others."""

from typing import Any

import pytest

from odradek import ConfigResource, KafkaError, TopicPartitionReplica
from odradek.aio import Admin, Consumer
from odradek.client.errors import BrokerUnreachable, ConfigError
from odradek.client.records import TopicPartition
from odradek.testing import run

NOBODY = 99
"""Number of a broker that there is not."""
T = ConfigResource("TOPIC", "t", {"retention.ms": "123456"})


@pytest.mark.parametrize("incremental", [None, False])
def test_a_broker_that_is_down_keeps_no_other_resource_from_its_settings(incremental: bool | None) -> None:
    """Those behind it in the list were left as they were, and the message did not say so."""

    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            down = ConfigResource("BROKER", str(NOBODY), {"log.cleaner.threads": "1"})
            with pytest.raises(BrokerUnreachable, match="broker 99"):
                await admin.alter_configs([down, T], raise_on_unknown=False, incremental=incremental)
            described = await admin.describe_configs([T], config_filter="modified")
            assert [(one.name, one.value) for one in described[T]] == [("retention.ms", "123456")]
            worse = ConfigResource("TOPIC", "gone", {"retention.ms": "1"})
            with pytest.raises(KafkaError, match=r"NETWORK_EXCEPTION: broker 99: .*; gone: "):
                await admin.alter_configs([down, worse], raise_on_unknown=False, incremental=incremental)

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_a_broker_whose_name_is_no_number_is_refused_before_anything_is_done() -> None:
    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            named = ConfigResource("BROKER", "first", {"log.cleaner.threads": "1"})
            with pytest.raises(ConfigError, match="a broker is named by its number, not 'first'"):
                await admin.alter_configs([T, named], raise_on_unknown=False)
            assert (await admin.describe_configs([T], config_filter="modified"))[T] == []

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_a_group_that_cannot_be_deleted_keeps_no_other() -> None:
    async def main(cluster: Any) -> None:
        where: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap}
        async with Consumer(group_id="other", **where) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            await consumer.commit({TopicPartition("t", 0): 0})
        async with Admin(**where) as admin:
            await cluster.respond("FindCoordinator", "GROUP_AUTHORIZATION_FAILED")
            with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
                await admin.delete_groups(["guarded", "other"])
            assert await admin.list_groups() == []

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_a_broker_that_is_down_keeps_no_replica_of_another_in_its_directory() -> None:
    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            places = {TopicPartitionReplica("t", 0, NOBODY): "/a", TopicPartitionReplica("t", 0, 0): "/b"}
            with pytest.raises(KafkaError, match=r"NETWORK_EXCEPTION: broker 99: .*; t-0: log dir not found"):
                await admin.alter_replica_log_dirs(places)

    run(main, brokers=1, topics={"t": 1}, seed=7)


def test_all_topics_that_are_not_there_are_named() -> None:
    async def main(cluster: Any) -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            with pytest.raises(KafkaError, match=r"topic first: unknown .*; topic second: unknown"):
                await admin.describe_topics(["first", "t", "second"])

    run(main, brokers=1, topics={"t": 1}, seed=7)
