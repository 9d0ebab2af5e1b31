"""Engine of the consumer, on an event loop: locates partitions, fetches ahead, keeps the metadata fresh, and tells the
group of changes in it.

Reading begins where a seek says, else at the committed offset, else where auto.offset.reset says. What is shared with
the application's thread is in `shared`; everything else belongs to the loop alone.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Set
from functools import partial
from typing import Any

from odradek.client.calls import Deadline, no_leader
from odradek.client.cluster import Cluster
from odradek.client.consumer.buffer import Shared
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.fetch_requests import without_leader
from odradek.client.consumer.fetcher import Fetcher
from odradek.client.consumer.group_driver import GroupDriver
from odradek.client.consumer.positions import RESET_TIMESTAMPS, Sought, reset_timestamp
from odradek.client.consumer.subscription import NOTHING, Kind, Subscription
from odradek.client.errors import BrokerUnreachable, ClientBroken, ClientClosed, LogTruncated
from odradek.client.forks import SAID, watch
from odradek.client.metadata import ClusterView
from odradek.client.offsets import Committed, ask_leader, settled_offsets, unstable
from odradek.client.records import TopicPartition
from odradek.client.waiting import WakeUp
from odradek.protocol.errors import RETRIABLE, KafkaError
from odradek.world.memory import reuse_freed_memory
from odradek.world.tasks import OnDeath, Tasks

logger = logging.getLogger(__name__)


class ConsumerEngine:
    """The part of a consumer that is on its loop. It works from `start` to `stop`."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.shared = Shared()
        self.group: GroupDriver | None = None
        self.subscription: Subscription = NOTHING
        self._fetcher = Fetcher(cluster, settings, self.shared, self._reset, self._truncate)
        self._locator = Locator(cluster, settings, self.shared, lambda: self.group)
        self._woken = WakeUp(cluster.clock)
        self.tasks = Tasks(cluster.clock, lambda said: None)
        self._stopped = False
        self._running: asyncio.Task[None] | None = None
        self._absent: frozenset[str] = frozenset()
        """Topics that are wanted, and that the last metadata lacked."""
        self._told_absent: frozenset[str] = frozenset()
        self._all_led: tuple[ClusterView, object] | None = None
        """A view, and the assigned partitions if all of them have leaders in it."""
        cluster.allow_auto_create = settings.allow_auto_create_topics
        cluster.refreshed = self._metadata_refreshed
        cluster.lacking = self._lacking
        watch(self)
        reuse_freed_memory()

    # -- the loop ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look again soon at what is due, since something has changed. On the loop's thread."""
        self._woken.set()

    def start(self) -> None:
        """Start `run`, which ends with `stop`."""
        self._running = self.spawn_essential("loop", self.run)

    def check_runs(self) -> None:
        """Raise ClientClosed or ClientBroken when nothing more will come: the consumer is closed or broken, or its
        tasks were cancelled."""
        self.shared.check_open()
        if self._stopped:
            raise ClientClosed("the consumer is closed")
        if self._running is not None and self._running.cancelled():
            raise ClientClosed(f"consumer {self.settings.client_id}: its tasks were cancelled, it reads no more")

    async def run(self) -> None:
        """Do what is due, then wait until something else is; until `stop`."""
        while not self._stopped:
            self._woken.clear()
            await self._woken.wait_until(self._round())

    def stop(self) -> None:
        """End `run` and all that is under way."""
        self._stopped = True
        self.tasks.close()
        self.wake()

    async def end_sessions(self, timeout_ms: float) -> None:
        """End `run` as `stop` does, and tell the brokers that nothing is fetched any more."""
        self.stop()
        await self._fetcher.end_sessions(timeout_ms)

    def broke(self, fault: Exception) -> None:
        """Note a failure that should not happen: from now on each call of the application raises it.

        Heartbeats end as well: a member that reads nothing must not keep its partitions.
        """
        error = ClientBroken(f"consumer {self.settings.client_id} is broken: {type(fault).__name__}: {fault}")
        error.__cause__ = fault
        self.shared.end(error)
        self.stop()

    def forked(self) -> None:
        """Refuse every call from now on: this is a copy in a forked process, and will never read anything."""
        self.shared.lock._at_fork_reinit()  # type: ignore[attr-defined]  # a thread that held it is not in this process
        self.shared.ended = ClientClosed(f"consumer {self.settings.client_id}: {SAID}")

    def spawn(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Run a task; a KafkaError that it raises goes to the application, any other exception breaks the consumer."""

        async def told() -> None:
            try:
                await work()
            except KafkaError as error:
                self.shared.fail(error)

        return self.spawn_essential(name, told)

    def spawn_essential(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Run a task; any exception that it raises breaks the consumer."""
        task = self.tasks.spawn(f"consumer {self.settings.client_id}: {name}", work, OnDeath.END, self.broke)
        task.add_done_callback(lambda _: self.wake())
        return task

    def _round(self) -> float:
        """Start whatever is due; return when to look again, in ms of the monotonic clock."""
        now_ms = self.cluster.clock.monotonic_ms()
        with self.shared.lock:
            calls = self._fetcher.due(now_ms)
            lookups = self._locator.due(now_ms)
            leaderless = self._leaderless()
            next_retry_ms = self.shared.positions.next_retry_ms(now_ms)
        for call in calls:
            self.spawn("fetch", partial(self._fetcher.fetch, call))
        for look_up in lookups:
            self.spawn("find positions", look_up)
        if leaderless:
            self.cluster.needs.stale()
        return min(next_retry_ms, self.cluster.refresh_when_due())

    def _leaderless(self) -> bool:
        """Tell whether some partition has no known leader. If none, that is remembered until partitions or metadata
        change."""
        view, positions = self.cluster.view, self.shared.positions
        if self._all_led is not None and self._all_led[0] is view and self._all_led[1] is positions.partitions:
            return False
        leaderless = without_leader(positions, view)
        self._all_led = None if leaderless else (view, positions.partitions)
        return leaderless

    def _lacking(self) -> bool:
        """Tell whether an assigned partition has no leader, or does not exist (yet)."""
        with self.shared.lock:
            return without_leader(self.shared.positions, self.cluster.view)

    def _reset(self, partition: TopicPartition) -> None:
        timestamp = reset_timestamp(self.settings.auto_offset_reset, partition)
        self.shared.positions.reset(partition, timestamp)

    def _truncate(self, partition: TopicPartition, offset: int, leader_epoch: int) -> None:
        position = self.shared.positions.partitions[partition].position
        if offset < position and self.settings.auto_offset_reset not in RESET_TIMESTAMPS:
            raise LogTruncated(partition, position, offset)
        self.shared.positions.truncate(partition, offset, leader_epoch)

    def why_not_located(self, partition: TopicPartition) -> Exception | None:
        """Return the error that keeps a partition from having a position; None if it is not known."""
        view = self.cluster.view
        return no_leader(view, partition) if view.leader_of(partition) is None else self._locator.trouble

    def deadline(self, what: str, timeout_ms: float | None = None) -> Deadline:
        """Return the deadline `timeout_ms` from now (None: default.api.timeout.ms)."""
        if timeout_ms is not None:
            return Deadline(self.cluster, timeout_ms, what, "timeout_ms")
        return Deadline(self.cluster, self.settings.default_api_timeout_ms, what, "default.api.timeout.ms")

    # -- what is to be read --------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Read something else from now on; the caller has checked that this may follow. On the loop's thread."""
        self.subscription = subscription
        self.cluster.needs.all_topics = subscription.kind is Kind.PATTERN
        self.want_topics()
        if self.group is not None:
            if subscription.kind is Kind.TOPICS:
                self.group.membership.subscribe(subscription.topics)
            self.group.wake()
        else:
            self._assign_all()
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
        if isinstance(error, BrokerUnreachable) and not error.login_refused:
            logger.debug("consumer %s: %s", self.settings.client_id, error)
        elif isinstance(error, Exception):
            self.shared.fail(error)
        else:
            self._tell_absent()
            self._fail_refused()
            if self.group is not None:
                self._inform_group(self.group)
            else:
                self._assign_all()
        self.wake()

    def _tell_absent(self) -> None:
        """Log once that a topic was missing twice in succession: polls wait for it as if it were empty."""
        needs = self.cluster.needs
        absent = frozenset(() if needs.all_topics else needs.topics) - self.cluster.view.topics.keys()
        for topic in sorted((absent & self._absent) - self._told_absent):
            logger.warning(
                "consumer %s: topic %s: the cluster does not have it: create it, or check its name",
                self.settings.client_id,
                topic,
            )
            self._told_absent |= {topic}
        self._absent = absent
        self._told_absent &= absent

    def _fail_refused(self) -> None:
        """Tell the application that it may not read a topic: polls would wait for ever. The other topics are read."""
        topics = self.cluster.view.topics
        for topic in sorted(self.subscription.topics & topics.keys()):
            error = topics[topic].error
            if error and error not in RETRIABLE:
                self.shared.fail(KafkaError(error, f"topic {topic}"))
                return

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """Topics that it has subscribed to; with a pattern, those that match it now. From any thread."""
        subscription = self.subscription
        if subscription.kind is not Kind.PATTERN:
            return subscription.topics if subscription.shared else frozenset()
        exclude_internal = self.settings.exclude_internal_topics
        return frozenset(subscription.matching(self.cluster.view, exclude_internal=exclude_internal))

    def _assign_all(self) -> None:
        """Assign all partitions of the subscribed topics, to a consumer without a group."""
        if not self.subscription.shared:
            return
        view, topics = self.cluster.view, self.subscribed_topics
        with self.shared.lock:
            now = self.shared.positions.partitions
            kept = [tp for tp in now if tp.topic in topics and not view.partition_count(tp.topic)]
            there = [TopicPartition(name, number) for name in topics for number in range(view.partition_count(name))]
            self.shared.positions.assign(sorted({*kept, *there}))

    def _inform_group(self, group: GroupDriver) -> None:
        """Tell the group's membership which topics exist now, and how many partitions they have."""
        view = self.cluster.view
        if self.subscription.kind is Kind.PATTERN:
            group.membership.subscribe(self.subscribed_topics)
        racks = view.replica_racks(group.membership.watched_topics) if self.settings.client_rack else {}
        group.membership.counts_changed({name: len(info.partitions) for name, info in view.topics.items()}, racks)
        group.wake()


class Locator:
    """Finds the positions at which a consumer starts. Each broker is asked on its own: one may take long to answer."""

    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, shared: Shared, group: Callable[[], GroupDriver | None]
    ) -> None:
        """`group` returns the consumer's group, or None: a member asks the coordinator with which it has joined."""
        self._cluster, self._settings, self._shared, self._group = cluster, settings, shared, group
        self._asked: set[tuple[TopicPartition, int | None]] = set()
        """Partitions that are being looked up, each with the leader that is asked; None for the group's coordinator."""
        self.trouble: Exception | None = None
        """Error of the last look-up; None if it succeeded."""
        self._held_back: Set[TopicPartition] = frozenset()
        """Partitions whose committed offset is in an open transaction."""

    def due(self, now_ms: float) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Return the look-ups to run now, which raise KafkaError, NoOffsetForPartition. The lock must be held."""
        positions, view = self._shared.positions, self._cluster.view
        wanted: dict[int | None, dict[TopicPartition, Sought]] = {}
        for topic_partition, one in positions.sought(positions.unlocated(now_ms)).items():
            leader = None if one.timestamp is None else view.leader_of(topic_partition)
            if one.timestamp is not None and leader is None:
                continue  # the metadata are asked for
            if (topic_partition, leader) not in self._asked:
                self._asked.add((topic_partition, leader))
                wanted.setdefault(leader, {})[topic_partition] = one
        return [partial(self._locate, leader, some) for leader, some in wanted.items()]

    async def _locate(self, leader: int | None, wanted: Mapping[TopicPartition, Sought]) -> None:
        """Find the offsets of these partitions; those not found are due again after a pause."""
        trouble: Exception | None = None
        try:
            if leader is None:
                await self._locate_by_commit(wanted)
            else:
                await self._locate_by_time(leader, wanted)
        except (BrokerUnreachable, TimeoutError) as error:
            trouble = error
            logger.info("consumer %s: positions not found yet: %s", self._settings.client_id, error)
        except KafkaError as error:
            trouble = error
            if not error.retriable:
                raise
        finally:
            self.trouble = trouble
            self._asked.difference_update((topic_partition, leader) for topic_partition in wanted)
            with self._shared.lock:
                again_ms = self._cluster.clock.monotonic_ms() + self._settings.retry_backoff_ms
                positions = self._shared.positions
                same = [tp for tp, now in positions.sought(wanted).items() if now == wanted[tp]]
                positions.retry_at(same, again_ms)  # others are sought elsewhere by now, and are due at once

    async def _locate_by_commit(self, wanted: Mapping[TopicPartition, Sought]) -> None:
        """Begin where the group has committed; auto.offset.reset decides for partitions without a committed offset.

        Partitions whose offset is part of an open transaction wait for its end; the others do not.
        """
        committed, open_ = Committed({}, set())
        if self._settings.group_id is not None:
            patience_ms = self._settings.default_api_timeout_ms
            deadline = Deadline(self._cluster, patience_ms, "finding positions", "default.api.timeout.ms")
            committed, open_ = await settled_offsets(
                self._cluster, self._settings.group_id, wanted, deadline, member=self._group()
            )
            self._tell_open(wanted, open_)
        with self._shared.lock:
            positions = self._shared.positions
            for topic_partition in wanted.keys() & committed.keys():
                found = committed[topic_partition]
                positions.locate(topic_partition, wanted[topic_partition], found.offset, found.leader_epoch)
            self._shared.notify()
            without = [tp for tp in wanted if tp not in committed and tp not in open_]
            for topic_partition, now in positions.sought(without).items():
                if now == wanted[topic_partition]:
                    timestamp = reset_timestamp(self._settings.auto_offset_reset, topic_partition)
                    positions.reset(topic_partition, timestamp)

    def _tell_open(self, asked: Iterable[TopicPartition], open_: Set[TopicPartition]) -> None:
        """Log once which partitions are not read until a transaction ends."""
        for topic_partition in sorted(open_ - self._held_back):
            logger.info("consumer %s: not read yet: %s", self._settings.client_id, unstable([topic_partition]))
        self._held_back = (self._held_back - set(asked)) | open_

    async def _locate_by_time(self, leader: int, wanted: Mapping[TopicPartition, Sought]) -> None:
        times = {tp: one.timestamp for tp, one in wanted.items() if one.timestamp is not None}
        found, failure = await ask_leader(self._cluster, leader, times, self._settings.isolation)
        with self._shared.lock:
            for topic_partition, offset in found.items():
                start = offset.offset if offset is not None else 0
                self._shared.positions.locate(topic_partition, wanted[topic_partition], start)
        self._shared.notify()
        if failure is not None:
            self._cluster.needs.stale()
            raise failure
