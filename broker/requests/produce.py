"""Produce (key 0), versions 0 to 11: append batches to partitions that this broker leads.

acks=0: no answer; an error closes the connection, as there is no other way to tell. acks=1: answered after the append.
acks=all: answered when every replica in sync has the records, or at the timeout; the connection's next Produce is
taken up meanwhile. One entry in the answer for each partition asked, in the order asked.

The topics of the coordinators are written by coordinators alone: clients are told INVALID_TOPIC_EXCEPTION, except one
with the client id of Kafka's own administration (ReplicaManager.appendToLocalLog of Kafka 3.9).

Versions 0 to 2 carry message sets, which are converted on append. That may take seconds; so may topics with rules that
look at each record, and requests for thousands of partitions. Such a request is handled in slices of time: each batch
is appended when it is ready, and the connection's next request waits for all of them.

A batch of a transaction needs a transactional id; the first one is accepted when the coordinator says that the
transaction has begun (see transactions/transaction_verification.py). With acks=0 nobody is asked, and no transaction
begins.
"""

from collections.abc import Coroutine, Iterator
from struct import Struct

from odradek.broker.log.producer_sequences import RefusedLikewise
from odradek.broker.log.rewriting import BadRecords
from odradek.broker.log.verifications import UNGUARDED, VerificationGuard
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext, Respond, Settled, Silent, Wait
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import AwaitedAppend, DelayedProduce
from odradek.broker.requests.authorization.item_refusals import of_produced_topic
from odradek.broker.requests.slow_records import (
    FIRST_PRODUCE_VERSION_WITH_BATCHES,
    SlowRecords,
    are_slow,
    is_batch,
    make_ready,
    put_off,
    put_off_topic,
)
from odradek.broker.services import Services
from odradek.broker.transactions.transaction_verification import RETRIED, Unverified, Verdicts, begin_verifications
from odradek.protocol.compression import ZSTD
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.primitives import Records
from odradek.protocol.record_batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
)
from odradek.protocol.steps import Steps
from odradek.protocol.topic_names import INTERNAL_TOPICS
from odradek.world.time_slices import TimeSlice, in_slices

REQUEST = ProduceRequest
VERSIONS = (0, 11)

ALL = -1
ADMIN_CLIENT_ID = "__admin_client"
"""Client id that may write to internal topics (AdminUtils.ADMIN_CLIENT_ID)."""
LAST_VERSION_WITHOUT_STORAGE_ERROR = 3
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_LEADER_HINT = 10
FIRST_VERSION_WITH_ABORTABLE = 11
LENGTH = Struct(">i")
Awaited = tuple[PartitionProduceResponse, AwaitedAppend]
AT_ONCE = 100
"""Topics of a request, and partitions of a topic, that are written to without a pause."""
WHY_NOT_VERIFIED = {
    ErrorCode.TRANSACTION_ABORTABLE: "the partition was not added to the transaction",
    ErrorCode.INVALID_TXN_STATE: "the partition was not added to the transaction",
    ErrorCode.INVALID_PRODUCER_EPOCH: "the transactional id is that of a newer producer",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the transactional id is not that of this producer",
    ErrorCode.NOT_ENOUGH_REPLICAS: "the coordinator cannot tell now whether the partition was added to the transaction",
}
"""What a refusal of the coordinator means to the producer."""

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
PASSING = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR})
"""Refusals after which a producer sends the same batch again."""
NO_FAILURES_OF_BROKER = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals that Kafka does not count as failed requests: the client is wrong, or a disk, which is counted elsewhere."""


def handle(broker: Services, request: ProduceRequest, context: RequestContext) -> Outcome:
    acks = request.acks
    if acks not in (ALL, 0, 1):
        return Reply(_refused(request, ErrorCode.INVALID_REQUIRED_ACKS))
    if request.transactional_id is not None and acks and broker.config.transaction_partition_verification_enable:
        try:
            unverified = begin_verifications(broker.replicas, request)
        except KafkaError as error:
            return Reply(_refused(request, error.code))
        if unverified:
            _copy_records(request)
            return _append_verified(_Appends(broker, request, context), unverified)
    return _Appends(broker, request, context).append({}, [])


def _copy_records(request: ProduceRequest) -> None:
    """Copy the records out of the connection's receive buffer, since they outlive the call that handles the request."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = bytearray(data.records)


