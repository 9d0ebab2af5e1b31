"""The active controller: what it knows, its ZooKeeper, its channels to the brokers, its timers.

Made when an election is won, closed when the controller resigns. Flows (broker_changes, topic_changes, reassignment, …)
take it as their first argument and work on it, one event at a time. A step of a flow reads ZooKeeper, decides, writes,
adopts what was accepted, and sends what brokers must hear, in that order: no broker hears of a leader that ZooKeeper
does not know. When ControllerMoved cuts a flow short, nothing is half done: the state is what ZooKeeper has accepted,
and the next controller starts from ZooKeeper.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from odradek.broker.settings.cluster_settings import ControllerSettings
from odradek.controller.channel_manager import Channels
from odradek.controller.cluster_state import Broker, ClusterState, LeaderAndIsr
from odradek.controller.controller_store import ControllerMoved, ControllerStore
from odradek.controller.events import EpochRefused, Event, LeaderAndIsrAnswered, StopReplicaAnswered
from odradek.controller.request_batch import NO_EPOCH, RequestBatch
from odradek.journal.journal import Entry, Journal, plain
from odradek.journal.sentences import tell
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from odradek.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import TopicPartition
from odradek.world.clock import Clock, Timer
from odradek.world.durations import Durations
from odradek.world.time_slices import TimeSlice
from odradek.zk_schema.znodes.topics import NO_LEADER

log = logging.getLogger(__name__)
state_change = logging.getLogger("state.change.logger")
"""Logger of changes of partitions' leaders and ISRs, one line for each, in the words of `odradek why`:

    1700000000123 controller orders-3 leader 1 → 2, ISR {1,2,3} → {2,3}, leader epoch 4 → 5, partition epoch 9,
        controller epoch 7: the leader is shutting down and has handed over first (ControlledShutdown)

