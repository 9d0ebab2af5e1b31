"""The controller of one broker: a queue of events, handled one at a time, and the office that it may hold.

Every broker runs one; the one whose broker holds `/controller` is active and has a Tenure. Events come from watches,
from answers of brokers, from timers and from requests; ZooKeeper is read when an event is handled, not when it is
queued. Losing the office (deposed, or the session is gone) closes the tenure at once, whatever is under way: its next
step raises ControllerMoved.

    controller = Controller(store, clock, broker_id, config, channels, random.Random())
    controller.start()             # after the broker has registered itself; stands for election
    await controller.stop()        # then close the store, which gives the office up
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from odradek.broker.settings.cluster_settings import ControllerSettings
from odradek.controller import (
    alter_partition,
    controlled_shutdown,
    election,
    failover,
    preferred_election,
    producer_ids,
    reassignment,
)
from odradek.controller.channels import Channels
from odradek.controller.cluster_store import ClusterStore
from odradek.controller.dispatch import Call, dispatch, not_controller
from odradek.controller.election import NO_CONTROLLER, Won
from odradek.controller.events import (
    ControllerChanged,
    Event,
    UncleanElectionEnabled,
    event_of,
)
from odradek.controller.fenced_store import ControllerMoved, FencedStore
from odradek.controller.state import Assignment, ClusterState, TopicPartition
from odradek.controller.tenure import Tenure
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.world.clock import Clock
from odradek.zk_schema.store import (
    Connected,
    ConnectionLost,
    Expired,
    SessionExpired,
    Store,
    StoreError,
    StoreEvent,
    WatchFired,
)
from odradek.zk_schema.znodes.cluster import ProducerIdBlock
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

T = TypeVar("T")

CALLS_QUEUED_MAX = 10_000
"""Requests that wait for the controller; further ones are told to come back (REQUEST_TIMED_OUT)."""


class Controller:
    """Stands for the office, holds it, and gives it up."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        broker_id: int,
        config: ControllerSettings,
        channels: Channels,
        randomness: random.Random,
        *,
        register: Callable[[], Awaitable[object]] | None = None,
        on_controller: Callable[[int], object] | None = None,
    ) -> None:
        """`register` puts the broker's registration into ZooKeeper again: awaited in each new session after the one in
        which `start` was called, before standing. `on_controller` is told the id of the active controller whenever it
        changes, here or elsewhere (NO_CONTROLLER when there is none).
        """
        self.broker_id, self.config = broker_id, config
        self.controller_id = NO_CONTROLLER
        """The broker that holds `/controller`, as far as is known here."""
        self._store, self._clock, self._channels, self._randomness = store, clock, channels, randomness
        self._register, self._on_controller = register, on_controller
        self._registered_session = 0
        self._tenure: Tenure | None = None
        self._last_epoch = -1
        self._queue: deque[Event | Call[object]] = deque()
        self._waiting: set[Event] = set()
        self._calls_queued = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._started = False
        self._busy = False
        store.subscribe(self._on_store_event)

    # Life.

    def start(self) -> None:
        """Begin to watch `/controller` and to stand. The store is connected, the broker registered."""
        self._registered_session = self._store.session_id
        self._started = True
        self._enqueue(ControllerChanged())
        self._task = asyncio.get_running_loop().create_task(self._run(), name="controller")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Resign; harmless twice. `/controller` goes with the session, which the owner of the store ends next."""
        self._started = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        self._resign("the broker stops")

    def configure(self, config: ControllerSettings) -> None:
        """Obey other settings. Where unclean elections are allowed now, partitions without a leader get one."""
        before, self.config = self.config, config
        if config.unclean_leader_election_enable and not before.unclean_leader_election_enable:
            self.unclean_election_enabled(None)

    @property
    def is_active(self) -> bool:
        return self._tenure is not None

    @property
    def controller_epoch(self) -> int:
        """Of the active controller; -1 elsewhere."""
        return -1 if self._tenure is None else self._tenure.state.controller_epoch

    @property
    def state(self) -> ClusterState | None:
        """To look at, for metrics and tests; None when not active."""
        return None if self._tenure is None else self._tenure.state

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is under way: for tests."""
        return not self._queue and not self._busy

    # What request handlers ask of it. Each raises KafkaError(NOT_CONTROLLER) when this broker is not the controller.

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        return await self._call(lambda tenure: alter_partition.alter(tenure, request, version))

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """The partitions that the broker still leads. Also raises BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH."""
        return await self._call(lambda tenure: controlled_shutdown.shut_down(tenure, broker_id, broker_epoch))

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election_type: int
    ) -> dict[TopicPartition, preferred_election.Outcome]:
        """None: all partitions. `election_type` as on the wire: 0 preferred, 1 unclean."""
        return await self._call(lambda tenure: preferred_election.elect(tenure, partitions, election_type))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        """Also raises BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
        return await self._call(lambda tenure: producer_ids.allocate(tenure, broker_id, broker_epoch))

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, reassignment.Outcome]:
        """None as a target cancels."""
        return await self._call(lambda tenure: reassignment.reassign(tenure, targets))

    async def list_reassignments(self, partitions: Sequence[TopicPartition] | None) -> dict[TopicPartition, Assignment]:
        async def listed(tenure: Tenure) -> dict[TopicPartition, Assignment]:
            return reassignment.under_way(tenure, partitions)

        return await self._call(listed)

    def unclean_election_enabled(self, topic: str | None) -> None:
        """Settings changed so that a topic (None: all that do not say otherwise) may elect outside the ISR."""
        self._enqueue(UncleanElectionEnabled(topic))

    async def _call(self, work: Callable[[Tenure], Awaitable[T]]) -> T:
        if self._tenure is None:
            raise not_controller()
        if self._calls_queued >= CALLS_QUEUED_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many requests wait for the controller")
        call = Call(work)
        self._calls_queued += 1
        self._queue.append(call)  # type: ignore[arg-type]  # of whatever type: only `answer` knows it
        self._wake.set()
        return await call.answer

    # The queue.

    def _enqueue(self, event: Event) -> None:
        if event not in self._waiting:
            self._waiting.add(event)
            self._queue.append(event)
            self._wake.set()

    def _on_store_event(self, event: StoreEvent) -> None:
        if not self._started:
            return
        if isinstance(event, WatchFired):
            meant = event_of(event)
            if meant is not None and (self._tenure is not None or isinstance(meant, ControllerChanged)):
                self._enqueue(meant)
        elif isinstance(event, Expired):
            self._resign("the ZooKeeper session is gone")
            self._learn_controller(NO_CONTROLLER)
        elif isinstance(event, Connected):
            if self._tenure is not None:
                self._tenure.store.znodes.connection_changed()
            # What was lost with the connection (an answer, the whole session) is found by looking.
            self._enqueue(ControllerChanged())

    async def _run(self) -> None:
        while True:
            while self._queue:
                event = self._queue.popleft()
                self._busy = True
                await self._handle(event)
                self._busy = False
            self._wake.clear()
            await self._wake.wait()

    async def _handle(self, event: Event | Call[object]) -> None:
        if isinstance(event, Event):
            self._waiting.discard(event)
        else:
            self._calls_queued -= 1
        tenure = self._tenure
        try:
            if isinstance(event, ControllerChanged):
                await self._look_at_office()
            elif tenure is None:
                if isinstance(event, Call):
                    event.refuse(not_controller())
            elif isinstance(event, Call):
                await event.carry_out(tenure)
            else:
                await dispatch(tenure, event, self._randomness)
        except ControllerMoved as moved:
            self._resign(str(moved), tenure)
            self._enqueue(ControllerChanged())

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """The loop ends only by `stop`, or by a bug: then another broker is to have the office, and the bug is told."""
        if task.cancelled():
            return
        self._resign("it failed")
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._abdicate(), name="controller-abdicates")
        error = task.exception()
        loop.call_exception_handler({"message": "the controller failed", "exception": error, "task": task})

    async def _abdicate(self) -> None:
        """Delete `/controller` if it is ours; if that fails too, it goes with the session."""
        try:
            held = await election.holder(self._store)
            if held.session_id == self._store.session_id:
                await self._store.delete(CONTROLLER_PATH)
        except StoreError as error:
            log.error("the office is not given up: %s", error)

    # The office.

    async def _look_at_office(self) -> None:
        """Who is it? Resign if it is somebody else; stand if it is nobody."""
        try:
            await self._register_again()
            held = await election.holder(self._store)
            ours = held.session_id != 0 and held.session_id == self._store.session_id
            if self._tenure is not None and not ours:
                self._resign("somebody else is the controller, or nobody")
            self._learn_controller(held.broker_id)
            if self._tenure is not None:
                return
            if ours:
                won = await election.recognize(self._store, self._last_epoch)
            elif held.broker_id == NO_CONTROLLER:
                won = await election.stand(self._store, self._clock, self.broker_id)
            else:
                return
        except (ConnectionLost, SessionExpired) as lost:
            log.info("no election now: %s", lost)  # Connected brings us back here
            return
        except BadZnode as bad:
            log.error("no election: %s", bad)
            return
        if won is not None:
            await self._take_office(won)

    async def _register_again(self) -> None:
        session_id = self._store.session_id
        if session_id and session_id != self._registered_session:
            if self._register is not None:
                await self._register()
            self._registered_session = session_id

    async def _take_office(self, won: Won) -> None:
        log.info("broker %d is the controller, epoch %d", self.broker_id, won.epoch)
        self._last_epoch = won.epoch
        store = ClusterStore(FencedStore(self._store, CONTROLLER_EPOCH_PATH, won.epoch_version))
        state = ClusterState(self.broker_id, won.epoch)
        self._tenure = Tenure(state, store, self._channels, lambda: self.config, self._clock, self._enqueue)
        self._learn_controller(self.broker_id)
        await failover.take_over(self._tenure, self._randomness)

    def _resign(self, why: str, tenure: Tenure | None = None) -> None:
        """Stop everything of a tenure (None: the present one) at once; what waits for the controller is refused."""
        if self._tenure is None or tenure not in (None, self._tenure):
            return
        log.info("broker %d is not the controller any more: %s", self.broker_id, why)
        self._tenure.close()
        self._tenure = None
        for waiting in self._queue:
            if isinstance(waiting, Call):
                waiting.refuse(not_controller())
        self._queue = deque(event for event in self._queue if isinstance(event, ControllerChanged))
        self._waiting = {ControllerChanged()} if self._queue else set()
        self._calls_queued = 0

    def _learn_controller(self, broker_id: int) -> None:
        if broker_id != self.controller_id:
            self.controller_id = broker_id
            if self._on_controller is not None:
                self._on_controller(broker_id)
