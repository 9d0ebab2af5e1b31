"""The one queue between kazoo's threads and the loop."""

import asyncio
import socket
import threading

import pytest

from odradek.zk_schema.kazoo_store.handler import DRAIN_MAX, LoopHandler, LoopQueue, SetWatches
from odradek.zk_schema.kazoo_store.values import SET_WATCHES_PATHS_MAX, BadAddress, Watched, split_connect
from odradek.zk_schema.store import WatchKind


def test_order_is_that_of_putting_and_work_made_by_work_is_part_of_it() -> None:
    async def scenario() -> None:
        done: list[object] = []
        finished = asyncio.Event()
        queue = LoopQueue(asyncio.get_running_loop())
        count = 2 * DRAIN_MAX + 10

        def fill() -> None:
            for number in range(count):
                queue.put(lambda number=number: queue.put(lambda: done.append(number)))  # type: ignore[misc]
            queue.put(finished.set)

        thread = threading.Thread(target=fill)
        thread.start()
        await finished.wait()
        thread.join()
        assert done == list(range(count))

    asyncio.run(scenario())


def test_work_that_fails_does_not_stop_the_rest() -> None:
    async def scenario() -> None:
        problems: list[object] = []
        finished = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))
        queue = LoopQueue(loop)
        queue.put(lambda: 1 / 0)
        queue.put(finished.set)
        await finished.wait()
        assert [type(problem) for problem in problems] == [ZeroDivisionError]

    asyncio.run(scenario())


def test_what_is_put_after_the_loop_has_ended_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    queue = LoopQueue(loop)
    loop.close()
    queue.put(lambda: 1 / 0)


def test_a_silence_that_has_ended_still_counts_until_the_next_session() -> None:
    loop = asyncio.new_event_loop()
    handler = LoopHandler(LoopQueue(loop), connect_seconds=lambda: 1.0)
    here, there = handler.create_socket_pair()
    server, client = socket.socketpair()
    try:
        handler._last_heard -= 60
        there.send(b"x")
        assert handler.select([here, client], [], [], 5)[0] == [here]
        assert handler.silence_ms() > 59_000
        server.send(b"x")
        here.recv(1)
        assert handler.select([here, client], [], [], 5)[0] == [client]
        handler.note_word()
        assert handler.silence_ms() > 59_000
        handler.begin_listening()
        assert handler.silence_ms() < 10_000
    finally:
        for one in (here, there, server, client):
            one.close()
        loop.close()


def test_set_watches_as_zookeeper_reads_it() -> None:
    request = SetWatches(5, ["/a"], [], ["/b", "/c"])
    assert request.type == 101
    assert bytes(request.serialize()) == (
        b"\0\0\0\0\0\0\0\x05\0\0\0\x01\0\0\0\x02/a\0\0\0\0\0\0\0\x02\0\0\0\x02/b\0\0\0\x02/c"
    )


def test_watches_that_are_out() -> None:
    watched = Watched()
    watched.existing("/a")
    watched.existing_or_not("/b", None)
    watched.children("/a")
    assert list(watched.requests(9)) == [
        SetWatches(9, ["/a"], [], []),
        SetWatches(9, [], ["/b"], []),
        SetWatches(9, [], [], ["/a"]),
    ]
    watched.existing_or_not("/b", object())
    watched.fired(WatchKind.CHANGED, "/a")
    assert list(watched.requests(9)) == [SetWatches(9, ["/b"], [], []), SetWatches(9, [], [], ["/a"])]
    watched.fired(WatchKind.DELETED, "/a")
    watched.clear()
    assert list(watched.requests(9)) == []
    for number in range(SET_WATCHES_PATHS_MAX + 1):
        watched.existing(f"/{number:05}")
    assert [len(request.data) for request in watched.requests(1)] == [SET_WATCHES_PATHS_MAX, 1]


def test_connect_strings() -> None:
    assert split_connect("a:1,b:2") == ("a:1,b:2", "")
    assert split_connect("a:1,b:2/") == ("a:1,b:2", "")
    assert split_connect("a:1/kafka/one/") == ("a:1", "/kafka/one")
    assert split_connect("a, [::1]:2181/k") == ("a, [::1]:2181", "/k")


@pytest.mark.parametrize("address", ["a:1/b//c", "a:1//b", "a:1/b/../c", "a:1/.", "a:1/b\x00"])
def test_a_chroot_that_is_no_path_is_refused(address: str) -> None:
    with pytest.raises(BadAddress, match="is not the path of a znode"):
        split_connect(address)


@pytest.mark.parametrize(
    "address",
    [
        *("nonsense::", "a:b", "", "a:1,,b:2", "a b:1", "a:123456", "a:65536", "a:1,b:0"),
        *("a:1,b..c:2", f"{'a' * 64}:1", "[1.2.3.4]:1", "[12:34]:1"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_in_a_line(address: str) -> None:
    with pytest.raises(BadAddress, match="is not host:port"):
        split_connect(address)
