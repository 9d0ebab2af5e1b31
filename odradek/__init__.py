"""Odradek: Apache Kafka's ZooKeeper-era cluster in Python.

The clients are imported when they are first used: a broker imports this package too, and needs none of them. At the top
nothing is imported at all: Ctrl-C during such an import would end a command with a traceback.
"""

TYPE_CHECKING = False
"""Type checkers take this for `typing.TYPE_CHECKING`, which would have to be imported."""

if TYPE_CHECKING:
    from odradek.client.admin.access_values import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ACLResourceType,
        ClientQuotaAlteration,
        QuotaMatch,
        ResourcePattern,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from odradek.client.admin.client import KafkaAdminClient
    from odradek.client.admin.values import (
        AbortTransactionSpec,
        ConfigResource,
        MemberToRemove,
        NewPartitions,
        NewTopic,
        OffsetSpec,
        OffsetTimestamp,
        ResourceType,
        TopicPartitionReplica,
    )
    from odradek.client.consumer.client import KafkaConsumer
    from odradek.client.consumer.subscription import RebalanceListener
    from odradek.client.errors import (
        AbortRequired,
        ClientBroken,
        ClientClosed,
        ClientError,
        ClientTimeout,
        CommitFailed,
        ConfigError,
        CorruptRecords,
        DeserializationError,
        RebalanceInProgress,
    )
    from odradek.client.original.messages import FetchRequest, KeyedMessage
    from odradek.client.original.producer import Producer
    from odradek.client.original.simple_consumer import SimpleConsumer
    from odradek.client.producer.client import KafkaProducer
    from odradek.client.records import (
        ConsumerGroupMetadata,
        ConsumerRecord,
        OffsetAndMetadata,
        RecordMetadata,
        TopicPartition,
    )
    from odradek.client.zookeeper.connector import ConsumerConnector
    from odradek.client.zookeeper.streams import ConsumerTimeout
    from odradek.client.zookeeper.subscriptions import Blacklist, Whitelist
    from odradek.protocol.errors import ErrorCode, KafkaError

_HOMES = {
    "ACL": "odradek.client.admin.access_values",
    "ACLFilter": "odradek.client.admin.access_values",
    "ACLOperation": "odradek.client.admin.access_values",
    "ACLPermissionType": "odradek.client.admin.access_values",
    "ACLResourcePatternType": "odradek.client.admin.access_values",
    "ACLResourceType": "odradek.client.admin.access_values",
    "AbortRequired": "odradek.client.errors",
    "AbortTransactionSpec": "odradek.client.admin.values",
    "Blacklist": "odradek.client.zookeeper.subscriptions",
    "ClientBroken": "odradek.client.errors",
    "ClientClosed": "odradek.client.errors",
    "ClientError": "odradek.client.errors",
    "ClientQuotaAlteration": "odradek.client.admin.access_values",
    "ClientTimeout": "odradek.client.errors",
    "CommitFailed": "odradek.client.errors",
    "ConfigError": "odradek.client.errors",
    "ConfigResource": "odradek.client.admin.values",
    "ConsumerConnector": "odradek.client.zookeeper.connector",
    "ConsumerGroupMetadata": "odradek.client.records",
    "ConsumerRecord": "odradek.client.records",
    "ConsumerTimeout": "odradek.client.zookeeper.streams",
    "CorruptRecords": "odradek.client.errors",
    "DeserializationError": "odradek.client.errors",
    "ErrorCode": "odradek.protocol.errors",
    "FetchRequest": "odradek.client.original.messages",
    "KafkaAdminClient": "odradek.client.admin.client",
    "KafkaConsumer": "odradek.client.consumer.client",
    "KafkaError": "odradek.protocol.errors",
    "KafkaProducer": "odradek.client.producer.client",
    "KeyedMessage": "odradek.client.original.messages",
    "MemberToRemove": "odradek.client.admin.values",
    "NewPartitions": "odradek.client.admin.values",
    "NewTopic": "odradek.client.admin.values",
    "OffsetAndMetadata": "odradek.client.records",
    "OffsetSpec": "odradek.client.admin.values",
    "OffsetTimestamp": "odradek.client.admin.values",
    "Producer": "odradek.client.original.producer",
    "QuotaMatch": "odradek.client.admin.access_values",
    "RebalanceInProgress": "odradek.client.errors",
    "RebalanceListener": "odradek.client.consumer.subscription",
    "RecordMetadata": "odradek.client.records",
    "ResourcePattern": "odradek.client.admin.access_values",
    "ResourceType": "odradek.client.admin.values",
    "ScramMechanism": "odradek.client.admin.access_values",
    "SimpleConsumer": "odradek.client.original.simple_consumer",
    "TopicPartition": "odradek.client.records",
    "TopicPartitionReplica": "odradek.client.admin.values",
    "UserScramCredentialDeletion": "odradek.client.admin.access_values",
    "UserScramCredentialUpsertion": "odradek.client.admin.access_values",
    "Whitelist": "odradek.client.zookeeper.subscriptions",
}
"""Public name → the module that defines it."""

__all__ = [
    "ACL",
    "ACLFilter",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "ACLResourceType",
    "AbortRequired",
    "AbortTransactionSpec",
    "Blacklist",
    "ClientBroken",
    "ClientClosed",
    "ClientError",
    "ClientQuotaAlteration",
    "ClientTimeout",
    "CommitFailed",
    "ConfigError",
    "ConfigResource",
    "ConsumerConnector",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "ConsumerTimeout",
    "CorruptRecords",
    "DeserializationError",
    "ErrorCode",
    "FetchRequest",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "KeyedMessage",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetSpec",
    "OffsetTimestamp",
    "Producer",
    "QuotaMatch",
    "RebalanceInProgress",
    "RebalanceListener",
    "RecordMetadata",
    "ResourcePattern",
    "ResourceType",
    "ScramMechanism",
    "SimpleConsumer",
    "TopicPartition",
    "TopicPartitionReplica",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "Whitelist",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'odradek' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