async def _append_verified(appends: "_Appends", unverified: list[Unverified]) -> Settled:
    """Ask the coordinators whether the transactions are open, then append.

    Where a coordinator cannot tell now the answer is NOT_ENOUGH_REPLICAS, after which every producer tries again. Where
    the partition is not part of the transaction it is TRANSACTION_ABORTABLE, before version 11 INVALID_TXN_STATE. What
    the coordinators say holds until something is awaited, so whatever takes long is done before they are asked.
    """
    broker = appends.broker
    refused: Verdicts = {}
    await TimeSlice(broker.clock).finish(appends.prepare(refused))
    verdicts = await broker.transaction_verification.verify(appends.request.transactional_id or "", unverified)
    for at, verdict in verdicts.items():
        if verdict in RETRIED:
            verdicts[at] = ErrorCode.NOT_ENOUGH_REPLICAS
        elif verdict is ErrorCode.TRANSACTION_ABORTABLE and appends.version < FIRST_VERSION_WITH_ABORTABLE:
            verdicts[at] = ErrorCode.INVALID_TXN_STATE
    outcome = appends.append(verdicts | refused, None)
    assert not isinstance(outcome, Coroutine)
    return outcome


class _Appends:
    """The appends of one request, and what is known of the answer to it so far."""

    __slots__ = ("awaited", "broker", "context", "failed", "request", "topics", "version")

    def __init__(self, broker: Services, request: ProduceRequest, context: RequestContext) -> None:
        self.broker, self.request, self.context = broker, request, context
        self.version = context.api_version
        self.topics: list[TopicProduceResponse] = []
        self.awaited: list[Awaited] = []
        """Answers that wait for the replicas in sync."""
        self.failed: list[ErrorCode] = []

    def append(self, verdicts: Verdicts, slow: list[SlowRecords] | None) -> Outcome:
        """Append, and answer when `acks` are met.

        `verdicts`: what the coordinators said of the partitions where a transaction may begin.

        `slow` collects the records that take long, which are then appended in slices of time. With None everything is
        appended at once.
        """
        topics = self.topics
        for topic in self.request.topic_data:
            if slow is not None and (len(topics) >= AT_ONCE or len(topic.partition_data) > AT_ONCE):
                answers = put_off_topic(topic, slow)
            else:
                answers = self._append_topic(topic, verdicts, slow)
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
        if slow:
            return in_slices(self.broker.clock, self._append_slow(slow))
        return self._answer()

    def _append_slow(self, slow: list[SlowRecords]) -> Steps[Settled]:
        """Append one after another what takes long, put the answers into their places, and answer."""
        for place in slow:
            again = [place]  # again if only now the topic's rules look at each record
            while again:
                one, verdicts = again.pop(), Verdicts()
                try:
                    one.data.records = yield from make_ready(one.data.records, one.log, self.version)
                except KafkaError as error:
                    verdicts[one.topic, one.data.index] = error
                topic = TopicProduceData(name=one.topic, partition_data=[one.data])
                (answer,) = self._append_topic(topic, verdicts, again)
            place.answers[place.position] = answer
            yield
        return self._answer()

    def prepare(self, refused: Verdicts) -> Iterator[None]:
        """Check and convert records in steps, before they are appended; `refused` takes their errors."""
        for topic in self.request.topic_data:
            for data in topic.partition_data:
                partition = self.broker.replicas.partitions.get((topic.name, data.index))
                try:
                    _check(data.records, self.version, True)
                    if partition is not None and are_slow(data.records, partition.log):
                        data.records = yield from make_ready(data.records, partition.log, self.version)
                except KafkaError as error:
                    refused[topic.name, data.index] = error

    def _append_topic(
        self, topic: TopicProduceData, verdicts: Verdicts, slow: list[SlowRecords] | None
    ) -> list[PartitionProduceResponse]:
        """Append to partitions of a topic, or put them off into `slow`; return their answers, which may yet change."""
        answers: list[PartitionProduceResponse] = []
        request, version = self.request, self.version
        in_transaction = request.transactional_id is not None
        verifying = in_transaction and self.broker.config.transaction_partition_verification_enable
        guard = without_verdict = None if verifying else UNGUARDED
        forbidden = topic.name in INTERNAL_TOPICS and self.context.client_id != ADMIN_CLIENT_ID
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index)
            answers.append(answer)
            try:
                partition = self.broker.replicas.led(topic.name, data.index)
                if forbidden:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients do not write to {topic.name}")
                partition.counters.produce_requests += 1
                if verdicts:
                    guard = _guard(verdicts, topic.name, data.index, without_verdict)
                old_format = version < FIRST_PRODUCE_VERSION_WITH_BATCHES and not is_batch(data.records)
                if not old_format:
                    _check(data.records, version, in_transaction)
            except KafkaError as error:
                # what was found out when the records were made ready is an error of appending them
                appending = verdicts.get((topic.name, data.index)) is error
                self._refuse(topic.name, data, answer, error, appending=appending)
                continue
            if slow is not None and (old_format or are_slow(data.records, partition.log)):
                partition.counters.produce_requests -= 1  # counted when it is taken up again
                slow.append(put_off(topic.name, data, answers, None if old_format else partition.log))
            else:
                self._append_to(partition, data, guard, answer)
        return answers

    def _append_to(
        self,
        partition: Partition,
        data: PartitionProduceData,
        guard: VerificationGuard | None,
        answer: PartitionProduceResponse,
    ) -> None:
        """Append to one partition, and fill in the answer; it waits if `acks` ask for more than this."""
        acks = self.request.acks
        try:
            appended = self.broker.replicas.append(partition, data.records, acks, guard=guard)
        except KafkaError as error:
            self._refuse(partition.topic, data, answer, error, appending=True)
            return
        if self.version < FIRST_PRODUCE_VERSION_WITH_BATCHES:
            converted = appended.last_offset - appended.first_offset + 1
            partition.counters.produce_message_conversions += converted
        answer.base_offset = appended.first_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        answer.log_start_offset = appended.log_start_offset
        if acks == ALL and partition.high_watermark <= appended.last_offset:
            self.awaited.append((answer, AwaitedAppend(partition, appended.last_offset + 1)))

    def _refuse(
        self,
        topic: str,
        data: PartitionProduceData,
        answer: PartitionProduceResponse,
        error: KafkaError,
        *,
        appending: bool,
    ) -> None:
        """Answer with an error. If this broker has the partition, count the error; the log remembers a PASSING one.

        `appending`: the records were refused, not the request for the partition. Source of the counts, and of when the
        log's start is told: ReplicaManager.appendToLocalLog of Kafka 3.9.
        """
        code = error.code
        self.failed.append(code)
        not_known = code is ErrorCode.KAFKA_STORAGE_ERROR and self.version <= LAST_VERSION_WITHOUT_STORAGE_ERROR
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if not_known else code
        answer.error_message = error.message
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        partition = self.broker.replicas.partitions.get((topic, data.index))
        if partition is None:
            return
        if code in PASSING and not isinstance(error, RefusedLikewise):
            partition.log.producers.note_refusal(data.records, code)
        if code in TOO_LARGE:
            partition.counters.bytes_rejected += len(data.records or b"")
        elif code not in NO_FAILURES_OF_BROKER:
            partition.counters.failed_produce_requests += 1
            if appending:
                answer.log_start_offset = partition.log.log_start_offset
        if isinstance(error, BadRecords):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=one.batch_index, batch_index_error_message=one.message)
                for one in error.record_errors
            ]

    def _answer(self) -> Settled:
        """Answer when `acks` are met, as everything is appended or refused."""
        request = self.request
        if request.acks == 0:
            return Silent(close=bool(self.failed))
        response = ProduceResponse(responses=self.topics)
        if self.failed:
            _note_failure(self.broker, response, self.context)
        if not self.awaited:
            return Reply(response)
        return _wait(self.broker, response, self.context, self.awaited, request.timeout_ms)


