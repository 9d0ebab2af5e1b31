"""The consumer on a loop: keeps partitions located and fetched ahead, the metadata fresh, and the group informed of it.

What is shared with the application's thread is in `shared`; everything else is the loop's alone.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.fetcher import Fetcher
from odradek.client.consumer.fetching import without_leader
from odradek.client.consumer.group import GroupDriver
from odradek.client.consumer.locating import Locator
from odradek.client.consumer.shared import Shared
from odradek.client.consumer.subscription import NOTHING, Kind, Subscription
from odradek.client.errors import BrokerUnreachable
from odradek.client.wakeup import WakeUp

logger = logging.getLogger(__name__)


class ConsumerEngine:
    """One consumer's loop side. `run` until `stop`."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.shared = Shared()
        self.group: GroupDriver | None = None
        self.subscription: Subscription = NOTHING
        self._fetcher = Fetcher(cluster, settings, self.shared)
        self._locator = Locator(cluster, settings, self.shared)
        self._woken = WakeUp(cluster.clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        cluster.allow_auto_create = settings.allow_auto_create_topics
        cluster.refreshed = self._metadata_refreshed

    # -- the loop ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something has changed. On the loop's thread."""
        self._woken.set()

    async def run(self) -> None:
        """Look what is to do, do it, wait; until `stop`."""
        while not self._stopped:
            self._woken.clear()
            await self._woken.wait_until(self._round())

    def stop(self) -> None:
        """End `run` and all that is under way."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        self.wake()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run something beside the loop; what it raises is for the application."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.shared.fail(error)
        self.wake()

    def _round(self) -> float:
        """Start whatever is due; when to look again."""
        now_ms = self.cluster.clock.monotonic_ms()
        with self.shared.lock:
            calls = self._fetcher.due(now_ms)
            unlocated = self._locator.due(now_ms)
            leaderless = without_leader(self.shared.positions, self.cluster.view)
            next_retry_ms = self.shared.positions.next_retry_ms(now_ms)
        for call in calls:
            self.spawn(self._fetcher.fetch(call))
        if unlocated:
            self.spawn(self._locator.locate(unlocated))
        if leaderless:
            self.cluster.needs.stale()
        return min(next_retry_ms, self.cluster.refresh_when_due())

    def deadline(self, what: str) -> Deadline:
        """default.api.timeout.ms from now."""
        return Deadline(self.cluster, self.settings.default_api_timeout_ms, what, "default.api.timeout.ms")

    # -- what is to be read --------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Read something else from now on; the caller has checked that it may. On the loop's thread."""
        self.subscription = subscription
        self.cluster.needs.all_topics = subscription.kind is Kind.PATTERN
        self.want_topics()
        if self.group is not None:
            if subscription.kind is Kind.TOPICS:
                self.group.membership.subscribe(subscription.topics)
            self.group.wake()
        self.wake()

    def want_topics(self) -> None:
        """Ask for the metadata of all topics that matter now. On the loop's thread."""
        if self.subscription.kind is Kind.PATTERN:
            self.cluster.needs.stale()
            return
        topics = set(self.subscription.topics)
        if self.group is not None:
            topics |= self.group.membership.watched_topics
        with self.shared.lock:
            topics |= {tp.topic for tp in self.shared.positions.partitions}
        self.cluster.needs.want_exactly(topics, self.cluster.clock.monotonic_ms())

    def _metadata_refreshed(self, error: BaseException | None) -> None:
        if isinstance(error, BrokerUnreachable):
            logger.debug("consumer %s: %s", self.settings.client_id, error)
        elif isinstance(error, Exception):
            self.shared.fail(error)
        elif self.group is not None:
            self._inform_group(self.group)
        self.wake()

    def _inform_group(self, group: GroupDriver) -> None:
        """Topics may have come, gone or grown."""
        view = self.cluster.view
        if self.subscription.kind is Kind.PATTERN:
            found = self.subscription.matching(view, exclude_internal=self.settings.exclude_internal_topics)
            group.membership.subscribe(found)
        group.membership.counts_changed({name: len(info.partitions) for name, info in view.topics.items()})
        group.wake()
