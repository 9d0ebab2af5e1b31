"""What an admin client tells of groups and transactions while a part of the cluster is not there."""

from typing import Any

import pytest

from odradek.aio import Admin, Consumer
from odradek.client.admin.values import NewTopic, PartitionLag
from odradek.client.errors import ConfigError
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

HERE, AWAY = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_lag_of_a_group_is_told_though_a_partition_has_no_leader() -> None:
    """The end of that partition's log was asked for during a minute, and then nothing was told of the others either."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            world: dict[str, Any] = {
                "bootstrap_servers": "broker-0:9092",
                "network": cluster.network.host("client"),
                "clock": clock,
            }
            async with Admin(**world) as admin:
                offsets = NewTopic("__consumer_offsets", replica_assignments={0: [0]})
                await admin.create_topics([NewTopic("t", replica_assignments={0: [0], 1: [1]}), offsets])
                async with Consumer(group_id="g", enable_auto_commit=False, **world) as consumer:
                    consumer.assign([HERE, AWAY])
                    await consumer.commit({HERE: 0, AWAY: 3})
                await cluster.brokers[1].stop()
                lags = await admin.group_lag("g")
                assert lags == [PartitionLag(HERE, 0, 0, 0), PartitionLag(AWAY, 3, None, None)]

    run_virtual(main)


def test_a_broker_that_loads_what_it_coordinates_is_asked_again(scripted_broker: Any) -> None:
    """While one broker was starting, no broker's groups and transactions could be listed."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        group = ListedGroup(group_id="g", protocol_type="consumer")
        groups = [ListGroupsResponse(error_code=loading), ListGroupsResponse(groups=[group])]
        state = TransactionState(transactional_id="x", producer_id=1, transaction_state="Ongoing")
        transactions = [
            ListTransactionsResponse(error_code=loading),
            ListTransactionsResponse(transaction_states=[state]),
        ]
        broker.handlers[ListGroupsRequest] = lambda _: groups.pop(0)
        broker.handlers[ListTransactionsRequest] = lambda _: transactions.pop(0)
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Admin(**world) as admin:
            assert [one.group_id for one in await admin.list_groups()] == ["g"]
            assert [one.transactional_id for one in (await admin.list_transactions())[0]] == ["x"]

    run_virtual(main)


def test_a_group_id_that_no_request_can_hold_is_refused_at_once() -> None:
    """Brokers close the connection on which it comes; it was asked for again until default.api.timeout.ms was over."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            network = cluster.network.host("client")
            async with Admin(bootstrap_servers="broker-0:9092", network=network, clock=clock) as admin:
                began_ms = clock.monotonic_ms()
                with pytest.raises(ConfigError, match="32767 bytes, not 32768"):
                    await admin.describe_groups(["ä" * 16_384])
                assert clock.monotonic_ms() - began_ms < 1_000

    run_virtual(main)
