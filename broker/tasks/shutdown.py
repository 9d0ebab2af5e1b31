"""Controlled shutdown, the broker's side: ask the controller to move our leaders first (C8, KIP-237)."""

import asyncio
import logging

from odradek.broker.config import BrokerConfig
from odradek.broker.replication.fetcher_manager import PeerFactory
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from odradek.world.clock import Clock

log = logging.getLogger(__name__)

VERSION = 3
NO_CONTROLLER_BACKOFF_MS = 100.0


async def move_leaders_away(broker: Services, connect: PeerFactory) -> bool:
    """Ask until no partition is left that another broker could lead; whether that was reached.

    Tries `controlled.shutdown.max.retries` times, `controlled.shutdown.retry.backoff.ms` apart. Where no other broker
    lives there is nobody to take over, and nothing to wait for.
    """
    config = broker.config
    for attempt in range(config.controlled_shutdown_max_retries + 1):
        if attempt:
            await sleep(broker.clock, _backoff_ms(broker, config))
        if not any(other != broker.identity.broker_id for other in broker.metadata.brokers):
            log.info("no other broker lives: shutting down with the leaders where they are")
            return False
        left = await _ask(broker, connect)
        if left == 0:
            log.info("controlled shutdown: all leaders have moved")
            return True
        log.info("controlled shutdown, attempt %d: %s", attempt + 1, "no answer" if left is None else f"{left} left")
    return False


def _backoff_ms(broker: Services, config: BrokerConfig) -> float:
    known = broker.metadata.node(broker.metadata.controller_id, config.inter_broker_listener_name)
    return config.controlled_shutdown_retry_backoff_ms if known is not None else NO_CONTROLLER_BACKOFF_MS


async def _ask(broker: Services, connect: PeerFactory) -> int | None:
    """How many partitions are left; None when no controller has answered."""
    config, identity = broker.config, broker.identity
    node = broker.metadata.node(broker.metadata.controller_id, config.inter_broker_listener_name)
    if node is None:
        return None
    peer = connect(node, f"controlled-shutdown-{identity.broker_id}")
    try:
        response = await peer.request(
            ControlledShutdownRequest(broker_id=identity.broker_id, broker_epoch=identity.broker_epoch),
            VERSION,
            config.controller_socket_timeout_ms,
        )
    except (OSError, TimeoutError) as error:
        log.info("the controller, broker %d, cannot be reached: %s", node.id, error)
        return None
    finally:
        peer.close()
    assert isinstance(response, ControlledShutdownResponse)
    if response.error_code != ErrorCode.NONE:
        log.info("the controller answers %s", ErrorCode(response.error_code).name)
        return None
    return len(response.remaining_partitions)


async def sleep(clock: Clock, delay_ms: float) -> None:
    """As asyncio.sleep, on the clock that was passed in."""
    over = asyncio.Event()
    timer = clock.call_later(delay_ms, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()
