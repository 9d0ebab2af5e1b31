"""The Producer of Kafka 0.7 and 0.8, on real sockets; its encoders and partitions; values of the SimpleConsumer."""

import gc
import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from odradek import KeyedMessage, Producer
from odradek.client.errors import ClientClosed, ClientError, ConfigError, FailedToSendMessage, QueueFull
from odradek.client.original import (
    CallbackHandler,
    EventHandler,
    FetchRequest,
    Message,
    NullEncoder,
    ProducerData,
    StringEncoder,
)
from odradek.client.original.config import settings_of
from odradek.client.original.encoders import default_partition, encode_function, hash_of_key
from odradek.client.original.producer import Delivery
from odradek.client.original.simple_consumer import SimpleConsumerCore
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.protocol.messages.fetch import FetchRequest as WireFetch
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.records import decode_records, encode_batch
from odradek.testing.forked import in_a_child
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork


@pytest.fixture
def broker(broker_on_loopback: Any) -> Any:
    """Takes everything, in the three partitions of topic t."""
    broker_on_loopback.topics = {"t": 3}
    broker_on_loopback.error = 0

    def produced(request: ProduceRequest) -> ProduceResponse | None:
        if request.acks == 0:
            return None
        parts = [
            PartitionProduceResponse(index=one.index, base_offset=0, error_code=broker_on_loopback.error)
            for one in request.topic_data[0].partition_data
        ]
        return ProduceResponse(
            responses=[TopicProduceResponse(name=request.topic_data[0].name, partition_responses=parts)]
        )

    broker_on_loopback.handlers[ProduceRequest] = produced
    return broker_on_loopback


def producer(broker: Any, **settings: Any) -> Producer:
    defaults = {"request_required_acks": 1, "serializer_class": StringEncoder, "message_send_max_retries": 0}
    return Producer(metadata_broker_list=f"127.0.0.1:{broker.port}", **{**defaults, **settings})


def written(broker: Any) -> list[tuple[int, bytes | None, bytes | None]]:
    """Partition, key and value of everything that came."""
    found = []
    for request in broker.requests(ProduceRequest):
        for one in request.topic_data[0].partition_data:
            columns = decode_records(memoryview(one.records), 0)
            found += [(one.index, key, value) for key, value in zip(columns.keys, columns.values, strict=True)]
    return found


# -- sync --------------------------------------------------------------------------------------------------------------


def test_one_and_a_list_are_sent_to_the_partition_of_their_key(broker: Any) -> None:
    with producer(broker) as sending:
        sending.send(KeyedMessage("t", "one", key="a"))
        assert written(broker) == [(97 % 3, b"a", b"one")]
        sending.send([KeyedMessage("t", "two", "b"), ProducerData("t", "c", ["three", "four"])])
    assert sorted(written(broker)[1:]) == [(0, None, b"four"), (0, None, b"three"), (2, b"b", b"two")]


def test_a_partition_key_is_not_stored(broker: Any) -> None:
    with producer(broker) as sending:
        sending.send(KeyedMessage("t", "x", partition_key="b"))
    assert written(broker) == [(98 % 3, None, b"x")]


class Time:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def keyless(*values: str) -> list[KeyedMessage]:
    return [KeyedMessage("t", value) for value in values]


def partitions_of(broker: Any, sending: Delivery, count: int) -> list[int]:
    """Send so many messages without a key, each by itself; return the partitions that they went to."""
    before = len(written(broker))
    for number in range(count):
        sending.send(keyless(str(number)))
    return [partition for partition, _, _ in written(broker)[before:]]


@pytest.fixture
def delivery(broker: Any) -> Iterator[tuple[Delivery, Time]]:
    settings = {"serializer.class": StringEncoder, "request.required.acks": 1, "message.send.max.retries": 0}
    interval = {"topic.metadata.refresh.interval.ms": 10_000}
    now_s = Time()
    sending = Delivery(
        settings_of({"metadata.broker.list": f"127.0.0.1:{broker.port}", **settings, **interval}, {}), now_s
    )
    yield sending, now_s
    sending.close()


