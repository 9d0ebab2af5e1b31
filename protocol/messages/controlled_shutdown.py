"""ControlledShutdown: API key 7, versions 0-3, flexible from 3. From a broker to the controller.

A broker asks that its leaderships move before it stops. The answer lists the partitions that it still leads because
nobody else is in sync; the broker tries again or stops anyway (controlled.shutdown.max.retries).

0   has a request header of its own, without client id
1   the usual header
2   broker epoch; an older one is STALE_BROKER_EPOCH
3   flexible
"""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class ControlledShutdownRequest(Message):
    API_KEY = 7
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 3

    broker_id: int = field(INT32, "0+")
    broker_epoch: int = field(INT64, "2+", default=-1)


class RemainingPartition(Struct):
    topic_name: str = field(STRING, "0+")
    partition_index: int = field(INT32, "0+")


class ControlledShutdownResponse(Message):
    API_KEY = 7
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 3

    error_code: int = field(INT16, "0+")
    remaining_partitions: list[RemainingPartition] = field(Array(RemainingPartition), "0+")
