"""Subscriptions of a group's members: which topics they consume, with which threads. No I/O.

As Kafka's TopicCount and TopicFilter: a member names its topics, or a regular expression that selects from all topics.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.client import arguments
from odradek.client.errors import ConfigError
from odradek.protocol.topic_names import INTERNAL_TOPICS
from odradek.zk_schema.znodes.consumers import BLACK_LIST, STATIC, WHITE_LIST, ConsumerRegistration


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """A regular expression for whole topic names; commas count as `|`, spaces are ignored."""

    expression: str

    @property
    def cleaned(self) -> str:
        """Return the pattern as it is registered. Raises ConfigError when it is not a regular expression, TypeError."""
        text = arguments.text(self.expression, "a topic filter").strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            arguments.regular_expression(text)
        except re.error as error:
            raise ConfigError(f"{self.expression!r} is not a regular expression: {error}") from error
        return text


class Whitelist(TopicFilter):
    """All topics that match."""


class Blacklist(TopicFilter):
    """All topics that do not match."""


def thread_id(consumer_id: str, number: int) -> str:
    """Return the id of a consumer thread, as in owner znodes."""
    return f"{consumer_id}-{number}"


def consumer_of(thread: str) -> str:
    """Return the member that a thread belongs to."""
    return thread.rpartition("-")[0]


def thread_number(thread: str) -> int:
    """Return the number of a thread within its member."""
    return int(thread.rpartition("-")[2])


def consumer_id_of(group_id: str, host: str, now_ms: int, random_bits: int) -> str:
    """Make an id `group_host-milliseconds-uuid`, with 32 random bits (ZookeeperConsumerConnector.consumerIdString)."""
    return f"{group_id}_{host}-{now_ms}-{random_bits:08x}"


def is_pattern(registration: ConsumerRegistration) -> bool:
    """Tell whether a member consumes all topics that match a pattern."""
    return registration.pattern != STATIC and bool(registration.subscription)


def topics_of(registration: ConsumerRegistration, existing: Iterable[str], *, exclude_internal: bool) -> dict[str, int]:
    """Return the number of threads by topic. Raises re.error for an invalid pattern."""
    if not is_pattern(registration):
        return dict(registration.subscription)
    assert registration.pattern in (WHITE_LIST, BLACK_LIST), registration.pattern
    expression, threads = next(iter(registration.subscription.items()))
    pattern = arguments.regular_expression(expression)
    wanted = registration.pattern == WHITE_LIST
    return {
        topic: threads
        for topic in existing
        if (pattern.fullmatch(topic) is not None) == wanted and not (exclude_internal and topic in INTERNAL_TOPICS)
    }


def threads_by_topic(
    members: Mapping[str, ConsumerRegistration], existing: Iterable[str], *, exclude_internal: bool
) -> dict[str, list[str]]:
    """Return the threads that consume each topic, sorted as text, as Kafka's ConsumerThreadId is."""
    topics = list(existing)
    found: dict[str, list[str]] = {}
    for consumer_id, registration in members.items():
        for topic, threads in topics_of(registration, topics, exclude_internal=exclude_internal).items():
            found.setdefault(topic, []).extend(thread_id(consumer_id, number) for number in range(threads))
    return {topic: sorted(threads) for topic, threads in sorted(found.items())}
