"""Connectors in processes and threads on a real cluster: members that die, leave and join, brokers that die."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from odradek import (
    Blacklist,
    ClientError,
    ConsumerConnector,
    ConsumerTimeout,
    DeserializationError,
    KafkaProducer,
    Whitelist,
)
from odradek.cli.main import run
from odradek.client.errors import ClientTimeout
from odradek.client.zookeeper.streams import MessageStream
from odradek.local.ports import free_ports
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.up import UpCluster

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster]


Group = Any
"""conftest.ReadingGroup."""


def test_members_die_leave_and_join(group: Group) -> None:
    members = [group.start() for _ in range(3)]
    wait_until(lambda: all(one.ready for one in members), "three members")
    group.send_and_wait(900, "by three")
    members[0].kill()
    group.send_and_wait(900, "the dead member's partitions are read by others")
    after_the_death = group.repeated
    new = group.start()
    wait_until(lambda: new.ready, "another member")
    group.send_and_wait(900, "by old and new")
    assert new.read, "the new one has its part"
    members[1].end()
    group.send_and_wait(900, "what the leaver had is read by others")
    members[2].end()
    new.end()
    assert group.repeated == after_the_death, "repeated only after the death, if at all"
    group.check_order()


def test_the_leader_dies(cluster: UpCluster, group: Group) -> None:
    member = group.start()
    wait_until(lambda: member.ready, "a member")
    group.send_and_wait(90, "in peace")
    cluster.kill(2)
    group.send_and_wait(90, "from the new leaders")
    cluster.start(2)
    member.end()
    assert [value for _, _, value in sorted(member.read)] == [
        value for partition in range(9) for value in range(partition, 180, 9)
    ], "everything once and in order"


@pytest.fixture
def connect(cluster: UpCluster) -> Iterator[Callable[..., ConsumerConnector]]:
    """Connectors that are shut down whatever happens."""
    made: list[ConsumerConnector] = []

    def make(group: str, **settings: Any) -> ConsumerConnector:
        given: dict[str, Any] = {"auto_offset_reset": "smallest", "rebalance_backoff_ms": 300}
        given |= {"consumer_timeout_ms": int(PATIENCE_SECONDS * 1000), "zookeeper_session_timeout_ms": 10_000}
        given |= settings
        made.append(ConsumerConnector.create(zookeeper_connect=cluster.zookeeper, group_id=group, **given))
        return made[-1]

    yield make
    for one in made:
        one.shutdown()


def take(stream: MessageStream, count: int) -> list[int]:
    return [int(next(stream).value) for _ in range(count)]


def take_at_last(stream: MessageStream) -> int:
    """Read one message, however often the stream's timeout comes before it."""
    found: list[int] = []

    def read() -> bool:
        with suppress(ConsumerTimeout):
            found.extend(take(stream, 1))
        return bool(found)

    wait_until(read, "a message")
    return found[0]


