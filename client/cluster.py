"""A client's way to a cluster: connections by node, metadata, and coordinators.

All clients share this, on one event loop. It makes no thread, and takes the time from the clock that it was given.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from odradek.client.arguments import TEXT_BYTES_LIMIT
from odradek.client.config import CommonConfig, addresses
from odradek.client.connection import Connection, Link, connect, secured
from odradek.client.errors import BrokerUnreachable, ClientClosed, ConfigError, NoBrokerReachable
from odradek.client.metadata import ClusterView, MetadataNeeds, Node, updated
from odradek.client.metrics import Figures, Metrics, merged
from odradek.client.waiting import NEVER, backoff_ms, sleep_ms
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.fields import Message
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.world.clock import Clock
from odradek.world.network import Network
from odradek.world.tasks import Tasks

logger = logging.getLogger(__name__)

Response = TypeVar("Response", bound=Message)
Shared = TypeVar("Shared")

GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 0, 1
QUESTIONS_CONNECTION = "questions"
"""Purpose of connections for requests that any broker may answer. A broker answers the requests of a connection one
after the other, so these would wait behind a Produce with acks=all, which waits for followers."""
ANOTHER_BROKER_AFTER_MS = 1_000.0
"""Time after which a broker that has not answered may be frozen, so that the next one is asked as well."""
FIRST_BOOTSTRAP_ID = -2
"""Node id of the first bootstrap address, as in Kafka's clients: -3, -4, … follow, until metadata gives real ones."""