def test_without_a_key_one_partition_is_kept_until_metadata_are_refreshed(
    broker: Any, delivery: tuple[Delivery, Time]
) -> None:
    """Each message went to another one. Source: DefaultEventHandler of Kafka 0.8, sendPartitionPerTopicCache."""
    sending, now_s = delivery
    seen = set()
    for _ in range(30):
        (kept,) = set(partitions_of(broker, sending, 4))
        seen.add(kept)
        now_s.now_s += 10.001
    assert seen == {0, 1, 2}


def test_a_partition_that_failed_or_has_lost_its_leader_is_not_kept(
    broker: Any, delivery: tuple[Delivery, Time], monkeypatch: pytest.MonkeyPatch
) -> None:
    sending, _ = delivery
    chosen = iter([2, 0, 1])
    monkeypatch.setattr(sending._random, "choice", lambda led: led[next(chosen)])
    assert partitions_of(broker, sending, 2) == [2, 2]
    broker.error = ErrorCode.INVALID_REQUIRED_ACKS
    with pytest.raises(FailedToSendMessage):
        sending.send(keyless("x"))
    broker.error = 0
    assert partitions_of(broker, sending, 2) == [0, 0]
    monkeypatch.setattr(sending, "_leaders", lambda topic, known: [False, True, True])
    assert partitions_of(broker, sending, 2) == [2, 2]


def test_a_partitioner_and_encoders_of_ones_own(broker: Any) -> None:
    class Shout:
        def to_message(self, data: str) -> Message:
            return Message(data.upper().encode())

    with producer(
        broker,
        serializer_class=Shout(),
        key_serializer_class=NullEncoder,
        partitioner_class=lambda key, count: key % count,
    ) as sending:
        sending.send(KeyedMessage("t", "loud", key=5))
    assert written(broker) == [(2, None, b"LOUD")]


def test_what_is_not_acknowledged_is_raised_with_its_messages(broker: Any) -> None:
    broker.error = 10  # MESSAGE_TOO_LARGE
    with producer(broker) as sending:
        message = KeyedMessage("t", "one", key="a")
        with pytest.raises(FailedToSendMessage, match=r"1 message.*topic t") as caught:
            sending.send(message)
        assert [one for one, _ in caught.value.failures] == [message]
        with pytest.raises(TypeError, match="StringEncoder takes text"):
            sending.send(KeyedMessage("t", b"bytes"))
        with pytest.raises(TypeError, match="KeyedMessage or ProducerData"):
            sending.send("text")  # type: ignore[arg-type]
    with pytest.raises(ClientClosed):
        sending.send(message)
    wrong = producer(broker, partitioner_class=lambda key, count: 7)
    with wrong, pytest.raises(ConfigError, match="has 3 partitions"):
        wrong.send(message)


def test_acknowledgements_are_not_waited_for_unless_asked_for(broker: Any) -> None:
    with producer(broker, request_required_acks=0) as sending:
        sending.send(KeyedMessage("t", "one", key="a"))
    wait_until(lambda: bool(broker.requests(ProduceRequest)), "the request, which nobody has waited for")
    assert [request.acks for request in broker.requests(ProduceRequest)] == [0]


def test_a_codec_may_be_for_some_topics_alone(broker: Any) -> None:
    broker.topics["other"] = 1
    with producer(broker, compression_codec="1", compressed_topics="t") as sending:
        sending.send(KeyedMessage("t", "x" * 500, key="a"))
        sending.send(KeyedMessage("other", "x" * 500, key="a"))
    sizes = {
        r.topic_data[0].name: len(r.topic_data[0].partition_data[0].records) for r in broker.requests(ProduceRequest)
    }
    assert sizes["t"] < 150 < 500 < sizes["other"]


# -- async -------------------------------------------------------------------------------------------------------------


