"""The authorizer beside ZooKeeper: two brokers' copies of the lists, races for them, and the audit log."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from odradek.broker.security.acl_rules import AclRules
from odradek.broker.security.acls import Acl, AclBinding, AclFilter, AclOperation, AclPermission
from odradek.broker.security.authorizer import AclAuthorizer, host_of
from odradek.broker.security.principal import KafkaPrincipal
from odradek.protocol.errors import ErrorCode
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks
from odradek.zk_schema.znodes.acls import PatternType, ResourcePattern, ResourceType, encode_acls
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.notifications import CHANGE_EXPIRATION_MS

ALICE = KafkaPrincipal("User", "alice")
TOPIC = ResourceType.TOPIC
READ = Acl("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
WRITE = Acl("User:alice", "*", AclOperation.WRITE, AclPermission.ALLOW)
T = ResourcePattern(TOPIC, "t")
PREFIX = ResourcePattern(TOPIC, "p", PatternType.PREFIXED)


class Brokers:
    """A ZooKeeper, and the authorizers of two brokers."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.zookeeper = MemoryZooKeeper(clock)
        self.stores: list[MemoryStore] = []
        self.tasks = Tasks(clock, lambda reason: None)

    async def start(self) -> AclAuthorizer:
        self.stores.append(self.zookeeper.connect())
        await self.stores[-1].start(1000)
        authorizer = AclAuthorizer(self.stores[-1], self.clock, self.tasks, AclRules())
        await authorizer.start()
        return authorizer


def may(authorizer: AclAuthorizer, operation: AclOperation = AclOperation.READ, name: str = "t") -> bool:
    return authorizer.authorize(ALICE, "10.0.0.1", operation, TOPIC, name, "Fetch")


def test_a_change_on_one_broker_counts_on_the_other() -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one, two = await brokers.start(), await brokers.start()
        assert await one.create([AclBinding(T, READ), AclBinding(PREFIX, READ), AclBinding(T, WRITE)]) == [None] * 3
        assert may(one) and may(one, AclOperation.WRITE) and may(one, name="px")
        await asyncio.sleep(1)
        assert may(two) and may(two, AclOperation.WRITE) and may(two, name="px")
        data, _ = await brokers.stores[0].get("/kafka-acl/Topic/t")
        assert data == encode_acls(acl.entry() for acl in (READ, WRITE))
        assert (await brokers.stores[0].get("/kafka-acl-extended/prefixed/Topic/p"))[0]

        assert await two.delete([AclFilter(name="t", operation=AclOperation.READ)]) == [[(AclBinding(T, READ), None)]]
        assert await two.delete([AclFilter(pattern_type=4)]) == [[(AclBinding(PREFIX, READ), None)]]
        await asyncio.sleep(1)
        assert not may(one) and may(one, AclOperation.WRITE) and not may(one, name="px")
        assert await brokers.stores[0].exists("/kafka-acl-extended/prefixed/Topic/p") is None
        brokers.tasks.close()

    run_virtual(main)


def test_a_filter_that_names_no_resource_has_those_lists_read_that_it_takes_lines_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that removed a principal's few lines waited until the lists of all resources had been read."""

    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one = await brokers.start()
        await one.create([AclBinding(T, READ), AclBinding(PREFIX, WRITE)])
        await asyncio.sleep(1)
        read: list[str] = []
        get = brokers.stores[0].get

        async def noted(path: str) -> object:
            read.append(path)
            return await get(path)

        monkeypatch.setattr(brokers.stores[0], "get", noted)
        assert await one.delete([AclFilter(operation=AclOperation.READ)]) == [[(AclBinding(T, READ), None)]]
        assert T.path in read and PREFIX.path not in read
        brokers.tasks.close()

    run_virtual(main)


def test_what_others_have_written_at_the_same_time_stays() -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one, two = await brokers.start(), await brokers.start()
        users = [Acl(f"User:{n}", "*", AclOperation.READ, AclPermission.ALLOW) for n in range(12)]
        made = await asyncio.gather(*((one, two)[n % 2].create([AclBinding(T, acl)]) for n, acl in enumerate(users)))
        assert made == [[None]] * 12
        await asyncio.sleep(1)
        everything = {AclBinding(T, acl) for acl in users}
        assert set(one.bindings(AclFilter())) == set(two.bindings(AclFilter())) == everything
        brokers.tasks.close()

    run_virtual(main)


def test_a_list_that_is_too_large_for_zookeeper_is_refused() -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one = await brokers.start()
        many = [Acl(f"User:{n:05}{'x' * 30_000}", "*", AclOperation.READ, AclPermission.ALLOW) for n in range(40)]
        assert await one.create([AclBinding(T, acl) for acl in many[:20]]) == [None] * 20
        errors = await one.create([AclBinding(T, acl) for acl in many[20:]])
        assert [error and error.code for error in errors] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 20
        assert len(one.bindings(AclFilter())) == 20
        brokers.tasks.close()

    run_virtual(main)


def test_a_line_that_several_filters_take_in_is_told_with_the_first() -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one = await brokers.start()
        await one.create([AclBinding(T, READ), AclBinding(T, WRITE)])
        first, second, third = await one.delete(
            [AclFilter(name="t", operation=AclOperation.READ), AclFilter(name="t", pattern_type=2), AclFilter(name="u")]
        )
        assert (first, second, third) == ([(AclBinding(T, READ), None)], [(AclBinding(T, WRITE), None)], [])
        brokers.tasks.close()

    run_virtual(main)


