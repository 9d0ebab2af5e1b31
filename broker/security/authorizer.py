"""The authorizer (Kafka's AclAuthorizer): the access lists in ZooKeeper, a copy of them that is kept current, and a log
of what was asked.

The audit log is Kafka's: logger `kafka.authorizer.logger`, a line for each question, INFO for what is denied and DEBUG
for what is allowed; what was asked on the broker's own account (filters of lists, authorized operations) is TRACE.
"""

import asyncio
import ipaddress
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from odradek.broker.security.acl_rules import AclRules
from odradek.broker.security.acl_store import CHANGES, Acls, AclStore, TooManyAttempts
from odradek.broker.security.acls import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    Acl,
    AclBinding,
    AclFilter,
    AclOperation,
    bits,
)
from odradek.broker.security.principal import KafkaPrincipal
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.world.clock import Clock
from odradek.world.tasks import Tasks
from odradek.zk_schema.change_nodes import ChangeFollower, read_each
from odradek.zk_schema.lost_answers import in_any_session
from odradek.zk_schema.store import Store, StoreError, is_znode_name
from odradek.zk_schema.znodes.acls import (
    ResourcePattern,
    ResourceType,
)
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)
audit = logging.getLogger("kafka.authorizer.logger")

TRACE: Final = 5


class AclAuthorizer:
    """Answers who may do what; changes the lists. Loop-thread only."""

    def __init__(self, store: Store, clock: Clock, tasks: Tasks, rules: AclRules) -> None:
        self._store = AclStore(store, clock)
        self._rules = rules
        self._in_turn = asyncio.Lock()
        """The copy is brought up to date by one at a time, so that nothing older comes last."""
        self._follower = ChangeFollower(store, tasks, CHANGES, self._load, self._read_changed, "access lists")

    async def start(self) -> None:
        """Read all lists, then follow their changes. Raises BadZnode for a list that cannot be understood: nobody knows
        whom it denies something."""
        await in_any_session(self._store.zookeeper, self._store.create_paths)
        for error in await self._follower.start():
            raise error

    # ---- questions

    def authorize(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        request: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
        references: int = 1,
    ) -> bool:
        """Answer, and write it into the audit log with the `request`, which names the resource `references` times."""
        allowed = self._rules.authorize(principal, host, operation, resource_type, name)
        if allowed:
            level = logging.DEBUG if log_if_allowed else TRACE
        else:
            level = logging.INFO if log_if_denied else TRACE
        if audit.isEnabledFor(level):
            audit.log(
                level, _AUDIT_LINE, printable(str(principal)), "Allowed" if allowed else "Denied", operation.word, host,
                resource_type.value, printable(name), request, references,
            )  # fmt: skip
        return allowed

    def authorize_by_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType, request: str
    ) -> bool:
        """Answer whether there may be any resource of that type with which they may do that (KIP-679)."""
        allowed = self._rules.authorize_by_type(principal, host, operation, resource_type)
        level = logging.DEBUG if allowed else logging.INFO
        if audit.isEnabledFor(level):
            audit.log(
                level, _AUDIT_LINE, printable(str(principal)), "Allowed" if allowed else "Denied", operation.word, host,
                resource_type.value, "any", request, 0,
            )  # fmt: skip
        return allowed

    def bindings(self, wanted: AclFilter) -> list[AclBinding]:
        """List what a filter takes in, as this broker knows it."""
        return self._rules.bindings(wanted)

    # ---- changes

    async def create(self, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        """Add lines, those of one resource together; return for each None, or why it could not be added."""
        errors: list[KafkaError | None] = [_fault(binding) for binding in bindings]
        by_pattern: dict[ResourcePattern, list[int]] = {}
        for at, binding in enumerate(bindings):
            if errors[at] is None:
                by_pattern.setdefault(binding.pattern, []).append(at)
        for pattern, places in by_pattern.items():
            added = {bindings[at].acl for at in places}
            error = await self._update(pattern, added, set())
            for at in places:
                errors[at] = error
        return errors

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[tuple[AclBinding, KafkaError | None]]]:
        """Remove the lines that filters take in; return for each filter what was removed, or could not be and why. A
        line that several filters take in is returned with the first."""
        patterns = {one for wanted in filters for one in wanted.definite_patterns()}
        patterns.update(binding.pattern for wanted in filters for binding in self._rules.bindings(wanted))
        results: list[list[tuple[AclBinding, KafkaError | None]]] = [[] for _ in filters]
        for pattern in patterns:
            asked = [at for at, wanted in enumerate(filters) if wanted.matches_pattern(pattern)]
            if not asked:
                continue
            removed: set[Acl] = set()
            error = await self._update(pattern, set(), removed, [filters[at] for at in asked])
            for acl in removed:
                first = next(at for at in asked if filters[at].matches_acl(acl))
                results[first].append((AclBinding(pattern, acl), error))
        return results

    async def _update(
        self, pattern: ResourcePattern, added: set[Acl], removed: set[Acl], filters: Sequence[AclFilter] = ()
    ) -> KafkaError | None:
        """Change one list; `removed` gets what the filters have found in it."""

        def change(before: Acls) -> Acls:
            removed.update(acl for acl in before if any(wanted.matches_acl(acl) for wanted in filters))
            return (before | added) - removed

        try:
            async with self._in_turn:
                self._rules.set_list(pattern, await self._store.update(pattern, change))
        except (StoreError, BadZnode, TooManyAttempts) as error:
            log.error("an access list cannot be updated: %s", error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        return None

    # ---- the copy

    async def _load(self) -> list[BadZnode]:
        """Read everything; the lists that cannot be understood stay as they were, and are answered."""
        async with self._in_turn:
            patterns = await self._store.all_patterns()
            for gone in self._rules.patterns - set(patterns):
                self._rules.set_list(gone, frozenset())
            errors = await self._read(patterns)
        log.info("%d access lists", len(patterns))
        return errors

    async def _read_changed(self) -> None:
        async with self._in_turn:
            await self._read(await self._store.changed())

    async def _read(self, patterns: Sequence[ResourcePattern]) -> list[BadZnode]:
        errors = []
        async for pattern, found in read_each(patterns, self._store.read_or_fault):
            if isinstance(found, BadZnode):
                log.error("an access list keeps its last state, the one in ZooKeeper cannot be parsed: %s", found)
                errors.append(found)
            else:
                self._rules.set_list(pattern, found.acls)
        return errors


_AUDIT_LINE: Final = (
    "Principal = %s is %s Operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
    "with resourceRefCount = %d"
)


def _fault(binding: AclBinding) -> KafkaError | None:
    """Find what makes a line one that cannot be kept."""
    if not is_znode_name(binding.pattern.name):
        return KafkaError(ErrorCode.INVALID_REQUEST, "Failed to create ACL: invalid resource name")
    try:
        KafkaPrincipal.parse(binding.acl.principal)
    except ValueError as error:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"Failed to create ACL: {error}")
    return None


