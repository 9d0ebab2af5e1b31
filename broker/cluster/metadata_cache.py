"""What this broker knows of the whole cluster, as the controller's UpdateMetadata requests tell it (FEATURES C15)."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from odradek.broker.replication.fetch_sessions import TopicNames
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from odradek.protocol.primitives import ZERO_UUID

LEADER_DURING_DELETE = -2
"""The leader of a partition that is being deleted: the partition is to be forgotten."""
NO_CONTROLLER = -1
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})


class Node(NamedTuple):
    """A broker at the address of one listener."""

    id: int
    host: str
    port: int
    rack: str | None = None


class LiveBroker(NamedTuple):
    """A registered broker."""

    id: int
    endpoints: Mapping[str, tuple[str, int]]
    """Address by the name of the listener."""
    rack: str | None

    def at(self, listener: str) -> Node | None:
        address = self.endpoints.get(listener)
        return None if address is None else Node(self.id, address[0], address[1], self.rack)


class MetadataCache:
    """Brokers, topics and partitions of the cluster. Only `update` changes it."""

    def __init__(self) -> None:
        self.brokers: dict[int, LiveBroker] = {}
        self.topics: dict[str, dict[int, UpdateMetadataPartitionState]] = {}
        self.names = TopicNames({}, {})
        self.controller_id = NO_CONTROLLER
        self._subscribers: dict[Callable[[], object], None] = {}

    def subscribe(self, look: Callable[[], object]) -> None:
        """Call `look` after every update, and whenever the controller is another broker.

        For requests that wait until this broker knows what they have brought about, and for clients that give up
        requests to a broker which is not there any more.
        """
        self._subscribers[look] = None

    def unsubscribe(self, look: Callable[[], object]) -> None:
        """End a subscription. Harmless where there is none."""
        self._subscribers.pop(look, None)

    def update(self, request: UpdateMetadataRequest) -> list[tuple[str, int]]:
        """Take over what a controller says; returns the partitions that it has deleted."""
        self.controller_id = request.controller_id
        self.brokers = {
            broker.id: LiveBroker(
                broker.id, {end.listener: (end.host, end.port) for end in broker.endpoints}, broker.rack
            )
            for broker in request.live_brokers
        }
        deleted = []
        for topic in request.topic_states:
            if topic.topic_id != ZERO_UUID:
                self._name(topic.topic_name, topic.topic_id)
            partitions = self.topics.setdefault(topic.topic_name, {})
            for state in topic.partition_states:
                if state.leader == LEADER_DURING_DELETE:
                    partitions.pop(state.partition_index, None)
                    deleted.append((topic.topic_name, state.partition_index))
                else:
                    partitions[state.partition_index] = state
            if not partitions:
                del self.topics[topic.topic_name]
                self.names.names_by_id.pop(self.names.ids_by_name.pop(topic.topic_name, ZERO_UUID), None)
        self._tell()
        return deleted

    def _tell(self) -> None:
        for look in tuple(self._subscribers):
            look()

    def _name(self, topic: str, topic_id: bytes) -> None:
        former = self.names.ids_by_name.get(topic)
        if former != topic_id:
            if former is not None:
                self.names.names_by_id.pop(former, None)
            self.names.ids_by_name[topic] = topic_id
            self.names.names_by_id[topic_id] = topic

    def controller_changed(self, broker_id: int) -> None:
        """ZooKeeper says who the controller is (NO_CONTROLLER: nobody), before it has told us itself."""
        if broker_id != self.controller_id:
            self.controller_id = broker_id
            self._tell()

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.brokers

    def node(self, broker_id: int, listener: str) -> Node | None:
        """A live broker's address at a listener; None when it is not alive or does not have that listener."""
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.at(listener)

    def nodes(self, listener: str) -> list[Node]:
        """All live brokers that have that listener, by id."""
        return [node for _, broker in sorted(self.brokers.items()) if (node := broker.at(listener)) is not None]

    def topic_id(self, topic: str) -> bytes:
        return self.names.ids_by_name.get(topic, ZERO_UUID)

    def partition(self, topic: str, index: int) -> UpdateMetadataPartitionState | None:
        return self.topics.get(topic, {}).get(index)

    def partition_count(self, topic: str) -> int:
        return len(self.topics.get(topic, ()))

    def leader_node(self, topic: str, index: int, listener: str) -> Node | None:
        state = self.partition(topic, index)
        return None if state is None else self.node(state.leader, listener)

    def has_topics(self, topics: Iterable[str]) -> bool:
        return all(topic in self.topics for topic in topics)
