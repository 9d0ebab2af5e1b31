"""What brokers are to be told, collected into requests: LeaderAndIsr, UpdateMetadata, StopReplica.

For each broker these are a LeaderAndIsr and an UpdateMetadata per thousand partitions, and at most one StopReplica.
Only the names of partitions are collected; their values are taken from the state when the step of a flow is over, and
the state holds only what ZooKeeper has accepted. Kafka's ControllerBrokerRequestBatch.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from odradek.controller.cluster_state import FIRST_LEADER_EPOCH, Broker, ClusterState
from odradek.controller.controller_store import slices
from odradek.protocol.codec import share
from odradek.protocol.fields import Message, SharedArray
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
    LEADER_DURING_DELETE,
    TYPE_FULL,
    TYPE_INCREMENTAL,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.brokers import SECURITY_PROTOCOLS

EPOCH_DURING_DELETE = -2
"""Leader epoch of a StopReplica that is obeyed whatever epoch the broker has."""
NO_EPOCH = -1
PARTITIONS_PER_REQUEST = 1000
"""Most partitions of a LeaderAndIsr, which is encoded in one piece, or of an UpdateMetadata that is not complete, which
brokers take over in one piece (10,000 partitions would take 20 ms)."""
VERSIONS: dict[int, int] = {4: 7, 5: 4, 6: 8}
"""Versions sent, by API key: those of inter.broker.protocol.version 3.9 (LeaderAndIsr, StopReplica, UpdateMetadata)."""


class RequestBatch:
    """Collects what one step of a flow has to tell brokers; `messages` empties it."""

    def __init__(self, state: ClusterState, listener: str) -> None:
        """`listener` is the name of the listener that brokers use among themselves."""
        self._state = state
        self._listener = listener
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = defaultdict(dict)
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = defaultdict(dict)
        self._metadata_type = TYPE_INCREMENTAL
        self._metadata_brokers: set[int] = set()
        self._metadata_partitions: dict[TopicPartition, None] = {}
        self._metadata_shares: list[SharedArray[UpdateMetadataTopicState]] = []
        """What each broker is told of partitions: by one complete request, or by several that are not."""
        self._leader_and_isr_parts: dict[tuple[TopicPartition, bool], LeaderAndIsrPartitionState] = {}

    def leader_and_isr(
        self, brokers: Iterable[int], partition: TopicPartition, *, is_new: bool = False, metadata: bool = True
    ) -> None:
        """Tell replicas their leader and, with `metadata`, all brokers of the partition. Once `is_new` it stays so."""
        for broker in brokers:
            wanted = self._leader_and_isr[broker]
            wanted[partition] = is_new or wanted.get(partition, False)
        if metadata:
            self.update_metadata([partition])

    def stop_replica(self, brokers: Iterable[int], partition: TopicPartition, *, delete: bool) -> None:
        """Stop replicas, followers or leaders, and with `delete` remove their files; later calls do not undo that."""
        for broker in brokers:
            wanted = self._stop_replica[broker]
            wanted[partition] = delete or wanted.get(partition, False)

    def update_metadata(self, partitions: Iterable[TopicPartition], brokers: Iterable[int] | None = None) -> None:
        """Tell brokers (None: all) which ones are alive, and of partitions; those without a state yet are left out."""
        self._metadata_brokers.update(self._state.brokers if brokers is None else brokers)
        self._metadata_partitions.update(dict.fromkeys(partitions))

    def update_all_metadata(self, brokers: Iterable[int] | None = None, *, complete: bool = True) -> None:
        """Tell brokers (None: all) of every partition that is known; if `complete`, they forget what else they know."""
        self.update_metadata(self._state.leader_and_isr, brokers)
        if complete:
            self._metadata_type = TYPE_FULL

    @property
    def is_full(self) -> bool:
        """True when there is enough for a whole request: a long step sends it before it goes on."""
        return len(self._metadata_partitions) >= PARTITIONS_PER_REQUEST

    def build(self) -> Iterator[None]:
        """Make what the requests share, and encode it once for all brokers; yields so that others have their turn.

        May be left out: `messages` makes whatever has not been made yet.
        """
        yield from self._make_shares()
        for partitions in tuple(self._leader_and_isr.values()):
            for partition, is_new in partitions.items():
                self._leader_and_isr_part(partition, is_new)
                yield

    def messages(self) -> Iterator[tuple[int, Message]]:
        """Make the requests, each when it is asked for: LeaderAndIsr to each broker, UpdateMetadata, StopReplica.

        That is Kafka's order. When all have been made, the batch is empty.
        """
        for broker_id, broker, partitions in self._registered(self._leader_and_isr):
            for some in self._told_together(partitions):
                yield broker_id, self._leader_and_isr_request(broker, some)
        yield from self._update_metadata_requests()
        for broker_id, broker, partitions in self._registered(self._stop_replica):
            yield broker_id, self._stop_replica_request(broker, partitions)
        self._leader_and_isr.clear()
        self._stop_replica.clear()
        self._metadata_type = TYPE_INCREMENTAL
        self._metadata_brokers.clear()
        self._metadata_partitions.clear()
        self._metadata_shares.clear()
        self._leader_and_isr_parts.clear()

    def _registered(
        self, wanted: dict[int, dict[TopicPartition, bool]]
    ) -> Iterable[tuple[int, Broker, dict[TopicPartition, bool]]]:
        for broker_id, partitions in sorted(wanted.items()):
            broker = self._state.brokers.get(broker_id)
            if broker is not None and partitions:
                yield broker_id, broker, partitions

    # LeaderAndIsr.

    def _told_together(self, partitions: dict[TopicPartition, bool]) -> Iterator[Sequence[tuple[TopicPartition, bool]]]:
        """Cut what a broker is told into requests. A topic without an id has its own, as answers name topics by id."""
        with_id: list[tuple[TopicPartition, bool]] = []
        without_id: dict[str, list[tuple[TopicPartition, bool]]] = defaultdict(list)
        for partition, is_new in partitions.items():
            named = partition.topic in self._state.topic_ids
            (with_id if named else without_id[partition.topic]).append((partition, is_new))
        for some in (with_id, *without_id.values()):
            yield from slices(some, PARTITIONS_PER_REQUEST)

    def _leader_and_isr_request(
        self, broker: Broker, partitions: Iterable[tuple[TopicPartition, bool]]
    ) -> LeaderAndIsrRequest:
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: set[int] = set()
        for partition, is_new in partitions:
            name = partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = LeaderAndIsrTopicState(topic_name=name, topic_id=self._topic_id(name))
            topic.partition_states.append(self._leader_and_isr_part(partition, is_new))
            leaders.add(self._state.leader_and_isr[partition].leader)
        return LeaderAndIsrRequest(
            controller_id=self._state.controller_id,
            controller_epoch=self._state.controller_epoch,
            broker_epoch=broker.epoch,
            topic_states=list(topics.values()),
            live_leaders=self._live_leaders(leaders),
        )

    def _leader_and_isr_part(self, partition: TopicPartition, is_new: bool) -> LeaderAndIsrPartitionState:
        """Make a part once: all brokers are told the same."""
        part = self._leader_and_isr_parts.get((partition, is_new))
        if part is None:
            part = self._leader_and_isr_state(partition, is_new)
            self._leader_and_isr_parts[(partition, is_new)] = part
        return part

    def _leader_and_isr_state(self, partition: TopicPartition, is_new: bool) -> LeaderAndIsrPartitionState:
        leader_and_isr = self._state.leader_and_isr[partition]
        assignment = self._state.assignment(partition)
        return LeaderAndIsrPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leader_and_isr.controller_epoch,
            leader=leader_and_isr.leader,
            leader_epoch=leader_and_isr.leader_epoch,
            isr=list(leader_and_isr.isr),
            partition_epoch=leader_and_isr.partition_epoch,
            replicas=list(assignment.replicas),
            adding_replicas=list(assignment.adding),
            removing_replicas=list(assignment.removing),
            is_new=is_new,
            leader_recovery_state=int(leader_and_isr.recovering),
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

    def _update_metadata_requests(self) -> Iterator[tuple[int, Message]]:
        """Make each broker's requests; without partitions there is one, which says which brokers are alive."""
        if not self._metadata_shares:
            for _ in self._make_shares():
                pass
        brokers = self._metadata_live_brokers()
        for broker_id in sorted(self._metadata_brokers & self._state.brokers.keys()):
            for topics in self._metadata_shares:
                request = UpdateMetadataRequest(
                    type=self._metadata_type,
                    controller_id=self._state.controller_id,
                    controller_epoch=self._state.controller_epoch,
                    broker_epoch=self._state.brokers[broker_id].epoch,
                    topic_states=topics,
                    live_brokers=brokers,
                )
                yield broker_id, request

    def _make_shares(self) -> Iterator[None]:
        topics: dict[str, UpdateMetadataTopicState] = {}
        collected = 0
        for partition in tuple(self._metadata_partitions):
            if partition not in self._state.leader_and_isr:
                continue
            name = partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = UpdateMetadataTopicState(topic_name=name, topic_id=self._topic_id(name))
            topic.partition_states.append(self._metadata_state(partition))
            collected += 1
            if collected % PARTITIONS_PER_REQUEST == 0 and self._metadata_type != TYPE_FULL:
                yield from self._share(topics)
                topics = {}
            yield
        if topics or not self._metadata_shares:
            yield from self._share(topics)

    def _share(self, topics: dict[str, UpdateMetadataTopicState]) -> Iterator[None]:
        version = VERSIONS[UpdateMetadataRequest.API_KEY]
        self._metadata_shares.append((yield from share(UpdateMetadataRequest, version, list(topics.values()))))

    def _metadata_state(self, partition: TopicPartition) -> UpdateMetadataPartitionState:
        leader_and_isr, replicas = self._state.leader_and_isr[partition], self._state.replicas(partition)
        if self._state.being_deleted(partition):
            leader_and_isr = leader_and_isr._replace(
                leader=LEADER_DURING_DELETE, leader_epoch=FIRST_LEADER_EPOCH, partition_epoch=0
            )
        return UpdateMetadataPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leader_and_isr.controller_epoch,
            leader=leader_and_isr.leader,
            leader_epoch=leader_and_isr.leader_epoch,
            isr=list(leader_and_isr.isr),
            zk_version=leader_and_isr.partition_epoch,
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
        leader_and_isr = self._state.leader_and_isr.get(partition)
        return NO_EPOCH if leader_and_isr is None else leader_and_isr.leader_epoch
