"""Settings of topics, brokers, users, clients and addresses in ZooKeeper: read and written."""

from collections.abc import Mapping

from odradek.zk_schema.store import (
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


class SettingsTooLarge(StoreError):  # noqa: N818 - named as the others of its kind
    """Raised in place of a write that ZooKeeper would not take."""

    reason = f"settings of more than {SETTINGS_BYTES_MAX} bytes"


async def change_entity(store: Store, entity: str, settings: Mapping[str, str]) -> None:
    """Write an entity's settings, then the change that tells the brokers: Kafka's order (AdminZkClient).

    Raises SettingsTooLarge, nothing written, and StoreError.
    """
    path, data = entity_path(entity), encode_config(settings)
    if len(data) > SETTINGS_BYTES_MAX:
        raise SettingsTooLarge(path)
    try:
        await store.set(path, data)
    except NoNode:
        try:
            await store.create(path, data, parents=True)
        except NodeExists:
            await store.set(path, data)
    await store.create(CONFIG_CHANGE_PREFIX, ConfigChange(entity).encode(), sequential=True, parents=True)


async def stored_settings(store: Store, entity: str) -> dict[str, str]:
    """Read what ZooKeeper has of an entity. Raises BadZnode."""
    path = entity_path(entity)
    try:
        data, _ = await store.get(path)
    except NoNode:
        return {}
    return decode_config(path, data)
