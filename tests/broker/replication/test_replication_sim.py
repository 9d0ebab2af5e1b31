"""Three replicas of one partition under a seeded adversary: real logs and rules, messages late or lost, processes
killed, leaders changed. Checked after every step: the high watermark of a leader never goes back in an epoch. At the
end, when all is calm: what was acknowledged with acks=all is in every log, at its offset, once and in order.

The controller here is the least one that keeps its promises: one state with compare-and-set, leaders from the ISR.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from odradek.broker.cluster.metadata_cache import TopicNames
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.fetch_reading import FetchParameters, read_partitions
from odradek.broker.replication.fetch_sessions import FetchSessionCache
from odradek.broker.replication.fetcher import FetcherCore
from odradek.broker.replication.isr import IsrCriteria, PartitionView, PendingIsr
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import AwaitedAppend
from odradek.broker.replication.throttling import Throttling
from odradek.broker.settings.network_settings import FetcherSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from odradek.protocol.record_batch import batches
from odradek.protocol.records import decode_records, encode_batch
from odradek.testing.log_environments import manager_of
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.files import FileRange

TOPIC, TOPIC_ID = "t", b"t" * 16
NAMES = TopicNames({TOPIC: TOPIC_ID}, {TOPIC_ID: TOPIC})
SETTINGS = FetcherSettings(replica_fetch_max_bytes=300, replica_fetch_response_max_bytes=10_000)
LAG_MS = 2_000
BROKERS = (0, 1, 2)


class Replica:
    """One broker's share: files that survive a kill, and what does not."""

    def __init__(self, broker_id: int, world: "Adversary") -> None:
        self.id, self.world = broker_id, world
        self.files = SimulatedFiles(seed=broker_id)
        self.checkpoint = 0
        self.alive = True
        self.epoch = 0
        self._boot()

    def _boot(self) -> None:
        self.epoch += 1
        environment = LogEnvironment(self.files, self.world.clock, InlineBackground(), self.world.random)
        config = LogConfig(segment_bytes=700, min_insync_replicas=2)
        replica_log = open_log(environment, f"/data/{TOPIC}-0", TOPIC, 0, config)
        criteria = IsrCriteria(LAG_MS, lambda broker: self.world.replicas[broker].alive)
        self.partition = Partition(TOPIC, 0, self.id, replica_log, self.checkpoint, criteria)
        self.partition.topic_id = TOPIC_ID
        self.manager = manager_of(self.partition, clock=self.world.clock, purgatory=self.world.purgatory)
        self.manager.alter_partition = self
        self.sessions = FetchSessionCache(4, self.world.random, self.world.purgatory)
        self.following: FetcherCore | None = None
        self.asking: FetcherCore | None = None
        """One question is under way at a time, as on a connection."""

    def submit(self, pending: PendingIsr) -> None:
        self.world.propose(self, pending)

    def kill(self) -> None:
        """SIGKILL: written bytes stay; the high watermark is the last checkpointed one, or older."""
        newest = max(self.checkpoint, self.partition.high_watermark)
        self.checkpoint = self.world.random.randint(self.checkpoint, newest)
        self.files.kill()
        self.alive = False

    def restart(self) -> None:
        self._boot()
        self.alive = True

    def obey(self, view: PartitionView) -> None:
        """A LeaderAndIsr, with the fences of replication/controller_requests."""
        mine = self.partition
        if (view.leader_epoch, view.partition_epoch) < (mine.leader_epoch, mine.partition_epoch):
            return
        self.world.purgatory.touch(mine.appended)
        if view.leader == self.id:
            self.following = None
            self.world.propose(self, mine.lead(view, self.world.clock.monotonic_ms()))
        else:
            mine.follow(view)
            self.following = None
            if view.leader >= 0:
                self.following = FetcherCore(self.id, view.leader, SETTINGS, self.world.throttling.following)
                self.following.broker_epoch = self.epoch
                self.following.follow(mine)


@dataclass
class Sent:
    value: bytes
    offset: int
    append: AwaitedAppend
    leader: int
    acknowledged: bool = False


