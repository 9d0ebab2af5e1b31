"""Settings of an entity that several change at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.entity_settings import ATTEMPTS_MAX, alter_entity, change_entity, stored_settings
from odradek.zk_schema.store import (
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    Operation,
    SessionExpired,
    SetData,
    StoreError,
)
from odradek.zk_schema.znodes.configs import encode_config, entity_path

ENTITY = "topics/t"


async def setting(store: MemoryStore, name: str, text: str) -> None:
    await alter_entity(store, ENTITY, lambda settings: {**settings, name: text})


@pytest.mark.parametrize("there", [True, False])
def test_a_change_from_what_is_old_loses_nobody_s(there: bool) -> None:
    """Through a broker whose server of ZooKeeper lagged a second change took back the one before it, acknowledged."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock, members=2)
        seats = iter((0, 1))
        zookeeper.choose_member = lambda fit: zookeeper.members[next(seats)]
        near, far = zookeeper.connect(), zookeeper.connect()
        for store in (near, far):
            await store.start(1000)
        await near.create("/config/topics", parents=True)
        if there:
            await setting(near, "segment.bytes", "1000")
        zookeeper.members[1].lag(1000)
        await setting(near, "retention.ms", "5")
        await setting(far, "max.message.bytes", "7")
        expected = {"retention.ms": "5", "max.message.bytes": "7"} | ({"segment.bytes": "1000"} if there else {})
        assert await stored_settings(near, ENTITY) == expected
        assert await near.children("/config/changes") == [f"config_change_{n:010d}" for n in range(2 + there)]

    run_virtual(main)


def test_who_is_always_too_late_is_told() -> None:
    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1000)
        await setting(store, "segment.bytes", "1000")
        asked: list[Mapping[str, str]] = []

        def too_late(settings: dict[str, str]) -> Mapping[str, str]:
            asked.append(settings)
            zookeeper.commit([SetData(entity_path(ENTITY), encode_config({"n": str(len(asked))}), -1)], 0)
            return {}

        with pytest.raises(BadVersion):
            await alter_entity(store, ENTITY, too_late)
        assert len(asked) == ATTEMPTS_MAX
        assert await stored_settings(store, ENTITY) == {"n": str(ATTEMPTS_MAX)}

    run_virtual(main)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("change", [alter_entity, change_entity])
@pytest.mark.parametrize("later_ms", [0.5, 1.5, 2.5])
def test_settings_that_are_written_are_told_of_in_spite_of_zookeeper(change: Any, ends: bool, later_ms: float) -> None:
    """Cut off before the answer, behind it, or while they are told of: the other brokers did not hear of settings that
    stood in ZooKeeper, and the answer was an error."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1000)
        await setting(store, "segment.bytes", "1000")
        commit = zookeeper.commit

        def cut_off_behind(operations: Sequence[Operation], session_id: int) -> Any:
            results = commit(operations, session_id)
            if any(operation.path == entity_path(ENTITY) for operation in operations):
                clock.call_later(later_ms, lambda: zookeeper.partition(store))
            return results

        zookeeper.draw_latency_ms = lambda: 1.0

        zookeeper.commit = cut_off_behind  # type: ignore[method-assign]
        clock.call_later(60_000 if ends else 100, lambda: zookeeper.heal(store))
        wanted: Any = {"n": "1"}
        await change(store, ENTITY, wanted if change is change_entity else lambda settings: wanted)
        other = zookeeper.connect()
        await other.start(1000)
        assert await stored_settings(other, ENTITY) == wanted
        assert len(await other.children("/config/changes")) >= 2

    run_virtual(main)


def test_a_write_whose_answer_was_lost_is_not_made_again_of_what_it_has_made() -> None:
    """To delete a user's credential was RESOURCE_NOT_FOUND, which it had done itself."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1000)
        await setting(store, "SCRAM-SHA-256", "secret")

        def without(settings: dict[str, str]) -> Mapping[str, str]:
            store.lose_next_answer()
            del settings["SCRAM-SHA-256"]
            return settings

        await alter_entity(store, ENTITY, without)
        assert await stored_settings(store, ENTITY) == {}
        assert len(await store.children("/config/changes")) == 2

    run_virtual(main)