def _wait(
    broker: Services, response: ProduceResponse, context: RequestContext, awaited: list[Awaited], timeout_ms: int
) -> Wait:
    """Wait for the replicas in sync. The request is not kept: its records stand in the connection's receive buffer."""

    def start(respond: Respond) -> DelayedProduce:
        def settled() -> None:
            for answer, append in awaited:
                # base_offset stays in a failed answer, as in Kafka, though the records may yet be truncated
                answer.error_code = append.error or ErrorCode.NONE
            if any(append.error for _, append in awaited):
                _note_failure(broker, response, context)
            respond(response)

        return DelayedProduce([append for _, append in awaited], settled)

    keys = [append.partition.advanced for _, append in awaited]
    return Wait(start, keys, timeout_ms, may_be_overtaken=True)


def _guard(verdicts: Verdicts, topic: str, index: int, default: VerificationGuard | None) -> VerificationGuard | None:
    """Return the guard to append with. Raises KafkaError if the verdict is that nothing is to be appended."""
    verdict = verdicts.get((topic, index), default)
    if isinstance(verdict, ErrorCode):
        raise KafkaError(verdict, WHY_NOT_VERIFIED.get(verdict, ""))
    if isinstance(verdict, KafkaError):
        raise verdict
    return verdict


def _check(records: Records, version: int, in_transaction: bool) -> None:
    """Check what the protocol asks of a request's records. Source: ProduceRequest.java of Kafka 3.9."""
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_AT] != MAGIC_V2:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "a produce request of version 3 or later carries one batch of magic 2"
        )
    if LOG_OVERHEAD + LENGTH.unpack_from(records, BATCH_LENGTH_AT)[0] != len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request carries exactly one batch for a partition")
    attributes = records[ATTRIBUTES_AT + 1]
    if attributes & TRANSACTIONAL_BIT and not in_transaction:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transaction without a transactional id")
    if attributes & CONTROL_BIT:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if attributes & CODEC_MASK == ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs a produce request of version 7 or later")


def _note_failure(broker: Services, response: ProduceResponse, context: RequestContext) -> None:
    """Count a request that failed for some partition, and name the leaders of those that are led elsewhere."""
    broker.request_metrics.failed("Produce", response)
    _point_to_leaders(broker, response, context)


def _point_to_leaders(broker: Services, response: ProduceResponse, context: RequestContext) -> None:
    """Name the leaders of what this broker does not lead (KIP-951): the producer need not ask for metadata."""
    if context.api_version < FIRST_VERSION_WITH_LEADER_HINT:
        return
    leaders = set()
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            at = topic.name, answer.index
            known = broker.replicas.partitions.get(at) or broker.metadata.partition(*at)
            if known is not None:
                leaders.add(known.leader)
                answer.current_leader = LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)
    nodes = [node for leader in sorted(leaders) if (node := broker.metadata.node(leader, context.listener)) is not None]
    response.node_endpoints = [NodeEndpoint(node_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in nodes]


def _refused(request: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    """Answer with the same error for each partition asked."""
    return ProduceResponse(responses=[of_produced_topic(topic, error) for topic in request.topic_data])
