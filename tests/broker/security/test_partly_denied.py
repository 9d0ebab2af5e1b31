"""Requests about several resources of which the sender may see some.

What all principals are told of one resource is in test_authorization_table.py.
"""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests.authorization import groups, topics
from odradek.broker.requests.authorization.rules import Asked
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import describe_groups, describe_transactions
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_DENIED, TOPIC_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_DENIED, NONE = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.NONE
OPERATIONS = 0b1000


class RightsToMine:
    """Whatever is called mine, or begins so."""

    def may(self, operation: object, resource_type: object, name: str, *, quietly: bool = False) -> bool:
        return name.startswith("mine")

    def allowed(self, operation: object, resource_type: object, names: Iterable[str], *, quietly: bool = False) -> Any:
        return {name for name in names if name.startswith("mine")}

    def operations(self, resource_type: object, name: str) -> int:
        return OPERATIONS


def judged(rule: Any, request: Any, version: int, response: Any = None, broker: Any = None) -> tuple[Any, Any]:
    """The request that the handler is given, None if it is given none; and the answer. The handler's is `response`."""
    given: list[Any] = []

    def go_on() -> Reply:
        given.append(request)
        return Reply(response)

    rights: Any = RightsToMine()
    outcome = rule(Asked(broker, request, RequestContext(version, "", "", ""), rights), go_on)
    assert isinstance(outcome, Reply)
    return (given[0] if given else None), outcome.response


# FindCoordinator


@pytest.mark.parametrize(("key_type", "error"), [(0, GROUP_DENIED), (1, ID_DENIED)])
def test_coordinators_are_named_of_what_may_be_seen(key_type: int, error: ErrorCode) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["theirs", "mine", "mine too"])
    found = [Coordinator(key=key, node_id=1, host="h", port=9) for key in ("mine", "mine too")]
    given, answer = judged(groups.find_coordinator, request, 4, FindCoordinatorResponse(coordinators=found))
    assert given.coordinator_keys == ["mine", "mine too"]
    hidden = Coordinator(key="theirs", node_id=-1, host="", port=-1, error_code=error, error_message="")
    assert answer.coordinators == [*found, hidden]


def test_where_nothing_may_be_seen_nobody_looks_for_a_coordinator() -> None:
    given, answer = judged(groups.find_coordinator, FindCoordinatorRequest(coordinator_keys=["theirs"]), 4)
    assert given is None and [one.error_code for one in answer.coordinators] == [GROUP_DENIED]
    given, answer = judged(groups.find_coordinator, FindCoordinatorRequest(key="theirs", key_type=1), 3)
    assert given is None and (answer.error_code, answer.node_id, answer.host, answer.port) == (ID_DENIED, -1, "", -1)
    assert answer.error_message == "Transactional Id authorization failed."


@pytest.mark.parametrize(("version", "key_type"), [(3, 0), (4, 0), (4, 1), (4, 7)])
def test_coordinators_of_ones_own_or_of_something_unknown_are_looked_for(version: int, key_type: int) -> None:
    name = "theirs" if key_type == 7 else "mine"
    request = FindCoordinatorRequest(key=name, coordinator_keys=[name], key_type=key_type)
    response = FindCoordinatorResponse(node_id=1)
    assert judged(groups.find_coordinator, request, version, response) == (request, FindCoordinatorResponse(node_id=1))


# OffsetFetch


def partition(index: int, offset: int, error: ErrorCode = NONE, answer: Any = OffsetFetchResponsePartition) -> Any:
    return answer(partition_index=index, committed_offset=offset, metadata="", error_code=error)


def topic(name: str, *partitions: Any) -> Any:
    return OffsetFetchResponseTopic(name=name, partitions=list(partitions))


@pytest.mark.parametrize("version", [1, 2, 7])
def test_offsets_of_denied_topics_are_refused_by_name(version: int) -> None:
    asked = [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 3]) for name in ("theirs", "mine")]
    request = OffsetFetchRequest(group_id="mine", topics=asked)
    known = topic("mine", partition(0, 5), partition(3, 6))
    given, answer = judged(groups.fetched_offsets, request, version, OffsetFetchResponse(topics=[known]))
    assert [one.name for one in given.topics] == ["mine"]
    hidden = topic("theirs", *(partition(index, -1, TOPIC_DENIED) for index in (0, 3)))
    assert (answer.error_code, answer.topics) == (NONE, [known, hidden])


def test_of_all_offsets_those_of_denied_topics_are_left_out() -> None:
    known = [topic(name, partition(0, 5)) for name in ("theirs", "mine")]
    given, answer = judged(
        groups.fetched_offsets, OffsetFetchRequest(group_id="mine", topics=None), 7, OffsetFetchResponse(topics=known)
    )
    assert given.topics is None and answer.topics == known[1:]


