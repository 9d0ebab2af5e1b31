"""WriteTxnMarkers (key 27), versions 0 and 1: a transaction coordinator ends transactions in partitions led here.

A marker is appended to each partition, with acks=all, and answered when every replica in sync has it: whether the
partition had data of the transaction or not, and as often as it is asked. An epoch older than the producer's is
INVALID_PRODUCER_EPOCH, a coordinator epoch older than in its last marker TRANSACTION_COORDINATOR_FENCED; what is not
led here is NOT_LEADER_OR_FOLLOWER, and the coordinator asks elsewhere. A marker in `__consumer_offsets` makes the
offsets of its transaction visible; while their groups are being loaded it is NOT_LEADER_OR_FOLLOWER too. Markers for
very many partitions are appended in slices of time. A request on a connection that its sender may have given up is
refused once, as a whole, with NOT_LEADER_OR_FOLLOWER: the transaction of its marker may have ended, and it would end
the next one in the middle, as in Kafka 3.9 it does (`SenderConnections`).

Source: KafkaApis.handleWriteTxnMarkersRequest of Kafka 3.9.
"""

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.log.batches import Origin
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext, Respond, Wait
from odradek.broker.replication.replica_manager import AwaitedAppend, DelayedProduce
from odradek.broker.requests.authorization.refusals import of_write_txn_markers
from odradek.broker.services import Services
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.steps import Steps
from odradek.protocol.topic_names import CONSUMER_OFFSETS
from odradek.world.time_slices import in_slices

REQUEST = WriteTxnMarkersRequest
VERSIONS = (0, 1)


class Written(NamedTuple):
    """A marker that is in the log of the leader, and its answer to be."""

    result: WritableTxnMarkerPartitionResult
    append: AwaitedAppend
    ended: Callable[[ErrorCode], None] | None
    """Function to call with the outcome of a marker in `__consumer_offsets`; None elsewhere."""


def handle(broker: Services, request: WriteTxnMarkersRequest, context: RequestContext) -> Outcome:
    if broker.marker_senders.is_late(context.client_id, context.connection):
        return Reply(of_write_txn_markers(request, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    return in_slices(broker.clock, _append(broker, request))


def _append(broker: Services, request: WriteTxnMarkersRequest) -> Steps[Reply | Wait]:
    """Append one marker after another, and then wait for all."""
    written: list[Written] = []
    results: dict[int, WritableTxnMarkerResult] = {}
    for marker in request.markers:
        result = results.setdefault(marker.producer_id, WritableTxnMarkerResult(producer_id=marker.producer_id))
        for topic in marker.topics:
            answers: list[WritableTxnMarkerPartitionResult] = []
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=answers))
            for index in topic.partition_indexes:
                answers.append(_write(broker, marker, topic.name, index, written))
                yield
    response = WriteTxnMarkersResponse(markers=list(results.values()))
    if not written:
        return Reply(response)

    def start(respond: Respond) -> DelayedProduce:
        def settled() -> None:
            for one in written:
                _settle(one)
            respond(response)

        return DelayedProduce([one.append for one in written], settled)

    return Wait(start, [one.append.partition.advanced for one in written], broker.config.request_timeout_ms)


def _write(
    broker: Services, marker: WritableTxnMarker, topic: str, index: int, written: list[Written]
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(partition_index=index)
    try:
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"producer {marker.producer_id} {marker.producer_epoch}")
        partition = broker.replicas.led(topic, index)
        if topic == CONSUMER_OFFSETS and not broker.groups.serves_partition(index):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the groups of {topic}-{index} are being loaded")
        end = EndTxnMarker(marker.transaction_result, marker.coordinator_epoch)
        batch = encode_end_txn_marker(end, broker.clock.now_ms(), marker.producer_id, marker.producer_epoch)
        appended = broker.replicas.append(partition, batch, -1, Origin.COORDINATOR)
    except KafkaError as error:
        result.error_code = error.code
        return result
    ended = None
    if topic == CONSUMER_OFFSETS:
        ended = broker.groups.marker_appended(index, marker.producer_id, committed=marker.transaction_result)
    written.append(Written(result, AwaitedAppend(partition, appended.last_offset + 1), ended))
    return result


def _settle(written: Written) -> None:
    error = written.append.error
    assert error is not None, written
    written.result.error_code = error
    if written.ended is not None:
        written.ended(error)
