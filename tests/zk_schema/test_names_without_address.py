"""A name of a ZooKeeper server that cannot be resolved is said, instead of a silence."""

import asyncio
import socket
from typing import Any

import pytest

from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.kazoo_store.values import names_without_address
from odradek.zk_schema.store import NoSuchHost

KNOWN = {"localhost", "127.0.0.1", "::1"}


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know a few names, at once, whatever the machine's own resolver knows and how long it takes."""
    real = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **named: Any) -> Any:
        if host not in KNOWN:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_names_are_those_of_hosts_with_and_without_ports() -> None:
    assert names_without_address("127.0.0.1:2181,zk1:2181, zk2,[::1]:2181,localhost") == ["zk1", "zk2"]


def test_whoever_waits_for_zookeeper_hears_which_name_has_no_address() -> None:
    async def scenario() -> None:
        store = KazooStore("zk1:2181,zk2:2181/chroot", LoopClock(asyncio.get_running_loop()))
        with pytest.raises(NoSuchHost, match="no address is known for zk1, zk2"):
            await store.start(50)

    asyncio.run(scenario())
