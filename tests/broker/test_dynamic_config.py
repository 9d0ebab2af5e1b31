"""Settings that change in ZooKeeper while a broker runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from odradek.broker.config import BrokerConfig, Given, build_config
from odradek.broker.dynamic_config import DynamicConfig
from odradek.broker.security.password_encoder import PasswordEncoder
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks
from odradek.zk_schema.entity_settings import change_entity, stored_settings
from odradek.zk_schema.store import NotAuthorized, Stat
from odradek.zk_schema.znodes.configs import broker_config_path, topic_config_path
from odradek.zk_schema.znodes.notifications import CHANGE_EXPIRATION_MS, CONFIG_CHANGE_PREFIX, CONFIG_CHANGES_PATH

BROKER_ID = 3
SETTLE_MS = 1000


def in_full(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings by Kafka's names."""
    return {name.replace("_", "."): text for name, text in settings.items()}


class Cluster:
    """A ZooKeeper, somebody who changes settings there, and a broker's view of them."""

    def __init__(self, clock: VirtualClock, zookeeper: MemoryZooKeeper | None = None, **given: str) -> None:
        self.clock = clock
        self.zookeeper = zookeeper or MemoryZooKeeper(clock)
        self.admin = self.zookeeper.connect()
        self.store = self.zookeeper.connect()
        self.tasks = Tasks(clock, lambda reason: None)
        self.brokers: list[BrokerConfig] = []
        self.topics: list[str] = []
        settings = {"zookeeper.connect": "zk", "log.segment.bytes": "5000", **in_full(given)}
        config = build_config([Given(name, text, "test") for name, text in settings.items()])
        self.dynamic = DynamicConfig(
            config,
            BROKER_ID,
            self.store,
            self.tasks,
            broker_changed=self.brokers.append,
            topic_changed=self.topics.append,
        )

    async def begin(self) -> None:
        await self.admin.start(1000)
        await self.store.start(1000)

    async def settle(self, delay_ms: float = SETTLE_MS) -> None:
        """Virtual time: everything that is under way happens meanwhile."""
        done = asyncio.Event()
        self.clock.call_later(delay_ms, done.set)
        await done.wait()

    async def change(self, entity: str, **settings: str) -> None:
        await change_entity(self.admin, entity, in_full(settings))
        await self.settle()

    def segment_bytes(self, topic: str = "t") -> int:
        return self.dynamic.log_config(topic).segment_bytes

    def changes(self) -> list[str]:
        return [path for path in self.zookeeper.paths(CONFIG_CHANGES_PATH) if path.startswith(CONFIG_CHANGE_PREFIX)]


def play(story: Callable[[Cluster], Awaitable[None]], **given: str) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = Cluster(clock, None, **given)
        await cluster.begin()
        await story(cluster)
        cluster.dynamic.stop()

    run_virtual(main)


def test_what_is_set_before_the_start_counts_at_once() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.change("topics/t", segment_bytes="1000")
        await cluster.change("brokers/<default>", log_retention_ms="7")
        await cluster.dynamic.start()
        assert cluster.segment_bytes() == 1000
        assert cluster.dynamic.log_config("other").retention_ms == 7

    play(story)


def test_passwords_are_encrypted_with_a_new_secret_and_all_else_stays() -> None:
    """A password that neither secret reads was gone for ever, and so was what somebody set at that moment."""

    async def story(cluster: Cluster) -> None:
        of_old, of_neither = (PasswordEncoder(secret).encode("p") for secret in ("old", "another"))
        names = {"listener_name_x_ssl_key_password": of_old, "listener_name_y_ssl_key_password": of_neither}
        await cluster.change(f"brokers/{BROKER_ID}", log_retention_ms="5", **names)
        get = cluster.store.get

        async def get_amid_a_change(path: str, **how: Any) -> tuple[bytes, Stat]:
            found = await get(path, **how)
            if path == broker_config_path(BROKER_ID):
                cluster.store.get = get  # type: ignore[method-assign]
                await cluster.change(f"brokers/{BROKER_ID}", log_retention_ms="7", **names)
            return found

        cluster.store.get = get_amid_a_change  # type: ignore[method-assign]
        await cluster.dynamic.start()
        await cluster.settle()
        stored = await stored_settings(cluster.admin, f"brokers/{BROKER_ID}")
        assert PasswordEncoder("new").decode(stored.pop("listener.name.x.ssl.key.password")) == "p"
        assert stored == {"listener.name.y.ssl.key.password": of_neither, "log.retention.ms": "7"}
        assert cluster.dynamic.log_config("t").retention_ms == 7

    play(story, password_encoder_secret="new", password_encoder_old_secret="old")


def test_topics_with_the_same_settings_share_them_until_the_brokers_change() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.change("topics/t", segment_bytes="1000")
        await cluster.dynamic.start()
        before = cluster.dynamic.log_config("u")
        assert cluster.dynamic.log_config("v") is before is not cluster.dynamic.log_config("t")
        await cluster.change("brokers/<default>", log_retention_ms="7")
        assert cluster.dynamic.log_config("v").retention_ms == 7 != before.retention_ms

    play(story)


