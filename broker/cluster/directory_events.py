"""Telling the controller that a log directory has failed, or may have room again: `/log_dir_event_notification`, as
long as it takes.

The controller then asks for each of our replicas by LeaderAndIsr, and the answers say which are out of reach. A failure
before the broker is registered needs no word: the controller asks anyway. Source: KafkaZkClient.propagateLogDirEvent.
"""

import asyncio
import logging

from odradek.world.clock import Clock, sleep
from odradek.zk_schema.store import NotAuthorized, Store, StoreError
from odradek.zk_schema.znodes.notifications import LOG_DIR_EVENT_PREFIX, encode_log_dir_event

log = logging.getLogger(__name__)

RETRY_MS = 500.0


class DirectoryEvents:
    """One event says that something has changed; several at once are as good as one."""

    def __init__(self, store: Store, clock: Clock, broker_id: int) -> None:
        self._store, self._clock, self._broker_id = store, clock, broker_id
        self._untold = False
        self._task: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """One of our directories has. May be called from anywhere on the loop."""
        self._untold = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell(), name="log-directory-events")

    def stop(self) -> None:
        """Harmless twice."""
        if self._task is not None:
            self._task.cancel()

    async def _tell(self) -> None:
        while self._untold:
            self._untold = False
            try:
                await self._store.until_connected()
                event = encode_log_dir_event(self._broker_id)
                path = await self._store.create(LOG_DIR_EVENT_PREFIX, event, sequential=True, parents=True)
            except NotAuthorized as error:
                log.error("the controller cannot be asked to look at our log directories: %s", error)
            except StoreError as error:
                log.warning("the controller does not look at our log directories yet: %s", error)
                self._untold = True
                await sleep(self._clock, RETRY_MS)
            else:
                log.info("asked the controller to look at our log directories: %s", path)
