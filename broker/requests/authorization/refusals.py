"""Answers to requests that are refused as a whole.

Source: getErrorResponse of the requests of Kafka 3.9.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.broker.cluster.controller_messages import partition_states, stopped_replicas
from odradek.broker.requests.authorization import item_refusals
from odradek.broker.requests.authorization.rules import denied_text
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_client_quotas,
    elect_leaders,
    init_producer_id,
    join_group,
    leader_and_isr,
    list_partition_reassignments,
    offset_commit,
    produce,
    stop_replica,
    txn_offset_commit,
    write_txn_markers,
)

M = TypeVar("M", bound=Message)

FIRST_JOIN_WITH_NULL_PROTOCOL = 7


def by_code(response: Callable[..., M]) -> Callable[[Any, ErrorCode, int], M]:
    """Answer with the error code alone."""
    return lambda request, error, version: response(error_code=error)


def in_words(response: Callable[..., M]) -> Callable[[Any, ErrorCode, int], M]:
    """Answer with the error code and what Kafka says of it."""
    return lambda request, error, version: response(error_code=error, error_message=denied_text(error))


def of_produce(request: produce.ProduceRequest, error: ErrorCode, version: int = 0) -> produce.ProduceResponse | None:
    """Return the same error for each partition; none with acks=0."""
    if request.acks == 0:
        return None
    return produce.ProduceResponse(
        responses=[item_refusals.of_produced_topic(topic, error) for topic in request.topic_data]
    )


def of_leader_and_isr(
    request: leader_and_isr.LeaderAndIsrRequest, error: ErrorCode, version: int = 0
) -> leader_and_isr.LeaderAndIsrResponse:
    """Return the error, and again for each partition: by name up to version 4, by id from 5 on."""
    named = []
    topics: dict[bytes, leader_and_isr.LeaderAndIsrTopicError] = {}
    for topic, topic_id, state in partition_states(request):
        one = leader_and_isr.LeaderAndIsrPartitionError(
            topic_name=topic, partition_index=state.partition_index, error_code=error
        )
        named.append(one)
        topics.setdefault(topic_id, leader_and_isr.LeaderAndIsrTopicError(topic_id=topic_id)).partition_errors.append(
            one
        )
    return leader_and_isr.LeaderAndIsrResponse(error_code=error, partition_errors=named, topics=list(topics.values()))


def of_stop_replica(
    request: stop_replica.StopReplicaRequest, error: ErrorCode, version: int = 0
) -> stop_replica.StopReplicaResponse:
    """Return the error, and again for each partition."""
    return stop_replica.StopReplicaResponse(
        error_code=error,
        partition_errors=[
            stop_replica.StopReplicaPartitionError(
                topic_name=one.topic, partition_index=one.partition_index, error_code=error
            )
            for one in stopped_replicas(request)
        ],
    )


def of_write_txn_markers(
    request: write_txn_markers.WriteTxnMarkersRequest, error: ErrorCode, version: int = 0
) -> write_txn_markers.WriteTxnMarkersResponse:
    """Return the error for each partition of each marker; all markers of one producer have one result."""
    results: dict[int, write_txn_markers.WritableTxnMarkerResult] = {}
    for marker in request.markers:
        empty = write_txn_markers.WritableTxnMarkerResult(producer_id=marker.producer_id)
        results.setdefault(marker.producer_id, empty).topics += [
            write_txn_markers.WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ]
    return write_txn_markers.WriteTxnMarkersResponse(markers=list(results.values()))


def of_offset_commit(
    request: offset_commit.OffsetCommitRequest, error: ErrorCode, version: int = 0
) -> offset_commit.OffsetCommitResponse:
    """Return the error for each partition."""
    return offset_commit.OffsetCommitResponse(
        topics=[item_refusals.of_committed_topic(topic, error) for topic in request.topics]
    )


def of_txn_offset_commit(
    request: txn_offset_commit.TxnOffsetCommitRequest, error: ErrorCode, version: int = 0
) -> txn_offset_commit.TxnOffsetCommitResponse:
    """Return the error for each partition."""
    return txn_offset_commit.TxnOffsetCommitResponse(
        topics=[item_refusals.of_transaction_topic(topic, error) for topic in request.topics]
    )


def of_join_group(request: join_group.JoinGroupRequest, error: ErrorCode, version: int) -> join_group.JoinGroupResponse:
    """Return the error; no protocol, which versions below 7 write as an empty one."""
    nothing = None if version >= FIRST_JOIN_WITH_NULL_PROTOCOL else ""
    return join_group.JoinGroupResponse(error_code=error, generation_id=-1, protocol_name=nothing)


def of_create_acls(
    request: create_acls.CreateAclsRequest, error: ErrorCode, version: int = 0
) -> create_acls.CreateAclsResponse:
    """Return the error for each line."""
    return create_acls.CreateAclsResponse(
        results=[
            create_acls.AclCreationResult(error_code=error, error_message=denied_text(error)) for _ in request.creations
        ]
    )


def of_delete_acls(
    request: delete_acls.DeleteAclsRequest, error: ErrorCode, version: int = 0
) -> delete_acls.DeleteAclsResponse:
    """Return the error for each filter."""
    return delete_acls.DeleteAclsResponse(
        filter_results=[
            delete_acls.DeleteAclsFilterResult(error_code=error, error_message=denied_text(error))
            for _ in request.filters
        ]
    )


def of_alter_replica_log_dirs(
    request: alter_replica_log_dirs.AlterReplicaLogDirsRequest, error: ErrorCode, version: int = 0
) -> alter_replica_log_dirs.AlterReplicaLogDirsResponse:
    """Return the error for each partition."""
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(
        results=[
            alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                    for index in topic.partitions
                ],
            )
            for one in request.dirs
            for topic in one.topics
        ]
    )


def of_elect_leaders(
    request: elect_leaders.ElectLeadersRequest, error: ErrorCode, version: int = 0
) -> elect_leaders.ElectLeadersResponse:
    """Return the error, and again for each partition that is named."""
    return elect_leaders.ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    elect_leaders.PartitionResult(
                        partition_id=index, error_code=error, error_message=denied_text(error)
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def of_alter_partition_reassignments(
    request: alter_partition_reassignments.AlterPartitionReassignmentsRequest, error: ErrorCode, version: int = 0
) -> alter_partition_reassignments.AlterPartitionReassignmentsResponse:
    """Return the error, and again for each partition."""
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=denied_text(error),
        responses=[
            alter_partition_reassignments.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=one.partition_index, error_code=error, error_message=denied_text(error)
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def of_list_partition_reassignments(
    request: list_partition_reassignments.ListPartitionReassignmentsRequest, error: ErrorCode, version: int = 0
) -> list_partition_reassignments.ListPartitionReassignmentsResponse:
    """Return the error, and each partition that is named, with nothing said of it."""
    return list_partition_reassignments.ListPartitionReassignmentsResponse(
        error_code=error,
        error_message=denied_text(error),
        topics=[
            list_partition_reassignments.OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    list_partition_reassignments.OngoingPartitionReassignment(partition_index=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


def of_describe_client_quotas(
    request: describe_client_quotas.DescribeClientQuotasRequest, error: ErrorCode, version: int = 0
) -> describe_client_quotas.DescribeClientQuotasResponse:
    """Return the error, and null for the entries."""
    return describe_client_quotas.DescribeClientQuotasResponse(
        error_code=error, error_message=denied_text(error), entries=None
    )


def of_alter_client_quotas(
    request: alter_client_quotas.AlterClientQuotasRequest, error: ErrorCode, version: int = 0
) -> alter_client_quotas.AlterClientQuotasResponse:
    """Return the error for each entry."""
    return alter_client_quotas.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.ResponseEntryData(
                error_code=error,
                error_message=denied_text(error),
                entity=[
                    alter_client_quotas.ResponseEntityData(entity_type=one.entity_type, entity_name=one.entity_name)
                    for one in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def of_alter_user_scram_credentials(
    request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, error: ErrorCode, version: int = 0
) -> alter_user_scram_credentials.AlterUserScramCredentialsResponse:
    """Return the error for each user."""
    users = dict.fromkeys([*(one.name for one in request.deletions), *(one.name for one in request.upsertions)])
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[
            alter_user_scram_credentials.AlterUserScramCredentialsResult(
                user=user, error_code=error, error_message=denied_text(error)
            )
            for user in users
        ]
    )


def of_add_partitions_to_txn(
    request: add_partitions_to_txn.AddPartitionsToTxnRequest, error: ErrorCode, version: int = 0
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    """Return the error; up to version 3 for each partition instead."""
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        error_code=error,
        results_by_topic_v3_and_below=[
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=error
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ],
    )


def of_init_producer_id(
    request: init_producer_id.InitProducerIdRequest, error: ErrorCode, version: int = 0
) -> init_producer_id.InitProducerIdResponse:
    """Return the error, and no producer."""
    return init_producer_id.InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