def test_a_connection_that_is_lost_amid_the_start_is_waited_for() -> None:
    """The broker ended, though a moment before or after it would have waited."""

    async def story(cluster: Cluster) -> None:
        await cluster.change("topics/t", segment_bytes="6000")
        cluster.store.lose_next_answer()
        await cluster.dynamic.start()
        assert cluster.segment_bytes() == 6000

    play(story)


def test_a_topic_changes_and_changes_back() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        assert cluster.segment_bytes() == 5000
        await cluster.change("topics/t", segment_bytes="1000")
        assert cluster.segment_bytes() == 1000
        await cluster.change("topics/t")
        assert cluster.segment_bytes() == 5000
        assert cluster.topics == ["t", "t"]
        assert cluster.brokers == []

    play(story)


def test_a_topics_settings_go_with_it() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        await cluster.change("topics/t", segment_bytes="1000")
        await cluster.admin.delete(topic_config_path("t"))
        await cluster.admin.create(CONFIG_CHANGE_PREFIX, b'{"version":2,"entity_path":"topics/t"}', sequential=True)
        await cluster.settle()
        assert cluster.segment_bytes() == 5000

    play(story)


def test_brokers_settings_of_all_and_of_one() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        await cluster.change("brokers/<default>", log_segment_bytes="2000", num_partitions="9")
        await cluster.change("brokers/3", log_segment_bytes="3000")
        await cluster.change("brokers/4", log_segment_bytes="4000")
        assert [config.log_segment_bytes for config in cluster.brokers] == [2000, 3000]
        assert cluster.dynamic.config.num_partitions == 1, "not a setting that changes live"
        assert cluster.segment_bytes() == 3000
        await cluster.change("brokers/3")
        assert cluster.segment_bytes() == 2000

    play(story)


def test_what_cannot_be_understood_changes_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        await cluster.change("topics/t", segment_bytes="1000")
        await cluster.admin.set(topic_config_path("t"), b"not json")
        for data in (b"nonsense", b'{"version":2,"entity_path":"topics/t"}', b'{"version":9}'):
            await cluster.admin.create(CONFIG_CHANGE_PREFIX, data, sequential=True)
        await cluster.settle()
        assert cluster.segment_bytes() == 1000
        await cluster.change("users/alice", producer_byte_rate="5")
        await cluster.change("topics/w", segment_bytes="1600")
        assert cluster.segment_bytes("w") == 1600

    play(story)


def test_a_znode_put_among_the_changes_by_hand_tells_nothing_and_stops_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        for name in ("junk", "0000000001", "config_change_x000000001"):
            await cluster.admin.create(f"{CONFIG_CHANGES_PATH}/{name}", b"")
        await cluster.change("topics/t", segment_bytes="1000")
        assert cluster.segment_bytes() == 1000
        assert not cluster.tasks.deaths
        fresh = Cluster(cluster.clock, cluster.zookeeper)
        await fresh.begin()
        await fresh.dynamic.start()
        assert fresh.segment_bytes() == 1000
        fresh.dynamic.stop()

    play(story)


def test_a_bad_value_takes_no_other_with_it() -> None:
    """A compacted topic became a deleting one when anything in its znode could not be read."""

    async def story(cluster: Cluster) -> None:
        await cluster.change("topics/old", cleanup_policy="compact", segment_bytes="many")
        await cluster.dynamic.start()
        await cluster.change("topics/u", cleanup_policy="compact", retention_ms="soon", unheard_of="5")
        for topic in ("old", "u"):
            assert cluster.dynamic.log_config(topic).cleanup_policy == {"compact"}
        assert cluster.segment_bytes("old") == 5000
        await cluster.change("brokers/3", log_retention_ms="0", log_segment_bytes="7000")
        assert cluster.segment_bytes("v") == 7000
        assert cluster.dynamic.log_config("v").retention_ms == -1, "0 is no time: nothing is deleted for it"

    play(story)


def test_nothing_is_deleted_for_a_policy_that_cannot_be_read() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.change("topics/new", cleanup_policy="compact,shred", retention_bytes="few")
        await cluster.change("topics/damaged", segment_bytes="6000")
        await cluster.admin.set(topic_config_path("damaged"), b"not json")
        await cluster.dynamic.start()
        await cluster.change("topics/kept", cleanup_policy="compact")
        await cluster.change("topics/kept", cleanup_policy="shred")
        assert cluster.dynamic.log_config("kept").cleanup_policy == {"compact"}, "what counted before"
        for topic in ("new", "damaged"):
            config = cluster.dynamic.log_config(topic)
            assert (config.cleanup_policy, config.retention_ms > 0, config.retention_bytes) == (
                set(),
                topic == "new",
                -1,
            )
        await cluster.change("topics/damaged", segment_bytes="6000")
        assert cluster.dynamic.log_config("damaged").cleanup_policy == {"delete"}
        await cluster.change("brokers/<default>", log_cleanup_policy="shred")
        assert cluster.dynamic.log_config("other").cleanup_policy == set()

    play(story)


