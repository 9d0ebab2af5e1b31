"""Plays the stories of all subjects to a Kafka and to a broker of ours that have just been started."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from odradek.protocol.fields import Message
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.testing.beside import admin_stories, group_stories, log_stories, transaction_stories
from odradek.testing.beside.player import Difference, Play
from odradek.testing.beside.steps import Story
from odradek.testing.patience import wait_until

SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "600000",
    "group.min.session.timeout.ms": "1000",
}
"""Settings of both brokers; nothing is deleted by a chore that comes sooner to one than to the other."""
SUBJECTS: dict[str, tuple[Story, ...]] = {
    "groups": group_stories.STORIES,
    "transactions": transaction_stories.STORIES,
    "logs": log_stories.STORIES,
    "administration": admin_stories.STORIES,
}
EVERY_PLAY = 99

Ask = Callable[[Message, int], Any]
"""Puts a request to a broker, in that version, and returns the answer."""


@dataclass
class Played:
    """Result of plays: the number of answers compared, and how they differed."""

    answers: int = 0
    wanted: Counter[str] = field(default_factory=Counter)
    """How often answers differed as they should, by reason."""
    unwanted: list[Difference] = field(default_factory=list)
    seconds: float = 0.0


def prepare(ask: Ask) -> None:
    """Create the topics that stories share, and wait until a broker has coordinators and ids of producers."""
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topics = [
        CreatableTopic(name="t", num_partitions=2, replication_factor=1),
        CreatableTopic(name="compacted", num_partitions=1, replication_factor=1, configs=compacted),
    ]
    ask(CreateTopicsRequest(topics=topics, timeout_ms=5000), 5)
    for question, version in (
        (FindCoordinatorRequest(key="g", key_type=0), 2),
        (FindCoordinatorRequest(key="tx", key_type=1), 2),
        (OffsetFetchRequest(group_id="g", topics=None), 5),
        (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 1),
        (InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000), 1),
    ):
        wait_until(partial(_answers, ask, question, version), f"{type(question).__name__} is answered")


def _answers(ask: Ask, question: Message, version: int) -> bool:
    return bool(ask(question, version).error_code == 0)


def play_all(addresses: Sequence[str], stories: Iterable[Story], plays: int, prefix: str) -> Played:
    """Play stories, each at most `plays` times, from the newest versions to the oldest.

    `addresses`: Kafka's and ours. `prefix` keeps the names of several calls apart.
    """
    played, began = Played(), time.monotonic()
    for story_number, story in enumerate(stories):
        for number in range(min(plays, story.plays())):
            play = Play(addresses, story, number, f".{prefix}{story_number}.{number}")
            for difference in play.run():
                if difference.reason:
                    played.wanted[difference.reason] += 1
                else:
                    played.unwanted.append(difference)
            played.answers += len(play.sent)
    played.seconds = time.monotonic() - began
    return played
