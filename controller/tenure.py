"""One epoch of being the controller: its state, its ZooKeeper, its channels, and the steps that flows are made of.

A step reads ZooKeeper, lets a machine plan, writes, takes in what was accepted, and sends what brokers must hear, in
that order. A lost race reads again. When an await is cut short (ControllerMoved), nothing is half true: the state says
what ZooKeeper accepted, and the next controller starts from ZooKeeper.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from odradek.broker.settings.cluster_settings import ControllerSettings
from odradek.controller import partition_machine, replica_machine, state_log
from odradek.controller.channels import Channels
from odradek.controller.cluster_store import ClusterStore
from odradek.controller.elections import Leadership, Strategy
from odradek.controller.events import Event, LeaderAndIsrAnswered, StopReplicaAnswered
from odradek.controller.fenced_store import ControllerMoved, slices
from odradek.controller.requests import RequestBatch
from odradek.controller.state import Broker, ClusterState, PartitionPhase, Replica, ReplicaPhase, TopicPartition
from odradek.protocol.fields import Message
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.world.clock import Clock, Timer
from odradek.zk_schema.store import BadVersion, ConnectionLost, NodeExists, StoreError

log = logging.getLogger(__name__)

SLICE = 200
"""Partitions that are worked on before others have their turn: some milliseconds."""


class Tenure:
    """Made by the loop when an election is won, closed when it resigns. Used by flows, one event at a time."""

    def __init__(
        self,
        state: ClusterState,
        store: ClusterStore,
        channels: Channels,
        config: Callable[[], ControllerSettings],
        clock: Clock,
        enqueue: Callable[[Event], None],
    ) -> None:
        self.state, self.store, self.clock = state, store, clock
        self._channels, self._config, self._enqueue = channels, config, enqueue
        self._timers: dict[Event, Timer] = {}
        self._closed = False

    @property
    def config(self) -> ControllerSettings:
        return self._config()

    def close(self) -> None:
        """Forget the brokers and the timers; every further ZooKeeper call or request raises ControllerMoved."""
        self._closed = True
        self.store.znodes.revoke()
        for timer in self._timers.values():
            timer.cancel()
        for broker_id in self.state.brokers:
            self._channels.remove_broker(broker_id)

    def later(self, delay_ms: float, event: Event) -> None:
        """Queue an event after a while; at most one of a kind waits."""
        if event in self._timers:
            self._timers[event].cancel()
        self._timers[event] = self.clock.call_later(delay_ms, lambda: self._enqueue(event))

    def soon(self, event: Event) -> None:
        self._enqueue(event)

    # Brokers.

    def connect(self, broker_id: int, broker: Broker) -> None:
        """Take a broker into the state and open a channel to it."""
        self.state.brokers[broker_id] = broker
        at = broker.registration.endpoint(self.config.inter_broker_listener_name)
        if at is None:
            log.error("broker %d has no listener %s", broker_id, self.config.inter_broker_listener_name)
            return
        self._channels.add_broker(broker_id, at.host, at.port)

    def disconnect(self, broker_id: int) -> None:
        del self.state.brokers[broker_id]
        self._channels.remove_broker(broker_id)

    # Requests.

    def batch(self) -> RequestBatch:
        return RequestBatch(self.state, self.config.inter_broker_listener_name)

    async def send(self, batch: RequestBatch) -> None:
        """Queue everything collected, in order per broker. Answers that matter come back as events."""
        for _ in batch.build():
            await self._breathe()
        for broker_id, message in batch.messages():
            self._channels.send(broker_id, message, self._answer_to(broker_id, message))

    async def _breathe(self) -> None:
        """Long work is cut into slices: others have their turn. Raises ControllerMoved after a resignation."""
        await asyncio.sleep(0)
        if self._closed:
            raise ControllerMoved("resigned")

    async def tell(self, partitions: Iterable[TopicPartition], brokers: Iterable[int] | None = None) -> None:
        """Only metadata, to all brokers or to some."""
        batch = self.batch()
        batch.update_metadata(partitions, brokers)
        await self.send(batch)

    async def tell_everything(self, brokers: Iterable[int] | None = None) -> None:
        """All metadata there is, to all brokers or to some, which forget whatever else they know."""
        batch = self.batch()
        batch.update_all_metadata(brokers)
        await self.send(batch)

    def _answer_to(self, broker_id: int, message: Message) -> Callable[[Message], None]:
        def answered(response: Message) -> None:
            if self._closed:
                return
            if isinstance(response, LeaderAndIsrResponse):
                self._enqueue(LeaderAndIsrAnswered(broker_id, response))
            elif isinstance(response, StopReplicaResponse):
                assert isinstance(message, StopReplicaRequest), message
                self._enqueue(StopReplicaAnswered(broker_id, message, response))

        return answered

    # Partitions.

    def move_partitions(self, partitions: Iterable[TopicPartition], target: PartitionPhase) -> None:
        for partition in partition_machine.move(self.state, partitions, target):
            phase = self.state.phase(partition)
            state_log.change_failed(self.clock, partition, target.value, f"it is {phase.value}")

    async def bring_online(
        self, partitions: Iterable[TopicPartition], strategy: Strategy, *, unclean: bool = False
    ) -> dict[TopicPartition, str]:
        """Elect leaders, first ones or new ones, and tell the brokers; returns those for which it failed, and why.

        `unclean` allows leaders outside the ISR whatever the topics say (an administrator's explicit order).
        """
        batch = self.batch()
        wanted = [p for p in partitions if partition_machine.may_become(self.state, p, PartitionPhase.ONLINE)]
        new = [partition for partition in wanted if self.state.phase(partition) is PartitionPhase.NEW]
        known = [partition for partition in wanted if self.state.phase(partition) is not PartitionPhase.NEW]
        failed: dict[TopicPartition, str] = {}
        for some in slices(new, SLICE):
            failed_here, existing = await self._initialize(some, batch)
            failed |= failed_here
            known += existing
        for some in slices(known, SLICE):
            failed |= await self._elect(some, strategy, unclean, batch)
        await self.send(batch)
        for partition, reason in failed.items():
            state_log.change_failed(self.clock, partition, strategy.value, reason)
        return failed

    async def _initialize(
        self, partitions: Sequence[TopicPartition], batch: RequestBatch
    ) -> tuple[dict[TopicPartition, str], list[TopicPartition]]:
        """First states; returns failures, and partitions that turn out to have a state already."""
        plan = partition_machine.first_states(self.state, partitions)
        failed, existing = plan.failed, []
        for partition, result in (await self.store.create_leaderships(plan.to_write)).items():
            if isinstance(result, Leadership):
                self._adopt(partition, None, result, "NewPartition")
                batch.leader_and_isr(result.isr, partition, is_new=True)
            elif isinstance(result, NodeExists | ConnectionLost):
                existing.append(partition)
            else:
                failed[partition] = str(result)
        return failed, existing

    async def _elect(
        self, partitions: Sequence[TopicPartition], strategy: Strategy, unclean: bool, batch: RequestBatch
    ) -> dict[TopicPartition, str]:
        failed: dict[TopicPartition, str] = {}
        remaining = list(partitions)
        while remaining:
            found = await self.store.leaderships(remaining)
            unclean_topics = await self._unclean_topics(strategy, found, unclean)
            plan = partition_machine.plan_elections(self.state, strategy, found, unclean_topics)
            failed |= plan.failed
            remaining = []
            for partition, result in (await self.store.update_leaderships(plan.to_write)).items():
                if isinstance(result, Leadership):
                    self._adopt(partition, plan.before[partition], result, strategy.value)
                    batch.leader_and_isr(partition_machine.recipients(self.state, strategy, partition), partition)
                elif lost_race(result):
                    remaining.append(partition)
                else:
                    failed[partition] = str(result)
        return failed

    async def _unclean_topics(
        self, strategy: Strategy, found: dict[TopicPartition, Leadership | None], unclean: bool
    ) -> set[str]:
        """Of partitions without a live replica in the ISR, the topics that allow a leader from outside it."""
        if strategy is not Strategy.OFFLINE_PARTITION:
            return set()
        hopeless = {
            partition.topic
            for partition, current in found.items()
            if current is not None and not self.state.online_among(current.isr, partition)
        }
        if unclean or not hopeless:
            return hopeless
        default = self.config.unclean_leader_election_enable
        return await self.store.allows_unclean_election(sorted(hopeless), default=default)

    def _adopt(self, partition: TopicPartition, before: Leadership | None, written: Leadership, why: str) -> None:
        partition_machine.adopt(self.state, partition, written)
        state_log.leadership_changed(self.clock, self.state, partition, before, written, why)

    # Replicas.

    async def move_replicas(self, replicas: Iterable[Replica], target: ReplicaPhase) -> None:
        """Into any phase but OFFLINE; tells the brokers."""
        batch = self.batch()
        for some in slices(list(replicas), SLICE):
            for replica in replica_machine.move(self.state, some, target, batch):
                phase = self.state.replica_phase(replica)
                reason = f"the replica on broker {replica.broker} is {phase.value}"
                state_log.change_failed(self.clock, replica.partition, f"replica {target.value}", reason)
            await self._breathe()
        await self.send(batch)

    async def take_offline(self, replicas: Iterable[Replica]) -> None:
        """Out of the ISRs, and tell the other replicas. Of topics to be deleted nobody needs the ISR any more."""
        batch = self.batch()
        by_broker: dict[int, list[TopicPartition]] = {}
        for replica in replica_machine.begin_offline(self.state, replicas, batch):
            partition, broker = replica
            if partition in self.state.leaderships and not self.state.being_deleted(partition):
                by_broker.setdefault(broker, []).append(partition)
            else:
                replica_machine.adopt_offline(self.state, replica, None, batch)
        for broker, partitions in by_broker.items():
            for some in slices(partitions, SLICE):
                await self._shrink(broker, some, batch)
        await self.send(batch)

    async def _shrink(self, broker: int, partitions: Sequence[TopicPartition], batch: RequestBatch) -> None:
        remaining = list(partitions)
        while remaining:
            found = await self.store.leaderships(remaining)
            plan = replica_machine.plan_removals(self.state, broker, found)
            remaining = []
            for partition, leadership in plan.unchanged.items():
                replica_machine.adopt_offline(self.state, Replica(partition, broker), leadership, batch)
            for partition, result in (await self.store.update_leaderships(plan.to_write)).items():
                if isinstance(result, Leadership):
                    replica_machine.adopt_offline(self.state, Replica(partition, broker), result, batch)
                    why = f"OfflineReplica {broker}"
                    state_log.leadership_changed(self.clock, self.state, partition, found[partition], result, why)
                elif lost_race(result):
                    remaining.append(partition)
                else:
                    plan.failed[partition] = str(result)
            for partition, reason in plan.failed.items():
                state_log.change_failed(self.clock, partition, f"replica {broker} Offline", reason)


def lost_race(error: StoreError) -> bool:
    """Whether a conditional write is to be decided again from what ZooKeeper says now."""
    return isinstance(error, BadVersion | ConnectionLost)
