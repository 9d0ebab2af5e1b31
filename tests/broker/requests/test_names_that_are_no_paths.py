"""Users and clients called `.` or `..`: ZooKeeper takes neither as part of a path, and percent-encoding leaves both."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.broker.requests.whole_broker import Client, with_broker

NAMES = [".", ".."]


def quota(**entity: str) -> EntryData:
    named = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    return EntryData(entity=named, ops=[OpData(key="consumer_byte_rate", value=5.0)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("validate_only", [False, True])
def test_quotas(name: str, validate_only: bool) -> None:
    """The connection was closed, and the quotas behind were not set."""

    async def scenario(client: Client) -> None:
        entries = [
            quota(user=name),
            quota(client_id=name),
            quota(user="u", client_id=name),
            quota(user=name, client_id="c"),
            quota(user="..."),
        ]
        request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
        errors = [entry.error_code for entry in (await client.ask(request, 1)).entries]
        assert errors == [ErrorCode.INVALID_REQUEST] * 4 + [ErrorCode.NONE]

    with_broker(scenario)


@pytest.mark.parametrize("name", NAMES)
def test_scram_credentials(name: str) -> None:
    async def scenario(client: Client) -> None:
        upsertions = [
            ScramCredentialUpsertion(name=user, mechanism=1, iterations=4096, salt=b"s", salted_password=b"p" * 32)
            for user in (name, "u")
        ]
        answer = await client.ask(AlterUserScramCredentialsRequest(upsertions=upsertions), 0)
        refused = ErrorCode.UNACCEPTABLE_CREDENTIAL
        assert [(one.user, one.error_code) for one in answer.results] == [(name, refused), ("u", ErrorCode.NONE)]
        asked = DescribeUserScramCredentialsRequest(users=[UserName(name=name), UserName(name="u")])
        missing = ErrorCode.RESOURCE_NOT_FOUND
        shown = (await client.ask(asked, 0)).results
        assert [(one.user, one.error_code) for one in shown] == [(name, missing), ("u", ErrorCode.NONE)]
        deletions = [ScramCredentialDeletion(name=user, mechanism=1) for user in (name, "u")]
        answer = await client.ask(AlterUserScramCredentialsRequest(deletions=deletions), 0)
        assert [one.error_code for one in answer.results] == [refused, ErrorCode.NONE]

    with_broker(scenario)
