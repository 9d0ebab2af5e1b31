"""What operators do to a cluster that works: they restart all of it one by one, change settings, and make, move and
delete what a broker dies with."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from odradek.broker.replication.partition import Partition
from odradek.client.records import TopicPartition
from odradek.testing.simulation import loose_topic
from odradek.testing.simulation.administration import OF_BROKERS, OF_TOPIC
from odradek.testing.simulation.faults import Faults

MOMENTS_S = (0.0, 0.003, 0.02, 0.1)
"""Most time between an administrator's request and a broker's death: most are done within a tenth of a second."""
WRITES_MAX = 4
"""Most writes to ZooKeeper, within a tenth of a second, right behind which it dies instead."""
LOOK_S, LOOKS = 0.0001, 1000
OF_ANY_TOPIC = {
    "compression.type": ("producer", "lz4", "gzip", "uncompressed"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "segment.ms": ("300", "5000", "604800000"),
    "segment.bytes": ("1000", "3000", "1073741824"),
    "index.interval.bytes": ("1", "300", "4096"),
}
EXPIRING = {"retention.ms": ("5000", "3600000", "-1"), "retention.bytes": ("2000", "8000", "-1")}
"""Settings for topics of which old records may go."""
UNCLEAN = {"unclean.leader.election.enable": ("true", "false")}
OF_ALL_BROKERS = {
    "num.replica.fetchers": ("1", "2", "4"),
    "log.segment.bytes": ("2000", "1073741824"),
    "background.threads": ("5", "20"),
}
HIGH_WATERMARK = -1
"""What DeleteRecords calls it."""
MIN_IN_SYNC = ("2", "3")
"""Values of min.insync.replicas, never less than what acknowledged records are held against."""


class Operations:
    """Operators of one simulation's cluster. `topic`: the one that is written to most; `expires`: old records of it
    may be deleted."""

    def __init__(self, others: Faults, topics: Sequence[str], *, expires: bool) -> None:
        """`topics`: those that are written to, the main one first."""
        self._others, self._topics, self._expires = others, topics, expires
        self._administrator = others.administrator
        self._random, self._note = others.random, others.history.note
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "rolling_restart": self.rolling_restart,
            "live_settings": self.live_settings,
            "death_within": self.death_within,
            "delete_records": self.delete_records,
        }

    async def rolling_restart(self) -> None:
        """Shut each broker down in a controlled way and start it again, one after another, the next one perhaps before
        the last one is in sync."""
        order = list(self._others.cluster.brokers)
        self._random.shuffle(order)
        pauses_s = self._random.choice((0.0, 0.5, 5.0))
        self._note(f"rolling restart: {[broker.broker_id for broker in order]}")
        for broker in order:
            if self._others.is_free(broker):
                await self._others.shut_down_and_start(broker)
                await asyncio.sleep(pauses_s)

    async def live_settings(self) -> None:
        """Change settings of topics, or those that hold for all brokers."""
        for _ in range(self._random.randint(1, 6)):
            await self._change_settings()
            await self._others.pass_time(0.0, 3.0)

    async def _change_settings(self) -> None:
        if self._random.random() < 0.7:
            await self._set_of_topic(self._random.choice(self._topics))
        else:
            await self._set(OF_BROKERS, "", {**OF_ALL_BROKERS, **self._min_in_sync})

    @property
    def _min_in_sync(self) -> dict[str, tuple[str, ...]]:
        return {"min.insync.replicas": MIN_IN_SYNC} if self._administrator.replicas > 1 else {}

    async def _set_of_topic(self, topic: str) -> None:
        if topic == loose_topic.TOPIC:
            await self._set(OF_TOPIC, topic, {**OF_ANY_TOPIC, **UNCLEAN})
        elif self._expires and topic == self._topics[0]:
            await self._set(OF_TOPIC, topic, {**OF_ANY_TOPIC, **EXPIRING, **self._min_in_sync})
        else:
            await self._set(OF_TOPIC, topic, {**OF_ANY_TOPIC, **self._min_in_sync})

    async def _set(self, kind: int, name: str, settings: dict[str, tuple[str, ...]]) -> None:
        setting = self._random.choice(sorted(settings))
        await self._administrator.configure(kind, name, setting, self._random.choice((*settings[setting], None)))

    async def death_within(self) -> None:
        """Kill a broker, the controller as often as not, while topics are made or deleted, replicas move, or settings
        change."""
        administrator = self._administrator
        acts = (
            administrator.create_topic, administrator.delete_topic, administrator.reassign, self._change_settings,
        )  # fmt: skip
        for _ in range(self._random.randint(1, 3)):
            if not administrator.topics:
                await administrator.create_topic()
            acting = asyncio.ensure_future(self._random.choice(acts)())
            await self._moment()
            chosen = self._others.free_controller() if self._random.random() < 0.5 else self._others.pick()
            if chosen is not None:
                await self._others.kill_free(chosen)
            await acting

    async def _moment(self) -> None:
        """Wait for the moment of a death: some time, or a write to ZooKeeper that another should follow."""
        if self._random.random() < 0.5:
            await asyncio.sleep(self._random.choice(MOMENTS_S) * self._random.random())
            return
        zookeeper = self._others.cluster.zookeeper
        last = zookeeper.tree.last_zxid + self._random.randint(1, WRITES_MAX)
        for _ in range(LOOKS):
            if zookeeper.tree.last_zxid >= last:
                return
            await asyncio.sleep(LOOK_S)

    async def delete_records(self) -> None:
        """Delete committed records of the topic whose records may go."""
        for _ in range(self._random.randint(1, 3) if self._expires else 0):
            led = [
                (broker, partition)
                for broker in self._others.cluster.brokers
                if broker.running
                for (topic, _), partition in broker.server.services.replicas.partitions.items()
                if topic == self._topics[0] and partition.is_leader
            ]
            if led:
                broker, partition = self._random.choice(led)
                offset = self._random.choice((HIGH_WATERMARK, partition.high_watermark // 2))
                lives = [one.lives for one in self._others.cluster.brokers]
                begin = await self._administrator.delete_records(broker, partition.topic, partition.index, offset)
                if begin is not None:
                    self._judge_deletion(partition, begin, lives)
                where = TopicPartition(partition.topic, partition.index)
                self._others.history.log_start_of(where)  # which remembers it
            await self._others.pass_time(0.0, 3.0)

    def _judge_deletion(self, leader: Partition, begin: int, lives: Sequence[int]) -> None:
        """Require that who is in sync, and has lived through a deletion, has nothing of what is told to be gone."""
        for broker, life in zip(self._others.cluster.brokers, lives, strict=True):
            if not (broker.running and broker.lives == life and broker.broker_id in leader.committed_isr):
                continue
            held = broker.server.services.replicas.partitions.get((leader.topic, leader.index))
            knows = held is not None and not held.offline and held.leader_epoch == leader.leader_epoch
            if held is not None and knows and held.log.log_start_offset < begin and leader.is_leader:
                self._others.history.violated(
                    f"{leader} told that all before {begin} is deleted, {broker.host} begins at "
                    f"{held.log.log_start_offset}"
                )
