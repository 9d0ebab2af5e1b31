"""Requests of one step, merged: at most one LeaderAndIsr, UpdateMetadata and StopReplica per broker (FEATURES C9).

Kafka's ControllerBrokerRequestBatch. What is collected are names of partitions; the values are taken from the state
when the step is over, and the state holds only what ZooKeeper has accepted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from odradek.controller.elections import FIRST_LEADER_EPOCH
from odradek.controller.state import Broker, ClusterState, TopicPartition
from odradek.protocol.fields import Message
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.zk_schema.znodes.brokers import SECURITY_PROTOCOLS

LEADER_DURING_DELETE = -2
"""In UpdateMetadata: the partition is to be forgotten."""
TYPE_FULL = 2
"""In UpdateMetadata: there are no other partitions. Kafka's brokers take no notice of it here (KIP-866)."""
EPOCH_DURING_DELETE = -2
"""In StopReplica: obeyed whatever epoch the broker has."""
NO_EPOCH = -1
PARTS_BEFORE_PAUSE = 200


class RequestBatch:
    """Collects what one step wants brokers to know; `messages` empties it."""

    def __init__(self, state: ClusterState, listener: str) -> None:
        """`listener`: the name of the one that brokers use among themselves."""
        self._state = state
        self._listener = listener
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = defaultdict(dict)
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = defaultdict(dict)
        self._metadata_type = 0
        self._metadata_brokers: set[int] = set()
        self._metadata_partitions: dict[TopicPartition, None] = {}
        self._metadata_parts: dict[TopicPartition, UpdateMetadataPartitionState] = {}
        self._leader_and_isr_parts: dict[tuple[TopicPartition, bool], LeaderAndIsrPartitionState] = {}

    def leader_and_isr(self, brokers: Iterable[int], partition: TopicPartition, *, is_new: bool = False) -> None:
        """Tell replicas their leader, and so everybody the metadata. Once new stays new."""
        for broker in brokers:
            wanted = self._leader_and_isr[broker]
            wanted[partition] = is_new or wanted.get(partition, False)
        self.update_metadata([partition])

    def stop_replica(self, brokers: Iterable[int], partition: TopicPartition, *, delete: bool) -> None:
        """Stop following (or leading), and with `delete` remove the files. Once delete stays delete."""
        for broker in brokers:
            wanted = self._stop_replica[broker]
            wanted[partition] = delete or wanted.get(partition, False)

    def update_metadata(self, partitions: Iterable[TopicPartition], brokers: Iterable[int] | None = None) -> None:
        """Tell brokers (None: all) who lives, and these partitions; those without a leader yet are left out."""
        self._metadata_brokers.update(self._state.brokers if brokers is None else brokers)
        self._metadata_partitions.update(dict.fromkeys(partitions))

    def update_all_metadata(self, brokers: Iterable[int] | None = None) -> None:
        """Tell brokers (None: all) everything: what they know beside it is gone."""
        self.update_metadata(self._state.leaderships, brokers)
        self._metadata_type = TYPE_FULL

    def build(self) -> Iterator[None]:
        """Make the parts of the requests; yields now and then so that the caller can let others have their turn.

        Optional: `messages` makes what is not made yet.
        """
        wanted = dict.fromkeys(self._metadata_partitions)
        for number, partition in enumerate(wanted):
            if partition in self._state.leaderships:
                self._metadata_part(partition)
                for is_new in {brokers[partition] for brokers in self._leader_and_isr.values() if partition in brokers}:
                    self._leader_and_isr_part(partition, is_new)
            if number % PARTS_BEFORE_PAUSE == PARTS_BEFORE_PAUSE - 1:
                yield

    def messages(self) -> list[tuple[int, Message]]:
        """In Kafka's order: LeaderAndIsr to each broker, then UpdateMetadata, then StopReplica."""
        messages = [
            *((broker, self._leader_and_isr_request(b, p)) for broker, b, p in self._registered(self._leader_and_isr)),
            *self._update_metadata_requests(),
            *((broker, self._stop_replica_request(b, p)) for broker, b, p in self._registered(self._stop_replica)),
        ]
        self._leader_and_isr.clear()
        self._stop_replica.clear()
        self._metadata_type = 0
        self._metadata_brokers.clear()
        self._metadata_partitions.clear()
        self._metadata_parts.clear()
        self._leader_and_isr_parts.clear()
        return messages

    def _registered(
        self, wanted: dict[int, dict[TopicPartition, bool]]
    ) -> Iterable[tuple[int, Broker, dict[TopicPartition, bool]]]:
        for broker_id, partitions in sorted(wanted.items()):
            broker = self._state.brokers.get(broker_id)
            if broker is not None and partitions:
                yield broker_id, broker, partitions

    # LeaderAndIsr.

    def _leader_and_isr_request(self, broker: Broker, partitions: dict[TopicPartition, bool]) -> LeaderAndIsrRequest:
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: set[int] = set()
        for partition, is_new in partitions.items():
            name = partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = LeaderAndIsrTopicState(topic_name=name, topic_id=self._topic_id(name))
            topic.partition_states.append(self._leader_and_isr_part(partition, is_new))
            leaders.add(self._state.leaderships[partition].leader)
        return LeaderAndIsrRequest(
            controller_id=self._state.controller_id,
            controller_epoch=self._state.controller_epoch,
            broker_epoch=broker.epoch,
            topic_states=list(topics.values()),
            live_leaders=self._live_leaders(leaders),
        )

    def _leader_and_isr_part(self, partition: TopicPartition, is_new: bool) -> LeaderAndIsrPartitionState:
        """All brokers are told the same."""
        part = self._leader_and_isr_parts.get((partition, is_new))
        if part is None:
            part = self._leader_and_isr_state(partition, is_new)
            self._leader_and_isr_parts[(partition, is_new)] = part
        return part

    def _leader_and_isr_state(self, partition: TopicPartition, is_new: bool) -> LeaderAndIsrPartitionState:
        leadership = self._state.leaderships[partition]
        assignment = self._state.assignment(partition)
        return LeaderAndIsrPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=list(leadership.isr),
            partition_epoch=leadership.partition_epoch,
            replicas=list(assignment.replicas),
            adding_replicas=list(assignment.adding),
            removing_replicas=list(assignment.removing),
            is_new=is_new,
            leader_recovery_state=int(leadership.recovering),
        )

    def _live_leaders(self, leaders: set[int]) -> list[LeaderAndIsrLiveLeader]:
        live = []
        for broker_id in sorted(leaders & self._state.brokers.keys()):
            at = self._state.brokers[broker_id].registration.endpoint(self._listener)
            if at is not None:
                live.append(LeaderAndIsrLiveLeader(broker_id=broker_id, host_name=at.host, port=at.port))
        return live

    def _topic_id(self, topic: str) -> bytes:
        return self._state.topic_ids.get(topic, ZERO_UUID)

    # UpdateMetadata.

    def _update_metadata_requests(self) -> list[tuple[int, Message]]:
        told = sorted(self._metadata_brokers & self._state.brokers.keys())
        if not told:
            return []
        topics, brokers = self._metadata_topics(), self._metadata_live_brokers()
        return [
            (
                broker_id,
                UpdateMetadataRequest(
                    type=self._metadata_type,
                    controller_id=self._state.controller_id,
                    controller_epoch=self._state.controller_epoch,
                    broker_epoch=self._state.brokers[broker_id].epoch,
                    topic_states=topics,
                    live_brokers=brokers,
                ),
            )
            for broker_id in told
        ]

    def _metadata_topics(self) -> list[UpdateMetadataTopicState]:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition in self._metadata_partitions:
            if partition not in self._state.leaderships:
                continue
            name = partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = UpdateMetadataTopicState(topic_name=name, topic_id=self._topic_id(name))
            topic.partition_states.append(self._metadata_part(partition))
        return list(topics.values())

    def _metadata_part(self, partition: TopicPartition) -> UpdateMetadataPartitionState:
        part = self._metadata_parts.get(partition)
        if part is None:
            part = self._metadata_parts[partition] = self._metadata_state(partition)
        return part

    def _metadata_state(self, partition: TopicPartition) -> UpdateMetadataPartitionState:
        leadership, replicas = self._state.leaderships[partition], self._state.replicas(partition)
        if self._state.being_deleted(partition):
            leadership = leadership._replace(
                leader=LEADER_DURING_DELETE, leader_epoch=FIRST_LEADER_EPOCH, partition_epoch=0
            )
        return UpdateMetadataPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=list(leadership.isr),
            zk_version=leadership.partition_epoch,
            replicas=list(replicas),
            offline_replicas=[broker for broker in replicas if not self._state.is_online(broker, partition)],
        )

    def _metadata_live_brokers(self) -> list[UpdateMetadataBroker]:
        return [
            UpdateMetadataBroker(
                id=broker_id,
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=at.port,
                        host=at.host,
                        listener=at.listener,
                        security_protocol=SECURITY_PROTOCOLS.index(at.security_protocol),
                    )
                    for at in broker.registration.endpoints
                ],
                rack=broker.registration.rack,
            )
            for broker_id, broker in sorted(self._state.brokers.items())
        ]

    # StopReplica.

    def _stop_replica_request(self, broker: Broker, partitions: dict[TopicPartition, bool]) -> StopReplicaRequest:
        topics: dict[str, StopReplicaTopicState] = {}
        for partition, delete in partitions.items():
            topic = topics.setdefault(partition.topic, StopReplicaTopicState(topic_name=partition.topic))
            topic.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=partition.partition,
                    leader_epoch=self._stop_epoch(partition),
                    delete_partition=delete,
                )
            )
        return StopReplicaRequest(
            controller_id=self._state.controller_id,
            controller_epoch=self._state.controller_epoch,
            broker_epoch=broker.epoch,
            topic_states=list(topics.values()),
        )

    def _stop_epoch(self, partition: TopicPartition) -> int:
        if self._state.being_deleted(partition):
            return EPOCH_DURING_DELETE
        leadership = self._state.leaderships.get(partition)
        return NO_EPOCH if leadership is None else leadership.leader_epoch
