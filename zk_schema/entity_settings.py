"""Settings of topics, brokers, users, clients and addresses in ZooKeeper: read and written."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from odradek.zk_schema.change_nodes import write_and_tell
from odradek.zk_schema.lost_answers import in_any_session, repeated
from odradek.zk_schema.store import (
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    SetData,
    Stat,
    Store,
    children_if_any,
    get_if_any,
)
from odradek.zk_schema.znodes.configs import CLIENTS, IPS, USERS, decode_config, encode_config, entity_path
from odradek.zk_schema.znodes.notifications import (
    CONFIG_CHANGE_PREFIX,
    ConfigChange,
)

ATTEMPTS_MAX = 10
CLEANED_UP = (CLIENTS, USERS, IPS)
"""Entities whose znode is deleted with their last setting: clients come and go, and nobody else would delete it
(AdminZkClient.tryCleanQuotaNodes)."""


async def change_entity(store: Store, entity: str, settings: Mapping[str, str]) -> None:
    """Write an entity's settings and the change that tells the brokers, in one transaction of ZooKeeper.

    A user, client or address without any has no znode (Kafka: changeEntityConfig).
    Raises TooLarge, nothing written, and StoreError as `alter_entity`.
    """
    await _write(store, entity, lambda found: settings)


async def alter_entity(store: Store, entity: str, altered: Callable[[dict[str, str]], Mapping[str, str]]) -> None:
    """Write what `altered` makes of an entity's settings. It is called again with the present ones if somebody else has
    written since they were read, or what was read was old. (Kafka loses the other's change.)

    Raises what `altered` raises, BadZnode, TooLarge, and StoreError: BadVersion when others write all the time.
    """
    path = entity_path(entity)
    await _write(store, entity, lambda found: altered({} if found is None else decode_config(path, found)))


async def _write(store: Store, entity: str, wanted: Callable[[bytes | None], Mapping[str, str]]) -> None:
    """Write settings in the place of what is found (None: there is no znode), and tell of it.

    When the session ends before the settings are read, nothing is begun: SessionExpired is raised. But once something
    may have been written, the outcome is waited for in any session.
    """
    path, change = entity_path(entity), ConfigChange(entity).encode()
    in_doubt, unheard = False, None
    """Whether the answer to a write was lost, and the data that it left, if it was carried out (None: no znode)."""
    for _ in range(ATTEMPTS_MAX):
        read = in_any_session if in_doubt else repeated
        found = await read(store, lambda: get_if_any(store, path))
        current = None if found is None else found[0]
        if in_doubt and current == unheard:
            return None
        settings = wanted(current)
        writes = await read(store, partial(_writes, store, entity, found, settings))
        with suppress(BadVersion, NoNode, NodeExists, NotEmpty):
            try:
                return await write_and_tell(store, writes, CONFIG_CHANGE_PREFIX, change)
            except (ConnectionLost, SessionExpired):
                in_doubt = bool(writes)
                unheard = next((write.data for write in writes if isinstance(write, Create | SetData)), None)
    raise BadVersion(path)


async def _writes(
    store: Store, entity: str, found: tuple[bytes, Stat] | None, settings: Mapping[str, str]
) -> list[Operation]:
    """Return the writes that put these settings in the place of what was found."""
    path = entity_path(entity)
    if settings or entity.partition("/")[0] not in CLEANED_UP or await children_if_any(store, path):
        data = encode_config(settings)
        return [Create(path, data) if found is None else SetData(path, data, found[1].version)]
    if found is None:
        return []
    writes: list[Operation] = [Delete(path, found[1].version)]
    of_user, is_nested, client = entity.rpartition(f"/{CLIENTS}/")
    if is_nested and await children_if_any(store, entity_path(f"{of_user}/{CLIENTS}")) == [client]:
        # Parents that hold nothing else go, too.
        writes.append(Delete(entity_path(f"{of_user}/{CLIENTS}")))
        user = await get_if_any(store, parent := entity_path(of_user))
        if user and not decode_config(parent, user[0]) and await children_if_any(store, parent) == [CLIENTS]:
            writes.append(Delete(parent, user[1].version))
    return writes


async def stored_settings(store: Store, entity: str) -> dict[str, str]:
    """Read the settings that ZooKeeper has of an entity; {} if it has none. Raises BadZnode."""
    path = entity_path(entity)
    found = await get_if_any(store, path)
    return {} if found is None else decode_config(path, found[0])