@pytest.mark.parametrize(
    ("before", "emptied", "left"),
    [
        (["clients/c"], "clients/c", []),
        (["ips/10.0.0.1", "ips/<default>"], "ips/10.0.0.1", ["ips/<default>"]),
        (["users/u"], "users/u", []),
        (["users/u", "users/u/clients/c"], "users/u", ["users/u", "users/u/clients", "users/u/clients/c"]),
        (["users/u", "users/u/clients/c"], "users/u/clients/c", ["users/u"]),
        (["users/u/clients/c"], "users/u/clients/c", []),
        (["users/u/clients/c", "users/u/clients/d"], "users/u/clients/c",
         ["users/u", "users/u/clients", "users/u/clients/d"]),
        (["users/u/clients/c"], "users/u/clients/d", ["users/u", "users/u/clients", "users/u/clients/c"]),
        (["users/u"], "users/v/clients/d", ["users/u"]),
        ([], "clients/c", []),
        (["topics/t"], "topics/t", ["topics/t"]),
        (["brokers/0"], "brokers/0", ["brokers/0"]),
    ],
)  # fmt: skip
def test_of_users_and_clients_without_settings_nothing_is_left(
    before: list[str], emptied: str, left: list[str]
) -> None:
    """Whoever gave each client a quota and took it away again had ZooKeeper grow for ever. What is left is what Apache
    Kafka 3.9.1 leaves."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1000)
        for entity in before:
            await change_entity(store, entity, {"n": "1"})
        await alter_entity(store, emptied, lambda settings: {})
        kept = [path.removeprefix("/config/") for path in zookeeper.paths("/config") if path.count("/") > 2]
        assert sorted(path for path in kept if not path.startswith("changes")) == sorted(left)
        assert await stored_settings(store, emptied) == {}
        assert len(await store.children("/config/changes")) == len(before) + 1, "the brokers hear of it"

    run_virtual(main)


def test_a_quota_that_is_given_while_the_last_one_is_taken_away_stays() -> None:
    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1000)
        await change_entity(store, "users/u/clients/c", {"n": "1"})
        commit, others = zookeeper.commit, iter(["users/u/clients/d", "users/u/clients/c", "users/u"])

        def another_first(operations: Sequence[Operation], session_id: int) -> Any:
            if any(isinstance(operation, Delete) for operation in operations) and (entity := next(others, None)):
                there = entity_path(entity) in zookeeper.paths("/config")
                data = encode_config({"m": "2"})
                other = SetData(entity_path(entity), data, -1) if there else Create(entity_path(entity), data)
                commit([other], 0)
            return commit(operations, session_id)

        zookeeper.commit = another_first  # type: ignore[method-assign]
        await alter_entity(store, "users/u/clients/c", lambda settings: {k: v for k, v in settings.items() if k != "n"})
        assert await stored_settings(store, "users/u/clients/d") == {"m": "2"}
        assert await stored_settings(store, "users/u/clients/c") == {"m": "2"}

    run_virtual(main)


@pytest.mark.parametrize("lost", [ConnectionLost, SessionExpired])
def test_a_removal_whose_answer_was_lost_is_not_made_again(lost: type[StoreError]) -> None:
    """To delete a user's last credential was RESOURCE_NOT_FOUND, which it had done itself."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryZooKeeper(clock).connect()
        await store.start(1000)
        await change_entity(store, "users/u", {"SCRAM-SHA-256": "secret"})
        write = store.multi

        async def written_unheard(operations: Sequence[Operation]) -> Any:
            store.multi = write  # type: ignore[method-assign]
            await write(operations)
            raise lost(operations[0].path)

        def without(settings: dict[str, str]) -> Mapping[str, str]:
            del settings["SCRAM-SHA-256"]
            return settings

        store.multi = written_unheard  # type: ignore[method-assign]
        await alter_entity(store, "users/u", without)
        assert await store.exists(entity_path("users/u")) is None
        assert len(await store.children("/config/changes")) == 2

    run_virtual(main)


def test_settings_whose_write_is_looked_up_are_told_of_though_the_session_ends_meanwhile() -> None:
    """They stood in ZooKeeper, nobody heard of them, and the answer was an error."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1000)
        await setting(store, "segment.bytes", "1000")
        zookeeper.draw_latency_ms = lambda: 1.0
        get, reads = store.get, 0

        async def cut_off(path: str, **how: Any) -> Any:
            nonlocal reads
            reads += 1
            if reads == 2:
                clock.call_later(0.5, lambda: zookeeper.partition(store))
                clock.call_later(60_000, lambda: zookeeper.heal(store))
            found = await get(path, **how)
            if reads == 1:
                store.lose_next_answer()
            return found

        store.get = cut_off  # type: ignore[method-assign]
        await change_entity(store, ENTITY, {"n": "1"})
        assert await stored_settings(store, ENTITY) == {"n": "1"}
        assert len(await store.children("/config/changes")) == 2

    run_virtual(main)


def test_settings_whose_write_ends_with_the_session_are_told_of() -> None:
    """They stood in ZooKeeper, nobody heard of them, and the answer was an error."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryZooKeeper(clock).connect()
        await store.start(1000)
        await setting(store, "segment.bytes", "1000")
        write = store.multi

        async def written_unheard(operations: Sequence[Operation]) -> Any:
            store.multi = write  # type: ignore[method-assign]
            await write(operations)
            raise SessionExpired(operations[0].path)

        store.multi = written_unheard  # type: ignore[method-assign]
        await change_entity(store, ENTITY, {"n": "1"})
        assert await stored_settings(store, ENTITY) == {"n": "1"}
        assert len(await store.children("/config/changes")) == 2

    run_virtual(main)


@pytest.mark.parametrize("there", [True, False])
def test_settings_are_in_zookeeper_together_with_the_change_that_tells_of_them(there: bool) -> None:
    """A broker that died between the two left settings that counted with those brokers that started later. Kafka's do,
    and a seed of the simulation found it in ours."""

    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1000)
        if there:
            await setting(store, "segment.bytes", "1000")
        commit, seen = zookeeper.commit, []

        def look_behind(operations: Sequence[Operation], session_id: int) -> Any:
            results = commit(operations, session_id)
            paths = zookeeper.paths("/config")
            seen.append(
                (
                    zookeeper.data(entity_path(ENTITY)) if entity_path(ENTITY) in paths else None,
                    sum(path.startswith("/config/changes/") for path in paths),
                )
            )
            return results

        zookeeper.commit = look_behind  # type: ignore[method-assign]
        await change_entity(store, ENTITY, {"n": "1"})
        new = encode_config({"n": "1"})
        assert [changes for data, changes in seen if data == new] == [1 + there]
        assert {changes for data, changes in seen if data != new} <= {0}

    run_virtual(main)
