"""An answer that a coordinator gives at once or later."""

import asyncio
from typing import Generic, TypeVar

from odradek.broker.network.outcomes import Outcome, Reply
from odradek.protocol.fields import Message

M = TypeVar("M", bound=Message)


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
