"""Liveness: nobody lags in the ISR, waits for an answer, or keeps asking, for longer than there is a reason.

Whoever does harms no record: nothing is acknowledged any more, a client has waited in vain, a processor is lost.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator

from odradek.broker.replication.isr import FollowerProgress
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import AwaitedAppend, DelayedProduce
from odradek.protocol.topic_names import PartitionKey
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.administration import ADMINISTRATOR
from odradek.testing.simulation.history import History
from odradek.testing.virtual_network import VirtualNetwork

BUSY_MS = 2_000.0
"""Time by which a busy leader may look at its followers later than planned."""

Led = tuple[int, str, int]


class _Leader:
    """A leader in its present epoch, since it was free to look after its followers: when its log has ended where."""

    def __init__(self, leader: Partition, now_ms: float) -> None:
        self.life, self.since_ms = (leader, leader.leader_epoch), now_ms
        self.free_since_ms = now_ms
        """Since when it has had no change of its ISR in flight: it proposes one at a time."""
        self.partition_epoch = leader.partition_epoch
        self.ends: deque[tuple[float, int]] = deque()
        self.caught_up_ms: dict[FollowerProgress | None, float] = {}
        """Time at which a member of the ISR was last seen to have all, or to come in: for that the high watermark does.
        Whoever leads again, in the same epoch after its session expired, knows of no progress of before."""

    def lacks_since_ms(self, progress: FollowerProgress | None, has: int, now_ms: float) -> float:
        """Tell since when a follower that ends at `has` has lacked something; now, if it lacks nothing."""
        if has >= self.ends[-1][1]:
            self.caught_up_ms[progress] = now_ms
            return now_ms
        written_ms = next(at_ms for at_ms, end in self.ends if end > has)
        return max(self.since_ms, written_ms, self.caught_up_ms[progress])


def slack_ms(lag_time_ms_max: float) -> float:
    """Return the time for a leader to look at its followers, which it does twice in the time that they may lag."""
    return lag_time_ms_max / 2 + BUSY_MS


class Lagging:
    """Watches the followers of one cluster's leaders: who has not had all of its leader's log for
    `replica.lag.time.max.ms` is proposed to leave the ISR.

    A leader that has not heard of its latest epoch may count on a replica which had all, and has been deleted since.
    """

    def __init__(
        self,
        cluster: EmbeddedCluster,
        history: History,
        lag_time_ms_max: float,
        present_leader: Callable[[tuple[str, int]], Partition | None],
    ) -> None:
        """`present_leader` returns a partition's leader that knows of its latest epoch."""
        self._cluster, self._history = cluster, history
        self._slack_ms = slack_ms(lag_time_ms_max)
        self._limit_ms = lag_time_ms_max + self._slack_ms
        self._present_leader = present_leader
        self._leaders: dict[Led, _Leader] = {}

    def look(self) -> None:
        """Look at all leaders."""
        free = [broker for broker in self._cluster.brokers if broker.running and not broker.suspended]
        led = {
            (broker.broker_id, *where): partition
            for broker in free
            for where, partition in broker.server.services.replicas.partitions.items()
            if partition.is_leader
        }
        self._leaders = {key: one for key, one in self._leaders.items() if key in led}
        for key, leader in led.items():
            self._look_at(key, leader)

    def _look_at(self, key: Led, leader: Partition) -> None:
        now_ms = self._cluster.clock.monotonic_ms()
        known = self._leaders.get(key)
        if known is None or known.life != (leader, leader.leader_epoch):
            known = self._leaders[key] = _Leader(leader, now_ms)
        end = leader.log.log_end_offset
        if not known.ends or known.ends[-1][1] != end:
            known.ends.append((now_ms, end))
        where = (leader.topic, leader.index)
        others = leader.committed_isr - {leader.local_id}
        is_present = self._present_leader(where) is leader
        counted = [member for member in others if is_present or not self._is_deleted(member, where)]
        has = {member: self._cluster.brokers[member].log_end(*where) or 0 for member in counted}
        progress = {member: leader.followers.get(member) for member in has}
        if leader.partition_epoch > known.partition_epoch + 1:  # whoever is a member may have left and come in again
            known.caught_up_ms.clear()
        known.partition_epoch = leader.partition_epoch
        known.caught_up_ms = {one: known.caught_up_ms.get(one, now_ms) for one in progress.values()}
        while len(known.ends) > 1 and known.ends[0][1] <= min(has.values(), default=end):
            known.ends.popleft()
        if leader.pending_isr is not None:
            known.free_since_ms = now_ms
        for member, there in has.items():
            lacks_ms = now_ms - known.lacks_since_ms(progress[member], there, now_ms)
            if lacks_ms > self._limit_ms and now_ms - known.free_since_ms > self._slack_ms:
                self._history.violated(
                    f"{leader} keeps broker {member} in the ISR, which has lacked something for {lacks_ms:.0f} ms: "
                    f"it ends at {there} of {end}"
                )

    def _is_deleted(self, member: int, where: tuple[str, int]) -> bool:
        """Tell whether a broker has no such replica; of one that was deleted its last death may still tell an end."""
        broker = self._cluster.brokers[member]
        held = broker.server.services.replicas.partitions if broker.running else broker.spans_at_death
        return where not in held