class Seen(CallbackHandler):
    """Notes what passes, and changes a little of it."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def init(self, properties: Any) -> None:
        self.events.append(("init", properties))

    def before_enqueue(self, message: KeyedMessage) -> KeyedMessage:
        return message._replace(message=message.message + "!")

    def after_enqueue(self, message: KeyedMessage, added: bool) -> None:
        self.events.append((message.message, added))

    def after_dequeuing_existing_data(self, message: KeyedMessage) -> Sequence[KeyedMessage]:
        return [message, message] if message.message == "twice!" else [message]

    def before_sending_data(self, messages: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        self.events.append(len(messages))
        return messages

    def last_batch_before_close(self) -> Sequence[KeyedMessage]:
        return [KeyedMessage("t", "last", "a")]

    def close(self) -> None:
        self.events.append("closed")


def test_a_queue_is_emptied_in_batches_past_the_callbacks(broker: Any) -> None:
    seen = Seen()
    with producer(
        broker,
        producer_type="async",
        queue_time=60_000,
        batch_size=2,
        callback_handler=seen,
        callback_handler_props={"a": 1},
    ) as sending:
        for text in ("one", "twice", "three"):
            sending.send(KeyedMessage("t", text, key="a"))
    assert [value for _, _, value in written(broker)] == [b"one!", b"twice!", b"twice!", b"three!", b"last"]
    assert [one for one in seen.events if not isinstance(one, int)] == [
        ("init", {"a": 1}), ("one!", True), ("twice!", True), ("three!", True), "closed",
    ]  # fmt: skip
    assert [one for one in seen.events if isinstance(one, int)] == [3, 2]


def test_a_batch_goes_when_its_time_is_over(broker: Any) -> None:
    arrived = threading.Event()

    class Handler(EventHandler):
        def handle(self, messages: Sequence[KeyedMessage], send: Any) -> None:
            send(messages)
            arrived.set()

    with producer(broker, producer_type="async", queue_buffering_max_ms=20, event_handler=Handler()) as sending:
        sending.send(KeyedMessage("t", "one", key="a"))
        assert arrived.wait(PATIENCE_SECONDS)
        assert [value for _, _, value in written(broker)] == [b"one"]


def test_a_handler_may_be_given_as_its_class(broker: Any) -> None:
    """As serializers may. It was a TypeError for an argument of `init`."""
    handled: list[Any] = []

    class Handler(EventHandler):
        def handle(self, messages: Sequence[KeyedMessage], send: Any) -> None:
            handled.extend(one.message for one in messages)

    with producer(broker, producer_type="async", event_handler=Handler, callback_handler=Seen) as sending:
        sending.send(KeyedMessage("t", "one", key="a"))
    assert handled == ["one!", "last"]


@pytest.mark.parametrize("name", ["event_handler", "callback_handler"])
def test_what_is_no_handler_is_refused_in_words(broker: Any, name: str) -> None:
    with pytest.raises(ConfigError, match=name.replace("_", r"\.") + r" must be a .*, not 'my\.Handler', which lacks"):
        producer(broker, producer_type="async", **{name: "my.Handler"})


def test_a_handler_that_cannot_begin_leaves_nothing_open(broker: Any) -> None:
    class Fails(EventHandler):
        def init(self, properties: Any) -> None:
            raise ZeroDivisionError

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(ZeroDivisionError):
            producer(broker, producer_type="async", event_handler=Fails())
        gc.collect()
    assert not [one.message for one in warned if "was dropped without close()" in str(one.message)]


def test_an_event_handler_cannot_end_the_thread_that_calls_it(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody emptied the queue any more: once it was full, each send waited for ever."""

    class Exits(EventHandler):
        def handle(self, messages: Sequence[KeyedMessage], send: Any) -> None:
            if messages[0].message == "one":
                sys.exit(3)
            send(messages)

    with producer(broker, producer_type="async", batch_num_messages=1, event_handler=Exits()) as sending:
        sending.send(KeyedMessage("t", "one", key="a"), KeyedMessage("t", "two", key="a"))
    assert [value for _, _, value in written(broker)] == [b"two"]
    assert "has dropped some messages" in caplog.text


