"""Rules of authorization: who may do what by the access lists, without ZooKeeper and without the audit log.

A resource's list is what stands under its own name, under `*`, and under every prefix of its name. Deny comes before
allow; an operation may be allowed by another one that implies it; super users may do everything. Where a resource has
no list at all, `allow_everyone` decides.

Source: AclAuthorizer of Kafka 3.9.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Set
from typing import Final

from odradek.broker.security.acls import (
    IMPLIED_BY,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
)
from odradek.broker.security.principal import KafkaPrincipal
from odradek.zk_schema.znodes.acls import PatternType, ResourcePattern, ResourceType

NOTHING: Final[frozenset[Acl]] = frozenset()


class AclRules:
    """The access lists of a cluster, and the questions that are asked of them."""

    def __init__(self, super_users: Iterable[KafkaPrincipal] = (), *, allow_everyone: bool = False) -> None:
        """`allow_everyone`: whether everybody may use a resource that has no list at all."""
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._lists: dict[ResourcePattern, frozenset[Acl]] = {}
        self._literal: dict[tuple[ResourceType, str], frozenset[Acl]] = {}
        self._prefixed: dict[tuple[ResourceType, str], frozenset[Acl]] = {}
        self._prefix_lengths: dict[ResourceType, list[int]] = {}

    @property
    def patterns(self) -> Set[ResourcePattern]:
        """Resource patterns that have an access list."""
        return self._lists.keys()

    def set_list(self, pattern: ResourcePattern, acls: Set[Acl]) -> None:
        """Replace the list under a pattern; an empty one takes it away."""
        literal = pattern.pattern_type is PatternType.LITERAL
        index = self._literal if literal else self._prefixed
        key = (pattern.resource_type, pattern.name)
        if acls:
            self._lists[pattern] = index[key] = frozenset(acls)
        else:
            self._lists.pop(pattern, None)
            index.pop(key, None)
        if not literal and acls:
            lengths = self._prefix_lengths.setdefault(pattern.resource_type, [])
            at = bisect_left(lengths, len(pattern.name))
            if at == len(lengths) or lengths[at] != len(pattern.name):
                lengths.insert(at, len(pattern.name))

    def clear(self) -> None:
        """Forget all lists."""
        for one in (self._lists, self._literal, self._prefixed, self._prefix_lengths):
            one.clear()

    def bindings(self, wanted: AclFilter) -> list[AclBinding]:
        """List the lines that a filter takes in."""
        return [
            AclBinding(pattern, acl)
            for pattern, acls in self._lists.items()
            if wanted.matches_pattern(pattern)
            for acl in acls
            if wanted.matches_acl(acl)
        ]

    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Tell whether somebody at that host may do that with the resource of that name."""
        if principal in self._super_users:
            return True
        lists = [acls for acls in self._lists_for(resource_type, name) if acls]
        if not lists:
            return self._allow_everyone
        who, where = (str(principal), WILDCARD_PRINCIPAL), (host, WILDCARD)
        concerned = [acl for acls in lists for acl in acls if acl.principal in who and acl.host in where]
        denied = (operation, AclOperation.ALL)
        if any(acl.permission is AclPermission.DENY and acl.operation in denied for acl in concerned):
            return False
        allowed = (*IMPLIED_BY.get(operation, (operation,)), AclOperation.ALL)
        return any(acl.permission is AclPermission.ALLOW and acl.operation in allowed for acl in concerned)

    def authorize_by_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Tell whether there may be any resource of that type with which they may do that (KIP-679).

        Nothing is implied here: WRITE on some topic is what an idempotent producer needs.
        """
        if principal in self._super_users:
            return True
        denied = self._names_said(principal, host, operation, resource_type, AclPermission.DENY)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        if self._allow_everyone:
            return True
        allowed = self._names_said(principal, host, operation, resource_type, AclPermission.ALLOW)
        return any(not _is_overruled(kind, name, denied) for kind, name in allowed)

    def _lists_for(self, resource_type: ResourceType, name: str) -> Iterator[frozenset[Acl]]:
        yield self._literal.get((resource_type, WILDCARD), NOTHING)
        if name != WILDCARD:
            yield self._literal.get((resource_type, name), NOTHING)
        for length in self._prefix_lengths.get(resource_type, ()):
            if length > len(name):
                break
            yield self._prefixed.get((resource_type, name[:length]), NOTHING)

    def _names_said(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        permission: AclPermission,
    ) -> set[tuple[PatternType, str]]:
        """Collect the patterns of a type whose lists have a line with this permission for them."""
        lines = {
            Acl(who, where, what, permission)
            for who in (str(principal), WILDCARD_PRINCIPAL)
            for where in (host, WILDCARD)
            for what in (operation, AclOperation.ALL)
        }
        return {
            (pattern.pattern_type, pattern.name)
            for pattern, acls in self._lists.items()
            if pattern.resource_type is resource_type and not lines.isdisjoint(acls)
        }


def _is_overruled(kind: PatternType, name: str, denied: Set[tuple[PatternType, str]]) -> bool:
    """Tell whether everything that an allowing pattern takes in is denied by another."""
    if kind is PatternType.LITERAL and name == WILDCARD:
        return False
    if kind is PatternType.LITERAL and (kind, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(len(name) + 1))
