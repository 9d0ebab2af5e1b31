"""Settings of topics, brokers, users, clients and addresses in ZooKeeper: read and written."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from odradek.zk_schema.change_nodes import write_and_tell
from odradek.zk_schema.lost_answers import in_any_session, repeated
from odradek.zk_schema.store import (
    BadVersion,
    ConnectionLost,
    Create,
    NodeExists,
    NoNode,
    SessionExpired,
    SetData,
    Store,
    get_if_any,
)
from odradek.zk_schema.znodes.configs import (
    decode_config,
    encode_config,
    entity_path,
)
from odradek.zk_schema.znodes.notifications import (
    CONFIG_CHANGE_PREFIX,
    ConfigChange,
)

ATTEMPTS_MAX = 10


async def change_entity(store: Store, entity: str, settings: Mapping[str, str]) -> None:
    """Write an entity's settings and the change that tells the brokers, in one transaction of ZooKeeper.

    Raises TooLarge, nothing written, and StoreError as `alter_entity`.
    """
    await _write(store, entity, lambda found: settings)


async def alter_entity(store: Store, entity: str, altered: Callable[[dict[str, str]], Mapping[str, str]]) -> None:
    """Write what `altered` makes of an entity's settings: of those that there are then, if somebody else has written
    since they were read, or what was read was old. Apache Kafka loses the other's change.

    `altered` may be called several times. Raises what it raises, BadZnode, TooLarge, and StoreError: BadVersion
    when others write all the time.
    """
    path = entity_path(entity)
    await _write(store, entity, lambda found: altered({} if found is None else decode_config(path, found)))


async def _write(store: Store, entity: str, wanted: Callable[[bytes | None], Mapping[str, str]]) -> None:
    """Write settings in the place of what is found (None: there is no znode), and tell of it.

    When the session ends before they are read nothing is begun. But once something may be written it is waited for.
    """
    path, change = entity_path(entity), ConfigChange(entity).encode()
    unheard: bytes | None = None
    """Content of the write whose answer was lost: where it is found, that was carried out."""
    for _ in range(ATTEMPTS_MAX):
        if unheard is None:
            found = await repeated(store, lambda: get_if_any(store, path))
        else:
            found = await in_any_session(store, lambda: get_if_any(store, path))
        if found is not None and found[0] == unheard:
            return None
        data = encode_config(wanted(None if found is None else found[0]))
        write = Create(path, data) if found is None else SetData(path, data, found[1].version)
        with suppress(BadVersion, NoNode, NodeExists):
            try:
                return await write_and_tell(store, write, CONFIG_CHANGE_PREFIX, change)
            except (ConnectionLost, SessionExpired):
                unheard = data
    raise BadVersion(path)


async def stored_settings(store: Store, entity: str) -> dict[str, str]:
    """Read what ZooKeeper has of an entity. Raises BadZnode."""
    path = entity_path(entity)
    found = await get_if_any(store, path)
    return {} if found is None else decode_config(path, found[0])
