"""Topics as administrators make and change them: checks, then the znodes that the controller watches (Kafka's
AdminZkClient and ZkAdminManager).

Nothing here needs to be the controller: in ZooKeeper mode every broker, and a tool, may write these znodes. The active
controller sees them and does the rest. Each function raises KafkaError with the code and text for the client.
"""

import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.controller.assignment import assign_replicas, check_assignment, check_numbering, random_start
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import collide, name_fault
from odradek.zk_schema.lost_answers import create_if_missing, repeated
from odradek.zk_schema.store import (
    BadVersion,
    ConnectionLost,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    Operation,
    SessionExpired,
    SetData,
    Stat,
    Store,
    StoreError,
    TooLarge,
    parent,
)
from odradek.zk_schema.znodes.admin import delete_topic_path
from odradek.zk_schema.znodes.configs import encode_config, topic_config_path
from odradek.zk_schema.znodes.json_data import BadZnode, uuid_text
from odradek.zk_schema.znodes.topics import TOPICS_PATH, PartitionReplicas, TopicAssignment, topic_path

BROKER_DEFAULT = -1
CLUSTER_METADATA = "__cluster_metadata"
"""KRaft's own topic: brokers of ZooKeeper mode have none, and nobody may create it."""
NEW_PARTITIONS_MAX = 10_000
"""Most new partitions of a topic in a request, as in KRaft (KAFKA-17870): a topic's znode has to fit into ZooKeeper's
megabyte, and whoever asks for two thousand million must not take the controller's memory."""

Racks = Mapping[int, str | None]
"""The live brokers and their racks."""
Charge = Callable[[int], object]
"""Called with the number of new partitions before they are written; may raise KafkaError to refuse them."""
CheckSettings = Callable[[Mapping[str, str]], None]
"""Raises KafkaError(INVALID_CONFIG) for settings that a topic cannot have."""

CONSUMER_OFFSETS_SETTINGS = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}
"""Settings of __consumer_offsets, which must never lose a key's last record, and is loaded segment by segment."""
TRANSACTION_STATE_SETTINGS = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "unclean.leader.election.enable": "false",
}
"""Settings of __transaction_state (TransactionLog.scala)."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic as it is asked for."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Instead of the two counts: replicas by partition."""
    settings: Mapping[str, str | None] = field(default_factory=dict)


class Defaults(NamedTuple):
    """The broker's num.partitions and default.replication.factor."""

    partitions: int
    replication_factor: int


class Created(NamedTuple):
    topic_id: bytes
    partitions: int
    replication_factor: int


@contextmanager
def zookeeper_refusals() -> Iterator[None]:
    """Raise a KafkaError for what ZooKeeper refuses in the block.

    NOT_CONTROLLER if the session or connection ends: the client looks for the controller and asks again.
    POLICY_VIOLATION, with which KRaft refuses too many partitions, if a topic is too large for ZooKeeper.
    UNKNOWN_SERVER_ERROR, after which clients do not ask again, for other refusals, such as those of access lists.
    """
    try:
        yield
    except (ConnectionLost, SessionExpired) as away:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, str(away)) from away
    except TooLarge as large:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, str(large)) from large
    except StoreError as refused:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(refused)) from refused


def check_name(topic: str) -> None:
    """Check that a topic may have this name. Raises KafkaError: INVALID_TOPIC_EXCEPTION."""
    fault = name_fault(topic)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


def new_topic_id(randomness: random.Random) -> bytes:
    """Return a random UUID whose text does not begin with a dash, which command lines would take for an option."""
    while True:
        topic_id = uuid.UUID(bytes=randomness.randbytes(16), version=4).bytes
        if not uuid_text(topic_id).startswith("-"):
            return topic_id