def test_where_the_coordinator_refuses_that_is_all_that_is_said() -> None:
    error = ErrorCode.NOT_COORDINATOR
    asked = [OffsetFetchRequestTopic(name="theirs", partition_indexes=[0])]
    request = OffsetFetchRequest(group_id="mine", topics=asked)
    _, answer = judged(groups.fetched_offsets, request, 7, OffsetFetchResponse(error_code=error))
    assert answer == OffsetFetchResponse(error_code=error)
    many = [OffsetFetchRequestTopics(name="theirs", partition_indexes=[0])]
    one = OffsetFetchResponseGroup(group_id="mine", error_code=error)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="mine", topics=many)])
    _, answer = judged(groups.fetched_offsets, request, 8, OffsetFetchResponse(groups=[one]))
    assert answer.groups == [OffsetFetchResponseGroup(group_id="mine", error_code=error)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_denied_group_is_refused_in_the_way_of_the_version(version: int) -> None:
    asked = [OffsetFetchRequestTopic(name="mine", partition_indexes=[4])]
    given, answer = judged(groups.fetched_offsets, OffsetFetchRequest(group_id="theirs", topics=asked), version)
    refused = OffsetFetchResponse(topics=[topic("mine", partition(4, -1, GROUP_DENIED))])
    assert given is None and answer == (refused if version == 1 else OffsetFetchResponse(error_code=GROUP_DENIED))


def test_each_of_several_groups_is_judged_by_itself() -> None:
    def asked(group: str, *names: str) -> OffsetFetchRequestGroup:
        wanted = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in names]
        return OffsetFetchRequestGroup(group_id=group, topics=wanted if names else None)

    def told(group: str, *names: str) -> OffsetFetchResponseGroup:
        known = [partition(0, 5, answer=OffsetFetchResponsePartitions)]
        found = [OffsetFetchResponseTopics(name=name, partitions=known) for name in names]
        return OffsetFetchResponseGroup(group_id=group, topics=found)

    request = OffsetFetchRequest(groups=[asked("theirs", "mine"), asked("mine", "theirs", "mine"), asked("mine all")])
    response = OffsetFetchResponse(groups=[told("mine", "mine"), told("mine all", "mine", "theirs")])
    given, answer = judged(groups.fetched_offsets, request, 8, response)
    assert [(one.group_id, one.topics and [wanted.name for wanted in one.topics]) for one in given.groups] == [
        ("mine", ["mine"]),
        ("mine all", None),
    ]
    hidden = [partition(0, -1, TOPIC_DENIED, OffsetFetchResponsePartitions)]
    mixed = told("mine", "mine")
    mixed.topics = [*mixed.topics, OffsetFetchResponseTopics(name="theirs", partitions=hidden)]
    refused = OffsetFetchResponseGroup(group_id="theirs", error_code=GROUP_DENIED)
    assert answer.groups == [mixed, told("mine all", "mine"), refused]


# DescribeGroups, DescribeTransactions


@pytest.mark.parametrize("wanted", [True, False])
def test_operations_are_told_of_groups_that_are_described_and_only_if_wanted(wanted: bool) -> None:
    response = describe_groups.DescribeGroupsResponse(
        groups=[
            describe_groups.DescribedGroup(group_id="mine", error_code=error, authorized_operations=-1)
            for error in (NONE, ErrorCode.NOT_COORDINATOR)
        ]
    )
    request = describe_groups.DescribeGroupsRequest(groups=["mine"], include_authorized_operations=wanted)
    _, answer = judged(groups.group_operations, request, 3, response)
    assert [one.authorized_operations for one in answer.groups] == [OPERATIONS if wanted else -1, -1]


def test_of_a_transaction_the_topics_are_told_that_may_be_described() -> None:
    held = [describe_transactions.TopicData(topic=name, partitions=[0]) for name in ("theirs", "mine", "mine too")]
    state = describe_transactions.TransactionState(transactional_id="mine", topics=held)
    response = describe_transactions.DescribeTransactionsResponse(transaction_states=[state])
    request = describe_transactions.DescribeTransactionsRequest(transactional_ids=["mine"])
    _, answer = judged(groups.transactions_topics, request, 0, response)
    assert [one.topic for one in answer.transaction_states[0].topics] == ["mine", "mine too"]


# AddPartitionsToTxn


def test_a_denied_topic_keeps_the_others_out_of_the_transaction() -> None:
    """Each is told why: internal topics are written by coordinators alone."""
    broker = SimpleNamespace(
        metadata=SimpleNamespace(partition=lambda name, index: None if "unknown" in name or index > 8 else object())
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="mine",
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=[0, 9])
            for name in ("mine", "theirs", "mine, unknown", "__consumer_offsets")
        ],
    )
    given, answer = judged(topics.transaction_partitions, request, 3, broker=broker)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert given is None and answer.error_code == NONE
    assert [
        (one.name, [told.partition_error_code for told in one.results_by_partition])
        for one in answer.results_by_topic_v3_and_below
    ] == [
        ("mine", [ErrorCode.OPERATION_NOT_ATTEMPTED, unknown]),
        ("theirs", [TOPIC_DENIED, TOPIC_DENIED]),
        ("mine, unknown", [unknown, unknown]),
        ("__consumer_offsets", [TOPIC_DENIED, TOPIC_DENIED]),
    ]
