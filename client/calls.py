"""Requests that only one particular broker can answer, repeated until it has, or the time is over.

The retries that admin client and consumer share, for the controller, a coordinator, the leaders of partitions. A broker
that answers that it is not the right one, or cannot be reached, is no failure yet; the caller judges any other error.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from odradek.client.arguments import duration
from odradek.client.cluster import GROUP_COORDINATOR, Cluster
from odradek.client.errors import BrokerUnreachable, ClientError, ClientTimeout, RequestTimedOut
from odradek.client.metadata import ClusterView
from odradek.client.records import TopicPartition
from odradek.client.waiting import sleep_ms
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError, error_code
from odradek.protocol.fields import Message

Response = TypeVar("Response", bound=Message)
Value = TypeVar("Value")
Result = TypeVar("Result")

ASK_AGAIN = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)


COORDINATOR_CONNECTION = "coordinator"
"""Purpose of a group's own connection, as in Kafka's clients: a fetch that waits does not hold up a heartbeat."""
FETCH_CONNECTION = "fetch"
"""Purpose of the connection for fetches: a broker answers one request after the other, so others would wait behind."""
GRACE_MS = 100.0
"""Time that an operation gets beyond its timeout, so that its own error, which says what it waited for, comes first."""


async def within(
    cluster: Cluster,
    name: str,
    work: Coroutine[Any, Any, Result],
    timeout_ms: float | None,
    too_late: Callable[[], ClientError],
) -> Result:
    """Wait for `work`, at most `timeout_ms` of the client's clock (None: no limit); then raise `too_late()`.

    When the wait ends early, `work` is cancelled. A caller that is cancelled just as the time runs out gets
    CancelledError all the same. `name` is that of the task.
    """
    caller = asyncio.current_task()
    assert caller is not None
    cancelled_before = caller.cancelling()
    task = cluster.tasks.result_of(name, lambda: work)
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()

    timer = None if timeout_ms is None else cluster.clock.call_later(timeout_ms, expire)
    try:
        return await task
    except asyncio.CancelledError:
        if not expired or caller.cancelling() > cancelled_before:
            raise
        raise too_late() from None
    finally:
        task.cancel()
        if timer is not None:
            timer.cancel()


class Deadline:
    """Time limit of one operation. `what` and `setting_name` name the operation and its limit in errors."""

    def __init__(self, cluster: Cluster, timeout_ms: float, what: str, setting_name: str) -> None:
        self._cluster = cluster
        timeout_ms = duration(timeout_ms)
        self._end_ms = cluster.clock.monotonic_ms() + timeout_ms
        self._what, self._setting_name = what, setting_name
        self._said = f"{what}: not done within {setting_name}={timeout_ms:g}"

    def left_ms(self) -> float:
        """Return how much time is left; never below 0."""
        return max(0.0, self._end_ms - self._cluster.clock.monotonic_ms())

    async def pause_after(self, reason: Exception) -> None:
        """Wait for retry.backoff.ms. Raises ClientTimeout, with `reason`, the last failure, if no more time is left."""
        pause_ms = self._cluster.config.retry_backoff_ms
        if self.left_ms() <= pause_ms:
            raise ClientTimeout(f"{self._said}; last: {reason}") from reason
        await sleep_ms(self._cluster.clock, pause_ms)

    async def bound(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of `work`, the whole operation, connecting and waiting for requests of others included.

        Raises ClientTimeout when the time is over, and what `work` raises.
        """
        return await within(self._cluster, self._what, work, self.left_ms() + GRACE_MS, self._too_late)

    def _too_late(self) -> ClientTimeout:
        return ClientTimeout(self._said, setting=self._setting_name)


