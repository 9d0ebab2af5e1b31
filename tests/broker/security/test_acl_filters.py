"""DescribeAcls and DeleteAcls with numbers that no access list has, as Apache Kafka 3.9.1 answers them."""

from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.way_through import connect

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
VERSION = 3
EVERYTHING: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
NUMBERS = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
LINE = AclCreation(resource_type=2, resource_name="a", principal="User:alice", host="*", operation=3, permission_type=3)


@pytest.mark.parametrize("name", [None, "a"])
@pytest.mark.parametrize("number", [99, -1])
@pytest.mark.parametrize("field", NUMBERS)
def test_a_filter_with_an_unknown_number_takes_in_nothing(field: str, number: int, name: str | None) -> None:
    """The connection was closed."""
    odd = EVERYTHING | {field: number, "resource_name_filter": name}

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, AUTHORIZER) as cluster:
            client: Any = await connect(cluster, cluster.brokers[0])
            await client.ask(CreateAclsRequest(creations=[LINE]), VERSION)
            described = await client.ask(DescribeAclsRequest(**odd), VERSION)
            assert (described.error_code, described.resources) == (ErrorCode.NONE, [])
            filters = [DeleteAclsFilter(**odd), DeleteAclsFilter(**EVERYTHING)]
            deleted = (await client.ask(DeleteAclsRequest(filters=filters), VERSION)).filter_results
            assert [(one.error_code, len(one.matching_acls)) for one in deleted] == [(0, 0), (0, 1)]

    run_virtual(main)


@pytest.mark.parametrize("field", NUMBERS)
def test_a_zero_closes_the_connection(field: str) -> None:
    odd = EVERYTHING | {field: 0}

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, AUTHORIZER) as cluster:
            for request in (DescribeAclsRequest(**odd), DeleteAclsRequest(filters=[DeleteAclsFilter(**odd)])):
                client: Any = await connect(cluster, cluster.brokers[0])
                with pytest.raises(MalformedMessage, match="0 bytes"):
                    await client.ask(request, VERSION)

    run_virtual(main)
