"""Faults in the answers of brokers: errors, delays, lost answers, broken connections, answers that a test holds.

A fault stands in the place of the handler of its API. A dispatcher with such handlers is put in while there are faults,
and taken out with the last of them: requests of other APIs, and all when there is no fault, go the plain way.
"""

import asyncio
import difflib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext, Settled, Silent, Wait
from odradek.broker.requests.registry import HANDLERS
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.headers import API_NAMES, message_classes
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.testing.cluster.options import ClusterError
from odradek.testing.cluster.refusals import Aim, can_refuse, merge, refusal, split, topics_field
from odradek.testing.socket_network import SocketNetwork
from odradek.testing.virtual_network import VirtualNetwork
from odradek.world.clock import sleep

FETCH, METADATA = 1, 3
FETCH_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of a Fetch as a whole."""


@dataclass(frozen=True)
class Fault:
    """A fault that was asked for, to be cleared, waited for or released by."""

    number: int
    text: str

    def __str__(self) -> str:
        return self.text


def api_key(name: str) -> int:
    """Return the key of an API by its name. Raises ClusterError with the nearest name."""
    served = {API_NAMES[key].lower(): key for key in HANDLERS}
    key = served.get(str(name).lower())
    if key is None:
        raise ClusterError(f"no API {name!r}{nearest(str(name), [API_NAMES[key] for key in HANDLERS])}")
    return key


def error_named(name: str | int) -> ErrorCode:
    """Return an error by Kafka's name or number. Raises ClusterError with the nearest name."""
    try:
        return ErrorCode(name) if isinstance(name, int) else ErrorCode[name.upper()]
    except (KeyError, ValueError):
        raise ClusterError(f"no error {name!r}{nearest(str(name), [code.name for code in ErrorCode])}") from None


def nearest(name: str, names: Iterable[str]) -> str:
    """Return half a sentence that names what may have been meant; empty when nothing comes near."""
    by_lower = {one.lower(): one for one in names}
    found = difflib.get_close_matches(name.lower(), by_lower, 1, 0.5)
    return f"; did you mean {by_lower[found[0]]}?" if found else ""


class ActiveFault:
    """A fault that waits for its requests. What is done to them is its subclass's."""

    def __init__(self, fault: Fault, key: int, aim: Aim, client: str | None, times: int | None, after: int) -> None:
        self.fault, self.key, self.aim, self.client = fault, key, aim, client
        self.left, self.to_pass = times, after
        """Requests that it may still strike, None without end; and those that it lets through before."""
        self.struck = 0

    @property
    def is_over(self) -> bool:
        """True if the fault has struck as often as it was to."""
        return self.left == 0

    def concerns(self, request: Message, context: RequestContext, services: Services) -> bool:
        """Tell whether it is for this request, apart from how many there were."""
        if self.client is not None and self.client not in (context.client_id, "*"):
            return False
        return (
            self.aim == Aim()
            or split(request, context.api_version, self.aim, services.metadata.names.names_by_id) is not None
        )

    def strike(self) -> bool:
        """Count a request that it is for; whether it strikes this one."""
        if self.to_pass:
            self.to_pass -= 1
            return False
        if self.left is not None:
            self.left -= 1
        self.struck += 1
        return True

    def handle(self, module: Any, services: Services, request: Any, context: RequestContext) -> Outcome:
        """Handle a request in place of its handler."""
        outcome: Outcome = module.handle(services, request, context)
        if isinstance(outcome, Silent):
            return outcome
        return self._later(services, context, begun(services, outcome))

    async def _later(
        self, services: Services, context: RequestContext, answered: Coroutine[Any, Any, Reply | Silent]
    ) -> Reply | Silent:
        outcome = await answered
        return outcome if isinstance(outcome, Silent) else await self.treat(services, context, outcome)

    async def treat(self, services: Services, context: RequestContext, reply: Reply) -> Reply:
        """Return what becomes of the answer, when it is known."""
        raise NotImplementedError

    def end(self) -> None:
        """Let go of what the fault holds back, when it is cleared; most faults hold nothing."""


def begun(services: Services, outcome: Outcome) -> Coroutine[Any, Any, Reply | Silent]:
    """Return the answer of an outcome, which begins now: what it needs of the request is not there later."""
    if isinstance(outcome, Wait):
        answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def respond(response: Message, throttle_ms: int = 0) -> None:
            if not answered.done():
                answered.set_result(Reply(response, throttle_ms))

        operation = outcome.start(respond)
        services.replicas.purgatory.watch(operation, outcome.keys, outcome.timeout_ms)
        return _result(answered)
    if isinstance(outcome, Coroutine):
        return _settled(services, outcome)
    return _same(outcome)


