"""The admin client's access lists, on brokers that have an authorizer, and its SCRAM credentials."""

import hashlib
from typing import Any

import pytest

from odradek.aio import Admin
from odradek.client.admin.access_values import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    ResourcePattern,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from odradek.client.errors import ConfigError
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from odradek.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from odradek.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}


def entry(name: str, operation: ACLOperation = ACLOperation.READ, pattern: str = "LITERAL") -> ACL:
    resource = ResourcePattern(ACLResourceType.TOPIC, name, ACLResourcePatternType[pattern])
    return ACL("User:me", "*", operation, ACLPermissionType.ALLOW, resource)


EVERYTHING = ACL(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePattern(ACLResourceType.ANY, None, ACLResourcePatternType.ANY),
)


def test_entries_are_created_found_and_deleted() -> None:
    async def main(clock: VirtualClock) -> None:
        async with (
            EmbeddedCluster(clock, 1, AUTHORIZER) as cluster,
            Admin(bootstrap_servers="broker-0:9092", network=cluster.network.host("client"), clock=clock) as admin,
        ):
            entries = [entry("a"), entry("a", ACLOperation.WRITE), entry("b-", pattern="PREFIXED")]
            await admin.create_acls(entries)
            assert sorted(await admin.describe_acls(EVERYTHING)) == sorted(entries)
            found = await admin.describe_acls(entry("b-1", pattern="MATCH"))
            assert found == [entry("b-", pattern="PREFIXED")]
            assert sorted(await admin.delete_acls([entry("a"), entry("b-", pattern="PREFIXED")])) == [
                entry("a"),
                entry("b-", pattern="PREFIXED"),
            ]
            assert await admin.describe_acls(EVERYTHING) == [entry("a", ACLOperation.WRITE)]
            with pytest.raises(KafkaError) as refused:
                await admin.create_acls([entry("a")._replace(principal="me")])
            assert refused.value.code is ErrorCode.INVALID_REQUEST

    run_virtual(main)


def test_passwords_are_salted_before_they_are_sent(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        infos = [CredentialInfo(mechanism=1, iterations=4096)]
        described = DescribeUserScramCredentialsResult(user="me", credential_infos=infos)
        broker.handlers |= {
            DescribeUserScramCredentialsRequest: lambda _: DescribeUserScramCredentialsResponse(results=[described]),
            AlterUserScramCredentialsRequest: lambda request: AlterUserScramCredentialsResponse(
                results=[AlterUserScramCredentialsResult(user=one.name) for one in request.upsertions]
            ),
        }
        async with Admin(bootstrap_servers="broker:9092", network=network.host("client"), clock=clock) as admin:
            assert await admin.describe_user_scram_credentials(["me"]) == {"me": {ScramMechanism.SCRAM_SHA_256: 4096}}
            await admin.alter_user_scram_credentials(
                [
                    UserScramCredentialUpsertion("me", ScramMechanism.SCRAM_SHA_512, "secret", 8192, b"salt"),
                    UserScramCredentialUpsertion("you", ScramMechanism.SCRAM_SHA_256, b"secret"),
                    UserScramCredentialDeletion("him", ScramMechanism.SCRAM_SHA_256),
                ]
            )
        (sent,) = broker.requests(AlterUserScramCredentialsRequest)
        mine, yours = sent.upsertions
        assert (mine.salt, mine.iterations) == (b"salt", 8192)
        assert mine.salted_password == hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 8192)
        assert len(yours.salt) == 32 and len(yours.salted_password) == 32
        assert [(one.name, one.mechanism) for one in sent.deletions] == [("him", 1)]

    run_virtual(main)


def test_what_only_a_newer_broker_knows_is_unknown(scripted_broker: Any) -> None:
    """Kafka 4's operation TWO_PHASE_COMMIT, 15, came out of describe_acls as a ValueError, and hid all others."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        newer = AclDescription(principal="User:me", host="*", operation=15, permission_type=99)
        resource = DescribeAclsResource(resource_type=99, resource_name="n", pattern_type=99, acls=[newer])
        infos = [CredentialInfo(mechanism=1, iterations=4096), CredentialInfo(mechanism=99, iterations=8192)]
        described = DescribeUserScramCredentialsResult(user="me", credential_infos=infos)
        broker.handlers |= {
            DescribeAclsRequest: lambda _: DescribeAclsResponse(resources=[resource]),
            DescribeUserScramCredentialsRequest: lambda _: DescribeUserScramCredentialsResponse(results=[described]),
        }
        async with Admin(bootstrap_servers="broker:9092", network=network.host("client"), clock=clock) as admin:
            unknown = ResourcePattern(ACLResourceType.UNKNOWN, "n", ACLResourcePatternType.UNKNOWN)
            assert await admin.describe_acls(EVERYTHING) == [
                ACL("User:me", "*", ACLOperation.UNKNOWN, ACLPermissionType.UNKNOWN, unknown)
            ]
            assert await admin.describe_user_scram_credentials(["me"]) == {
                "me": {ScramMechanism.SCRAM_SHA_256: 4096, ScramMechanism.UNKNOWN: 8192}
            }

    run_virtual(main)


def test_a_password_is_in_no_message() -> None:
    """It stood in the repr(), and so in every log and every error that names what was to be altered."""
    secret = UserScramCredentialUpsertion("me", ScramMechanism.SCRAM_SHA_512, "secret-1", 8192, b"secret-2")
    assert "secret" not in repr(secret) + str(secret) + repr([secret])
    assert "me" in repr(secret) and "8192" in repr(secret)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (entry("a", ACLOperation.ANY), "operation ANY"),
        (entry("a", ACLOperation(99)), "ACLOperation that is UNKNOWN"),
        (entry("a", pattern="MATCH"), "pattern type MATCH"),
        (entry("a")._replace(principal=None), "no principal"),
        (entry("a")._replace(host=None), "no host"),
        (entry("a")._replace(permission_type=ACLPermissionType.ANY), "permission type ANY"),
        (entry("a")._replace(resource_pattern=ResourcePattern(ACLResourceType.ANY, "a")), "resource type ANY"),
        (entry("a")._replace(resource_pattern=ResourcePattern(ACLResourceType.TOPIC, None)), "no resource name"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_an_entry_that_is_a_filter_is_not_created(wrong: ACL, said: str) -> None:
    """The broker answered UNKNOWN_SERVER_ERROR, or closed the connection. Source: KafkaAdminClient.createAcls."""

    async def main(clock: VirtualClock) -> None:
        async with (
            EmbeddedCluster(clock, 1, AUTHORIZER) as cluster,
            Admin(bootstrap_servers="broker-0:9092", network=cluster.network.host("client"), clock=clock) as admin,
        ):
            with pytest.raises(ConfigError, match=said):
                await admin.create_acls([entry("b"), wrong])

    run_virtual(main)


def test_a_filter_with_something_unknown_is_refused_at_once() -> None:
    """Brokers close the connection on it, so it was sent again until default.api.timeout.ms was over."""

    async def main(clock: VirtualClock) -> None:
        async with (
            EmbeddedCluster(clock, 1, AUTHORIZER) as cluster,
            Admin(bootstrap_servers="broker-0:9092", network=cluster.network.host("client"), clock=clock) as admin,
        ):
            unknown = EVERYTHING._replace(operation=ACLOperation.UNKNOWN)
            for ask in (admin.describe_acls(unknown), admin.delete_acls([EVERYTHING, unknown])):
                with pytest.raises(ConfigError, match="ACLOperation that is UNKNOWN"):
                    await ask

    run_virtual(main)
