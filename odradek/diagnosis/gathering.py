"""Gathering facts: from brokers over Kafka's APIs, from ZooKeeper, and from the journals of brokers that have one.

A broker that does not answer for its settings is asked neither for its log directories nor for its partitions.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

from odradek.aio import Admin
from odradek.broker.coordination.partition_count import partition_for
from odradek.client.admin.values import ConfigResource, GroupDescription, Reassignment
from odradek.client.errors import BrokerUnreachable, ClientTimeout
from odradek.client.metadata import TopicInfo
from odradek.client.records import TopicPartition
from odradek.diagnosis.facts import (
    BrokerFacts,
    Facts,
    GroupFacts,
    JournalFacts,
    MemberFacts,
)
from odradek.diagnosis.questions import Questions
from odradek.diagnosis.topic_gathering import TopicGathering
from odradek.diagnosis.zookeeper import SeenInZooKeeper, look, look_at_topics, registrations
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.topic_names import CONSUMER_OFFSETS
from odradek.zk_schema.store import Store, StoreError
from odradek.zk_schema.znodes.topics import NO_LEADER

T = TypeVar("T")

LEADERLESS_ANSWER_S = 2.0
"""Time limit of one question, in seconds, while there is neither ZooKeeper nor a controller. Questions that need a
leader would be asked again until their time is over; the others are answered at once, as the brokers are idle."""
GROUPS_AT_ONCE = 100
ROUNDS_MAX = 3
"""Rounds of questions until the facts are taken although a broker came or went meanwhile."""


@dataclass(frozen=True)
class Scope:
    """Topics and groups to gather facts about; None: all. Brokers and the controller are always looked at."""

    topics: Collection[str] | None = None
    groups: Collection[str] | None = None


class Names(NamedTuple):
    """Names of all topics, groups and brokers, including topics marked for deletion and brokers that are offline."""

    topics: frozenset[str]
    groups: frozenset[str]
    brokers: frozenset[int]


ReadJournal = Callable[[BrokerFacts], Awaitable[JournalFacts | str]]
"""Reads the journal of a broker, or returns a clause that says why it cannot be read."""


class Gathering:
    """Gathers facts in a round of questions. If a broker has come or gone meanwhile, it starts a new round, so that the
    first and the last answer are about the same cluster. Make one, `gather` once."""

    def __init__(
        self, admin: Admin, store: Store | None, read_journal: ReadJournal, now_ms: int, bootstrap: str
    ) -> None:
        """`store` has been started; None: ZooKeeper cannot be read."""
        self._admin, self._store, self._read_journal = admin, store, read_journal
        self._now_ms, self._bootstrap = now_ms, bootstrap
        self._begin()

    def _begin(self) -> None:
        self._questions = Questions()
        self._zookeeper_silent = False
        self._silent_coordinators: set[int] = set()

    async def gather(
        self,
        scope: Scope | Callable[[Names], Scope],
        no_zookeeper: str = "",
    ) -> Facts:
        """Ask, and return the facts. `scope` may be a function of the names that exist; `no_zookeeper`: a clause that
        says why there is no store.

        Raises KafkaError when no broker answers at all, and what `scope` raises.
        """
        for _ in range(ROUNDS_MAX):
            self._begin()
            before = await self._zookeeper(registrations)
            facts = await self._round(scope, no_zookeeper)
            after = await self._zookeeper(registrations)
            if before is None or after is None or before == after:
                break
        return facts

    async def _round(self, scope: Scope | Callable[[Names], Scope], no_zookeeper: str) -> Facts:
        if no_zookeeper:
            self._zookeeper_silent = True
            self._questions.unknown.append(no_zookeeper)
        cluster = await self._admin.describe_cluster()
        addresses = {node.node_id: f"{node.host}:{node.port}" for node in cluster.nodes}
        infos = {info.name: info for info in await self._admin.describe_topics()}
        leaderless = self._zookeeper_silent and cluster.controller_id == NO_LEADER
        if leaderless:
            self._questions.answer_s = LEADERLESS_ANSWER_S
        listed = await self._questions.ask("groups", self._admin.list_groups(), [])
        seen = await self._zookeeper(lambda store: look(store))
        names = Names(
            frozenset(infos) | (frozenset() if seen is None else frozenset(seen.deleting)),
            frozenset(one.group_id for one in listed),
            self._broker_ids(addresses, infos, seen),
        )
        chosen = scope if isinstance(scope, Scope) else scope(names)
        groups = await self._groups(names.groups if chosen.groups is None else chosen.groups, infos)
        wanted = self._wanted_topics(chosen, names, groups)
        if seen is not None:
            untold = seen.topics - names.topics  # brokers do not know them yet, or cannot read them
            looked_at = wanted | (untold if chosen.topics is None else untold.intersection(chosen.topics))
            await self._zookeeper(partial(look_at_topics, names=looked_at, seen=seen))
        reassigning: list[Reassignment] | None = None
        if leaderless:
            self._questions.unknown.append("reassignments: there is no controller to ask")
        else:
            reassigning = await self._questions.ask("reassignments", self._admin.list_partition_reassignments(), None)
        brokers = await self._brokers(addresses, names.brokers, seen)
        of_topics = TopicGathering(self._admin, self._questions, seen, brokers)
        topics = await of_topics.gather(wanted, infos, reassigning or ())
        unreadable = () if seen is None else tuple(dict.fromkeys(seen.unreadable))
        return Facts(
            now_ms=self._now_ms,
            bootstrap=self._bootstrap,
            controller=cluster.controller_id if seen is None else seen.controller,
            controller_epoch=None if seen is None else seen.controller_epoch,
            controller_since_ms=None if seen is None else seen.controller_since_ms,
            brokers=brokers,
            topics=topics,
            groups=groups,
            journals=await self._journals(brokers),
            moves_known=reassigning is not None or seen is not None,
            zookeeper_silent=self._zookeeper_silent,
            unreadable=unreadable,
            unknown=tuple(dict.fromkeys([*self._questions.unknown, *unreadable])),
        )

    # -- ZooKeeper and brokers ---------------------------------------------------------------------------------------

    async def _zookeeper(self, read: Callable[[Store], Awaitable[T]]) -> T | None:
        """Return what `read` returns; None, with a note of the reason, if ZooKeeper cannot be read."""
        if self._store is None or self._zookeeper_silent:
            return None
        try:
            async with asyncio.timeout(self._questions.answer_s * 2):
                return await read(self._store)
        except (TimeoutError, StoreError) as error:
            self._zookeeper_silent = True
            self._questions.unknown.append(f"what ZooKeeper holds: {error or 'no answer'}")
        return None

    @staticmethod
    def _broker_ids(
        addresses: Mapping[int, str], infos: Mapping[str, TopicInfo], seen: SeenInZooKeeper | None
    ) -> frozenset[int]:
        """Return the brokers that are registered, and those that hold a replica."""
        named = {one for info in infos.values() for partition in info.partitions for one in partition.replicas}
        return frozenset(named | set(addresses if seen is None else seen.brokers))

    async def _brokers(
        self, addresses: Mapping[int, str], known: Collection[int], seen: SeenInZooKeeper | None
    ) -> dict[int, BrokerFacts]:
        registered = addresses.keys() if seen is None else seen.brokers.keys()
        asked = sorted(addresses.keys() & registered)
        found = await asyncio.gather(*(self._broker(one, addresses[one]) for one in asked))
        brokers = {broker.broker_id: broker for broker in found}
        for broker_id in sorted(known):
            stat = None if seen is None else seen.brokers.get(broker_id)
            brokers[broker_id] = replace(
                brokers.get(broker_id, BrokerFacts(broker_id)),
                registered=broker_id in registered,
                registered_ms=None if stat is None else stat.created_ms,
                epoch=None if stat is None else stat.czxid,
            )
        return brokers

    async def _broker(self, broker_id: int, address: str) -> BrokerFacts:
        resource = ConfigResource("BROKER", str(broker_id))
        try:
            async with asyncio.timeout(self._questions.answer_s):
                entries = (await self._admin.describe_configs([resource]))[resource]
        except (TimeoutError, BrokerUnreachable, ClientTimeout):
            return BrokerFacts(broker_id, address=address, answers=False)
        except KafkaError as error:
            self._questions.unknown.append(f"the settings of broker {broker_id}: {error}")
            return BrokerFacts(broker_id, address=address, answers=True)
        settings = {one.name: one.value for one in entries if one.value is not None}
        return BrokerFacts(broker_id, address=address, answers=True, settings=settings)

    async def _journals(self, brokers: Mapping[int, BrokerFacts]) -> dict[int, JournalFacts]:
        asked = [broker for broker in brokers.values() if broker.registered and broker.answers]
        answers = await asyncio.gather(*(self._read_journal(broker) for broker in asked))
        journals: dict[int, JournalFacts] = {}
        refusals: dict[str, list[str]] = defaultdict(list)
        for broker, answer in zip(asked, answers, strict=True):
            if isinstance(answer, str):
                refusals[answer].append(str(broker.broker_id))
                continue
            journals[broker.broker_id] = answer
            if answer.unreadable:
                told = f"{answer.unreadable} entries of its journal have a form that this version does not know"
                refusals[told].append(str(broker.broker_id))
        for refusal, whose in refusals.items():
            self._questions.unknown.append(f"what happened on broker {', '.join(whose)}: {refusal}")
        for broker in brokers.values():
            if broker.registered and not broker.answers:
                self._questions.unknown.append(f"what happened on broker {broker.broker_id}: it does not answer")
        return journals

    @staticmethod
    def _wanted_topics(scope: Scope, names: Names, groups: Mapping[str, GroupFacts]) -> set[str]:
        if scope.topics is None:
            return set(names.topics)
        read = {one.topic for group in groups.values() for one in group.committed}
        read |= {one.topic for group in groups.values() for member in group.members for one in member.partitions}
        return (set(scope.topics) | read) & names.topics

    # -- groups ------------------------------------------------------------------------------------------------------

    async def _groups(self, wanted: Iterable[str], infos: Mapping[str, TopicInfo]) -> dict[str, GroupFacts]:
        names, found = sorted(wanted), []
        for start in range(0, len(names), GROUPS_AT_ONCE):
            some = names[start : start + GROUPS_AT_ONCE]
            found += await asyncio.gather(*(self._group(name, infos) for name in some))
        return dict(zip(names, found, strict=True))

    async def _group(self, name: str, infos: Mapping[str, TopicInfo]) -> GroupFacts:
        offsets = infos.get(CONSUMER_OFFSETS)
        if offsets is None or not offsets.partitions:
            return GroupFacts(
                name, refusal=f"there is no topic {CONSUMER_OFFSETS} yet: no group has committed anything"
            )
        home = TopicPartition(CONSUMER_OFFSETS, partition_for(name, len(offsets.partitions)))
        coordinator = offsets.partitions[home.partition].leader
        if coordinator < 0:
            return GroupFacts(name, refusal=f"{home} has no leader", home=home)
        silent = GroupFacts(
            name, refusal=f"its coordinator did not answer within {self._questions.answer_s:g} s", home=home
        )
        if coordinator in self._silent_coordinators:
            return silent
        try:
            async with asyncio.timeout(self._questions.answer_s):
                description = (await self._admin.describe_groups([name]))[0]
                committed = await self._admin.list_group_offsets(name)
        except TimeoutError:
            self._silent_coordinators.add(coordinator)
            return silent
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
                self._questions.unknown.append(f"group {name}: you may not see it (Describe on the group is missing)")
                return GroupFacts(name)
            return GroupFacts(name, refusal=str(error), home=home)
        except OSError as error:
            return GroupFacts(name, refusal=str(error), home=home)
        offsets_by_partition = {at: one.offset for at, one in committed.items() if one is not None and one.offset >= 0}
        return _described(description, offsets_by_partition, home)


def _described(one: GroupDescription, committed: dict[TopicPartition, int], home: TopicPartition) -> GroupFacts:
    members = tuple(
        MemberFacts(member.member_id, member.client_id, member.host, member.partitions, member.group_instance_id)
        for member in one.members
    )
    return GroupFacts(one.group_id, one.state, one.coordinator, one.assignor, members, committed, home=home)
