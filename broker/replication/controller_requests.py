"""LeaderAndIsr, StopReplica and UpdateMetadata, applied: an old epoch changes nothing.

Four fences, in this order: the broker epoch (the request is meant for our current registration), the controller epoch
(its sender has not been deposed), the connection (its sender has not sent it again by a later one), and for each
partition the leader epoch, also that of replicas deleted here. Requests about replicas are applied one after another,
each to its end: one whose connection was lost must not be carried out amid later ones of the same sender.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Protocol

from odradek.broker.cluster.controller_messages import StoppedReplica, partition_states
from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.log.errors import NoRoom
from odradek.broker.log.log_manager import LogManager
from odradek.broker.replication.controller_fences import DeletedReplicas, LatestConnection
from odradek.broker.replication.fetcher_manager import FetcherManager
from odradek.broker.replication.isr import NO_BROKER_EPOCH, PartitionView
from odradek.broker.replication.partition import NO_EPOCH, NO_LEADER, Partition
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.journal.sentences import braces
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from odradek.protocol.messages.update_metadata import LEADER_DURING_DELETE, UpdateMetadataRequest
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock

state_change = logging.getLogger("state.change.logger")


class LeadershipListener(Protocol):
    """Hears which partitions this broker leads: the coordinators, by way of `CoordinatorElections`."""

    def on_elected(self, topic: str, index: int, leader_epoch: int) -> None:
        """Take note that this broker leads the partition from now on, in that epoch."""

    def on_resigned(self, topic: str, index: int) -> None:
        """Take note that this broker does not lead the partition, or not any more."""

    def on_partitions_deleted(self, partitions: Sequence[PartitionKey]) -> None:
        """Take note that the cluster does not have these partitions any more."""


class ControllerRequests:
    """Requests of controllers, fenced by their epochs and carried out on this broker's replicas."""

    def __init__(
        self,
        replicas: ReplicaManager,
        logs: LogManager,
        metadata: MetadataCache,
        fetchers: FetcherManager,
        coordinators: LeadershipListener,
        clock: Clock,
        least_obeyed_epoch: Callable[[], int],
        high_watermarks: dict[PartitionKey, int],
        topics_deleted: Callable[[Collection[str]], object],
    ) -> None:
        """Take the `high_watermarks` of the checkpoint file. What is meant for a broker epoch below
        `least_obeyed_epoch` is stale. `topics_deleted` is told of topics that the cluster does not have any more."""
        self._replicas, self._logs, self._metadata = replicas, logs, metadata
        self._fetchers, self._coordinators, self._clock = fetchers, coordinators, clock
        self._least_obeyed_epoch, self._topics_deleted = least_obeyed_epoch, topics_deleted
        self._checkpointed = high_watermarks
        self._undeleted: set[PartitionKey] = set()
        """Replicas whose logs are to be deleted and lie in a directory that has failed."""
        self._deleted, self._latest = DeletedReplicas(), LatestConnection()
        self._replicas_of = Counter[str]()
        """Number of replicas here, by topic."""
        self.in_turn = asyncio.Lock()
        """Held by the LeaderAndIsr or StopReplica that is being applied; the others wait in their order."""
        self.metadata_in_turn = asyncio.Lock()
        """Held by the large UpdateMetadata that is being decoded; the others wait in their order."""
        self.controller_epoch = 0
        self.lacks_room = False
        """Set when a disk is too full for a replica, or no file could be opened for it: the controller is to ask for it
        again."""

    def check(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Tell why a control request must not be obeyed; an obeyed one raises the controller epoch for all that
        follow."""
        if broker_epoch != NO_BROKER_EPOCH and broker_epoch < self._least_obeyed_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    def is_late(self, controller_epoch: int, connection: int) -> bool:
        """Tell whether a request that is to be obeyed comes by a connection that its controller may have given up.

        It is to be closed without an answer: a controller that is still there repeats the request on its latest one.
        """
        return controller_epoch == self.controller_epoch and self._latest.is_late(controller_epoch, connection)

    def high_watermark_of(self, key: PartitionKey) -> int | None:
        """Return a partition's high watermark for the checkpoint file, None if its log directory has failed.

        For a partition that no controller has mentioned since the start, it is the one that the file had: without it, a
        follower whose log has no leader epochs would drop all that it has (KAFKA-1647)."""
        partition = self._replicas.partitions.get(key)
        if partition is None:
            return self._checkpointed.get(key)
        return None if partition.offline else partition.high_watermark

    # ---- LeaderAndIsr

    def apply(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> ErrorCode:
        """Make this broker leader or follower of one partition; returns the error for its answer."""
        known = self._metadata  # the topic may be deleted and have replicas left, as one of them is out of reach
        is_deleted = topic_id in known.deleted_ids and topic_id != known.names.ids_by_name.get(topic)
        error = self._why_not_here(topic, topic_id, state, is_deleted=is_deleted)
        if error is not ErrorCode.NONE:
            return error
        try:
            partition = self._partition(topic, state.partition_index, topic_id, is_new=state.is_new)
        except KafkaError as failed:
            self.lacks_room = self.lacks_room or isinstance(failed, NoRoom)
            return failed.code
        error = self._why_not_taken(partition, state)
        if error is not ErrorCode.NONE:
            return error
        view = PartitionView(
            leader=NO_LEADER if is_deleted else state.leader,
            leader_epoch=state.leader_epoch,
            isr=tuple(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=tuple(state.replicas),
            adding=tuple(state.adding_replicas),
            removing=tuple(state.removing_replicas),
            recovering=state.leader_recovery_state != 0,
        )
        try:
            if view.leader == self._replicas.broker_id:
                self._lead(partition, view)
            else:
                self._follow(partition, view)
        except KafkaError as failed:
            self._fetchers.leave(partition)
            partition.stop_leading()  # it follows nobody either, so the same request is news when it comes again
            if failed.code is ErrorCode.KAFKA_STORAGE_ERROR and not partition.offline:
                self.lacks_room = True
            return failed.code
        return ErrorCode.NONE

    def _why_not_here(
        self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState, *, is_deleted: bool
    ) -> ErrorCode:
        """Return the error for a replica that this broker is not to have, or cannot; NONE if there is none."""
        key = topic, state.partition_index
        if self._replicas.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if key in self._undeleted:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if is_deleted and key not in self._replicas.partitions:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._deleted.deleted_after(topic_id, state.partition_index, state.leader_epoch):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    @staticmethod
    def _why_not_taken(partition: Partition, state: LeaderAndIsrPartitionState) -> ErrorCode:
        """Return the error for a state that a partition cannot take: its disk has failed, or it has a later one."""
        if partition.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if state.leader_epoch < partition.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if state.leader_epoch == partition.leader_epoch and state.partition_epoch < partition.partition_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def _partition(self, topic: str, index: int, topic_id: bytes, *, is_new: bool) -> Partition:
        """Find a partition, or make it with its log. Raises KafkaError: INCONSISTENT_TOPIC_ID, KAFKA_STORAGE_ERROR."""
        partition = self._replicas.partitions.get((topic, index))
        known = self._logs.topic_id(topic, index) if partition is None else partition.topic_id
        if known != topic_id and self._is_replaced(topic, index, known, topic_id):
            self._make_way(topic, index)
            partition = None
        if partition is None:
            replica_log = self._logs.get_or_create(topic, index, topic_id, is_new=is_new)
            high_watermark = self._checkpointed.pop((topic, index), 0)
            partition = Partition(
                topic, index, self._replicas.broker_id, replica_log, high_watermark, self._replicas.criteria,
                self._replicas.traffic.of_topic(topic),
            )  # fmt: skip
            self._replicas.partitions[(topic, index)] = partition
            self._replicas_of[topic] += 1
            self._deleted.forget(topic_id, index)
            self._replicas.moves.resume(partition)
        elif partition.topic_id == ZERO_UUID != topic_id and not partition.offline:
            self._logs.get_or_create(topic, index, topic_id)  # so that the id is on the disk, too
        if ZERO_UUID != partition.topic_id != topic_id != ZERO_UUID:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{topic}-{index} belongs to another topic id")
        partition.topic_id = partition.topic_id if topic_id == ZERO_UUID else topic_id
        return partition

    def _is_replaced(self, topic: str, index: int, former: bytes, topic_id: bytes) -> bool:
        """Tell whether another topic has this name now. LeaderAndIsr alone does not prove it, since it may be late."""
        metadata = self._metadata
        is_told = metadata.topic_id(topic) == topic_id and metadata.partition(topic, index) is not None
        is_over = former in metadata.deleted_ids and topic_id not in metadata.deleted_ids
        return ZERO_UUID not in (former, topic_id) and (is_told or is_over)

    def _make_way(self, topic: str, index: int) -> None:
        """Give up the replica of an earlier topic of this name, whose move or deletion this broker has missed; set
        its files aside, as a start would (cluster/stray_replicas.py). Raises KafkaError KAFKA_STORAGE_ERROR."""
        state_change.warning(
            "broker %d has %s-%d of an earlier topic of that name: its log is set aside",
            self._replicas.broker_id, topic, index,
        )  # fmt: skip
        error = self.stop(StoppedReplica(topic, index, NO_EPOCH, delete=True), keep_files=True)
        if error is not ErrorCode.NONE:
            raise KafkaError(error, f"{topic}-{index} of an earlier topic of that name cannot be set aside")

    def _lead(self, partition: Partition, view: PartitionView) -> None:
        was_leader, former_epoch = partition.is_leader, partition.leader_epoch
        if view.leader_epoch < partition.log.epochs.latest:
            state_change.error(
                "broker %d is to lead %s in epoch %d, but its log has records of epoch %d: ZooKeeper's data is older"
                " than the logs, and followers may keep other records than their leader (docs/operations.md: The znodes"
                " are lost, the disks are not)",
                self._replicas.broker_id, partition, view.leader_epoch, partition.log.epochs.latest,
            )  # fmt: skip
        self._fetchers.leave(partition)
        recovered = partition.lead(view, self._clock.monotonic_ms())
        if recovered is not None:
            self._replicas.submit_isr(recovered)
        if not was_leader or former_epoch != view.leader_epoch:
            state_change.info(
                "broker %d leads %s-%d from offset %d on, leader epoch %d, ISR %s",
                self._replicas.broker_id, partition.topic, partition.index, partition.leader_epoch_start_offset,
                view.leader_epoch, braces(view.isr),
            )  # fmt: skip
            self._coordinators.on_elected(partition.topic, partition.index, view.leader_epoch)
            self._replicas.role_changed(partition)
        else:
            self._replicas.members_changed(partition)

    def _follow(self, partition: Partition, view: PartitionView) -> None:
        was_leader = partition.is_leader
        same = partition.leader == view.leader and partition.leader_epoch == view.leader_epoch and not was_leader
        partition.follow(view)
        if same:
            return
        state_change.info(
            "broker %d follows %d for %s-%d from offset %d on, leader epoch %d",
            self._replicas.broker_id, view.leader, partition.topic, partition.index, partition.log.log_end_offset,
            view.leader_epoch,
        )  # fmt: skip
        if was_leader:
            self._coordinators.on_resigned(partition.topic, partition.index)
        self._replicas.role_changed(partition)
        if view.leader == NO_LEADER:
            self._fetchers.leave(partition)
        else:
            partition.drop_unconfirmed()
            self._fetchers.follow(partition)

    # ---- StopReplica

    def stop(self, stopped: StoppedReplica, *, keep_files: bool = False) -> ErrorCode:
        """Stop following or leading a partition, and with `delete` drop its log; returns the error for its answer.
        With `keep_files` the log is only renamed.

        KAFKA_STORAGE_ERROR when the log cannot be deleted because its directory has failed, perhaps before this broker
        was told of the partition, each time that it is asked for: the topic's deletion has to wait for that disk.
        """
        topic, index = key = stopped.topic, stopped.partition_index
        partition = self._replicas.partitions.get(key)
        if partition is None:
            if not stopped.delete:
                return ErrorCode.NONE
            is_lost = key in self._undeleted or self._logs.may_be_offline(*key)
            return ErrorCode.KAFKA_STORAGE_ERROR if is_lost else self._delete_log(*key, keep_files)
        if partition.offline and stopped.delete:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if 0 <= stopped.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self._fetchers.leave(partition)
        was_leader = partition.is_leader
        partition.stop_leading()
        if was_leader:
            self._coordinators.on_resigned(topic, index)
        error = ErrorCode.NONE
        if stopped.delete:
            del self._replicas.partitions[key]
            self._deleted.note(partition.topic_id, index, max(partition.leader_epoch, stopped.leader_epoch))
            self._replicas_of[topic] -= 1
            if not self._replicas_of[topic]:
                del self._replicas_of[topic]
                self._replicas.traffic.forget_topic(topic)
            self._replicas.moves.forget(topic, index)
            error = self._delete_log(topic, index, keep_files)
        if error is ErrorCode.NONE:
            state_change.info(
                "broker %d %s %s-%d", self._replicas.broker_id, "deletes" if stopped.delete else "stops", topic, index
            )
        self._replicas.role_changed(partition)
        return error

    def _delete_log(self, topic: str, index: int, keep_files: bool) -> ErrorCode:
        self._checkpointed.pop((topic, index), None)
        let_go = self._logs.set_aside_stray if keep_files else self._logs.delete
        try:
            let_go(topic, index)
        except KafkaError as failed:
            state_change.error("broker %d cannot delete %s-%d: %s", self._replicas.broker_id, topic, index, failed)
            self._undeleted.add((topic, index))
            return failed.code
        return ErrorCode.NONE

    # ---- our own session, our own disks

    def session_expired(self) -> list[Partition]:
        """Lead and coordinate nothing until a controller says so again. Returns what we led.

        Meanwhile other brokers coordinate and write what ours do not know; our coordinators load it when we lead again.
        """
        led = self._replicas.stop_leading_all()
        for partition in led:
            self._coordinators.on_resigned(partition.topic, partition.index)
        return led

    def directory_failed(self, keys: Sequence[PartitionKey]) -> None:
        """Take these partitions offline: the log directory that holds them cannot be used.

        Called in the midst of whatever ran into the failure, so the coordinators hear of it only when that is over.
        """
        for key in keys:
            partition = self._replicas.partitions.get(key)
            if partition is not None and partition.is_leader:
                self._clock.call_soon(partial(self._coordinators.on_resigned, *key))
        for partition in self._replicas.directory_failed(keys):
            self._fetchers.leave(partition)

    # ---- UpdateMetadata

    def update_metadata(self, request: UpdateMetadataRequest) -> None:
        """Take over the controller's view of the cluster."""
        former = self._metadata.brokers
        deleted = self._metadata.update(request)
        if not former.keys() <= self._metadata.brokers.keys():
            self._replicas.check_in_sync_replicas()
        self._delete_moved(request)
        if deleted:
            self._stop_serving(request)
            self._coordinators.on_partitions_deleted(deleted)
            self._topics_deleted({topic for topic, _ in deleted} - self._metadata.topics.keys())

    def _stop_serving(self, request: UpdateMetadataRequest) -> None:
        """Stop leading the partitions of topics that are being deleted, though StopReplica is yet to come.

        DeleteTopics is answered as soon as the metadata has forgotten the topics. Whoever had that answer could still
        write to them, and the records would be acknowledged and lost. Kafka's Produce and Fetch ask the metadata first.
        """
        led = []
        for topic, topic_id, state in partition_states(request):
            if state.leader != LEADER_DURING_DELETE or topic_id == ZERO_UUID:
                continue
            partition = self._replicas.partitions.get((topic, state.partition_index))
            if partition is not None and partition.is_leader and topic_id == partition.topic_id:
                led.append(partition)
        self._replicas.stop_leading(led)
        for partition in led:
            self._coordinators.on_resigned(partition.topic, partition.index)

    def _delete_moved(self, request: UpdateMetadataRequest) -> None:
        """Delete replicas that have been moved to other brokers, where the controller that did it died before it could
        say so: its successor knows of the new replicas only. Kafka's brokers in ZooKeeper mode keep such a replica
        until they are restarted, and may lead it.

        A replica in the ISR stays until its topic is deleted. One of a topic without an id stays: a late request about
        an earlier topic of that name could not be told from a new one. When this broker registers anew,
        cluster/stray_replicas.py does the same.
        """
        for topic, topic_id, state in partition_states(request):
            if self._replicas.broker_id in state.replicas:
                continue
            partition = self._replicas.partitions.get((topic, state.partition_index))
            if partition is None or topic_id == ZERO_UUID or topic_id != partition.topic_id:
                continue
            is_later = state.leader_epoch > partition.leader_epoch and self._replicas.broker_id not in state.isr
            if is_later or state.leader == LEADER_DURING_DELETE:
                leader_epoch = max(state.leader_epoch, partition.leader_epoch)
                self.stop(StoppedReplica(topic, state.partition_index, leader_epoch, delete=True))
