"""The state-change log: one line for each change of a partition's leadership, on the logger `state.change`.

    1700000000123 controller orders-3 leader 1->2 leader_epoch 4->5 isr 1,2,3->2,3 partition_epoch 9
        controller_epoch 7 ControlledShutdown                                       (all in one line)

Time is in milliseconds since 1970, taken after ZooKeeper accepted the change and before any broker hears of it. A
leader of -1 is none; `unclean` at the end says that the leader was elected outside the ISR.
"""

import logging

from odradek.controller.elections import NO_LEADER, Leadership, is_unclean
from odradek.controller.state import ClusterState, TopicPartition
from odradek.world.clock import Clock

logger = logging.getLogger("state.change")


def leadership_changed(
    clock: Clock,
    state: ClusterState,
    partition: TopicPartition,
    before: Leadership | None,
    after: Leadership,
    why: str,
) -> None:
    """Log it; an unclean election is counted, and logged as a warning."""
    unclean = before is not None and is_unclean(before, after)
    if unclean:
        state.unclean_elections += 1
    level = logging.WARNING if unclean else logging.INFO
    if not logger.isEnabledFor(level):
        return
    logger.log(
        level,
        "%d controller %s leader %d->%d leader_epoch %d->%d isr %s->%s partition_epoch %d controller_epoch %d %s%s",
        clock.now_ms(),
        partition,
        NO_LEADER if before is None else before.leader,
        after.leader,
        -1 if before is None else before.leader_epoch,
        after.leader_epoch,
        "" if before is None else _joined(before.isr),
        _joined(after.isr),
        after.partition_epoch,
        after.controller_epoch,
        why,
        " unclean" if unclean else "",
    )


def change_failed(clock: Clock, partition: TopicPartition, why: str, reason: str) -> None:
    """A partition stays as it was."""
    logger.error("%d controller %s failed %s: %s", clock.now_ms(), partition, why, reason)


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