@pytest.mark.parametrize("asked", ["after_dequeuing_existing_data", "last_batch_before_close"])
@pytest.mark.parametrize("given", ["nothing", "a generator that raises"])
def test_a_callback_that_gives_no_messages_cannot_end_the_thread_that_calls_it(
    broker: Any, caplog: pytest.LogCaptureFixture, asked: str, given: str
) -> None:
    """What was queued behind it, or with it, was lost in silence, and once the queue was full, each send waited for
    ever."""
    seen, calls = Seen(), []

    def raising() -> Iterator[KeyedMessage]:
        raise ZeroDivisionError
        yield

    def answer(*message: KeyedMessage) -> Any:
        calls.append(message)
        if len(calls) > 1:
            return message
        return None if given == "nothing" else raising()

    setattr(seen, asked, answer)
    with producer(broker, producer_type="async", callback_handler=seen) as sending:
        sending.send(KeyedMessage("t", "one", key="a"), KeyedMessage("t", "two", key="a"))
    kept = [b"two!", b"last"] if asked.startswith("after") else [b"one!", b"two!"]
    assert [value for _, _, value in written(broker)] == kept
    assert "has dropped some messages" in caplog.text


def test_a_callback_that_returns_no_message_to_queue_is_told_to_the_sender(broker: Any) -> None:
    """The message was lost in silence: an observer had forgotten to return it."""

    class Observes(CallbackHandler):
        def before_enqueue(self, message: KeyedMessage) -> KeyedMessage:
            return None if message.message == "one" else message  # type: ignore[return-value]

    with producer(broker, producer_type="async", callback_handler=Observes()) as sending:
        with pytest.raises(TypeError, match="before_enqueue must return the KeyedMessage to queue, not NoneType"):
            sending.send(KeyedMessage("t", "one", key="a"))
        sending.send(KeyedMessage("t", "two", key="a"))
    assert [value for _, _, value in written(broker)] == [b"two"]


@pytest.mark.parametrize("call", ["close", "send"])
def test_a_handler_need_not_wait_for_itself(broker: Any, caplog: pytest.LogCaptureFixture, call: str) -> None:
    """Closing its producer, or queueing more than there was room for, it waited for ever, and so did all senders."""
    handling, go_on = threading.Event(), threading.Event()
    raised: list[Exception] = []

    class Impatient(EventHandler):
        def handle(self, messages: Sequence[KeyedMessage], send: Any) -> None:
            send(messages)
            if handling.is_set():
                return
            handling.set()
            assert go_on.wait(PATIENCE_SECONDS)
            try:
                sending.close() if call == "close" else sending.send(KeyedMessage("t", "three", key="a"))
            except ClientError as error:
                raised.append(error)
            ended.set()

    ended = threading.Event()
    sending = producer(broker, producer_type="async", batch_num_messages=1, queue_size=1, event_handler=Impatient())
    sending.send(KeyedMessage("t", "one", key="a"))
    assert handling.wait(PATIENCE_SECONDS)
    sending.send(KeyedMessage("t", "two", key="a"))
    go_on.set()
    assert ended.wait(PATIENCE_SECONDS)
    sending.close()
    assert [value for _, _, value in written(broker)] == [b"one", b"two"]
    (error,) = raised
    assert ("use another thread" if call == "close" else "own thread cannot wait for room") in str(error)


def test_a_full_queue_refuses_or_lets_wait(broker: Any) -> None:
    handling, go_on = threading.Event(), threading.Event()

    class Slow(EventHandler):
        def handle(self, messages: Sequence[KeyedMessage], send: Any) -> None:
            handling.set()
            assert go_on.wait(PATIENCE_SECONDS)
            send(messages)

    seen = Seen()
    settings = {"producer_type": "async", "batch_num_messages": 1, "queue_size": 1, "event_handler": Slow()}
    with producer(broker, **settings, queue_enqueue_timeout_ms=0, callback_handler=seen) as sending:
        sending.send(KeyedMessage("t", "handled", key="a"))
        assert handling.wait(PATIENCE_SECONDS)
        sending.send(KeyedMessage("t", "queued", key="a"))
        with pytest.raises(QueueFull, match=r"queue\.buffering\.max\.messages=1"):
            sending.send(KeyedMessage("t", "refused", key="a"))
        assert seen.events[-1] == ("refused!", False)
        go_on.set()
    assert [value for _, _, value in written(broker)] == [b"handled!", b"queued!", b"last"]


