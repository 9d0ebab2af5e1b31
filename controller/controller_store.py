"""ZooKeeper as the active controller uses it: typed reads, and writes that check that nobody else was elected.

Every write is a multi whose first operation checks the version of `/controller_epoch`, so a deposed controller changes
nothing (Kafka's KafkaZkClient.retryRequestsUntilConnected with expectedControllerEpochZkVersion). Every write of data
expects a version. Calls outlive a lost connection: they wait for the session to come back, and raise ControllerMoved
when it does not. A write whose answer was lost counts as a lost race: whoever asked reads again and decides again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from odradek.controller.cluster_state import Broker, LeaderAndIsr, Topic
from odradek.controller.decoded_znodes import decode_leader_and_isr, decode_topic, state_data
from odradek.journal.journal import Journal
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.lost_answers import create_if_missing
from odradek.zk_schema.store import (
    BadVersion,
    Check,
    ConnectionLost,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    Operation,
    OperationResult,
    SessionExpired,
    SetData,
    Stat,
    Store,
    StoreError,
    TooLarge,
)
from odradek.zk_schema.znodes.admin import DELETE_TOPICS_PATH, delete_topic_path
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, BrokerRegistration, broker_ids, broker_path
from odradek.zk_schema.znodes.configs import decode_config, topic_config_path
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.topics import (
    TOPICS_PATH,
    PartitionReplicas,
    PartitionState,
    TopicAssignment,
    state_path,
    topic_path,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

OPERATIONS_PER_MULTI = 100
"""Most writes in a transaction. ZooKeeper's limit of 1 MB would allow more states, of 150 bytes, but delays others."""
CALLS_IN_FLIGHT = 256
READS_PER_CALL = 100
DECODED_AT_ONCE = 500
"""Partitions whose assignments are decoded before others have their turn: some milliseconds."""
PATHS_NOTED_MAX: Final = 5
"""Most paths of one transaction in the journal."""


class ControllerMoved(Exception):  # noqa: N818 (it is news, not an error)
    """Raised when this broker is not the controller any more: its session is gone, or `/controller_epoch` has another
    version."""


