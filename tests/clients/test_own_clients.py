"""The contract of our own clients, asyncio and blocking, on real sockets."""

import asyncio

import pytest

from odradek.testing import Cluster
from odradek.testing.client_contract import CHECKS, SOCKET_CHECKS, ContractWorld

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("blocking", [False, True], ids=["asyncio", "blocking"])
@pytest.mark.parametrize("name", CHECKS)
def test_on_sockets(cluster: Cluster, name: str, blocking: bool) -> None:
    async def main() -> None:
        async with ContractWorld(cluster.bootstrap.split(","), blocking=blocking) as world:
            await CHECKS[name](world)

    asyncio.run(main())


@pytest.mark.parametrize("name", SOCKET_CHECKS)
def test_blocking_alone_on_sockets(cluster: Cluster, name: str) -> None:
    async def main() -> None:
        async with ContractWorld(cluster.bootstrap.split(",")) as world:
            await SOCKET_CHECKS[name](world)

    asyncio.run(main())
