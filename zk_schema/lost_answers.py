"""Writes whose answer may get lost with the connection: whether they were done is read from ZooKeeper afterwards.

The owner of an ephemeral znode tells who created it. All functions here wait for the connection to come back, as long
as that takes. When the session ends they raise SessionExpired at once, except for `in_any_session`.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from odradek.zk_schema.store import ConnectionLost, NodeExists, SessionExpired, Stat, Store

T = TypeVar("T")

log = logging.getLogger(__name__)


async def repeated(store: Store, call: Callable[[], Awaitable[T]]) -> T:
    """Await `call`, and again after every lost connection. For what may be done twice: reads above all."""
    session_id = store.session_id or await store.until_connected()
    while True:
        await store.until_connected(session_id)
        with suppress(ConnectionLost):
            return await call()


async def in_any_session(store: Store, call: Callable[[], Awaitable[T]]) -> T:
    """Await `call`, and again after every lost connection and in each new session. For what may be done twice and does
    not live with a session, as all that a broker asks before it registers."""
    while True:
        await store.until_connected()
        try:
            return await call()
        except (ConnectionLost, SessionExpired) as error:
            log.warning("asking ZooKeeper again when it can be reached: %s", error)


async def create_ephemeral(store: Store, path: str, data: bytes) -> Stat:
    """Make an ephemeral znode of this session, or find that this session has made it already.

    Raises NodeExists when another session owns it, or nobody does; NoNode when the parent is missing.
    """

    async def create() -> Stat:
        while True:
            try:
                await store.create(path, data, ephemeral=True)
            except NodeExists:
                stat = await store.exists(path)
                if stat is not None and stat.ephemeral_owner != store.session_id:
                    raise
            else:
                stat = await store.exists(path)
            if stat is not None and stat.ephemeral_owner == store.session_id:
                return stat

    return await repeated(store, create)


async def create_if_missing(store: Store, path: str, data: bytes = b"") -> bool:
    """Make a persistent znode with its parents. False when it was there already (its data is left as it is)."""

    async def create() -> bool:
        try:
            await store.create(path, data, parents=True)
        except NodeExists:
            return False
        return True

    return await repeated(store, create)