class Adversary:
    def __init__(self, seed: int) -> None:
        self.random, self.clock = random.Random(seed), ManualClock()
        self.purgatory = Purgatory(TimingWheel(self.clock))
        self.throttling = Throttling(self.clock)
        self.view = PartitionView(0, 0, BROKERS, 0, BROKERS)
        self.replicas = [Replica(broker, self) for broker in BROKERS]
        self.mail: list[Callable[[], None]] = []
        self.sent: list[Sent] = []
        self.proposals: list[tuple[Replica, PendingIsr]] = []
        self.watermarks: dict[tuple[int, int, int], int] = {}
        self.written = 0
        self.announce()

    # the controller

    def announce(self) -> None:
        for replica in self.replicas:
            self.post(lambda r=replica, view=self.view, epoch=replica.epoch: self.tell(r, view, epoch))

    @staticmethod
    def tell(replica: Replica, view: PartitionView, epoch: int) -> None:
        if replica.alive and replica.epoch == epoch:
            replica.obey(view)

    def decide(self, leader: int, isr: tuple[int, ...]) -> None:
        view = self.view
        self.view = replace(
            view, leader=leader, isr=isr, leader_epoch=view.leader_epoch + 1, partition_epoch=view.partition_epoch + 1
        )
        self.announce()

    def elect(self) -> None:
        live = [r.id for r in self.replicas if r.alive and r.id in self.view.isr]
        if live:
            self.decide(self.random.choice(live), tuple(live) if len(live) < len(self.view.isr) else self.view.isr)

    def post(self, message: Callable[[], None]) -> None:
        self.mail.append(message)

    def propose(self, replica: Replica, proposal: PendingIsr | None) -> None:
        if proposal is not None:
            self.proposals.append((replica, proposal))

    def alter(self) -> None:
        """AlterPartition: written if the epochs match; the answer may be lost and the request repeated."""
        if not self.proposals:
            return
        replica, proposal = self.random.choice(self.proposals)
        view, isr = self.view, tuple(broker for broker, _ in proposal.isr)
        if replica.partition.pending_isr is not proposal or not replica.alive:
            self.proposals.remove((replica, proposal))
            return
        alive = all(
            self.replicas[broker].alive and epoch in (-1, self.replicas[broker].epoch) for broker, epoch in proposal.isr
        )
        if proposal.leader_epoch != view.leader_epoch or view.leader != replica.id:
            answer = None  # FENCED_LEADER_EPOCH: a LeaderAndIsr is on its way
        elif isr == view.isr:
            answer = view
        elif proposal.partition_epoch != view.partition_epoch:
            answer = None
        elif not alive:
            replica.partition.isr_refused(proposal)
            return
        else:
            answer = self.view = replace(view, isr=isr, partition_epoch=view.partition_epoch + 1)
        if answer is not None and self.random.random() < 0.4:
            replica.partition.isr_accepted(proposal, answer.isr, answer.partition_epoch)

    # what brokers and clients do

    def produce(self) -> None:
        replica = self.random.choice(self.replicas)
        if not replica.alive:
            return
        values = [f"{self.written + n}".encode() for n in range(self.random.randint(1, 3))]
        batch = encode_batch(0, [0] * len(values), [None] * len(values), values)
        try:
            appended = replica.manager.append(replica.manager.led(TOPIC, 0), batch, -1)
        except KafkaError as refused:
            assert refused.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS), refused
            return
        self.written += len(values)
        for n, value in enumerate(values):
            wait = AwaitedAppend(replica.partition, appended.last_offset + 1)
            self.sent.append(Sent(value, appended.first_offset + n, wait, replica.id))

    def settle(self) -> None:
        for sent in self.sent:
            if sent.append.partition is self.replicas[sent.leader].partition and self.replicas[sent.leader].alive:
                sent.acknowledged = sent.acknowledged or (sent.append.settle() and not sent.append.error)

    def fetch(self) -> None:
        """A follower asks; question and answer travel by themselves."""
        replica = self.random.choice(self.replicas)
        following = replica.following
        if not replica.alive or following is None or replica.asking is following:
            return
        if self.random.random() < 0.1:
            self.lose(replica, following)
        for followed in following.out_of_range():
            leader = self.replicas[following.leader_id]
            if leader.alive and leader.partition.is_leader:
                following.leader_offsets(
                    followed, leader.partition.log.log_start_offset, leader.partition.log.log_end_offset,
                    self.clock.monotonic_ms(),
                )  # fmt: skip
        request = following.request(self.clock.monotonic_ms())
        if request is not None:
            replica.asking = following
            question = encode(request, 17)
            self.post(lambda: self.serve(replica, following, question))

    def serve(self, replica: Replica, following: FetcherCore, question: bytes) -> None:
        leader = self.replicas[following.leader_id]
        if not leader.alive or replica.following is not following:
            self.lose(replica, following)
            return
        request, now_ms = decode(FetchRequest, 17, question), self.clock.monotonic_ms()
        opened = leader.sessions.open(request, 17, NAMES, now_ms)
        response = FetchResponse(error_code=opened.error)
        if opened.error is ErrorCode.NONE:
            assert request.replica_state is not None
            parameters = FetchParameters(17, replica.id, request.replica_state.replica_epoch, 0, 0, 10_000)
            read = read_partitions(leader.manager, opened, parameters, opened.partitions, arrived=True)
            for wanted, answer in read.answers:
                if isinstance(answer.records, FileRange):
                    part = answer.records
                    answer.records = part.file.pread(part.length, part.position)
                if wanted.note_sent(answer) or not opened.incremental:
                    response.responses.append(FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[answer]))
                if opened.session is not None:
                    opened.session.note_answer(wanted, answer, leader.partition)
            response.session_id = opened.session.id if opened.session else 0
        body = encode(response, 17)

        def arrive() -> None:
            if replica.alive and replica.following is following:
                replica.asking = None
                following.answered(decode(FetchResponse, 17, body), self.clock.monotonic_ms())

        if self.random.random() < 0.95:
            self.post(arrive)
        else:
            self.lose(replica, following)

    @staticmethod
    def lose(replica: Replica, following: FetcherCore) -> None:
        """The connection breaks."""
        following.disconnected()
        if replica.asking is following:
            replica.asking = None

    def kill_or_restart(self) -> None:
        dead = [r for r in self.replicas if not r.alive]
        if dead:
            replica = dead[0]
            replica.restart()
            self.post(lambda: self.tell(replica, self.view, replica.epoch))
            return
        replica = self.random.choice(self.replicas)
        if len(self.view.isr) == 1 and replica.id in self.view.isr:
            return  # the last one in sync: its disk holds the truth, but nobody could go on meanwhile
        replica.kill()
        isr = tuple(broker for broker in self.view.isr if broker != replica.id)
        leader = self.random.choice(isr) if self.view.leader == replica.id else self.view.leader
        self.decide(leader, isr)

    def shrink(self) -> None:
        for replica in self.replicas:
            if replica.alive:
                self.propose(replica, replica.partition.propose_shrink(self.clock.monotonic_ms()))

    def deliver(self, *, in_order: bool = False) -> None:
        if self.mail:
            self.mail.pop(0 if in_order else self.random.randrange(min(len(self.mail), 4)))()

    def check(self) -> None:
        for replica in self.replicas:
            partition = replica.partition
            if replica.alive and partition.is_leader:
                key = (replica.id, replica.epoch, partition.leader_epoch)
                assert partition.high_watermark >= self.watermarks.get(key, 0), "the high watermark went back"
                assert partition.high_watermark <= partition.log.log_end_offset
                self.watermarks[key] = partition.high_watermark

    def step(self) -> None:
        action = self.random.choices(
            (self.produce, self.fetch, self.deliver, self.alter, self.shrink, self.elect, self.kill_or_restart),
            weights=(8, 16, 24, 3, 1, 0.6, 0.5),
        )[0]
        action()
        self.clock.advance(self.random.choice((0.0, 10.0, 100.0)))
        self.settle()
        self.check()

    def calm(self) -> None:
        """Everybody lives, nothing is lost: the followers catch up."""
        for replica in self.replicas:
            if not replica.alive:
                replica.restart()
        self.proposals.clear()
        live_isr = [broker for broker in self.view.isr if self.replicas[broker].alive]
        self.decide(live_isr[0], self.view.isr)
        for _ in range(400):
            self.fetch()
            self.deliver(in_order=True)
            self.alter()
            self.clock.advance(50.0)
        self.settle()
        self.check()