async def _settled(services: Services, outcome: Coroutine[Any, Any, Settled]) -> Reply | Silent:
    return await begun(services, await outcome)


async def _same(outcome: Reply | Silent) -> Reply | Silent:
    return outcome


async def _result(answered: "asyncio.Future[Reply]") -> Reply:
    return await answered


class Refuse(ActiveFault):
    """Answer with an error instead of doing what is asked."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR

    def concerns(self, request: Message, context: RequestContext, services: Services) -> bool:
        if isinstance(request, FetchRequest) and self.aim != Aim() and request.session_id:
            known = services.fetch_sessions.partitions(request.session_id)
            hit = any(self.aim.hits(one.topic, one.index) for one in known)
            return self.client in (None, context.client_id, "*") and (
                hit or super().concerns(request, context, services)
            )
        return super().concerns(request, context, services)

    def handle(self, module: Any, services: Services, request: Any, context: RequestContext) -> Outcome:
        version, names = context.api_version, services.metadata.names.names_by_id
        response = message_classes(self.key).response
        if self.key == FETCH and self.code not in FETCH_SESSION_ERRORS:
            return self._refuse_fetch(services, request, context)
        if self.key == METADATA:
            return super().handle(module, services, request, context)
        if isinstance(request, ProduceRequest) and not request.acks:
            return Silent(close=True)  # its only way to tell of an error
        if self.aim == Aim():
            return Reply(refusal(request, response, version, self.code))
        hit, rest = split(request, version, self.aim, names) or (request, None)
        refused = refusal(hit, response, version, self.code, deep=True)
        if rest is None:
            return Reply(refused)
        return _merged(begun(services, module.handle(services, rest, context)), refused, version)

    async def treat(self, services: Services, context: RequestContext, reply: Reply) -> Reply:
        return reply._replace(response=self._spoiled(cast(MetadataResponse, reply.response)))

    def _refuse_fetch(self, services: Services, request: FetchRequest, context: RequestContext) -> Reply:
        """Refuse all partitions of a session: requests do not name them. After this the fetcher begins a new one."""
        by_id, known = services.metadata.names.names_by_id, services.fetch_sessions.partitions(request.session_id)
        asked = {(one.topic, one.topic_id, one.index) for one in known}
        for topic in request.topics:
            name = topic.topic or by_id.get(topic.topic_id, "")
            asked |= {(name, topic.topic_id, one.partition) for one in topic.partitions}
        topics: dict[tuple[str, bytes], list[PartitionData]] = {}
        for name, topic_id, index in sorted(asked):
            if self.aim.hits(name, index):
                refused = PartitionData(partition_index=index, error_code=self.code, high_watermark=-1)
                topics.setdefault((name, topic_id), []).append(refused)
        answers = [FetchableTopicResponse(topic=t, topic_id=i, partitions=found) for (t, i), found in topics.items()]
        return Reply(FetchResponse(session_id=request.session_id, responses=answers))

    def _spoiled(self, response: MetadataResponse) -> MetadataResponse:
        for topic in response.topics:
            if self.aim.partition is None and self.aim.hits(topic.name, None):
                topic.error_code, topic.partitions = self.code, []
            elif self.aim.hits(topic.name, None):
                for one in topic.partitions:
                    if one.partition_index == self.aim.partition:
                        one.error_code, one.leader_id = self.code, -1
        return response


async def _merged(answered: Coroutine[Any, Any, Reply | Silent], refused: Message, version: int) -> Reply:
    reply = await answered
    assert isinstance(reply, Reply), "who is not answered is not refused"
    merge(reply.response, refused, version)
    return reply


class Delay(ActiveFault):
    """Do what is asked, and answer later."""

    delay_ms = 0.0

    async def treat(self, services: Services, context: RequestContext, reply: Reply) -> Reply:
        await sleep(services.clock, self.delay_ms)
        return reply


class Hold(ActiveFault):
    """Do what is asked, and answer when the test says so."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.released = asyncio.Event()

    async def treat(self, services: Services, context: RequestContext, reply: Reply) -> Reply:
        await self.released.wait()
        return reply

    def end(self) -> None:
        self.released.set()


