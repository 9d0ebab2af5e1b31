"""Requests that must reach one particular broker, asked again until they do or the time is over.

The retries that admin and consumer share: the controller, a group's coordinator, the leaders of partitions. A broker
that says "not I" or cannot be reached is no failure yet; any other error is the caller's to judge.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerUnreachable, ClientTimeout
from odradek.client.wakeup import sleep_ms
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.fields import Message

Response = TypeVar("Response", bound=Message)

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
"""Groups have a connection of their own, as in Kafka's clients: a fetch that waits does not hold up a heartbeat."""
FETCH_CONNECTION = "fetch"
"""So have fetches: a broker answers one request of a connection after the other, and questions would wait."""


class Deadline:
    """The end of an operation's patience."""

    def __init__(self, cluster: Cluster, timeout_ms: float, what: str, setting_name: str) -> None:
        self._cluster = cluster
        self._end_ms = cluster.clock.monotonic_ms() + timeout_ms
        self._said = f"{what}: not done within {setting_name}={timeout_ms:g}"

    def left_ms(self) -> float:
        """Never below 0."""
        return max(0.0, self._end_ms - self._cluster.clock.monotonic_ms())

    async def pause_after(self, reason: Exception) -> None:
        """Wait for retry.backoff.ms, or raise ClientTimeout with the reason of the last failure."""
        pause_ms = self._cluster.config.retry_backoff_ms
        if self.left_ms() <= pause_ms:
            raise ClientTimeout(f"{self._said}; last: {reason}") from reason
        await sleep_ms(self._cluster.clock, pause_ms)


async def ask_controller(
    cluster: Cluster,
    message: Message,
    response: type[Response],
    errors: Callable[[Response], Iterable[ErrorCode]],
    deadline: Deadline,
) -> Response:
    """Ask the controller; `errors` are those in an answer. Raises ClientTimeout."""

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


async def ask_coordinator(
    cluster: Cluster,
    group_id: str,
    message: Message,
    response: type[Response],
    errors: Callable[[Response], Iterable[ErrorCode]],
    deadline: Deadline,
) -> Response:
    """Ask a group's coordinator. Raises ClientTimeout, KafkaError (GROUP_AUTHORIZATION_FAILED …)."""

    async def coordinator() -> int:
        return await cluster.find_coordinator(group_id)

    while True:
        outcome = await _try(cluster, coordinator, COORDINATOR_CONNECTION, message, response, errors, deadline)
        if not isinstance(outcome, Exception):
            return outcome
        await deadline.pause_after(outcome)


async def _try(
    cluster: Cluster,
    find: Callable[[], Awaitable[int]],
    purpose: str,
    message: Message,
    response: type[Response],
    errors: Callable[[Response], Iterable[ErrorCode]],
    deadline: Deadline,
) -> Response | Exception:
    """Try once; return the answer, or why it may be asked again. Raises KafkaError for the rest."""
    try:
        node_id = await find()
        patience_ms = max(1.0, min(cluster.config.request_timeout_ms, deadline.left_ms()))
        answer = await cluster.request(node_id, message, response, timeout_ms=patience_ms, purpose=purpose)
    except BrokerUnreachable as error:
        return error
    except KafkaError as error:
        if error.code not in ASK_AGAIN:
            raise
        return error
    again = ASK_AGAIN.intersection(errors(answer))
    return KafkaError(min(again), type(answer).__name__.removesuffix("Response")) if again else answer


async def refresh_quietly(cluster: Cluster) -> None:
    """For a loop that asks anyway, and reports what is wrong then."""
    try:
        await cluster.refresh()
    except BrokerUnreachable:
        cluster.needs.stale()
