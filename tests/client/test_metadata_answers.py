"""What a client makes of a broker's answer about topics, also of one that cannot be right."""

import pytest

from odradek.client.metadata import ClusterView, updated
from odradek.client.records import TopicPartition
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


def answer(*leaders: tuple[int, int]) -> MetadataResponse:
    """An answer about one topic: its partitions' numbers and their leaders."""
    partitions = [
        MetadataResponsePartition(partition_index=number, leader_id=leader, leader_epoch=5)
        for number, leader in leaders
    ]
    return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])


@pytest.mark.parametrize(
    ("leaders", "known"),
    [
        ([(1, 11), (0, 10)], [10, 11]),
        ([(0, 10), (2, 12)], [10]),
        ([(8192, 10)], []),
        ([(-1, 9), (0, 10)], [10]),
        ([(-(2**31), 9)], []),
        ([(0, 9), (0, 10), (1, 11)], [10, 11]),
    ],
)
def test_partitions_are_known_by_their_numbers(leaders: list[tuple[int, int]], known: list[int]) -> None:
    """They were known by their places in the answer: records for one went to another's leader, or nowhere for as long
    as metadata are not asked for again; and a number below zero was an IndexError."""
    for before in (ClusterView(), updated(ClusterView(), answer((0, 1)))):
        view = updated(before, answer(*leaders))
        assert view.partition_count("t") == len(known)
        found = [view.partition(TopicPartition("t", number)) for number in range(len(known))]
        assert [one and (one.partition, one.leader) for one in found] == list(enumerate(known))


def test_a_broker_that_knows_no_topic_ids_does_not_take_a_client_back_to_an_older_leader() -> None:
    """Its topic counted as another one of the same name, whose leader epochs begin anew."""

    def leader(topic_id: bytes, leader_epoch: int, leader_id: int) -> MetadataResponse:
        one = MetadataResponsePartition(partition_index=0, leader_id=leader_id, leader_epoch=leader_epoch)
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[one])])

    def leader_of(view: ClusterView) -> int | None:
        found = view.partition(TopicPartition("t", 0))
        return found and found.leader

    view = updated(ClusterView(), leader(b"1" * 16, 5, 1))
    view = updated(view, leader(bytes(16), 4, 2))
    assert leader_of(view) == 1
    view = updated(view, leader(b"1" * 16, 4, 2))
    assert leader_of(view) == 1
    assert leader_of(updated(view, leader(b"2" * 16, 0, 3))) == 3