def printable(text: str) -> str:
    """Keep a name that a client has chosen from looking like another line of the log."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


@lru_cache(maxsize=4096)
def host_of(peer: str) -> str:
    """Return the host as access lists name it: the address of `address:port` as Java writes it, IPv6 without `::`."""
    host = peer.rpartition(":")[0].strip("[]").partition("%")[0]
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


class Rights:
    """A principal at one host, asking by one request (Kafka's AuthHelper)."""

    __slots__ = ("_authorizer", "_host", "_principal", "_request")

    def __init__(self, authorizer: AclAuthorizer, principal: KafkaPrincipal, host: str, request: str) -> None:
        self._authorizer, self._principal, self._host, self._request = authorizer, principal, host, request

    def may(self, operation: AclOperation, resource_type: ResourceType, name: str, *, quietly: bool = False) -> bool:
        """Tell whether the client may do that. `quietly`: it has not tried to, so a denial is logged only as TRACE."""
        return self._authorizer.authorize(
            self._principal, self._host, operation, resource_type, name, self._request, log_if_denied=not quietly
        )

    def may_with_cluster(self, operation: AclOperation, *, quietly: bool = False) -> bool:
        """Tell whether the client may do that with the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)

    def may_with_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Tell whether the client may do that with some resource of that type, perhaps (KIP-679)."""
        return self._authorizer.authorize_by_type(self._principal, self._host, operation, resource_type, self._request)

    def allowed(
        self, operation: AclOperation, resource_type: ResourceType, names: Iterable[str], *, quietly: bool = False
    ) -> set[str]:
        """Keep the names with which the client may do that. Each is asked for once, however often it is named."""
        return {
            name
            for name, times in Counter(names).items()
            if self._authorizer.authorize(
                self._principal, self._host, operation, resource_type, name, self._request,
                log_if_denied=not quietly, references=times,
            )
        }  # fmt: skip

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Collect everything that is allowed on a resource, as a set of bits (KIP-430)."""
        return bits(
            {
                operation
                for operation in OPERATIONS_ON[resource_type]
                if self._authorizer.authorize(
                    self._principal, self._host, operation, resource_type, name, self._request,
                    log_if_allowed=False, log_if_denied=False,
                )
            }
        )  # fmt: skip
