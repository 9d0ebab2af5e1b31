"""Common parts of the three requests about settings: the resources they name, and how a change is checked.

Source: ConfigAdminManager, ZkAdminManager and DynamicBrokerConfig of Kafka 3.9.
"""

import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, Protocol, TypeVar

from odradek.broker.config import BrokerConfig
from odradek.broker.security.password_encoder import StoredPasswords
from odradek.broker.services import Services
from odradek.broker.settings.catalog import LISTENER_PREFIX, known_setting
from odradek.broker.settings.checks import check_live_change
from odradek.broker.settings.definition import BadValue, Effect, UpdateMode
from odradek.broker.settings.topic_overrides import validate_topic_config
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.security.errors import BadSecuritySetting
from odradek.zk_schema.entity_settings import change_entity, stored_settings
from odradek.zk_schema.store import StoreError
from odradek.zk_schema.znodes.configs import BROKERS, DEFAULT_ENTITY, TOPICS
from odradek.zk_schema.znodes.json_data import BadZnode


class ConfigResourceType(IntEnum):
    """Kind of thing that has settings, by its number on the wire; those of access lists have others."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Named(Protocol):
    """A resource in any of the requests."""

    resource_type: int
    resource_name: str


Resource = TypeVar("Resource", bound=Named)
Answer = TypeVar("Answer")
Change = Callable[[Resource], Coroutine[Any, Any, None]]
OF_A_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.certificates",
        *(f"ssl.{store}.{what}" for store in ("keystore", "truststore") for what in ("type", "location", "password")),
    }
)
"""Settings that may change while the broker runs for one listener alone (SslConfigs.RECONFIGURABLE_CONFIGS)."""
OF_ALL_LISTENERS: Final = re.compile(
    rf"{LISTENER_PREFIX.pattern}(max\.connections|max\.connection\.creation\.rate|num\.network\.threads)"
)
"""Settings for one listener alone that may be set for all brokers at once."""
ONCE: Final = "Each resource must appear at most once."


async def change_each(
    resources: Sequence[Resource], change: Change[Resource], answer: Callable[..., Answer]
) -> list[Answer]:
    """Change one resource after the other, and make the answer for each; those that come twice are not changed."""
    times = Counter((one.resource_type, one.resource_name) for one in resources)
    answers = []
    for one in resources:
        code, message = ErrorCode.NONE, None
        try:
            if times[one.resource_type, one.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, ONCE)
            await change(one)
        except KafkaError as error:
            code, message = error.code, error.message
        except (StoreError, BadZnode) as error:
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
        answers.append(
            answer(
                error_code=code,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
        )
    return answers


def check_keys(names: Sequence[str], nulls: Iterable[str]) -> None:
    """Check a change's names. Raises KafkaError INVALID_REQUEST for one that comes twice and for missing values."""
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = ", ".join(nulls)
    if missing:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {missing}")


def check_resource(broker: Services, kind: int, name: str) -> None:
    """Check that there is such a topic, or that it is this broker, or "" for all. Raises KafkaError."""
    if kind == ConfigResourceType.BROKER:
        _check_broker_name(broker, name)
    elif kind == ConfigResourceType.TOPIC:
        _check_topic_name(broker, name)
    elif kind == ConfigResourceType.CLIENT_METRICS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
        )
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _check_broker_name(broker: Services, name: str) -> None:
    own = broker.identity.broker_id
    if name == "" or name == str(own):
        return
    if not name.lstrip("-").isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {own}, but received {name}")


