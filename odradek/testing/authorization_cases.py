"""A request of every API, for principals to ask: the same go to brokers in memory and to Kafka's own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.broker.security.acls import AclOperation
from odradek.protocol.fields import Message
from odradek.protocol.messages import (
    add_offsets_to_txn,
    allocate_producer_ids,
    alter_partition,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    create_delegation_token,
    delete_acls,
    delete_groups,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    end_txn,
    envelope,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    list_transactions,
    sync_group,
    update_features,
    update_metadata,
)
from odradek.testing.authorization_record import ALL, ASKED, GROUPS, TOPICS, TRANSACTIONS, Line
from odradek.testing.authorization_requests import (
    make_add_partitions,
    make_alter_client_quotas,
    make_alter_configs,
    make_alter_reassignments,
    make_alter_replica_log_dirs,
    make_create_acls,
    make_create_partitions,
    make_create_topics,
    make_delete_records,
    make_delete_topics_by_id,
    make_describe_configs,
    make_elect_leaders,
    make_fetch,
    make_incremental_alter_configs,
    make_init_producer_id,
    make_leader_and_isr,
    make_list_offsets,
    make_list_reassignments,
    make_metadata,
    make_offset_commit,
    make_offset_delete,
    make_offset_fetch,
    make_offset_fetch_groups,
    make_offset_for_leader_epoch,
    make_produce,
    make_stop_replica,
    make_txn_offset_commit,
    make_verify_partitions,
    make_write_txn_markers,
)
from odradek.zk_schema.znodes.acls import ResourceType


@dataclass(frozen=True)
class Case:
    """A request; `api` and `version` name it in the record."""

    label: str
    version: int
    make: Callable[[int], Message]
    """Makes the request of a principal, by its number."""
    only: Callable[[Sequence[Line]], bool] = field(default=lambda lines: True)
    """Condition on the rights of a principal that asks it: those who would really change something do not."""


CASES: Final[tuple[Case, ...]] = (
    Case("Metadata of all", 9, lambda n: make_metadata(None, include_topic_authorized_operations=True)),
    Case("Metadata of none", 9, lambda n: make_metadata([], include_cluster_authorized_operations=True)),
    Case("Metadata by name", 9, lambda n: make_metadata(ASKED, include_topic_authorized_operations=True)),
    Case("Metadata, oldest", 0, lambda n: make_metadata(TOPICS)),
    Case("Metadata of all, oldest", 0, lambda n: make_metadata([])),
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
    Case("Produce", 9, lambda n: make_produce()),
    Case("Produce in a transaction", 9, lambda n: make_produce("tx", 999)),
    Case("Produce in a transaction without a name", 9, lambda n: make_produce(None, 999)),
    Case("Fetch", 11, lambda n: make_fetch(-1)),
    Case("Fetch of a follower", 11, lambda n: make_fetch(3)),
    Case("ListOffsets", 5, lambda n: make_list_offsets()),
    Case("LeaderAndIsr", 7, lambda n: make_leader_and_isr()),
    Case("LeaderAndIsr by name", 4, lambda n: make_leader_and_isr()),
    Case("StopReplica", 4, lambda n: make_stop_replica()),
    Case("UpdateMetadata", 8, lambda n: update_metadata.UpdateMetadataRequest(controller_epoch=0, broker_epoch=1)),
    Case("ControlledShutdown", 3, lambda n: controlled_shutdown.ControlledShutdownRequest(broker_id=77)),
    Case("OffsetCommit", 8, lambda n: make_offset_commit()),
    Case("OffsetFetch", 7, lambda n: make_offset_fetch(ASKED)),
    Case("OffsetFetch of all", 7, lambda n: make_offset_fetch(None)),
    Case("OffsetFetch, old", 1, lambda n: make_offset_fetch(ASKED)),
    Case("OffsetFetch of groups", 8, lambda n: make_offset_fetch_groups()),
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
    Case("CreateTopics", 7, make_create_topics),
    Case("DeleteTopics", 5, lambda n: delete_topics.DeleteTopicsRequest(topic_names=["gone", "missing"],
                                                                       timeout_ms=1000)),
    Case("DeleteTopics by name or id", 6, make_delete_topics_by_id),
    Case("DeleteRecords", 2, make_delete_records),
    Case("InitProducerId", 4, lambda n: make_init_producer_id(None)),
    Case("InitProducerId of a transaction", 4, lambda n: make_init_producer_id("tx")),
    Case("OffsetForLeaderEpoch", 4, make_offset_for_leader_epoch),
    Case("AddPartitionsToTxn", 3, lambda n: make_add_partitions(["t", "other"])),
    Case("AddPartitionsToTxn of one topic", 3, lambda n: make_add_partitions(["t"])),
    Case("AddPartitionsToTxn of an internal topic", 3, lambda n: make_add_partitions(["__consumer_offsets"])),
    Case("AddPartitionsToTxn of a broker", 5, make_verify_partitions),
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
    Case("WriteTxnMarkers", 1, make_write_txn_markers),
    Case("TxnOffsetCommit", 3, make_txn_offset_commit),
    Case(
        "DescribeAcls", 3,
        lambda n: describe_acls.DescribeAclsRequest(
            resource_type_filter=2, resource_name_filter="t", pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        ),
    ),
    Case("CreateAcls", 3, make_create_acls),
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
    Case("DescribeConfigs", 4, make_describe_configs),
    Case("AlterConfigs", 2, make_alter_configs),
    Case("IncrementalAlterConfigs", 1, make_incremental_alter_configs),
    Case("AlterReplicaLogDirs", 2, make_alter_replica_log_dirs),
    Case("DescribeLogDirs", 4, lambda n: describe_log_dirs.DescribeLogDirsRequest(
        topics=[describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=[0])])),
    Case("CreatePartitions", 3, make_create_partitions),
    Case("DeleteGroups", 2, lambda n: delete_groups.DeleteGroupsRequest(groups_names=["nobodys", "p-none"])),
    Case("ElectLeaders", 2, make_elect_leaders),
    Case("AlterPartitionReassignments", 0, make_alter_reassignments),
    Case("ListPartitionReassignments", 0, make_list_reassignments),
    Case("OffsetDelete", 0, make_offset_delete),
    Case("DescribeClientQuotas", 1, lambda n: describe_client_quotas.DescribeClientQuotasRequest(
        components=[describe_client_quotas.ComponentData(entity_type="user", match_type=2, match=None)])),
    Case("AlterClientQuotas", 1, make_alter_client_quotas),
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
    Case("Metadata that creates", 9, lambda n: make_metadata(["gone", "missing", f"p-auto-{n}"],
                                                        allow_auto_topic_creation=True),
         only=lambda lines: not any(kind is ResourceType.TOPIC and name == "*" for kind, name, *_ in lines)
         and not any(kind is ResourceType.CLUSTER and operation in (AclOperation.CREATE, ALL)
                     for kind, _, _, operation, _ in lines)),
)  # fmt: skip
