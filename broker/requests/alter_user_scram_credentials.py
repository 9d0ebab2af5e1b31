"""AlterUserScramCredentials (key 51), version 0: give users SCRAM credentials, or take them away (KIP-554).

The controller alone answers. The client sends a salted password, from which the keys follow: the password itself never
comes here. An error in one change refuses all changes of that user; those of other users are made.
Source: ZkAdminManager.alterUserScramCredentials of Kafka 3.9.
"""

from collections import Counter

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests.describe_user_scram_credentials import NUMBERS
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS, credential_of, encode_credential
from odradek.zk_schema.entity_settings import alter_entity
from odradek.zk_schema.store import StoreError
from odradek.zk_schema.znodes.configs import USERS, is_part_of_path, sanitize
from odradek.zk_schema.znodes.json_data import BadZnode

REQUEST = AlterUserScramCredentialsRequest
VERSIONS = (0, 0)
MECHANISMS = {number: name for name, number in NUMBERS.items()}

Change = ScramCredentialDeletion | ScramCredentialUpsertion
Result = AlterUserScramCredentialsResult


async def handle(broker: Services, request: AlterUserScramCredentialsRequest, context: RequestContext) -> Reply:
    changes: list[Change] = [*request.deletions, *request.upsertions]
    by_user: dict[str, list[Change]] = {}
    for change in changes:
        by_user.setdefault(change.name, []).append(change)
    results = [await _alter_user(broker, user, some) for user, some in by_user.items()]
    return Reply(AlterUserScramCredentialsResponse(results=results))


async def _alter_user(broker: Services, user: str, changes: list[Change]) -> Result:
    try:
        if not broker.controller.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        for change in changes:
            _check(change)
        if max(Counter(one.mechanism for one in changes).values()) > 1:
            raise KafkaError(
                ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
        await _write(broker, user, changes)
    except KafkaError as error:
        return Result(user=user, error_code=error.code, error_message=error.message)
    except (StoreError, BadZnode) as error:
        return Result(user=user, error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=type(error).__name__)
    return Result(user=user, error_message=None)


def _check(change: Change) -> None:
    """Check a change by itself. Raises KafkaError."""
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if not is_part_of_path(change.name):  # Kafka: UNKNOWN_SERVER_ERROR, what ZooKeeper's client says
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"{change.name} cannot be a user's name")
    if change.mechanism not in MECHANISMS:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialUpsertion):
        if change.iterations < LEAST_ITERATIONS:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > MOST_ITERATIONS:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if not len(change.salted_password):  # Kafka: "Empty key" of javax.crypto, and UNKNOWN_SERVER_ERROR
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")


async def _write(broker: Services, user: str, changes: list[Change]) -> None:
    entity = f"{USERS}/{sanitize(user)}"

    def altered(settings: dict[str, str]) -> dict[str, str]:
        for change in changes:
            mechanism = MECHANISMS[change.mechanism]
            if isinstance(change, ScramCredentialUpsertion):
                salted, salt = bytes(change.salted_password), bytes(change.salt)
                settings[mechanism] = encode_credential(credential_of(mechanism, salted, salt, change.iterations))
            elif settings.pop(mechanism, None) is None:
                said = "Attempt to delete a user credential that does not exist"
                raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, said)
        return settings

    await alter_entity(broker.zookeeper, entity, altered)
