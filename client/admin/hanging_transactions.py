"""Transactions that hang (KIP-664): open for too long, or open in a partition and known to no coordinator.

Nobody will end those of the second kind, and readers of committed data wait for them. A transaction counts as known to
no coordinator only if every coordinator has answered, and whoever asks may see all transactions.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.client.admin import access
from odradek.client.admin.access_values import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    ResourcePattern,
)
from odradek.client.admin.transactions import describe_producers, describe_transaction, list_transactions
from odradek.client.admin.values import HangingTransaction, ProducerState, TransactionDescription
from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.metadata import ClusterView
from odradek.client.offsets import offsets_at
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.topic_names import TRANSACTION_STATE

logger = logging.getLogger(__name__)

SLACK_MS = 300_000
"""Time beyond its longest after which a transaction counts as hanging (Java: TransactionsCommand)."""
ENDED = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
NOBODYS_ID: Final = "~ no transactional id"
"""Transactional id that no access list names, and no producer has."""
NOT_ALL_SEEN: Final = "you may not describe all transactional ids (Describe on them, or on the cluster, is missing)"
ALL_LISTS: Final = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePattern(ACLResourceType.TRANSACTIONAL_ID, None, ACLResourcePatternType.ANY),
)


class Open(NamedTuple):
    """A transaction that a partition has open, and what its coordinator says of its producer, if one knows it."""

    topic_partition: TopicPartition
    producer: ProducerState
    description: TransactionDescription | None = None
    transactional_id: str = ""

    @property
    def identity(self) -> tuple[TopicPartition, int, int]:
        """What distinguishes it from its producer's next transaction in the same partition."""
        return self.topic_partition, self.producer.producer_id, self.producer.current_transaction_start_offset


async def find_hanging(
    cluster: Cluster,
    broker_ids: Collection[int] | None,
    longest_ms: int,
    now_ms: Callable[[], int],
    again: Callable[[], Deadline],
) -> list[HangingTransaction]:
    """Return the transactions that have been open for longer than `longest_ms`, and those that no coordinator knows.

    `broker_ids` limits the first to those of these coordinators, and the second to partitions that these brokers lead
    (None: all). `again` makes the deadline of each request. Raises KafkaError, BrokerUnreachable, ClientTimeout.
    """
    held: list[Open] = []
    try:
        held = await _open_in_partitions(cluster, broker_ids, again())
    except KafkaError as error:
        logger.warning("transactions that no coordinator knows are not looked for: %s", error)
    listed = await list_transactions(cluster, again(), broker_ids, (), (), None, None)
    names = sorted(one.transactional_id for some in listed.values() for one in some)
    described = {name: await describe_transaction(cluster, name, again()) for name in names}
    found = too_long(described, now_ms(), longest_ms)
    return found + _by_producer(await _unknown(cluster, held, described, again), now_ms())


def too_long(described: Mapping[str, TransactionDescription], now_ms: int, longest_ms: int) -> list[HangingTransaction]:
    """Return the transactions that have been open for SLACK_MS longer than `longest_ms` (Java: TransactionsCommand)."""
    return [
        HangingTransaction(
            name,
            one.producer_id,
            one.producer_epoch,
            one.state,
            now_ms - one.transaction_start_time_ms,
            one.coordinator_id,
            tuple(sorted(one.topic_partitions)),
        )
        for name, one in sorted(described.items())
        if one.state not in ENDED
        and one.transaction_start_time_ms >= 0
        and now_ms - one.transaction_start_time_ms >= longest_ms + SLACK_MS
    ]


async def _open_in_partitions(cluster: Cluster, broker_ids: Collection[int] | None, deadline: Deadline) -> list[Open]:
    """Return what is open in partitions that have a leader. Producers are looked up only in those partitions whose last
    stable offset is below the high watermark."""
    view, _ = await cluster.describe(None)
    led = [
        TopicPartition(topic.name, one.partition)
        for topic in view.topics.values()
        for one in topic.partitions
        if one.leader in (view.nodes if broker_ids is None else broker_ids)
    ]
    latest = dict.fromkeys(led, LATEST_TIMESTAMP)
    ends, stables = await asyncio.gather(
        *(offsets_at(cluster, latest, isolation, deadline) for isolation in (READ_UNCOMMITTED, READ_COMMITTED))
    )
    held = []
    for at in led:
        end, stable = ends.get(at), stables.get(at)
        if end is not None and stable is not None and stable.offset < end.offset:
            held.append(at)
    return await _open_in(cluster, held, deadline)


