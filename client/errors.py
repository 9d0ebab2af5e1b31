# ruff: noqa: N818 - named after what has happened
"""What a client's methods raise. Every message says what failed, where, and what to do about it.

An error that a broker answered is a `KafkaError` with its code (`odradek.protocol.errors`); the classes here are for
what goes wrong on the client's own side. All of them are `ClientError`, so one `except` catches either side's trouble:
`except (KafkaError, ClientError)`.
"""

from collections.abc import Mapping

from odradek.protocol.errors import ErrorCode, KafkaError


def in_words(code: ErrorCode) -> str:
    """`not leader or follower`: for messages."""
    return KafkaError(code).message


class ClientError(Exception):
    """Something went wrong in a client."""


class ConfigError(ClientError, ValueError):
    """A setting is unknown, of the wrong type, or out of its range."""


class BrokerUnreachable(ClientError, OSError):
    """No connection to a broker, or it broke. `address` is `host:port`."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"broker {address}: {reason}")
        self.address = address
        self.reason = reason


class NoBrokerReachable(BrokerUnreachable):
    """None of the brokers that the client knows can be reached. `reasons`: address → why."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        tried = "; ".join(dict.fromkeys(reasons.values()))
        super().__init__(", ".join(reasons), f"not reachable ({tried}). Is the cluster up, is the address right?")


class RequestTimedOut(BrokerUnreachable):
    """A broker did not answer in time; its connection is closed, since what it does about the request is unknown."""


class UnsupportedByBroker(ClientError):
    """The broker and this client have no version of an API in common."""


class ClientTimeout(ClientError, TimeoutError):
    """Waited as long as a setting allows. The message names the setting."""


class ClientClosed(ClientError):
    """The client was closed already."""


class BufferExhausted(ClientTimeout):
    """A producer's buffer.memory stayed full for max.block.ms."""


class RecordTooLarge(ClientError):
    """A record is larger than max.request.size or buffer.memory."""


class DeserializationError(ClientError):
    """A deserializer failed; names topic, partition and offset. `seek` beyond it to go on."""


class CorruptRecords(ClientError):
    """A broker sent records that are damaged; names topic, partition and offset."""

    code = ErrorCode.CORRUPT_MESSAGE


class GroupError(ClientError):
    """Group membership was lost in a way that needs the application's attention."""


class CommitFailed(GroupError):
    """The group has moved on: its partitions belong to others now, so the offsets were not committed."""


class AbortRequired(ClientError):
    """A record or a request of a transaction failed, and with it the transaction: call `abort_transaction()`.

    `reason` is what failed first. After the abort the producer goes on with `begin_transaction()`.
    """

    def __init__(self, transactional_id: str, reason: Exception) -> None:
        super().__init__(
            f"transactional.id {transactional_id}: the transaction has failed, call abort_transaction(): {reason}"
        )
        self.reason = reason


class TransactionAborted(ClientError):
    """A record was not sent: its transaction was aborted before."""


class NoOffsetForPartition(ClientError):
    """auto.offset.reset=none and there is no committed offset, or the position is out of range."""
