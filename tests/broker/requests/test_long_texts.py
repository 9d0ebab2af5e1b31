"""Names and values as long as a string may be, which errors quote: the connection was closed, or the answer was no
message that a client could read."""

from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.incremental_alter_configs import AlterableConfig as Change
from odradek.protocol.messages.incremental_alter_configs import AlterConfigsResource as Changed
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.broker.requests.whole_broker import TOPIC, Client, with_broker

LONGEST = "x" * 0x7FFF


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(("name", "value"), [("retention.ms", LONGEST), (LONGEST, "1")])
def test_settings(version: int, name: str, value: str) -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        config = AlterableConfig(name=name, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=[config])
        (answer,) = (await client.ask(AlterConfigsRequest(resources=[resource]), version)).responses
        assert answer.error_code == ErrorCode.INVALID_CONFIG and answer.error_message.endswith("…")

    with_broker(scenario)


@pytest.mark.parametrize("version", [1, 7])
def test_names_of_topics(version: int) -> None:
    async def scenario(client: Client) -> None:
        made = CreatableTopic(name=LONGEST, num_partitions=1, replication_factor=1)
        (answer,) = (await client.ask(CreateTopicsRequest(topics=[made], timeout_ms=1000), version)).topics
        assert (answer.name, answer.error_code) == (LONGEST, ErrorCode.INVALID_TOPIC_EXCEPTION)
        described = DescribeConfigsResource(resource_type=2, resource_name=LONGEST)
        (answer,) = (await client.ask(DescribeConfigsRequest(resources=[described]), min(version, 4))).results
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(scenario)


@pytest.mark.parametrize("version", [1, 4])
def test_a_list_that_has_become_too_long(version: int) -> None:
    """Each part of it fits into a request; all of it fits into no answer."""
    throttled = "leader.replication.throttled.replicas"

    async def scenario(client: Client) -> None:
        await client.create()
        for broker in (1, 2):
            replicas = ",".join(f"{partition}:{broker}" for partition in range(1000, 5000))
            change = Change(name=throttled, config_operation=2, value=replicas)
            changed = Changed(resource_type=2, resource_name=TOPIC, configs=[change])
            response = await client.ask(IncrementalAlterConfigsRequest(resources=[changed]), 1)
            assert response.responses[0].error_code == ErrorCode.NONE

        async def describe(*names: str) -> Any:
            keys = list(names) or None
            described = DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=keys)
            return (await client.ask(DescribeConfigsRequest(resources=[described]), version)).results[0]

        refused = await describe()
        assert (refused.error_code, refused.configs) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
        assert throttled in refused.error_message
        assert [one.value for one in (await describe("cleanup.policy")).configs] == ["delete"]

    with_broker(scenario)
