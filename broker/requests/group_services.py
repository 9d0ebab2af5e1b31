"""The part of the broker that handlers of group requests use, and the answer that comes later."""

import asyncio
from collections.abc import Awaitable
from typing import Generic, Protocol, TypeVar

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.groups.group_coordinator import GroupCoordinator
from odradek.broker.network.outcomes import Outcome, Reply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.world.clock import Clock
from odradek.zk_schema.store import Store

M = TypeVar("M", bound=Message)


class GroupServices(Protocol):
    """The part of `Services` that these handlers need."""

    @property
    def clock(self) -> Clock:
        """Wall time of commits."""

    @property
    def zookeeper(self) -> Store:
        """ZooKeeper, which has the offsets of version 0."""

    @property
    def metadata(self) -> MetadataCache:
        """Which partitions exist, and who leads them."""

    @property
    def groups(self) -> GroupCoordinator:
        """This broker's groups."""

    def auto_create_topic(self, topic: str, /) -> Awaitable[ErrorCode]:
        """Create a topic with the broker's defaults."""


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
