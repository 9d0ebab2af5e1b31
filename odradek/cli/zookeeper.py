"""ZooKeeper for commands: the options that name it, and a session for one piece of work."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from odradek.zk_schema.link import Link
    from odradek.zk_schema.store import Store

Result = TypeVar("Result")


def _check(address: str | None) -> str | None:
    """Check the address of a ZooKeeper, if one is given. Raises BadParameter."""
    if address is None:
        return None
    from odradek.zk_schema.kazoo_store.values import BadAddress, split_connect

    try:
        split_connect(address)
    except BadAddress as error:
        raise typer.BadParameter(str(error)) from None
    return address


def zookeeper_option(help_text: str) -> Any:
    """Make the option that names a ZooKeeper."""
    return typer.Option("--zookeeper", callback=_check, metavar="HOST:PORT/CHROOT", help=help_text)


ZooKeeper = Annotated[str, zookeeper_option("the cluster's ZooKeeper; several hosts separated by commas")]
ZooKeeperFile = Annotated[
    Path | None,
    typer.Option(
        "--zk-tls-config-file",
        metavar="FILE",
        help="file with zookeeper.ssl.…, zookeeper.sasl.jaas.config, zookeeper.set.acl",
    ),
]
DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
TIMEOUT_MS = 10_000
"""Longest time that a server may be silent, while connecting and later."""


def zookeeper_link(file: Path | None) -> "Link":
    """Read the ZooKeeper link's settings from the file of `--zk-tls-config-file`.

    Without a file the link has neither TLS nor a login. Raises OSError.
    """
    from odradek.zk_schema.link import OPEN

    if file is None:
        return OPEN
    from odradek.broker.security.link_file import link_of_file
    from odradek.broker.settings.definition import BadValue
    from odradek.broker.settings.properties import BadProperties
    from odradek.security.errors import BadSecuritySetting

    try:
        return link_of_file(str(file))
    except (BadProperties, BadValue, BadSecuritySetting) as error:
        raise OSError(f"{file}: {error}") from None


def with_store(
    address: str, file: Path | None, work: Callable[["Store"], Awaitable[Result]], *, make_chroot: bool = False
) -> Result:
    """Connect to a ZooKeeper, do the work, disconnect; return what the work returns.

    `address` is host:port of the servers, separated by commas, and a path, which is created if it is missing and
    `make_chroot` is set. Raises OSError with ZooKeeper's error, also when it does not answer within ten seconds, and
    for a znode whose content cannot be decoded.
    """
    from odradek.world.clock import LoopClock
    from odradek.zk_schema.kazoo_store import KazooStore
    from odradek.zk_schema.store import ConnectionLost, NoSuchHost, StoreError
    from odradek.zk_schema.znodes.json_data import BadZnode

    async def run() -> Result:
        clock = LoopClock(asyncio.get_running_loop())
        link = zookeeper_link(file)
        store = KazooStore(address, clock, session_timeout_ms=TIMEOUT_MS, make_chroot=make_chroot, link=link)
        try:
            await store.start(TIMEOUT_MS)
            return await work(store)
        except ConnectionLost as error:
            why = f": {error}" if isinstance(error, NoSuchHost) else ""
            raise OSError(f"no ZooKeeper answers at {address}{why}") from None
        except (StoreError, BadZnode) as error:
            raise OSError(str(error)) from None
        finally:
            await store.close()

    return asyncio.run(run())