@pytest.fixture
def describe(cluster: UpCluster, capsys: pytest.CaptureFixture[str]) -> Callable[[str], dict[str, Any]]:
    """Ask the command line about a group."""

    def ask(group: str) -> dict[str, Any]:
        places = ["--zookeeper", cluster.zookeeper, "--bootstrap-server", cluster.bootstrap]
        assert run(["groups", "list", *places]) == 0 and group in capsys.readouterr().out.split()
        assert run(["groups", "describe", "no-such-group", *places]) == 1
        assert "there is no group no-such-group in the ZooKeeper at" in capsys.readouterr().err
        assert run(["groups", "describe", "--members", group, *places]) == 0
        assert f"group {group}: in ZooKeeper, 1 member(s)" in capsys.readouterr().out
        assert run(["groups", "describe", group, "--json", *places]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return found[0]

    return ask


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_what_is_committed_is_not_read_again(
    storage: str,
    producer: KafkaProducer,
    new_topic: Callable[..., str],
    connect: Callable[..., ConsumerConnector],
    describe: Callable[[str], dict[str, Any]],
) -> None:
    topic = new_topic(partitions=1)
    for value in range(30):
        producer.send(topic, value=str(value).encode(), partition=0)
    producer.flush()
    settings = {"offsets_storage": storage, "auto_commit_enable": False}
    first = connect(f"g-commit-{storage}", **settings)
    (stream,) = first.create_message_streams({topic: 1})[topic]
    assert take(stream, 10) == list(range(10))
    first.commit_offsets()
    shown = describe(f"g-commit-{storage}")
    assert shown["partitions"] == [
        {"topic": topic, "partition": 0, "committed": 10, "log_end_offset": 30, "lag": 20, "member": owner}
        for owner in [f"{one}-0" for one in shown["members"]]
    ]
    assert take(stream, 5) == list(range(10, 15))
    first.shutdown()
    with pytest.raises(StopIteration):
        next(stream)

    second = connect(f"g-commit-{storage}", **settings)
    (stream,) = second.create_message_streams({topic: 1})[topic]
    assert take(stream, 20) == list(range(10, 30))
    second.commit_offsets({(topic, 0): 3})
    second.shutdown()

    third = connect(f"g-commit-{storage}", **{**settings, "auto_commit_enable": True})
    (stream,) = third.create_message_streams({topic: 1})[topic]
    assert take(stream, 27) == list(range(3, 30)), "rewound"
    third.shutdown()

    moved = connect(f"g-commit-{storage}", offsets_storage="zookeeper", consumer_timeout_ms=700)
    (stream,) = moved.create_message_streams({topic: 1})[topic]
    with pytest.raises(ConsumerTimeout, match=r"consumer\.timeout\.ms=700"):
        next(stream)
    producer.send(topic, value=b"30", partition=0).get(PATIENCE_SECONDS)
    assert take_at_last(stream) == 30, "a stream can be read on after its timeout"


def test_from_zookeeper_to_kafka(
    producer: KafkaProducer, new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]
) -> None:
    topic = new_topic(partitions=1)
    for value in range(10):
        producer.send(topic, value=str(value).encode(), partition=0)
    producer.flush()
    for first, settings in (
        (0, {"offsets_storage": "zookeeper"}),
        (2, {"offsets_storage": "kafka"}),
        (4, {"offsets_storage": "kafka", "dual_commit_enabled": False}),
        (6, {"offsets_storage": "kafka"}),
        (8, {"offsets_storage": "zookeeper"}),
    ):
        one = connect("g-migrate", **settings)
        (stream,) = one.create_message_streams({topic: 1})[topic]
        assert take(stream, 2) == [first, first + 1]
        one.shutdown()


def test_streams_of_a_filter_hear_of_new_topics(
    producer: KafkaProducer, new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]
) -> None:
    first = new_topic("-1", partitions=2)
    connector = connect("g-filter")
    pattern = first.removesuffix("1") + "."
    (stream,) = connector.create_message_streams_by_filter(Whitelist(pattern))
    producer.send(first, value=b"1", partition=1, key=b"k", timestamp_ms=1_700_000_000_000).get(PATIENCE_SECONDS)
    message = next(stream)
    assert (message.topic, message.partition, message.offset) == (first, 1, 0)
    assert (message.key, message.value, message.timestamp_ms) == (b"k", b"1", 1_700_000_000_000)
    second = new_topic("-2", partitions=1)
    producer.send(second, value=b"2", partition=0).get(PATIENCE_SECONDS)
    assert next(stream).topic == second
    connector.shutdown()
    other = connect("g-filter", consumer_timeout_ms=300)
    (stream,) = other.create_message_streams_by_filter(Blacklist(pattern + "|test.*|[a-z].*"), 1)
    with pytest.raises(ConsumerTimeout):
        next(stream)


def test_decoders_make_keys_and_values_and_what_they_raise_is_told(
    producer: KafkaProducer, new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]
) -> None:
    topic = new_topic(partitions=1)
    for key, value in ((b"k", b"1"), (None, None), (b"k", b"no number"), (b"k", b"4")):
        producer.send(topic, value=value, key=key, partition=0)
    producer.flush()
    for number, by_filter in enumerate((False, True)):
        connector = connect(f"g-decoders-{number}")
        if by_filter:
            (stream,) = connector.create_message_streams_by_filter(topic, 1, bytes.decode, int)
        else:
            (stream,) = connector.create_message_streams({topic: 1}, key_decoder=bytes.decode, value_decoder=int)[topic]
        assert [(one.key, one.value) for one in (next(stream), next(stream))] == [("k", 1), (None, None)]
        with pytest.raises(DeserializationError, match="no number"):
            next(stream)
        connector.shutdown()


