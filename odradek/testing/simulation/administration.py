"""Acts of administrators on a simulated cluster while other things go wrong: topics come, grow and go, replicas move to
other brokers and to other log directories, copying is throttled, leaders are asked for."""

import asyncio
import random
from typing import Any

from odradek.broker.cluster.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.zk_schema.znodes.topics import TOPICS_PATH, PartitionReplicas, TopicAssignment, topic_path

ADMINISTRATOR = "admin"
"""Name of its host."""
ADMIN_TIMEOUT_MS, PATIENT_MS, AGAIN_MS = 5_000, 10_000, 100
THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
MOST_PARTITIONS = 5
LEAST_REPLICAS = 2
"""Fewest replicas, as min.insync.replicas says: with fewer nothing is acknowledged, and one lost disk is too many."""
OF_TOPIC, OF_BROKERS = 2, 4
SET, DELETE = 0, 1
SIDES = ("leader", "follower")
RATES = (50, 500, 5_000)
"""Bytes per second. A batch has about a hundred."""


def assignments(cluster: EmbeddedCluster) -> dict[tuple[str, int], PartitionReplicas]:
    """Return the replicas of every partition, as ZooKeeper has them."""
    zookeeper = cluster.zookeeper
    found = {}
    for topic in sorted(zookeeper.tree.node(TOPICS_PATH).children):
        assignment = TopicAssignment.decode(topic, zookeeper.data(topic_path(topic)))
        found.update({(topic, index): held for index, held in sorted(assignment.partitions.items())})
    return found


