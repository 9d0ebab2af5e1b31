"""Answers that refuse, made for any API: what is in them, and that it can be encoded."""

import pytest

from odradek.broker.requests.registry import HANDLERS
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import API_NAMES, message_classes
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.testing.cluster.refusals import Aim, can_refuse, merge, refusal, split

CODE = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _produce(*partitions: tuple[str, int]) -> ProduceRequest:
    topics: dict[str, list[PartitionProduceData]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(PartitionProduceData(index=index, records=b""))
    return ProduceRequest(
        acks=1, topic_data=[TopicProduceData(name=topic, partition_data=data) for topic, data in topics.items()]
    )


def _codes(response: ProduceResponse) -> dict[tuple[str, int], int]:
    return {(t.name, p.index): p.error_code for t in response.responses for p in t.partition_responses}


@pytest.mark.parametrize("key", sorted(HANDLERS), ids=lambda key: API_NAMES[key])
def test_every_api_can_be_refused(key: int) -> None:
    classes, (lowest, highest) = message_classes(key), HANDLERS[key].VERSIONS
    for version in {lowest, highest}:
        if can_refuse(classes.response, version):
            for deep in (False, True):
                answer = refusal(classes.request(), classes.response, version, CODE, deep=deep)
                assert decode(classes.response, version, encode(answer, version)) == answer


def test_the_code_stands_beside_each_partition() -> None:
    asked = _produce(("a", 0), ("a", 1), ("b", 0))
    assert _codes(refusal(asked, ProduceResponse, 9, CODE)) == {("a", 0): CODE, ("a", 1): CODE, ("b", 0): CODE}


def test_plain_values_get_their_names() -> None:
    found = refusal(FindCoordinatorRequest(coordinator_keys=["g", "h"]), FindCoordinatorResponse, 4, CODE)
    assert [(one.key, one.error_code) for one in found.coordinators] == [("g", CODE), ("h", CODE)]
    asked = AddPartitionsToTxnRequest(v3_and_below_topics=[AddPartitionsToTxnTopic(name="a", partitions=[2, 5])])
    added = refusal(asked, AddPartitionsToTxnResponse, 3, CODE)
    [topic] = added.results_by_topic_v3_and_below
    assert [(one.partition_index, one.partition_error_code) for one in topic.results_by_partition] == [
        (2, CODE),
        (5, CODE),
    ]


def test_a_request_is_split_by_what_it_names() -> None:
    asked = _produce(("a", 0), ("a", 1), ("b", 0))
    hit, rest = split(asked, 9, Aim("a", 1), {}) or (None, None)
    assert (hit, rest) == (_produce(("a", 1)), _produce(("a", 0), ("b", 0)))
    assert split(asked, 9, Aim("c"), {}) is None
    assert split(asked, 9, Aim(), {}) == (asked, None)
    assert split(asked, 9, Aim("b"), {}) == (_produce(("b", 0)), _produce(("a", 0), ("a", 1)))


def test_two_answers_become_one() -> None:
    answered = refusal(_produce(("a", 0), ("b", 0)), ProduceResponse, 9, 0)
    merge(answered, refusal(_produce(("a", 1)), ProduceResponse, 9, CODE), 9)
    assert _codes(answered) == {("a", 0): 0, ("a", 1): CODE, ("b", 0): 0}
    assert [topic.name for topic in answered.responses] == ["a", "b"]
