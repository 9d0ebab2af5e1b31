"""DescribeUserScramCredentials (key 50), version 0: who may log in with SCRAM, and with how many iterations (KIP-554).

Any broker answers, from ZooKeeper. Without names all users who have credentials are shown. A user who is named and has
none is RESOURCE_NOT_FOUND, one who is named twice DUPLICATE_RESOURCE, one whose znode makes no sense
UNKNOWN_SERVER_ERROR. While ZooKeeper is away that is the whole answer. The credentials themselves are never shown.
Source: ZkAdminManager.describeUserScramCredentials of Kafka 3.9.
"""

from collections import Counter
from collections.abc import Sequence

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from odradek.security.scram import MECHANISMS, decode_credential
from odradek.zk_schema.entity_settings import stored_settings
from odradek.zk_schema.store import StoreError, children_if_any
from odradek.zk_schema.znodes.configs import USERS, desanitize, entity_type_path, is_part_of_path, sanitize

REQUEST = DescribeUserScramCredentialsRequest
VERSIONS = (0, 0)
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Numbers of the mechanisms on the wire."""

Result = DescribeUserScramCredentialsResult


async def handle(broker: Services, request: DescribeUserScramCredentialsRequest, context: RequestContext) -> Reply:
    try:
        results = await _results(broker, [one.name for one in request.users or ()])
    except StoreError as error:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        return Reply(DescribeUserScramCredentialsResponse(error_code=code, error_message=str(error)))
    return Reply(DescribeUserScramCredentialsResponse(error_message=None, results=results))


async def _results(broker: Services, names: Sequence[str]) -> list[Result]:
    """Describe the users of these names, or all that have credentials. Raises StoreError."""
    if names:
        times = Counter(names)
        return [await _named(broker, name, times[name]) for name in times]
    found = [await _stored(broker, user) for user in sorted(await _all_users(broker))]
    return [one for one in found if one.credential_infos or one.error_code]


async def _named(broker: Services, user: str, times: int) -> Result:
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return Result(user=user, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=message)
    result = await _stored(broker, user) if is_part_of_path(user) else Result(user=user)
    if not (result.credential_infos or result.error_code):
        message = f"Attempt to describe a user credential that does not exist: {user}"
        return Result(user=user, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=message)
    return result


async def _all_users(broker: Services) -> list[str]:
    return [desanitize(name) for name in await children_if_any(broker.zookeeper, entity_type_path(USERS))]


async def _stored(broker: Services, user: str) -> Result:
    try:
        settings = await stored_settings(broker.zookeeper, f"{USERS}/{sanitize(user)}")
        infos = [
            CredentialInfo(mechanism=NUMBERS[one], iterations=decode_credential(settings[one]).iterations)
            for one in MECHANISMS
            if one in settings
        ]
    except ValueError:  # whose text might show a part of them
        message = "The credentials of this user in ZooKeeper cannot be read."
        return Result(user=user, error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=message)
    return Result(user=user, error_message=None, credential_infos=infos)
