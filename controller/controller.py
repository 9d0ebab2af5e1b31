"""The controller of one broker: a queue of events, handled one at a time (Kafka's KafkaController).

Every broker runs one; the one whose broker holds `/controller` is active and has an ActiveController. Events come from
watches, brokers' answers, timers and requests; ZooKeeper is read when an event is handled, not when it is queued. A
controller that is deposed, or whose session is gone, closes its ActiveController at once: the next step of whatever is
under way raises ControllerMoved.

    controller = Controller(store, clock, broker_id, config, channels, random.Random(), tasks)
    controller.start()             # after the broker has registered itself
    await controller.stop()        # then close the store: `/controller` goes with its session
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from odradek.broker.settings.cluster_settings import ControllerSettings
from odradek.controller import (
    broker_shutdown,
    controller_election,
    failover,
    flows,
    isr_updates,
    producer_id_blocks,
    reassignment,
    requested_elections,
)
from odradek.controller.active_controller import ActiveController, ControllerCounters
from odradek.controller.calls import Call, not_controller
from odradek.controller.channel_manager import Channels
from odradek.controller.cluster_state import Assignment, ClusterState
from odradek.controller.controller_election import NO_CONTROLLER, Elected
from odradek.controller.controller_store import ControllerMoved, ControllerStore
from odradek.controller.events import (
    ControllerChanged,
    Event,
    LeadersToBalance,
    UncleanElectionEnabled,
    event_of,
)
from odradek.journal.journal import Journal
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.topic_names import TopicPartition
from odradek.world.clock import Clock, Timer
from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.store import (
    Connected,
    ConnectionLost,
    Expired,
    NotAuthorized,
    SessionExpired,
    Store,
    StoreError,
    StoreEvent,
    WatchFired,
)
from odradek.zk_schema.znodes.cluster import ProducerIdBlock
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

T = TypeVar("T")

CALLS_QUEUED_MAX = 10_000
"""Most requests that may wait for the controller; further ones get REQUEST_TIMED_OUT, after which clients try again."""
ELECTION_RETRY_MS = 5_000
"""Pause before a broker stands for election again when `/controller_epoch` could not be read or written."""


class Controller:
    """Controller of one broker: it stands for election, is active for a while, and resigns."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        broker_id: int,
        config: ControllerSettings,
        channels: Channels,
        randomness: random.Random,
        tasks: Tasks,
        *,
        on_controller: Callable[[int], object] | None = None,
        epoch_obeyed: Callable[[], int] = lambda: 0,
        journal: Journal | None = None,
    ) -> None:
        """`on_controller` is called with the id of the active controller whenever that changes, whichever broker it is
        (NO_CONTROLLER when there is none). `tasks` supervises the task that handles events. `epoch_obeyed` returns the
        epoch of the latest controller whose requests this broker has obeyed.
        """
        self.broker_id, self.config = broker_id, config
        self.controller_id = NO_CONTROLLER
        """Broker that holds `/controller`, as far as is known here; NO_CONTROLLER when there is none."""
        self._store, self._clock, self._channels, self._randomness = store, clock, channels, randomness
        self._tasks, self._on_controller, self._epoch_obeyed = tasks, on_controller, epoch_obeyed
        self.counters = ControllerCounters()
        self.journal = journal or Journal(clock.now_ms)
        self._active: ActiveController | None = None
        self._last_epoch = -1
        self._queue: deque[tuple[Event | Call[object], float]] = deque()
        """Events and requests, each with the time when it came, in seconds of the performance counter."""
        self._waiting: set[Event] = set()
        self._calls_queued = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._retry: Timer | None = None
        self._started = False
        self._busy = False
        store.subscribe(self._on_store_event)

    # Life.

    def start(self) -> None:
        """Begin to watch `/controller` and to stand for election; the store is connected, the broker is registered."""
        self._started = True
        self._task = self._tasks.spawn("controller", self._run, OnDeath.RESTART)

    async def stop(self) -> None:
        """Resign. Harmless twice. `/controller` goes with the session, which the owner of the store ends next."""
        self._started = False
        if self._retry is not None:
            self._retry.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        self._resign("the broker stops")

    def configure(self, config: ControllerSettings) -> None:
        """Take over changed settings: hold the unclean elections that they now allow, and begin to balance leaders if
        they now ask for it."""
        before, self.config = self.config, config
        if self._active is None:
            return
        if config.unclean_leader_election_enable and not before.unclean_leader_election_enable:
            self.unclean_election_enabled(None)
        if config.auto_leader_rebalance_enable and not before.auto_leader_rebalance_enable:
            self._enqueue(LeadersToBalance())

    @property
    def is_active(self) -> bool:
        return self._active is not None

    @property
    def controller_epoch(self) -> int:
        """Epoch of this controller while it is active; -1 when it is not."""
        return -1 if self._active is None else self._active.state.controller_epoch

    @property
    def state(self) -> ClusterState | None:
        """Cluster as this controller knows it, to look at but not to change; None when it is not active."""
        return None if self._active is None else self._active.state

    def requests_queued(self) -> dict[int, int]:
        """Count the requests that wait to be sent, by broker id; empty when not active."""
        return {} if self._active is None else self._channels.queued_by_broker()

    @property
    def events_queued(self) -> int:
        """Number of events and requests that wait for their turn."""
        return len(self._queue)

    @property
    def idle(self) -> bool:
        """True when nothing waits and nothing is under way: for tests."""
        return not self._queue and not self._busy

    # What request handlers ask of it. Each raises KafkaError(NOT_CONTROLLER) when this broker is not the controller.

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        return await self._call("AlterPartition", lambda active: isr_updates.decide_proposals(active, request, version))

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move leaders away from a broker that stops; return the partitions that it still leads.

        Also raises BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH.
        """
        return await self._call(
            "ControlledShutdown", lambda active: broker_shutdown.shut_down(active, broker_id, broker_epoch)
        )

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election_type: int
    ) -> dict[TopicPartition, requested_elections.Outcome]:
        """Elect leaders of some partitions (None: all). `election_type` is that of the wire: 0 preferred, 1 unclean."""
        return await self._call(
            "ElectLeaders", lambda active: requested_elections.elect(active, partitions, election_type)
        )

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        """Hand out a block of producer ids. Also raises BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH,
        UNKNOWN_SERVER_ERROR (there are none left)."""
        return await self._call(
            "AllocateProducerIds", lambda active: producer_id_blocks.allocate(active, broker_id, broker_epoch)
        )

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, reassignment.Outcome]:
        """Begin to move partitions to other replicas; None as a target cancels what is under way."""
        return await self._call("AlterPartitionReassignments", lambda active: reassignment.reassign(active, targets))

    async def list_reassignments(self, partitions: Sequence[TopicPartition] | None) -> dict[TopicPartition, Assignment]:
        """Return the reassignments that are under way among some partitions (None: all)."""

        async def listed(active: ActiveController) -> dict[TopicPartition, Assignment]:
            return reassignment.under_way(active, partitions)

        return await self._call("ListPartitionReassignments", listed)

    def unclean_election_enabled(self, topic: str | None) -> None:
        """Elect leaders where changed settings now allow them from outside the ISR: in `topic`, or (None) in all topics
        without a setting of their own."""
        if self._active is not None:
            self._enqueue(UncleanElectionEnabled(topic))

    async def _call(self, name: str, work: Callable[[ActiveController], Awaitable[T]]) -> T:
        if self._active is None:
            raise not_controller()
        if self._calls_queued >= CALLS_QUEUED_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many requests wait for the controller")
        call = Call(work, name)
        self._calls_queued += 1
        self._queue.append((call, self._clock.perf_counter()))  # type: ignore[arg-type]  # only `answer` knows its type
        self._wake.set()
        return await call.answer

    # The queue.

    def _enqueue(self, event: Event) -> None:
        if event not in self._waiting:
            self._waiting.add(event)
            self._queue.append((event, self._clock.perf_counter()))
            self._wake.set()

    def _on_store_event(self, event: StoreEvent) -> None:
        if not self._started:
            return
        if isinstance(event, WatchFired):
            meant = event_of(event)
            if meant is not None and (self._active is not None or isinstance(meant, ControllerChanged)):
                self._enqueue(meant)
        elif isinstance(event, Expired):
            self._resign("the ZooKeeper session is gone")
            self._learn_controller(NO_CONTROLLER)
        elif isinstance(event, Connected):
            if self._active is not None:
                self._active.store.connection_changed()
            # What was lost with the connection (an answer, the whole session) is found by looking.
            self._enqueue(ControllerChanged())

    async def _run(self) -> None:
        """Handle events for ever.

        After an exception that nobody foresaw, what is known here may be wrong: resign at once, so that another broker
        may be elected. The task is restarted after a pause, and this broker stands for election again; whoever wins
        starts from what ZooKeeper has. (Kafka goes on with the next event and the state that it has.)
        """
        self._enqueue(ControllerChanged())
        try:
            while True:
                while self._queue:
                    event, came_s = self._queue.popleft()
                    self.counters.waited.add(self._clock.perf_counter() - came_s)
                    self._busy = True
                    await self._handle_measured(event)
                    self._busy = False
                self._wake.clear()
                await self._wake.wait()
        except Exception:
            self._busy = False
            if self._active is not None:
                self._resign("it failed")
                self._learn_controller(NO_CONTROLLER)
                await self._delete_own_znode()
            raise

    async def _handle_measured(self, event: Event | Call[object]) -> None:
        name = type(event).__name__
        began_s = self._clock.perf_counter()
        self.counters.present_event = name
        self.journal.begin(event.name if isinstance(event, Call) else name)
        try:
            await self._handle(event)
        finally:
            self.counters.present_event = ""
            self.journal.begin("")
        self.counters.handled(name, self._clock.perf_counter() - began_s)

    async def _handle(self, event: Event | Call[object]) -> None:
        if isinstance(event, Event):
            self._waiting.discard(event)
        else:
            self._calls_queued -= 1
        active = self._active
        try:
            if isinstance(event, ControllerChanged):
                await self._look_who_is_controller()
            elif active is None:
                if isinstance(event, Call):
                    event.refuse(not_controller())
            elif isinstance(event, Call):
                await event.carry_out(active)
            else:
                await flows.handle(active, event, self._randomness)
        except ControllerMoved as moved:
            self._resign(str(moved), active)
            self._enqueue(ControllerChanged())

    # Who is the controller?

    async def _look_who_is_controller(self) -> None:
        """Read `/controller`: resign if another broker holds it, stand for election if nobody does."""
        try:
            current = await controller_election.current_controller(self._store)
            ours = current.session_id != 0 and current.session_id == self._store.session_id
            if self._active is not None and not ours:
                self._resign("somebody else is the controller, or nobody")
            self._learn_controller(current.broker_id)
            if self._active is not None:
                return
            if ours:
                elected = await controller_election.recognize(self._store, current, self._last_epoch)
            elif current.broker_id == NO_CONTROLLER:
                seen = max(self._last_epoch, self._epoch_obeyed())
                elected = await controller_election.elect(self._store, self._clock, self.broker_id, seen)
            else:
                return
        except (ConnectionLost, SessionExpired) as lost:
            log.info("no election for now: %s", lost)  # Connected brings us back here
            return
        except (BadZnode, NotAuthorized) as bad:
            log.error("no election: %s", bad)
            await self._delete_own_znode()  # nobody shall take this broker for the controller
            self._stand_again_later()
            return
        if elected is not None:
            await self._become_controller(elected)

    def _stand_again_later(self) -> None:
        """Look again after a pause: no watch tells when `/controller_epoch` can be read again."""
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._clock.call_later(ELECTION_RETRY_MS, lambda: self._enqueue(ControllerChanged()))

    async def _become_controller(self, elected: Elected) -> None:
        log.info("broker %d is the controller, epoch %d", self.broker_id, elected.epoch)
        self._last_epoch = elected.epoch
        store = ControllerStore(self._store, CONTROLLER_EPOCH_PATH, elected.epoch_version, self.journal)
        state = ClusterState(self.broker_id, elected.epoch)
        active = ActiveController(
            state, store, self._channels, lambda: self.config, self._clock, self._enqueue, self.counters, self.journal
        )
        self.journal.note(
            "controller",
            str(self.broker_id),
            change="elected",
            epoch=elected.epoch,
            version=elected.epoch_version,
        )
        self._active = active
        self._learn_controller(self.broker_id)
        await failover.take_over(active, self._randomness)

    def _resign(self, why: str, active: ActiveController | None = None) -> None:
        """Close `active` (None: whichever is active now) at once, and refuse the requests that wait for it."""
        if self._active is None or active not in (None, self._active):
            return
        log.info("broker %d is not the controller any more: %s", self.broker_id, why)
        epoch = self._active.state.controller_epoch
        self.journal.note("controller", str(self.broker_id), change="resigned", epoch=epoch, reason=why)
        self._active.close()
        self._active = None
        for waiting, _ in self._queue:
            if isinstance(waiting, Call):
                waiting.refuse(not_controller())
        self._queue = deque(one for one in self._queue if isinstance(one[0], ControllerChanged))
        self._waiting = {ControllerChanged()} if self._queue else set()
        self._calls_queued = 0

    async def _delete_own_znode(self) -> None:
        """Delete `/controller` if it is ours. If that fails, too, the znode is found when this broker stands again."""
        try:
            await controller_election.delete_if_ours(self._store)
        except StoreError as error:
            log.error("/controller could not be deleted: %s", error)

    def _learn_controller(self, broker_id: int) -> None:
        if broker_id != self.controller_id:
            self.controller_id = broker_id
            if self._on_controller is not None:
                self._on_controller(broker_id)
