"""Access control lists and SCRAM credentials. Coroutines for the client's loop."""

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from odradek.client import arguments
from odradek.client.admin.access_values import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    ResourcePattern,
    ScramMechanism,
)
from odradek.client.admin.topics import raise_first
from odradek.client.calls import Deadline, ask_controller
from odradek.client.cluster import Cluster
from odradek.client.errors import ConfigError
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages import alter_user_scram_credentials as scram
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

SALT_BYTES = 32


PATTERN_TYPES = (ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED)
"""Kinds of patterns that are not for filters alone."""


def entries(given: Any) -> list[ACL]:
    """Return entries to create as a list, after a check that they say what they are about, as Java's admin client does
    (AccessControlEntryData.findIndefiniteField). Raises TypeError, ConfigError."""
    found = filters(given)
    for one in found:
        indefinite = _indefinite(one)
        if indefinite is not None:
            raise ConfigError(f"{one} cannot be created, it is a filter: it has {indefinite}")
    return found


def _indefinite(one: ACL) -> str | None:
    """Return in words what of an entry stands for several things."""
    resource = one.resource_pattern
    if resource.pattern_type not in PATTERN_TYPES:
        return f"the pattern type {resource.pattern_type.name}"
    for what, value in (
        ("resource type", resource.resource_type),
        ("operation", one.operation),
        ("permission type", one.permission_type),
    ):
        if value.name == "ANY":
            return f"the {what} ANY"
    named = {"resource name": resource.resource_name, "principal": one.principal, "host": one.host}
    return next((f"no {what}" for what, name in named.items() if name is None), None)


def filters(given: Any) -> list[ACL]:
    """Return filters as a list, after a check that they can be sent. Raises TypeError, ConfigError."""
    found = arguments.instances(given, ACL)
    for one in found:
        if not isinstance(one.resource_pattern, ResourcePattern):
            raise TypeError(f"the resource of an ACL must be a ResourcePattern, not {one.resource_pattern!r}")
        for name in (one.principal, one.host, one.resource_pattern.resource_name):
            if name is not None:
                arguments.text(name, "a name in an ACL")
        resource = one.resource_pattern
        for kind, value in (
            (ACLResourceType, resource.resource_type),
            (ACLResourcePatternType, resource.pattern_type),
            (ACLOperation, one.operation),
            (ACLPermissionType, one.permission_type),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"expected {kind.__name__} in an ACL, not {type(value).__name__}: {value!r}")
            if value.name == "UNKNOWN":  # a broker closes the connection
                raise ConfigError(f"{one} has an {kind.__name__} that is UNKNOWN")
    return found


async def create_acls(cluster: Cluster, acls: Sequence[ACL], deadline: Deadline) -> None:
    """Create access control entries; all are tried. Raises KafkaError when one has failed (SECURITY_DISABLED, …)."""
    creations = [
        AclCreation(
            resource_type=one.resource_pattern.resource_type,
            resource_name=one.resource_pattern.resource_name or "",
            resource_pattern_type=one.resource_pattern.pattern_type,
            principal=one.principal or "",
            host=one.host or "",
            operation=one.operation,
            permission_type=one.permission_type,
        )
        for one in acls
    ]

    def errors(answer: CreateAclsResponse) -> list[ErrorCode]:
        return [error_code(one.error_code) for one in answer.results]

    answer = await ask_controller(cluster, CreateAclsRequest(creations=creations), CreateAclsResponse, errors, deadline)
    raise_first((str(acl), one.error_code, one.error_message) for acl, one in zip(acls, answer.results, strict=True))


async def describe_acls(cluster: Cluster, wanted: ACL) -> list[ACL]:
    """Return the entries that a filter matches. Raises KafkaError."""
    pattern = wanted.resource_pattern
    request = DescribeAclsRequest(
        resource_type_filter=pattern.resource_type,
        resource_name_filter=pattern.resource_name,
        pattern_type_filter=pattern.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )
    answer = await cluster.request_any(request, DescribeAclsResponse)
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), answer.error_message or "access lists cannot be read")
    return [
        _acl(one.principal, one.host, one.operation, one.permission_type, _pattern(resource))
        for resource in answer.resources
        for one in resource.acls
    ]


