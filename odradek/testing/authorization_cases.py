"""A request of every API, for principals to ask: the same go to brokers in memory and to Kafka's own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.broker.security.acls import AclOperation
from odradek.protocol.fields import Message
from odradek.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    elect_leaders,
    end_txn,
    envelope,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_features,
    update_metadata,
    write_txn_markers,
)
from odradek.protocol.records import encode_batch
from odradek.testing.authorization_record import ALL, ASKED, GROUPS, NOT_THERE, TOPICS, TRANSACTIONS, Line
from odradek.zk_schema.znodes.acls import ResourceType


@dataclass(frozen=True)
class Case:
    """A request; `api` and `version` name it in the record."""

    label: str
    version: int
    make: Callable[[int], Message]
    """Makes the request of a principal, by its number."""
    only: Callable[[Sequence[Line]], bool] = field(default=lambda lines: True)
    """Which principals ask it: those who would really change something do not."""


def _records(producer_id: int = -1) -> bytes:
    in_transaction = producer_id >= 0
    return bytes(
        encode_batch(
            0, [1_700_000_000_000], [b"k"], [b"v"],
            producer_id=producer_id, producer_epoch=0 if in_transaction else -1,
            base_sequence=0 if in_transaction else -1, transactional=in_transaction,
        )
    )  # fmt: skip


def _produce(transactional_id: str | None = None, producer_id: int = -1) -> Message:
    data = [
        produce.TopicProduceData(
            name=name, partition_data=[produce.PartitionProduceData(index=0, records=_records(producer_id))]
        )
        for name in ASKED
    ]
    return produce.ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1000, topic_data=data)


def _fetch(replica_id: int) -> Message:
    topics = [
        fetch.FetchTopic(
            topic=name, partitions=[fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
        )
        for name in ASKED
    ]
    return fetch.FetchRequest(replica_id=replica_id, max_wait_ms=0, min_bytes=0, max_bytes=10_000, session_epoch=-1,
                              topics=topics)  # fmt: skip


def _list_offsets() -> Message:
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-2)
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=name, partitions=[partition]) for name in ASKED]
    )


def _metadata(names: Sequence[str] | None, **flags: bool) -> Message:
    named = None if names is None else [metadata.MetadataRequestTopic(name=name) for name in names]
    flags = {"allow_auto_topic_creation": False, **flags}
    return metadata.MetadataRequest(topics=named, **flags)


def _leader_and_isr() -> Message:
    state = leader_and_isr.LeaderAndIsrPartitionState(partition_index=0)
    topic = leader_and_isr.LeaderAndIsrTopicState(topic_name="t", topic_id=bytes(15) + b"\1", partition_states=[state])
    return leader_and_isr.LeaderAndIsrRequest(controller_id=0, controller_epoch=0, broker_epoch=1, topic_states=[topic])


def _stop_replica() -> Message:
    state = stop_replica.StopReplicaPartitionState(partition_index=0)
    topic = stop_replica.StopReplicaTopicState(topic_name="t", partition_states=[state])
    return stop_replica.StopReplicaRequest(controller_id=0, controller_epoch=0, broker_epoch=1, topic_states=[topic])


def _offset_commit() -> Message:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    topics = [offset_commit.OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in ASKED]
    return offset_commit.OffsetCommitRequest(group_id="g", topics=topics)


def _offset_fetch(names: Sequence[str] | None) -> Message:
    topics = None
    if names is not None:
        topics = [offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in names]
    return offset_fetch.OffsetFetchRequest(group_id="g", topics=topics)


def _offset_fetch_groups() -> Message:
    topics = [offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ASKED]
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=topics) for name in GROUPS]
    return offset_fetch.OffsetFetchRequest(
        groups=[*groups, offset_fetch.OffsetFetchRequestGroup(group_id="all", topics=None)]
    )


def _create_topics(number: int) -> Message:
    topics = [
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("gone", "t", "p-new")
    ]
    return create_topics.CreateTopicsRequest(topics=topics, validate_only=True)


def _delete_topics_by_id(number: int) -> Message:
    unknown = delete_topics.DeleteTopicState(topic_id=bytes(15) + b"\7")
    named = [delete_topics.DeleteTopicState(name=name) for name in ("gone", "missing")]
    return delete_topics.DeleteTopicsRequest(topics=[*named, unknown], timeout_ms=1000)


def _delete_records(number: int) -> Message:
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
    topics = [delete_records.DeleteRecordsTopic(name=name, partitions=[partition]) for name in ("gone", *ASKED)]
    return delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=1000)


def _init_producer_id(transactional_id: str | None) -> Message:
    return init_producer_id.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)


def _offset_for_leader_epoch(number: int) -> Message:
    partition = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic=name, partitions=[partition]) for name in ASKED]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-2, topics=topics)


def _transaction_topics(names: Sequence[str]) -> list[add_partitions_to_txn.AddPartitionsToTxnTopic]:
    return [add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names]


def _add_partitions(names: Sequence[str]) -> Message:
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx", v3_and_below_producer_id=999, v3_and_below_producer_epoch=0,
        v3_and_below_topics=_transaction_topics(names),
    )  # fmt: skip


def _verify_partitions(number: int) -> Message:
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id="tx", producer_id=999, producer_epoch=0, verify_only=True, topics=_transaction_topics(["t"])
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def _write_txn_markers(number: int) -> Message:
    marked = write_txn_markers.WritableTxnMarkerTopic(name="missing", partition_indexes=[0])
    marker = write_txn_markers.WritableTxnMarker(producer_id=999, producer_epoch=0, topics=[marked])
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])


def _txn_offset_commit(number: int) -> Message:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=NOT_THERE, committed_offset=0, committed_metadata=""
    )
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, partitions=[partition]) for name in ASKED]
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=999, producer_epoch=0, topics=topics
    )


def _create_acls(number: int) -> Message:
    lines = [(2, f"new-{number}"), (4, "another-cluster"), (2, "a/b"), (2, "")]
    return create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=kind, resource_name=name, principal="User:new", host="*", operation=3, permission_type=3
            )
            for kind, name in lines
        ]
    )


def _describe_configs(number: int) -> Message:
    resources = [(2, "t"), (2, "other"), (2, "missing"), (4, "0"), (4, ""), (8, "0")]
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["x"])
            for kind, name in resources
        ]
    )


def _alter_configs(number: int) -> Message:
    change = alter_configs.AlterableConfig(name="retention.ms", value="1000")
    broker = alter_configs.AlterableConfig(name="log.cleaner.threads", value="1")
    resources = [
        alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=[change])
        for name in ("t", "other", "missing")
    ]
    resources.append(alter_configs.AlterConfigsResource(resource_type=4, resource_name="0", configs=[broker]))
    return alter_configs.AlterConfigsRequest(resources=resources, validate_only=True)


def _incremental_alter_configs(number: int) -> Message:
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


def _alter_replica_log_dirs(number: int) -> Message:
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[alter_replica_log_dirs.AlterReplicaLogDir(path="/nowhere", topics=[topic])]
    )


def _create_partitions(number: int) -> Message:
    topics = [create_partitions.CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ASKED]
    return create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=True)


def _elect_leaders(number: int) -> Message:
    return elect_leaders.ElectLeadersRequest(
        election_type=0, topic_partitions=[elect_leaders.TopicPartitions(topic="t", partitions=[0])], timeout_ms=1000
    )


def _alter_reassignments(number: int) -> Message:
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=None)
    topic = alter_partition_reassignments.ReassignableTopic(name="t", partitions=[partition])
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])


def _list_reassignments(number: int) -> Message:
    topic = list_partition_reassignments.ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])
    return list_partition_reassignments.ListPartitionReassignmentsRequest(topics=[topic])


def _offset_delete(number: int) -> Message:
    partition = offset_delete.OffsetDeleteRequestPartition(partition_index=NOT_THERE)
    topics = [offset_delete.OffsetDeleteRequestTopic(name=name, partitions=[partition]) for name in ASKED]
    return offset_delete.OffsetDeleteRequest(group_id="g", topics=topics)


def _alter_client_quotas(number: int) -> Message:
    entity = alter_client_quotas.EntityData(entity_type="user", entity_name="u")
    change = alter_client_quotas.OpData(key="producer_byte_rate", value=1000.0)
    entry = alter_client_quotas.EntryData(entity=[entity], ops=[change])
    return alter_client_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=True)


CASES: Final[tuple[Case, ...]] = (
    Case("Metadata of all", 9, lambda n: _metadata(None, include_topic_authorized_operations=True)),
    Case("Metadata of none", 9, lambda n: _metadata([], include_cluster_authorized_operations=True)),
    Case("Metadata by name", 9, lambda n: _metadata(ASKED, include_topic_authorized_operations=True)),
    Case("Metadata, oldest", 0, lambda n: _metadata(TOPICS)),
    Case("Metadata of all, oldest", 0, lambda n: _metadata([])),
    Case("ListGroups", 4, lambda n: list_groups.ListGroupsRequest()),
    Case(
        "DescribeGroups", 5,
        lambda n: describe_groups.DescribeGroupsRequest(groups=list(GROUPS), include_authorized_operations=True),
    ),
    Case("ListTransactions", 1, lambda n: list_transactions.ListTransactionsRequest()),
    Case(
        "DescribeTransactions", 0,
        lambda n: describe_transactions.DescribeTransactionsRequest(transactional_ids=list(TRANSACTIONS)),
    ),
    Case("Produce", 9, lambda n: _produce()),
    Case("Produce in a transaction", 9, lambda n: _produce("tx", 999)),
    Case("Produce in a transaction without a name", 9, lambda n: _produce(None, 999)),
    Case("Fetch", 11, lambda n: _fetch(-1)),
    Case("Fetch of a follower", 11, lambda n: _fetch(3)),
    Case("ListOffsets", 5, lambda n: _list_offsets()),
    Case("LeaderAndIsr", 7, lambda n: _leader_and_isr()),
    Case("LeaderAndIsr by name", 4, lambda n: _leader_and_isr()),
    Case("StopReplica", 4, lambda n: _stop_replica()),
    Case("UpdateMetadata", 8, lambda n: update_metadata.UpdateMetadataRequest(controller_epoch=0, broker_epoch=1)),
    Case("ControlledShutdown", 3, lambda n: controlled_shutdown.ControlledShutdownRequest(broker_id=77)),
    Case("OffsetCommit", 8, lambda n: _offset_commit()),
    Case("OffsetFetch", 7, lambda n: _offset_fetch(ASKED)),
    Case("OffsetFetch of all", 7, lambda n: _offset_fetch(None)),
    Case("OffsetFetch, old", 1, lambda n: _offset_fetch(ASKED)),
    Case("OffsetFetch of groups", 8, lambda n: _offset_fetch_groups()),
    Case("FindCoordinator of a group", 3, lambda n: find_coordinator.FindCoordinatorRequest(key="g", key_type=0)),
    Case("FindCoordinator of a producer", 3, lambda n: find_coordinator.FindCoordinatorRequest(key="tx", key_type=1)),
    Case(
        "FindCoordinator of groups", 4,
        lambda n: find_coordinator.FindCoordinatorRequest(coordinator_keys=list(GROUPS), key_type=0),
    ),
    Case(
        "JoinGroup", 5,
        lambda n: join_group.JoinGroupRequest(
            group_id="g", session_timeout_ms=1, protocol_type="consumer",
            protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
    ),
    Case("Heartbeat", 4, lambda n: heartbeat.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")),
    Case(
        "LeaveGroup", 4,
        lambda n: leave_group.LeaveGroupRequest(group_id="g", members=[leave_group.MemberIdentity(member_id="m")]),
    ),
    Case("SyncGroup", 3, lambda n: sync_group.SyncGroupRequest(group_id="g", generation_id=1, member_id="m")),
    Case("CreateTopics", 7, _create_topics),
    Case("DeleteTopics", 5, lambda n: delete_topics.DeleteTopicsRequest(topic_names=["gone", "missing"],
                                                                       timeout_ms=1000)),
    Case("DeleteTopics by name or id", 6, _delete_topics_by_id),
    Case("DeleteRecords", 2, _delete_records),
    Case("InitProducerId", 4, lambda n: _init_producer_id(None)),
    Case("InitProducerId of a transaction", 4, lambda n: _init_producer_id("tx")),
    Case("OffsetForLeaderEpoch", 4, _offset_for_leader_epoch),
    Case("AddPartitionsToTxn", 3, lambda n: _add_partitions(["t", "other"])),
    Case("AddPartitionsToTxn of one topic", 3, lambda n: _add_partitions(["t"])),
    Case("AddPartitionsToTxn of an internal topic", 3, lambda n: _add_partitions(["__consumer_offsets"])),
    Case("AddPartitionsToTxn of a broker", 5, _verify_partitions),
    Case(
        "AddOffsetsToTxn", 3,
        lambda n: add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id="tx", producer_id=999, producer_epoch=0, group_id="g"
        ),
    ),
    Case(
        "EndTxn", 3,
        lambda n: end_txn.EndTxnRequest(transactional_id="tx", producer_id=999, producer_epoch=0, committed=True),
    ),
    Case("WriteTxnMarkers", 1, _write_txn_markers),
    Case("TxnOffsetCommit", 3, _txn_offset_commit),
    Case(
        "DescribeAcls", 3,
        lambda n: describe_acls.DescribeAclsRequest(
            resource_type_filter=2, resource_name_filter="t", pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        ),
    ),
    Case("CreateAcls", 3, _create_acls),
    Case(
        "DeleteAcls", 3,
        lambda n: delete_acls.DeleteAclsRequest(
            filters=[
                delete_acls.DeleteAclsFilter(
                    resource_type_filter=2, resource_name_filter=f"new-{n}", pattern_type_filter=kind,
                    principal_filter=None, host_filter=None, operation=1, permission_type=1,
                )
                for kind in (4, 3)
            ]
        ),
    ),
    Case("DescribeConfigs", 4, _describe_configs),
    Case("AlterConfigs", 2, _alter_configs),
    Case("IncrementalAlterConfigs", 1, _incremental_alter_configs),
    Case("AlterReplicaLogDirs", 2, _alter_replica_log_dirs),
    Case("DescribeLogDirs", 4, lambda n: describe_log_dirs.DescribeLogDirsRequest(
        topics=[describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=[0])])),
    Case("CreatePartitions", 3, _create_partitions),
    Case("DeleteGroups", 2, lambda n: delete_groups.DeleteGroupsRequest(groups_names=["nobodys", "p-none"])),
    Case("ElectLeaders", 2, _elect_leaders),
    Case("AlterPartitionReassignments", 0, _alter_reassignments),
    Case("ListPartitionReassignments", 0, _list_reassignments),
    Case("OffsetDelete", 0, _offset_delete),
    Case("DescribeClientQuotas", 1, lambda n: describe_client_quotas.DescribeClientQuotasRequest(
        components=[describe_client_quotas.ComponentData(entity_type="user", match_type=2, match=None)])),
    Case("AlterClientQuotas", 1, _alter_client_quotas),
    Case("AlterPartition", 3, lambda n: alter_partition.AlterPartitionRequest(broker_id=0, broker_epoch=1)),
    Case("DescribeCluster", 1, lambda n: describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=True)),
    Case("DescribeProducers", 0, lambda n: describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=name, partition_indexes=[0]) for name in (*ASKED, "a b")])),
    Case("AllocateProducerIds", 0, lambda n: allocate_producer_ids.AllocateProducerIdsRequest(
        broker_id=0, broker_epoch=1)),
    Case("UpdateFeatures", 1, lambda n: update_features.UpdateFeaturesRequest(
        feature_updates=[update_features.FeatureUpdateKey(feature="no.such.version", max_version_level=1)])),
    Case("Envelope", 0, lambda n: envelope.EnvelopeRequest(client_host_address=bytes(4))),
    Case("ConsumerGroupHeartbeat", 0, lambda n: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group_id="g")),
    Case("ConsumerGroupDescribe", 0, lambda n: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=["g"])),
    Case("CreateDelegationToken", 3, lambda n: create_delegation_token.CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="somebody")),
    Case("DescribeDelegationToken", 3, lambda n: describe_delegation_token.DescribeDelegationTokenRequest()),
    Case("Metadata that creates", 9, lambda n: _metadata(["gone", "missing", f"p-auto-{n}"],
                                                        allow_auto_topic_creation=True),
         only=lambda lines: not any(kind is ResourceType.TOPIC and name == "*" for kind, name, *_ in lines)
         and not any(kind is ResourceType.CLUSTER and operation in (AclOperation.CREATE, ALL)
                     for kind, _, _, operation, _ in lines)),
)  # fmt: skip
