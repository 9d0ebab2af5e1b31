"""TxnOffsetCommit (key 28), versions 0 to 4: offsets that a group has read up to, as part of a transaction.

They are in `__consumer_offsets` when this is answered, and count when the transaction is committed. From version 3 on
the consumer's generation is checked (KIP-447). Partitions that do not exist are refused one by one. Whether the group's
partition is part of the transaction is asked of its coordinator, as for Produce (KIP-890): a request that comes late
would begin a transaction that nobody ends, and no committed offset of those partitions could be read any more.
"""

from dataclasses import replace

from odradek.broker.groups.group import CommitRequest, InTransaction
from odradek.broker.groups.group_offsets import CommittedOffset
from odradek.broker.groups.group_records import offset_records
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.coordinator_answers import LaterReply
from odradek.broker.services import Services
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.broker.transactions.transaction_verification import RETRIED, Unverified, begin_verification
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.topic_names import CONSUMER_OFFSETS, PartitionKey
from odradek.world.time_slices import TimeSlice

REQUEST = TxnOffsetCommitRequest
VERSIONS = (0, 4)

AT_ONCE = 100
"""Offsets that are committed without a pause."""
FIRST_VERSION_WITH_LOADING = 2
FIRST_VERSION_WITH_ABORTABLE = 4
Errors = dict[PartitionKey, ErrorCode]


def handle(broker: Services, request: TxnOffsetCommitRequest, context: RequestContext) -> Outcome:
    now_ms = broker.clock.now_ms()
    offsets = {
        (topic.name, one.partition_index): CommittedOffset(
            one.committed_offset, now_ms, one.committed_leader_epoch, one.committed_metadata or ""
        )
        for topic in request.topics
        for one in topic.partitions
        if broker.metadata.partition(topic.name, one.partition_index) is not None
    }
    if not offsets:
        return Reply(_response(request, {}))
    if request.producer_id < 0:
        return Reply(_response(request, dict.fromkeys(offsets, ErrorCode.INVALID_PRODUCER_ID_MAPPING)))
    if request.producer_epoch < 0:
        return Reply(_response(request, dict.fromkeys(offsets, ErrorCode.INVALID_PRODUCER_EPOCH)))
    commit = CommitRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        offsets=offsets,
        transaction=InTransaction(request.producer_id, request.producer_epoch),
    )
    if len(offsets) > AT_ONCE:
        return _commit_many(broker, request, context.api_version, commit)
    to_verify = _unverified(broker, request)
    if to_verify is not None:
        return _commit_verified(broker, request, context.api_version, commit, to_verify)
    return _commit(broker, request, context.api_version, commit).outcome()


async def _commit_many(broker: Services, request: TxnOffsetCommitRequest, version: int, commit: CommitRequest) -> Reply:
    """Make the records of the offsets in slices, as OffsetCommit does. The transaction is checked only after that, as
    it may end meanwhile."""
    records = await TimeSlice(broker.clock).result(offset_records(request.group_id, commit.offsets))
    commit = replace(commit, records=records)
    to_verify = _unverified(broker, request)
    if to_verify is not None:
        return await _commit_verified(broker, request, version, commit, to_verify)
    return await _commit_now(broker, request, version, commit)


def _unverified(broker: Services, request: TxnOffsetCommitRequest) -> Unverified | None:
    """Return what the transaction's coordinator is to be asked, None for nothing."""
    servable = broker.groups.check(request.group_id) is ErrorCode.NONE
    if not servable or not broker.config.transaction_partition_verification_enable:
        return None
    at = (CONSUMER_OFFSETS, broker.groups.partition_for(request.group_id))
    return begin_verification(broker.replicas, at, ProducerIdentity(request.producer_id, request.producer_epoch))


async def _commit_verified(
    broker: Services, request: TxnOffsetCommitRequest, version: int, commit: CommitRequest, to_verify: Unverified
) -> Reply:
    """Commit when the coordinator has been asked. Producers ask again when they are told that something is loading."""
    verdicts = await broker.transaction_verification.verify(request.transactional_id, [to_verify])
    verdict = verdicts[to_verify.partition]
    if isinstance(verdict, ErrorCode):
        told = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if verdict in RETRIED else verdict
        return Reply(_response(request, _known_to(version, dict.fromkeys(commit.offsets, told))))
    return await _commit_now(broker, request, version, commit)


async def _commit_now(broker: Services, request: TxnOffsetCommitRequest, version: int, commit: CommitRequest) -> Reply:
    """Commit after a pause, but not for topics that were deleted meanwhile: the group has forgotten their offsets."""
    commit = replace(commit, offsets=broker.metadata.of_known(commit.offsets))
    return await _commit(broker, request, version, commit).arrived()


def _commit(
    broker: Services, request: TxnOffsetCommitRequest, version: int, commit: CommitRequest
) -> LaterReply[TxnOffsetCommitResponse]:
    reply = LaterReply[TxnOffsetCommitResponse]()
    broker.groups.commit(
        request.group_id, commit, lambda errors: reply.give(_response(request, _known_to(version, errors)))
    )
    return reply


def _known_to(version: int, errors: Errors) -> Errors:
    """Replace the errors that old producers do not know, as KafkaApis.handleTxnOffsetCommitRequest does."""
    told: dict[ErrorCode, ErrorCode] = {}
    if version < FIRST_VERSION_WITH_LOADING:
        told[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if version < FIRST_VERSION_WITH_ABORTABLE:
        told[ErrorCode.TRANSACTION_ABORTABLE] = ErrorCode.INVALID_TXN_STATE
    return {at: told.get(error, error) for at, error in errors.items()}


def _response(request: TxnOffsetCommitRequest, errors: Errors) -> TxnOffsetCommitResponse:
    """Make an entry for each partition asked, in their order; those without an error code of their own do not exist."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors.get((topic.name, one.partition_index), unknown),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
