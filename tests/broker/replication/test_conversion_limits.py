"""A conversion keeps the broker's loop busy, and so it has an end."""

from odradek.broker.replication.conversion import CONVERSION_MS_MAX, as_batches, as_messages
from odradek.broker.replication.partition import Partition, PartitionView
from odradek.protocol.record_batch import entries
from odradek.testing.log_environments import make_environment, open_test_log
from odradek.testing.old_segments import golden_bytes
from odradek.testing.virtual_clock import ManualClock


class SlowMachine(ManualClock):
    """Each look at the clock finds it later."""

    def monotonic_ms(self) -> float:
        self.advance(CONVERSION_MS_MAX / 2.9)
        return super().monotonic_ms()


def test_it_ends_when_it_takes_too_long() -> None:
    found = []
    for clock in (ManualClock(), SlowMachine()):
        log = open_test_log(make_environment(clock=clock))
        log.append_as_follower(golden_bytes("v1-0"))
        partition = Partition("topic", 0, 0, log, 65)
        partition.lead(PartitionView(leader=0, leader_epoch=0, isr=(0,), partition_epoch=0, replicas=(0,)), 0.0)
        for offset in (0, 20):
            records = partition.read(offset, 1 << 20, to_the_end=False, whole_first_batch=True)
            batches = as_batches(partition, records)
            assert isinstance(batches, bytes)
            messages = as_messages(partition, records, offset, 1 << 20, 0, to_the_end=False)
            found.append((len(list(entries(batches))), len(list(entries(messages)))))
    assert found == [(7, 20), (5, 9), (3, 3), (3, 3)], "ten messages, or a compressed one, are a batch"
