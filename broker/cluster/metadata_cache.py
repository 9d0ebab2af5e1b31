"""Metadata of the whole cluster as controllers tell this broker of it by UpdateMetadata and LeaderAndIsr.

Kafka's ZkMetadataCache, with a memory: that a topic is not in it means that this broker does not know the topic, and
not that the topic is gone. A controller that has just been elected says who is alive, then who leads, and the rest only
when that is answered; a broker whose session had expired was told nothing meanwhile.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from odradek.broker.cluster.controller_messages import partition_states
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.update_metadata import (
    LEADER_DURING_DELETE,
    TYPE_FULL,
    TYPE_UNKNOWN,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import PartitionKey
from odradek.zk_schema.znodes.brokers import SECURITY_PROTOCOLS

T = TypeVar("T")

NO_CONTROLLER = -1
NO_BROKERS: list[int] = []
SHARED_LISTS_MAX = 1_000
"""Number of different lists of brokers that are kept for partitions to share; when there are more, all are dropped."""
DELETED_TOPICS_MAX = 10_000
"""Deleted topics that are remembered; the one that was deleted first is forgotten first."""


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


class TopicNames(NamedTuple):
    """Translation between the names and the ids of topics; unknown ones give "" and ZERO_UUID."""

    ids_by_name: dict[str, bytes]
    names_by_id: dict[bytes, str]


class MetadataCache:
    """Brokers, topics and partitions of the cluster. Changed by controllers' requests alone, after their fences.

    States of partitions, and the lists in them, are not to be changed: partitions share lists that say the same.
    """

    def __init__(self) -> None:
        self.brokers: dict[int, LiveBroker] = {}
        self.topics: dict[str, dict[int, UpdateMetadataPartitionState]] = {}
        self.names = TopicNames({}, {})
        self.controller_id = NO_CONTROLLER
        self._subscribers: dict[Callable[[], object], None] = {}
        self._controller_epoch = self._broker_epoch = -1
        """Controller epoch and broker epoch of the last request."""
        self._is_complete = False
        """True if, under these epochs, it has been told of all partitions."""
        self._deleted_names: dict[str, None] = {}
        self.deleted_ids: dict[bytes, None] = {}
        """Ids of deleted topics, in the order of their deletion. They stay when there is a topic of that name again, so
        that a late LeaderAndIsr cannot give it the old id."""
        self._replaced: dict[PartitionKey, None] = {}
        """Partitions of topics whose names others have now, that `update` has not returned yet."""
        self._lists: dict[tuple[int, ...], list[int]] = {}

    def subscribe(self, look: Callable[[], object]) -> None:
        """Call `look` after every update, and whenever the controller is another broker.

        For requests that wait until this broker knows what they have brought about, and for clients that give up
        requests to a broker which is not there any more.
        """
        self._subscribers[look] = None

    def unsubscribe(self, look: Callable[[], object]) -> None:
        """End a subscription. Harmless where there is none."""
        self._subscribers.pop(look, None)

    def share_lists(self, request: UpdateMetadataRequest) -> Iterator[None]:
        """Have the partitions of a request, before its `update`, share lists of brokers with each other and with those
        that are known: the lists are most of a partition. Nobody sees anything of it; may be paused at each yield."""
        for _, _, state in partition_states(request):
            self._share_lists(state)
            yield

    def update(self, request: UpdateMetadataRequest) -> list[PartitionKey]:
        """Take over what a controller says, at once; returns the partitions that have been deleted.

        A complete request replaces all that was known: partitions that are not in it have been deleted. There is one
        such request under the same epochs. A second one is a late copy, which knows nothing of topics created since.
        """
        complete = self._holds_everything(request)
        self._enter(request.controller_epoch, request.broker_epoch)
        if complete and self._is_complete:
            return []
        self._is_complete = self._is_complete or complete
        self.controller_id = request.controller_id
        self.brokers = {
            broker.id: LiveBroker(broker.id, dict(_endpoints(broker)), broker.rack) for broker in request.live_brokers
        }
        former = dict(self.topics) if complete else {}
        topics = {} if complete else self.topics
        deleted = []
        for topic, topic_id, state in partition_states(request):
            if state.leader == LEADER_DURING_DELETE:
                if self._is_back(topic, topic_id):
                    continue
                self._name(topic, topic_id)
                deleted.append((topic, state.partition_index))
            else:
                self._name(topic, topic_id)
                topics.setdefault(topic, {})[state.partition_index] = state
        self.topics = topics
        if complete:
            deleted += sorted(_lacking(former, self.topics).difference(deleted))
        for topic, index in deleted:
            self._delete(topic, index)
        replaced, self._replaced = self._replaced, {}
        self._tell()
        return list(dict.fromkeys((*deleted, *replaced)))

    def learn_ids(self, request: LeaderAndIsrRequest) -> None:
        """Take the ids of topics from a LeaderAndIsr: followers fetch by id before the UpdateMetadata has come."""
        self._enter(request.controller_epoch, request.broker_epoch)
        for topic in request.topic_states:
            if topic.topic_id not in self.deleted_ids:
                self._name(topic.topic_name, topic.topic_id)

    def is_deleted(self, topic: str, index: int) -> bool:
        """Tell whether there is evidence that a partition, which existed once, has been deleted. False says nothing.

        The evidence is that a controller has said so, or that the current controller has told this broker, under its
        current registration, of all partitions, and this one is not among them. That a partition is not known here is
        no evidence: `partition` may be None because nobody has said anything yet.
        """
        if self.partition(topic, index) is not None:
            return False
        is_there = topic in self.topics or topic in self.names.ids_by_name
        return self._is_complete or (topic in self._deleted_names and not is_there)

    def _is_back(self, topic: str, topic_id: bytes) -> bool:
        """Tell whether the topic of that id has been deleted, and there is another of its name."""
        return topic_id in self.deleted_ids and self.names.ids_by_name.get(topic) not in (None, topic_id)

    def _holds_everything(self, request: UpdateMetadataRequest) -> bool:
        """Tell whether an UpdateMetadata names all partitions of the cluster.

        Our controllers say it in `type`. Kafka's do not: of theirs the first after a new registration of this broker
        has all partitions, unless the controller was elected just then, whose first has none.

        Sources: KafkaController.onBrokerStartup (all partitions), onControllerFailover (none).
        """
        if request.type != TYPE_UNKNOWN:
            return request.type == TYPE_FULL
        return request.broker_epoch > self._broker_epoch and bool(request.topic_states)

    def _enter(self, controller_epoch: int, broker_epoch: int) -> None:
        if controller_epoch > self._controller_epoch or broker_epoch > self._broker_epoch:
            self._controller_epoch = max(self._controller_epoch, controller_epoch)
            self._broker_epoch = max(self._broker_epoch, broker_epoch)
            self._is_complete = False

    def _share_lists(self, state: UpdateMetadataPartitionState) -> None:
        replicas = state.replicas = self._shared(state.replicas)
        state.isr = replicas if state.isr == replicas else self._shared(state.isr)
        state.offline_replicas = self._shared(state.offline_replicas) if state.offline_replicas else NO_BROKERS

    def _shared(self, brokers: list[int]) -> list[int]:
        key = tuple(brokers)
        shared = self._lists.get(key)
        if shared is None:
            if len(self._lists) >= SHARED_LISTS_MAX:
                self._lists.clear()
            shared = self._lists[key] = brokers
        return shared

    def _name(self, topic: str, topic_id: bytes) -> None:
        """Take a topic's id. If it had another, this broker missed that topic's deletion, and its partitions go too."""
        if topic_id not in (self.names.ids_by_name.get(topic), ZERO_UUID):
            if topic in self.names.ids_by_name:
                self.names.names_by_id.pop(self.names.ids_by_name[topic], None)
                for index in self.topics.pop(topic, ()):
                    self._replaced[topic, index] = None
            self.names.ids_by_name[topic] = topic_id
            self.names.names_by_id[topic_id] = topic

    def _delete(self, topic: str, index: int) -> None:
        partitions = self.topics.get(topic, {})
        partitions.pop(index, None)
        if not partitions:
            self.topics.pop(topic, None)
            topic_id = self.names.ids_by_name.pop(topic, ZERO_UUID)
            self.names.names_by_id.pop(topic_id, None)
            _remember(self._deleted_names, topic)
            if topic_id != ZERO_UUID:
                _remember(self.deleted_ids, topic_id)

    def _tell(self) -> None:
        for look in tuple(self._subscribers):
            look()

    def controller_changed(self, broker_id: int) -> None:
        """Take note of whom ZooKeeper names as the controller (NO_CONTROLLER: nobody), before that one has told us."""
        if broker_id != self.controller_id:
            self.controller_id = broker_id
            self._tell()

    def is_alive(self, broker_id: int) -> bool:
        """Tell whether the controller counts a broker as living."""
        return broker_id in self.brokers

    def node(self, broker_id: int, listener: str) -> Node | None:
        """Return a live broker's address at a listener; None when it is not alive or does not have that listener."""
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.at(listener)

    def nodes(self, listener: str) -> list[Node]:
        """Return the live brokers that have that listener, by id."""
        return [node for _, broker in sorted(self.brokers.items()) if (node := broker.at(listener)) is not None]

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic; zeros when it is not known, or has none."""
        return self.names.ids_by_name.get(topic, ZERO_UUID)

    def partition(self, topic: str, index: int) -> UpdateMetadataPartitionState | None:
        return self.topics.get(topic, {}).get(index)

    def of_known(self, said: Mapping[PartitionKey, T]) -> dict[PartitionKey, T]:
        """Return what is said of partitions that are known here."""
        return {at: one for at, one in said.items() if self.partition(*at) is not None}

    def partition_count(self, topic: str) -> int:
        """Count the partitions of a topic; 0 when it is not known."""
        return len(self.topics.get(topic, ()))

    def leader_node(self, topic: str, index: int, listener: str) -> Node | None:
        """Return the address of a partition's leader at a listener; None when there is none, or it is not alive."""
        state = self.partition(topic, index)
        return None if state is None else self.node(state.leader, listener)


def _remember(deleted: dict[T, None], one: T) -> None:
    """Note a topic that is deleted, as the last one; forget the first of too many."""
    deleted.pop(one, None)
    deleted[one] = None
    if len(deleted) > DELETED_TOPICS_MAX:
        del deleted[next(iter(deleted))]


def _lacking(
    former: Mapping[str, Mapping[int, object]], present: Mapping[str, Mapping[int, object]]
) -> set[PartitionKey]:
    """Return the partitions of `former` that are not in `present`."""
    return {(topic, index) for topic, known in former.items() for index in known.keys() - present.get(topic, {}).keys()}


def _endpoints(broker: UpdateMetadataBroker) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield names of listeners and addresses, for any version: up to 2 a listener is called as its protocol."""
    if broker.v0_host:
        yield SECURITY_PROTOCOLS[0], (broker.v0_host, broker.v0_port)
    for at in broker.endpoints:
        if at.listener:
            yield at.listener, (at.host, at.port)
        elif 0 <= at.security_protocol < len(SECURITY_PROTOCOLS):
            yield SECURITY_PROTOCOLS[at.security_protocol], (at.host, at.port)