async def side_by_side(calls: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run coroutines at the same time, so that a slow one does not hold up the others; return their results in order.

    When all have ended, raises the first exception, in that order, if there was any.
    """
    ended = await asyncio.gather(*calls, return_exceptions=True)
    for one in ended:
        if isinstance(one, BaseException):
            raise one
    return [one for one in ended if not isinstance(one, BaseException)]


async def ask_controller(
    cluster: Cluster,
    message: Message,
    response: type[Response],
    errors: Callable[[Response], Iterable[ErrorCode]],
    deadline: Deadline,
) -> Response:
    """Ask the controller; `errors(answer)` returns the errors in an answer. Raises ClientTimeout, KafkaError."""

    async def controller() -> int:
        if cluster.view.controller_id not in cluster.view.nodes:
            await cluster.refresh()
        if cluster.view.controller_id not in cluster.view.nodes:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
        return cluster.view.controller_id

    while True:
        outcome = await _try(cluster, controller, "", message, response, errors, deadline)
        if not isinstance(outcome, Exception):
            return outcome
        await deadline.pause_after(outcome)
        await refresh_quietly(cluster)


class Member(Protocol):
    """Member of a group, which knows the coordinator with which it has joined."""

    async def coordinator(self) -> int:
        """Return the node id of the coordinator, looked up if need be. Raises KafkaError, BrokerUnreachable."""
        ...

    def coordinator_answered(self) -> None:
        """Note that the coordinator has answered a request."""
        ...

    def coordinator_failed(self, reason: Exception) -> None:
        """Have the coordinator looked up before the next request, if `reason` means that it may be another broker."""
        ...


async def ask_coordinator(
    cluster: Cluster,
    group_id: str,
    message: Message,
    response: type[Response],
    errors: Callable[[Response], Iterable[ErrorCode]],
    deadline: Deadline,
    *,
    key_type: int = GROUP_COORDINATOR,
    coordinator_id: int | None = None,
    member: Member | None = None,
) -> Response:
    """Ask the coordinator of a group, or of a transactional id (`key_type`).

    `coordinator_id` is the coordinator's node id, if known. A `member` asks the one with which it has joined: a broker
    that was cut off may still take itself for the coordinator, others may still name it, and its offsets are old.

    Raises ClientTimeout, KafkaError (GROUP_AUTHORIZATION_FAILED …).
    """

    async def coordinator() -> int:
        if member is not None:
            return await member.coordinator()
        if coordinator_id is None:
            return await cluster.find_coordinator(group_id, key_type)
        if coordinator_id not in cluster.view.nodes:
            await cluster.refresh()
        return coordinator_id

    while True:
        outcome = await _try(cluster, coordinator, COORDINATOR_CONNECTION, message, response, errors, deadline)
        if not isinstance(outcome, Exception):
            if member is not None:
                member.coordinator_answered()
            return outcome
        if member is not None and deadline.left_ms():  # otherwise the time was up, which says nothing about it
            member.coordinator_failed(outcome)
        await deadline.pause_after(outcome)


async def ask_broker(
    cluster: Cluster, node_id: int, message: Message, response: type[Response], deadline: Deadline
) -> Response:
    """Ask one broker about what it coordinates, again while it is loading. Raises BrokerUnreachable, ClientTimeout."""
    while True:
        answer = await cluster.request(node_id, message, response)
        error = error_code(answer.error_code)  # type: ignore[attr-defined]
        if error not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            return answer
        await deadline.pause_after(KafkaError(error, f"broker {node_id}"))


async def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    request: Callable[[Sequence[TopicPartition]], Message],
    response: type[Response],
    read: Callable[[Response], Mapping[TopicPartition, tuple[int, Value]]],
    deadline: Deadline,
    *,
    broker_id: int | None = None,
) -> dict[TopicPartition, Value]:
    """Ask the leader of each partition, or `broker_id` for all of them; return the values by partition.

    `request` makes the request for some partitions, `read` returns error code and value by partition. Raises KafkaError
    for an error that is not retriable; other errors end with ClientTimeout.
    """
    found: dict[TopicPartition, Value] = {}
    wanted = list(partitions)
    with cluster.needs.wanting(tp.topic for tp in wanted):
        if any(cluster.view.leader_of(tp) is None for tp in wanted) or broker_id not in (None, *cluster.view.nodes):
            await refresh_quietly(cluster)
        while True:
            left = [tp for tp in wanted if tp not in found]
            failure = await _ask_each(cluster, left, request, response, read, found, broker_id)
            if failure is None:
                return found
            cluster.needs.stale()
            await deadline.pause_after(failure)
            await refresh_quietly(cluster)


def no_leader(view: ClusterView, topic_partition: TopicPartition) -> KafkaError:
    """Return why no leader can be asked about a partition; the error is retriable unless the topic is refused."""
    topic = view.topics.get(topic_partition.topic)
    if topic is not None and topic.error and topic.error not in RETRIABLE:
        return KafkaError(topic.error, f"topic {topic_partition.topic}")
    count = view.partition_count(topic_partition.topic)
    if not count:
        said = "the topic is not known"
    elif topic_partition.partition >= count:
        said = f"the topic has only {count} partitions"
    else:
        said = "the partition has no leader"
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition}: {said}")


async def _ask_each(
    cluster: Cluster,
    wanted: Sequence[TopicPartition],
    request: Callable[[Sequence[TopicPartition]], Message],
    response: type[Response],
    read: Callable[[Response], Mapping[TopicPartition, tuple[int, Value]]],
    found: dict[TopicPartition, Value],
    broker_id: int | None,
) -> Exception | None:
    """Ask all nodes once, at the same time, since one may be frozen; return an error after which to ask again, if any.

    Raises KafkaError for an error that is not retriable, once all have answered.
    """
    again: Exception | None = None
    refused: KafkaError | None = None
    asked = set(wanted)
    by_node: dict[int, list[TopicPartition]] = {}
    for tp in wanted:
        node = cluster.view.leader_of(tp) if broker_id is None else broker_id
        if node is None:
            failure = no_leader(cluster.view, tp)
            again, refused = (failure, refused) if failure.retriable else (again, refused or failure)
        else:
            by_node.setdefault(node, []).append(tp)
    calls = [_ask_node(cluster, node, request(some), response) for node, some in by_node.items()]
    for answer, unreachable in await side_by_side(calls):
        again = unreachable or again
        for tp, (code, value) in read(answer).items() if answer is not None else ():
            error_ = error_code(code)
            if tp not in asked:
                continue
            if error_ == ErrorCode.NONE:
                found[tp] = value
            elif error_ in RETRIABLE and broker_id is None:
                again = KafkaError(error_, str(tp))
            else:
                refused = refused or KafkaError(error_, str(tp))
    if refused is not None:
        raise refused
    silent = asked.difference(found) if again is None else ()
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{min(silent)}: the answer lacks it") if silent else again


async def _ask_node(
    cluster: Cluster, node_id: int, message: Message, response: type[Response]
) -> tuple[Response | None, BrokerUnreachable | None]:
    """Return a node's answer, or why there is none."""
    try:
        return await cluster.request(node_id, message, response), None
    except BrokerUnreachable as error:
        return None, error


async def _try(
    cluster: Cluster,
    find: Callable[[], Awaitable[int]],
    purpose: str,
    message: Message,
    response: type[Response],
    errors: Callable[[Response], Iterable[ErrorCode]],
    deadline: Deadline,
) -> Response | Exception:
    """Try once; return the answer, or an error after which to ask again. Raises KafkaError for all others."""
    try:
        answer = await _ask(cluster, await find(), message, response, deadline, purpose)
    except BrokerUnreachable as error:
        return error
    except KafkaError as error:
        if error.code not in ASK_AGAIN:
            raise
        return error
    again = ASK_AGAIN.intersection(errors(answer))
    return KafkaError(min(again), type(answer).__name__.removesuffix("Response")) if again else answer


async def _ask(
    cluster: Cluster, node_id: int, message: Message, response: type[Response], deadline: Deadline, purpose: str
) -> Response:
    """Ask one broker until the deadline. Unless it is a coordinator's, the connection is closed then, as Java's admin
    client does: on it the next request would wait behind this one, whose answer a controller may hold back."""
    if purpose == COORDINATOR_CONNECTION:
        return await ask_until(cluster, node_id, message, response, deadline, purpose)
    patience_ms = max(1.0, min(cluster.config.request_timeout_ms, deadline.left_ms()))
    return await cluster.request(node_id, message, response, timeout_ms=patience_ms, purpose=purpose)


async def ask_until(
    cluster: Cluster, node_id: int, message: Message, response: type[Response], deadline: Deadline, purpose: str
) -> Response:
    """Ask one broker, and wait for its answer until the deadline.

    Raises BrokerUnreachable, and RequestTimedOut at the deadline; unlike elsewhere the connection then stays open, as
    a heartbeat, or a JoinGroup, may be waiting on it.
    """
    left_ms = max(1.0, deadline.left_ms())
    said = f"no answer to {type(message).__name__} within {left_ms:.0f} ms"
    node = cluster.view.nodes.get(node_id)
    question = cluster.request(node_id, message, response, purpose=purpose)
    too_late = RequestTimedOut(node.address if node is not None else str(node_id), said)
    return await within(cluster, type(message).__name__, question, left_ms, lambda: too_late)


async def refresh_quietly(cluster: Cluster) -> None:
    """Refresh the metadata, and ignore a failure: the caller's loop asks again, and reports then what is wrong."""
    try:
        await cluster.refresh()
    except BrokerUnreachable:
        cluster.needs.stale()