async def create_topic(
    store: Store,
    new: NewTopic,
    racks: Racks,
    defaults: Defaults,
    randomness: random.Random,
    check_settings: CheckSettings,
    *,
    validate_only: bool = False,
    charge: Charge = lambda partitions: None,
) -> Created:
    """Check everything, then write the settings and the assignment in one transaction. `validate_only` writes nothing
    and answers with the zero id; `charge` is told of the partitions before they are written, and may refuse them.

    Raises KafkaError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_REQUEST, INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, POLICY_VIOLATION.
    """
    check_name(new.name)
    if new.name == CLUSTER_METADATA:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {new.name} is prohibited.")
    with zookeeper_refusals():
        await _check_is_new(store, new.name)
    settings = _settings(new)
    assignment = _assignment(new, racks, defaults, randomness)
    check_settings(settings)
    topic_id = ZERO_UUID if validate_only else new_topic_id(randomness)
    if not validate_only:
        charge(len(assignment))
        data = TopicAssignment(
            {partition: PartitionReplicas(tuple(replicas)) for partition, replicas in assignment.items()}, topic_id
        )
        with zookeeper_refusals():
            await _write_topic(store, new.name, encode_config(settings), data)
    return Created(topic_id, len(assignment), len(assignment[0]))


async def _check_is_new(store: Store, topic: str) -> None:
    if await repeated(store, lambda: store.exists(topic_path(topic))) is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
    if await repeated(store, lambda: store.exists(delete_topic_path(topic))) is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' is marked for deletion.")
    if "." in topic or "_" in topic:
        others = [
            other for other in await repeated(store, lambda: store.children(TOPICS_PATH)) if collide(topic, other)
        ]
        if others:
            names = ", ".join(sorted(others))
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic}' collides with existing topics: {names}"
            )


def _settings(new: NewTopic) -> dict[str, str]:
    without = sorted(name for name, value in new.settings.items() if value is None)
    if without:
        names = ",".join(without)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {names}")
    return {name: value for name, value in new.settings.items() if value is not None}


def _assignment(
    new: NewTopic, racks: Racks, defaults: Defaults, randomness: random.Random
) -> Mapping[int, Sequence[int]]:
    if not new.assignment:
        partitions = defaults.partitions if new.partitions == BROKER_DEFAULT else new.partitions
        factor = defaults.replication_factor if new.replication_factor == BROKER_DEFAULT else new.replication_factor
        _check_count(partitions)
        start, shift = random_start(racks, randomness)
        return assign_replicas(racks, partitions, factor, start=start, shift=shift)
    if (new.partitions, new.replication_factor) != (BROKER_DEFAULT, BROKER_DEFAULT):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    check_assignment(new.assignment)
    check_numbering(list(new.assignment))
    return new.assignment


def _check_count(new_partitions: int) -> None:
    """Check a number of partitions against NEW_PARTITIONS_MAX. Raises KafkaError POLICY_VIOLATION."""
    if new_partitions > NEW_PARTITIONS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {new_partitions}, at most {NEW_PARTITIONS_MAX}.",
        )


async def _write_topic(store: Store, topic: str, settings: bytes, assignment: TopicAssignment) -> None:
    """Write the settings with the topic: whoever sees it finds them. Those of an earlier topic are replaced."""
    while True:
        found = await repeated(store, lambda: _read_assignment(store, topic))
        if found is not None:
            if found[0].topic_id == assignment.topic_id:
                return  # written before; the answer was lost
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
        path = topic_config_path(topic)
        left_over = await repeated(store, lambda: store.exists(topic_config_path(topic))) is not None
        first: Operation = SetData(path, settings) if left_over else Create(path, settings)
        try:
            await store.multi([first, Create(topic_path(topic), assignment.encode())])
        except ConnectionLost:
            continue
        except MultiFailed as failed:
            if not isinstance(failed.cause, NodeExists | NoNode):
                raise
            for above in (parent(path), TOPICS_PATH):
                await create_if_missing(store, above)


async def _read_assignment(store: Store, topic: str) -> tuple[TopicAssignment, Stat] | None:
    try:
        data, stat = await store.get(topic_path(topic))
    except NoNode:
        return None
    try:
        return TopicAssignment.decode(topic, data), stat
    except BadZnode as bad:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(bad)) from bad


