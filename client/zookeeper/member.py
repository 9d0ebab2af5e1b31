"""Member of a group: carries out the steps of its `Balance` in ZooKeeper, and commits offsets."""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from odradek.client.records import TopicPartition
from odradek.client.waiting import WakeUp, sleep_ms
from odradek.client.zookeeper.balance import Balance, Claim, Read, Register, Release, Report, Start, Step, Wait
from odradek.client.zookeeper.config import ConnectorSettings
from odradek.client.zookeeper.group_store import GroupStore
from odradek.client.zookeeper.listener import UNHEARD, Listener
from odradek.client.zookeeper.offset_storage import NOT_COMMITTED, OffsetKeeper
from odradek.world.clock import Clock
from odradek.zk_schema.lost_answers import repeated
from odradek.zk_schema.store import (
    Connected,
    ConnectionLost,
    Expired,
    SessionExpired,
    Store,
    StoreError,
    StoreEvent,
    Suspended,
    WatchFired,
    WatchKind,
)
from odradek.zk_schema.znodes.consumers import ConsumerRegistration, group_path
from odradek.zk_schema.znodes.json_data import BadZnode

logger = logging.getLogger(__name__)

PATIENCE_PER_BACKOFF = 0.5
"""Share of rebalance.backoff.ms that a release waits for messages in hand. Others, which want the partitions, must not
use up their attempts meanwhile."""


class Reading(Protocol):
    """Consumption of owned partitions (`consumption.Consumption`)."""

    def start(self, partitions: Mapping[TopicPartition, str]) -> None:
        """Begin to read these partitions, each for the thread of that name."""

    async def stop(self, patience_ms: float) -> None:
        """Read nothing more, and wait at most `patience_ms` for messages in hand."""

    def abandon(self) -> None:
        """Stop at once: the partitions are lost to other members."""

    def given_up(self) -> None:
        """Note, after `stop`, that the offsets are committed."""

    def consumed(self, *, in_hand: bool) -> dict[TopicPartition, int]:
        """Return the offsets up to which messages are consumed; with `in_hand` those being processed count as well."""


