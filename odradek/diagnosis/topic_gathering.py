"""Gathering facts about topics and their partitions: from brokers, and from what was read in ZooKeeper.

Each step asks one question about all partitions, and adds the answers to their facts.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from odradek.aio import Admin
from odradek.client.admin.hanging_transactions import ALL_LISTS, NOT_ALL_SEEN, may_describe_all
from odradek.client.admin.values import ConfigResource, Reassignment
from odradek.client.metadata import PartitionInfo, TopicInfo
from odradek.client.records import OffsetAndTimestamp, TopicPartition
from odradek.diagnosis.facts import BrokerFacts, DirectoryFacts, OpenTransaction, PartitionFacts, TopicFacts
from odradek.diagnosis.questions import Questions
from odradek.diagnosis.zookeeper import SeenInZooKeeper
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.topic_names import TRANSACTION_STATE
from odradek.zk_schema.znodes.topics import NO_LEADER


class TopicGathering:
    """Part of a round of gathering: make one, `gather` once."""

    def __init__(
        self, admin: Admin, questions: Questions, seen: SeenInZooKeeper | None, brokers: dict[int, BrokerFacts]
    ) -> None:
        """`brokers` are those that were asked already; `gather` adds their log directories to them."""
        self._admin, self._questions, self._seen, self._brokers = admin, questions, seen, brokers

    async def gather(
        self, wanted: Collection[str], infos: Mapping[str, TopicInfo], reassigning: Iterable[Reassignment]
    ) -> dict[str, TopicFacts]:
        """Ask, and return the facts. `infos`: metadata of all topics; `reassigning`: all reassignments under way."""
        seen = self._seen
        moves = {one.topic_partition: one for one in reassigning}
        partitions: dict[TopicPartition, PartitionFacts] = {}
        for topic in sorted(wanted):
            for info in infos[topic].partitions if topic in infos else _hidden(topic, seen):
                at = TopicPartition(topic, info.partition)
                partitions[at] = _partition(info, seen, moves.get(at))
        await self._directories(partitions)
        await self._offsets({at: one for at, one in partitions.items() if at.topic in infos}, partitions)
        await self._transactions(partitions, infos.get(TRANSACTION_STATE))
        settings = await self._topic_settings(sorted(wanted & infos.keys()))
        deleting = {} if seen is None else seen.deleting
        topics = {}
        for topic in sorted(wanted):
            of_topic = {at.partition: one for at, one in partitions.items() if at.topic == topic}
            since_ms = deleting[topic].created_ms if topic in deleting else None
            topics[topic] = TopicFacts(topic, of_topic, settings.get(topic, {}), topic in deleting, since_ms)
        return topics

    async def _topic_settings(self, topics: list[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource("TOPIC", topic) for topic in topics]
        found = await self._questions.ask_of_all("the settings of topics", resources, self._admin.describe_configs)
        return {
            resource.name: {one.name: one.value for one in entries if one.value is not None}
            for resource, entries in found.items()
        }

    async def _directories(self, partitions: dict[TopicPartition, PartitionFacts]) -> None:
        """Add the brokers' log directories, with their free space and state, and the sizes of the replicas in them."""
        asked = [broker for broker in self._brokers.values() if broker.answers]
        answers = await asyncio.gather(
            *(
                self._questions.ask(
                    f"the log directories of broker {broker.broker_id}",
                    self._admin.describe_log_directories(broker.broker_id),
                    [],
                )
                for broker in asked
            )
        )
        sizes: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
        homes: dict[TopicPartition, dict[int, str]] = defaultdict(dict)
        for broker, directories in zip(asked, answers, strict=True):
            told = tuple(DirectoryFacts(one.path, one.online, one.total_bytes, one.usable_bytes) for one in directories)
            self._brokers[broker.broker_id] = replace(broker, directories=told)
            for directory in directories:
                for one in directory.replicas:
                    if not one.is_future:
                        sizes[one.topic_partition][broker.broker_id] = one.size_bytes
                        homes[one.topic_partition][broker.broker_id] = directory.path
        for at, found in sizes.items():
            if at in partitions:
                partitions[at] = replace(partitions[at], sizes=found, directories=homes[at])

    async def _offsets(
        self, known: Mapping[TopicPartition, PartitionFacts], partitions: dict[TopicPartition, PartitionFacts]
    ) -> None:
        """Add the offsets at which logs begin and end, for `known` partitions whose leader answers. Brokers know no
        topic that is to be deleted."""
        brokers = self._brokers
        led = [at for at, one in known.items() if one.leader in brokers and brokers[one.leader].answers]

        async def located(
            time: int, isolation: int, some: list[TopicPartition]
        ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
            return await self._admin.list_offsets(dict.fromkeys(some, time), isolation)

        questions = (
            (EARLIEST_TIMESTAMP, READ_UNCOMMITTED),
            (LATEST_TIMESTAMP, READ_UNCOMMITTED),
            (LATEST_TIMESTAMP, READ_COMMITTED),
        )
        starts, ends, stables = await asyncio.gather(
            *(
                self._questions.ask_of_all("where logs begin and end", led, partial(located, time, isolation))
                for time, isolation in questions
            )
        )
        for at in led:
            start, end, stable = starts.get(at), ends.get(at), stables.get(at)
            partitions[at] = replace(
                partitions[at],
                start_offset=None if start is None else start.offset,
                high_watermark=None if end is None else end.offset,
                last_stable_offset=None if stable is None else stable.offset,
            )

    async def _transactions(
        self, partitions: dict[TopicPartition, PartitionFacts], coordinators: TopicInfo | None
    ) -> None:
        """Add the open transactions that hold the last stable offset below the high watermark.

        `coordinators`: metadata of the topic whose leaders coordinate transactions; None: there is no such topic, and
        so no transaction.
        """
        held = [at for at, one in partitions.items() if (one.last_stable_offset or 0) < (one.high_watermark or 0)]
        if not held:
            return
        producers = await self._questions.ask("the producers of partitions", self._admin.describe_producers(held), {})
        listed = await self._questions.ask("transactions", self._admin.list_transactions(), None)
        by_producer = {one.producer_id: one.transactional_id for some in (listed or {}).values() for one in some}
        strange = any(
            one.producer_id not in by_producer and one.current_transaction_start_offset >= 0
            for known in producers.values()
            for one in known
        )
        unlisted = "" if strange and listed is not None and await self._lists_are_complete(coordinators) else None
        for at, known in producers.items():
            found = []
            for one in known:
                if one.current_transaction_start_offset < 0:
                    continue
                open_one = OpenTransaction(
                    one.producer_id, one.producer_epoch, one.current_transaction_start_offset, one.last_timestamp
                )
                name = by_producer.get(one.producer_id)
                found.append(
                    replace(open_one, state=unlisted) if name is None else await self._coordinated(at, open_one, name)
                )
            partitions[at] = replace(partitions[at], transactions=tuple(found))
        await self._drop_ended(partitions)

    async def _lists_are_complete(self, coordinators: TopicInfo | None) -> bool:
        """Tell whether a transaction that is not listed has no coordinator. It may have one if a partition of
        `coordinators` has no leader now, or if the user may not see all transactions."""
        if coordinators is None:
            return True
        if any(one.leader == NO_LEADER for one in coordinators.partitions):
            return False
        admin = self._admin
        asked = may_describe_all(
            lambda: admin.describe_acls(ALL_LISTS), lambda name: admin.describe_transactions([name])
        )
        sees_all = await self._questions.ask("who may see transactions", asked, None)
        if sees_all is False:
            self._questions.unknown.append(f"whether open transactions hang: {NOT_ALL_SEEN}")
        return bool(sees_all)

    async def _drop_ended(self, partitions: dict[TopicPartition, PartitionFacts]) -> None:
        """Ask again for transactions that no coordinator has, and drop those that have ended since the first answer, as
        most have."""
        asked = [at for at, one in partitions.items() if any(each.state == "" for each in one.transactions)]
        if not asked:
            return
        producers = await self._questions.ask("the producers of partitions", self._admin.describe_producers(asked), {})
        for at in asked:
            begun = {(one.producer_id, one.current_transaction_start_offset) for one in producers.get(at, ())}
            known = partitions[at].transactions
            kept = tuple(one for one in known if one.state != "" or (one.producer_id, one.start_offset) in begun)
            partitions[at] = replace(partitions[at], transactions=kept)

    async def _coordinated(self, at: TopicPartition, one: OpenTransaction, transactional_id: str) -> OpenTransaction:
        """Add what a transaction's coordinator says about it. Its state is empty if the partition is not part of the
        transaction there."""
        question = self._admin.describe_transactions([transactional_id])
        described = (await self._questions.ask(f"transaction {transactional_id}", question, {})).get(transactional_id)
        if described is None:
            return replace(one, transactional_id=transactional_id)
        known = at in described.topic_partitions and described.producer_id == one.producer_id
        return replace(
            one,
            transactional_id=transactional_id,
            timeout_ms=described.transaction_timeout_ms,
            state=described.state if known else "",
        )


def _hidden(topic: str, seen: SeenInZooKeeper | None) -> list[PartitionInfo]:
    """Return partitions that are not in the metadata, because their topic is to be deleted."""
    if seen is None or topic not in seen.assignments:
        return []
    assigned = seen.assignments[topic].partitions
    return [
        PartitionInfo(topic, number, NO_LEADER, -1, one.replicas, (), (), ErrorCode.NONE)
        for number, one in assigned.items()
    ]


def _partition(info: PartitionInfo, seen: SeenInZooKeeper | None, move: Reassignment | None) -> PartitionFacts:
    """Return the facts about a partition from its metadata, and from ZooKeeper if that was read: the metadata follows a
    moment later."""
    at = (info.topic, info.partition)
    facts = PartitionFacts(
        info.topic,
        info.partition,
        info.replicas,
        info.leader,
        tuple(dict.fromkeys(info.isr)),
        info.leader_epoch,
        info.offline_replicas,
        () if move is None else move.adding_replicas,
        () if move is None else move.removing_replicas,
    )
    if seen is None or at not in seen.states:
        return facts
    state, stat = seen.states[at]
    assigned = seen.assignments[info.topic].partitions[info.partition]
    return replace(
        facts,
        replicas=assigned.replicas,
        leader=state.leader,
        isr=tuple(dict.fromkeys(state.isr)),
        leader_epoch=state.leader_epoch,
        adding=assigned.adding,
        removing=assigned.removing,
        changed_ms=stat.modified_ms,
        partition_epoch=stat.version,
        recovering=bool(state.leader_recovery_state),
    )
