"""Requests of the APIs that name topics, groups and transactions, as principals of each kind ask them."""

from collections.abc import Sequence

from odradek.protocol.fields import Message
from odradek.protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_acls,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    leader_and_isr,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    txn_offset_commit,
    write_txn_markers,
)
from odradek.protocol.records import encode_batch
from odradek.testing.authorization_record import ASKED, GROUPS, NOT_THERE


def _records(producer_id: int = -1) -> bytes:
    in_transaction = producer_id >= 0
    return bytes(
        encode_batch(
            0, [1_700_000_000_000], [b"k"], [b"v"],
            producer_id=producer_id, producer_epoch=0 if in_transaction else -1,
            base_sequence=0 if in_transaction else -1, transactional=in_transaction,
        )
    )  # fmt: skip


def make_produce(transactional_id: str | None = None, producer_id: int = -1) -> Message:
    data = [
        produce.TopicProduceData(
            name=name, partition_data=[produce.PartitionProduceData(index=0, records=_records(producer_id))]
        )
        for name in ASKED
    ]
    return produce.ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1000, topic_data=data)


def make_fetch(replica_id: int) -> Message:
    topics = [
        fetch.FetchTopic(
            topic=name, partitions=[fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
        )
        for name in ASKED
    ]
    return fetch.FetchRequest(replica_id=replica_id, max_wait_ms=0, min_bytes=0, max_bytes=10_000, session_epoch=-1,
                              topics=topics)  # fmt: skip


def make_list_offsets() -> Message:
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-2)
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=name, partitions=[partition]) for name in ASKED]
    )


def make_metadata(names: Sequence[str] | None, **flags: bool) -> Message:
    named = None if names is None else [metadata.MetadataRequestTopic(name=name) for name in names]
    flags = {"allow_auto_topic_creation": False, **flags}
    return metadata.MetadataRequest(topics=named, **flags)


def make_leader_and_isr() -> Message:
    state = leader_and_isr.LeaderAndIsrPartitionState(partition_index=0)
    topic = leader_and_isr.LeaderAndIsrTopicState(topic_name="t", topic_id=bytes(15) + b"\1", partition_states=[state])
    return leader_and_isr.LeaderAndIsrRequest(controller_id=0, controller_epoch=0, broker_epoch=1, topic_states=[topic])


def make_stop_replica() -> Message:
    state = stop_replica.StopReplicaPartitionState(partition_index=0)
    topic = stop_replica.StopReplicaTopicState(topic_name="t", partition_states=[state])
    return stop_replica.StopReplicaRequest(controller_id=0, controller_epoch=0, broker_epoch=1, topic_states=[topic])


def make_offset_commit() -> Message:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    topics = [offset_commit.OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in ASKED]
    return offset_commit.OffsetCommitRequest(group_id="g", topics=topics)


def make_offset_fetch(names: Sequence[str] | None) -> Message:
    topics = None
    if names is not None:
        topics = [offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in names]
    return offset_fetch.OffsetFetchRequest(group_id="g", topics=topics)


def make_offset_fetch_groups() -> Message:
    topics = [offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ASKED]
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=topics) for name in GROUPS]
    return offset_fetch.OffsetFetchRequest(
        groups=[*groups, offset_fetch.OffsetFetchRequestGroup(group_id="all", topics=None)]
    )


def make_create_topics(number: int) -> Message:
    topics = [
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("gone", "t", "p-new")
    ]
    return create_topics.CreateTopicsRequest(topics=topics, validate_only=True)


def make_delete_topics_by_id(number: int) -> Message:
    unknown = delete_topics.DeleteTopicState(topic_id=bytes(15) + b"\7")
    named = [delete_topics.DeleteTopicState(name=name) for name in ("gone", "missing")]
    return delete_topics.DeleteTopicsRequest(topics=[*named, unknown], timeout_ms=1000)


def make_delete_records(number: int) -> Message:
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
    topics = [delete_records.DeleteRecordsTopic(name=name, partitions=[partition]) for name in ("gone", *ASKED)]
    return delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=1000)


def make_init_producer_id(transactional_id: str | None) -> Message:
    return init_producer_id.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)


def make_offset_for_leader_epoch(number: int) -> Message:
    partition = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic=name, partitions=[partition]) for name in ASKED]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-2, topics=topics)


