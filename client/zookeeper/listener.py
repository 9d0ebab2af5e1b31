"""The application's listener, which is told of rebalances of its ConsumerConnector."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.assignment import Assignment

logger = logging.getLogger(__name__)


class ConsumerRebalanceListener(Protocol):
    """Object of the application with these methods (Kafka 0.9: kafka.javaapi.consumer.ConsumerRebalanceListener).

    They are called in a thread of their own and may use the connector; the rebalance goes on when they return. Nothing
    is told when the ZooKeeper session has expired: the partitions are lost then, perhaps to others already.
    """

    def before_releasing_partitions(self, ownership: dict[str, set[int]], /) -> Any:
        """Act before the member gives up its partitions, topic → numbers: nothing more of them is handed out, and they
        are nobody else's yet. The place to commit offsets that are kept elsewhere, or that `commit_offsets` keeps."""

    def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]], /) -> Any:
        """Act before the member reads its new partitions. `assignment` has those of the whole group, as far as this
        member knows the topics: topic → partition → id of the thread, which begins with its consumer id."""


class Listener:
    """What a member tells. This one tells it nobody."""

    async def releasing(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell that these partitions are about to be given up."""

    async def starting(self, consumer_id: str, assignment: Assignment) -> None:
        """Tell what the group's members are assigned, before this one begins to read."""


UNHEARD = Listener()


class ListenerOnThread(Listener):
    """What a member tells the application's listener, whose errors are logged: others wait for the partitions."""

    def __init__(self, listener: ConsumerRebalanceListener) -> None:
        self._listener = listener

    async def releasing(self, partitions: Iterable[TopicPartition]) -> None:
        ownership = {topic: set(numbers) for topic, numbers in by_topic(partitions).items()}
        await self._call(self._listener.before_releasing_partitions, ownership)

    async def starting(self, consumer_id: str, assignment: Assignment) -> None:
        threads: dict[str, dict[int, str]] = {}
        for name, thread in sorted(assignment.items()):
            threads.setdefault(name.topic, {})[name.partition] = thread
        await self._call(self._listener.before_starting_fetchers, consumer_id, threads)

    async def _call(self, method: Callable[..., Any], *arguments: Any) -> None:
        try:
            await asyncio.to_thread(method, *arguments)
        except Exception:
            logger.exception("the rebalance listener's %s failed; the rebalance goes on", method.__name__)
