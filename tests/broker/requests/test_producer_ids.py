"""Blocks of producer ids as a broker uses them: what the controller answers, or does not."""

import asyncio
from typing import Any

import pytest

from odradek.broker.cluster.peer import BrokerUnreachable
from odradek.broker.transactions.producer_ids import ProducerIds
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse


class Controller:
    """Answers with what it was given, in order; stands for the broker's client."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    async def to_controller(self, *_: object) -> Any:
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def block(first: int, count: int, error: ErrorCode = ErrorCode.NONE) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=error, producer_id_start=first, producer_id_len=count)


def producer_ids(controller: Controller) -> ProducerIds:
    stand_in: Any = controller
    return ProducerIds(0, lambda: 5, lambda client_id: stand_in, 10_000)


def test_one_block_is_fetched_however_many_ask() -> None:
    async def main() -> list[int]:
        ids = producer_ids(Controller(block(0, 3), block(1000, 3)))
        return list(await asyncio.gather(*(ids.next() for _ in range(5))))

    assert asyncio.run(main()) == [0, 1, 2, 1000, 1001]


@pytest.mark.parametrize(
    "answer",
    [
        BrokerUnreachable("no answer within 10000 ms"),
        block(0, 1000, ErrorCode.STALE_BROKER_EPOCH),
        block(1000, 0),
        block(1000, -5),
        block(-1, 1000),
        block(1, 1000),
        block(2**63 - 10, 1000),
    ],
)
def test_a_lost_or_impossible_answer_uses_up_nothing_that_is_handed_out(answer: object) -> None:
    """The producer is told to ask again; a block that was perhaps allocated stays unused."""

    async def main() -> tuple[list[int], ErrorCode]:
        ids = producer_ids(Controller(block(0, 2), answer, block(2000, 2)))
        seen = [await ids.next(), await ids.next()]
        with pytest.raises(KafkaError) as refused:
            await ids.next()
        seen.append(await ids.next())
        return seen, refused.value.code

    assert asyncio.run(main()) == ([0, 1, 2000], ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
