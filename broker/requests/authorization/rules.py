"""The kinds of authorization rules, which the table of APIs (table.py) is made of.

A rule stands between the dispatcher and the handler of an API. It refuses the request, or takes out of it what is not
allowed and puts a refusal for that into the answer, or takes out of the answer what may not be seen. Rules of one API
follow each other: `go_on` calls the next one, and in the end the handler.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext, Respond, Settled, Silent
from odradek.broker.security.acls import CLUSTER_NAME, AclOperation
from odradek.broker.security.authorizer import Rights
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.zk_schema.znodes.acls import ResourceType

T = TypeVar("T")

DENIED: Final[dict[ResourceType, ErrorCode]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


def denied_text(error: ErrorCode) -> str:
    """Return what Kafka says of a refusal where it says more than its code (Errors.message)."""
    what = error.name.removesuffix("_AUTHORIZATION_FAILED").capitalize().replace("_id", " Id")
    return f"{what} authorization failed."


@dataclass(slots=True)
class Asked:
    """A request on its way to its handler."""

    broker: Services
    request: Any
    context: RequestContext
    rights: Rights


GoOn = Callable[[], Outcome]
Refusal = Callable[[Any, ErrorCode, int], Message | None]
"""Makes the answer to a whole request, of the request, an error and the version; None: the connection is closed."""


class Rule(Protocol):
    """A step on the way to the handler."""

    @property
    def text(self) -> str:
        """The rule in words, for the documentation: operation, resource, what happens otherwise."""

    def __call__(self, asked: Asked, go_on: GoOn) -> Outcome: ...


def answered(outcome: Outcome, change: Callable[[Any], None], *, failed: bool = False) -> Outcome:
    """Change the response before it is sent, now or later. `failed`: the change tells of an error. Where there is no
    answer, the sender learns of it by the end of its connection."""
    if isinstance(outcome, tuple):  # is quicker than to ask whether it is a Coroutine
        return _changed(outcome, change, failed)
    return _later(outcome, change, failed)


def _changed(outcome: Settled, change: Callable[[Any], None], failed: bool) -> Settled:
    if isinstance(outcome, Reply):
        change(outcome.response)
        return outcome
    if isinstance(outcome, Silent):
        return Silent(close=True) if failed else outcome
    start = outcome.start

    def start_changed(respond: Respond) -> Any:
        def changed(response: Message, throttle_ms: int = 0) -> None:
            change(response)
            respond(response, throttle_ms)

        return start(changed)

    return outcome._replace(start=start_changed)


async def _later(outcome: Coroutine[Any, Any, Settled], change: Callable[[Any], None], failed: bool) -> Settled:
    return _changed(await outcome, change, failed)


def refused(asked: Asked, refusal: Refusal, error: ErrorCode) -> Outcome:
    """Answer a whole request with an error."""
    response = refusal(asked.request, error, asked.context.api_version)
    return Silent(close=True) if response is None else Reply(response)


@dataclass(frozen=True)
class Whole:
    """The request is about one resource: all or nothing."""

    operation: AclOperation
    resource: ResourceType
    refusal: Refusal
    name: Callable[[Any], str] = lambda request: CLUSTER_NAME
    unless: AclOperation | None = None
    """Operation on the cluster that is enough without `operation`."""
    on_controller: bool = False
    """True if a broker that is not the controller answers NOT_CONTROLLER, whoever asks."""

    @property
    def text(self) -> str:
        other = f" (or {self.unless.name})" if self.unless is not None else ""
        return f"{self.operation.name}{other} on the {self.resource.value}, else {DENIED[self.resource].name}"

    def __call__(self, asked: Asked, go_on: GoOn) -> Outcome:
        if self.on_controller and not asked.broker.controller.is_active:
            return go_on()
        if self.unless is not None and asked.rights.may_with_cluster(self.unless, quietly=True):
            return go_on()
        if asked.rights.may(self.operation, self.resource, self.name(asked.request)):
            return go_on()
        return refused(asked, self.refusal, DENIED[self.resource])


@dataclass(frozen=True)
class Each:
    """The request is about several resources: those that are allowed are handled, the others refused."""

    operation: AclOperation
    resource: ResourceType
    refusal: Callable[[Any, ErrorCode], Any]
    """Makes the answer to one item."""
    items: str = "topics"
    """Attribute of the request that holds them."""
    answers: str = "topics"
    """Attribute of the response that holds theirs."""
    name: Callable[[Any], str] = lambda item: item.name
    unless: AclOperation | None = None
    """An operation on the cluster that is enough for all."""
    on_controller: bool = False
    judges: Callable[[str], bool] = lambda name: True
    """Tells which names to ask the authorizer for; the handler has an answer of its own to the others."""

    @property
    def text(self) -> str:
        other = f" (or {self.unless.name} on the Cluster)" if self.unless is not None else ""
        return f"{self.operation.name} on each {self.resource.value}{other}, else {DENIED[self.resource].name} for it"

    def __call__(self, asked: Asked, go_on: GoOn) -> Outcome:
        items = getattr(asked.request, self.items)
        if not items or (self.on_controller and not asked.broker.controller.is_active):
            return go_on()
        if self.unless is not None and asked.rights.may_with_cluster(self.unless, quietly=True):
            return go_on()
        judged = (name for name in map(self.name, items) if self.judges(name))
        allowed = asked.rights.allowed(self.operation, self.resource, judged)
        taken, left = split(items, lambda item: self.name(item) in allowed or not self.judges(self.name(item)))
        if not left:
            return go_on()
        setattr(asked.request, self.items, taken)
        answers = [self.refusal(item, DENIED[self.resource]) for item in left]
        return answered(go_on(), lambda response: self._add(response, answers), failed=True)

    def _add(self, response: Any, answers: Sequence[Any]) -> None:
        if not getattr(response, "error_code", 0):  # which then speaks for all
            setattr(response, self.answers, [*getattr(response, self.answers), *answers])


@dataclass(frozen=True)
class Shown:
    """The answer lists resources: those that the principal may not see are left out, without a word."""

    operation: AclOperation
    resource: ResourceType
    answers: str
    name: Callable[[Any], str]
    unless: AclOperation | None = None
    """An operation on the cluster that shows all."""

    @property
    def text(self) -> str:
        other = f" (or {self.unless.name} on the Cluster)" if self.unless is not None else ""
        return f"{self.operation.name} on each {self.resource.value}{other}, else it is not shown"

    def __call__(self, asked: Asked, go_on: GoOn) -> Outcome:
        if self.unless is not None and asked.rights.may_with_cluster(self.unless, quietly=True):
            return go_on()

        def hide(response: Any) -> None:
            items = getattr(response, self.answers)
            seen = asked.rights.allowed(self.operation, self.resource, map(self.name, items), quietly=True)
            setattr(response, self.answers, [item for item in items if self.name(item) in seen])

        return answered(go_on(), hide)


@dataclass(frozen=True)
class Special:
    """A rule that is like no other one: a function, and its sentence."""

    text: str
    apply: Callable[[Asked, GoOn], Outcome]

    def __call__(self, asked: Asked, go_on: GoOn) -> Outcome:
        return self.apply(asked, go_on)


def split(items: Iterable[T], wanted: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """Separate the items that are wanted from the others."""
    taken: list[T] = []
    left: list[T] = []
    for item in items:
        (taken if wanted(item) else left).append(item)
    return taken, left
