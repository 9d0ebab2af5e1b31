"""The application's part in its group: what happens on its own thread, inside `poll`, `commit`, `unsubscribe`, `close`.

The loop's part is in group.py; the two meet in `Membership.turn`, `polled` and the commits.
"""

import logging
from collections.abc import Callable, Collection, Mapping

from odradek.client.calls import Deadline
from odradek.client.consumer.commits import Commits
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.group import GroupDriver
from odradek.client.consumer.group_requests import NO_GENERATION
from odradek.client.consumer.listener import RebalanceListener
from odradek.client.consumer.membership import Membership
from odradek.client.consumer.steps import Prepare, Turn, member_settings
from odradek.client.consumer.subscription import NOTHING, Subscription
from odradek.client.errors import ClientError, CommitFailed
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.client.runtime import Runtime
from odradek.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], object]
CLOSE_TIMEOUT_MS = 30_000
"""What `close` has for commits (Java's ConsumerUtils.DEFAULT_CLOSE_TIMEOUT_MS)."""
COMMITTING = "committing offsets"


class Participation:
    """One consumer that has a group.id, whether it shares topics or only commits."""

    def __init__(self, runtime: Runtime, engine: ConsumerEngine) -> None:
        self.listener = RebalanceListener()
        self._runtime = runtime
        self._engine = engine
        self._config = engine.settings
        self._membership = Membership(member_settings(engine.settings))
        self._group = runtime.thread.call(self._new_driver)
        self._commits = runtime.thread.call(lambda: Commits(self._group))
        self._driving = False
        self._next_commit_ms: float | None = None

    def _new_driver(self) -> GroupDriver:
        self._engine.group = GroupDriver(self._engine.cluster, self._membership, self._engine.shared.notify)
        return self._engine.group

    def subscribe(self, subscription: Subscription, listener: RebalanceListener | None) -> None:
        """Share something else from now on."""
        self.listener = listener or RebalanceListener()

        def change() -> None:
            self._engine.subscribe(subscription)
            if not self._driving:
                self._driving = True
                self._engine.spawn(self._group.run())

        self._runtime.thread.call(change)

    @property
    def topics(self) -> set[str]:
        """What it shares now: of a pattern, the topics that match."""
        return set(self._membership.topics)

    # -- polling -------------------------------------------------------------------------------------------------------

    def polled(self, now_ms: float) -> None:
        """The application is alive; what earlier polls have handed out is done with, and committed when it is time."""
        if self._membership.polled(now_ms):
            self._runtime.thread.soon(self._group.wake)
        if not self._config.enable_auto_commit:
            return
        if self._next_commit_ms is None:
            self._next_commit_ms = now_ms + self._config.auto_commit_interval_ms
        elif now_ms >= self._next_commit_ms and self._membership.may_commit:
            self._next_commit_ms = now_ms + self._config.auto_commit_interval_ms
            self.commit_async(None, None)

    @property
    def waiting(self) -> bool:
        """Whether `take_turn` has something to do."""
        return self._membership.turn is not None or self._membership.failure is not None

    @property
    def lost(self) -> bool:
        """Whether what is assigned belongs to others by now: it must not be handed out."""
        return self._membership.lost

    def take_turn(self) -> None:
        """Do what the membership waits for. Raises its failure, and what a listener raises: the rebalance goes on."""
        failure, turn = self._membership.failure, self._membership.turn
        if failure is not None:
            raise failure
        if turn is None:
            return
        try:
            self._carry_out(turn)
        finally:
            self._runtime.thread.call(lambda: self._turn_done(turn))

    def _carry_out(self, turn: Turn) -> None:
        if isinstance(turn, Prepare):
            self._give_up(turn.revoked, turn.lost)
            return
        try:
            self._give_up(turn.revoked, ())
        finally:
            with self._engine.shared.lock:
                self._engine.shared.positions.assign(turn.all)
            self._runtime.thread.call(self._start_reading)
            self.listener.on_partitions_assigned(turn.added)

    def _start_reading(self) -> None:
        self._engine.want_topics()
        self._engine.wake()

    def _turn_done(self, turn: Turn) -> None:
        self._membership.turn_done(turn)
        self._engine.wake()
        self._group.wake()

    def _give_up(self, revoked: Collection[TopicPartition], lost: Collection[TopicPartition]) -> None:
        gone = {*revoked, *lost}
        try:
            if revoked:
                self._commit_before_giving_up(self._config.default_api_timeout_ms)
                self.listener.on_partitions_revoked(revoked)
            if lost:
                self.listener.on_partitions_lost(lost)
        finally:
            with self._engine.shared.lock:
                positions = self._engine.shared.positions
                positions.assign([tp for tp in positions.partitions if tp not in gone])

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None) -> None:
        """Wait until the group has these offsets (None: of all that was handed out). Raises as Commits.commit."""
        wanted = self._to_commit(offsets)
        if wanted:
            self._commit_within(wanted, self._config.default_api_timeout_ms)

    def _commit_within(self, wanted: Mapping[TopicPartition, OffsetAndMetadata], patience_ms: float) -> None:
        deadline = Deadline(self._engine.cluster, patience_ms, COMMITTING, "default.api.timeout.ms")
        self._runtime.run(lambda: self._commits.commit(wanted, deadline))

    def commit_async(self, offsets: Offsets | None, callback: CommitCallback | None) -> None:
        """The same without waiting; `callback` is called on the loop's thread."""
        wanted = self._to_commit(offsets)
        work = self._commits.commit(wanted, self._engine.deadline(COMMITTING))

        async def commit() -> None:
            failure: Exception | None = None
            try:
                await work
            except (KafkaError, ClientError) as error:
                failure = error
                if callback is None:
                    logger.warning("consumer %s: %s", self._config.client_id, error)
            if callback is not None:
                callback(wanted, failure)

        self._runtime.thread.soon(lambda: self._commits.follow(self._engine.spawn(commit())))

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            with self._engine.shared.lock:
                return self._engine.shared.positions.consumed()
        return {
            TopicPartition(*tp): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for tp, offset in offsets.items()
        }

    def metadata(self) -> ConsumerGroupMetadata:
        """Who commits (KIP-447). Raises CommitFailed: without a generation nobody could tell that it is too late."""
        membership, identity = self._membership, self._membership.identity
        settings = membership.settings
        if membership.topics and identity.generation_id == NO_GENERATION:
            raise CommitFailed(f"group {settings.group_id}: the partitions belong to others by now: abort, poll again")
        return ConsumerGroupMetadata(
            settings.group_id, identity.generation_id, identity.member_id, settings.group_instance_id
        )

    def _commit_before_giving_up(self, patience_ms: float) -> None:
        """enable.auto.commit. What could not be committed will be read again."""
        wanted = self._to_commit(None)
        if not self._config.enable_auto_commit or not wanted:
            return
        try:
            self._commit_within(wanted, patience_ms)
        except (KafkaError, ClientError) as error:
            logger.warning("consumer %s: automatic commit of what is given up: %s", self._config.client_id, error)

    # -- the end -------------------------------------------------------------------------------------------------------

    def unsubscribe(self) -> None:
        """Give up everything, and leave the group."""
        try:
            self._give_up_all()
        finally:
            self._runtime.run(lambda: self._leave("the consumer unsubscribed"))

    def close(self, *, autocommit: bool) -> None:
        """The same for good, once all commits under way have come to their end."""
        try:
            if autocommit and not self.lost:
                self._commit_before_giving_up(min(self._config.default_api_timeout_ms, CLOSE_TIMEOUT_MS))
            self._runtime.run(lambda: self._commits.settle(CLOSE_TIMEOUT_MS))
            if self._driving:
                self._tell_all()
        finally:
            if self._driving:
                self._runtime.thread.call(self._group.stop)
                self._runtime.run(lambda: self._leave("the consumer is closing"))

    def _give_up_all(self) -> None:
        if not self.lost:
            self._commit_before_giving_up(self._config.default_api_timeout_ms)
        try:
            self._tell_all()
        finally:
            with self._engine.shared.lock:
                self._engine.shared.positions.assign(())

    def _tell_all(self) -> None:
        with self._engine.shared.lock:
            partitions = sorted(self._engine.shared.positions.partitions)
        if partitions:
            (self.listener.on_partitions_lost if self.lost else self.listener.on_partitions_revoked)(partitions)

    async def _leave(self, reason: str) -> None:
        request = self._membership.leave_request(reason)
        self._engine.subscribe(NOTHING)  # before the membership: a pattern would subscribe it again
        self._membership.unsubscribe()
        self._group.wake()
        await self._group.leave(request)
