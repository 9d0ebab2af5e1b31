"""WriteTxnMarkers: API key 27, versions 0-1, flexible from 1. From the transaction coordinator to leaders.

Ends a transaction in partitions: a control batch is appended that says commit or abort. From brokers only
(CLUSTER_ACTION); kafka-transactions.sh uses it to end hanging transactions.

1   flexible

An older coordinator epoch than the last marker's is TRANSACTION_COORDINATOR_FENCED. Repeating a marker is harmless.
"""

from odradek.protocol.fields import BOOL, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class WritableTxnMarkerTopic(Struct):
    name: str = field(STRING, "0+")
    partition_indexes: list[int] = field(Array(INT32), "0+")


class WritableTxnMarker(Struct):
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    transaction_result: bool = field(BOOL, "0+")
    topics: list[WritableTxnMarkerTopic] = field(Array(WritableTxnMarkerTopic), "0+")
    coordinator_epoch: int = field(INT32, "0+")


class WriteTxnMarkersRequest(Message):
    API_KEY = 27
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    markers: list[WritableTxnMarker] = field(Array(WritableTxnMarker), "0+")


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


class WritableTxnMarkerTopicResult(Struct):
    name: str = field(STRING, "0+")
    partitions: list[WritableTxnMarkerPartitionResult] = field(Array(WritableTxnMarkerPartitionResult), "0+")


class WritableTxnMarkerResult(Struct):
    producer_id: int = field(INT64, "0+")
    topics: list[WritableTxnMarkerTopicResult] = field(Array(WritableTxnMarkerTopicResult), "0+")


class WriteTxnMarkersResponse(Message):
    API_KEY = 27
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    markers: list[WritableTxnMarkerResult] = field(Array(WritableTxnMarkerResult), "0+")
