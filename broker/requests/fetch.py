"""Fetch (key 1), versions 0 to 17: read batches from partitions that this broker leads, or follows.

The answer waits until there are `min_bytes`, until something must be told at once (an error, a diverging epoch), or for
`max_wait_ms`. Sessions (KIP-227) exist from version 7 on, topic ids from 13. A follower's fetch also tells how far it
has come, which moves the high watermark and the ISR. Records are ranges of files, sent with sendfile; for versions 0 to
3 they are read and converted to message sets (`message.downconversion.enable`). That is done in slices of time, as are
requests for very many partitions. zstd is refused below version 10.

A read_committed consumer (from version 4 on) gets nothing at or after the last stable offset, and with the records a
list of the aborted transactions among them, so that it can leave their records out.

A follower serves consumers up to the high watermark that it knows: from version 11 on (KIP-392), and debugging ones,
with replica id -2, in any version.

With `replica.selector.class` the leader sends a consumer that names its rack to a replica in that rack.

The first fetch of a follower's session is answered at once: it names thousands of partitions, and if it waited it would
look at all of them whenever one changes. The fetches after it look only at what has changed.
"""

from collections.abc import Iterable, Iterator, Sequence

from odradek.broker.metrics.request_metrics import FETCH_CONSUMER, FETCH_FOLLOWER
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext, Respond, Wait
from odradek.broker.replication.fetch_reading import (
    AT_ONCE,
    DelayedFetch,
    FetchParameters,
    MayRead,
    PartitionsRead,
    converted,
    read_in_steps,
    read_partitions,
)
from odradek.broker.replication.fetch_sessions import CachedPartition, FetchSession, OpenedFetch, replica_of
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FIRST_VERSION_WITH_LEADER_HINT,
    READ_UNCOMMITTED,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from odradek.world.time_slices import TimeSlice, run_in_slices

REQUEST = FetchRequest
VERSIONS = (0, 17)


def handle(broker: Services, request: FetchRequest, context: RequestContext, may_read: MayRead = None) -> Outcome:
    """Answer a Fetch; partitions that `may_read` denies with TOPIC_AUTHORIZATION_FAILED."""
    version = context.api_version
    opened = broker.fetch_sessions.open(request, version, broker.metadata.names, broker.clock.monotonic_ms())
    if opened.error is not ErrorCode.NONE:
        refusal = FetchResponse(error_code=opened.error)
        broker.request_metrics.failed(FETCH_FOLLOWER if replica_of(request)[0] >= 0 else FETCH_CONSUMER, refusal)
        return Reply(refusal)
    parameters = _parameters(broker, request, version, may_read)
    if request.rack_id and broker.replicas.selector is not None:
        parameters.rack, parameters.listener = request.rack_id, context.listener
    return _Fetch(broker, opened, parameters, context).answer()


