"""Settings of topics, brokers, users, clients and addresses in ZooKeeper: read and written."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from odradek.zk_schema.store import (
    BadVersion,
    NodeExists,
    NoNode,
    Store,
    StoreError,
)
from odradek.zk_schema.znodes.configs import (
    SETTINGS_BYTES_MAX,
    decode_config,
    encode_config,
    entity_path,
)
from odradek.zk_schema.znodes.notifications import (
    CONFIG_CHANGE_PREFIX,
    ConfigChange,
)

ATTEMPTS_MAX = 10


class SettingsTooLarge(StoreError):  # noqa: N818 - named as the others of its kind
    """Refusal of a write that is too large for ZooKeeper."""

    reason = f"settings of more than {SETTINGS_BYTES_MAX} bytes"


async def change_entity(store: Store, entity: str, settings: Mapping[str, str]) -> None:
    """Write an entity's settings, then the change that tells the brokers: Kafka's order (AdminZkClient).

    Raises SettingsTooLarge, nothing written, and StoreError.
    """
    path, data = entity_path(entity), _encoded(entity, settings)
    try:
        await store.set(path, data)
    except NoNode:
        try:
            await store.create(path, data, parents=True)
        except NodeExists:
            await store.set(path, data)
    await _tell(store, entity)


async def alter_entity(store: Store, entity: str, altered: Callable[[dict[str, str]], Mapping[str, str]]) -> None:
    """Write what `altered` makes of an entity's settings: of those that there are then, if somebody else has written
    since they were read, or what was read was old. Apache Kafka loses the other's change.

    `altered` may be called several times. Raises what it raises, BadZnode, SettingsTooLarge, and StoreError: BadVersion
    when others write all the time.
    """
    path = entity_path(entity)
    for _ in range(ATTEMPTS_MAX):
        try:
            data, stat = await store.get(path)
        except NoNode:
            wanted = _encoded(entity, altered({}))
            with suppress(NodeExists):
                await store.create(path, wanted, parents=True)
                return await _tell(store, entity)
            continue
        wanted = _encoded(entity, altered(decode_config(path, data)))
        with suppress(BadVersion, NoNode):
            await store.set(path, wanted, stat.version)
            return await _tell(store, entity)
    raise BadVersion(path)


def _encoded(entity: str, settings: Mapping[str, str]) -> bytes:
    """Encode settings. Raises SettingsTooLarge."""
    data = encode_config(settings)
    if len(data) > SETTINGS_BYTES_MAX:
        raise SettingsTooLarge(entity_path(entity))
    return data


async def _tell(store: Store, entity: str) -> None:
    """Tell the brokers of a change."""
    await store.create(CONFIG_CHANGE_PREFIX, ConfigChange(entity).encode(), sequential=True, parents=True)


async def stored_settings(store: Store, entity: str) -> dict[str, str]:
    """Read what ZooKeeper has of an entity. Raises BadZnode."""
    path = entity_path(entity)
    try:
        data, _ = await store.get(path)
    except NoNode:
        return {}
    return decode_config(path, data)
