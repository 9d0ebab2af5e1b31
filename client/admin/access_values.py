"""Values of access that the administrative client takes and gives: ACLs, credentials, delegation tokens, quotas."""

import base64
from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import NamedTuple, Self


class OnTheWire(IntEnum):
    """Numbers of the protocol, of which a newer broker may have more: those are UNKNOWN, as in Java's admin client."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls["UNKNOWN"] if isinstance(value, int) else None


class ACLResourceType(OnTheWire):
    """Kinds of things that access control entries are about; ANY in filters alone."""

    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


class ACLOperation(OnTheWire):
    """Operations that an entry is about; ANY in filters alone."""

    UNKNOWN, ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(10)
    DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = range(10, 15)


class ACLPermissionType(OnTheWire):
    """Permission or prohibition; ANY in filters alone."""

    UNKNOWN, ANY, DENY, ALLOW = range(4)


class ACLResourcePatternType(OnTheWire):
    """Meanings of a name: literal, or a prefix (KIP-290); ANY and MATCH in filters alone."""

    UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = range(5)


class ResourcePattern(NamedTuple):
    """Resources by type and name; a name of None in filters is any."""

    resource_type: ACLResourceType
    resource_name: str | None
    pattern_type: ACLResourcePatternType = ACLResourcePatternType.LITERAL


class ACL(NamedTuple):
    """Access control entry: `principal` (`User:name`) from `host` (* for all) may or may not do something."""

    principal: str | None
    host: str | None
    operation: ACLOperation
    permission_type: ACLPermissionType
    resource_pattern: ResourcePattern


class ACLFilter(ACL):
    """An entry in which None and ANY match all; a plain ACL is a filter too."""

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
    """A credential to set. The password does not leave the client; without `salt` it gets one by chance."""

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
    """Principal that asked for it; brokers before 3.3 do not tell, and it is the owner then."""
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    """Time, in ms since 1970, beyond which it cannot be renewed."""

    @property
    def password(self) -> str:
        """The password to log in with, by SCRAM, beside the option `tokenauth=true` of `sasl.jaas.config`."""
        return base64.b64encode(self.hmac).decode("ascii")

    def __repr__(self) -> str:
        return f"DelegationToken(token_id={self.token_id!r}, owner={self.owner!r})"


class QuotaMatch(Enum):
    """Match of every default, or of every name, in a filter of client quotas; it stands where a name would."""

    ANY = "any name, the default too"


class ClientQuota(NamedTuple):
    """Quotas of an entity: its names by kind (`user`, `client-id`, `ip`; None is the default), its limits by name."""

    entity: dict[str, str | None]
    quotas: dict[str, float]


class ClientQuotaAlteration(NamedTuple):
    """Quotas to set for an entity (see ClientQuota); None takes a limit away."""

    entity: Mapping[str, str | None]
    quotas: Mapping[str, float | None]
