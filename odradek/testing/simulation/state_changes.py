"""Rules for the states of a partition that ZooKeeper takes one after another, whoever wrote them."""

from odradek.zk_schema.znodes.topics import LEADER_RECOVERING, PartitionState


def broken_rule(
    before: PartitionState, after: PartitionState, controller_epoch: int, *, unclean: bool = False
) -> str | None:
    """Return which rule a state breaks that follows upon another; None when it breaks none.

    `controller_epoch` is what `/controller_epoch` says in that moment. A deposed controller writes nothing; the leader
    epoch never falls, and has one leader; nobody enters the ISR by an election. Unless the topic allows `unclean` ones:
    then one leads who was not in the ISR, alone, and only then it is written that the partition is to recover.
    """
    if after.controller_epoch != controller_epoch:
        return f"written in controller epoch {after.controller_epoch}, the present one is {controller_epoch}"
    if after.leader_epoch < before.leader_epoch:
        return f"the leader epoch falls from {before.leader_epoch}"
    if after.leader_epoch == before.leader_epoch:
        return f"the leader was {before.leader} in the same epoch" if after.leader != before.leader else None
    recovers = before.leader_recovery_state != LEADER_RECOVERING == after.leader_recovery_state
    if recovers and after.leader in before.isr:
        return f"to recover, though {after.leader} was in the ISR, which was {list(before.isr)}"
    strangers = set(after.isr) - set(before.isr)
    if strangers and not (unclean and is_unclean(before, after)):
        return f"elected with {sorted(strangers)} in the ISR, which was {list(before.isr)}"
    return None


def is_unclean(before: PartitionState, after: PartitionState) -> bool:
    """Tell whether a state is that of an election from outside of the ISR, as it has to be."""
    alone = after.isr == (after.leader,) and after.leader_recovery_state == LEADER_RECOVERING
    return alone and after.leader not in before.isr
