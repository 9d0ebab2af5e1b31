"""Access lists and tokens that are changed while the broker's session with ZooKeeper ends, or the broker."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from odradek.broker.security.acl_rules import AclRules
from odradek.broker.security.acls import Acl, AclBinding, AclFilter, AclOperation, AclPermission
from odradek.broker.security.authorizer import AclAuthorizer
from odradek.broker.security.delegation_tokens import DelegationTokens, TokenSettings
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks
from odradek.zk_schema.store import Operation, get_if_any
from odradek.zk_schema.znodes.acls import ResourcePattern, ResourceType
from odradek.zk_schema.znodes.tokens import token_path

SESSION_MS, AWAY_MS = 1_000, 60_000.0
BINDING = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "t"), Acl("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
)


async def connected(zookeeper: MemoryZooKeeper) -> MemoryStore:
    store = zookeeper.connect()
    await store.start(SESSION_MS)
    return store


def cut_off(clock: VirtualClock, zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
    zookeeper.partition(store)
    clock.call_later(AWAY_MS, lambda: zookeeper.heal(store))


def test_an_access_list_whose_write_is_looked_up_is_told_of_though_the_session_ends_meanwhile() -> None:
    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        stores = [await connected(zookeeper) for _ in range(2)]
        tasks = Tasks(clock, lambda reason: None)
        one, two = (AclAuthorizer(store, clock, tasks, AclRules()) for store in stores)
        for authorizer in (one, two):
            await authorizer.start()
        store, zookeeper.draw_latency_ms = stores[0], lambda: 1.0
        get, reads = store.get, 0

        async def answer_or_not(path: str, **how: Any) -> Any:
            nonlocal reads
            reads += path == BINDING.pattern.path
            if reads == 2:
                clock.call_later(0.5, lambda: cut_off(clock, zookeeper, store))
                store.get = get  # type: ignore[method-assign]
            try:
                return await get(path, **how)
            finally:
                if (path, reads) == (BINDING.pattern.path, 1):
                    store.lose_next_answer()

        store.get = answer_or_not  # type: ignore[method-assign]
        assert await one.create([BINDING]) == [None]
        await asyncio.sleep(1)
        assert [len(each.bindings(AclFilter())) for each in (one, two)] == [1, 1]
        tasks.close()

    run_virtual(main)


def test_a_token_whose_removal_is_answered_by_no_session_lets_nobody_in() -> None:
    """It was gone from ZooKeeper, the answer was an error, and all other brokers still took it."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        stores = [await connected(zookeeper) for _ in range(2)]
        tasks = Tasks(clock, lambda reason: None)
        settings = TokenSettings("the key of all brokers")
        one, two = (DelegationTokens(store, clock, tasks, random.Random(7), settings) for store in stores)
        for tokens in (one, two):
            await tokens.start(lambda: False)
        token = await one.create("User:alice", "User:alice", (), -1)
        await asyncio.sleep(1)
        zookeeper.draw_latency_ms = lambda: 1.0
        secret = one.hmac(token.token_id)
        commit = zookeeper.commit

        def cut_off_behind(operations: Sequence[Operation], session_id: int) -> Any:
            zookeeper.commit = commit  # type: ignore[method-assign]
            cut_off(clock, zookeeper, stores[0])
            return commit(operations, session_id)

        zookeeper.commit = cut_off_behind  # type: ignore[method-assign]
        await one.expire("User:alice", secret, -1)
        await asyncio.sleep(1)
        assert await get_if_any(stores[1], token_path(token.token_id)) is None
        assert two.find("SCRAM-SHA-256", token.token_id) is None
        tasks.close()

    run_virtual(main)


def test_a_token_that_was_renewed_while_the_controller_was_cut_off_is_not_removed_as_expired() -> None:
    """Its owner had been told that it lives on, and could not log in any more."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        stores = [await connected(zookeeper) for _ in range(2)]
        tasks = Tasks(clock, lambda reason: None)
        settings = TokenSettings("the key of all brokers", expiry_time_ms=10_000, expiry_check_interval_ms=12_000)
        controller, other = (DelegationTokens(store, clock, tasks, random.Random(7), settings) for store in stores)
        await controller.start(lambda: True)
        await other.start(lambda: False)
        renewed, left = [await other.create("User:alice", "User:alice", (), -1) for _ in range(2)]
        await asyncio.sleep(9)
        zookeeper.partition(stores[0])
        expires_ms = await other.renew("User:alice", other.hmac(renewed.token_id), 60_000)
        await asyncio.sleep(4)
        zookeeper.heal(stores[0])
        await asyncio.sleep(1)
        for tokens in (controller, other):
            assert [(one.token_id, one.expiry_timestamp_ms) for one in tokens.all()] == [(renewed.token_id, expires_ms)]
        assert await get_if_any(stores[1], token_path(renewed.token_id)) is not None
        assert await get_if_any(stores[1], token_path(left.token_id)) is None
        tasks.close()

    run_virtual(main)


@pytest.mark.parametrize("what", ["a list", "a new token", "a token that is removed"])
def test_what_is_changed_by_a_broker_that_dies_behind_its_first_write_is_heard_of(what: str) -> None:
    """The others went by the old list, took the token and refused the new one, until they started again. Kafka's do."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        dying, living = [await connected(zookeeper) for _ in range(2)]
        tasks = Tasks(clock, lambda reason: None)
        settings = TokenSettings("the key of all brokers")
        lists = [AclAuthorizer(store, clock, tasks, AclRules()) for store in (dying, living)]
        tokens = [DelegationTokens(store, clock, tasks, random.Random(7), settings) for store in (dying, living)]
        for authorizer, known in zip(lists, tokens, strict=True):
            await authorizer.start()
            await known.start(lambda: False)
        old = await tokens[0].create("User:alice", "User:alice", (), -1)
        commit = zookeeper.commit

        def die_behind(operations: Sequence[Operation], session_id: int) -> Any:
            zookeeper.commit = commit  # type: ignore[method-assign]
            zookeeper.partition(dying)
            return commit(operations, session_id)

        zookeeper.commit = die_behind  # type: ignore[method-assign]
        changes = {
            "a list": lambda: lists[0].create([BINDING]),
            "a new token": lambda: tokens[0].create("User:bob", "User:bob", (), -1),
            "a token that is removed": lambda: tokens[0].expire("User:alice", tokens[0].hmac(old.token_id), -1),
        }
        change = asyncio.ensure_future(changes[what]())
        await asyncio.sleep(2 * SESSION_MS / 1000)
        change.cancel()
        owners = [token.owner for token in tokens[1].all()]
        found = (len(lists[1].bindings(AclFilter())), owners)
        assert (
            found
            == {
                "a list": (1, ["User:alice"]),
                "a new token": (0, ["User:alice", "User:bob"]),
                "a token that is removed": (0, []),
            }[what]
        )
        tasks.close()

    run_virtual(main)
