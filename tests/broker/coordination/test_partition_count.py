"""How many partitions a coordinator's topic has: for a broker's life as many as it had first."""

import pytest

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.coordination.partition_count import PartitionCount
from odradek.protocol.messages.update_metadata import UpdateMetadataPartitionState
from odradek.protocol.topic_names import CONSUMER_OFFSETS

SETTING = 5


def know(metadata: MetadataCache, partitions: int) -> None:
    metadata.topics[CONSUMER_OFFSETS] = {index: UpdateMetadataPartitionState() for index in range(partitions)}


@pytest.mark.parametrize("first", [SETTING, SETTING + 1])
def test_partitions_that_are_added_later_move_no_group(first: int) -> None:
    metadata = MetadataCache()
    count = PartitionCount(CONSUMER_OFFSETS, metadata, SETTING)
    assert count() == SETTING, "what it will be created with"
    know(metadata, first)
    assert count() == first
    know(metadata, first + 3)
    assert count() == first


def test_metadata_that_knows_fewer_than_are_created_may_not_know_all_yet() -> None:
    metadata = MetadataCache()
    count = PartitionCount(CONSUMER_OFFSETS, metadata, SETTING)
    know(metadata, SETTING - 1)
    assert count() == SETTING - 1
    know(metadata, SETTING)
    assert count() == SETTING