class _Fetch:
    """One Fetch on the way to its answer: read at once, in slices of time, or again and again while it waits."""

    __slots__ = ("broker", "context", "opened", "parameters")

    def __init__(
        self, broker: Services, opened: OpenedFetch, parameters: FetchParameters, context: RequestContext
    ) -> None:
        self.broker, self.opened, self.parameters, self.context = broker, opened, parameters, context

    def answer(self) -> Outcome:
        partitions = self.opened.partitions
        if len(partitions) > AT_ONCE:
            return self._read_many(partitions)
        read = read_partitions(self.broker.replicas, self.opened, self.parameters, partitions, arrived=True)
        if not self._is_enough(read):
            return self._wait()
        if read.unconverted:
            return self._convert(read)
        return Reply(self._response(read))

    async def _read_many(self, partitions: Sequence[CachedPartition]) -> Reply | Wait:
        """Read very many partitions in slices of time, then answer as `answer` does for a few."""
        turn = TimeSlice(self.broker.clock)
        read = await turn.result(read_in_steps(self.broker.replicas, self.opened, self.parameters, partitions))
        if not self._is_enough(read):
            return self._wait(tried=False)
        if read.unconverted:
            return await self._convert(read)
        await turn.pause_if_over()
        return Reply(self._response(read))

    def _is_enough(self, read: PartitionsRead) -> bool:
        """Tell whether what was read is to be answered now."""
        opened, parameters = self.opened, self.parameters
        if read.urgent or read.total_bytes >= parameters.min_bytes or parameters.max_wait_ms <= 0:
            return True
        nothing_asked = not read.answers and not opened.incremental
        begins = parameters.as_follower and opened.session is not None and not opened.incremental
        return nothing_asked or begins

    def _wait(self, passed: PartitionsRead | None = None, *, tried: bool = True) -> Wait:
        """Wait until there is enough. `passed` was read in vain: the reader can use none of it.

        `tried`: everything has just been read, and nothing can have changed since.
        """
        ends = None if passed is None else passed.ends()

        def read() -> PartitionsRead:
            partitions = self.opened.partitions
            found = read_partitions(self.broker.replicas, self.opened, self.parameters, partitions, arrived=False)
            if ends is not None and found.ends() == ends:
                found.total_bytes = 0
            return found

        def start(respond: Respond) -> DelayedFetch:
            def done(read: PartitionsRead) -> None:
                if read.unconverted:
                    run_in_slices(self.broker.clock, convert(read), at_once=True)
                else:
                    respond(self._response(read))

            def convert(read: PartitionsRead) -> Iterator[None]:
                known = yield from converted(read, self.broker.replicas, self.parameters)
                respond(self._response(known))

            return DelayedFetch(read, self.parameters.min_bytes, done)

        return Wait(start, self._keys(), self.parameters.max_wait_ms, tried=tried, only_reads=True)

    async def _convert(self, read: PartitionsRead) -> Reply | Wait:
        """Convert what was read to a format that the reader knows, and answer; wait if nothing is left of it."""
        known = await TimeSlice(self.broker.clock).result(converted(read, self.broker.replicas, self.parameters))
        if self._is_enough(known):
            return Reply(self._response(known))
        return self._wait(known, tried=False)

    def _keys(self) -> list[object]:
        """Return the keys to wait for: a follower waits for the log to grow, a consumer for the high watermark to move.

        A session is touched when something else becomes dirty in it.
        """
        replicas, opened, as_follower = self.broker.replicas, self.opened, self.parameters.as_follower
        found = [p for w in opened.partitions if (p := replicas.partitions.get((w.topic, w.index))) is not None]
        keys: list[object] = [p.appended for p in found] if as_follower else [p.advanced for p in found]
        if as_follower and replicas.selector is not None:
            keys += [p.advanced for p in found]
        return [opened.session, *keys] if opened.session is not None else keys

    def _response(self, read: PartitionsRead) -> FetchResponse:
        broker, as_follower, session = self.broker, self.parameters.as_follower, self.opened.session
        answers = read.answers if session is None else _session_answers(broker, session, read, self.opened.incremental)
        if as_follower:
            broker.replicas.count_sent_to_follower(self.parameters.replica_id, answers)
        else:
            broker.replicas.count_sent_to_consumer(answers)
        response = FetchResponse(session_id=0 if session is None else session.id, responses=_by_topic(answers))
        if read.failed:
            broker.request_metrics.failed(FETCH_FOLLOWER if as_follower else FETCH_CONSUMER, response)
        if read.failed and self.context.api_version >= FIRST_VERSION_WITH_LEADER_HINT:
            response.node_endpoints = _leaders_named(broker, answers, self.context.listener)
        return response


def _parameters(broker: Services, request: FetchRequest, version: int, may_read: MayRead) -> FetchParameters:
    replica_id, replica_epoch = replica_of(request)
    max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    committed = replica_id < 0 and request.isolation_level != READ_UNCOMMITTED
    min_bytes = min(request.min_bytes, max_bytes)  # more than may be answered is not waited for
    return FetchParameters(
        version, replica_id, replica_epoch, request.max_wait_ms, min_bytes, max_bytes, committed, may_read
    )


def _session_answers(
    broker: Services, session: FetchSession, read: PartitionsRead, incremental: bool
) -> list[tuple[CachedPartition, PartitionData]]:
    """Choose the answers that a session is sent: everything the first time, then only news."""
    answers = []
    partitions = broker.replicas.partitions
    for wanted, answer in read.answers:
        if wanted.note_sent(answer) or not incremental:
            answers.append((wanted, answer))
            if incremental and answer.records and session.holds(wanted):
                session.move_to_end(wanted)
        partition = partitions.get((wanted.topic, wanted.index))
        if partition is not None and session.holds(wanted):
            session.note_answer(wanted, answer, partition)
    return answers


def _by_topic(answers: Iterable[tuple[CachedPartition, PartitionData]]) -> list[FetchableTopicResponse]:
    """Group answers where neighbours are of one topic: the order of partitions matters to clients (KIP-74)."""
    topics: list[FetchableTopicResponse] = []
    last: CachedPartition | None = None
    for wanted, answer in answers:
        if last is None or wanted.topic != last.topic or wanted.topic_id != last.topic_id:
            topics.append(FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id))
        topics[-1].partitions.append(answer)
        last = wanted
    return topics


def _leaders_named(
    broker: Services, answers: Sequence[tuple[CachedPartition, PartitionData]], listener: str
) -> list[NodeEndpoint]:
    """Return the addresses of leaders that refusals name (KIP-951), so that a client need not ask for metadata.

    Where this broker has no replica the leader is the one that the metadata has.
    """
    for wanted, answer in answers:
        if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and answer.current_leader is None:
            known = broker.metadata.partition(wanted.topic, wanted.index)
            if known is not None:
                answer.current_leader = LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)
    leaders = {a.current_leader.leader_id for _, a in answers if a.current_leader is not None}
    nodes = [node for leader in sorted(leaders) if (node := broker.metadata.node(leader, listener)) is not None]
    return [NodeEndpoint(node_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in nodes]