class Cluster:
    """One client's connections and metadata. For the loop's thread only, unless a method says otherwise."""

    def __init__(self, network: Network, clock: Clock, random_source: random.Random, config: CommonConfig) -> None:
        self.clock = clock
        self.random = random_source
        self.config = config
        self.metrics = Metrics(clock, config.metrics_num_samples, config.metrics_sample_window_ms)
        self._opened = self.metrics.sensor("", "connection-creation", "rate", "total")
        self.tasks = Tasks(clock, lambda said: None)
        """Runs what several callers may wait for."""
        self.view = ClusterView()
        self.needs = MetadataNeeds(config.metadata_max_age_ms, config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.allow_auto_create = False
        self.refreshed: Callable[[BaseException | None], object] = lambda error: None
        """Called at the end of every refresh, whoever began it, with its error or None."""
        self.lacking: Callable[[], bool] = lambda: False
        """Tells whether the view lacks anything else than wanted topics and leaders of known partitions."""
        self._network = secured(network, clock, config)
        self._bootstrap: list[Node] = []
        self.bootstrap_from(config.bootstrap_servers)
        self._links: dict[tuple[int, str], Link] = {}
        self._refresh: asyncio.Task[None] | None = None
        self._closed = False
        self._unreachable = False
        """True if the last refresh reached no broker; that is logged once, and not at every attempt."""
        self.down: frozenset[int] = frozenset()
        """Nodes that could not be reached the last time. Records without a key avoid partitions that these lead."""
        self._available = (self.view, self.down, dict[str, tuple[int, ...]]())
        self._idle_timer = self._plan_idle_check()

    def bootstrap_from(self, servers: Sequence[str]) -> None:
        """Set the addresses to use while no broker known from metadata can be reached. Raises ConfigError."""
        found = addresses(servers)
        self._bootstrap = [Node(FIRST_BOOTSTRAP_ID - n, host, port) for n, (host, port) in enumerate(found)]

    # -- connections ---------------------------------------------------------------------------------------------------

    async def request(
        self,
        node_id: int,
        message: Message,
        response: type[Response],
        *,
        timeout_ms: float | None = None,
        purpose: str = "",
        highest_version: int | None = None,
    ) -> Response:
        """Ask one node. `timeout_ms` None is request.timeout.ms; each `purpose` has a connection of its own.

        Raises BrokerUnreachable, UnsupportedByBroker.
        """
        connection = await self.connection(node_id, purpose)
        wait_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        return await connection.request(message, response, wait_ms, highest_version=highest_version)

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """Return the connection to a node, opened if needed. Raises BrokerUnreachable, during the backoff after a
        failure at once; ClientClosed."""
        if self._closed:
            raise ClientClosed("the client is closed")
        link = self._links.setdefault((node_id, purpose), Link())
        connection = link.open_connection
        if connection is not None:
            return connection
        if link.attempt is None:
            node = self._node(node_id)
            if self.clock.monotonic_ms() < link.retry_at_ms:
                raise BrokerUnreachable(node.address, link.reason, login_refused=link.login_refused)
            link.attempt = self.tasks.result_of(f"connect to {node.address}", partial(self._open, link, node))
            # Nobody may wait for it any more by then; the link keeps the reason of a failure.
            link.attempt.add_done_callback(lambda attempt: attempt.cancelled() or attempt.exception())
        return await self._shared(link.attempt)

    async def _shared(self, work: "asyncio.Task[Shared]") -> Shared:
        """Wait for a task that others may wait for too. Raises ClientClosed if `close` has cancelled it.

        asyncio.shield would not do: from Python 3.14 on it logs, as an error, what fails after a caller has given up.
        """
        await asyncio.wait([work])
        if self._closed and work.cancelled():
            raise ClientClosed("the client is closed")
        return work.result()

    def ready_in_ms(self, node_id: int, purpose: str = "") -> float:
        """Return in how many milliseconds a node that could not be reached may be tried again; 0 if it may now."""
        link = self._links.get((node_id, purpose))
        return max(0.0, link.retry_at_ms - self.clock.monotonic_ms()) if link is not None else 0.0

    def _node(self, node_id: int) -> Node:
        if node_id in self.view.nodes:
            return self.view.nodes[node_id]
        for node in self._bootstrap:
            if node.node_id == node_id:
                return node
        raise BrokerUnreachable(str(node_id), "the other brokers do not know it: it is down, or does not exist")

    async def _open(self, link: Link, node: Node) -> Connection:
        config = self.config
        try:
            limits = config.setup_timeout_ms(link.failures), config.records_bytes_max
            connection = await connect(
                self._network, self.clock, self.tasks, node.host, node.port, config.client_id, *limits
            )
        except BrokerUnreachable as error:
            link.failures += 1
            link.reason, link.login_refused = error.reason, error.login_refused
            if node.node_id not in self.down and not self._has_connection(node.node_id):
                self.down |= {node.node_id}
                if node.node_id in self.view.nodes:  # bootstrap addresses are reported when none can be reached
                    said = "%s: broker %d, %s, cannot be reached: %s"
                    logger.warning(said, config.client_id, node.node_id, error.address, error.reason)
            pause_ms = backoff_ms(
                config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, link.failures, self.random
            )
            link.retry_at_ms = self.clock.monotonic_ms() + pause_ms
            self.needs.stale()
            raise
        finally:
            link.attempt = None
        if self._closed:
            connection.close()
            raise ClientClosed("the client is closed")
        link.failures, link.retry_at_ms = 0, 0.0
        link.connection = connection
        self._opened.record()
        if node.node_id in self.down:
            self.down -= {node.node_id}
        return connection

    def _plan_idle_check(self) -> Any:
        idle_ms = self.config.connections_max_idle_ms
        return self.clock.call_later(max(idle_ms / 4, 1_000), self._close_idle) if idle_ms >= 0 else None

    def _close_idle(self) -> None:
        limit_ms = self.clock.monotonic_ms() - self.config.connections_max_idle_ms
        for link in self._links.values():
            connection = link.open_connection
            if connection is not None and connection.idle and connection.last_used_ms < limit_ms:
                connection.close("idle for connections.max.idle.ms")
        self._idle_timer = self._plan_idle_check()

    def close(self) -> None:
        """Close every connection. Calling it again does nothing."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._refresh is not None:
            self._refresh.cancel()
        for link in self._links.values():
            if link.attempt is not None:
                link.attempt.cancel()
            if link.connection is not None:
                link.connection.close()

    # -- any broker ----------------------------------------------------------------------------------------------------

    def _candidates(self) -> list[int]:
        """Return all known brokers, the least busy first, in random order where equal; then the bootstrap addresses."""
        known, bootstrap = list(self.view.nodes), [node.node_id for node in self._bootstrap]
        self.random.shuffle(known)
        known.sort(key=self._burden)
        if not known:
            self.random.shuffle(bootstrap)
        elif self.config.metadata_recovery_strategy == "none":
            return known
        return known + bootstrap

    def _burden(self, node_id: int) -> tuple[int, bool, bool]:
        """Rate a node: first by its unanswered requests, then by whether it was unreachable, then by whether a
        connection would have to be opened."""
        link = self._links.get((node_id, QUESTIONS_CONNECTION))
        connection = None if link is None else link.open_connection
        if connection is None:
            return 0, node_id in self.down, True
        return connection.unanswered, False, False

    def _has_connection(self, node_id: int) -> bool:
        """Tell whether any connection to a node is open: such a node is not down, even if it accepts no other."""
        return any(link.open_connection for (known, _), link in self._links.items() if known == node_id)

    def connected(self, node_id: int) -> bool:
        """Tell whether a connection to a node is open."""
        link = self._links.get((node_id, ""))
        return link is not None and link.open_connection is not None

    def free_connection(self, node_id: int) -> Connection | None:
        """Return a connection to a node that is open and idle, whatever its purpose; None if there is none."""
        found = [link.open_connection for (known, _), link in self._links.items() if known == node_id]
        return next((one for one in found if one is not None and one.idle), None)

    @property
    def any_connected(self) -> bool:
        """Tell whether a connection to some broker is open."""
        return any(link.open_connection for link in list(self._links.values()))

    def figures(self, group: str) -> Figures:
        """Return all metrics, with those of the connections in a group such as `producer-metrics`."""
        figures = self.metrics.figures()
        own = figures.pop("")
        own["connection-count"] = sum(link.open_connection is not None for link in list(self._links.values()))
        own["metadata-age"] = max(0.0, self.needs.age_ms(self.clock.monotonic_ms()) / 1000)
        return merged([{group: own}, figures])

    def available_partitions(self, topic: str) -> tuple[int, ...]:
        """Return the partitions whose leader could be reached the last time; if there are none, all with a leader.

        From any thread. Returns the same object until something changes.
        """
        view, down = self.view, self.down
        known = self._available
        if known[0] is not view or known[1] is not down:
            known = self._available = (view, down, {})
        found = known[2].get(topic)
        if found is None:
            info = view.topics.get(topic)
            led = [one for one in info.partitions if one.leader in view.nodes] if info is not None else []
            up = [one for one in led if one.leader not in down]
            found = known[2][topic] = tuple(one.partition for one in up or led)
        return found

    async def request_any(self, message: Message, response: type[Response]) -> Response:
        """Ask one broker, and after a failure or a second without an answer the next one, too; return the first answer.

        For requests that may be sent twice. Raises NoBrokerReachable, which names all brokers and reasons.
        """
        failures: dict[str, str] = {}
        all_refuse_login = True
        left = self._candidates()
        asked: list[asyncio.Task[Response]] = []
        try:
            while left or asked:
                if left:
                    question = partial(self._question, left.pop(0), message, response)
                    asked.append(self.tasks.result_of(type(message).__name__, question))
                await self._first_answer(asked, may_give_up=bool(left))
                for task in [one for one in asked if one.done()]:
                    asked.remove(task)
                    try:
                        return task.result()
                    except BrokerUnreachable as error:
                        failures.setdefault(error.address, error.reason)
                        all_refuse_login &= error.login_refused
            raise NoBrokerReachable(failures, login_refused=all_refuse_login and bool(failures))
        finally:
            for task in asked:
                task.cancel()
                task.add_done_callback(lambda one: one.cancelled() or one.exception())

    async def _question(self, node_id: int, message: Message, response: type[Response]) -> Response:
        answer = await self.request(node_id, message, response, purpose=QUESTIONS_CONNECTION)
        if isinstance(answer, MetadataResponse) and not answer.brokers:  # as Kafka's NetworkClient
            raise BrokerUnreachable(self._node(node_id).address, "it has just started, and was told of no cluster yet")
        return answer

    async def _first_answer(self, asked: "list[asyncio.Task[Response]]", *, may_give_up: bool) -> None:
        """Wait until one has ended, or, if there is another broker to ask, at most ANOTHER_BROKER_AFTER_MS."""
        wait = partial(sleep_ms, self.clock, ANOTHER_BROKER_AFTER_MS)
        patience = [self.tasks.result_of("wait for an answer", wait)] if may_give_up else []
        try:
            await asyncio.wait([*asked, *patience], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for timer in patience:
                timer.cancel()

    # -- metadata ------------------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Ask for the metadata of all wanted topics; several callers share one request. Raises NoBrokerReachable."""
        await self._shared(self._begin_refresh())

    def refresh_when_due(self) -> float:
        """Begin a refresh if it is due; return when to look again, in ms of the monotonic clock (NEVER: at its end)."""
        if self._refresh is not None or not (self.needs.topics or self.needs.all_topics):
            return NEVER
        due_ms = self.needs.next_at_ms()
        if due_ms <= self.clock.monotonic_ms():
            self._begin_refresh()
            return NEVER
        return due_ms

    def _begin_refresh(self) -> "asyncio.Task[None]":
        if self._refresh is None:
            self._refresh = self.tasks.result_of("metadata", self._ask_metadata)
            self._refresh.add_done_callback(self._refresh_ended)
        return self._refresh

    def _refresh_ended(self, task: "asyncio.Task[None]") -> None:
        self._refresh = None
        if not task.cancelled():
            self.refreshed(task.exception())

    async def _ask_metadata(self) -> None:
        self.needs.attempted(self.clock.monotonic_ms())
        everything = self.needs.all_topics
        wanted = self.needs.topics
        try:
            answer = await self.request_any(self._metadata_request(None if everything else wanted), MetadataResponse)
        except BrokerUnreachable as error:
            self.needs.failed()
            if not self._unreachable:
                logger.warning("%s: %s", self.config.client_id, error)
            self._unreachable = True
            raise
        except Exception:
            self.needs.failed()
            raise
        self._unreachable = False
        self.view = updated(self.view, answer, all_topics=everything)
        if everything:  # a wanted topic that is missing was deleted
            complete = not any(info.troubled for info in self.view.topics.values())
        else:
            complete = all(self._has_leaders(topic) for topic in wanted)
        self.needs.answered(self.clock.monotonic_ms(), complete=complete and not self.lacking())

    def _has_leaders(self, topic: str) -> bool:
        """Tell whether a topic exists and each of its partitions has a leader, or no refresh would help at once.

        A topic that is being created has no partitions yet, and the error LEADER_NOT_AVAILABLE. One that is refused has
        no partitions either, but asking again at once does not change that.
        """
        info = self.view.topics.get(topic)
        if info is None or info.troubled:
            return False
        return all(one.leader in self.view.nodes for one in info.partitions)

    def _metadata_request(self, topics: Iterable[str] | None) -> MetadataRequest:
        asked = None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics]
        return MetadataRequest(topics=asked, allow_auto_topic_creation=self.allow_auto_create)

    async def describe(self, topics: Iterable[str] | None) -> tuple[ClusterView, dict[str, ErrorCode]]:
        """Return a fresh view of some or all (None) topics, and the errors of topics. Raises NoBrokerReachable."""
        answer = await self.request_any(self._metadata_request(topics), MetadataResponse)
        errors = {one.name: error_code(one.error_code) for one in answer.topics if one.error_code and one.name}
        fresh = updated(ClusterView(), answer, all_topics=True)
        self.view = updated(self.view, answer)
        return fresh, errors

    # -- coordinators --------------------------------------------------------------------------------------------------

    async def find_coordinator(self, key: str, key_type: int = GROUP_COORDINATOR) -> int:
        """Return the node id of the coordinator of a group, or of a transactional id.

        Raises KafkaError (COORDINATOR_NOT_AVAILABLE …), NoBrokerReachable, ConfigError for a name that is too long.
        """
        if (size := len(key.encode())) > TEXT_BYTES_LIMIT:
            raise ConfigError(f"the name of a group has at most {TEXT_BYTES_LIMIT} bytes, not {size}")
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        answer = await self.request_any(request, FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code:
            kind = "group" if key_type == GROUP_COORDINATOR else "transactional.id"
            message = found.error_message or f"{kind} {key}: its coordinator is not available"
            raise KafkaError(error_code(found.error_code), message)
        if found.node_id not in self.view.nodes:
            nodes = {**self.view.nodes, found.node_id: Node(found.node_id, found.host, found.port)}
            self.view = ClusterView(self.view.cluster_id, self.view.controller_id, nodes, self.view.topics)
        return found.node_id