class DropAnswer(ActiveFault):
    """Do what is asked, and break the connection instead of answering."""

    network: VirtualNetwork | SocketNetwork

    async def treat(self, services: Services, context: RequestContext, reply: Reply) -> Reply:
        self.network.reset_connection(f"broker-{services.identity.broker_id}", context.peer)
        return reply


class DropConnection(ActiveFault):
    """Break the connection instead of doing what is asked."""

    def handle(self, module: Any, services: Services, request: Any, context: RequestContext) -> Outcome:
        return Silent(close=True)


class ProtocolFaults:
    """Faults of one cluster. Everything runs on its loop."""

    def __init__(self, network: VirtualNetwork | SocketNetwork) -> None:
        self._network = network
        self._active: dict[int, ActiveFault] = {}
        self._all: dict[int, ActiveFault] = {}
        self._number = 0
        self.changed: Callable[[Fault, str], object] = lambda fault, client: None
        """Called when one has struck a request of a client id."""
        self.spared: frozenset[str] = frozenset()
        """Hosts whose requests no fault strikes, unless it names them: the brokers, and the test's own."""

    def __bool__(self) -> bool:
        """Tell whether a fault may strike yet."""
        return bool(self._active)

    def add(self, kind: type[ActiveFault], text: str, api: str, aim: Aim, client: str | None, times: int | None,
            after: int, **values: Any) -> Fault:  # fmt: skip
        """Begin one. Raises ClusterError."""
        key = api_key(api)
        if aim.partition is not None and aim.topic is None:
            raise ClusterError(f"partition={aim.partition} of which topic?")
        if kind is Refuse and not can_refuse(message_classes(key).response, HANDLERS[key].VERSIONS[1]):
            raise ClusterError(f"an answer to {API_NAMES[key]} has no place for an error")
        requests = message_classes(key).request
        if aim.topic is not None and not any(topics_field(requests, v) for v in range(HANDLERS[key].VERSIONS[1] + 1)):
            raise ClusterError(f"topic={aim.topic!r}: requests of {API_NAMES[key]} name no topic")
        if after < 0:
            raise ClusterError(f"after={after}: it is the number of requests to let through first, 0 or more")
        if times is not None and times < 1:
            raise ClusterError(f"times={times}: a fault strikes at least once; None: until it is cleared")
        self._number += 1
        fault = Fault(self._number, f"{text} {API_NAMES[key]}")
        active = kind(fault, key, aim, client, times, after)
        for name, value in values.items():
            setattr(active, name, value)
        self._active[fault.number] = self._all[fault.number] = active
        return fault

    def get(self, fault: Fault) -> ActiveFault:
        """Return a fault of this cluster. Raises ClusterError for one of another."""
        if not isinstance(fault, Fault):
            raise ClusterError(f"{fault!r} is no fault: what respond, delay, drop_answer, … have returned is one")
        found = self._all.get(fault.number)
        if found is None or found.fault != fault:  # each cluster counts its own
            raise ClusterError(f"this cluster has no fault {fault.number} ({fault})")
        return found

    def clear(self, fault: Fault | None) -> None:
        """End one, or all; answers that are held go out."""
        for active in list(self._all.values()) if fault is None else [self.get(fault)]:
            active.end()
            self._active.pop(active.fault.number, None)

    def modules(self) -> Mapping[int, ModuleType]:
        """Return the handlers by API, with those of faults in their places."""
        keys = {active.key for active in self._active.values()}
        return {**HANDLERS, **{key: self._module(HANDLERS[key], key) for key in keys}}

    def _module(self, module: Any, key: int) -> ModuleType:
        def handle(services: Services, request: Message, context: RequestContext) -> Outcome:
            active = self._striking(key, services, request, context)
            if active is None:
                return cast(Outcome, module.handle(services, request, context))
            return active.handle(module, services, request, context)

        stands_in = SimpleNamespace(REQUEST=module.REQUEST, VERSIONS=module.VERSIONS, handle=handle)
        return cast(ModuleType, stands_in)

    def _striking(self, key: int, services: Services, request: Message, context: RequestContext) -> ActiveFault | None:
        host = self._network.owner(context.peer)
        for active in list(self._active.values()):
            if active.key != key or (host in self.spared and active.client not in (context.client_id, host)):
                continue
            if active.concerns(request, context, services) and active.strike():
                if active.is_over:
                    del self._active[active.fault.number]
                self.changed(active.fault, context.client_id)
                return active
        return None
