"""Common parts of the handlers of administrative requests; waiting until this broker knows their result."""

import asyncio
from collections.abc import Callable, Mapping

from odradek.broker.network.outcomes import RequestContext
from odradek.broker.quotas.client_quotas import MutationQuota
from odradek.broker.services import Services
from odradek.controller.topic_admin import Defaults
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.zk_schema.znodes.topics import NO_LEADER


def defaults(broker: Services) -> Defaults:
    return Defaults(broker.config.num_partitions, broker.config.default_replication_factor)


def racks(broker: Services) -> Mapping[int, str | None]:
    """Return the live brokers: on the controller as it sees them, elsewhere as it was told."""
    state = broker.controller.state
    if state is not None:
        return {broker_id: state.brokers[broker_id].registration.rack for broker_id in sorted(state.live_broker_ids)}
    return {broker_id: live.rack for broker_id, live in sorted(broker.metadata.brokers.items())}


def require_controller(broker: Services) -> None:
    """Check that this broker is the active controller. Raises KafkaError(NOT_CONTROLLER)."""
    if not broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")


def mutation_quota(broker: Services, context: RequestContext, first_strict_version: int) -> MutationQuota | None:
    """Return the client's quota on what it creates and deletes (KIP-599). From `first_strict_version` on it refuses
    what is too much; before that the client only has to wait."""
    strict = context.api_version >= first_strict_version
    return broker.quotas.mutations(context.principal.name, context.client_id, strict=strict)


def charge(quota: MutationQuota | None, partitions: int) -> None:
    """Count partitions that are about to change. Raises KafkaError THROTTLING_QUOTA_EXCEEDED."""
    if quota is not None and not quota.take(partitions):
        raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


async def until_metadata(broker: Services, satisfied: Callable[[], bool], timeout_ms: float) -> bool:
    """Wait until `satisfied`, which looks at this broker's metadata, is true; return False after `timeout_ms`."""
    decided: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def look() -> None:
        if not decided.done() and satisfied():
            decided.set_result(True)

    def give_up() -> None:
        if not decided.done():
            decided.set_result(False)

    look()
    if timeout_ms <= 0:
        give_up()
    timer = broker.clock.call_later(timeout_ms, give_up)
    broker.metadata.subscribe(look)
    try:
        return await decided
    finally:
        timer.cancel()
        broker.metadata.unsubscribe(look)


def has_leaders(broker: Services, topic: str, partitions: int) -> bool:
    """Tell whether this broker knows a leader for each of the first `partitions` partitions."""
    states = (broker.metadata.partition(topic, index) for index in range(partitions))
    return all(state is not None and state.leader != NO_LEADER for state in states)


async def not_led_in_time(broker: Services, topics: Mapping[str, int], timeout_ms: float) -> list[str]:
    """Wait until this broker knows leaders of each topic's partitions, of which `topics` has the number.

    Returns the topics without all of their leaders when `timeout_ms` is over.
    """
    if not topics or await until_metadata(
        broker, lambda: all(has_leaders(broker, *one) for one in topics.items()), timeout_ms
    ):
        return []
    return [topic for topic, partitions in topics.items() if not has_leaders(broker, topic, partitions)]
