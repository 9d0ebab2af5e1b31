# ruff: noqa: N818 - named after what has happened
"""Errors that a client's methods raise. Every message says what failed, where, and what to do about it.

The root of all is `KafkaError` (`odradek.protocol.errors`). An error in a broker's answer is a KafkaError with its
code; the classes here, all of them `ClientError`, are for failures on the client's own side. `except KafkaError`
catches both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError


def in_words(code: ErrorCode) -> str:
    """Return an error code as words for messages: `not leader or follower`."""
    return KafkaError(code).message


class ClientError(KafkaError):
    """Error on the client's own side.

    `topic`, `partition`, `offset` and `setting` say where, if that is known. `retriable`: the same call may succeed
    later; `fatal`: the client cannot go on; `requires_abort`: the open transaction must be aborted first.
    """

    code = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(
        self,
        message: str = "",
        *,
        topic_partition: TopicPartition | None = None,
        offset: int | None = None,
        setting: str | None = None,
    ) -> None:
        super(KafkaError, self).__init__(message)
        self.message = message
        if topic_partition is not None:
            self.topic, self.partition = topic_partition
        self.offset, self.setting = offset, setting

    def __str__(self) -> str:
        return self.message


class ConfigError(ClientError, ValueError):
    """A setting is unknown, of the wrong type, or out of its range."""


class ClientBroken(ClientError):
    """A fault inside the client has ended its work; `__cause__` is that fault. Close the client and make another."""

    @property
    def fatal(self) -> bool:
        """Return True."""
        return True


class BrokerUnreachable(ClientError, OSError):
    """Failure to connect to a broker, or loss of the connection. `address` is `host:port`."""

    code = ErrorCode.NETWORK_EXCEPTION

    def __init__(self, address: str, reason: str, *, login_refused: bool = False) -> None:
        super().__init__(f"broker {address}: {reason}")
        self.address = address
        self.reason = reason
        self.login_refused = login_refused
        """True if the broker did not accept the login: trying again will not help."""
        if login_refused:
            self.code = ErrorCode.SASL_AUTHENTICATION_FAILED


class NoBrokerReachable(BrokerUnreachable):
    """Failure to reach any of the brokers that the client knows. `reasons`: address → why."""

    def __init__(self, reasons: Mapping[str, str], *, login_refused: bool = False) -> None:
        tried = "; ".join(dict.fromkeys(reasons.values()))
        question = "Is the cluster up, are address and security.protocol right?"
        if login_refused:
            question = "Are sasl.mechanism, user and password right?"
        said = f"not reachable ({tried}). {question}"
        super().__init__(", ".join(reasons), said, login_refused=login_refused)


class RequestTimedOut(BrokerUnreachable):
    """A broker did not answer in time; its connection is closed, since what it does about the request is unknown."""


class UnsupportedByBroker(ClientError):
    """The broker and this client have no version of an API in common."""

    code = ErrorCode.UNSUPPORTED_VERSION


class ClientTimeout(ClientError, TimeoutError):
    """A call has waited as long as a timeout or setting allows. The message names it."""

    code = ErrorCode.REQUEST_TIMED_OUT


class ClientClosed(ClientError):
    """The client was closed already."""


class BufferExhausted(ClientTimeout):
    """A producer's buffer.memory stayed full for max.block.ms."""


class RecordTooLarge(ClientError):
    """A record is larger than max.request.size or buffer.memory."""


class BatchRefused(KafkaError):
    """A broker has refused a whole batch because of some of its records, whose own errors tell why."""

    def __init__(self, code: ErrorCode, message: str, where: TopicPartition, reasons: Mapping[int, str]) -> None:
        """Take the batch's error, its partition, and the reasons by place in the batch. The code of one record's error
        is that of the batch; of several it is not known which have that one (KIP-467)."""
        super().__init__(code, message)
        own = code if len(reasons) == 1 else ErrorCode.INVALID_RECORD
        self._errors = {index: KafkaError(own, f"{where}: {reason}") for index, reason in reasons.items()}
        said = f"{where}: the record was not written, as its batch has records that the broker refuses: {message}"
        self._of_others = ClientError(said)

    def of_record(self, index: int) -> KafkaError:
        """Return the error of the record at this place in the batch; of one without fault it is a ClientError."""
        return self._errors.get(index, self._of_others)