def test_what_is_sent_while_another_thread_closes_is_delivered_or_refused(broker: Any) -> None:
    """It was queued behind the end, and said to be: nobody took it out any more."""
    about_to_queue, go_on = threading.Event(), threading.Event()

    class Waits(CallbackHandler):
        def before_enqueue(self, message: KeyedMessage) -> KeyedMessage:
            about_to_queue.set()
            assert go_on.wait(PATIENCE_SECONDS)
            return message

    outcomes: list[Any] = []
    sending = producer(broker, producer_type="async", callback_handler=Waits())

    def send() -> None:
        try:
            outcomes.append(sending.send(KeyedMessage("t", "late", key="a")))
        except ClientClosed as error:
            outcomes.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    assert about_to_queue.wait(PATIENCE_SECONDS)
    sending.close()
    go_on.set()
    thread.join(PATIENCE_SECONDS)
    assert [type(one) for one in outcomes] == [ClientClosed] and written(broker) == []


def test_a_producer_that_is_closed_by_two_threads_has_sent_everything_when_either_goes_on(broker: Any) -> None:
    handling, go_on = threading.Event(), threading.Event()

    class Slow(EventHandler):
        def handle(self, messages: Sequence[KeyedMessage], send: Any) -> None:
            handling.set()
            assert go_on.wait(PATIENCE_SECONDS)
            send(messages)

    sending = producer(broker, producer_type="async", batch_num_messages=1, event_handler=Slow())
    sending.send(KeyedMessage("t", "one", key="a"), KeyedMessage("t", "two", key="a"))
    assert handling.wait(PATIENCE_SECONDS)
    first = threading.Thread(target=sending.close)
    first.start()
    wait_until(lambda: sending._closed, "the first close")
    threading.Timer(0.2, go_on.set).start()
    sending.close()
    assert [value for _, _, value in written(broker)] == [b"one", b"two"]
    first.join(PATIENCE_SECONDS)