def values_of(partition: Partition) -> list[tuple[int, bytes]]:
    """(offset, value) of everything in a log."""
    found, offset = [], partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        slice_ = partition.log.read(offset, 1 << 20, partition.log.log_end_offset, whole_first_batch=True)
        part = slice_.records
        assert isinstance(part, FileRange)
        data = part.file.pread(part.length, part.position)
        for at, header in batches(data):
            columns = decode_records(data, at)
            found += list(zip(columns.offsets, columns.values, strict=True))
            offset = header.base_offset + header.last_offset_delta + 1
    return [(offset, bytes(value or b"")) for offset, value in found]


@pytest.mark.parametrize("seed", range(40))
def test_what_was_acknowledged_stays(seed: int) -> None:
    world = Adversary(seed)
    for _ in range(700):
        world.step()
    world.calm()
    logs = [values_of(replica.partition) for replica in world.replicas]
    leader = logs[world.view.leader]
    assert [offset for offset, _ in leader] == list(range(len(leader))), f"seed {seed}: a gap"
    assert logs[0] == logs[1] == logs[2], f"seed {seed}: the replicas differ: {[len(one) for one in logs]}"
    held = dict(leader)
    lost = [s for s in world.sent if s.acknowledged and held.get(s.offset) != s.value]
    assert not lost, f"seed {seed}: acknowledged and not there: {lost[:3]}"
    values = [value for _, value in leader]
    assert len(values) == len(set(values)), f"seed {seed}: repeated"
    assert sum(s.acknowledged for s in world.sent) > 5, f"seed {seed}: the schedule acknowledged next to nothing"
