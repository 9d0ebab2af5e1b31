"""The table of authorization: what each API asks of the authorizer, and what it answers when that is denied.

An API that has no line here is not served where there is an authorizer: nothing is forgotten into being allowed. An
empty line means that everybody may ask. docs/authorization.md shows the same table.

Source: the handlers of KafkaApis, and AclApis, of Kafka 3.9 in ZooKeeper mode.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.broker.network.boundary import UnsupportedRequestError
from odradek.broker.network.outcomes import Outcome, RequestContext
from odradek.broker.requests.authorization import configs, groups, refusals, tokens, topics
from odradek.broker.requests.authorization import item_refusals as items
from odradek.broker.requests.authorization.refusals import by_code, in_words
from odradek.broker.requests.authorization.rules import Asked, Each, Rule, Shown, Special, Whole
from odradek.broker.security.acls import AclOperation as Do
from odradek.broker.security.authorizer import AclAuthorizer, Rights, host_of
from odradek.broker.services import Services
from odradek.protocol.headers import API_NAMES
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.protocol.messages.alter_partition import AlterPartitionResponse
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownResponse
from odradek.protocol.messages.describe_acls import DescribeAclsResponse
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse
from odradek.protocol.messages.end_txn import EndTxnResponse
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.leave_group import LeaveGroupResponse
from odradek.protocol.messages.offset_delete import OffsetDeleteResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse
from odradek.protocol.messages.update_features import UpdateFeaturesResponse
from odradek.protocol.messages.update_metadata import UpdateMetadataResponse
from odradek.protocol.topic_names import name_fault
from odradek.zk_schema.znodes.acls import ResourceType as On

TOPIC, GROUP, CLUSTER, TRANSACTION = On.TOPIC, On.GROUP, On.CLUSTER, On.TRANSACTIONAL_ID

_itself = str


def _group_id(request: Any) -> str:
    return str(request.group_id)


def _transactional_id(request: Any) -> str:
    return str(request.transactional_id)


def _of_brokers(refusal: Any) -> tuple[Rule, ...]:
    """Return the rules of requests that brokers and the controller send each other."""
    return (Whole(Do.CLUSTER_ACTION, CLUSTER, refusal),)


TABLE: Final[Mapping[int, tuple[Rule, ...]]] = {
    0: (  # Produce
        Special(
            "WRITE on the TransactionalId, if there are records of a transaction, else "
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            topics.transactional_produce,
        ),
        Each(Do.WRITE, TOPIC, items.of_produced_topic, "topic_data", "responses"),
    ),
    1: (  # Fetch
        Special(
            "READ on each Topic, a follower CLUSTER_ACTION on the Cluster, else TOPIC_AUTHORIZATION_FAILED for it",
            topics.fetched,
        ),
    ),
    2: (Each(Do.DESCRIBE, TOPIC, items.of_listed_topic),),  # ListOffsets
    3: (  # Metadata
        Special(
            "DESCRIBE on each Topic, CREATE on the Cluster or the Topic if it is to be created, else "
            "TOPIC_AUTHORIZATION_FAILED for it; where all are asked for it is not shown",
            topics.metadata,
        ),
    ),
    4: _of_brokers(refusals.of_leader_and_isr),
    5: _of_brokers(refusals.of_stop_replica),
    6: _of_brokers(by_code(UpdateMetadataResponse)),
    7: _of_brokers(by_code(ControlledShutdownResponse)),
    8: (  # OffsetCommit
        Whole(Do.READ, GROUP, refusals.of_offset_commit, _group_id),
        Each(Do.READ, TOPIC, items.of_committed_topic),
    ),
    9: (  # OffsetFetch
        Special(
            "DESCRIBE on the Group, else GROUP_AUTHORIZATION_FAILED; DESCRIBE on each Topic, else "
            "TOPIC_AUTHORIZATION_FAILED for it; where all are asked for it is not shown",
            groups.fetched_offsets,
        ),
    ),
    10: (  # FindCoordinator
        Special(
            "DESCRIBE on each Group or TransactionalId, else GROUP_AUTHORIZATION_FAILED or "
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for it",
            groups.find_coordinator,
        ),
    ),
    11: (Whole(Do.READ, GROUP, refusals.of_join_group, _group_id),),
    12: (Whole(Do.READ, GROUP, by_code(HeartbeatResponse), _group_id),),
    13: (Whole(Do.READ, GROUP, by_code(LeaveGroupResponse), _group_id),),
    14: (Whole(Do.READ, GROUP, by_code(SyncGroupResponse), _group_id),),
    15: (  # DescribeGroups
        Each(Do.DESCRIBE, GROUP, items.of_described_group, "groups", "groups", _itself),
        Special("answers the operations that are allowed", groups.group_operations),
    ),
    16: (Shown(Do.DESCRIBE, GROUP, "groups", _group_id, unless=Do.DESCRIBE),),  # ListGroups
    17: (),  # SaslHandshake
    18: (),  # ApiVersions
    19: (  # CreateTopics
        Special(
            "CREATE on the Cluster or on each Topic, else TOPIC_AUTHORIZATION_FAILED for it; DESCRIBE_CONFIGS on each "
            "Topic, else its settings are not shown",
            topics.create_topics,
        ),
    ),
    20: (  # DeleteTopics
        Special(
            "DELETE on each Topic, else TOPIC_AUTHORIZATION_FAILED for it; DESCRIBE on one that is named by its id, "
            "else without its name",
            topics.delete_topics,
        ),
    ),
    21: (Each(Do.DELETE, TOPIC, items.of_deleted_records),),  # DeleteRecords
    22: (  # InitProducerId
        Special(
            "WRITE on the TransactionalId, else TRANSACTIONAL_ID_AUTHORIZATION_FAILED; without one IDEMPOTENT_WRITE on "
            "the Cluster or WRITE on any Topic, else CLUSTER_AUTHORIZATION_FAILED",
            topics.init_producer_id,
        ),
    ),
    23: (  # OffsetForLeaderEpoch
        Each(Do.DESCRIBE, TOPIC, items.of_epoch_topic, name=lambda one: str(one.topic), unless=Do.CLUSTER_ACTION),
    ),
    24: (  # AddPartitionsToTxn
        Special(
            "WRITE on the TransactionalId, else TRANSACTIONAL_ID_AUTHORIZATION_FAILED; WRITE on each Topic, else "
            "TOPIC_AUTHORIZATION_FAILED for it and OPERATION_NOT_ATTEMPTED for the others; from version 4 on "
            "CLUSTER_ACTION on the Cluster, else CLUSTER_AUTHORIZATION_FAILED",
            topics.transaction_partitions,
        ),
    ),
    25: (  # AddOffsetsToTxn
        Whole(Do.WRITE, TRANSACTION, by_code(AddOffsetsToTxnResponse), _transactional_id),
        Whole(Do.READ, GROUP, by_code(AddOffsetsToTxnResponse), _group_id),
    ),
    26: (Whole(Do.WRITE, TRANSACTION, by_code(EndTxnResponse), _transactional_id),),
    27: (Whole(Do.CLUSTER_ACTION, CLUSTER, refusals.of_write_txn_markers, unless=Do.ALTER),),  # WriteTxnMarkers
    28: (  # TxnOffsetCommit
        Whole(Do.WRITE, TRANSACTION, refusals.of_txn_offset_commit, _transactional_id),
        Whole(Do.READ, GROUP, refusals.of_txn_offset_commit, _group_id),
        Each(Do.READ, TOPIC, items.of_transaction_topic),
    ),
    29: (Whole(Do.DESCRIBE, CLUSTER, in_words(DescribeAclsResponse)),),
    30: (Whole(Do.ALTER, CLUSTER, refusals.of_create_acls),),
    31: (Whole(Do.ALTER, CLUSTER, refusals.of_delete_acls),),
    32: (  # DescribeConfigs
        Special(
            "DESCRIBE_CONFIGS on each Topic, or on the Cluster for brokers and their loggers, else "
            "TOPIC_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED for it",
            configs.describe,
        ),
    ),
    33: (  # AlterConfigs
        Special(
            "ALTER_CONFIGS on each Topic, or on the Cluster for brokers, else TOPIC_AUTHORIZATION_FAILED or "
            "CLUSTER_AUTHORIZATION_FAILED for it",
            configs.alter,
        ),
    ),
    34: (Whole(Do.ALTER, CLUSTER, refusals.of_alter_replica_log_dirs),),
    35: (Whole(Do.DESCRIBE, CLUSTER, by_code(DescribeLogDirsResponse)),),
    36: (),  # SaslAuthenticate
    37: (  # CreatePartitions
        Each(Do.ALTER, TOPIC, items.of_new_partitions, answers="results", on_controller=True),
    ),
    38: (  # CreateDelegationToken
        Special(
            "CREATE_TOKENS on the User, if the token is to be somebody else's, else "
            "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
            tokens.create,
        ),
    ),
    39: (),  # RenewDelegationToken: its owner and its renewers
    40: (),  # ExpireDelegationToken: the same
    41: (  # DescribeDelegationToken
        Special(
            "one's own are shown; others with DESCRIBE on the DelegationToken or DESCRIBE_TOKENS on the User that "
            "owns it",
            tokens.describe,
        ),
    ),
    42: (  # DeleteGroups
        Each(Do.DELETE, GROUP, items.of_deleted_group, "groups_names", "results", _itself),
    ),
    43: (Whole(Do.ALTER, CLUSTER, refusals.of_elect_leaders),),
    44: (  # IncrementalAlterConfigs
        Special(
            "ALTER_CONFIGS on each Topic, or on the Cluster for brokers and their loggers, else "
            "TOPIC_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED for it",
            configs.alter_incrementally,
        ),
    ),
    45: (Whole(Do.ALTER, CLUSTER, refusals.of_alter_partition_reassignments),),
    46: (Whole(Do.DESCRIBE, CLUSTER, refusals.of_list_partition_reassignments),),
    47: (  # OffsetDelete
        Whole(Do.DELETE, GROUP, by_code(OffsetDeleteResponse), _group_id),
        Each(Do.READ, TOPIC, items.of_deleted_offsets),
    ),
    48: (Whole(Do.DESCRIBE_CONFIGS, CLUSTER, refusals.of_describe_client_quotas),),
    49: (Whole(Do.ALTER_CONFIGS, CLUSTER, refusals.of_alter_client_quotas),),
    50: (Whole(Do.DESCRIBE, CLUSTER, in_words(DescribeUserScramCredentialsResponse)),),
    51: (Whole(Do.ALTER, CLUSTER, refusals.of_alter_user_scram_credentials, on_controller=True),),
    56: _of_brokers(by_code(AlterPartitionResponse)),
    57: (Whole(Do.ALTER, CLUSTER, in_words(UpdateFeaturesResponse)),),
    58: (),  # Envelope: nobody
    60: (  # DescribeCluster
        Special("everybody may ask; the operations need DESCRIBE on the Cluster", topics.describe_cluster),
    ),
    61: (  # DescribeProducers
        Each(Do.READ, TOPIC, items.of_producers, judges=lambda name: name_fault(name) is None),
    ),
    65: (  # DescribeTransactions
        Each(Do.DESCRIBE, TRANSACTION, items.of_transaction, "transactional_ids", "transaction_states", _itself),
        Special("DESCRIBE on each Topic of a transaction, else it is not shown", groups.transactions_topics),
    ),
    66: (Shown(Do.DESCRIBE, TRANSACTION, "transaction_states", _transactional_id),),  # ListTransactions
    67: _of_brokers(by_code(AllocateProducerIdsResponse)),
    68: (),  # ConsumerGroupHeartbeat: nobody
    69: (),  # ConsumerGroupDescribe: nobody
}
"""Rules by API key."""


def rows() -> list[str]:
    """Return the table as docs/authorization.md has it."""
    return [
        f"| {API_NAMES[key]} | {'; then '.join(rule.text for rule in rules) or 'everybody may ask'} |"
        for key, rules in TABLE.items()
    ]


Handle = Callable[[Services, Any, RequestContext], Outcome]


def authorized(handle: Handle, key: int, authorizer: AclAuthorizer) -> Handle:
    """Put an API's rules before its handler. Raises UnsupportedRequestError for an API that is not in the table."""
    if key not in TABLE:
        raise UnsupportedRequestError(f"no rule says who may use API {key}")
    rules, name = TABLE[key], API_NAMES[key]
    if not rules:
        return handle

    def ask(broker: Services, request: Any, context: RequestContext) -> Outcome:
        rights = Rights(authorizer, context.principal, host_of(context.peer), name)
        asked = Asked(broker, request, context, rights)

        def go_on(at: int = 0) -> Outcome:
            if at == len(rules):
                return handle(broker, request, context)
            return rules[at](asked, lambda: go_on(at + 1))

        return go_on()

    return ask
