"""/config/[type]/[name]: settings of one topic, client, user, broker or address that differ from the default."""

from collections.abc import Mapping
from urllib.parse import quote, unquote

from odradek.zk_schema.znodes.json_data import BadZnode, Fields, dump

CONFIG_PATH = "/config"

TOPICS = "topics"
CLIENTS = "clients"
USERS = "users"
BROKERS = "brokers"
IPS = "ips"
ENTITY_TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS)

DEFAULT_ENTITY = "<default>"
"""Name of the default entity: its settings apply to all that have no setting of their own."""


def entity_type_path(entity_type: str) -> str:
    return f"{CONFIG_PATH}/{entity_type}"


def entity_path(entity: str) -> str:
    """Return the path of an entity: type and name, `topics/t`, or `users/[user]/clients/[client]`; sanitized."""
    return f"{CONFIG_PATH}/{entity}"


def topic_config_path(topic: str) -> str:
    return entity_path(f"{TOPICS}/{topic}")


def broker_config_path(broker_id: int | None) -> str:
    """Return the path of a broker's settings; for None, of the default of all brokers."""
    return entity_path(f"{BROKERS}/{DEFAULT_ENTITY if broker_id is None else broker_id}")


def sanitize(name: str) -> str:
    """Return a user's or client's name as part of a path: percent-encoded, all but letters, digits and `-._`."""
    return quote(name, safe="").replace("~", "%7E")


def is_part_of_path(name: str) -> bool:
    """Tell whether ZooKeeper takes a name, once it is sanitized, as part of a path."""
    return name not in ("", ".", "..")


def desanitize(name: str) -> str:
    return unquote(name)


def encode_config(settings: Mapping[str, str]) -> bytes:
    """Encode as version 1: {"version":1,"config":{"retention.ms":"1000"}}; values are text."""
    return dump({"version": 1, "config": dict(settings)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """Decode the settings of an entity; {} for an empty znode. Raises BadZnode."""
    if not data:
        return {}
    fields = Fields(path, data)
    settings = fields.mapping("config")
    for key, value in settings.items():
        if not isinstance(value, str):
            raise BadZnode(path, data, f"{key!r} is not text")
    return dict(settings)
