"""Operations that a client may do, as the bits of KIP-430, where nobody is kept from anything.

Source: AclEntry.supportedOperations of Kafka 3.9: without an authorizer everything that the resource knows is allowed.
"""

from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """Numbers of the wire; in a set of operations the number of the bit."""

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


def bits(*operations: AclOperation) -> int:
    """A set of operations as Metadata, DescribeCluster and DescribeGroups answer it."""
    return sum(1 << operation for operation in operations)


ALL_OF_CLUSTER: Final = bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
ALL_OF_TOPIC: Final = bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
