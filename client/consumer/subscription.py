"""Subscription of an application: nothing, topics, a pattern of topics, or partitions of its own choice. No I/O.

Topics and patterns are shared with the group; partitions are not. To go from one to the other the application must
unsubscribe, as in Java's SubscriptionState. Beside them are the interfaces of code that the application passes to a
consumer: its rebalance listener, and its interceptors.
"""

import inspect
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from odradek.client import arguments
from odradek.client.errors import ConfigError
from odradek.client.metadata import ClusterView
from odradek.client.records import ConsumerRecord, OffsetAndMetadata, TopicPartition
from odradek.protocol.topic_names import INTERNAL_TOPICS

logger = logging.getLogger(__name__)


class Kind(Enum):
    """Form of a subscription; the value completes "the consumer is …" in messages."""

    NOTHING = "unsubscribed"
    TOPICS = "subscribed to topics"
    PATTERN = "subscribed to a pattern"
    PARTITIONS = "assigned partitions"


VALID_PREVIOUS: Mapping[Kind, frozenset[Kind]] = {
    Kind.NOTHING: frozenset(Kind),
    Kind.TOPICS: frozenset({Kind.NOTHING, Kind.TOPICS, Kind.PATTERN}),
    Kind.PATTERN: frozenset({Kind.NOTHING, Kind.TOPICS, Kind.PATTERN}),
    Kind.PARTITIONS: frozenset({Kind.NOTHING, Kind.PARTITIONS}),
}


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics, pattern or partitions that a consumer reads. Immutable, so that any thread may read it."""

    kind: Kind = Kind.NOTHING
    topics: frozenset[str] = frozenset()
    """Topics that the application has named; none with a pattern."""
    pattern: re.Pattern[str] | None = None

    def followed_by(self, following: "Subscription") -> "Subscription":
        """Return `following`. Raises ConfigError if the application must unsubscribe first."""
        if self.kind not in VALID_PREVIOUS[following.kind]:
            raise ConfigError(f"the consumer is {self.kind.value}: unsubscribe before it can be {following.kind.value}")
        return following

    @property
    def shared(self) -> bool:
        """Tell whether the group decides which partitions are read."""
        return self.kind in (Kind.TOPICS, Kind.PATTERN)

    def matching(self, view: ClusterView, *, exclude_internal: bool) -> list[str]:
        """Return the topics whose whole name matches the pattern, sorted."""
        assert self.pattern is not None, self.kind
        return sorted(
            name
            for name, info in view.topics.items()
            if self.pattern.fullmatch(name) and not (exclude_internal and (info.internal or name in INTERNAL_TOPICS))
        )


NOTHING = Subscription()


def to_topics(topics: Collection[str]) -> Subscription:
    """Return a subscription to these topics."""
    return Subscription(Kind.TOPICS, frozenset(topics))


def to_pattern(pattern: str | re.Pattern[str]) -> Subscription:
    """Return a subscription to all topics, future ones too, whose whole name matches. Raises ConfigError for a bad
    pattern."""
    try:
        return Subscription(Kind.PATTERN, pattern=arguments.regular_expression(pattern))
    except re.error as error:
        raise ConfigError(f"{pattern!r} is not a regular expression: {error}") from error


def to_partitions(topics: Collection[str]) -> Subscription:
    """Return a subscription to assigned partitions of these topics; without topics, to nothing."""
    return Subscription(Kind.PARTITIONS, frozenset(topics)) if topics else NOTHING


class RebalanceListener:
    """Callbacks of a rebalance: override what you need. They are called inside `poll` or `close`; with `odradek.aio`
    they may be coroutine functions."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Any:
        """React to partitions that are about to be revoked: this is the last moment to commit what was processed."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Any:
        """React to newly assigned partitions. A `seek` in this method overrides the committed offset."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Any:
        """React to partitions that other members own already, because this one was too slow or was fenced: a commit
        would be refused. Unless overridden, it calls `on_partitions_revoked`."""
        return self.on_partitions_revoked(lost)


def listening(given: Any, *, on_loop: bool) -> RebalanceListener:
    """Return the listener to call: `given`, if it has the methods of RebalanceListener, of which `on_partitions_lost`
    may be missing. With `on_loop` they may be coroutine functions. Raises TypeError."""
    if given is None:
        return RebalanceListener()
    named = "on_partitions_revoked", "on_partitions_assigned"
    if isinstance(given, type) or not all(callable(getattr(given, name, None)) for name in named):
        raise TypeError(f"a listener must be a RebalanceListener, not {type(given).__name__}: {given!r}")
    kept: RebalanceListener = given
    methods = kept.on_partitions_assigned, kept.on_partitions_revoked, when_lost(kept)
    if not on_loop and any(map(inspect.iscoroutinefunction, methods)):
        raise TypeError("methods of a KafkaConsumer's listener cannot be coroutines: odradek.aio.Consumer awaits them")
    return kept


def when_lost(listener: Any) -> Any:
    """Return the method to call when partitions are lost; other clients' listeners have none for it."""
    return getattr(listener, "on_partitions_lost", listener.on_partitions_revoked)


Records = dict[TopicPartition, list[ConsumerRecord]]


class ConsumerInterceptors:
    """Objects with `on_consume(records) -> records` and `on_commit(offsets)`, called in their order.

    What one raises is logged, and the next gets the records that this one was given. The same holds when one returns
    something other than records by partition, such as None.
    """

    def __init__(self, chain: Sequence[Any]) -> None:
        """Take the objects."""
        self._chain = chain

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_consume(self, records: Records) -> Records:
        """Return the records that the application gets, by partition. On the thread that polls."""
        for one in self._chain:
            try:
                records = {**one.on_consume(records)}
            except Exception:
                logger.exception("interceptor %s failed in on_consume", type(one).__name__)
        return {where: some for where, some in records.items() if some}

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        """Tell of a commit that has succeeded."""
        for one in self._chain:
            try:
                one.on_commit(offsets)
            except Exception:
                logger.exception("interceptor %s failed in on_commit", type(one).__name__)
