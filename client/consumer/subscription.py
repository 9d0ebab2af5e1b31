"""What the application wants to read: nothing, topics, a pattern of topics, or partitions of its own choice. Pure.

Topics and patterns are shared with the group; partitions are not. One does not become the other by itself: the
application unsubscribes in between, as in Java's SubscriptionState.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from odradek.client.errors import ConfigError
from odradek.client.metadata import INTERNAL_TOPICS, ClusterView


class Kind(Enum):
    """The forms it has; the value says how a consumer comes to it."""

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
    """Never changed, only replaced: any thread may read it."""

    kind: Kind = Kind.NOTHING
    topics: frozenset[str] = frozenset()
    """The topics that are asked for; with a pattern none."""
    pattern: re.Pattern[str] | None = None

    def followed_by(self, following: "Subscription") -> "Subscription":
        """The new one. Raises ConfigError where the application must unsubscribe first."""
        if self.kind not in VALID_PREVIOUS[following.kind]:
            raise ConfigError(f"the consumer is {self.kind.value}: unsubscribe before it can be {following.kind.value}")
        return following

    @property
    def shared(self) -> bool:
        """Tell whether the group decides which partitions are read."""
        return self.kind in (Kind.TOPICS, Kind.PATTERN)

    def matching(self, view: ClusterView, *, exclude_internal: bool) -> list[str]:
        """The topics that a pattern means, sorted: those whose whole name matches."""
        assert self.pattern is not None, self.kind
        return sorted(
            name
            for name, info in view.topics.items()
            if self.pattern.fullmatch(name) and not (exclude_internal and (info.internal or name in INTERNAL_TOPICS))
        )


NOTHING = Subscription()


def to_topics(topics: Collection[str]) -> Subscription:
    """These."""
    return Subscription(Kind.TOPICS, frozenset(topics))


def to_pattern(pattern: str | re.Pattern[str]) -> Subscription:
    """All whose whole name matches, also those that come later. Raises ConfigError for what is no pattern."""
    try:
        return Subscription(Kind.PATTERN, pattern=re.compile(pattern))
    except re.error as error:
        raise ConfigError(f"{pattern!r} is not a regular expression: {error}") from error


def to_partitions(topics: Collection[str]) -> Subscription:
    """Some partitions of these topics; of none means nothing."""
    return Subscription(Kind.PARTITIONS, frozenset(topics)) if topics else NOTHING