async def auto_create_topic(
    store: Store,
    topic: str,
    racks: Racks,
    defaults: Defaults,
    randomness: random.Random,
    settings: Mapping[str, str] | None = None,
) -> ErrorCode:
    """Create a topic that Metadata or FindCoordinator asked for; this broker need not be the controller.

    `defaults` are, for internal topics, offsets.topic.num.partitions and the like; `settings` are not checked. Returns
    what to answer the client: LEADER_NOT_AVAILABLE (come back) when the topic was created, now or just before; else the
    reason why it cannot be.
    """
    try:
        new = NewTopic(topic, settings=settings or {})
        await create_topic(store, new, racks, defaults, randomness, lambda _: None)
    except KafkaError as error:
        match error.code:
            case ErrorCode.TOPIC_ALREADY_EXISTS | ErrorCode.NOT_CONTROLLER:
                return ErrorCode.LEADER_NOT_AVAILABLE
            case _:
                return error.code
    return ErrorCode.LEADER_NOT_AVAILABLE


def check_may_exist(topic: str) -> None:
    """Refuse a name that no topic can have: it would become a path. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION."""
    if name_fault(topic) is not None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")


async def add_partitions(
    store: Store,
    topic: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    racks: Racks,
    *,
    validate_only: bool = False,
    charge: Charge = lambda partitions: None,
) -> int:
    """Raise the number of partitions to `count`; `assignments` are the new ones' replicas. Returns how many are new.

    `charge` is told of those before they are written, and may refuse them.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (being deleted), INVALID_PARTITIONS,
    REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, POLICY_VIOLATION.
    """
    check_may_exist(topic)
    with zookeeper_refusals():
        if await repeated(store, lambda: store.exists(delete_topic_path(topic))) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        added = await _extend(store, topic, count, assignments, racks, validate_only, charge)
    return len(added)


async def _extend(
    store: Store,
    topic: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    racks: Racks,
    validate_only: bool,
    charge: Charge,
) -> Mapping[int, Sequence[int]]:
    charged = False
    added: Mapping[int, Sequence[int]] = {}
    unheard: set[int] | None = None  # the partitions there are if a write with a lost answer was carried out
    while True:
        found = await repeated(store, lambda: _read_assignment(store, topic))
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
        existing, stat = found
        if unheard == set(existing.partitions):
            return added
        added = _added(topic, existing, count, assignments, racks)
        if validate_only:
            return added
        if not charged:
            charge(len(added))
            charged = True
        partitions = {**existing.partitions, **{p: PartitionReplicas(tuple(r)) for p, r in added.items()}}
        data = TopicAssignment(partitions, existing.topic_id).encode()
        try:
            await store.set(topic_path(topic), data, stat.version)
        except (BadVersion, NoNode):
            continue
        except ConnectionLost:  # what is read next may be old: only the next write tells
            unheard = set(partitions)
        else:
            return added


def _added(
    topic: str,
    existing: TopicAssignment,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    racks: Racks,
) -> Mapping[int, Sequence[int]]:
    has = len(existing.partitions)
    if any(held.adding or held.removing for held in existing.partitions.values()):
        raise KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"A partition reassignment is in progress for the topic '{topic}'."
        )
    if count < has:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {has} partitions, which is higher than the requested {count}.",
        )
    if count == has:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {has} partitions.")
    _check_count(count - has)
    first = existing.partitions[0].replicas if 0 in existing.partitions else ()
    if not first:
        said = f"{topic_path(topic)} names no replicas of its first partition: new ones would have as many"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, said)
    if max(existing.partitions) >= has:
        said = f"{topic_path(topic)} has {has} partitions that are not numbered from 0 to {has - 1}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, said)
    if assignments is None:
        start = next((place for place, broker in enumerate(sorted(racks)) if broker >= first[0]), 0)
        return assign_replicas(racks, count - has, len(first), start=start, shift=start, first_partition=has)
    if len(assignments) != count - has:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Increasing the number of partitions by {count - has} but {len(assignments)} assignments provided.",
        )
    given = dict(enumerate(assignments, has))
    check_assignment(given, replication_factor=len(first), known=sorted(racks))
    return given
