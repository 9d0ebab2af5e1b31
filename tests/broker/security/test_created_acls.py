"""CreateAcls with numbers that no access list has: what is answered, and what is created of the rest."""

from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.way_through import connect

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
VERSION = 3
ANY, MATCH = 1, 2
EVERY_LIST = DescribeAclsRequest(
    resource_type_filter=ANY,
    resource_name_filter=None,
    pattern_type_filter=ANY,
    principal_filter=None,
    host_filter=None,
    operation=ANY,
    permission_type=ANY,
)
REFUSED = ErrorCode.UNKNOWN_SERVER_ERROR
FIELDS = ("resource_type", "resource_pattern_type", "operation", "permission_type")


def line(name: str, **fields: int) -> AclCreation:
    usual = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    return AclCreation(resource_name=name, principal="User:alice", host="*", **(usual | fields))


async def create_beside_others(cluster: EmbeddedCluster, **fields: int) -> tuple[list[int], list[str]]:
    """Return the error codes, and the names of the resources that have a list then."""
    client: Any = await connect(cluster, cluster.brokers[0])
    request = CreateAclsRequest(creations=[line("a"), line("b", **fields), line("")])
    errors = [one.error_code for one in (await client.ask(request, VERSION)).results]
    described = await client.ask(EVERY_LIST, VERSION)
    return errors, [one.resource_name for one in described.resources]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("number", [16, 99, -1])
def test_a_line_of_unknown_numbers_is_refused_and_the_others_are_created(field: str, number: int) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, AUTHORIZER) as cluster:
            errors, created = await create_beside_others(cluster, **{field: number})
            assert errors == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
            assert created == ["a"]

    run_virtual(main)


@pytest.mark.parametrize(("field", "number"), [*((field, ANY) for field in FIELDS), ("resource_pattern_type", MATCH)])
def test_with_a_line_for_filters_nothing_is_created_and_the_client_is_told(field: str, number: int) -> None:
    """The connection was closed, and kafka-go, which sends such a line without a look, reported `unexpected EOF`."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, AUTHORIZER) as cluster:
            assert await create_beside_others(cluster, **{field: number}) == ([REFUSED] * 3, [])

    run_virtual(main)


@pytest.mark.parametrize("field", FIELDS)
def test_a_zero_closes_the_connection(field: str) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, AUTHORIZER) as cluster:
            with pytest.raises(MalformedMessage, match="0 bytes"):
                await create_beside_others(cluster, **{field: 0})

    run_virtual(main)
