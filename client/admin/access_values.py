"""Values that the administrative client takes and returns: ACLs, credentials, delegation tokens, quotas."""

import base64
from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import NamedTuple, Self


class OnTheWire(IntEnum):
    """Numbers in the protocol. One that only a newer broker knows becomes UNKNOWN, as in Java's admin client."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls["UNKNOWN"] if isinstance(value, int) else None


class ACLResourceType(OnTheWire):
    """Kinds of resources that access control entries are about; ANY only in filters."""

    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


class ACLOperation(OnTheWire):
    """Operations that an entry is about; ANY only in filters."""

    UNKNOWN, ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(10)
    DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = range(10, 15)


class ACLPermissionType(OnTheWire):
    """Whether an entry allows or denies; ANY only in filters."""

    UNKNOWN, ANY, DENY, ALLOW = range(4)


class ACLResourcePatternType(OnTheWire):
    """Whether a resource's name is meant literally, or as a prefix (KIP-290); ANY and MATCH only in filters."""

    UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = range(5)


class ResourcePattern(NamedTuple):
    """Resources by type and name; in filters None stands for any name."""

    resource_type: ACLResourceType
    resource_name: str | None
    pattern_type: ACLResourcePatternType = ACLResourcePatternType.LITERAL


class ACL(NamedTuple):
    """Access control entry: `principal` (`User:name`) from `host` (* for all) may, or may not, perform an operation."""

    principal: str | None
    host: str | None
    operation: ACLOperation
    permission_type: ACLPermissionType
    resource_pattern: ResourcePattern


class ACLFilter(ACL):
    """Filter of entries, in which None and ANY match everything. A plain ACL can be a filter, too."""

    __slots__ = ()


class ScramMechanism(OnTheWire):
    """Kinds of SCRAM credentials."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class UserScramCredentialDeletion(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: ScramMechanism


class UserScramCredentialUpsertion(NamedTuple):
    """A credential to set. The password does not leave the client; without `salt` a random one is used."""

    user: str
    mechanism: ScramMechanism
    password: str | bytes
    iterations: int = 4096
    salt: bytes | None = None

    def __repr__(self) -> str:
        mechanism, iterations = self.mechanism, self.iterations
        return f"UserScramCredentialUpsertion(user={self.user!r}, mechanism={mechanism!r}, iterations={iterations!r})"


class DelegationToken(NamedTuple):
    """A delegation token (KIP-48). Principals are written `User:alice`, times are milliseconds since 1970."""

    token_id: str
    """The name to log in with."""
    hmac: bytes
    """The secret: whoever has it can log in as the owner."""
    owner: str
    requester: str
    """Principal that asked for the token. Brokers before 3.3 do not say it; the owner is assumed then."""
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    """Time beyond which the token cannot be renewed."""

    @property
    def password(self) -> str:
        """The password to log in with, by SCRAM, beside the option `tokenauth=true` of `sasl.jaas.config`."""
        return base64.b64encode(self.hmac).decode("ascii")

    def __repr__(self) -> str:
        return f"DelegationToken(token_id={self.token_id!r}, owner={self.owner!r})"


class QuotaMatch(Enum):
    """Wildcard in a filter of client quotas, in place of a name."""

    ANY = "any name, the default too"


class ClientQuota(NamedTuple):
    """Quotas of an entity: names by type (`user`, `client-id`, `ip`; None is the default), limits by their names."""

    entity: dict[str, str | None]
    quotas: dict[str, float]


class ClientQuotaAlteration(NamedTuple):
    """Quotas to set for an entity (see ClientQuota); None removes a limit."""

    entity: Mapping[str, str | None]
    quotas: Mapping[str, float | None]