def test_the_first_form_of_a_change_is_understood() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        await cluster.admin.create(
            topic_config_path("t"), b'{"version":1,"config":{"segment.bytes":"900"}}', parents=True
        )
        old = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
        await cluster.admin.create(CONFIG_CHANGE_PREFIX, old, sequential=True)
        await cluster.settle()
        assert cluster.segment_bytes() == 900

    play(story)


def test_nothing_is_missed_while_zookeeper_is_away() -> None:
    async def away(cluster: Cluster, disturb: Callable[[MemoryStore], None]) -> None:
        await cluster.dynamic.start()
        disturb(cluster.store)
        await cluster.change("topics/t", segment_bytes="1000")
        await cluster.change("brokers/3", message_max_bytes="777")
        cluster.zookeeper.heal(cluster.store)
        await cluster.settle(60_000)
        assert cluster.segment_bytes() == 1000
        assert cluster.dynamic.config.message_max_bytes == 777
        await cluster.change("topics/t", segment_bytes="1100")
        assert cluster.segment_bytes() == 1100

    async def cut_off(cluster: Cluster) -> None:
        await away(cluster, cluster.zookeeper.partition)

    async def expired(cluster: Cluster) -> None:
        await away(cluster, lambda store: cluster.zookeeper.expire_session(store.session_id))

    play(cut_off)
    play(expired)


def test_changes_that_somebody_deletes_too_early_are_not_missed() -> None:
    """As a broker of Kafka's does whose clock is ahead: it takes them for old."""

    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        await cluster.change("topics/u", segment_bytes="900")
        children = cluster.store.children

        async def after_deletion(path: str, *, watch: bool = False) -> list[str]:
            cluster.store.children = children  # type: ignore[method-assign]
            for change in cluster.changes():
                await cluster.admin.delete(change)
            return await children(path, watch=watch)

        cluster.store.children = after_deletion  # type: ignore[method-assign]
        await cluster.change("topics/t", segment_bytes="1000")
        assert cluster.segment_bytes() == 1000

    play(story)


def test_no_refusal_of_zookeeper_ends_the_reading() -> None:
    """Whatever befell it, the next changes were never heard of."""

    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        children, refusals = cluster.store.children_and_stat, [NotAuthorized(CONFIG_CHANGES_PATH)]

        async def refused_once(path: str, *, watch: bool = False) -> tuple[list[str], Stat]:
            if refusals:
                raise refusals.pop()
            return await children(path, watch=watch)

        cluster.store.children_and_stat = refused_once  # type: ignore[method-assign]
        await cluster.change("topics/t", segment_bytes="1000")
        await cluster.settle(5000)
        assert cluster.segment_bytes() == 1000
        assert cluster.tasks.deaths == {"dynamic settings": 1}
        await cluster.change("topics/t", segment_bytes="1100")
        assert cluster.segment_bytes() == 1100

    play(story)


def test_old_changes_are_deleted() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        await cluster.change("topics/t", segment_bytes="1000")
        await cluster.settle(CHANGE_EXPIRATION_MS - 2 * SETTLE_MS)
        await cluster.change("topics/t", segment_bytes="1100")
        assert len(cluster.changes()) == 2
        await cluster.settle(2 * SETTLE_MS)
        await cluster.change("topics/t", segment_bytes="1200")
        assert len(cluster.changes()) == 2
        assert cluster.segment_bytes() == 1200

    play(story)


def test_settings_are_written_before_the_change_is_told() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.change("topics/t", segment_bytes="1000")
        assert cluster.zookeeper.data(topic_config_path("t")) == b'{"version":1,"config":{"segment.bytes":"1000"}}'
        (path,) = cluster.changes()
        assert path == CONFIG_CHANGE_PREFIX + "0000000000"
        assert cluster.zookeeper.data(path) == b'{"version":2,"entity_path":"topics/t"}'
        assert await stored_settings(cluster.admin, "topics/t") == {"segment.bytes": "1000"}
        assert await stored_settings(cluster.admin, "topics/none") == {}

    play(story)


def test_settings_of_deleted_topics_are_forgotten_and_those_of_new_ones_of_their_names_read() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.dynamic.start()
        await cluster.change("topics/t", segment_bytes="1000")
        await cluster.admin.delete(topic_config_path("t"))
        cluster.dynamic.forget(["t", "unknown"])
        assert cluster.segment_bytes() == 5000 and not cluster.dynamic._topics and not cluster.dynamic._in_force
        await cluster.admin.create(topic_config_path("t"), b'{"version":1,"config":{"segment.bytes":"2000"}}')
        await cluster.dynamic.learn(["t"])
        assert cluster.segment_bytes() == 2000

    play(story)