async def _open_in(cluster: Cluster, partitions: Iterable[TopicPartition], deadline: Deadline) -> list[Open]:
    producers = await describe_producers(cluster, partitions, None, deadline)
    return [
        Open(at, one)
        for at, known in sorted(producers.items())
        for one in known
        if one.current_transaction_start_offset >= 0
    ]


async def _unknown(
    cluster: Cluster, held: list[Open], described: Mapping[str, TransactionDescription], again: Callable[[], Deadline]
) -> list[Open]:
    """Return the transactions of which no coordinator knows that they are open in that partition.

    The partitions are asked about them once more at the end: most have ended meanwhile.
    """
    if not held:
        return []
    listed = await list_transactions(cluster, again(), None, (), (), None, None)
    names = {one.producer_id: one.transactional_id for some in listed.values() for one in some}
    left, strangers = [], []
    for one in held:
        name = names.get(one.producer.producer_id)
        if name is None:
            strangers.append(one)
            continue
        known = described.get(name) or await describe_transaction(cluster, name, again())
        is_it = known.producer_id == one.producer.producer_id
        if not is_it or one.topic_partition not in known.topic_partitions:
            left.append(one._replace(description=known, transactional_id=name))
    if strangers:
        why = await _why_not_all(cluster, listed, again)
        if why:
            where = ", ".join(sorted({str(one.topic_partition) for one in strangers}))
            logger.warning("whether the transactions open in %s hang cannot be told: %s", where, why)
        else:
            left += strangers
    if not left:
        return []
    still = {one.identity for one in await _open_in(cluster, {one.topic_partition for one in left}, again())}
    return [one for one in left if one.identity in still]


async def _why_not_all(cluster: Cluster, heard: Collection[int], again: Callable[[], Deadline]) -> str:
    """Return why a transaction that is not listed may have a coordinator all the same; empty when it cannot."""
    view, _ = await cluster.describe(None)
    if not coordinators_heard(view, heard):
        return "not all coordinators have been heard"
    if TRANSACTION_STATE not in view.topics:  # to ask would make it
        return ""
    sees_all = await may_describe_all(
        lambda: access.describe_acls(cluster, ALL_LISTS), lambda name: describe_transaction(cluster, name, again())
    )
    return "" if sees_all else NOT_ALL_SEEN


def coordinators_heard(view: ClusterView, heard: Collection[int]) -> bool:
    """Tell whether every transactional id has its coordinator among the brokers that were heard."""
    topic = view.topics.get(TRANSACTION_STATE)
    return topic is None or all(one.leader in heard for one in topic.partitions)


async def may_describe_all(
    lists: Callable[[], Awaitable[Iterable[ACL]]], describe: Callable[[str], Awaitable[object]]
) -> bool:
    """Tell whether whoever asks may describe every transactional id, so that one which is not listed does not exist.

    Brokers leave out of their lists, in silence, those that may not be described. `lists` reads the access lists of
    transactional ids, `describe` describes one, real or not. Raises KafkaError for errors other than missing rights.
    """
    try:
        names = {one.resource_pattern.resource_name for one in await lists()}
    except KafkaError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return True
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return False
        raise
    for name in (NOBODYS_ID, *sorted(name for name in names if name)):
        try:
            await describe(name)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                return False
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
    return True


def _by_producer(unknown: Iterable[Open], now_ms: int) -> list[HangingTransaction]:
    """Put together what a producer has open in several partitions."""
    producers: dict[tuple[int, int], list[Open]] = {}
    for one in unknown:
        producers.setdefault((one.producer.producer_id, one.producer.producer_epoch), []).append(one)
    found = []
    for (producer_id, epoch), some in sorted(producers.items()):
        name, known = some[0].transactional_id, some[0].description
        found.append(
            HangingTransaction(
                name,
                producer_id,
                epoch,
                "" if known is None else known.state,
                now_ms - max(one.producer.last_timestamp for one in some),
                -1 if known is None else known.coordinator_id,
                tuple(sorted(one.topic_partition for one in some)),
            )
        )
    return found
