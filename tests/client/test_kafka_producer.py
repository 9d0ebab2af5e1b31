"""KafkaProducer as an application sees it, on real sockets."""

import gc
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy
import pytest

from odradek.client.errors import BufferExhausted, ClientBroken, ClientClosed, ClientError, ConfigError
from odradek.client.metadata import ClusterView
from odradek.client.producer.client import KafkaProducer
from odradek.client.producer.intake import FLOATS_ERROR_MS
from odradek.client.records import ConsumerGroupMetadata
from odradek.protocol import compression
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.records import decode_records
from odradek.testing.forked import in_a_child

PATIENCE_S = 60


@pytest.fixture
def broker(broker_on_loopback: Any) -> Any:
    """Takes everything, at offset 0."""
    one = PartitionProduceResponse(index=0, base_offset=0)
    answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[one])])
    broker_on_loopback.handlers |= {
        InitProducerIdRequest: lambda _: InitProducerIdResponse(producer_id=7),
        ProduceRequest: lambda _: answer,
    }
    return broker_on_loopback


def producer(broker: Any, **settings: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.port}", **settings)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"value": 1}, "value_serializer must give bytes, not int"),
        ({"value": b"", "headers": [("name", "text")]}, "a header must be a string and bytes or None"),
        ({"value": b"", "headers": [(b"name", b"")]}, "a header must be a string and bytes or None"),
        ({"value": b"", "headers": ["name"]}, "a header must be a pair"),
        ({"value": b"", "headers": 5}, "headers must be pairs of a string and bytes or None, not 5"),
        ({"value": b"", "timestamp_ms": -5}, "milliseconds since 1970 must be between 0"),
        ({"value": b"", "timestamp_ms": 2**63}, "milliseconds since 1970 must be between 0 and 9223372036854775807"),
        ({"value": b"", "timestamp_ms": 0.5}, "milliseconds since 1970 must be an integer, not float"),
        ({"value": b"", "partition": "0"}, "not supported between|an integer"),
        ({"value": b"", "partition": 0.0}, "a partition's number must be an integer, not float"),
        ({"value": b"", "partition": -1}, "partition -1 of topic t: its partitions are 0-0"),
        ({"topic": b"orders"}, "a topic must be a string, not bytes"),
        ({"topic": None}, "a topic must be a string, not NoneType"),
        ({"topic": ""}, "a topic's name has 1 to 249"),
        ({"topic": "a/b"}, "a topic's name has 1 to 249"),
    ],
)
def test_what_cannot_be_encoded_is_refused_at_once_and_is_in_nobodys_way(
    broker: Any, wrong: dict[str, Any], error: str
) -> None:
    """It was found on the producer's thread, whose request then had no end: the partition stood still."""
    with producer(broker, value_serializer=lambda value: value) as sending:
        with pytest.raises((TypeError, ConfigError), match=error):
            sending.send(**{"topic": "t", **wrong})
        assert sending.send("t", b"good", headers=[("name", None)]).result(PATIENCE_S).offset == 0


def test_transactions_need_their_setting(broker: Any) -> None:
    with producer(broker) as sending:
        for call in (
            sending.init_transactions,
            sending.begin_transaction,
            sending.commit_transaction,
            sending.abort_transaction,
            lambda: sending.send_offsets_to_transaction({}, ConsumerGroupMetadata("g")),
        ):
            with pytest.raises(ClientError, match=r"_transactions?\(\) needs transactional\.id"):
                call()
    with pytest.raises(ClientClosed):
        sending.begin_transaction()


def test_a_record_before_the_first_transaction_is_refused(broker: Any) -> None:
    said = r"transactional\.id id: no send\(\) now: call init_transactions\(\) first"
    with producer(broker, transactional_id="id") as sending, pytest.raises(ClientError, match=said):
        sending.send("t", b"")


