"""AddPartitionsToTxn: API key 24, versions 0-5, flexible from 3. To the transaction coordinator.

Puts partitions into a producer's transaction before it writes to them.

1   the client does its own throttling
2   PRODUCER_FENCED may be answered; below it is INVALID_PRODUCER_EPOCH
3   flexible; the last version for clients
4   between brokers: several transactions, and `verify_only`, with which a leader asks whether a partition is in the
    transaction already (KIP-890). Needs the right CLUSTER_ACTION
5   TRANSACTION_ABORTABLE may be answered

Up to 3 an error for every partition: the others of a refused request are OPERATION_NOT_ATTEMPTED.
CONCURRENT_TRANSACTIONS while the last one is still being ended. The response's structs are named after the versions,
as Kafka names them.
"""

from odradek.protocol.fields import BOOL, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class AddPartitionsToTxnTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field(STRING, "4+")
    producer_id: int = field(INT64, "4+")
    producer_epoch: int = field(INT16, "4+")
    verify_only: bool = field(BOOL, "4+")
    topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic), "4+")


class AddPartitionsToTxnRequest(Message):
    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    transactions: list[AddPartitionsToTxnTransaction] = field(Array(AddPartitionsToTxnTransaction), "4+")
    v3_and_below_transactional_id: str = field(STRING, "0-3")
    v3_and_below_producer_id: int = field(INT64, "0-3")
    v3_and_below_producer_epoch: int = field(INT16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic), "0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(INT32, "0+")
    partition_error_code: int = field(INT16, "0+")


class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(STRING, "0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        Array(AddPartitionsToTxnPartitionResult), "0+"
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field(STRING, "4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(Array(AddPartitionsToTxnTopicResult), "4+")


class AddPartitionsToTxnResponse(Message):
    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = field(Array(AddPartitionsToTxnResult), "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        Array(AddPartitionsToTxnTopicResult), "0-3"
    )