def _check_topic_name(broker: Services, name: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if name not in broker.metadata.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def entity(kind: int, name: str) -> str:
    """Name the entity under which ZooKeeper keeps a topic's or a broker's settings."""
    return f"{TOPICS}/{name}" if kind == ConfigResourceType.TOPIC else f"{BROKERS}/{name or DEFAULT_ENTITY}"


async def settings_of(broker: Services, kind: int, name: str) -> dict[str, str]:
    """Read what is set for a topic or broker now."""
    return with_passwords_decrypted(broker, kind, await stored_settings(broker.zookeeper, entity(kind, name)))


def with_passwords_decrypted(broker: Services, kind: int, stored: dict[str, str]) -> dict[str, str]:
    """Return what ZooKeeper has of a topic or broker with its passwords decrypted."""
    return (
        StoredPasswords.of(broker.config.layers).decrypted(stored)[0] if kind == ConfigResourceType.BROKER else stored
    )


async def replace_settings(
    broker: Services, kind: int, name: str, settings: Mapping[str, str], validate_only: bool
) -> None:
    """Check a topic's or a broker's new settings as a whole, and write them. Raises KafkaError and StoreError."""
    checked = to_be_stored(broker, kind, name, settings)
    if not validate_only:
        await change_entity(broker.zookeeper, entity(kind, name), checked)


def to_be_stored(broker: Services, kind: int, name: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Check a topic's or a broker's new settings as a whole; return them, passwords encrypted. Raises KafkaError."""
    try:
        if kind == ConfigResourceType.TOPIC:
            validate_topic_config(broker.config, settings)
        else:
            _check_broker_settings(broker, name, settings)
            settings = _with_passwords_encrypted(broker, name, settings)
    except (BadValue, BadSecuritySetting) as error:
        if kind != ConfigResourceType.TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
        resource = f"ConfigResource(type=TOPIC, name='{name}')"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid config value for resource {resource}: {error}") from None
    return settings


def _with_passwords_encrypted(broker: Services, name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Encrypt passwords. Raises KafkaError INVALID_CONFIG where that cannot be."""
    try:
        return StoredPasswords.of(broker.config.layers).encrypted(settings)
    except ValueError as error:
        resource = f"ConfigResource(type=BROKER, name='{name}')"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid config value for resource {resource}: {error}") from None


def _check_broker_settings(broker: Services, name: str, settings: Mapping[str, str]) -> None:
    """Check a broker's new settings; unknown names are let through. Raises BadValue, BadSecuritySetting for keys that
    cannot be read, or KafkaError INVALID_REQUEST: Kafka's own code here (KAFKA-13609)."""
    known = {one: setting for one in settings if (setting := known_setting(one)) is not None}
    _refuse_some(
        "Cannot update these configs dynamically", (one for one, setting in known.items() if not setting.changes_live)
    )
    if not name:
        _refuse_some(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (
                one
                for one, setting in known.items()
                if setting.update_mode is UpdateMode.PER_BROKER
                or (LISTENER_PREFIX.match(one) and not OF_ALL_LISTENERS.fullmatch(one))
            ),
        )
    _refuse_some(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (one for one in known if one in OF_A_LISTENER),
    )
    layers = broker.config.layers
    for one, setting in known.items():
        value = setting.read(settings[one])
        if setting.effect is Effect.REFUSED and value != setting.read(setting.default):
            raise BadValue(one, settings[one], f"refused, {setting.reason}")
    if name:
        changed = broker.config.with_dynamic(layers.dynamic_default, settings)
    else:
        changed = broker.config.with_dynamic(settings, layers.dynamic_broker)
    check_live_change(layers, changed.layers)
    _check_listeners(broker.config, changed)
    if changed.advertised_listeners != broker.config.advertised_listeners:
        _check_addresses(broker, changed)
    if any(one.protocol in ("SSL", "SASL_SSL") for one in changed.listeners) and any(
        one.live == "tls" and layers.given(key) != changed.layers.given(key) for key, one in known.items()
    ):
        from odradek.broker.security.listener_security import check_keys

        check_keys(broker.config, changed)


def _check_addresses(broker: Services, after: BrokerConfig) -> None:
    """Refuse advertised addresses that another broker has for the same listener: it would not start with them, and
    meanwhile clients who look for the one would find the other. Raises BadValue."""
    for one in after.advertised_listeners:
        for node in broker.metadata.nodes(one.name):
            if node.id != broker.identity.broker_id and (node.host, node.port) == (one.host, one.port):
                text = after.layers.given("advertised.listeners")
                raise BadValue("advertised.listeners", text, f"{one.name} is the address of broker {node.id}")


def _check_listeners(before: BrokerConfig, after: BrokerConfig) -> None:
    """Refuse what a running broker does not do with its listeners. Raises BadValue."""
    spoken = {one.name: one.protocol for one in before.listeners}
    for one in after.listeners:
        if spoken.get(one.name, one.protocol) != one.protocol:
            reason = f"the protocol of listener {one.name}, which exists, cannot be changed"
            raise BadValue(
                "listener.security.protocol.map", after.layers.given("listener.security.protocol.map"), reason
            )
    if after.advertised_listeners != before.advertised_listeners and not all(
        one.host for one in after.advertised_listeners
    ):
        text = after.layers.given("advertised.listeners")
        raise BadValue("advertised.listeners", text, "name the host that clients connect to")


def _refuse_some(reason: str, names: Iterable[str]) -> None:
    found = ", ".join(sorted(names))
    if found:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{reason}: Set({found})")