Time is in milliseconds since 1970, taken after ZooKeeper accepted the change and before any broker hears of it.
"""


class ControllerCounters:
    """Counts of what this broker's controller has done in all its terms of office (Kafka's ControllerStats)."""

    def __init__(self) -> None:
        self.elections = self.unclean_elections = 0
        """Leaders written to ZooKeeper; how many of them were elected from outside the ISR."""
        self.isr_changes = 0
        """Changes of in-sync replicas that leaders asked for, written to ZooKeeper."""
        self.waited = Durations()
        """Times that events and requests waited in the queue."""
        self.events: dict[str, Durations] = {}
        """Durations of handling events, by the kind of event."""
        self.present_event = ""
        """Kind of the event that is being handled now; empty when there is none."""

    def handled(self, event: str, seconds: float) -> None:
        """Count a handled event, and the time that it took."""
        self.events.setdefault(event, Durations()).add(seconds)


class ActiveController:
    """The controller in one of its epochs: what it knows, and what it can do."""

    def __init__(
        self,
        state: ClusterState,
        store: ControllerStore,
        channels: Channels,
        config: Callable[[], ControllerSettings],
        clock: Clock,
        enqueue: Callable[[Event], None],
        counters: ControllerCounters,
        journal: Journal,
    ) -> None:
        """`enqueue` puts an event into the controller's queue, unless an equal one waits there."""
        self.state, self.store = state, store
        self._channels, self._config, self._clock, self._enqueue = channels, config, clock, enqueue
        self.counters, self.journal = counters, journal
        self._timers: dict[Event, Timer] = {}
        self._slice = TimeSlice(clock)
        self._closed = False
        self._refusals_told: set[tuple[int, int, int]] = set()
        """Refusals that have been logged: broker, its epoch, error code."""

    @property
    def config(self) -> ControllerSettings:
        return self._config()

    def close(self) -> None:
        """Forget the brokers and the timers; every further ZooKeeper call or request raises ControllerMoved."""
        self._closed = True
        self.store.revoke()
        for timer in self._timers.values():
            timer.cancel()
        for broker_id in self.state.brokers:
            self._channels.remove_broker(broker_id)

    def later(self, delay_ms: float, event: Event) -> None:
        """Queue an event after `delay_ms`; it replaces an equal one that waits for its time."""
        if event in self._timers:
            self._timers[event].cancel()
        self._timers[event] = self._clock.call_later(delay_ms, lambda: self._enqueue(event))

    def soon(self, event: Event) -> None:
        """Queue an event behind those that wait already."""
        self._enqueue(event)

    async def yield_to_others(self) -> None:
        """Let other tasks run, between slices of long work. Raises ControllerMoved after a resignation."""
        await asyncio.sleep(0)
        self._check_not_resigned()

    async def pause(self) -> None:
        """Let other tasks run if the slice of time is over. Raises ControllerMoved after a resignation.

        Called in each round of a loop over partitions. All loops share one slice.
        """
        if await self._slice.pause_if_over():
            self._check_not_resigned()

    def _check_not_resigned(self) -> None:
        """Raise ControllerMoved after a resignation: the session may end between an answer and the step it was for."""
        if self._closed:
            raise ControllerMoved("resigned")

    # Brokers.

    def connect(self, broker_id: int, broker: Broker) -> None:
        """Take a broker into the state, and open a channel to it.

        A broker that is there already keeps its channel, with all that waits in it: only its address may change. Raises
        ControllerMoved after a resignation, when nobody would close the channel.
        """
        self._check_not_resigned()
        self.state.brokers[broker_id] = broker
        at = broker.registration.endpoint(self.config.controller_listener_name)
        if at is None:
            log.error(
                "broker %d gets no requests of the controller: it has no listener %s (inter.broker.listener.name, "
                "control.plane.listener.name)", broker_id, self.config.controller_listener_name,
            )  # fmt: skip
            return
        self._channels.add_broker(broker_id, at.host, at.port)

    def disconnect(self, broker_id: int) -> None:
        """Forget a broker that is gone, and its channel with what waits in it."""
        del self.state.brokers[broker_id]
        self._channels.remove_broker(broker_id)

    # States of partitions.

    async def present_states(
        self, partitions: Sequence[TopicPartition], *, from_zookeeper: bool
    ) -> dict[TopicPartition, LeaderAndIsr | None]:
        """Return partitions' states: those known here or, `from_zookeeper`, those it has now; None: there is no state.

        What is known here is good enough for a decision that is written, since the write succeeds only if no later
        controller has been elected and if the znode still has the version that is known: it is as if it had just been
        read. A decision that is not written, or whose write was refused, must be made again from ZooKeeper: leaders on
        brokers before 2.7 write ISRs there themselves, and a znode can be gone.
        """
        if from_zookeeper:
            return await self.store.leader_and_isr(partitions)
        return {partition: self.state.leader_and_isr.get(partition) for partition in partitions}

    # Requests.

    def batch(self) -> RequestBatch:
        return RequestBatch(self.state, self.config.inter_broker_listener_name)

    async def send(self, batch: RequestBatch) -> None:
        """Queue all requests of a batch, in order for each broker. Answers that matter come back as events."""
        for _ in batch.build():
            await self.pause()
        told: dict[str, list[int]] = {}
        for broker_id, message in batch.messages():
            self._check_not_resigned()
            brokers = told.setdefault(type(message).__name__.removesuffix("Request"), [])
            if broker_id not in brokers:
                brokers.append(broker_id)
            self._channels.send(broker_id, message, self._answer_to(broker_id, message))
            await self.yield_to_others()
        if told:
            self.journal.note("requests", "controller", sent=told)

    async def send_metadata(self, partitions: Iterable[TopicPartition], brokers: Iterable[int] | None = None) -> None:
        """Send an UpdateMetadata of these partitions and all live brokers to `brokers` (None: all)."""
        batch = self.batch()
        batch.update_metadata(partitions, brokers)
        await self.send(batch)

    async def send_all_metadata(self, brokers: Iterable[int] | None = None) -> None:
        """Send an UpdateMetadata of the whole cluster to `brokers` (None: all), which forget what else they know.

        While some znode cannot be read, the request is not marked as complete: brokers would take the partitions that
        it lacks for deleted.
        """
        batch = self.batch()
        batch.update_all_metadata(brokers, complete=not self.store.unreadable)
        await self.send(batch)

    def _answer_to(self, broker_id: int, message: Message) -> Callable[[Message], None]:
        def answered(response: Message) -> None:
            if self._closed:
                return
            if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.STALE_CONTROLLER_EPOCH:
                self._enqueue(EpochRefused(broker_id))
            if isinstance(response, LeaderAndIsrResponse):
                assert isinstance(message, LeaderAndIsrRequest), message
                without_id = (topic.topic_name for topic in message.topic_states if topic.topic_id == ZERO_UUID)
                self._enqueue(LeaderAndIsrAnswered(broker_id, message.broker_epoch, response, next(without_id, "")))
            elif isinstance(response, StopReplicaResponse):
                assert isinstance(message, StopReplicaRequest), message
                self._enqueue(StopReplicaAnswered(broker_id, message, response))

        return answered

    def is_present(self, broker_id: int, epoch: int) -> bool:
        """Tell whether a broker is registered with this broker epoch. Answers from an earlier life of a broker say
        nothing about its present one, which is told everything again."""
        broker = self.state.brokers.get(broker_id)
        return broker is not None and broker.epoch == epoch

    def is_new_refusal(self, broker_id: int, error_code: int) -> bool:
        """Tell whether it should be logged that a broker refuses requests with this code: once in each of its lives,
        since it will refuse whatever it is sent."""
        broker = self.state.brokers.get(broker_id)
        refusal = broker_id, broker.epoch if broker is not None else NO_EPOCH, error_code
        is_new = refusal not in self._refusals_told
        self._refusals_told.add(refusal)
        return is_new

    # The state-change log.

    def log_change(self, partition: TopicPartition, before: LeaderAndIsr | None, after: LeaderAndIsr, why: str) -> None:
        """Count and log a change that ZooKeeper has accepted, by the rule `why`; an unclean election is a warning."""
        unclean = before is not None and after.is_unclean_after(before)
        if unclean:
            self.counters.unclean_elections += 1
        if before is not None and before.leader_epoch == after.leader_epoch:
            self.counters.isr_changes += 1
        elif after.leader != NO_LEADER:
            self.counters.elections += 1
        entry = self.journal.note(
            "partition", str(partition), rule=why, unclean=unclean,
            before=before, after=after,
        )  # fmt: skip
        self._log_entry(logging.WARNING if unclean else logging.INFO, entry)

    def log_failure(self, partition: TopicPartition, what: str, reason: str) -> None:
        """Log that a partition stays as it was: `what` was tried, and the reason why it failed."""
        self._log_entry(logging.ERROR, self.journal.note("failure", str(partition), rule=what, reason=reason))

    def _log_entry(self, level: int, entry: Entry) -> None:
        """Write an entry of the journal to the state-change log, in the words that `odradek why` has for it."""
        if state_change.isEnabledFor(level):
            readable = plain(entry)
            state_change.log(
                level, "%d controller %s", self._clock.now_ms(), tell(readable), extra={"fields": readable}
            )
