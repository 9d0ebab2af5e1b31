"""Answers about something else than what was asked: of a broker with a fault, or newer than the client."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.aio import Admin, Consumer
from odradek.client.admin.configs import Operation
from odradek.client.admin.values import ConfigResource, NewTopic, OffsetSpec, ResourceType
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from odradek.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from tests.client.group_of_one import T0, make_coordinator

STRANGER = 7
TOPIC = ConfigResource(ResourceType.TOPIC, "t")
WAIT_MS = 5_000


def offsets(*partitions: int) -> ListOffsetsResponse:
    answers = [ListOffsetsPartitionResponse(partition_index=number, offset=3) for number in partitions]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)])


def committed(*partitions: int) -> OffsetFetchResponse:
    answers = [OffsetFetchResponsePartitions(partition_index=number, committed_offset=3) for number in partitions]
    topic = OffsetFetchResponseTopics(name="t", partitions=answers)
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])


@pytest.mark.parametrize("group_id", [None, "g"])
def test_offsets_of_a_partition_that_was_not_asked_for_do_not_break_a_consumer(
    scripted_broker: Any, group_id: str | None
) -> None:
    """It was broken for good by a KeyError, and so was a group's, by the offsets that it has committed."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        make_coordinator(broker)
        broker.handlers[ListOffsetsRequest] = lambda _: offsets(STRANGER, 0)
        broker.handlers[OffsetFetchRequest] = lambda _: committed(STRANGER, 0)
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Consumer(group_id=group_id, **world) as consumer:
            consumer.assign([T0])
            assert await consumer.position(T0, timeout_ms=WAIT_MS) == 3
            assert await consumer.end_offsets([T0], timeout_ms=WAIT_MS) == {T0: 3}

    run_virtual(main)


def test_leaders_are_asked_again_for_what_their_answers_lack(scripted_broker: Any) -> None:
    """What was missing was missing in the result, too, and a KeyError where offsets are reset."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network, topics={"t": 2})
        answers = [offsets(0), offsets(STRANGER), offsets(1)]
        broker.handlers[ListOffsetsRequest] = lambda _: answers.pop(0)
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Admin(**world) as admin:
            wanted = dict.fromkeys((TopicPartition("t", 0), TopicPartition("t", 1)), OffsetSpec.LATEST)
            assert set(await admin.list_offsets(wanted)) == set(wanted)
        assert not answers

    run_virtual(main)


@pytest.mark.parametrize("parts", [0, 2])
def test_an_answer_about_one_thing_that_has_none_or_several_is_refused(scripted_broker: Any, parts: int) -> None:
    """It was an IndexError, a ValueError, or a description of another group."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        make_coordinator(broker)
        group, state = DescribedGroup(group_id="g"), TransactionState(transactional_id="x")
        broker.handlers[DescribeGroupsRequest] = lambda _: DescribeGroupsResponse(groups=[group] * parts)
        broker.handlers[DescribeTransactionsRequest] = lambda _: DescribeTransactionsResponse(
            transaction_states=[state] * parts
        )
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Admin(**world) as admin:
            for asked in (admin.describe_groups(["g"]), admin.describe_transactions(["x"])):
                with pytest.raises(KafkaError, match=f"has {parts} parts") as refused:
                    await asked
                assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR

    run_virtual(main)


NOTHING_SAID: list[tuple[Any, Any, Callable[[Admin], Any], str]] = [
    (CreateTopicsRequest, CreateTopicsResponse, lambda admin: admin.create_topics([NewTopic("t", 1, 1)]), "t: "),
    (DeleteTopicsRequest, DeleteTopicsResponse, lambda admin: admin.delete_topics(["t"]), "t: "),
    (CreatePartitionsRequest, CreatePartitionsResponse, lambda admin: admin.create_partitions({"t": 2}), "t: "),
    (DescribeConfigsRequest, DescribeConfigsResponse, lambda admin: admin.describe_configs([TOPIC]), "topic t: "),
    (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
        lambda admin: admin.alter_configs({TOPIC: [("x", Operation.SET, "1")]}, raise_on_unknown=False),
        "topic t: ",
    ),
    (DeleteGroupsRequest, DeleteGroupsResponse, lambda admin: admin.delete_groups(["g"]), "group g: "),
]


@pytest.mark.parametrize(
    ("request_", "response", "ask", "what"), NOTHING_SAID, ids=lambda one: getattr(one, "__name__", "")
)
def test_nothing_said_is_no_success(
    scripted_broker: Any, request_: Any, response: Any, ask: Callable[[Admin], Any], what: str
) -> None:
    """What an answer lacked counted as done, and a topic without settings had none."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        make_coordinator(broker)
        broker.handlers[request_] = lambda _: response()
        world: dict[str, Any] = {"bootstrap_servers": "broker:9092", "network": network.host("client"), "clock": clock}
        async with Admin(**world) as admin:
            with pytest.raises(KafkaError, match=what) as refused:
                await ask(admin)
            assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR

    run_virtual(main)
