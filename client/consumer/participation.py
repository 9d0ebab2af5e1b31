"""Participation of the application in its group: what happens inside `poll`, `commit`, `unsubscribe` and `close`.

What goes on between the polls is in group_driver.py; the two meet in `Membership.turn`, `Membership.polled` and the
commits. On the loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextvars import ContextVar
from functools import partial
from typing import Any

from odradek.client.consumer.commits import Commits, Offsets
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.group_driver import LEAVE_TIMEOUT_MS, GroupDriver, leave_limit_ms
from odradek.client.consumer.group_protocol import NO_GENERATION
from odradek.client.consumer.member_states import Adopt, Prepare, Turn, member_settings
from odradek.client.consumer.membership import Membership
from odradek.client.consumer.subscription import (
    NOTHING,
    ConsumerInterceptors,
    RebalanceListener,
    Subscription,
    when_lost,
)
from odradek.client.errors import ClientError, CommitFailed
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.client.waiting import NEVER
from odradek.protocol.errors import KafkaError
from odradek.world.clock import Clock
from odradek.world.tasks import Tasks

logger = logging.getLogger(__name__)

CommitCallback = Callable[[Offsets, Exception | None], object]
CallBack = Callable[[Callable[[], object]], Awaitable[object]]
"""Calls a function of the application: on the loop, or on the thread that waits for the calling coroutine."""
CLOSE_TIMEOUT_MS = 30_000
"""Time that `close` has for everything (Java's ConsumerUtils.DEFAULT_CLOSE_TIMEOUT_MS)."""
COMMITTING = "committing offsets"
LEAST_COMMIT_INTERVAL_MS = 100
"""Shortest time between automatic commits. A poll begins one that is due before it returns records, and with 0 would
never return any."""


class RunningTurn:
    """A turn of a rebalance that is carried out on the loop, even if the poll that began it is cancelled."""

    _inside_of: ContextVar["asyncio.Task[None] | None"] = ContextVar("odradek_turn", default=None)
    """Task of the turn whose listener is running, also in tasks that the listener has started."""

    def __init__(self, clock: Clock) -> None:
        self._tasks = Tasks(clock, lambda said: None)
        self.task: asyncio.Task[None] | None = None
        """The turn's task; None when there is none, or its result was taken."""

    @property
    def calls_this(self) -> bool:
        """Tell whether the caller runs within this turn's listener, and so may not wait for the turn."""
        return self.task is not None and self.task is self._inside_of.get()

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin the turn, unless another task that polls has begun it meanwhile."""

        async def inside() -> None:
            self._inside_of.set(asyncio.current_task())
            await work()

        if self.task is None:
            self.task = self._tasks.result_of("rebalance", inside)

    async def result(self) -> None:
        """Wait until the turn has ended, and raise what its listener has raised."""
        if self.task is not None:
            await asyncio.wait({self.task})
            self.take_result()

    async def wait(self, timeout_ms: float) -> None:
        """Wait until the turn has ended, and cancel it after `timeout_ms`. Within its listener, do nothing."""
        if self.task is not None and not self.calls_this:
            _, late = await asyncio.wait({self.task}, timeout=timeout_ms / 1000)
            if late:
                self.cancel()

    def cancel(self) -> None:
        """Cancel the turn. Within its listener, do nothing."""
        if self.task is not None and not self.calls_this:
            self.task.cancel()
            self.task = None

    def take_result(self) -> None:
        """Raise what the listener has raised, if the turn has ended."""
        task = self.task
        if task is not None and task.done():
            self.task = None
            task.result()


class Participation:
    """The part of a consumer with group.id that the application calls, whether it subscribes or only commits."""

    def __init__(
        self, engine: ConsumerEngine, call_back: CallBack, interceptors: ConsumerInterceptors, *, on_loop: bool
    ) -> None:
        """`on_loop`: callbacks are called on the loop, and not on the thread of a poll that waits for them."""
        self.listener = RebalanceListener()
        self.membership = Membership(member_settings(engine.settings))
        self._call_back = call_back
        self._engine = engine
        self._settings = engine.settings
        self._clock = engine.cluster.clock
        self._group = engine.group = GroupDriver(engine.cluster, self.membership, engine.shared.notify)
        self._interceptors = interceptors
        self._commits = Commits(self._group, self._committed)
        self._driver: asyncio.Task[None] | None = None
        self._next_commit_ms = -NEVER if engine.settings.enable_auto_commit else NEVER
        """Time of the next automatic commit; -NEVER until the first poll, which has nothing to commit yet."""
        self._ended_commits: deque[tuple[CommitCallback, Offsets, Exception | None]] = deque()
        """Asynchronous commits that have ended and whose callbacks are still to be called: callback, offsets, error."""
        self._commit_before: tuple[Turn, asyncio.Task[None]] | None = None
        """A turn, and the automatic commit that comes before it; this may take longer than one poll."""
        self._in_listener = False
        """True while a method of the listener runs, in which polling is refused."""
        self._on_loop = on_loop
        self._turn = RunningTurn(self._clock)

    def subscribe(self, subscription: Subscription, listener: RebalanceListener) -> None:
        """Read this subscription as a member of the group from now on, and call this listener."""
        self.listener = listener
        self._engine.subscribe(subscription)
        if self._driver is None:
            self._driver = self._engine.spawn_essential("group", self._group.run)

    @property
    def topics(self) -> set[str]:
        """Return the topics of the subscription; with a pattern, those that match now."""
        return set(self.membership.topics)

    @property
    def calls_back(self) -> bool:
        """Tell whether a method of the listener is being called."""
        return self._in_listener

    @property
    def lost(self) -> bool:
        """Tell whether the partitions belong to others by now: their records must not be handed out."""
        return self.membership.lost

    # -- polling -------------------------------------------------------------------------------------------------------

    def may_take(self) -> bool:
        """Note that the application has polled; tell whether it may take records at once. It may not when the group has
        something for it to do first. Any thread."""
        membership, now_ms = self.membership, self._clock.monotonic_ms()
        return not (
            membership.polled(now_ms)
            or membership.turn is not None
            or self._turn.task is not None
            or membership.failure is not None
            or membership.lost
            or self._ended_commits
            or (now_ms >= self._next_commit_ms and self._commit_is_due(now_ms))  # for most records without a call
        )

    def _commit_is_due(self, now_ms: float) -> bool:
        """Tell whether it is time for an automatic commit, which would be refused during a rebalance."""
        return now_ms >= self._next_commit_ms and (self._next_commit_ms == -NEVER or self.membership.may_commit)

    def polled(self) -> None:
        """Note that the application is alive, and done with the records of earlier polls; commit when it is time."""
        self.membership.polled(self._clock.monotonic_ms())
        self._group.wake()
        self._commit_if_due()

    def let_go(self) -> None:
        """Begin the automatic commit, when it is time, before the application assigns other partitions: no poll would
        commit the records of those that it lets go."""
        if self._next_commit_ms != -NEVER:
            self._commit_if_due()

    def _commit_if_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._turn.task is None and self._commit_is_due(now_ms):
            is_first_poll = self._next_commit_ms == -NEVER
            self._next_commit_ms = now_ms + max(self._settings.auto_commit_interval_ms, LEAST_COMMIT_INTERVAL_MS)
            if not is_first_poll:
                self.commit_later(self._consumed(), None, automatic=True)

    async def take_turn(self, end_ms: float) -> None:
        """Carry out the turn that the membership waits for. If the automatic commit before it is not done by `end_ms`,
        the turn is left to a later poll.

        With callbacks on the loop the turn goes on when the poll is cancelled, and the next poll waits for it. Raises
        the membership's failure, and what a listener raises, after which the rebalance goes on all the same; within a
        listener it raises ClientError.
        """
        if self._in_listener and (self._turn.task is None or self._turn.calls_this):
            raise ClientError("a rebalance callback cannot poll: the poll that calls it is waiting")
        await self.call_callbacks()
        failure = self.membership.take_failure(self._clock.monotonic_ms())
        if failure is not None:
            self._group.wake()
            raise failure.with_traceback(None)
        if self._turn.task is None:
            turn = self.membership.turn
            if turn is None or not await self._committed_before(turn, end_ms) or self.membership.turn is not turn:
                return
            if not self._on_loop:
                await self._carry_out(turn)
                return
            self._turn.begin(partial(self._carry_out, turn))
        await self._turn.result()

    async def call_callbacks(self) -> None:
        """Call the callbacks of asynchronous commits that have ended."""
        while self._ended_commits:
            callback, offsets, error = self._ended_commits.popleft()
            await self._call_back(partial(callback, offsets, error))

    async def _committed_before(self, turn: Turn, end_ms: float) -> bool:
        """Commit automatically what was handed out before partitions are revoked; tell whether that is over, done or
        failed, by `end_ms`."""
        if not turn.revoked or not self._settings.enable_auto_commit:
            return True
        if self._commit_before is None or self._commit_before[0] is not turn:
            work = self._engine.spawn("commit before a rebalance", self._commit_what_is_given_up)
            self._commit_before = (turn, work)
        task = self._commit_before[1]
        left_ms = end_ms - self._clock.monotonic_ms()
        await asyncio.wait({task}, timeout=max(0.0, left_ms) / 1000 if left_ms != float("inf") else None)
        if task.done():
            self._commit_before = None
        return task.done()

    async def _carry_out(self, turn: Turn) -> None:
        try:
            await (self._give_up(turn.revoked, turn.lost) if isinstance(turn, Prepare) else self._adopt(turn))
        finally:
            self.membership.turn_done(turn)
            self._engine.wake()
            self._group.wake()

    async def _adopt(self, turn: Adopt) -> None:
        try:
            await self._give_up(turn.revoked, ())
        finally:
            if self._engine.subscription.shared:  # otherwise the listener has unsubscribed, or closed the consumer
                with self._engine.shared.lock:
                    self._engine.shared.positions.assign(turn.all)
                self._engine.want_topics()
                self._engine.wake()
                await self._call_listener(self.listener.on_partitions_assigned, turn.added)

    async def _call_listener(self, method: Callable[[Any], object], partitions: Collection[TopicPartition]) -> None:
        """Call a method of the listener; meanwhile polling is refused."""
        before, self._in_listener = self._in_listener, True
        try:
            await self._call_back(partial(method, partitions))
        finally:
            self._in_listener = before

    async def _give_up(self, revoked: Collection[TopicPartition], lost: Collection[TopicPartition]) -> None:
        gone = {*revoked, *lost}
        try:
            if revoked:
                await self._call_listener(self.listener.on_partitions_revoked, revoked)
            if lost:
                await self._call_listener(when_lost(self.listener), lost)
        finally:
            with self._engine.shared.lock:
                positions = self._engine.shared.positions
                positions.assign([tp for tp in positions.partitions if tp not in gone])

    # -- commits -------------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None, timeout_ms: float | None) -> None:
        """Commit these offsets (None: of all records handed out) and wait for the answer, `timeout_ms` at most (None:
        default.api.timeout.ms). Raises as Commits.commit."""
        await self._commit(offsets, timeout_ms)
        await self.call_callbacks()

    async def _commit(self, offsets: Offsets | None, timeout_ms: float | None, *, automatic: bool = False) -> None:
        wanted = self._consumed() if offsets is None else offsets
        if wanted or not automatic:  # a commit of nothing, too, comes after those before it
            deadline = self._engine.deadline(COMMITTING, timeout_ms)
            place = self._commits.stand_in_line()
            try:
                await deadline.bound(self._commits.commit(wanted, deadline, place, automatic=automatic))
            finally:
                self._commits.leave_line(place)

    def commit_later(
        self, offsets: Offsets | None, callback: CommitCallback | None, *, automatic: bool = False
    ) -> None:
        """Commit as `commit` does, without waiting; a later poll, commit or close calls `callback(offsets, error)`."""
        callback = callback or self._settings.default_offset_commit_callback
        wanted = self._consumed() if offsets is None else offsets
        deadline = self._engine.deadline(COMMITTING)
        place = self._commits.stand_in_line()

        async def commit() -> None:
            failure: Exception | None = None
            try:
                await deadline.bound(self._commits.commit(wanted, deadline, place, automatic=automatic))
            except KafkaError as error:
                failure = error
                if callback is None:
                    logger.warning("consumer %s: %s", self._settings.client_id, error)
            if callback is not None:
                self._ended_commits.append((callback, wanted, failure))
                self._engine.shared.notify()

        self._commits.follow(self._engine.spawn("commit", commit), place)

    def _committed(self, offsets: Offsets) -> None:
        if self._interceptors:
            self._ended_commits.append((self._interceptors.on_commit, offsets, None))

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        with self._engine.shared.lock:
            return self._engine.shared.positions.consumed()

    def metadata(self) -> ConsumerGroupMetadata:
        """Return the member's group, generation and id (KIP-447). Raises CommitFailed when it has no generation, as the
        coordinator could not tell then that a commit is too late."""
        membership, identity = self.membership, self.membership.identity
        settings = membership.settings
        if membership.topics and identity.generation_id == NO_GENERATION:
            raise CommitFailed(f"group {settings.group_id}: the partitions belong to others by now: abort, poll again")
        return ConsumerGroupMetadata(
            settings.group_id, identity.generation_id, identity.member_id, settings.group_instance_id
        )

    async def _commit_what_is_given_up(self, timeout_ms: float | None = None) -> None:
        """Commit before partitions are given up (enable.auto.commit). If that fails, their records are read again."""
        if not self._settings.enable_auto_commit or self.lost:
            return
        try:
            await self._commit(None, timeout_ms, automatic=True)
        except KafkaError as error:
            logger.warning("consumer %s: automatic commit of revoked partitions: %s", self._settings.client_id, error)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        await self._turn.wait(self._settings.default_api_timeout_ms)
        await self._commit_what_is_given_up()
        try:
            await self._give_all_up()
        finally:
            with self._engine.shared.lock:
                self._engine.shared.positions.assign(())
            leaving = self._begin_to_leave("the consumer unsubscribed")
        await leaving  # only here: the task goes on even if this coroutine is ended early, as by GeneratorExit
        self._turn.take_result()

    async def close(self, *, autocommit: bool, timeout_ms: float) -> None:
        """Wait for the commits under way, then give up all partitions, and leave the group for good."""
        deadline = self._engine.deadline("closing", timeout_ms)
        try:
            await self._turn.wait(deadline.left_ms())
            if autocommit:
                await self._commit_what_is_given_up(min(self._settings.default_api_timeout_ms, timeout_ms))
            await self._commits.settle(deadline.left_ms())
            try:
                await self.call_callbacks()
            finally:
                if self._driver is not None:
                    await self._give_all_up()
            self._turn.take_result()
        finally:
            await self.leave("the consumer is closing", deadline.left_ms())

    async def leave(self, reason: str, timeout_ms: float = LEAVE_TIMEOUT_MS) -> None:
        """End the membership, and tell the coordinator, without calling the listener."""
        if self._driver is not None:
            self._turn.cancel()
            self._group.stop()
            asks_for_its_id = self.membership.asks_for_its_id
            await self._begin_to_leave(reason, timeout_ms)
            if asks_for_its_id and self._settings.group_instance_id is None:
                await asyncio.wait({self._driver}, timeout=leave_limit_ms(timeout_ms) / 1000)

    async def _give_all_up(self) -> None:
        with self._engine.shared.lock:
            partitions = sorted(self._engine.shared.positions.partitions)
        if partitions:
            method = when_lost(self.listener) if self.lost else self.listener.on_partitions_revoked
            await self._call_listener(method, partitions)

    def _begin_to_leave(self, reason: str, timeout_ms: float = LEAVE_TIMEOUT_MS) -> asyncio.Task[None]:
        """End the membership at once; the task tells the coordinator."""
        request = self.membership.leave_request(reason)
        self._engine.subscribe(NOTHING)  # before the membership: a pattern would subscribe it again
        self.membership.unsubscribe()
        self._group.wake()
        return self._engine.cluster.tasks.result_of("leave", lambda: self._group.leave(request, timeout_ms))
