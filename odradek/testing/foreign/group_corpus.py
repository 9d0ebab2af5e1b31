"""Groups that are handed on: a member that stays, and offsets committed so often that they are compacted."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, TopicPartition

from odradek.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.foreign.seen import STARTING, committed_offsets
from odradek.testing.load import ask_again
from odradek.testing.patience import PATIENCE_SECONDS

READERS, STAYING = "readers", "staying"
COMMITS = 25
LASTING_MS = 1_200_000


@dataclass(frozen=True)
class SeenGroup:
    """Offsets are (offset, leader epoch, metadata) by topic; members have all that Kafka keeps of them."""

    offsets: tuple[tuple[str, tuple[int, int, str | None]], ...]
    state: str
    protocol: tuple[str, str]
    members: tuple[tuple[str, str | None, str, str, bytes, bytes], ...]


def commit_often(address: str, offsets: Mapping[str, int]) -> None:
    """The last commit is what counts."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": READERS, "log_level": 2})
    for back in range(COMMITS, -1, -1):
        wanted = [TopicPartition(topic, 0, offset - back, metadata=f"-{back}") for topic, offset in offsets.items()]
        ask_again(partial(consumer.commit, offsets=wanted, asynchronous=False))
    consumer.close()


def join_for_long(address: str, topic: str) -> None:
    """A static member, which stays in its group when it closes."""
    settings = {"group.id": STAYING, "group.instance.id": "one", "session.timeout.ms": LASTING_MS, "log_level": 2}
    more = {"max.poll.interval.ms": LASTING_MS, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": address, **settings, **more})
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not consumer.assignment():
        assert time.monotonic() < deadline, "no assignment"
        consumer.poll(0.05)
    offsets = [TopicPartition(topic, 0, 5, metadata="five")]
    ask_again(lambda: consumer.commit(offsets=offsets, asynchronous=False))
    consumer.close()


def see_group(address: str, group: str) -> SeenGroup:
    """Return what a group's coordinator tells of it, as soon as it has loaded it."""
    offsets = committed_offsets(address, group)
    told = _describe(address, group)
    assert not told.error_code, told
    members = sorted(
        (
            one.member_id,
            one.group_instance_id,
            one.client_id,
            one.client_host,
            one.member_metadata,
            one.member_assignment,
        )
        for one in told.members
    )
    protocol = (told.protocol_type, told.protocol_data)
    return SeenGroup(tuple(sorted(offsets.items())), told.group_state, protocol, tuple(members))


def _describe(address: str, group: str) -> DescribedGroup:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with RawConnection(address) as connection:
            told: DescribedGroup = connection.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0]
        if told.error_code not in STARTING:
            return told
        assert time.monotonic() < deadline, told
        time.sleep(0.03)