def test_what_cannot_be_encoded_is_logged_and_in_nobodys_way(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    with producer(broker, producer_type="async") as sending, caplog.at_level(logging.ERROR):
        sending.send(KeyedMessage("t", b"bytes", key="a"), KeyedMessage("t", "text", key="a"))
        sending.close()
    assert [value for _, _, value in written(broker)] == [b"text"]
    assert "cannot be encoded" in caplog.text


def test_what_has_no_partition_is_logged_and_in_nobodys_way(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The messages behind it were dropped too, and nobody waited for those before it."""
    with producer(broker, producer_type="async") as sending, caplog.at_level(logging.ERROR):
        keyless = KeyedMessage("t", "no hash", partition_key=object())
        sending.send(KeyedMessage("t", "before"), KeyedMessage("a/b", "x"), keyless, KeyedMessage("t", "behind"))
        sending.close()
    assert {value for _, _, value in written(broker)} == {b"before", b"behind"}
    assert caplog.text.count("cannot be encoded or routed") == 2


def test_a_topic_that_is_missing_is_waited_for_once(broker: Any) -> None:
    """Each message waited anew: with a batch of 200 and request.timeout.ms=10 s for half an hour."""
    with producer(broker, request_timeout_ms=1000) as sending:
        missing = [KeyedMessage("missing", str(n)) for n in range(40)]
        began = time.monotonic()
        with pytest.raises(FailedToSendMessage, match=r"^40 message\(s\)") as caught:
            sending.send(missing, KeyedMessage("t", "there"))
        assert time.monotonic() - began < 40 * 1.0 / 2
    assert [one for one, _ in caught.value.failures] == missing
    assert [value for _, _, value in written(broker)] == [b"there"]


def test_a_producer_of_before_a_fork_refuses(broker: Any) -> None:
    with producer(broker, producer_type="async") as sending:

        def child() -> str:
            with pytest.raises(ClientClosed, match="before a fork"):
                sending.send(KeyedMessage("t", "x"))
            return "refused"

        assert in_a_child(child) == "refused"


def test_a_producer_that_is_dropped_warns(broker: Any) -> None:
    sending = producer(broker, producer_type="async")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of the producer inside, which goes with the caught warning
        with pytest.warns(ResourceWarning, match="Producer was dropped") as caught:
            del sending
            gc.collect()
        del caught
        gc.collect()


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch.size": 1, "batch.num.messages": 2}, "batch.num.messages is given twice"),
        ({"zk.connect": "localhost:2181"}, "zk.connect"),
        ({"producer.type": "both"}, "producer.type must be one of sync, async"),
        ({"serializer.class": "kafka.serializer.Own"}, "kafka.serializer.StringEncoder"),
        ({"partitioner.class": 5}, "partitioner.class must be"),
        ({"broker.list": "0:nowhere"}, "is not host:port"),
        ({"queue.tim": 5}, "unknown setting queue.tim"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], said: str) -> None:
    given = settings if "broker.list" in settings else {"metadata.broker.list": "a:1", **settings}
    with pytest.raises(ConfigError, match=said):
        Producer(given)


def test_both_generations_of_names_mean_the_same() -> None:
    older = {"broker.list": "0:a:1,1:b:2", "queue.time": 7, "queue.size": 8, "batch.size": 9, "socket.timeout.ms": 10}
    newer = {
        "metadata.broker.list": "a:1,b:2", "queue.buffering.max.ms": 7, "queue.buffering.max.messages": 8,
        "batch.num.messages": 9, "request.timeout.ms": 10,
    }  # fmt: skip
    with Producer(older) as one, Producer(newer) as other:
        assert one.config == other.config


def test_hashes_are_javas() -> None:
    """Values of a JVM: "hello".hashCode(), Long.hashCode(1L << 40), Arrays.hashCode(new byte[] {1, -1})."""
    assert hash_of_key("hello") == 99162322 and hash_of_key("") == 0 and hash_of_key("\U0001f600") == 1772899
    assert hash_of_key(-1) == 2**32 - 1 and hash_of_key(1 << 40) == 256
    assert hash_of_key(b"\x01\xff") == 991
    assert default_partition("polygenelubricants", 7) == 0  # its hash is Integer.MIN_VALUE
    with pytest.raises(TypeError, match="give a Partitioner"):
        hash_of_key(1.5)


def test_encoders_give_bytes_or_a_message() -> None:
    assert encode_function(lambda data: b"f" + data, "s")(b"x") == b"fx"
    with pytest.raises(TypeError, match="s must give bytes"):
        encode_function(lambda data: 5, "s")(b"x")
    with pytest.raises(ConfigError, match="must be an Encoder"):
        encode_function(5, "s")


# -- SimpleConsumer ----------------------------------------------------------------------------------------------------


def test_the_buffer_doubles_for_a_large_message(scripted_broker: Any) -> None:
    """A broker of Kafka 0.8 cuts what it sends at the limit."""
    batch = bytes(encode_batch(0, [1], [b"k"], [b"x" * 1000]))

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)

        def cut(request: WireFetch) -> FetchResponse:
            limit = request.topics[0].partitions[0].partition_max_bytes
            one = PartitionData(partition_index=0, high_watermark=1, records=batch[:limit])
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[one])])

        broker.handlers[WireFetch] = cut
        consumer = await SimpleConsumerCore("broker", 9092, network=network.host("client"), clock=clock).start()
        found = await consumer.fetch(FetchRequest("t", 0, 0, 300))
        assert [(one.offset, one.message.key) for one in found] == [(0, b"k")]
        sizes = [one.topics[0].partitions[0].partition_max_bytes for one in broker.requests(WireFetch)]
        assert sizes == [300, 600, 1200]
        await consumer.close()

    run_virtual(main)
