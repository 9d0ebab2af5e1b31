"""Readiness of a broker: whether another one may be taken away now (`/ready`), told apart from being alive (`/live`).

A rolling restart that waits for `/ready` never has two replicas of a partition out of the ISR at once.
"""

from odradek.broker.services import Services
from odradek.world.clock import Clock
from odradek.world.time_slices import TimeSlice

PARTITIONS_PER_LOOK = 100
"""After so many the clock is looked at."""
PARTITIONS_NAMED = 5


async def reason_not_ready(services: Services, clock: Clock) -> str:
    """Return in a few words why the broker is not ready, "" when it is.

    It is when it is registered, when controllers have told it of every log that it holds, and when it is in the ISR of
    each partition that is assigned to it.
    """
    own, metadata = services.identity.broker_id, services.metadata
    if services.identity.session_over or not metadata.is_alive(own):
        return "not registered"
    turn = TimeSlice(clock)
    untold, outside = [], []
    for number, log in enumerate(services.logs.all_logs()):
        if metadata.partition(log.topic, log.partition) is None and not metadata.is_deleted(log.topic, log.partition):
            untold.append(f"{log.topic}-{log.partition}")
        if not number % PARTITIONS_PER_LOOK:
            await turn.pause_if_over()
    if untold:
        return f"not told yet who leads {_some(untold)}"
    for topic in list(metadata.topics):
        for index, state in list(metadata.topics.get(topic, {}).items()):
            if own in state.replicas and own not in state.isr:
                outside.append(f"{topic}-{index}")
        await turn.pause_if_over()
    return f"not in the ISR of {_some(outside)}" if outside else ""


def _some(partitions: list[str]) -> str:
    named = ", ".join(partitions[:PARTITIONS_NAMED])
    left = len(partitions) - PARTITIONS_NAMED
    return f"{named} and {left} more" if left > 0 else named
