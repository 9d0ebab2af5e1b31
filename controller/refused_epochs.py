"""What the controller does when brokers have obeyed, or states of partitions name, a later epoch than its own."""

import logging

from odradek.controller.active_controller import ActiveController
from odradek.controller.controller_election import RAISED_EPOCH_MAX
from odradek.controller.controller_store import ControllerMoved
from odradek.protocol.errors import ErrorCode
from odradek.zk_schema.store import ANY_VERSION, ConnectionLost, Delete, MultiFailed, SetData
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH, encode_controller_epoch

log = logging.getLogger(__name__)

RAISED_AT_ONCE = 16
"""Factor by which a refused epoch is raised: eight elections reach every epoch up to RAISED_EPOCH_MAX."""


async def leave_refused_epoch(active: ActiveController, broker: int | None = None) -> None:
    """Resign, and have the next controller elected in a later epoch, since brokers or partitions know a later one.

    Either another controller was elected, and this one has not heard of it: then the write here fails. Or
    `/controller_epoch` went back, because it was deleted or ZooKeeper was restored: then nobody would be obeyed, or
    could write those states (Kafka's brokers obey nobody until they are restarted). By how much it went back is not
    known, so it is raised in large steps until it is enough. Raises ControllerMoved, unless no later epoch is left,
    which is logged once for each `broker` that refuses this one.
    """
    present = active.state.controller_epoch
    raised = min(max(RAISED_AT_ONCE * present, latest_epoch_written(active)), RAISED_EPOCH_MAX)
    if raised <= present:
        if broker is None:
            log.error("states of partitions name later controllers than epoch %d, and cannot be changed", present)
        elif active.is_new_refusal(broker, ErrorCode.STALE_CONTROLLER_EPOCH):
            log.error(
                "broker %d has obeyed a later controller than epoch %d, and takes no request of this one until it is "
                "restarted: restart it", broker, present,
            )  # fmt: skip
        return
    later = SetData(CONTROLLER_EPOCH_PATH, encode_controller_epoch(raised), ANY_VERSION)
    try:
        await active.store.write([later, Delete(CONTROLLER_PATH)])
    except (ConnectionLost, MultiFailed) as error:  # whoever looks next sees what has become of it
        raise ControllerMoved(f"a later controller has been obeyed than that of epoch {present}: {error}") from error
    noted = {"change": "epoch_raised", "former_epoch": present, "epoch": raised}
    active.journal.note("controller", str(active.state.controller_id), **noted)
    log.warning("/controller_epoch went back to %d, a later one has been obeyed: it is %d now", present, raised)
    raise ControllerMoved(f"a later controller has been obeyed than that of epoch {present}")


def latest_epoch_written(active: ActiveController) -> int:
    """Return the latest controller epoch that a partition's state names; 0 without partitions."""
    return max((known.controller_epoch for known in active.state.leader_and_isr.values()), default=0)