def test_a_lost_answer_loses_no_change() -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one, two = await brokers.start(), await brokers.start()
        store = brokers.stores[0]
        creating = asyncio.ensure_future(one.create([AclBinding(T, READ)]))
        while await brokers.stores[1].exists("/kafka-acl/Topic/t") is None:
            pass
        brokers.zookeeper.partition(store)
        await asyncio.sleep(1)
        brokers.zookeeper.heal(store)
        assert await creating == [None]
        await asyncio.sleep(1)
        assert may(one) and may(two)
        brokers.tasks.close()

    run_virtual(main)


def test_what_changed_while_a_broker_was_away_is_read_when_it_is_back() -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one, two = await brokers.start(), await brokers.start()
        await one.create([AclBinding(T, READ)])
        await asyncio.sleep(1)
        brokers.zookeeper.partition(brokers.stores[1])
        await one.delete([AclFilter(name="t")])
        await one.create([AclBinding(PREFIX, READ)])
        await asyncio.sleep(20)
        assert may(two) and not may(two, name="px")
        brokers.zookeeper.heal(brokers.stores[1])
        await asyncio.sleep(2)
        assert not may(two) and may(two, name="px")
        assert not brokers.tasks.deaths
        brokers.tasks.close()

    run_virtual(main)


@pytest.mark.parametrize(
    "data", [b"{", b'{"version":2,"acls":[]}', b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny",'
             b'"operation":"Guess","host":"*"}]}'],
)  # fmt: skip
def test_a_list_that_cannot_be_understood_ends_the_start_and_changes_nothing_later(data: bytes) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one = await brokers.start()
        await one.create([AclBinding(T, READ), AclBinding(PREFIX, READ)])
        store = brokers.stores[0]
        await store.set(T.path, data)
        await store.create(T.change_prefix, T.encode_change(), sequential=True)
        await store.create(T.change_prefix, b"Nonsense:t", sequential=True)
        await one.delete([AclFilter(name="p", pattern_type=4)])
        await asyncio.sleep(1)
        assert may(one) and not may(one, name="px")
        errors = await one.create([AclBinding(T, WRITE)])
        assert [error and error.code for error in errors] == [ErrorCode.UNKNOWN_SERVER_ERROR]
        with pytest.raises(BadZnode):
            await brokers.start()
        brokers.tasks.close()

    run_virtual(main)


@pytest.mark.parametrize("write", [str.upper, str.lower, str.title])
def test_words_count_however_large_their_letters_are(write: Callable[[str], str]) -> None:
    """As at Kafka, where other programs write lists too: with such a list no broker started."""

    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one = await brokers.start()
        await one.create([AclBinding(T, READ)])
        words = (
            f'{{"principal":"User:alice","permissionType":"{write(permission)}","operation":"{write(operation)}","host":"*"}}'
            for permission, operation in (("Allow", "All"), ("Deny", "AlterConfigs"))
        )
        await brokers.stores[0].set(T.path, f'{{"version":1,"acls":[{",".join(words)}]}}'.encode())
        await brokers.stores[0].create(T.change_prefix, T.encode_change(), sequential=True)
        await asyncio.sleep(1)
        for authorizer in (one, await brokers.start()):
            assert may(authorizer, AclOperation.ALTER) and not may(authorizer, AclOperation.ALTER_CONFIGS)
        assert await one.create([AclBinding(T, WRITE)]) == [None]
        assert b'"operation":"AlterConfigs"' in (await brokers.stores[0].get(T.path))[0]
        brokers.tasks.close()

    run_virtual(main)


def test_old_changes_are_deleted() -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one = await brokers.start()
        await one.create([AclBinding(T, READ)])
        await asyncio.sleep(CHANGE_EXPIRATION_MS / 1000 + 1)
        await one.create([AclBinding(T, WRITE)])
        await asyncio.sleep(1)
        assert len(await brokers.stores[0].children("/kafka-acl-changes")) == 1
        brokers.tasks.close()

    run_virtual(main)


@pytest.mark.parametrize("name", ["a/b", "..", "a\nb", ""])
def test_names_that_are_no_part_of_a_path_are_refused(name: str) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one = await brokers.start()
        [error] = await one.create([AclBinding(ResourcePattern(TOPIC, name), READ)])
        assert error is not None and error.code is ErrorCode.INVALID_REQUEST
        assert await one.delete([AclFilter(resource_type=2, name=name, pattern_type=3)]) == [[]]
        [error] = await one.create([AclBinding(T, READ._replace(principal="alice"))])
        assert error is not None and error.code is ErrorCode.INVALID_REQUEST
        brokers.tasks.close()

    run_virtual(main)


def test_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers(clock)
        one = await brokers.start()
        await one.create([AclBinding(T, READ)])
        with caplog.at_level(logging.DEBUG, "kafka.authorizer.logger"):
            caplog.clear()
            assert may(one)
            assert not may(one, name="u\nPrincipal = User:eve is Allowed")
            one.authorize(ALICE, "h", AclOperation.DESCRIBE_CONFIGS, TOPIC, "u", "DescribeConfigs", log_if_denied=False)
            assert one.authorize(ALICE, "10.0.0.1", AclOperation.READ, TOPIC, "t", "Metadata", log_if_allowed=False)
        brokers.tasks.close()

    run_virtual(main)
    line = "Principal = User:alice is {} Operation = Read from host = 10.0.0.1 on resource = Topic:LITERAL:{} "
    line += "for request = Fetch with resourceRefCount = 1"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", line.format("Allowed", "t")),
        ("INFO", line.format("Denied", "u\\nPrincipal = User:eve is Allowed")),
    ]


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("10.0.0.1:80", "10.0.0.1"),
        ("::1:80", "0:0:0:0:0:0:0:1"),
        ("[fe80::1%eth0]:80", "fe80:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1:80", "10.0.0.1"),
        ("client:80", "client"),
    ],
)
def test_hosts_are_addresses_as_java_writes_them(peer: str, host: str) -> None:
    assert host_of(peer) == host