class ControllerStore:
    """Access to ZooKeeper in one controller epoch."""

    def __init__(self, store: Store, epoch_path: str, epoch_version: int, journal: Journal) -> None:
        """`store` is in the session that won the election; every write checks that `epoch_path` has `epoch_version`."""
        self._journal = journal
        self._store = store
        self._fence = Check(epoch_path, epoch_version)
        self._session_id = store.session_id
        self._revoked = False
        self._news = asyncio.Event()
        self.unreadable: set[tuple[str, int | None]] = set()
        """Topics (with None) and partitions whose znodes exist but could not be decoded when they were last read."""

    def connection_changed(self) -> None:
        """Wake the calls that wait for a connection; to be called when the store tells its listeners of Connected."""
        self._news.set()

    def revoke(self) -> None:
        """Have every call raise ControllerMoved from now on."""
        self._revoked = True
        self._news.set()

    # Brokers.

    async def brokers(self, known: Mapping[int, Broker]) -> dict[int, Broker]:
        """Read the registered brokers; watch for those that come, go, or change their registration.

        A broker whose registration cannot be read stays as it is in `known`, if it has the same epoch there: only
        ZooKeeper can say that a broker is gone, and it has not said so.
        """
        ids = sorted(broker_ids(await self.children(BROKER_IDS_PATH, watch=True)))
        found = await self.get_all([broker_path(broker_id) for broker_id in ids], watch=True)
        brokers = {}
        for broker_id, znode in zip(ids, found, strict=True):
            if znode is None:
                continue
            epoch = znode[1].czxid
            try:
                brokers[broker_id] = Broker(epoch, BrokerRegistration.decode(broker_id, znode[0]))
            except BadZnode as bad:
                log.error("the registration of broker %d cannot be read: %s", broker_id, bad)
                if broker_id in known and known[broker_id].epoch == epoch:
                    brokers[broker_id] = known[broker_id]
        return brokers

    # Topics.

    async def topics(self) -> set[str]:
        """Read the names of all topics; watch for topics that come and go."""
        names = set(await self.children(TOPICS_PATH, watch=True))
        self.unreadable = {one for one in self.unreadable if one[0] in names}
        return names

    async def assignments(self, topics: Iterable[str]) -> dict[str, Topic]:
        """Read the assignments of those topics that exist and can be read; watch each."""
        wanted = sorted(topics)
        found = await self.get_all([topic_path(topic) for topic in wanted], watch=True)
        decoded = {}
        partitions = 0
        for topic, znode in zip(wanted, found, strict=True):
            if partitions >= DECODED_AT_ONCE:
                await asyncio.sleep(0)
                partitions = 0
            held = None if znode is None else decode_topic(topic, znode[0])
            partitions += len(held.partitions) if held is not None else 1
            self._note_whether((topic, None), readable=znode is None or held is not None)
            if held is not None:
                decoded[topic] = held
        return decoded

    def _note_whether(self, what: tuple[str, int | None], *, readable: bool) -> None:
        """Note whether the znode of a topic or partition can be decoded; a missing one counts as readable."""
        if readable:
            self.unreadable.discard(what)
        else:
            self.unreadable.add(what)

    async def change_assignment(self, topic: str, change: Callable[[Topic], Topic | None]) -> Topic | None:
        """Compare-and-set a topic's znode: `change` returns what it is to hold, given what it holds; None to leave it.

        When somebody else was quicker (CreatePartitions, say), `change` is called again with what they wrote. Returns
        what ZooKeeper has now; None when the topic is gone, cannot be read, or `change` left it. Raises TooLarge.
        """
        path = topic_path(topic)
        while True:
            znode = await self.get(path)
            found = None if znode is None else decode_topic(topic, znode[0])
            wanted = None if found is None else change(found)
            if znode is None or found is None or wanted is None or wanted == found:
                return wanted
            held = {index: PartitionReplicas(*assignment) for index, assignment in wanted.partitions.items()}
            data = TopicAssignment(held, wanted.topic_id).encode()
            (result,) = await self.write_each([SetData(path, data, znode[1].version)])
            if isinstance(result, Stat):
                return wanted
            assert isinstance(result, StoreError), result
            if not lost_race(result) and not isinstance(result, NoNode):
                raise result

    async def topics_with_unclean_election(self, topics: Sequence[str], *, default: bool) -> set[str]:
        """Return the topics whose settings, or the broker's default, allow a leader from outside the ISR."""
        paths, allowed = [topic_config_path(topic) for topic in topics], set()
        for topic, path, znode in zip(topics, paths, await self.get_all(paths), strict=True):
            try:
                settings = {} if znode is None else decode_config(path, znode[0])
            except BadZnode as bad:
                log.error("no unclean election for topic %s, its settings cannot be read: %s", topic, bad)
                continue
            if settings.get("unclean.leader.election.enable", str(default)).lower() == "true":
                allowed.add(topic)
        return allowed

    # Partition states.

    async def leader_and_isr(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr | None]:
        """Read partitions' states; None where there is no readable znode."""
        states: dict[TopicPartition, LeaderAndIsr | None] = dict.fromkeys(partitions)
        decoded: dict[bytes, PartitionState] = {}
        """States by content: thousands of partitions have the same, and then share it."""

        async def read(some: Sequence[TopicPartition]) -> None:
            found = await self._get_each([state_path(*partition) for partition in some])
            for partition, znode in zip(some, found, strict=True):
                state = None if znode is None else decode_leader_and_isr(partition, *znode, decoded)
                states[partition] = state
                self._note_whether(partition, readable=znode is None or state is not None)

        await asyncio.gather(*(read(some) for some in slices(partitions, READS_PER_CALL)))
        return states

    async def update_leader_and_isr(
        self, chosen: Mapping[TopicPartition, LeaderAndIsr]
    ) -> dict[TopicPartition, LeaderAndIsr | StoreError]:
        """Write states on condition of their partition epochs; return each with its new one, or what prevented it."""
        operations = [
            SetData(state_path(*partition), state_data(wanted), wanted.partition_epoch)
            for partition, wanted in chosen.items()
        ]
        written: dict[TopicPartition, LeaderAndIsr | StoreError] = {}
        results = await self.write_each(operations)
        for (partition, wanted), result in zip(chosen.items(), results, strict=True):
            if isinstance(result, Stat):
                written[partition] = wanted._replace(partition_epoch=result.version)
            else:
                assert isinstance(result, StoreError), result
                written[partition] = result
        return written

    # Deletion.

    async def topics_to_delete(self) -> set[str]:
        """Read the names under `/admin/delete_topics`; watch for more."""
        return set(await self.children(DELETE_TOPICS_PATH, watch=True))

    async def forget_deletion(self, topics: Iterable[str]) -> None:
        """Remove the marks of topics that are not to be deleted after all."""
        for topic in sorted(topics):
            await self.write_until_done(Delete(delete_topic_path(topic)))

    async def delete_all(self, paths: Sequence[str]) -> None:
        """Delete those znodes that exist. What a lost connection leaves there is found by the next reader."""
        await self.write_each([Delete(path) for path in paths])

    # Any znode: reads.

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat] | None:
        """Read data and stat; None when there is no such znode, and then no watch is left."""
        try:
            return await self._answered(lambda: self._store.get(path, watch=watch))
        except NoNode:
            return None

    async def get_all(self, paths: Sequence[str], *, watch: bool = False) -> list[tuple[bytes, Stat] | None]:
        """Read data and stats, pipelined, in the order of `paths`; without watches many in one request."""
        found: list[tuple[bytes, Stat] | None] = []
        for some in slices(paths, CALLS_IN_FLIGHT):
            if watch:
                found += await asyncio.gather(*(self.get(path, watch=True) for path in some))
            else:
                for part in await asyncio.gather(*(self._get_each(part) for part in slices(some, READS_PER_CALL))):
                    found += part
        return found

    async def _get_each(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return await self._answered(lambda: self._store.get_each(paths))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Read the names below; none when there is no such znode, which is made if it is to be watched."""
        while True:
            try:
                return await self._answered(lambda: self._store.children(path, watch=watch))
            except NoNode:
                if not watch:
                    return []
            await self._answered(lambda: create_if_missing(self._store, path))

    async def exists(self, path: str, *, watch: bool = False) -> bool:
        return await self._answered(lambda: self._store.exists(path, watch=watch)) is not None

    # Any znode: writes.

    async def write_each(
        self, operations: Sequence[Operation], given: Sequence[Check] = ()
    ) -> list[OperationResult | StoreError]:
        """Carry out independent writes, many in one transaction; return for each the result or why it was refused.

        No transaction does anything unless all of `given` holds. ConnectionLost as a result: the outcome is unknown.
        """
        groups = slices(operations, OPERATIONS_PER_MULTI)
        results = await asyncio.gather(*(self._write_group(some, given) for some in groups))
        return [result for group in results for result in group]

    async def write(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Carry out one transaction. Raises MultiFailed (index into `operations`), ConnectionLost (outcome unknown)."""
        await self._ready()
        try:
            results = (await self._store.multi([self._fence, *operations]))[1:]
        except SessionExpired as gone:
            raise ControllerMoved(str(gone)) from gone
        except MultiFailed as failed:
            if failed.index == 0:
                raise ControllerMoved(str(failed)) from failed
            raise MultiFailed(failed.index - 1, failed.cause) from failed
        self._note_written(operations, results)
        return results

    def _note_written(self, operations: Sequence[Operation], results: Sequence[OperationResult]) -> None:
        """Note the written paths in the journal, with ZooKeeper's id of the transaction (zxid) if an answer has it."""
        paths = [operation.path for operation in operations if not isinstance(operation, Check)]
        if not paths:
            return
        zxid = next((result.mzxid for result in results if isinstance(result, Stat)), None)
        self._journal.note("write", "zookeeper", zxid=zxid, znodes=len(paths), paths=paths[:PATHS_NOTED_MAX])

    async def _write_group(
        self, operations: Sequence[Operation], given: Sequence[Check] = ()
    ) -> list[OperationResult | StoreError]:
        try:
            return list((await self.write([*given, *operations]))[len(given) :])
        except (ConnectionLost, TooLarge) as error:
            return [error] * len(operations)
        except MultiFailed as failed:
            if len(operations) == 1 or failed.index < len(given):
                return [failed.cause] * len(operations)
        alone = await asyncio.gather(*(self._write_group([operation], given) for operation in operations))
        return [result for results in alone for result in results]

    async def write_until_done(self, operation: Operation) -> None:
        """Repeat a write until it is done; NoNode (deleted already) and NodeExists (created already) count as done.

        BadVersion ends it as well: somebody else has written, and the watch for that brings the caller back.
        """
        while True:
            (result,) = await self._write_group([operation])
            if isinstance(result, ConnectionLost):
                continue
            if isinstance(result, StoreError) and not isinstance(result, NoNode | NodeExists | BadVersion):
                raise result
            return

    async def _answered(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            await self._ready()
            try:
                return await call()
            except ConnectionLost:
                continue
            except SessionExpired as gone:
                raise ControllerMoved(str(gone)) from gone

    async def _ready(self) -> None:
        while not self._revoked and not self._store.connected:
            self._news.clear()
            await self._news.wait()
        if self._revoked or self._store.session_id != self._session_id:
            raise ControllerMoved("the session in which this broker was elected is gone")


def slices(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Cut `items` into slices of at most `size`, in order."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def lost_race(error: StoreError) -> bool:
    """Tell whether a conditional write has to be decided again, from what ZooKeeper has now."""
    return isinstance(error, BadVersion | ConnectionLost)
