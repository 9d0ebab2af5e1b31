"""`odradek.testing.Cluster`: there at once, for any client, and gone without a trace."""

import asyncio
import gc
import logging
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from odradek import KafkaConsumer, KafkaProducer
from odradek.aio import Consumer as AsyncConsumer
from odradek.aio import Producer as AsyncProducer
from odradek.local.ports import free_port_range
from odradek.protocol.connection import framed
from odradek.protocol.errors import KafkaError
from odradek.protocol.headers import RequestHeader, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.testing import Cluster, ClusterError
from odradek.testing.cluster.options import Options
from odradek.testing.cluster.runners import Process, Thread
from odradek.testing.forked import in_a_child
from odradek.testing.patience import PATIENCE_SECONDS


def _produce(bootstrap: str, topic: str, *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for value in values:
            producer.send(topic, value).result(PATIENCE_SECONDS)


def _read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    settings = {"group.id": f"{topic}-readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    try:
        consumer.subscribe([topic])
        return [record.value() for record in consumer.consume(count, PATIENCE_SECONDS)]
    finally:
        consumer.close()


def test_two_libraries_write_and_read() -> None:
    with Cluster(brokers=3, topics={"orders": 2}) as cluster:
        foreign = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        foreign.produce("orders", b"foreign", partition=1)
        assert foreign.flush(PATIENCE_SECONDS) == 0
        _produce(cluster.bootstrap, "orders", b"own")
        assert sorted(_read(cluster.bootstrap, "orders", 2)) == [b"foreign", b"own"]


async def _write_and_read_in_one_loop() -> list[bytes]:
    async with Cluster(brokers=1) as cluster:
        await cluster.create_topic("orders")
        async with AsyncProducer(bootstrap_servers=cluster.bootstrap) as producer:
            await (await producer.send("orders", b"own"))
        async with AsyncConsumer("orders", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as reader:
            return [(await anext(aiter(reader))).value]


def test_in_a_coroutine() -> None:
    assert asyncio.run(_write_and_read_in_one_loop()) == [b"own"]


def test_in_a_process_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "cluster.log"
    with Cluster(brokers=1, process=True, log=log) as cluster:
        assert " INFO odradek.broker" in log.read_text()
        cluster.create_topic("orders")
        _produce(cluster.bootstrap, "orders", b"own")
        assert _read(cluster.bootstrap, "orders", 1) == [b"own"]
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            cluster.create_topic("orders")
        assert isinstance(cluster.runner, Process) and cluster.runner.pipe is not None
        # As when the process that has made it dies: nobody closes the cluster, the connection to it breaks.
        with socket.socket(fileno=os.dup(cluster.runner.pipe.fileno())) as connection:
            connection.shutdown(socket.SHUT_RDWR)
        assert cluster.runner.wait(PATIENCE_SECONDS) == 0
        with pytest.raises(ClusterError, match="closed"):
            cluster.create_topic("other")


def test_a_forked_process_holds_no_broker_up_and_ends_none() -> None:
    """It has copies of all sockets (multiprocessing forks), and the whole of the test's `with` block before it."""

    def ask_and_close() -> str:
        try:
            return str(cluster.leader("orders"))
        finally:
            cluster.close()

    with Cluster(brokers=2, topics={"orders": 1}) as cluster:
        host, _, port = cluster.bootstrap.split(",")[1].partition(":")
        waiting, ending = os.pipe()
        child = os.fork()
        if not child:
            os.close(ending)
            os.read(waiting, 1)
            os._exit(0)
        try:
            with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as connection:
                # Answered first: a connection that still waits to be accepted is reset with its listener.
                request = encode_request(RequestHeader(18, 0, 1, "test"), ApiVersionsRequest())
                connection.sendall(b"".join(framed(request)))
                assert connection.recv(1)
                cluster.kill(1)
                with connection.makefile("rb") as answer:
                    answer.read()  # the rest of it, and the end: it returns
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(port)), PATIENCE_SECONDS)
            cluster.restart(1)
            assert in_a_child(ask_and_close).startswith("ClusterError: the cluster lives in another process")
            assert cluster.leader("orders") in (0, 1)
        finally:
            os.close(ending)
            os.waitpid(child, 0)


def test_data_in_a_folder(tmp_path: Path) -> None:
    with Cluster(brokers=2, topics={"orders": 1}, data=tmp_path) as cluster:
        _produce(cluster.bootstrap, "orders", b"own")
    for broker in (0, 1):
        assert (tmp_path / f"broker-{broker}" / "orders-0" / "00000000000000000000.log").stat().st_size > 0
    with pytest.raises(ClusterError, match="another cluster"), Cluster(data=tmp_path):
        pass


def test_settings_and_topics_are_kafkas() -> None:
    with Cluster(brokers=1, settings={"auto.create.topics.enable": False}) as cluster:
        cluster.create_topic("small", partitions=2, settings={"max.message.bytes": "100"})
        with (
            KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer,
            pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"),
        ):
            producer.send("small", bytes(1000)).result(PATIENCE_SECONDS)
        cluster.delete_topic("small")
        with KafkaConsumer(bootstrap_servers=cluster.bootstrap) as consumer:
            assert "small" not in consumer.topics()
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            cluster.delete_topic("small")


def test_many_one_after_another_leave_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A few first: what is imported and compiled once, stays. What others left may go.

    Log records would hold on to errors and their frames.
    """
    caplog.set_level(logging.CRITICAL + 1, "odradek")
    for number in range(8):
        with Cluster(brokers=3, topics={"orders": 1}):
            pass
        if number == 1:
            gc.collect()
            before = _what_is_held()
    gc.collect()
    after = _what_is_held()
    assert all(now <= then for now, then in zip(after, before, strict=True)), (after, before)


def _what_is_held() -> tuple[int, int, int]:
    tasks = sum(type(one).__name__ in ("SocketLoop", "EmbeddedBroker", "HostEndpoint") for one in gc.get_objects())
    return threading.active_count(), len(os.listdir("/proc/self/fd")), tasks


def test_bad_use_gets_one_line() -> None:
    with Cluster(brokers=1) as cluster:
        port = int(cluster.bootstrap.rpartition(":")[2])
        with pytest.raises(ClusterError, match=f"port {port} of 127.0.0.1 is taken"), Cluster(brokers=1, port=port):
            pass
        with pytest.raises(ClusterError, match="started once"):
            cluster.start()
    uses: list[tuple[Callable[[], object], str]] = [
        (lambda: cluster.bootstrap, "the cluster is closed"),
        (lambda: cluster.create_topic("t"), "the cluster is closed"),
        (lambda: Cluster().bootstrap, "not started"),
        (lambda: Cluster().kill(0), "not started"),
        (lambda: Cluster(brokers=0), "at least one"),
        (lambda: Cluster(port="9092"), "port='9092': a number"),  # type: ignore[arg-type]
        (lambda: Cluster(settings=["a=b"]), "values by name"),  # type: ignore[arg-type]
        (lambda: Cluster(topics={"t": "3"}), "partitions='3': how many, a number"),  # type: ignore[dict-item]
        (lambda: Cluster(port=65_535), "ports are"),
        (lambda: Cluster(log="cluster.log"), "log is for process=True"),
        (lambda: Cluster(brokers="3"), "brokers='3': how many, a number"),  # type: ignore[arg-type]
        (lambda: Cluster(topics=["orders"]), "partitions by name"),  # type: ignore[arg-type]
        (lambda: Cluster(settings={"listeners": "PLAINTEXT://:9092"}), "listeners is the cluster's own"),
        (lambda: Cluster(settings={"log.retention.ms": "soon"}).start(), "log.retention.ms=soon: Not a number"),
        (lambda: Cluster(data="/dev/null").start(), "broker 0 cannot start: log directory"),
    ]
    for use, said in uses:
        with pytest.raises(ClusterError, match=said):
            use()
    cluster.close()


def test_one_that_is_interrupted_while_it_starts_ends() -> None:
    """Ctrl-C then took a minute."""
    runner = Thread(Options(1, {}, {}, None, 0, True, None))
    started = runner.start()
    runner.close()
    assert started.done(), "it was given up on, and goes on"
    with pytest.raises(ClusterError, match="closed"):
        runner.submit("topics", (), {})


def test_a_port_of_choice() -> None:
    port = free_port_range(1)
    with Cluster(brokers=1, port=port) as cluster:
        assert cluster.bootstrap == f"127.0.0.1:{port}"


def test_one_that_is_forgotten_warns_and_ends() -> None:
    cluster = Cluster(brokers=1).start()
    with pytest.warns(ResourceWarning, match="Cluster was dropped"):
        del cluster
        gc.collect()


def test_a_misspelt_argument_does_not_end_a_cluster_in_a_process_of_its_own() -> None:
    with Cluster(brokers=1, process=True) as cluster:
        with pytest.raises(TypeError, match=r"create_topic.*'partition'"):
            cluster.create_topic("t", partition=3)  # type: ignore[call-arg]
        cluster.create_topic("t", partitions=3)


def test_bad_use_of_a_cluster_without_living_brokers_gets_one_line() -> None:
    with Cluster(brokers=1, topics={"orders": 1}) as cluster:
        cluster.partition(0)
        cluster.kill(0)
        cluster.heal(0)
        with pytest.raises(ClusterError, match="orders-0 has no leader now"):
            cluster.records("orders")
        with pytest.raises(ClusterError, match="no broker runs"):
            cluster.fence("billing")


def test_a_fault_of_another_cluster_is_refused() -> None:
    with Cluster(brokers=1) as cluster, Cluster(brokers=1) as other:
        cluster.hold("Fetch")
        with pytest.raises(ClusterError, match="this cluster has no fault 1"):
            cluster.clear(other.delay("Fetch", 5))


@pytest.mark.parametrize("process", [False, True])
def test_who_waits_for_one_that_is_closed_meanwhile_hears_of_it(process: bool) -> None:
    """A task ended as if cancelled; with a process, after another call was given up, it waited for ever."""

    async def main() -> None:
        async with Cluster(brokers=1, topics={"t": 1}, process=process) as cluster:
            given_up, waiting = (asyncio.ensure_future(cluster.wait_for("t", records=1)) for _ in range(2))
            await cluster.topics()  # so these two have begun
            given_up.cancel()
        with pytest.raises(ClusterError, match="closed"):
            await asyncio.wait_for(waiting, PATIENCE_SECONDS)
        assert given_up.cancelled()

    asyncio.run(main())


def test_a_thread_that_waits_for_one_that_is_closed_meanwhile_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, begun = Cluster(brokers=1, topics={"t": 1}).start(), threading.Event()
    submit = cluster.runner.submit

    def told(*order: Any) -> Any:
        future = submit(*order)
        begun.set()
        return future

    monkeypatch.setattr(cluster.runner, "submit", told)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cluster.wait_for, "t", records=1)
        assert begun.wait(PATIENCE_SECONDS)
        cluster.close()
        with pytest.raises(ClusterError, match="closed"):
            waiting.result(PATIENCE_SECONDS)


@pytest.mark.parametrize("process", [False, True])
def test_one_whose_start_is_cancelled_is_closed(process: bool) -> None:
    """It ran on, and nobody could close it but the garbage collector, which blamed the test for it."""
    before = threading.enumerate()

    async def main() -> None:
        cluster = Cluster(brokers=1, process=process)
        starting = asyncio.ensure_future(cluster.__aenter__())
        await asyncio.sleep(0)  # its thread begins
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        with pytest.raises(ClusterError, match="is closed"):
            _ = cluster.bootstrap

    asyncio.run(main())
    assert not set(threading.enumerate()) - set(before)
