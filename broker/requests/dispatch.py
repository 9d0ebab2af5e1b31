"""Dispatching a request, from its bytes to its answer: header, decoder, handler, encoder.

For each (API key, version) that has been requested there is one route, in which everything is compiled and looked up:
so the plain path costs one dict lookup and four calls.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from struct import Struct
from types import ModuleType
from typing import Any

from odradek.broker.metrics.request_metrics import FETCH_CONSUMER, FETCH_FOLLOWER, ApiMetrics, RequestMetrics
from odradek.broker.network.boundary import UnsupportedRequestError
from odradek.broker.network.outcomes import Answer, Client, Outcome, Reply, RequestContext, Settled, Silent
from odradek.broker.replication.fetch_sessions import replica_of
from odradek.broker.requests import api_versions
from odradek.protocol.codec import Encoder, decode_limited, decoder, encode_in_steps, encoder
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.headers import api_name, message_classes, request_header_version, response_header_version
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.primitives import Part, skip_tagged_fields
from odradek.protocol.steps import Steps
from odradek.world.clock import Clock
from odradek.world.time_slices import TimeSlice

REQUEST_HEADER = Struct(">Iih")
"""API key and version as one number, correlation id, length of the client id (-1: null)."""
HEADER_START_BYTES = 10
CLIENT_ID_AT = 8
RESPONSE_HEADER = Struct(">ii")
"""Size and correlation id: response header version 0, behind the size of the frame."""
FLEXIBLE_RESPONSE_HEADER = Struct(">iix")
"""Size, correlation id, and no tagged fields: response header version 1, behind the size of the frame."""
LARGE_REQUEST_BYTES = 1 << 20
"""Size from which on the elements of arrays are counted: a request may have a hundred megabytes of empty names."""
ROUTES_MAX = 1 << 12
"""Most routes: more than all APIs of Kafka have versions. A route is made only for what the registry serves."""


@dataclass(slots=True, eq=False)
class Route:
    """Decoder, handler, encoder and metrics of one version of one API, looked up once."""

    version: int
    decode: Any
    decode_large: Any
    """The decoder of requests of more than LARGE_REQUEST_BYTES."""
    handle: Any
    encode: Encoder
    flexible: bool
    """True if the request's header ends with tagged fields."""
    response_header: Struct
    has_client_id: bool
    """False for ControlledShutdown version 0 alone."""
    api: ApiMetrics
    follower: ApiMetrics | None
    """Metrics in which a follower's Fetch counts; None for other APIs."""
    counts_errors: bool
    """True if errors are counted from the codes in the answers; the handlers of Produce and Fetch count their own."""

    def answer(self, correlation_id: int, response: Message) -> list[Part]:
        """Encode the whole frame of a response, its size in front."""
        if self.counts_errors:
            self.api.answered_with(response)
        parts: list[Part] = [b""]
        self.encode(response, parts)
        return self._headed(correlation_id, parts)

    def answer_in_steps(self, correlation_id: int, response: Message) -> Steps[list[Part]]:
        """Encode the whole frame of a response as `answer` does, in steps: it may be about thousands of partitions."""
        if not self.counts_errors:
            return self.answer(correlation_id, response)
        for _ in self.api.count_errors(response):
            yield
        parts: list[Part] = [b""]
        yield from encode_in_steps(response, self.version, parts)
        return self._headed(correlation_id, parts)

    def _headed(self, correlation_id: int, parts: list[Part]) -> list[Part]:
        header = self.response_header
        parts[0] = header.pack(sum(map(len, parts)) + header.size - 4, correlation_id)
        return parts

    def kind_of_fetch(self, request: FetchRequest) -> ApiMetrics:
        """Return the metrics that a Fetch counts in: a follower's or a consumer's."""
        assert self.follower is not None
        return self.follower if replica_of(request)[0] >= 0 else self.api


class RoutedOutcome:
    """An outcome that asks for more than sending an answer now, and how to make the answer when it is known.

    The answer of a handler that is a coroutine may be large, so it is encoded in slices of time.
    """

    __slots__ = ("_correlation_id", "_frame", "_route", "outcome")

    def __init__(self, outcome: Outcome, route: Route, correlation_id: int, clock: Clock) -> None:
        self.outcome = self._encoded(outcome, clock) if isinstance(outcome, Coroutine) else outcome
        self._route = route
        self._correlation_id = correlation_id
        self._frame: list[Part] | None = None

    async def _encoded(self, outcome: Coroutine[Any, Any, Settled], clock: Clock) -> Settled:
        settled = await outcome
        if isinstance(settled, Reply):
            steps = self._route.answer_in_steps(self._correlation_id, settled.response)
            self._frame = await TimeSlice(clock).result(steps)
        return settled

    def answer(self, response: Message | None) -> list[Part]:
        """Return the whole frame of the response, if there is one."""
        if self._frame is not None:
            return self._frame
        return [] if response is None else self._route.answer(self._correlation_id, response)


