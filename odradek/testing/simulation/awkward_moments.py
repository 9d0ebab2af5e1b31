"""Faults that wait for the moment in which they matter: situations that chance alone brings about in few runs.

Each chooses a partition and leads its brokers, step by step, to where a certain rule is all that stands between the
cluster and a lost record.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.faults import Faults
from odradek.zk_schema.store import Delete, MultiFailed
from odradek.zk_schema.znodes.controller import CONTROLLER_PATH

STEP_S = 0.01
STEP_PATIENCE_S = 9.0
"""Longer than a session, and than a follower may lag."""
SLOW_WRITE_MS = (4_600.0, 5_200.0)
"""Longer than a follower may lag (`replica.lag.time.max.ms`), shorter than a session."""
SLOW_ANSWER_MS = (250.0, 400.0)


@dataclass(frozen=True)
class Cast:
    """A partition's leader and two followers."""

    topic: str
    index: int
    leader: EmbeddedBroker
    followers: list[EmbeddedBroker]

    @property
    def led(self) -> Partition | None:
        """The leader's replica, while it runs and leads."""
        held = self.leader.server.services.replicas.partitions if self.leader.running else {}
        partition = held.get((self.topic, self.index))
        return partition if partition is not None and partition.is_leader else None


class AwkwardMoments:
    """Situations on the brokers of one cluster; `others` draws the chances and says which brokers are free."""

    def __init__(self, others: Faults) -> None:
        self._others, self._cluster, self._network = others, others.cluster, others.network
        self._random, self._note = others.random, others.history.note
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "late_growth": self.late_growth,
            "late_proposal": self.late_proposal,
            "behind_and_dead": self.behind_and_dead,
            "there_and_back": self.there_and_back,
            "take_office": self.take_office,
            "stale_requests": self.stale_requests,
        }

    # choosing

    def _led(self) -> list[Partition]:
        return [
            partition
            for broker in self._cluster.brokers
            if broker.running
            for partition in broker.server.services.replicas.partitions.values()
            if partition.is_leader
        ]

    def _cast(self) -> Cast | None:
        """Choose a partition that is in sync on three brokers, none of which another fault has."""
        if self._others.busy or not all(broker.running for broker in self._cluster.brokers):
            return None
        whole = [partition for partition in self._led() if len(partition.committed_isr) == len(self._cluster.brokers)]
        if not whole:
            return None
        chosen = self._random.choice(whole)
        followers = [broker for broker in self._cluster.brokers if broker.broker_id != chosen.local_id]
        self._random.shuffle(followers)
        return Cast(chosen.topic, chosen.index, self._cluster.brokers[chosen.local_id], followers)

    @contextmanager
    def _reserved(self, cast: Cast) -> Iterator[None]:
        brokers = {broker.broker_id for broker in (cast.leader, *cast.followers)}
        self._others.busy |= brokers
        try:
            yield
        finally:
            self._others.busy -= brokers

    @staticmethod
    async def _until(condition: Callable[[], bool]) -> bool:
        """Wait for it, for a while; tell whether it has come."""
        for _ in range(round(STEP_PATIENCE_S / STEP_S)):
            if condition():
                return True
            await asyncio.sleep(STEP_S)
        return False

    @contextmanager
    def _apart(self, leader: EmbeddedBroker, followers: list[EmbeddedBroker]) -> Iterator[None]:
        ways = [(leader.host, other.host) for other in followers]
        ways += [(target, source) for source, target in ways]
        for source, target in ways:
            self._network.cut(source, target, one_way=True)
        try:
            yield
        finally:
            for source, target in ways:
                self._network.heal_way(source, target)

    # what happens

    async def late_growth(self) -> None:
        """The ISR is to grow, and the controller's write is long under way: meanwhile the one who joins falls behind
        again, or another one has caught up as well."""
        cast = self._cast()
        if cast is None:
            return
        with self._reserved(cast):
            both = self._random.random() < 0.4
            joining = cast.followers if both else cast.followers[:1]
            away = {broker.broker_id for broker in joining}
            self._note(f"{cast.topic}-{cast.index}: {sorted(away)} are to leave the ISR of {cast.leader.host}")
            with self._apart(cast.leader, joining):
                left = await self._until(lambda: (led := cast.led) is None or not away & led.maximal_isr)
            if not left or cast.led is None:
                return
            former = self._others.zookeeper_latency_ms
            self._others.zookeeper_latency_ms = SLOW_WRITE_MS
            self._note(f"{cast.topic}-{cast.index}: and to join it again, slowly")
            try:
                await self._until(lambda: (led := cast.led) is None or bool(away & led.maximal_isr))
                with self._apart(cast.leader, cast.followers[:1]):
                    await asyncio.sleep(self._random.uniform(5.0, 7.0))
            finally:
                self._others.zookeeper_latency_ms = former

    async def late_proposal(self) -> None:
        """A leader proposes a follower for the ISR, and the controller hears of it when that one has died and come
        back: what it had fetched before says nothing any more."""
        cast = self._cast()
        active = [broker for broker in self._cluster.brokers if broker.running and _controls(broker)]
        if cast is None or not active or cast.leader is active[0]:
            return
        (joining,) = [broker for broker in cast.followers if broker is not active[0]]
        with self._reserved(cast):
            self._note(f"{cast.topic}-{cast.index}: {cast.leader.host} is to propose {joining.host}, unheard")
            with self._apart(cast.leader, [joining]):
                await self._until(lambda: (led := cast.led) is None or joining.broker_id not in led.maximal_isr)
            self._network.cut(cast.leader.host, active[0].host, one_way=True)
            if await self._until(lambda: (led := cast.led) is not None and joining.broker_id in led.maximal_isr):
                await self._others.kill_and_start(joining)
            self._network.heal_way(cast.leader.host, active[0].host)

    async def behind_and_dead(self) -> None:
        """A follower is behind, and dies with its leader: whoever leads next does not know what was acknowledged, and
        has the follower back before its own watermark has moved."""
        cast = self._cast()
        if cast is None:
            return
        behind = cast.followers[0]
        with self._reserved(cast):
            self._note(f"{cast.topic}-{cast.index}: {behind.host} falls behind {cast.leader.host}, and both die")
            with self._apart(cast.leader, [behind]):
                await self._until(lambda: (led := cast.led) is None or led.log.log_end_offset > led.high_watermark)
                for broker in (cast.leader, behind):
                    if broker.running:
                        broker.kill()
            heir = replace(cast, leader=cast.followers[1])
            await self._until(lambda: heir.led is not None)
            former = self._network.latency_ms
            self._network.latency_ms = SLOW_ANSWER_MS
            await self._others.start(behind)
            await asyncio.sleep(self._random.uniform(1.0, 5.0))
            self._network.latency_ms = former
            await self._others.start(cast.leader)

    async def there_and_back(self) -> None:
        """The leadership of a partition goes from one broker to another and back, several times in quick succession."""
        led = self._led()
        if not led:
            return
        chosen = self._random.choice(led)
        administrator, partition = self._others.administrator, (chosen.topic, chosen.index)
        for _ in range(self._random.randint(2, 6)):
            await administrator.give_the_lead_to_the_next(partition)
            await asyncio.sleep(self._random.choice((0.0, 0.3)) * self._random.random())

    async def take_office(self) -> None:
        """Delete the controller's znode, as administrators do to have another one elected. The present one has
        elections to write, stands still meanwhile, and goes on in a session that lives, not knowing yet."""
        for _ in range(self._random.randint(1, 3)):
            active = self._others.free_controller()
            if active is None:
                return
            self._others.busy.add(active.broker_id)
            asked = asyncio.ensure_future(self._others.administrator.elect_leaders())
            await asyncio.sleep(self._random.uniform(0.0, 0.05))
            self._note(f"{active.host} stands still, and the znode of the controller is deleted")
            active.suspend()
            with contextlib.suppress(MultiFailed):  # it has resigned meanwhile
                self._cluster.zookeeper.commit([Delete(CONTROLLER_PATH)], 0)
            await asyncio.sleep(self._random.uniform(0.3, 3.0))
            active.resume()
            await asked
            self._others.busy.discard(active.broker_id)

    async def stale_requests(self) -> None:
        """Ask leaders by epochs that are over, as a client does that has heard of no election for a while."""
        for partition in self._led():
            if partition.leader_epoch > 0 and self._cluster.brokers[partition.local_id].running:
                await self._ask_by_former_epoch(partition)

    async def _ask_by_former_epoch(self, partition: Partition) -> None:
        former, ask = partition.leader_epoch - 1, self._others.administrator.ask
        broker, name = self._cluster.brokers[partition.local_id], partition.topic
        wanted = FetchPartition(
            partition=partition.index,
            current_leader_epoch=former,
            fetch_offset=partition.log.log_start_offset,
            partition_max_bytes=1000,
        )
        topic = FetchTopic(topic=name, topic_id=partition.topic_id, partitions=[wanted])
        answer = await ask(broker, FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[topic]), 12)
        if answer is not None and answer.responses:
            self._judge(partition, former, "Fetch", answer.responses[0].partitions[0].error_code)
        asked = OffsetForLeaderPartition(partition=partition.index, current_leader_epoch=former, leader_epoch=former)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[asked])])
        answer = await ask(broker, request, 4)
        if answer is not None and answer.topics:
            self._judge(partition, former, "OffsetForLeaderEpoch", answer.topics[0].partitions[0].error_code)

    def _judge(self, partition: Partition, epoch: int, what: str, error: int) -> None:
        if error == ErrorCode.NONE:
            self._others.history.violated(f"{partition} has served a {what} of epoch {epoch}")


def _controls(broker: EmbeddedBroker) -> bool:
    return broker.server.services.controller.is_active
