"""A follower whose log has no leader epochs, as all of an older Kafka: what is not replicated for certain goes."""

import pytest

from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.testing.log_environments import make_batch, make_environment, open_test_log
from odradek.testing.old_segments import golden_bytes, stored


def follower(high_watermark: int, *tail: bytes | bytearray) -> Partition:
    log = open_test_log(make_environment())
    log.append_as_follower(golden_bytes("v1-0"))
    for batch in tail:
        log.append_as_follower(batch)
    partition = Partition("topic", 0, 1, log, high_watermark)
    partition.follow(PartitionView(leader=0, leader_epoch=3, isr=(0,), partition_epoch=1, replicas=(0, 1)))
    return partition


@pytest.mark.parametrize(("high_watermark", "left"), [(65, 65), (62, 62), (55, 50), (20, 20), (0, 0)])
def test_it_keeps_what_is_below_the_high_watermark(high_watermark: int, left: int) -> None:
    """Of a compressed message all or nothing."""
    partition = follower(high_watermark)
    partition.drop_unconfirmed()
    assert partition.log.log_end_offset == left == len(stored(partition.log))
    assert partition.high_watermark == left


def test_with_epochs_it_keeps_all_and_asks() -> None:
    partition = follower(20, make_batch((b"new",), base_offset=65, epoch=2))
    partition.drop_unconfirmed()
    assert partition.log.log_end_offset == 66 and partition.high_watermark == 20


def test_a_leader_begins_its_epoch_behind_them() -> None:
    partition = follower(20)
    partition.lead(PartitionView(leader=1, leader_epoch=4, isr=(1,), partition_epoch=2, replicas=(1,)), 0.0)
    assert partition.log.epochs.entries() == [(4, 65)] and partition.high_watermark == 65
