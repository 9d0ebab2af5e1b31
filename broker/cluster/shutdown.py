"""Controlled shutdown, the broker's side: ask the controller to move our leaders first (KIP-237)."""

import logging
from typing import Protocol

from odradek.broker.cluster.broker_client import BrokerClient, BrokerClients
from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.cluster.peer import BrokerUnreachable
from odradek.broker.cluster.session import Identity
from odradek.broker.config import BrokerConfig
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from odradek.world.clock import Clock, sleep

log = logging.getLogger(__name__)

VERSION = 3
NO_CONTROLLER_BACKOFF_MS = 100.0


class Leaving(Protocol):
    """The broker that is shutting down."""

    identity: Identity
    config: BrokerConfig
    clock: Clock
    metadata: MetadataCache


async def move_leaders_away(broker: Leaving, clients: BrokerClients) -> bool:
    """Ask the controller until no leader is left here that could be elsewhere; tell whether that was reached.

    Tries `controlled.shutdown.max.retries` times, `controlled.shutdown.retry.backoff.ms` apart. Where no other broker
    lives there is nobody to take over, and nothing to wait for.
    """
    config = broker.config
    client = clients(f"controlled-shutdown-{broker.identity.broker_id}")
    try:
        for attempt in range(config.controlled_shutdown_max_retries + 1):
            if attempt:
                await sleep(broker.clock, _backoff_ms(broker, config))
            if not any(other != broker.identity.broker_id for other in broker.metadata.brokers):
                log.info("no other broker is alive: shutting down without moving leaders")
                return False
            left = await _ask(broker, client)
            if left == 0:
                log.info("controlled shutdown: all leaders have moved")
                return True
            outcome = "no answer" if left is None else f"{left} left"
            log.info("controlled shutdown, attempt %d: %s", attempt + 1, outcome)
        return False
    finally:
        client.close()


def _backoff_ms(broker: Leaving, config: BrokerConfig) -> float:
    known = broker.metadata.node(broker.metadata.controller_id, config.inter_broker_listener_name)
    return config.controlled_shutdown_retry_backoff_ms if known is not None else NO_CONTROLLER_BACKOFF_MS


async def _ask(broker: Leaving, client: BrokerClient) -> int | None:
    """Ask the controller to move our leaders; return how many partitions are left, None without an answer."""
    identity = broker.identity
    request = ControlledShutdownRequest(broker_id=identity.broker_id, broker_epoch=identity.broker_epoch)
    try:
        response = await client.to_controller(request, VERSION, broker.config.controller_socket_timeout_ms)
    except BrokerUnreachable as error:
        log.info("the controller, broker %d, cannot be reached: %s", broker.metadata.controller_id, error)
        return None
    assert isinstance(response, ControlledShutdownResponse)
    if response.error_code != ErrorCode.NONE:
        log.info("the controller answers %s", error_code(response.error_code).name)
        return None
    return len(response.remaining_partitions)