def test_shutdown_ends_a_waiting_iteration(
    new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]
) -> None:
    topic = new_topic(partitions=1)
    connector = connect("g-end", consumer_timeout_ms=-1)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    seen: list[list[object]] = []
    reader = threading.Thread(target=lambda: seen.append(list(stream)))
    reader.start()
    connector.shutdown()
    reader.join(PATIENCE_SECONDS)
    assert seen == [[]]


def test_streams_are_created_once(new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]) -> None:
    topic = new_topic(partitions=1)
    connector = connect("g-once")
    connector.create_message_streams({topic: 1})
    with pytest.raises(ClientError, match="already"):
        connector.create_message_streams({topic: 1})


class CommittingListener:
    """Commits what was handed out before its partitions go to others, once its connector is there."""

    def __init__(self) -> None:
        self.connector: ConsumerConnector | None = None
        self.released: list[dict[str, set[int]]] = []

    def before_releasing_partitions(self, ownership: dict[str, set[int]]) -> None:
        assert self.connector is not None
        self.connector.commit_offsets()
        self.released.append(ownership)

    def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
        assert all(thread.startswith("g-listener_") for threads in assignment.values() for thread in threads.values())


def test_what_a_listener_commits_before_a_rebalance_comes_to_nobody_again(
    producer: KafkaProducer, new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]
) -> None:
    topic = new_topic(partitions=2)
    for number in range(6):
        producer.send(topic, value=str(number).encode(), partition=number % 2).get(PATIENCE_SECONDS)
    first = connect("g-listener", auto_commit_enable=False)
    listener = CommittingListener()
    listener.connector = first
    with pytest.raises(TypeError, match="needs a method before_releasing_partitions"):
        first.set_consumer_rebalance_listener(object())  # type: ignore[arg-type]
    first.set_consumer_rebalance_listener(listener)
    (mine,) = first.create_message_streams({topic: 1})[topic]
    with pytest.raises(ClientError, match="set the listener before that"):
        first.set_consumer_rebalance_listener(listener)
    assert sorted(take(mine, 6)) == list(range(6))
    second = connect("g-listener", auto_commit_enable=False)
    (theirs,) = second.create_message_streams({topic: 1})[topic]
    wait_until(lambda: listener.released == [{topic: {0, 1}}], "the first member gives up its partitions")
    for number in (6, 7):
        producer.send(topic, value=str(number).encode(), partition=number % 2).get(PATIENCE_SECONDS)
    assert sorted((take_at_last(mine), take_at_last(theirs))) == [6, 7]


def test_no_zookeeper_is_said_at_once() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ClientTimeout, match=r"zookeeper\.connection\.timeout\.ms=300"):
        ConsumerConnector.create(
            zookeeper_connect=f"127.0.0.1:{port}", group_id="g", zookeeper_connection_timeout_ms=300
        )


def test_a_connector_that_is_shut_down_by_two_threads_has_left_when_either_goes_on(
    new_topic: Callable[..., str], connect: Callable[..., ConsumerConnector]
) -> None:
    """The second returned at once. Where the program ended then, nothing was committed."""
    connector = connect("g-twice")
    connector.create_message_streams({new_topic(): 1})
    closing, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    close = connector._core.close

    async def slow_close(*, in_hand: bool) -> None:
        closing.set()
        await asyncio.to_thread(go_on.wait, PATIENCE_SECONDS)
        await close(in_hand=in_hand)
        ended.set()

    connector._core.close = slow_close  # type: ignore[method-assign]
    first = threading.Thread(target=connector.shutdown)
    first.start()
    assert closing.wait(PATIENCE_SECONDS)
    threading.Timer(0.2, go_on.set).start()
    connector.shutdown()
    assert ended.is_set()
    first.join(PATIENCE_SECONDS)