def test_a_partitioner_without_the_second_method_does_not_end_the_sending(broker: Any) -> None:
    class Half:
        def partition(self, topic: str, key: bytes | None, all_partitions: int, available: Sequence[int]) -> int:
            return 0

    with producer(broker, partitioner=Half()) as sending:
        for _ in range(3):
            assert sending.send("t", b"").result(PATIENCE_S).offset == 0


def test_a_partitioner_may_give_any_whole_number(broker: Any) -> None:
    """A compiled producer took a boolean for one, and refused numpy's."""
    given: list[Any] = [numpy.int64(0), False]
    with producer(broker, partitioner=lambda key, all_partitions, available: given.pop(0)) as sending:
        assert sending.send("t", b"").result(PATIENCE_S).partition == 0
        with pytest.raises(TypeError, match="a partition's number must be an integer, not bool"):
            sending.send("t", b"")


def test_a_topic_that_grows_while_threads_send_has_grown_for_all(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that had the former view took its partitions for the new one's: records went to no others."""
    counts: list[int] = []

    def first(key: bytes | None, every: Sequence[int], available: Sequence[int]) -> int:
        counts.append(len(every))
        return 0

    with producer(broker, partitioner=first) as sending:
        sending.send("t", b"").result(PATIENCE_S)
        cluster, places = sending._core.engine.cluster, ClusterView.places
        former = cluster.view = replace(cluster.view)
        info = former.topics["t"]
        grown = replace(former, topics={"t": replace(info, partitions=info.partitions * 2)})

        def overtaken(view: ClusterView, topic: str) -> tuple[Any, ...]:
            if view is former:
                cluster.view = grown
                sending.send("t", b"of another thread")
            return places(view, topic)

        monkeypatch.setattr(ClusterView, "places", overtaken)
        sending.send("t", b"overtaken")
        sending.send("t", b"next")
    assert counts == [1, 2, 1, 2]


def test_no_millisecond_is_lost_between_a_clocks_seconds_and_a_timestamp() -> None:
    for timestamp_ms in (*range(1_700_000_000_000, 1_700_000_010_000), *range(10**14, 10**14 + 10_000)):
        assert int(timestamp_ms / 1000.0 * 1000.0 + FLOATS_ERROR_MS) == timestamp_ms


def test_a_callback_that_flushes_is_told_that_it_may_not(broker: Any) -> None:
    """It waited for itself, for ever."""
    heard: list[Exception] = []
    with producer(broker) as sending:

        def told(metadata: object, error: object) -> None:
            try:
                sending.flush(PATIENCE_S)
            except ClientError as refused:
                heard.append(refused)

        sending.send("t", b"", callback=told).result(PATIENCE_S)
    assert [str(one) for one in heard] == ["a callback may not flush: it would wait for itself"]


def test_a_callback_that_waits_for_a_record_is_told_that_it_may_not(broker: Any) -> None:
    """The thread that it stopped was the one that delivers: without a timeout, for ever."""
    heard: list[str] = []
    with producer(broker) as sending:

        def told(metadata: object, error: object) -> None:
            following = sending.send("t", b"")
            for wait in (following.get, following.exception):
                try:
                    wait(PATIENCE_S)
                except ClientError as refused:
                    heard.append(str(refused))

        first = sending.send("t", b"", callback=told)
        assert first.result(PATIENCE_S).offset == 0
        assert first.add_callback(lambda metadata: heard.append(str(first.get().offset))).succeeded()
    assert heard == ["code on the producer's loop, such as a callback, may not block for a record: await it"] * 2 + [
        "0"
    ]


def sent_headers(broker: Any) -> list[Any]:
    found = []
    for request in broker.requests(ProduceRequest):
        columns = decode_records(request.topic_data[0].partition_data[0].records)
        found += [list(columns.headers(index)) for index in range(len(columns))]
    return found


def test_headers_are_taken_as_they_are_at_the_call(broker: Any) -> None:
    """They were kept by reference: a list that was used again gave all records of a batch the last headers."""
    headers: list[Any] = [("n", b"1")]
    with producer(broker, linger_ms=50) as sending:
        sending.send("t", b"", headers=headers)
        headers[0] = ("n", b"2")
        sending.send("t", b"", headers=headers)
        sending.send("t", b"", headers=(pair for pair in [("g", bytearray(b"3"))]))
        sending.send("t", b"", headers={"m": b"4"})
        sending.send("t", b"", headers=None).result(PATIENCE_S)
    assert sent_headers(broker) == [[("n", b"1")], [("n", b"2")], [("g", b"3")], [("m", b"4")], []]


def test_a_batch_that_cannot_be_encoded_fails_and_is_in_nobodys_way(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request had no end: it kept one of five places at that broker, and its partition stood still."""

    def fail(*_: Any, **__: Any) -> bytes:
        raise MemoryError("no room")

    with producer(broker, compression_type="gzip") as sending:
        with monkeypatch.context() as patch:
            patch.setattr(compression, "compress", fail)
            for _ in range(7):
                with pytest.raises(ClientError, match=r"t-0: 1 record\(s\) not sent: MemoryError: no room"):
                    sending.send("t", b"x").result(PATIENCE_S)
        assert sending.send("t", b"good").result(PATIENCE_S).offset == 0
        assert sending.metrics()["producer-metrics"]["requests-in-flight"] == 0


def test_a_fault_inside_fails_all_that_waits_and_every_later_call(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop ended with one line in a log: from then on nothing was sent and nothing timed out."""
    with producer(broker, linger_ms=60_000) as sending:
        waiting = sending.send("t", b"x")

        def fail(*_: Any) -> None:
            raise ZeroDivisionError("planted")

        monkeypatch.setattr(sending._core.engine, "_round", fail)
        flushing = threading.Thread(target=sending.flush)
        flushing.start()
        with pytest.raises(ClientBroken, match=r"producer .* is broken: ZeroDivisionError: planted") as raised:
            waiting.result(PATIENCE_S)
        assert isinstance(raised.value.__cause__, ZeroDivisionError) and raised.value.fatal
        flushing.join(PATIENCE_S)
        assert not flushing.is_alive()
        with pytest.raises(ClientBroken):
            sending.send("t", b"y")
        with pytest.raises(ClientBroken):
            sending.partitions_for("t")


@pytest.mark.parametrize("name", ["murmur2", "round-robin", b"sticky", 5])
def test_a_partitioner_that_there_is_not_is_refused(name: Any) -> None:
    """A text has a method `partition`, and so passed for a partitioner until the first record."""
    with pytest.raises(ConfigError, match="partitioner must be sticky, round_robin, random"):
        KafkaProducer(bootstrap_servers="127.0.0.1:1", partitioner=name)


@pytest.mark.parametrize("in_a_circle", [False, True])
def test_a_producer_that_is_dropped_says_so_once_and_delivers_what_it_has(broker: Any, in_a_circle: bool) -> None:
    sending: Any = producer(broker, linger_ms=60_000)
    if in_a_circle:
        sending.owner = [sending]
    future = sending.send("t", b"x")
    thread = sending._thread._thread
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        del sending
        gc.collect()
    assert [text for one in said if "dropped" in (text := str(one.message))] == [
        "KafkaProducer was dropped without close(): 1 record(s) not delivered"
    ]
    assert future.result(PATIENCE_S).offset == 0
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_after_a_fork_the_child_is_told_and_the_parent_goes_on(broker: Any) -> None:
    """The child has no thread for it: a send queued for ever, and woke the parent's loop."""
    with producer(broker, linger_ms=60_000) as sending:
        future = sending.send("t", b"x")

        def child() -> str:
            said = []
            for call in (lambda: sending.send("t", b"y"), lambda: future.result(PATIENCE_S), sending.flush):
                try:
                    call()
                except ClientClosed as error:
                    said.append(str(error))
            sending.close()
            return f"{len(said)}: {said[0]}"

        said = in_a_child(child)
        assert said.startswith("3: producer") and "made in another process, before a fork" in said
        sending.flush()
        assert future.result(0).offset == 0


def test_a_future_has_the_methods_of_kafka_pythons(broker: Any) -> None:
    heard: list[Any] = []
    with producer(broker) as sending:
        future = sending.send("t", b"x").add_callback(heard.append).add_errback(heard.append)
        metadata = future.get(timeout=PATIENCE_S)
        assert (future.is_done, future.succeeded(), future.failed(), future.exception()) == (True, True, False, None)
        assert heard == [metadata] and future.value == metadata
        future.add_callback(lambda *given, **named: heard.append((given, named)), 1, two=2)
        assert heard[1] == ((1, metadata), {"two": 2})


def test_callbacks_of_one_record_are_called_in_turn_whatever_one_raises(broker: Any) -> None:
    heard: list[str] = []

    def fails(metadata: Any, error: Any) -> None:
        heard.append("send")
        raise ValueError("a callback's own fault")

    with producer(broker, linger_ms=60_000) as sending:
        future = sending.send("t", b"x", callback=fails)
        future.add_callback(lambda metadata: heard.append("first")).add_both(lambda metadata: heard.append("second"))
        sending.flush(PATIENCE_S)
        future.add_both(lambda metadata: fails(metadata, None))  # this was raised here, where the record was quick
        future.add_callback(lambda metadata: heard.append("third"))
    assert heard == ["send", "first", "second", "send", "third"]


def test_what_a_transaction_block_does(broker: Any) -> None:
    with (
        producer(broker) as sending,
        pytest.raises(ClientError, match=r"begin_transaction\(\) needs transactional\.id"),
        sending.transaction(),
    ):
        pass


class FullBuffer:
    """A producer whose memory is full, of a broker that answers when it is told to, and a thread that sends more."""

    def __init__(self, broker: Any, **settings: Any) -> None:
        self._may_answer, self._waits = threading.Event(), threading.Event()
        answer = broker.handlers[ProduceRequest]
        broker.handlers[ProduceRequest] = lambda request: self._answered(answer(request))
        self.producer = producer(broker, buffer_memory=2_000, linger_ms=30_000, **settings)
        self.first = self.producer.send("t", bytes(1_500))
        self.second: list[Any] = []
        self._thread = threading.Thread(target=self._send)
        self._thread.start()
        assert self._waits.wait(PATIENCE_S), "the first record lingers although somebody waits for memory"
        assert not self.second

    def _answered(self, answer: Any) -> Any:
        self._waits.set()
        self._may_answer.wait(PATIENCE_S)
        return answer

    def _send(self) -> None:
        try:
            self.second.append(self.producer.send("t", bytes(1_500)))
        except ClientError as error:
            self.second.append(error)

    def answer(self) -> None:
        self._may_answer.set()

    def outcome(self) -> Any:
        self._thread.join(PATIENCE_S)
        return self.second[0]


@pytest.mark.parametrize("longest_ms", [60_000, 2**63 - 1])
def test_a_send_waits_until_there_is_memory(broker: Any, longest_ms: int) -> None:
    full = FullBuffer(broker, max_block_ms=longest_ms)
    full.answer()
    assert full.first.result(PATIENCE_S).offset == 0
    second = full.outcome()
    full.producer.flush()
    assert second.result(PATIENCE_S).offset == 0
    full.producer.close()


def test_a_send_that_waits_for_memory_hears_that_the_producer_is_closed(broker: Any) -> None:
    full = FullBuffer(broker)
    full.producer.close(timeout=0)
    assert isinstance(full.outcome(), ClientClosed)
    full.answer()


def test_a_send_waits_for_memory_no_longer_than_it_may(broker: Any) -> None:
    broker.handlers[ProduceRequest] = lambda _: None
    with producer(broker, buffer_memory=2_000, max_block_ms=100) as it:
        it.partitions_for("t")
        it.send("t", bytes(1_500))
        with pytest.raises(BufferExhausted, match=r"t-0: buffer.memory=2000 was full for max.block.ms=100"):
            it.send("t", bytes(1_500))
        it.close(timeout=0)
