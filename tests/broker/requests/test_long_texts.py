"""Names and values as long as a string may be, which errors quote: the connection was closed, or the answer was no
message that a client could read."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
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
