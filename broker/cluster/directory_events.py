"""Notification of the controller that a log directory has failed, or may have room again, by the znodes below
`/log_dir_event_notification`; it is repeated until it succeeds.

The controller then asks for each of our replicas by LeaderAndIsr, and the answers say which are out of reach. A failure
before the broker is registered needs no word: the controller asks anyway. Source: KafkaZkClient.propagateLogDirEvent.
"""

import asyncio
import logging

from odradek.world.clock import Clock, sleep
from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.store import NotAuthorized, Store, StoreError
from odradek.zk_schema.znodes.notifications import LOG_DIR_EVENT_PREFIX, encode_log_dir_event

log = logging.getLogger(__name__)

RETRY_MS = 500.0


class DirectoryEvents:
    """Tells of changes in the log directories; several at once are told as one."""

    def __init__(self, store: Store, clock: Clock, tasks: Tasks, broker_id: int) -> None:
        self._store, self._clock, self._tasks, self._broker_id = store, clock, tasks, broker_id
        self._changes = self._told = 0
        """Number of changes so far, and of those that the controller has been told."""
        self._task: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Tell of a change, as soon as ZooKeeper can be reached. May be called from anywhere on the loop."""
        self._changes += 1
        if self._task is None or self._task.done():
            self._task = self._tasks.spawn("log directory events", self._tell, OnDeath.RESTART)

    async def _tell(self) -> None:
        while self._told < self._changes:
            changes = self._changes
            try:
                await self._store.until_connected()
                event = encode_log_dir_event(self._broker_id)
                path = await self._store.create(LOG_DIR_EVENT_PREFIX, event, sequential=True, parents=True)
            except NotAuthorized as error:
                self._told = changes
                log.error("the controller cannot be asked to look at our log directories: %s", error)
            except StoreError as error:
                log.warning("the controller cannot be asked yet to look at our log directories: %s; retrying", error)
                await sleep(self._clock, RETRY_MS)
            else:
                self._told = changes
                log.info("asked the controller to look at our log directories: %s", path)