class Member:
    """Member of a group. `run` and `commit_periodically` run until they are cancelled; `brokers_seen(addresses)` is
    called with the live brokers. For the loop's thread only."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: ConnectorSettings,
        consumer_id: str,
        reading: Reading,
        keeper: OffsetKeeper,
        brokers_seen: Callable[[Sequence[str]], object],
    ) -> None:
        self.listener: Listener = UNHEARD
        """Told of rebalances."""
        strategy = settings.partition_assignment_strategy
        self.balance = Balance(consumer_id, strategy, settings.rebalance_max_retries, settings.backoff_ms)
        self._group = GroupStore(
            store,
            settings.group_id,
            consumer_id,
            strategy,
            exclude_internal=settings.exclude_internal_topics,
            security_protocol=settings.security_protocol,
        )
        self._owners_path = f"{group_path(settings.group_id)}/owners/"
        self._store = store
        self._clock = clock
        self._settings = settings
        self._reading = reading
        self._keeper = keeper
        self._brokers_seen = brokers_seen
        self._registration: ConsumerRegistration | None = None
        self._woken = WakeUp(clock)
        self._decided = asyncio.Event()
        store.subscribe(self._on_event)

    def join(self, registration: ConsumerRegistration) -> None:
        """Set what this member consumes. Before `run`."""
        self._registration = registration
        if self._store.connected:
            self.balance.connected(self._store.session_id)

    async def decided(self) -> None:
        """Wait until the first rebalance is done, or its failure was logged."""
        await self._decided.wait()

    async def look_for_brokers(self) -> None:
        """Read which brokers live, as each rebalance does. Waits for a lost connection; raises StoreError."""
        self._brokers_seen(await repeated(self._store, self._group.brokers))

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _on_event(self, event: StoreEvent) -> None:
        match event:
            case WatchFired(WatchKind.DELETED, path) if path.startswith(self._owners_path):
                self.balance.owner_gone(path)
            case WatchFired(_, path) if path.startswith(self._owners_path):
                return
            case WatchFired():
                self.balance.changed()
            case Connected(session_id):
                self.balance.connected(session_id)
            case Expired():
                logger.warning("%s: the session has expired: partitions are lost", self.balance.consumer_id)
                self.balance.expired()
                self._reading.abandon()
            case Suspended():
                return
        self._woken.set()

    async def run(self) -> None:
        """Carry out one step of the balance after another, until cancelled."""
        while True:
            self._woken.clear()
            step = self.balance.take_step(self._clock.monotonic_ms())
            match step:
                case Wait(until_ms):
                    if self.balance.settled:
                        self._decided.set()
                    await self._woken.wait_until(until_ms)
                case Report(text):
                    logger.error("%s", text)
                    self._decided.set()
                case _:
                    await self._carry_out(step)

    async def _carry_out(self, step: Step) -> None:
        session_id = self.balance.session_id
        try:
            outcome = await self._outcome(step)
        except (ConnectionLost, SessionExpired) as error:
            logger.info("%s: %s", self.balance.consumer_id, error)
            await self._store.until_connected()
            if self.balance.session_id == session_id:
                self.balance.interrupted(step)
        except (StoreError, BadZnode, re.error, *NOT_COMMITTED) as error:
            if self.balance.session_id == session_id:
                logger.info("%s: %s failed: %s", self.balance.consumer_id, type(step).__name__, error)
                self.balance.failed(step, str(error), self._clock.monotonic_ms())
        else:
            if self.balance.session_id == session_id:
                outcome()

    async def _outcome(self, step: Step) -> Callable[[], object]:
        """Carry out a step; return a function that reports its outcome to the balance, for the same session only."""
        balance = self.balance
        match step:
            case Register():
                assert self._registration is not None
                await self._group.register(self._registration)
                return balance.registered
            case Read(owned):
                view = await self._group.read(owned)
                self._brokers_seen(view.brokers)
                return lambda: balance.read(view)
            case Claim(partitions):
                claimed = await self._group.claim(partitions, balance.session_id)
                return lambda: balance.claimed(claimed.won, claimed.blockers, self._clock.monotonic_ms())
            case Start(partitions):
                await self._keeper.read(partitions)
                await self.listener.starting(balance.consumer_id, balance.assignment)
                return lambda: self._start(partitions)
            case Release(partitions):
                await self._release(partitions)
                return balance.released
            case _:
                raise AssertionError(step)

    def _start(self, partitions: Mapping[TopicPartition, str]) -> None:
        names = ", ".join(f"{name} ({thread})" for name, thread in sorted(partitions.items()))
        logger.info("%s owns %s", self.balance.consumer_id, names)
        self._reading.start(partitions)
        self.balance.fetching()

    async def _release(self, partitions: Mapping[TopicPartition, str]) -> None:
        """Stop reading, commit, tell the listener, which may commit, too, and delete the owner znodes, in this order:
        the next owner finds all offsets committed."""
        await self._reading.stop(self._settings.backoff_ms * PATIENCE_PER_BACKOFF)
        # Also without auto commit, with no offsets: this waits for a commit of the application that is under way.
        automatic = self._settings.auto_commit_enable
        await self._commit_quietly(lambda: self._reading.consumed(in_hand=False) if automatic else {})
        await self.listener.releasing(partitions)
        self._reading.given_up()
        await self._group.release(partitions)

    # -- offsets -------------------------------------------------------------------------------------------------------

    async def commit(self, *, retries: int = 0, in_hand: bool = True) -> None:
        """Commit all messages handed out; unless `in_hand`, without those that are still being processed.

        Raises StoreError, ClientError, KafkaError.
        """
        await self._keeper.commit(lambda: self._reading.consumed(in_hand=in_hand), retries)

    async def commit_periodically(self) -> None:
        """Commit every auto.commit.interval.ms all that the application is done with."""
        while True:
            await sleep_ms(self._clock, self._settings.auto_commit_interval_ms)
            if self._store.connected:
                await self._commit_quietly(lambda: self._reading.consumed(in_hand=False))

    async def _commit_quietly(self, consumed: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Commit, or log that it failed; what is not committed will come again."""
        try:
            await self._keeper.commit(consumed)
        except (StoreError, *NOT_COMMITTED) as error:
            logger.warning("%s: offsets not committed: %s", self.balance.consumer_id, error)