def of_record(error: Exception, index: int) -> Exception:
    """Return the error of one record of a batch that has failed with `error`."""
    return error.of_record(index) if isinstance(error, BatchRefused) else error


class UnreadableRecords(ClientError):
    """Records cannot be handed out; `topic`, `partition` and `offset` say which.

    Each poll raises it again. To go on without them, `seek` to `next_offset`, which is None where it is not known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        topic_partition: TopicPartition | None = None,
        offset: int | None = None,
        next_offset: int | None = None,
    ) -> None:
        super().__init__(message, topic_partition=topic_partition, offset=offset)
        self.next_offset = next_offset
        """Offset behind these records; None if it is not known, as when the offsets of a batch are damaged, too."""


class DeserializationError(UnreadableRecords):
    """A deserializer failed. The next poll calls it again: what it needs may be back by then."""


class CorruptRecords(UnreadableRecords):
    """A broker sent records that are damaged. Each poll raises it, as with Java's consumer, until a `seek`.

    A `seek` to the present position fetches from the broker again, whose log may have been repaired by then.
    """

    code = ErrorCode.CORRUPT_MESSAGE

    @property
    def retriable(self) -> bool:
        """Return False: asking again brings the same bytes."""
        return False


class GroupError(ClientError):
    """Group membership was lost in a way that needs the application's attention."""


class CommitFailed(GroupError):
    """The group has moved on: the member's partitions belong to others now, so the offsets were not committed."""


class RebalanceInProgress(GroupError):
    """The group is being rebalanced, so the offsets were not committed: poll until that is over, then commit again.

    This member may keep its partitions: under the cooperative protocol most stay where they are.
    """

    code = ErrorCode.REBALANCE_IN_PROGRESS

    @property
    def retriable(self) -> bool:
        """Return True: the commit may succeed after some polls."""
        return True


class AbortRequired(ClientError):
    """A record or a request of a transaction failed, and with it the transaction: call `abort_transaction()`.

    `reason` is the first failure. After the abort the producer goes on with `begin_transaction()`.
    """

    def __init__(self, transactional_id: str, reason: Exception) -> None:
        super().__init__(
            f"transactional.id {transactional_id}: the transaction has failed, call abort_transaction(): {reason}"
        )
        self.reason = reason

    @property
    def requires_abort(self) -> bool:
        """Return True."""
        return True


class TransactionAborted(ClientError):
    """A record was not sent, because its transaction was aborted, or had failed, before."""


class LogTruncated(ClientError):
    """Records that were read are no longer in the log: a replica without them has become the leader (KIP-320).

    Raised with auto.offset.reset=none; otherwise the consumer goes on at `diverging_offset` by itself, and logs that.
    `offset` is the position; records read from `diverging_offset` on are lost, or have changed. `seek` to go on.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, diverging_offset: int) -> None:
        """Take the position in a partition, and the offset from which on the leader's log differs."""
        super().__init__(
            f"{topic_partition}: read up to {offset}, but the leader's log differs from {diverging_offset} on: "
            "records were lost in an unclean election; seek to go on",
            topic_partition=topic_partition,
            offset=offset,
        )
        self.diverging_offset = diverging_offset


class NoOffsetForPartition(ClientError):
    """No offset is committed, or the position is out of range, and auto.offset.reset is none.

    `topic` and `partition` say where: `seek` there to go on.
    """


class QueueFull(ClientError):
    """The queue of an original Producer with producer.type=async had no room within queue.enqueue.timeout.ms."""


class FailedToSendMessage(ClientError):
    """Messages of an original Producer were not acknowledged. `failures` has them, each with its error."""

    def __init__(self, failures: Sequence[tuple[Any, Exception]]) -> None:
        """Take the messages, each with its error."""
        (first, error), count = failures[0], len(failures)
        super().__init__(f"{count} message(s) not sent; the first, to topic {first.topic}: {error}")
        self.failures = list(failures)
