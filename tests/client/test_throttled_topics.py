"""Topics that controller_mutation_rate lets a client change only some at a time (KIP-599)."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.aio import Admin
from odradek.client.admin.values import NewTopic
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from odradek.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
Codes = dict[str, ErrorCode]
"""Topic → error."""


def created(codes: Codes) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=code) for name, code in codes.items()]
    )


def deleted(codes: Codes) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(name=name, error_code=code) for name, code in codes.items()]
    )


def grown(codes: Codes) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=name, error_code=code) for name, code in codes.items()]
    )


@pytest.mark.parametrize(
    ("kind", "answer", "change"),
    [
        (
            CreateTopicsRequest,
            created,
            lambda admin, names: admin.create_topics(map(NewTopic, names)),
        ),
        (DeleteTopicsRequest, deleted, lambda admin, names: admin.delete_topics(names)),
        (CreatePartitionsRequest, grown, lambda admin, names: admin.create_partitions(dict.fromkeys(names, 2))),
    ],
    ids=["create", "delete", "grow"],
)
def test_those_that_were_throttled_are_tried_again(
    scripted_broker: Any, kind: Any, answer: Callable[[Codes], Any], change: Callable[[Admin, list[str]], Any]
) -> None:
    """They failed, as soon as one of the others had not been throttled."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        allowed = ["a"]
        asked = []

        def respond(request: Any) -> Any:
            names = [one.name for one in request.topics]
            asked.append(names)
            refused = {"x": ErrorCode.INVALID_TOPIC_EXCEPTION}
            return answer({name: refused.get(name, ErrorCode.NONE if name in allowed else THROTTLED) for name in names})

        broker.handlers[kind] = respond
        async with Admin(bootstrap_servers="broker:9092", network=network.host("client"), clock=clock) as admin:
            clock.call_later(1_000, lambda: allowed.append("b"))
            await change(admin, ["a", "b"])
            assert asked[0] == ["a", "b"]
            assert len(asked) > 1 and all(names == ["b"] for names in asked[1:])
            with pytest.raises(KafkaError, match=r"x: .*; c: .*a") as caught:
                await change(admin, ["x", "a", "c"])
            assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
            assert asked[-1] == ["c"]

    run_virtual(main)