class Dispatcher:
    """Dispatcher of the requests that reach `broker`: each is handled by the module of its API."""

    def __init__(
        self,
        broker: object,
        modules: Mapping[int, ModuleType],
        clock: Clock,
        guarded: Callable[[Any, int], Any] = lambda handle, key: handle,
        metrics: RequestMetrics | None = None,
        noting: Callable[[Any], Any] = lambda decode: decode,
    ) -> None:
        """`guarded` wraps the handler of an API in what must come before it, `noting` wraps its decoder. Both are
        called once for each route, and again after `forget_routes`."""
        self._broker = broker
        self._modules = modules
        self._clock = clock
        self._guarded = guarded
        self.metrics = RequestMetrics() if metrics is None else metrics
        self._noting = noting
        self._routes: dict[int, Route] = {}

    def dispatch(self, frame: memoryview, client: Client) -> Answer:
        """Handle one request: a frame without its size.

        `frame` belongs to the caller again when this returns. Raises MalformedMessage, UnsupportedRequestError, and
        whatever a bug of ours raises.
        """
        if len(frame) < HEADER_START_BYTES:
            raise MalformedMessage(f"a request of {len(frame)} bytes")
        api, correlation_id, client_id_bytes = REQUEST_HEADER.unpack_from(frame)
        route = self._routes.get(api)
        if route is None:
            route = self._find_route(api)
            if route is None:
                return self._refuse_api_versions(correlation_id, client)
        at = HEADER_START_BYTES + client_id_bytes if client_id_bytes > 0 else HEADER_START_BYTES
        if not route.has_client_id:
            at = CLIENT_ID_AT
        elif at > len(frame):
            raise MalformedMessage(f"client id of {client_id_bytes} bytes in a request of {len(frame)}")
        identity = frame[CLIENT_ID_AT:at]
        if identity != client.identity:
            client.identity = bytes(identity)
            client.contexts.clear()
        context = client.contexts.get(route.version)
        if context is None:
            context = new_context(client, route.version)
        if route.flexible:
            if at == len(frame):
                raise MalformedMessage("a request header without its tag buffer")
            at = skip_tagged_fields(frame, at + 1, frame[at])
        decode = route.decode if len(frame) <= LARGE_REQUEST_BYTES else route.decode_large
        request, _ = decode(frame, at)
        client.api = api_metrics = route.api if route.follower is None else route.kind_of_fetch(request)
        api_metrics.requests[route.version] += 1
        outcome = route.handle(self._broker, request, context)
        kind = type(outcome)
        if kind is Reply and not outcome.throttle_ms and not outcome.close:
            return route.answer(correlation_id, outcome.response)
        if kind is Silent and not outcome.close and not outcome.throttle_ms:
            return None
        return RoutedOutcome(outcome, route, correlation_id, self._clock)

    def forget_routes(self) -> None:
        """Drop all routes, so that the next request of each API asks `guarded` again."""
        self._routes.clear()

    def _find_route(self, api: int) -> Route | None:
        """Make the route of an API and version; None for an ApiVersions request of a version we do not know."""
        key, version = api >> 16, api & 0xFFFF
        module = self._modules.get(key)
        if module is None:
            raise UnsupportedRequestError(f"{api_name(key)} version {version} is not served")
        lowest, highest = module.VERSIONS
        if not lowest <= version <= highest:
            if key == api_versions.REQUEST.API_KEY:
                return None
            what = f"{api_name(key)} version {version}"
            raise UnsupportedRequestError(f"{what} is not served, only {lowest} to {highest}")
        name = module.REQUEST.__name__.removesuffix("Request")
        is_fetch = key == FetchRequest.API_KEY
        flexible_response = response_header_version(key, version) == 1
        assert len(self._routes) < ROUTES_MAX, "more routes than Kafka has versions"
        own_decoder = getattr(module, "decoder", None)
        decode = self._noting((own_decoder or decoder)(module.REQUEST, version))
        route = self._routes[api] = Route(
            version=version,
            decode=decode,
            decode_large=decode if own_decoder else self._noting(partial(decode_limited, module.REQUEST, version)),
            handle=self._guarded(module.handle, key),
            encode=encoder(message_classes(key).response, version),
            flexible=request_header_version(key, version) == 2,
            response_header=FLEXIBLE_RESPONSE_HEADER if flexible_response else RESPONSE_HEADER,
            has_client_id=request_header_version(key, version) > 0,
            api=self.metrics.of_api(FETCH_CONSUMER if is_fetch else name),
            follower=self.metrics.of_api(FETCH_FOLLOWER) if is_fetch else None,
            counts_errors=key not in (FetchRequest.API_KEY, ProduceRequest.API_KEY),
        )
        return route

    def _refuse_api_versions(self, correlation_id: int, client: Client) -> list[Part]:
        """Answer UNSUPPORTED_VERSION in the layout of version 0, whatever was asked (KIP-511)."""
        client.api = self.metrics.of_api("ApiVersions")
        client.api.requests[0] += 1
        parts: list[Part] = [b""]
        response = api_versions.unsupported_version()
        encoder(type(response), 0)(response, parts)
        parts[0] = RESPONSE_HEADER.pack(sum(map(len, parts)) + 4, correlation_id)
        return parts


def new_context(client: Client, version: int) -> RequestContext:
    """Make the context of a client's requests of one version, and remember it. A null client id is empty."""
    client_id = client.identity[2:].decode("utf-8", "text-like-java")
    context = RequestContext(
        version, client_id, client.peer, client.listener, client.principal, client.by_token, client.number
    )
    client.contexts[version] = context
    return context
