"""Access lists: one znode for each resource pattern, and change nodes that tell the brokers.

/kafka-acl/[ResourceType]/[name]                    patterns that match one name
/kafka-acl-extended/[pattern type]/[ResourceType]/[name]   the others: `prefixed` is the only one
/kafka-acl-changes/acl_changes_…                    literal: `Topic:name`
/kafka-acl-extended-changes/acl_changes_…           the others: JSON
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from odradek.zk_schema.znodes.json_data import BadZnode, Fields, dump

ACL_PATH = "/kafka-acl"
EXTENDED_ACL_PATH = "/kafka-acl-extended"
ACL_CHANGES_PATH = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES_PATH = "/kafka-acl-extended-changes"
ACL_CHANGE_NAME = "acl_changes_"


class ResourceType(Enum):
    """Type of a resource: `value` is its name in paths, `name` that in change nodes."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    TRANSACTIONAL_ID = "TransactionalId"
    DELEGATION_TOKEN = "DelegationToken"
    USER = "User"


class PatternType(Enum):
    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """Resources that an access list is for: a type, and a name or a prefix of names."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    @property
    def path(self) -> str:
        """Path of the znode with the pattern's access list."""
        return f"{acl_root(self.pattern_type)}/{self.resource_type.value}/{self.name}"

    @property
    def change_prefix(self) -> str:
        """Path, up to its number, of the sequential znode that tells of a change of the access list."""
        literal = self.pattern_type is PatternType.LITERAL
        return f"{ACL_CHANGES_PATH if literal else EXTENDED_ACL_CHANGES_PATH}/{ACL_CHANGE_NAME}"

    def encode_change(self) -> bytes:
        """Encode a change of the pattern's list: for a literal pattern `TOPIC:name`.

        For others, version 1: {"version":1,"resourceType":"TOPIC","name":"n","patternType":"PREFIXED"}.
        """
        if self.pattern_type is PatternType.LITERAL:
            return f"{self.resource_type.name}:{self.name}".encode()
        return dump(
            {
                "version": 1,
                "resourceType": self.resource_type.name,
                "name": self.name,
                "patternType": self.pattern_type.value,
            }
        )

    @classmethod
    def decode_change(cls, path: str, data: bytes) -> "ResourcePattern":
        """Decode a change; `path` tells which of the two forms it is. Raises BadZnode."""
        if path.startswith(f"{ACL_CHANGES_PATH}/"):
            kind, _, name = data.decode("utf-8", "replace").partition(":")
            return cls(_resource_type(path, data, kind), name)
        fields = Fields(path, data)
        fields.version(0, 1)
        resource_type = _resource_type(path, data, fields.text("resourceType"))
        try:
            pattern_type = PatternType[fields.text("patternType").upper()]
        except KeyError as error:
            raise fields.bad("unknown pattern type") from error
        return cls(resource_type, fields.text("name"), pattern_type)


def acl_root(pattern_type: PatternType) -> str:
    """Return the znode above the resource types."""
    return ACL_PATH if pattern_type is PatternType.LITERAL else f"{EXTENDED_ACL_PATH}/{pattern_type.value.lower()}"


def _resource_type(path: str, data: bytes, text: str) -> ResourceType:
    for known in ResourceType:
        if text.upper() in (known.name, known.value.upper()):
            return known
    raise BadZnode(path, data, f"unknown resource type {text!r}")


@dataclass(frozen=True, slots=True)
class AclEntry:
    """A line of an access list, in the words that Kafka writes: `User:alice`, `Allow`, `Read`, `*`."""

    principal: str
    permission_type: str
    operation: str
    host: str = "*"


def encode_acls(entries: Iterable[AclEntry]) -> bytes:
    """Encode as {"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"All","host":"*"}]}."""
    lines = [
        {
            "principal": entry.principal,
            "permissionType": entry.permission_type,
            "operation": entry.operation,
            "host": entry.host,
        }
        for entry in entries
    ]
    return dump({"version": 1, "acls": lines})


def decode_acls(path: str, data: bytes) -> set[AclEntry]:
    """Read the entries of an access list; none for an empty znode. Raises BadZnode."""
    if not data:
        return set()
    fields = Fields(path, data)
    fields.version(1, 1)
    return {
        AclEntry(line.text("principal"), line.text("permissionType"), line.text("operation"), line.text("host"))
        for line in fields.objects("acls")
    }
