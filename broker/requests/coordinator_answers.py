"""Answers that the coordinators of groups and transactions give at once or later."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from odradek.broker.network.outcomes import Outcome, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message

M = TypeVar("M", bound=Message)

FIRST_VERSION_WITH_FENCED = 2
"""Version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that knows PRODUCER_FENCED (KIP-588)."""


class LaterReply(Generic[M]):
    """An answer that the coordinator gives at once or later.

    What the request changes is changed before the handler returns; only the sending of the answer waits for the loop.
    """

    def __init__(self) -> None:
        self._response: M | None = None
        self._arrived: asyncio.Future[None] | None = None

    def give(self, response: M) -> None:
        """Give the answer, exactly once. Harmless when the connection has gone meanwhile."""
        assert self._response is None, (self._response, response)
        self._response = response
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def outcome(self) -> Outcome:
        """Return the answer, or a coroutine that waits for it; handlers return this after asking the coordinator."""
        return self.arrived() if self._response is None else Reply(self._response)

    async def arrived(self) -> Reply:
        """Wait for the answer and return it; for handlers that have had to wait before they asked the coordinator."""
        if self._response is None:
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        assert self._response is not None
        return Reply(self._response)


def known_to(error: ErrorCode, version: int, first_version_with_fenced: int = FIRST_VERSION_WITH_FENCED) -> ErrorCode:
    """Return `error` as clients of that version know it: older ones have INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_version_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def answered_later(ask: Callable[[Callable[[ErrorCode], object]], None], response: Callable[[ErrorCode], M]) -> Outcome:
    """Call `ask` with the callback that the coordinator answers by; the outcome is the `response` to its error."""
    reply = LaterReply[M]()
    ask(lambda error: reply.give(response(error)))
    return reply.outcome()
