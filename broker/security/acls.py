"""Access lists as values: operations, permissions, the resources they are about, and filters over them.

Numbers are those of the wire, words those of ZooKeeper's znodes.

Source: AclOperation, AclPermissionType, ResourcePatternFilter, AccessControlEntryFilter and AclEntry of Kafka 3.9.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from odradek.zk_schema.store import is_znode_name
from odradek.zk_schema.znodes.acls import AclEntry, PatternType, ResourcePattern, ResourceType


class AclOperation(IntEnum):
    """Operation that an entry allows or denies; in a set of operations (KIP-430) the number of its bit."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14

    @property
    def word(self) -> str:
        """The form in znodes and in the audit log: `DescribeConfigs`."""
        return self.name.title().replace("_", "")


class AclPermission(IntEnum):
    """Permission of an access list's entry: to allow an operation or to deny it."""

    DENY = 2
    ALLOW = 3

    @property
    def word(self) -> str:
        """The form in znodes."""
        return self.name.title()


UNKNOWN: Final = 0
"""Number of no kind and no operation: Kafka refuses to read a request that names it."""
ANY: Final = 1
"""Any operation, permission, resource type or pattern type, in a filter."""
MATCH: Final = 2
"""Pattern type, in a filter: every pattern that takes in the filter's name."""
TYPE_NUMBERS: Final = {
    ResourceType.TOPIC: 2,
    ResourceType.GROUP: 3,
    ResourceType.CLUSTER: 4,
    ResourceType.TRANSACTIONAL_ID: 5,
    ResourceType.DELEGATION_TOKEN: 6,
    ResourceType.USER: 7,
}
TYPES_BY_NUMBER: Final = {number: kind for kind, number in TYPE_NUMBERS.items()}
PATTERN_NUMBERS: Final = {PatternType.LITERAL: 3, PatternType.PREFIXED: 4}
PATTERNS_BY_NUMBER: Final = {number: kind for kind, number in PATTERN_NUMBERS.items()}
OPERATIONS_BY_WORD: Final = {one.word.upper(): one for one in AclOperation}
PERMISSIONS_BY_WORD: Final = {one.word.upper(): one for one in AclPermission}

WILDCARD: Final = "*"
"""Name of all resources of a type; as a host, all hosts."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of the type CLUSTER."""

OPERATIONS_ON: Final[dict[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""Operations that a resource knows (AclEntry.supportedOperations)."""

IMPLIED_BY: Final[dict[AclOperation, tuple[AclOperation, ...]]] = {
    AclOperation.DESCRIBE: (
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
}
"""By operation: those of which each allows it. All other operations are allowed by themselves alone, and every one by
ALL. Nothing is denied by implication."""


class Acl(NamedTuple):
    """A line of an access list (Kafka's AccessControlEntry). The principal as `User:alice`, the host an address."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    @classmethod
    def of(cls, entry: AclEntry) -> "Acl":
        """Read a line of a znode; its words may be in letters of any case. Raises ValueError for those that mean
        nothing."""
        operation = OPERATIONS_BY_WORD.get(entry.operation.upper())
        permission = PERMISSIONS_BY_WORD.get(entry.permission_type.upper())
        if operation is None or permission is None:
            raise ValueError(f"{entry.permission_type} {entry.operation} is no right")
        return cls(entry.principal, entry.host, operation, permission)

    def entry(self) -> AclEntry:
        """Return the line as it stands in a znode."""
        return AclEntry(self.principal, self.permission.word, self.operation.word, self.host)


class AclBinding(NamedTuple):
    """A line, and the resources that it is about."""

    pattern: ResourcePattern
    acl: Acl


class AclFilter(NamedTuple):
    """Filter of the bindings to show or to delete. Numbers are those of the wire; None, or ANY, takes in everything."""

    resource_type: int = ANY
    name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Tell whether bindings of that pattern may be meant."""
        if self.resource_type not in (ANY, TYPE_NUMBERS[pattern.resource_type]):
            return False
        exactly = self.pattern_type == PATTERN_NUMBERS[pattern.pattern_type]
        if not exactly and self.pattern_type not in (ANY, MATCH):
            return False
        if self.name is None:
            return True
        if self.pattern_type != MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.LITERAL:
            return pattern.name in (self.name, WILDCARD)
        return self.name.startswith(pattern.name)

    def matches_acl(self, acl: Acl) -> bool:
        """Tell whether such a line is meant."""
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
        )

    def definite_patterns(self) -> list[ResourcePattern]:
        """Return the patterns that it names outright; none when it has to be compared with all there are."""
        resource_type = TYPES_BY_NUMBER.get(self.resource_type)
        if resource_type is None or self.name is None or self.pattern_type == MATCH:
            return []
        if not is_znode_name(self.name):
            return []
        kinds = [one for one, number in PATTERN_NUMBERS.items() if self.pattern_type in (ANY, number)]
        return [ResourcePattern(resource_type, self.name, one) for one in kinds]


def bits(operations: Iterable[AclOperation]) -> int:
    """Return a set of operations as Metadata, DescribeCluster and DescribeGroups answer it (KIP-430)."""
    return sum(1 << operation for operation in operations)


ALL_BITS: Final = {resource_type: bits(operations) for resource_type, operations in OPERATIONS_ON.items()}
"""Everything that a resource knows: what everybody may do without an authorizer."""