class Administrator:
    """Administrator of one cluster. `directories`: the log directories of every broker."""

    def __init__(
        self, cluster: EmbeddedCluster, history: History, source: random.Random, topic: str, directories: list[str]
    ) -> None:
        self.cluster, self.history, self.random, self.topic = cluster, history, source, topic
        self.directories = directories
        self.replicas = min(3, len(cluster.brokers))
        """Replicas of each partition of a new topic."""
        self.partitions = 0
        """Partitions of the topic, as far as they are known to have been made."""
        self.may_grow = True
        """True if the topic may get more partitions."""
        self.topics: list[str] = []
        """Further topics that exist for certain."""
        self._deleted: list[str] = []
        self._topic_number = 0
        self._throttled: set[str] = set()
        """Sides that may have a limit."""

    async def ask(self, broker: EmbeddedBroker, request: Message, version: int) -> Any:
        """Return a broker's answer, or None when it cannot be had."""
        host = self.cluster.network.host(ADMINISTRATOR)
        peer = Peer(host, self.cluster.clock, broker.host, self.cluster.port, "admin")
        try:
            answer = await peer.request(request, version, ADMIN_TIMEOUT_MS)
        except (OSError, TimeoutError) as error:
            self.history.note(f"admin: {type(request).__name__}: {error!r}")
            return None
        finally:
            peer.close()
        self.history.note(f"admin: {type(request).__name__} {answer!r:.150}")
        return answer

    async def ask_controller(self, request: Message, version: int) -> Any:
        """Return the answer of the active controller, or None when it cannot be had."""
        active = [b for b in self.cluster.brokers if b.running and b.server.services.controller.is_active]
        return await self.ask(active[0], request, version) if active else None

    # topics

    async def create_all(self, topics: list[CreatableTopic]) -> None:
        """Create topics, and those that are refused again, until all are there."""
        while topics:
            await asyncio.sleep(0.2)
            answer = await self.ask_controller(CreateTopicsRequest(topics=topics, timeout_ms=PATIENT_MS), 7)
            there = {one.name for one in answer.topics if one.error_code in THERE} if answer is not None else set()
            topics = [one for one in topics if one.name not in there]

    async def change_topics(self) -> None:
        """Create or delete a topic, or give the main one another partition."""
        kind = self.random.choice(("create", "create", "delete", "grow"))
        if kind == "create":
            await self.create_topic()
        elif kind == "delete":
            await self.delete_topic()
        elif kind == "grow" and self.may_grow and self.partitions < MOST_PARTITIONS:
            asked = CreatePartitionsTopic(name=self.topic, count=self.partitions + 1, assignments=None)
            answer = await self.ask_controller(CreatePartitionsRequest(topics=[asked], timeout_ms=ADMIN_TIMEOUT_MS), 3)
            if answer is not None and answer.results[0].error_code == ErrorCode.NONE:
                self.partitions += 1

    async def delete_topic(self) -> None:
        """Delete one of the further topics, if there is any."""
        if self.topics:
            name = self.topics.pop(self.random.randrange(len(self.topics)))
            self._deleted.append(name)
            await self._delete_topic(name)

    async def create_topic(self) -> None:
        """Create a new one, or one of the name of one that was deleted."""
        if self._deleted and self.random.random() < 0.5:
            await self._create_topic(self._deleted.pop(self.random.randrange(len(self._deleted))))
        else:
            self._topic_number += 1
            await self._create_topic(f"other-{self._topic_number - 1}")

    async def replace_topic(self) -> None:
        """Delete one of the further topics, and create it again as soon as ZooKeeper has it no more."""
        if not self.topics:
            await self.create_topic()
        if not self.topics:
            return
        name = self.topics.pop(self.random.randrange(len(self.topics)))
        await self._delete_topic(name)
        for _ in range(round(PATIENT_MS / AGAIN_MS)):
            if self.cluster.zookeeper.tree.get(topic_path(name)) is None:
                await self._create_topic(name)
                return
            await asyncio.sleep(AGAIN_MS / 1000)
        self._deleted.append(name)

    async def _delete_topic(self, name: str) -> None:
        await self.ask_controller(DeleteTopicsRequest(topic_names=[name], timeout_ms=ADMIN_TIMEOUT_MS), 3)

    async def _create_topic(self, name: str) -> None:
        made = CreatableTopic(name=name, num_partitions=self.random.randint(1, 3), replication_factor=self.replicas)
        answer = await self.ask_controller(CreateTopicsRequest(topics=[made], timeout_ms=ADMIN_TIMEOUT_MS), 7)
        if answer is not None and answer.topics[0].error_code == ErrorCode.NONE:
            self.topics.append(name)

    async def delete_records(self, leader: EmbeddedBroker, topic: str, index: int, offset: int) -> int | None:
        """Delete what a partition has before that offset; return where all replicas begin then, if that is told."""
        partition = DeleteRecordsPartition(partition_index=index, offset=offset)
        asked = DeleteRecordsTopic(name=topic, partitions=[partition])
        answer = await self.ask(leader, DeleteRecordsRequest(topics=[asked], timeout_ms=ADMIN_TIMEOUT_MS), 2)
        told = answer.topics[0].partitions[0] if answer is not None else None
        return told.low_watermark if told is not None and told.error_code == ErrorCode.NONE else None

    # replicas

    async def reassign(self) -> None:
        """Move some partitions to other brokers, or call their moves off."""
        known = list(assignments(self.cluster))
        chosen = self.random.sample(known, min(len(known), self.random.randint(1, 3)))
        broker_ids = [broker.broker_id for broker in self.cluster.brokers]
        asked: dict[tuple[str, int], list[int] | None] = {}
        for partition in chosen:
            count = self.random.randint(min(LEAST_REPLICAS, len(broker_ids)), len(broker_ids))
            asked[partition] = None if self.random.random() < 0.2 else self.random.sample(broker_ids, count)
        await self._reassign(asked)

    async def _reassign(self, asked: dict[tuple[str, int], list[int] | None]) -> None:
        topics = [
            ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
            for (topic, index), replicas in asked.items()
        ]
        self.history.note(f"admin: reassign {asked}")
        await self.ask_controller(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=ADMIN_TIMEOUT_MS), 0)

    async def ask_for_whole_assignments(self) -> bool:
        """Ask, after the faults, for every partition on every broker; tell whether that is what ZooKeeper has."""
        broker_ids = [broker.broker_id for broker in self.cluster.brokers]
        asked: dict[tuple[str, int], list[int] | None] = {
            partition: [*held.replicas, *(one for one in broker_ids if one not in held.replicas)]
            for partition, held in assignments(self.cluster).items()
            if len(held.replicas) < len(broker_ids) or held.removing
        }
        if asked:
            await self._reassign(asked)
        return not asked

    async def elect_leaders(self) -> None:
        """Preferred ones, of all partitions; mostly others than before, for some replicas change places first."""
        held = assignments(self.cluster)
        chosen = self.random.sample(sorted(held), min(len(held), self.random.randint(0, 3)))
        if chosen:
            await self._reassign({one: [*held[one].replicas[1:], held[one].replicas[0]] for one in chosen})
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=ADMIN_TIMEOUT_MS)
        await self.ask_controller(request, 2)

    async def give_the_lead_to_the_next(self, partition: tuple[str, int]) -> None:
        """Have the second replica of a partition become its first and its leader."""
        held = assignments(self.cluster).get(partition)
        if held is not None and len(held.replicas) > 1:
            await self.give_the_lead_to(partition, held.replicas[1])

    async def give_the_lead_to(self, partition: tuple[str, int], broker_id: int) -> None:
        """Have a replica of a partition become its first and its leader; those before it become its last."""
        held = assignments(self.cluster).get(partition)
        if held is None or broker_id not in held.replicas:
            return
        first = held.replicas.index(broker_id)
        await self._reassign({partition: [*held.replicas[first:], *held.replicas[:first]]})
        topic = TopicPartitions(topic=partition[0], partitions=[partition[1]])
        request = ElectLeadersRequest(election_type=0, topic_partitions=[topic], timeout_ms=ADMIN_TIMEOUT_MS)
        await self.ask_controller(request, 2)

    # limits on copying

    async def throttle(self) -> None:
        """Limit the copying of one topic on one side, or take all limits away."""
        known = sorted({topic for topic, _ in assignments(self.cluster)})
        if not known or self.random.random() < 0.3:
            await self.unthrottle()
            return
        side, topic = self.random.choice(SIDES), self.random.choice(known)
        replicas = self.random.choice(("*", "0:0,0:1,0:2", "1:1"))
        self._throttled.add(side)
        await self.configure(OF_BROKERS, "", f"{side}.replication.throttled.rate", str(self.random.choice(RATES)))
        await self.configure(OF_TOPIC, topic, f"{side}.replication.throttled.replicas", replicas)

    async def unthrottle(self) -> bool:
        """Tell whether no side has a limit any more."""
        for side in sorted(self._throttled):
            if await self.configure(OF_BROKERS, "", f"{side}.replication.throttled.rate", None):
                self._throttled.discard(side)
        return not self._throttled

    async def configure(self, kind: int, name: str, setting: str, value: str | None) -> bool:
        """Change a setting of a topic, or of all brokers; None takes it away. Tells whether it is known to be done."""
        change = AlterableConfig(name=setting, config_operation=DELETE if value is None else SET, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
        self.history.note(f"admin: {name or 'all brokers'}: {setting}={value}")
        answer = await self.ask_controller(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        return answer is not None and answer.responses[0].error_code == ErrorCode.NONE

    # directories and leaders

    async def move_directories(self) -> None:
        """Move a broker's replica of one partition to one of its log directories."""
        running = [broker for broker in self.cluster.brokers if broker.running]
        if not running:
            return
        broker = self.random.choice(running)
        known = list(assignments(self.cluster))
        if not known:
            return
        topic, index = self.random.choice(known)
        target = self.random.choice(self.directories)
        self.history.note(f"admin: {broker.host} moves {topic}-{index} to {target}")
        moved = AlterReplicaLogDir(path=target, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])])
        await self.ask(broker, AlterReplicaLogDirsRequest(dirs=[moved]), 2)
