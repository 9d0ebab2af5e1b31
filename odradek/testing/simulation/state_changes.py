"""Rules for the states of a partition that ZooKeeper takes one after another, whoever wrote them."""

from odradek.zk_schema.znodes.topics import PartitionState


def broken_rule(before: PartitionState, after: PartitionState, controller_epoch: int) -> str | None:
    """Return which rule a state breaks that follows upon another; None when it breaks none.

    `controller_epoch` is what `/controller_epoch` says in that moment. A deposed controller writes nothing; the leader
    epoch never falls, and has one leader; nobody enters the ISR by an election, for nobody has allowed unclean ones.
    """
    if after.controller_epoch != controller_epoch:
        return f"written in controller epoch {after.controller_epoch}, the present one is {controller_epoch}"
    if after.leader_epoch < before.leader_epoch:
        return f"the leader epoch falls from {before.leader_epoch}"
    if after.leader_epoch == before.leader_epoch:
        return f"the leader was {before.leader} in the same epoch" if after.leader != before.leader else None
    strangers = set(after.isr) - set(before.isr)
    if strangers:
        return f"elected with {sorted(strangers)} in the ISR, which was {list(before.isr)}"
    return None
