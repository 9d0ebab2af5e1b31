"""Faults of brokers, their disks, their network and their ZooKeeper, and what administrators and other clients do."""

import asyncio
from typing import Any

from odradek.broker.groups.group_metadata import GroupMetadata
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.topic_names import CONSUMER_OFFSETS
from odradek.testing.cluster.core import REQUEST_TIMEOUT_MS, WAIT_S, ClusterCore, check
from odradek.testing.cluster.options import ClusterError
from odradek.testing.cluster.protocol_faults import nearest
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.socket_network import OUTSIDE
from odradek.world.clock import sleep
from odradek.zk_schema.znodes.topics import TOPICS_PATH, PartitionState, TopicAssignment, state_path, topic_path

ZOOKEEPER = "zookeeper"
ASK_AGAIN_MS = 20.0
NOT_YET = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
     ErrorCode.CONCURRENT_TRANSACTIONS}
)  # fmt: skip
"""Refusals after which the same is asked again."""
PREFERRED, UNCLEAN = 0, 1
NOT_ELECTED_YET = PartitionState(leader=-1, leader_epoch=-1, isr=(), controller_epoch=-1)
"""State of a partition that no controller has taken up yet: its topic was made a moment ago."""
TRANSACTION = 1


class BrokerFaults(ClusterCore):
    """Faults of brokers. All raise ClusterError for a broker, partition or group that does not exist."""

    # processes

    async def kill(self, broker: int, *, unnoticed: bool = False) -> None:
        """Kill a broker as `kill -9` does; its ZooKeeper session ends at once, so that others take over.

        `unnoticed`: the session ends only after zookeeper.session.timeout.ms, as it does after a real kill.
        """
        target = self._running(broker)
        session = target.store.session_id
        self.note("test", f"kills broker {broker}")
        target.resume()
        await self.end_brokers(target)
        if not unnoticed:
            self.embedded.zookeeper.end_session(session)

    async def stop(self, broker: int) -> None:
        """Shut a broker down in a controlled way (SIGTERM): the partitions that it leads move first."""
        target = self._running(broker)
        self.note("test", f"stops broker {broker}")
        target.resume()
        await target.stop()
        await self.end_brokers(target)

    async def restart(self, broker: int) -> None:
        """Start a broker that was killed or stopped, or stop and start a running one; return when all brokers know
        it."""
        target = self.broker(broker)
        if target.running:
            await self.stop(broker)
        if isinstance(target.disk, SimulatedFiles):
            target.disk.broken.clear()
        self.note("test", f"starts broker {broker}")
        await self.start_broker(target)
        await self.until(self.is_whole, f"all brokers to know broker {broker}")

    async def suspend(self, broker: int) -> None:
        """Suspend a broker, as SIGSTOP does: connections stay open, nothing is answered, its session expires."""
        target = self._running(broker)
        if target.suspended:
            raise ClusterError(f"broker {broker} is suspended already")
        self.note("test", f"suspends broker {broker}")
        target.suspend()

    async def resume(self, broker: int) -> None:
        """Resume a suspended broker, as SIGCONT does. Does nothing if it was not suspended."""
        if self.broker(broker).suspended:
            self.note("test", f"resumes broker {broker}")
        self.broker(broker).resume()

    async def fail_disk(self, broker: int, directory: int = 0) -> None:
        """Make every read and write in one log directory of a broker fail, until its `restart`.

        `directory`: its place in log.dirs, from 0. A broker whose last directory fails stops, as Kafka's does.
        """
        target = self._running(broker)
        if not isinstance(target.disk, SimulatedFiles):
            raise ClusterError("fail_disk is for data in memory: make the cluster without `data`")
        directories = target.server.config.log_dirs
        if not 0 <= directory < len(directories):
            raise ClusterError(f"broker {broker} has {len(directories)} log directories: {', '.join(directories)}")
        self.note("test", f"fails {directories[directory]} of broker {broker}")
        target.disk.broken.add(directories[directory])
        server = target.server
        ending = asyncio.ensure_future(server.broken.wait())
        ending.add_done_callback(lambda ended: self._end_broken(target, None if ended.cancelled() else server))
        self.ending.append(ending)

    def _end_broken(self, target: EmbeddedBroker, server: object) -> None:
        if target.running and target.server is server:
            session = target.store.session_id
            target.kill()
            self.embedded.zookeeper.end_session(session)

    # the network and ZooKeeper

    async def partition(self, a: int | str, b: int | str | None = None, *, one_way: bool = False) -> None:
        """Cut the network between two brokers, or between a broker and "clients" or "zookeeper"; without `b`, between
        a broker and everybody.

        Connections stay open; what is sent arrives after `heal`. `one_way`: only what `a` sends to `b` is cut.
        """
        if a == b:
            raise ClusterError(f"partition of {a!r} and itself")
        self.note("test", f"cuts {_named(a)} off {'everybody' if b is None else _named(b)}")
        others = [b] if b is not None else [n for n in range(self.options.brokers) if n != a] + [OUTSIDE, ZOOKEEPER]
        for other in others:
            if ZOOKEEPER in (a, other):
                broker = self._running(_broker_of(a, other))
                self.embedded.zookeeper.partition(broker.store)
            else:
                for source in self._hosts(a):
                    for target in self._hosts(other):
                        self.network.cut(source, target, one_way=one_way)

    async def heal(self, a: int | str | None = None, b: int | str | None = None) -> None:
        """End the cut between `a` and `b`; without `b`, all cuts of `a`; without arguments, all."""
        self.note("test", "heals the network")
        if a is None:
            self.network.heal()
            for broker in self.running:
                self.embedded.zookeeper.heal(broker.store)
            return
        others = [b] if b is not None else [n for n in range(self.options.brokers) if n != a] + [OUTSIDE, ZOOKEEPER]
        for other in others:
            if ZOOKEEPER in (a, other):
                broker = self.broker(_broker_of(a, other))
                if broker.running:  # the next life of one that does not has a session of its own
                    self.embedded.zookeeper.heal(broker.store)
            else:
                for source in self._hosts(a):
                    for target in self._hosts(other):
                        self.network.heal(source, target)

    def _hosts(self, who: int | str) -> list[str]:
        if isinstance(who, int):
            return [self.broker(who).host]
        if who != OUTSIDE:
            raise ClusterError(f"partition of {who!r}: a broker's number, {OUTSIDE!r} or {ZOOKEEPER!r}")
        return self.client_hosts()

    async def expire_session(self, broker: int) -> None:
        """Expire a broker's ZooKeeper session, as after a long pause: others take over, and it registers again."""
        self.note("test", f"expires the session of broker {broker}")
        self.embedded.zookeeper.expire_session(self._running(broker).store.session_id)

    # leaders

    async def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make broker `to` the leader of a partition, and return when all know it. If it has no replica, it gets one in
        place of the present leader's."""
        self._running(to)
        self.note("test", f"moves the leader of {topic}-{partition} to {to}")
        replicas = list(self._assignment(topic, partition))
        if to in replicas:
            replicas.remove(to)
        else:
            replicas.remove(
                self.leader_now(topic, partition) if self.leader_now(topic, partition) in replicas else replicas[0]
            )
        wanted = ReassignablePartition(partition_index=partition, replicas=[to, *replicas])
        asked = ReassignableTopic(name=topic, partitions=[wanted])
        request = AlterPartitionReassignmentsRequest(topics=[asked], timeout_ms=REQUEST_TIMEOUT_MS)
        answer = await self.ask_controller(request, 0)
        check(answer.error_code, answer.error_message)
        moved = answer.responses[0].partitions[0]
        check(moved.error_code, moved.error_message)
        await self.until(
            lambda: to in self.isr_now(topic, partition), f"broker {to} to be in sync for {topic}-{partition}"
        )
        await self.elect(topic, partition)
        await self._until_led(topic, partition, to)

    async def elect(self, topic: str, partition: int = 0, *, unclean: bool = False) -> None:
        """Elect the preferred leader of a partition. `unclean`: elect any live replica where there is no leader, even
        if records are lost. Raises KafkaError."""
        self._assignment(topic, partition)
        asked = TopicPartitions(topic=topic, partitions=[partition])
        kind = UNCLEAN if unclean else PREFERRED
        request = ElectLeadersRequest(election_type=kind, topic_partitions=[asked], timeout_ms=REQUEST_TIMEOUT_MS)
        answer = await self.ask_controller(request, 1)
        check(answer.error_code, None)
        for result in answer.replica_election_results[0].partition_result:
            if result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                check(result.error_code, result.error_message)
        await self._until_led(topic, partition, self.leader_now(topic, partition))

    async def _until_led(self, topic: str, partition: int, leader: int) -> None:
        """Wait until every broker that runs knows `leader` as the leader."""

        def known() -> bool:
            states = [broker.server.services.metadata.partition(topic, partition) for broker in self.running]
            return all(state is not None and state.leader == leader for state in states)

        await self.until(known, f"{topic}-{partition} to be led by {leader}")

    # groups and producers

    async def rebalance(self, group: str) -> None:
        """Make a group rebalance, as when a member joins and leaves at once; return when the rebalance has begun."""
        coordinator, metadata = self._group(group)
        if not metadata.members:
            raise ClusterError(f"group {group!r} has no members to rebalance")
        self.note("test", f"has group {group} rebalance")
        member = next(iter(metadata.members.values()))
        protocols = [JoinGroupRequestProtocol(name=name, metadata=data) for name, data in member.protocols]
        joining = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocol_type=member.protocol_type,
            protocols=protocols,
        )
        named = await self.ask(coordinator, joining, 4)
        joining.member_id = named.member_id
        generation = metadata.generation
        waiting = asyncio.ensure_future(self.ask(coordinator, joining, 4))
        self.ending.append(waiting)
        await self.until(lambda: joining.member_id in metadata.members, f"group {group!r} to rebalance")
        leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=joining.member_id)])
        await self.ask(coordinator, leaving, 3)
        await self.until(lambda: metadata.generation > generation or metadata.state.value != "Stable", "a rebalance")

    async def coordinator_moves(self, group: str) -> int:
        """Move a group's coordinator to another broker, and return that: the group's partition of `__consumer_offsets`
        gets another leader."""
        coordinator, _ = self._group(group, may_be_unknown=True)
        partition = coordinator.server.services.groups.partition_for(group)
        others = [n for n in self._assignment(CONSUMER_OFFSETS, partition) if n != coordinator.broker_id]
        alive = [n for n in others if self.broker(n).running]
        if not alive:
            raise ClusterError(f"group {group!r} has no other broker to go to: make the cluster with more")
        await self.move_leader(CONSUMER_OFFSETS, partition, alive[0])
        return alive[0]

    async def fence(self, transactional_id: str) -> None:
        """Fence the producer with this transactional.id, as the start of another one does. Raises KafkaError."""
        if not self.running:
            raise ClusterError("no broker runs: `restart` starts one")
        self.note("test", f"fences {transactional_id}")
        found: Any = await self._asked_again(
            lambda: self.ask(self.running[0], FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION), 3)
        )
        coordinator = self.broker(found.node_id)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=REQUEST_TIMEOUT_MS)
        await self._asked_again(lambda: self.ask(coordinator, request, 2))

    async def _asked_again(self, ask: Any) -> Any:
        """Ask again while the answer is a refusal for the moment only. Raises KafkaError."""
        deadline_ms = self.clock.monotonic_ms() + WAIT_S * 1000
        while (answer := await ask()).error_code in NOT_YET and self.clock.monotonic_ms() < deadline_ms:
            await sleep(self.clock, ASK_AGAIN_MS)
        check(answer.error_code, None)
        return answer

    # what is so now

    async def leader(self, topic: str, partition: int = 0) -> int:
        """Return the broker that leads a partition according to ZooKeeper; -1 if none does."""
        return self.leader_now(topic, partition)

    async def isr(self, topic: str, partition: int = 0) -> list[int]:
        """Return the in-sync replicas of a partition according to ZooKeeper, sorted."""
        return sorted(self.isr_now(topic, partition))

    async def controller(self) -> int:
        """Return the broker that is the active controller; waits until there is one."""
        await self.until(lambda: bool(self.controllers()), "a controller")
        return self.controllers()[0].broker_id

    def leader_now(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition according to ZooKeeper; -1 if none does."""
        return self._state(topic, partition).leader

    def isr_now(self, topic: str, partition: int) -> list[int]:
        """Return the in-sync replicas of a partition, as ZooKeeper has them."""
        return list(self._state(topic, partition).isr)

    def partitions_now(self, topic: str) -> int:
        """Return the number of a topic's partitions."""
        self._assignment(topic, 0)
        return len(TopicAssignment.decode(topic, self.embedded.zookeeper.data(topic_path(topic))).partitions)

    def _state(self, topic: str, partition: int) -> PartitionState:
        self._assignment(topic, partition)
        path = state_path(topic, partition)
        if self.embedded.zookeeper.tree.get(path) is None:
            return NOT_ELECTED_YET
        return PartitionState.decode(topic, partition, self.embedded.zookeeper.data(path))

    def _assignment(self, topic: str, partition: int) -> tuple[int, ...]:
        zookeeper = self.embedded.zookeeper
        if zookeeper.tree.get(topic_path(topic)) is None:
            there = zookeeper.tree.get(TOPICS_PATH)
            raise ClusterError(f"there is no topic {topic!r}{nearest(topic, there.children if there else ())}")
        partitions = TopicAssignment.decode(topic, zookeeper.data(topic_path(topic))).partitions
        if partition not in partitions:
            raise ClusterError(f"topic {topic!r} has partitions 0 to {len(partitions) - 1}, not {partition}")
        return tuple(partitions[partition].replicas)

    def group(self, group: str) -> GroupMetadata | None:
        """Return what its coordinator knows of a group."""
        for broker in self.running:
            error, metadata = broker.server.services.groups.describe(group)
            if error is ErrorCode.NONE and metadata is not None:
                return metadata
        return None

    def groups_now(self) -> list[str]:
        """Groups that have members."""
        listed = [group for broker in self.running for group in broker.server.services.groups.list_groups([], [])[1]]
        return sorted(group.group_id for group in listed if group.members)

    def _group(self, group: str, *, may_be_unknown: bool = False) -> tuple[EmbeddedBroker, Any]:
        for broker in self.running:
            error, metadata = broker.server.services.groups.describe(group)
            if error is ErrorCode.NONE and (metadata is not None or may_be_unknown):
                return broker, metadata
        raise ClusterError(f"there is no group {group!r}")

    def _running(self, broker: int) -> EmbeddedBroker:
        target = self.broker(broker)
        if not target.running:
            raise ClusterError(f"broker {broker} does not run")
        return target


def _named(who: int | str) -> str:
    return f"broker {who}" if isinstance(who, int) else who


def _broker_of(a: int | str, b: int | str) -> int:
    """Return the one of the two that is a broker."""
    broker = b if a == ZOOKEEPER else a
    if not isinstance(broker, int):
        raise ClusterError(f"partition of {a!r} and {b!r}: one of them is to be a broker's number")
    return broker
