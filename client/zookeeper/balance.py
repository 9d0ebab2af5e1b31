"""Balancing of a group as one member sees it: the next step, and what follows from its outcome. No I/O.

The rules are those of ZookeeperConsumerConnector.ZKRebalancerListener in Kafka 0.8-1.1, except that no partition can be
left without an owner. One step at a time, in this order of precedence:

    Register   the member is not registered in this session
    Release    it owns something that it should not, or lost a race: everything that it has claimed goes back
    Read       something may have changed since the group was read, or another attempt is due
    Claim      it is known what to own, and nothing is owned
    Start      everything is claimed: read offsets, fetch
    Wait       for a change, or for the next attempt

In Kafka no member learns that an owner has gone: one that has used up rebalance.max.retries waits for another change,
perhaps for ever. Here the owner znodes that were in the way are watched; when all are gone, there is another attempt.
Steps that fail for other reasons are repeated without a limit, and every rebalance.max.retries failures in a row are
logged. Partitions that are claimed but cannot be started are released.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from odradek.client.records import TopicPartition
from odradek.client.waiting import NEVER
from odradek.client.zookeeper.assignment import Assignment, GroupView, group_assignment, part_of


@dataclass(frozen=True, slots=True)
class Register:
    """Step: write the member's znode, then `registered`."""


@dataclass(frozen=True, slots=True)
class Release:
    """Step: stop fetching, commit, delete the owner znodes, in this order, then `released`."""

    partitions: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class Read:
    """Step: read the group, leaving watches, and whether `owned` is really owned, then `read`."""

    owned: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Claim:
    """Step: create the owner znodes, then `claimed`."""

    partitions: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class Start:
    """Step: read the offsets, which nobody else changes now, and begin to fetch, then `fetching`."""

    partitions: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class Report:
    """Step: log a failure."""

    text: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Step: wait until a monotonic time, or until something is reported."""

    until_ms: float


Step = Register | Release | Read | Claim | Start | Report | Wait


class Balance:
    """State of a member's balancing. The caller reports each step's outcome, unless the session has ended meanwhile."""

    def __init__(self, consumer_id: str, strategy: str, max_retries: int, backoff_ms: float) -> None:
        self.consumer_id = consumer_id
        self.session_id = 0
        """Id of the session; 0 while there is none."""
        self.owned: Assignment = {}
        """Owner znodes of this session, as far as is known."""
        self.assignment: Assignment = {}
        """What the group was last found to be assigned, this member's part included."""
        self.started = False
        """True while the owned partitions are fetched."""
        self.settled = False
        """True when there is nothing more to do as long as nothing changes."""
        self._strategy = strategy
        self._max_retries = max_retries
        self._backoff_ms = backoff_ms
        self._registered = False
        self._stale = True
        self._releasing = False
        self._target: Assignment | None = None
        self._blockers: set[str] = set()
        self._attempts = 0
        self._retry_at_ms = NEVER
        self._not_before_ms = 0.0
        self._report: str | None = None

    # -- what to do ----------------------------------------------------------------------------------------------------

    def take_step(self, now_ms: float) -> Step:
        """Return the next step; it counts as begun."""
        if self._report is not None:
            report, self._report = Report(self._report), None
            return report
        if not self.session_id:
            return Wait(NEVER)
        if now_ms < self._not_before_ms:
            return Wait(self._not_before_ms)
        if not self._registered:
            return Register()
        if self._releasing and self.owned:
            return Release(self.owned)
        if self._stale or now_ms >= self._retry_at_ms:
            self._stale, self._target, self._retry_at_ms = False, None, NEVER
            self.settled = False
            self._blockers.clear()
            return Read(self.owned)
        if self._target is not None:
            return Claim(self._target)
        if self.owned and not self.started:
            return Start(self.owned)
        return Wait(self._retry_at_ms)

    # -- what happens --------------------------------------------------------------------------------------------------

    def connected(self, session_id: int) -> None:
        """Note that a session is connected, a new one or the previous one."""
        if session_id != self.session_id:
            self.expired()
            self.session_id = session_id
        self.changed()

    def expired(self) -> None:
        """Note that the session has expired, and with it all its znodes: nothing is owned, and nothing to release."""
        self.session_id = 0
        self.owned, self._target = {}, None
        self.started = self.settled = self._registered = self._releasing = False
        self._blockers.clear()
        self._not_before_ms = 0.0

    def changed(self) -> None:
        """Note that members, brokers, topics or partitions have changed: a watch has fired."""
        self._stale, self.settled = True, False
        self._attempts = 0

    def owner_gone(self, path: str) -> None:
        """Note that an owner znode was deleted. When all that were in the way are gone, another attempt is due."""
        if path in self._blockers:
            self._blockers.discard(path)
            self._stale = self._stale or not self._blockers

    # -- how it went ---------------------------------------------------------------------------------------------------

    def registered(self) -> None:
        """Note that the member's znode exists."""
        self._registered = self._stale = True

    def released(self) -> None:
        """Note that all partitions were released: nothing is owned now."""
        self.owned = {}
        self.started = self._releasing = False

    def read(self, view: GroupView) -> None:
        """Compare the assignment that follows from the group with what is owned, and claim it if it differs."""
        if self.consumer_id not in view.members:
            self._registered = False
            return
        if not view.brokers:
            # As in Kafka: nothing can be fetched anyway, and a broker that comes back is a change.
            self._settle()
            return
        self.assignment = group_assignment(self._strategy, view)
        wanted = part_of(self.consumer_id, self.assignment)
        if wanted == self.owned and view.held.issuperset(wanted):
            self._settle()
            return
        self._target = wanted
        self._releasing = bool(self.owned)

    def claimed(self, won: Assignment, blockers: Collection[str], now_ms: float) -> None:
        """Note which partitions were won. `blockers`: paths of others' owner znodes, which are watched now.

        If any partition was not won, all of them are released, and the group is read again after a pause.
        """
        assert self._target is not None and not self.owned, (self._target, self.owned)
        wanted, self._target = self._target, None
        self.owned = won
        self._releasing = won.keys() != wanted.keys()
        if not self._releasing:
            self._settle()
            return
        self._blockers = set(blockers)
        given_up = self._count_failure("others still own its partitions: " + ", ".join(sorted(blockers)))
        self._retry_at_ms = NEVER if given_up and blockers else now_ms + self._backoff_ms

    def fetching(self) -> None:
        """Note that the owned partitions are being fetched."""
        self.started = True
        self._settle()

    def interrupted(self, step: Step) -> None:
        """Note that a step was not finished, because the connection was lost. It is back now, in the same session."""
        if isinstance(step, Claim):
            # Any of the owner znodes may have been created: all partitions go back.
            self.owned, self._target = dict(step.partitions), None
        self._releasing = self._releasing or not self.started
        self._stale = True

    def failed(self, step: Step, reason: str, now_ms: float) -> None:
        """Note that a step has failed, for another reason than a lost race. Partitions that are fetched stay owned."""
        self.interrupted(step)
        self._count_failure(reason)
        self._not_before_ms = now_ms + self._backoff_ms

    def _count_failure(self, reason: str) -> bool:
        """Count a failed attempt; tell whether rebalance.max.retries is used up."""
        self._attempts += 1
        if self._attempts < self._max_retries:
            return False
        self._report = f"{self.consumer_id} cannot rebalance after {self._attempts} attempts: {reason}"
        self._attempts = 0
        return True

    def _settle(self) -> None:
        """Note that there is nothing more to do, unless partitions are claimed and not started yet."""
        if self.started or not self.owned:
            self._attempts = 0
            self.settled = not self._stale