def _transaction_topics(names: Sequence[str]) -> list[add_partitions_to_txn.AddPartitionsToTxnTopic]:
    return [add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names]


def make_add_partitions(names: Sequence[str]) -> Message:
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx", v3_and_below_producer_id=999, v3_and_below_producer_epoch=0,
        v3_and_below_topics=_transaction_topics(names),
    )  # fmt: skip


def make_verify_partitions(number: int) -> Message:
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id="tx", producer_id=999, producer_epoch=0, verify_only=True, topics=_transaction_topics(["t"])
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def make_write_txn_markers(number: int) -> Message:
    marked = write_txn_markers.WritableTxnMarkerTopic(name="missing", partition_indexes=[0])
    marker = write_txn_markers.WritableTxnMarker(producer_id=999, producer_epoch=0, topics=[marked])
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])


def make_txn_offset_commit(number: int) -> Message:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=NOT_THERE, committed_offset=0, committed_metadata=""
    )
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, partitions=[partition]) for name in ASKED]
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=999, producer_epoch=0, topics=topics
    )


def make_create_acls(number: int) -> Message:
    lines = [(2, f"new-{number}"), (4, "another-cluster"), (2, "a/b"), (2, "")]
    return create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=kind, resource_name=name, principal="User:new", host="*", operation=3, permission_type=3
            )
            for kind, name in lines
        ]
    )


def make_describe_configs(number: int) -> Message:
    resources = [(2, "t"), (2, "other"), (2, "missing"), (4, "0"), (4, ""), (8, "0")]
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["x"])
            for kind, name in resources
        ]
    )


def make_alter_configs(number: int) -> Message:
    change = alter_configs.AlterableConfig(name="retention.ms", value="1000")
    broker = alter_configs.AlterableConfig(name="log.cleaner.threads", value="1")
    resources = [
        alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=[change])
        for name in ("t", "other", "missing")
    ]
    resources.append(alter_configs.AlterConfigsResource(resource_type=4, resource_name="0", configs=[broker]))
    return alter_configs.AlterConfigsRequest(resources=resources, validate_only=True)


def make_incremental_alter_configs(number: int) -> Message:
    def resource(kind: int, name: str, setting: str, value: str) -> incremental_alter_configs.AlterConfigsResource:
        change = incremental_alter_configs.AlterableConfig(name=setting, config_operation=0, value=value)
        return incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])

    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            *(resource(2, name, "retention.ms", "1000") for name in ("t", "other", "missing")),
            resource(4, "0", "log.cleaner.threads", "1"),
            resource(8, "0", "kafka.server.KafkaApis", "INFO"),
        ],
        validate_only=True,
    )


def make_alter_replica_log_dirs(number: int) -> Message:
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[alter_replica_log_dirs.AlterReplicaLogDir(path="/nowhere", topics=[topic])]
    )


def make_create_partitions(number: int) -> Message:
    topics = [create_partitions.CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ASKED]
    return create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=True)


def make_elect_leaders(number: int) -> Message:
    return elect_leaders.ElectLeadersRequest(
        election_type=0, topic_partitions=[elect_leaders.TopicPartitions(topic="t", partitions=[0])], timeout_ms=1000
    )


def make_alter_reassignments(number: int) -> Message:
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=None)
    topic = alter_partition_reassignments.ReassignableTopic(name="t", partitions=[partition])
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])


def make_list_reassignments(number: int) -> Message:
    topic = list_partition_reassignments.ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])
    return list_partition_reassignments.ListPartitionReassignmentsRequest(topics=[topic])


def make_offset_delete(number: int) -> Message:
    partition = offset_delete.OffsetDeleteRequestPartition(partition_index=NOT_THERE)
    topics = [offset_delete.OffsetDeleteRequestTopic(name=name, partitions=[partition]) for name in ASKED]
    return offset_delete.OffsetDeleteRequest(group_id="g", topics=topics)


def make_alter_client_quotas(number: int) -> Message:
    entity = alter_client_quotas.EntityData(entity_type="user", entity_name="u")
    change = alter_client_quotas.OpData(key="producer_byte_rate", value=1000.0)
    entry = alter_client_quotas.EntryData(entity=[entity], ops=[change])
    return alter_client_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=True)