class Waits:
    """Watches what waits in the brokers of one cluster until records are committed.

    What is forgotten in the purgatory is answered at its deadline only.
    """

    def __init__(self, cluster: EmbeddedCluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._known: set[DelayedProduce] = set()
        """Operations that could have been answered when they were looked at last."""

    def look(self) -> None:
        """Look at all brokers that run, of which each has had the time to do something since the last look."""
        known = {
            waiting: broker
            for broker in self._cluster.brokers
            if broker.running and not broker.suspended
            for waiting in self._could_be_answered(broker)
        }
        for waiting, broker in known.items():
            if waiting in self._known:
                appended = ", ".join(f"{one.partition} up to {one.required_offset}" for one in waiting.appends)
                self._history.violated(f"{broker.host}: a request waits though its outcome is known: {appended}")
        self._known = set(known)

    @staticmethod
    def _could_be_answered(broker: EmbeddedBroker) -> Iterator[DelayedProduce]:
        for operation in broker.server.services.replicas.purgatory.unfinished():
            if isinstance(operation, DelayedProduce) and all(map(is_known, operation.appends)):
                yield operation


def is_known(append: AwaitedAppend) -> bool:
    """Tell whether the outcome of an append can be told."""
    partition = append.partition
    return append.error is not None or not partition.is_leader or partition.high_watermark >= append.required_offset


WINDOW_MS = 2_000.0
MOST_PER_SECOND = 250
"""Most times that a host may send something to another one."""
MOST_FOR_A_CHANGE = 4
"""Further times for each change in ZooKeeper: its controller's LeaderAndIsr and UpdateMetadata, and the answers."""
MOST_CHANGES_PER_SECOND = 200
"""Most changes that count; twice what moves of all replicas at once have been seen to need."""


class Work:
    """Counts what the hosts of one cluster send each other.

    A loop that gets nowhere costs a processor: a follower that is told again and again to truncate, and does not. Who
    gets somewhere has more to say: what the controller writes into ZooKeeper it tells the brokers, so that forty
    replicas that move at once are no loop, though they are as loud. A loop that writes each time is one too. So has a
    follower whose log grows: where a Fetch brings one batch, it asks as often as there are batches. The administrator
    asks what a script says: of all partitions one after the other, say.
    """

    def __init__(self, cluster: EmbeddedCluster, history: History) -> None:
        assert isinstance(cluster.network, VirtualNetwork)
        self._network, self._clock, self._history = cluster.network, cluster.clock, history
        self._zookeeper, self._brokers = cluster.zookeeper, cluster.brokers
        # Where followers serve consumers, each of them hears of each record twice: it is there, and it is replicated
        self._most_per_second = MOST_PER_SECOND * (2 if "replica.selector.class" in cluster.overrides else 1)
        self._since_ms, self._since_zxid = cluster.clock.monotonic_ms(), cluster.zookeeper.tree.last_zxid
        self._ends: dict[tuple[str, PartitionKey], int] = {}

    def look(self) -> None:
        """Look at what was sent since the last window."""
        passed_ms, zxid = self._clock.monotonic_ms() - self._since_ms, self._zookeeper.tree.last_zxid
        if passed_ms < WINDOW_MS:
            return
        changes = min(zxid - self._since_zxid, MOST_CHANGES_PER_SECOND * passed_ms / 1000)
        most = self._most_per_second * passed_ms / 1000 + MOST_FOR_A_CHANGE * changes
        grown = self._growth()
        for (source, target), count in self._network.sent.items():
            if count > most + max(grown[source], grown[target]) and ADMINISTRATOR not in (source, target):
                self._history.violated(f"{source} has sent {target} something {count} times in {passed_ms:.0f} ms")
        self._network.sent.clear()
        self._since_ms, self._since_zxid = self._since_ms + passed_ms, zxid

    def _growth(self) -> Counter[str]:
        """Return by how many records the logs of each broker that runs have grown; what was truncated counts against
        what was written since."""
        before, self._ends = (
            self._ends,
            {
                (broker.host, where): partition.log.log_end_offset
                for broker in self._brokers
                if broker.running
                for where, partition in broker.server.services.replicas.partitions.items()
            },
        )
        grown: Counter[str] = Counter()
        for key, end in self._ends.items():
            grown[key[0]] += max(0, end - before.get(key, 0))
        return grown