async def delete_acls(cluster: Cluster, filters: Sequence[ACL], deadline: Deadline) -> list[ACL]:
    """Delete the entries that any of the filters matches, and return them. Raises KafkaError when one has failed."""
    asked = [
        DeleteAclsFilter(
            resource_type_filter=one.resource_pattern.resource_type,
            resource_name_filter=one.resource_pattern.resource_name,
            pattern_type_filter=one.resource_pattern.pattern_type,
            principal_filter=one.principal,
            host_filter=one.host,
            operation=one.operation,
            permission_type=one.permission_type,
        )
        for one in filters
    ]

    def errors(answer: DeleteAclsResponse) -> list[ErrorCode]:
        return [error_code(one.error_code) for one in answer.filter_results]

    answer = await ask_controller(cluster, DeleteAclsRequest(filters=asked), DeleteAclsResponse, errors, deadline)
    results = answer.filter_results
    raise_first((str(wanted), one.error_code, one.error_message) for wanted, one in zip(filters, results, strict=True))
    gone = [one for result in results for one in result.matching_acls]
    raise_first((f"{one.principal} on {one.resource_name}", one.error_code, one.error_message) for one in gone)
    return [_acl(one.principal, one.host, one.operation, one.permission_type, _pattern(one)) for one in gone]


def _pattern(one: object) -> ResourcePattern:
    return ResourcePattern(
        ACLResourceType(one.resource_type),  # type: ignore[attr-defined]
        one.resource_name,  # type: ignore[attr-defined]
        ACLResourcePatternType(one.pattern_type),  # type: ignore[attr-defined]
    )


def _acl(principal: str, host: str, operation: int, permission: int, pattern: ResourcePattern) -> ACL:
    return ACL(principal, host, ACLOperation(operation), ACLPermissionType(permission), pattern)


# -- SCRAM -------------------------------------------------------------------------------------------------------------


async def describe_scram(cluster: Cluster, users: Iterable[str] | None) -> dict[str, dict[ScramMechanism, int]]:
    """Return the mechanisms of users (None: of all who have some), each with its iterations. Raises KafkaError."""
    asked = None if users is None else [UserName(name=user) for user in users]
    request = DescribeUserScramCredentialsRequest(users=asked)
    answer = await cluster.request_any(request, DescribeUserScramCredentialsResponse)
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), answer.error_message or "credentials cannot be read")
    raise_first((one.user, one.error_code, one.error_message) for one in answer.results)
    return {
        one.user: {ScramMechanism(info.mechanism): info.iterations for info in one.credential_infos}
        for one in answer.results
    }


Alteration = scram.ScramCredentialDeletion | scram.ScramCredentialUpsertion


def scram_alterations(given: Any) -> list[Alteration]:
    """Return the alterations of the request that set and delete these credentials, which may be kafka-python's, too.
    Passwords are salted and hashed here.

    Raises TypeError, ConfigError.
    """
    return [_alteration(one) for one in arguments.listed(given, "credentials")]


def _alteration(given: Any) -> Alteration:
    if not (hasattr(given, "user") and hasattr(given, "mechanism")):
        said = "a credential must be a UserScramCredentialUpsertion or a UserScramCredentialDeletion"
        raise TypeError(f"{said}, not {type(given).__name__}")
    name = arguments.text(given.user, "the name of a user")
    if not hasattr(given, "iterations"):
        return scram.ScramCredentialDeletion(name=name, mechanism=given.mechanism)
    salt = arguments.octets(given.salt or secrets.token_bytes(SALT_BYTES), "a salt")
    iterations = arguments.whole_number(given.iterations, "iterations", arguments.HIGHEST_INT32, 1)
    salted = getattr(given, "salted_password", None)  # kafka-python's keep no other
    if salted is None:
        digest = "sha256" if given.mechanism == ScramMechanism.SCRAM_SHA_256 else "sha512"
        password = given.password.encode() if isinstance(given.password, str) else given.password
        salted = hashlib.pbkdf2_hmac(digest, arguments.octets(password, "a password"), salt, iterations)
    return scram.ScramCredentialUpsertion(
        name=name, mechanism=given.mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


async def alter_scram(cluster: Cluster, wanted: Sequence[Alteration], deadline: Deadline) -> None:
    """Set and delete credentials; all are tried. Raises KafkaError when one has failed."""
    request = scram.AlterUserScramCredentialsRequest(
        deletions=[one for one in wanted if isinstance(one, scram.ScramCredentialDeletion)],
        upsertions=[one for one in wanted if isinstance(one, scram.ScramCredentialUpsertion)],
    )

    def errors(answer: scram.AlterUserScramCredentialsResponse) -> list[ErrorCode]:
        return [error_code(one.error_code) for one in answer.results]

    answer = await ask_controller(cluster, request, scram.AlterUserScramCredentialsResponse, errors, deadline)
    raise_first((one.user, one.error_code, one.error_message) for one in answer.results)
