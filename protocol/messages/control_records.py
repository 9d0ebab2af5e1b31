"""The one record of a control batch: its key says what happened, its value who decided. Version 0, an int16 in front.

A transaction ends in a partition with an ABORT or a COMMIT marker, written by WriteTxnMarkers. The value carries the
epoch of the transaction coordinator, by which a marker of a deposed one is refused. Other types belong to KRaft's
metadata log; a consumer skips every control batch whatever its type.
"""

from enum import IntEnum

from odradek.protocol.fields import INT16, INT32, Message, field


class ControlRecordType(IntEnum):
    ABORT = 0
    COMMIT = 1


class ControlRecordKey(Message):
    VERSIONS = (0, 0)

    type: int = field(INT16, "0+")


class EndTxnMarker(Message):
    VERSIONS = (0, 0)

    coordinator_epoch: int = field(INT32, "0+")
