"""Settings that change while the broker runs: what ZooKeeper says of topics and brokers, and when it says more.

Whoever changes settings writes the znode of the topic or broker together with a sequential znode below /config/changes
that names it; every broker watches those and reads again what was named (KIP-226, and Kafka's ZkConfigManager).
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from odradek.broker.config import BrokerConfig
from odradek.broker.security.password_encoder import StoredPasswords
from odradek.broker.settings.catalog import TOPIC_SETTINGS, known_setting
from odradek.broker.settings.definition import BadValue
from odradek.broker.settings.layers import KEEP_EVERYTHING, put_instead, readable
from odradek.broker.settings.topic_overrides import log_config
from odradek.broker.settings.topic_settings import LogConfig
from odradek.world.tasks import Tasks
from odradek.zk_schema.change_nodes import ChangeFollower, ChangeNodes, read_each
from odradek.zk_schema.entity_settings import alter_entity
from odradek.zk_schema.store import (
    ConnectionLost,
    NoNode,
    SessionExpired,
    Store,
    children_if_any,
)
from odradek.zk_schema.znodes.configs import (
    BROKERS,
    CLIENTS,
    IPS,
    TOPICS,
    USERS,
    broker_config_path,
    decode_config,
    entity_path,
    entity_type_path,
    topic_config_path,
)
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.notifications import (
    CONFIG_CHANGES_PATH,
    ConfigChange,
)

log = logging.getLogger(__name__)

LOG_CONFIGS_MAX = 1000
"""Different settings of logs that are kept ready."""


class DynamicConfig:
    """The settings as they are now. Loop-thread only.

    `broker_changed` is called with the new settings when those of this broker or of all brokers have changed (topics'
    settings that follow from them have changed then too), `topic_changed` with the name of a topic, `entity_changed`
    with a user, a client or an address, as `users/alice` (sanitized), and all settings that it has now.
    `own_told` is called whenever somebody has set this broker's own, even to what they were.
    """

    def __init__(
        self,
        config: BrokerConfig,
        broker_id: int,
        store: Store,
        tasks: Tasks,
        *,
        broker_changed: Callable[[BrokerConfig], object] = lambda config: None,
        topic_changed: Callable[[str], object] = lambda topic: None,
        entity_changed: Callable[[str, Mapping[str, str]], object] = lambda entity, settings: None,
        own_told: Callable[[], object] = lambda: None,
    ) -> None:
        self.config = config
        self._broker_id = broker_id
        self._store = store
        self._broker_changed = broker_changed
        self._topic_changed = topic_changed
        self._entity_changed = entity_changed
        self._own_told = own_told
        self._entities: set[str] = set()
        """Users, clients and addresses that have settings."""
        self._topics: dict[str, dict[str, str]] = {}
        self._in_force: dict[str, dict[str, str]] = {}
        """The part of `_topics` that counts: without the values that cannot be read."""
        self._log_configs: dict[frozenset[tuple[str, str]], LogConfig] = {}
        """Settings of logs, made of `config` and a topic's settings, by the latter. Thousands of logs share them, and
        making them takes longer than opening a log. Threads that open logs add some, so `config` is replaced first."""
        self._changes = ChangeNodes(store, CONFIG_CHANGES_PATH)
        self._follower = ChangeFollower(
            store, tasks, (CONFIG_CHANGES_PATH,), self._load, self._read_changed, "dynamic settings"
        )

    def log_config(self, topic: str) -> LogConfig:
        """Return the settings of a topic's logs (LogManager's `config_of`): its own, if readable, over the broker's.

        Nothing is deleted or compacted of a topic whose znode could never be understood.
        """
        known, in_force = self._log_configs, self._in_force.get(topic, {})
        key = frozenset(in_force.items())
        made = known.get(key)
        if made is None:
            if len(known) >= LOG_CONFIGS_MAX:
                known.clear()
            made = known[key] = log_config(self.config, in_force)
        return made

    def forget(self, topics: Iterable[str]) -> None:
        """Forget the settings of topics that have been deleted."""
        for topic in topics:
            self._topics.pop(topic, None)
            self._in_force.pop(topic, None)

    async def learn(self, topics: Iterable[str]) -> None:
        """Read the settings of topics that this broker hears of for the first time; without ZooKeeper that waits."""
        try:
            await self._read_topics(topics)
        except (ConnectionLost, SessionExpired) as error:
            log.warning("settings of new topics cannot be read yet: %s", error)

    async def start(self) -> None:
        """Read everything once, then follow the changes; to be called before logs are opened, which need settings."""
        await self._follower.start()

    def stop(self) -> None:
        """Follow no more."""
        self._follower.stop()

    async def _load(self) -> None:
        """Watch for changes first and read second, so that none falls between."""
        await self._changes.begin()
        await self._read_broker()
        try:
            topics = await self._store.children(entity_type_path(TOPICS))
        except NoNode:
            topics = []
        await self._read_topics(sorted({*topics, *self._topics}))
        await self._read_entities({*await self._known_entities(), *self._entities})

    async def _read_changed(self) -> None:
        entities: dict[str, None] = {}
        for told in await self._changes.news():
            try:
                entities[ConfigChange.decode(told.data).entity] = None
            except BadZnode as error:
                log.error("an invalid change of settings is ignored: %s", error)
        await self._read_topics(entity.partition("/")[2] for entity in entities if entity.startswith(f"{TOPICS}/"))
        await self._read_entities([one for one in entities if one.partition("/")[0] in (USERS, CLIENTS, IPS)])
        if any(entity.startswith(f"{BROKERS}/") for entity in entities):
            await self._read_broker()
        if f"{BROKERS}/{self._broker_id}" in entities:
            self._own_told()

    async def _settings(self, path: str) -> dict[str, str] | None:
        """Read a znode's settings; None when they cannot be understood, so that the former ones stay."""
        try:
            return decode_config(path, (await self._store.get(path))[0])
        except NoNode:
            return {}
        except BadZnode as error:
            log.error("invalid settings are ignored: %s", error)
            return None

    async def _read_broker(self) -> None:
        default = await self._settings(broker_config_path(None))
        own = await self._settings(broker_config_path(self._broker_id))
        if own is not None:
            own = await self._decrypted(own)
        layers = self.config.layers
        changed = self._with_dynamic(
            layers.dynamic_default if default is None else default,
            layers.dynamic_broker if own is None else own,
        )
        if changed != self.config:
            self.config, self._log_configs = changed, {}
            log.info("dynamic settings: %s, of this broker: %s", *self._names())
            self._broker_changed(changed)

    async def _decrypted(self, own: dict[str, str]) -> dict[str, str]:
        """Return the settings with passwords decrypted; those under a former secret are encrypted and written anew."""
        passwords = StoredPasswords.of(self.config.layers)
        decrypted, by_former = passwords.decrypted(own)
        if by_former and passwords.encoder is not None:
            log.info("passwords of this broker are encrypted with the new secret")
            await alter_entity(self._store, f"{BROKERS}/{self._broker_id}", passwords.renewed)
        return decrypted

    def _with_dynamic(self, default: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
        """Return the settings with these dynamic ones, except those that are invalid, alone or beside the others."""
        before = self.config.layers
        layers = []
        for settings, counted in ((default, before.dynamic_default), (own, before.dynamic_broker)):
            counting, wrong = readable(settings, counted, known_setting)
            layers.append((counting, counted))
            for error in wrong:
                log.error("settings of brokers: %s: %s", error, _instead(counting.get(error.name)))
        while True:
            try:
                return self.config.with_dynamic(layers[0][0], layers[1][0])
            except BadValue as error:
                log.error("invalid settings of brokers are ignored: %s", error)
                found = next(((some, counted) for some, counted in reversed(layers) if error.name in some), None)
                if found is None:
                    return self.config
                some, counted = found
                put_instead(some, error.name, {} if some.get(error.name) == counted.get(error.name) else counted)

    def _names(self) -> tuple[list[str], list[str]]:
        """Return the names without the values, which may be secrets."""
        return sorted(self.config.layers.dynamic_default), sorted(self.config.layers.dynamic_broker)

    async def _read_topics(self, topics: Iterable[str]) -> None:
        async for topic, settings in read_each(topics, lambda topic: self._settings(topic_config_path(topic))):
            if settings is None:
                self._in_force.setdefault(topic, dict(KEEP_EVERYTHING))
            elif settings != self._topics.get(topic, {}) or (topic in self._in_force and topic not in self._topics):
                self._set_topic(topic, settings)

    async def _known_entities(self) -> list[str]:
        """List the users, clients, clients of users, and addresses that ZooKeeper has settings of."""
        found = []
        for kind in (USERS, CLIENTS, IPS):
            found += [f"{kind}/{name}" for name in await children_if_any(self._store, entity_path(kind))]
        users = [one for one in found if one.startswith(f"{USERS}/")]
        async for user, clients in read_each(
            users, lambda user: children_if_any(self._store, entity_path(f"{user}/{CLIENTS}"))
        ):
            found += [f"{user}/{CLIENTS}/{client}" for client in clients]
        return found

    async def _read_entities(self, entities: Iterable[str]) -> None:
        """Read settings of users, clients and addresses, and hand them on to those who obey them."""
        async for entity, settings in read_each(entities, lambda entity: self._settings(entity_path(entity))):
            if settings is None or (not settings and entity not in self._entities):
                continue
            (self._entities.add if settings else self._entities.discard)(entity)
            self._entity_changed(entity, settings)

    def _set_topic(self, topic: str, settings: dict[str, str]) -> None:
        in_force, wrong = readable(settings, self._in_force.get(topic, {}), TOPIC_SETTINGS.get)
        for error in wrong:
            log.error("topic %s: %s: %s", topic, error, _instead(in_force.get(error.name)))
        if settings:
            self._topics[topic], self._in_force[topic] = settings, in_force
        else:
            self._topics.pop(topic, None)
            self._in_force.pop(topic, None)
        log.info("settings of topic %s: %s", topic, settings)
        self._topic_changed(topic)


def _instead(text: str | None) -> str:
    return "it counts as not set" if text is None else f"{text or 'neither delete nor compact'} counts instead"
