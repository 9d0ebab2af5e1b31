"""Facts about a cluster at one moment, as they were gathered: plain values. None stands for what is not known."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from odradek.client.records import TopicPartition

DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"


@dataclass(frozen=True)
class DirectoryFacts:
    """An entry of a broker's `log.dirs`, with the size and the free space of its volume; -1 if the broker does not
    report them."""

    path: str
    online: bool
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(frozen=True)
class BrokerFacts:
    """A broker that is registered, or that holds a replica of some partition according to the metadata."""

    broker_id: int
    registered: bool = True
    """True when ZooKeeper has its registration, or, if ZooKeeper cannot be read, when the metadata names it."""
    address: str = ""
    registered_ms: int | None = None
    epoch: int | None = None
    """The czxid of its registration."""
    answers: bool | None = None
    """None: it was not asked."""
    settings: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[DirectoryFacts, ...] = ()


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that is open in a partition."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: int
    transactional_id: str | None = None
    """None: no coordinator that was asked lists it."""
    timeout_ms: int | None = None
    state: str | None = None
    """State at its coordinator: Ongoing, PrepareCommit, …; empty: no coordinator has it; None: not known, as not all
    could be asked."""


@dataclass(frozen=True)
class PartitionFacts:
    """A partition. `offline`: replicas whose broker or log directory is offline according to the metadata."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    """Each broker once, even if somebody has written it twice by hand."""
    leader_epoch: int = -1
    offline: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    changed_ms: int | None = None
    """Time of the last write of its state in ZooKeeper, in ms since 1970."""
    partition_epoch: int | None = None
    recovering: bool = False
    start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    sizes: Mapping[int, int] = field(default_factory=dict)
    """Size of each replica in bytes, by broker."""
    directories: Mapping[int, str] = field(default_factory=dict)
    """The log directory of each replica, by broker."""
    transactions: tuple[OpenTransaction, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class TopicFacts:
    """A topic. `deleting`: it is marked for deletion, since `deleting_ms` (ms since 1970)."""

    name: str
    partitions: Mapping[int, PartitionFacts] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False
    deleting_ms: int | None = None

    @cached_property
    def holders(self) -> list[int]:
        """Brokers that have a replica of any of its partitions."""
        return sorted({broker for one in self.partitions.values() for broker in one.replicas})

    @cached_property
    def moving(self) -> bool:
        """True while any of its partitions is being reassigned."""
        return any(one.adding or one.removing for one in self.partitions.values())


@dataclass(frozen=True)
class MemberFacts:
    """A member of a group."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...] = ()
    group_instance_id: str | None = None


@dataclass(frozen=True)
class GroupFacts:
    """A consumer group. `refusal`: why it could not be described; then nothing but `home` is known of it."""

    group_id: str
    state: str = ""
    coordinator: int = -1
    assignor: str = ""
    members: tuple[MemberFacts, ...] = ()
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    refusal: str = ""
    home: TopicPartition | None = None
    """The partition of `__consumer_offsets` whose leader coordinates it."""


@dataclass(frozen=True)
class JournalFacts:
    """A broker's journal: its entries, oldest first; how many older ones were dropped to make room (`forgotten`), and
    how many are left out here because their shape is not known (`unreadable`)."""

    broker_id: int
    began_ms: int
    forgotten: int = 0
    entries: tuple[Mapping[str, Any], ...] = ()
    unreadable: int = 0

    @property
    def since_ms(self) -> int:
        """Time from which on the journal is complete (ms since 1970)."""
        if self.forgotten and self.entries:
            return int(self.entries[0]["at_ms"])
        return self.began_ms


@dataclass(frozen=True)
class Facts:
    """Facts known of a cluster."""

    now_ms: int
    bootstrap: str = DEFAULT_BOOTSTRAP_SERVER
    command_config: str = ""
    """Path of the client's properties file (`--command-config`); empty if there is none."""
    controller: int | None = None
    """-1: there is none."""
    controller_epoch: int | None = None
    controller_since_ms: int | None = None
    brokers: Mapping[int, BrokerFacts] = field(default_factory=dict)
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    journals: Mapping[int, JournalFacts] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    """Sentences about what could not be learned, and why."""
    unreadable: tuple[str, ...] = ()
    """Znodes that exist but cannot be decoded, each with the reason; they are in `unknown`, too."""
    moves_known: bool = True
    """False if neither the controller nor ZooKeeper has told what is being moved."""
    zookeeper_silent: bool = False
    """True if ZooKeeper was asked and could not be read."""
    broker_files: Mapping[int, str] = field(default_factory=dict)
    """Paths of the properties files that `odradek up` has written below the current directory, by broker."""

    def partition(self, of: TopicPartition) -> PartitionFacts | None:
        topic = self.topics.get(of.topic)
        return None if topic is None else topic.partitions.get(of.partition)

    def is_registered(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.registered

    def command(self, words: str) -> str:
        """Return the command line with these words for this cluster."""
        at = "" if self.bootstrap == DEFAULT_BOOTSTRAP_SERVER else f" --bootstrap-server {shlex.quote(self.bootstrap)}"
        config = f" --command-config {shlex.quote(self.command_config)}" if self.command_config else ""
        return f"odradek {words}{at}{config}"
