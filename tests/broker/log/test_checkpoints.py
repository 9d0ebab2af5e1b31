"""Checkpoints of many logs: collected in slices of the loop's time, and never claiming more than is true."""

import asyncio
from collections.abc import Iterator

from odradek.broker.log.checkpoint_format import RECOVERY_POINTS, decode_offsets
from odradek.broker.log.directories.checkpoint_files import CheckpointFiles
from odradek.broker.log.log_environment import Claims, LogEnvironment
from odradek.protocol.primitives import TopicPartition
from odradek.testing.log_environments import make_environment
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import ThreadBackground
from odradek.world.clock import LoopClock
from odradek.world.time_slices import SLICE_MS

PATH = f"/data/{RECOVERY_POINTS}"


class Slow:
    """Offsets of four partitions, each of which takes half a slice to find out."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.environment: LogEnvironment = make_environment(clock=self.clock)
        self.files = CheckpointFiles(self.environment, "/data", lambda: False)
        self.points = {("t", partition): 100 + partition for partition in range(4)}

    def entries(self) -> Iterator[tuple[TopicPartition, int]]:
        for key in list(self.points):
            self.clock.stall(SLICE_MS / 2)
            yield key, self.points[key]

    def written(self) -> dict[TopicPartition, int] | None:
        return decode_offsets(self.environment.files.read(PATH)) if self.environment.files.exists(PATH) else None


def test_a_checkpoint_of_many_partitions_gives_the_loop_back() -> None:
    slow = Slow()
    slow.files.write(RECOVERY_POINTS, slow.entries)
    assert slow.written() is None, "two of the four were found out in the first slice"
    slow.clock.advance(10 * SLICE_MS)
    assert slow.written() == slow.points


def test_what_is_being_collected_counts_as_claimed_already() -> None:
    slow = Slow()
    slow.files.write(RECOVERY_POINTS, slow.entries)
    assert slow.files.claim_more_than(Claims("t", 0, 50, 0, 0)), "it was found out before the log was truncated"
    assert not slow.files.claim_more_than(Claims("t", 3, 50, 0, 0)), "its turn is yet to come"
    slow.points["t", 0] = slow.points["t", 3] = 50
    slow.files.write_now({RECOVERY_POINTS: dict(slow.points)})
    slow.clock.advance(10 * SLICE_MS)
    assert slow.written() == slow.points, "what was begun earlier does not replace it"
    assert not slow.files.claim_more_than(Claims("t", 0, 50, 0, 0))


def test_the_end_does_not_wait_for_turns_of_the_loop() -> None:
    slow = Slow()
    slow.files.write(RECOVERY_POINTS, slow.entries)
    slow.files.finish_collecting()
    assert slow.written() == slow.points
    slow.clock.advance(10 * SLICE_MS)
    assert slow.written() == slow.points


def test_a_background_that_is_closed_says_that_it_takes_nothing() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        background = ThreadBackground(loop)
        background.close()
        environment = make_environment(clock=LoopClock(loop))
        environment.background = background
        files = CheckpointFiles(environment, "/data", lambda: False)
        files.write(RECOVERY_POINTS, lambda: [(("t", 0), 1)])
        assert not files._being_written and not environment.files.exists(PATH)

    asyncio.run(main())
