"""Connections and requests against a scripted broker, on virtual time."""

import asyncio
import random
from typing import Any

import pytest

from odradek.aio import Consumer, Producer
from odradek.client.admin.topics import create_topics
from odradek.client.admin.values import NewTopic
from odradek.client.calls import Deadline
from odradek.client.cluster import QUESTIONS_CONNECTION, Cluster
from odradek.client.config import AdminConfig, load
from odradek.client.connection import WAKE_AT_BYTES, Connection, connect
from odradek.client.errors import (
    BrokerUnreachable,
    ClientTimeout,
    NoBrokerReachable,
    RequestTimedOut,
    UnsupportedByBroker,
)
from odradek.client.metadata import ClusterView, MetadataNeeds, Node, PartitionInfo, TopicInfo
from odradek.client.offsets import offsets_at
from odradek.client.records import TopicPartition
from odradek.protocol.connection import framed
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.headers import encode_response
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork
from odradek.testing.virtual_pipe import PIPE_BYTES
from odradek.world.files import File
from odradek.world.tasks import Tasks


def cluster_on(network: VirtualNetwork, clock: VirtualClock, **settings: object) -> Cluster:
    config = load(AdminConfig, None, {"bootstrap_servers": "broker:9092", "client_id": "test", **settings})
    return Cluster(network.host("client"), clock, random.Random(0), config)


def test_versions_are_negotiated_and_the_highest_common_one_is_used(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, int]]:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.highest[MetadataRequest.API_KEY] = 5
        connection = await connect(network.host("client"), clock, Tasks(clock, print), "broker", 9092, "test", 1000)
        await connection.request(MetadataRequest(), MetadataResponse, 1000)
        await connection.request(MetadataRequest(), MetadataResponse, 1000, highest_version=2)
        return [(type(request).__name__, version) for request, version in broker.seen]

    assert run_virtual(main) == [("ApiVersionsRequest", 3), ("MetadataRequest", 5), ("MetadataRequest", 2)]


class InPieces:
    """An endpoint that receives what it is told to, and notes for how many bytes it was to wait."""

    peer = "broker:9092"

    def __init__(self) -> None:
        self.waits_for = [1]
        self.readable: Any = None
        self._next = b""

    def on_readable(self, callback: Any) -> None:
        self.readable = callback

    def on_writable(self, callback: Any) -> None:
        raise AssertionError("all is taken at once")

    def wake_at(self, count: int) -> None:
        self.waits_for.append(count)

    def send(self, data: Any, *, more: bool = False) -> int:
        return len(data)

    def send_file(self, file: File, position: int, length: int) -> int:
        raise AssertionError("a client sends no file")

    def receive_into(self, buffer: memoryview, /) -> int:
        size = min(len(self._next), len(buffer))
        buffer[:size], self._next = self._next[:size], self._next[size:]
        return size

    def receive(self, data: bytes) -> None:
        self._next = data
        while self._next:
            self.readable()

    def close(self, *, abandon: bool = False) -> None:
        pass


def test_the_rest_of_a_large_answer_is_waited_for() -> None:
    """Else each piece of it wakes the loop, whose thread waits for the application's then."""

    async def main(clock: VirtualClock) -> None:
        endpoint = InPieces()
        connection = Connection(endpoint, clock, "broker:9092", "test")
        asking = asyncio.ensure_future(connection.ask(MetadataRequest(), 1, 1000))
        await asyncio.sleep(0)
        wanted = MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=0, host="h" * 30_000, port=1)] * 100, controller_id=7
        )
        answer = b"".join(framed(encode_response(0, 1, wanted)))
        for at in range(0, len(answer), 1_000_000):
            endpoint.receive(answer[at : at + 1_000_000])
        received = await asking
        assert isinstance(received, MetadataResponse) and received.controller_id == 7
        lacking = [len(answer) - at for at in (1_000_000, 2_000_000, 3_000_000)]
        assert max(endpoint.waits_for) == WAKE_AT_BYTES < lacking[0]
        assert endpoint.waits_for[-2:] == [lacking[-1], 1]

    run_virtual(main)


def test_an_answer_may_have_the_records_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fetch.max.bytes above 128 MB a consumer that was far behind gave up each connection, for ever."""
    monkeypatch.setattr("odradek.client.connection.DEFAULT_MAX_RESPONSE_BYTES", 10_000)

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            world: dict[str, Any] = {
                "network": cluster.network.host("client"),
                "clock": clock,
                "bootstrap_servers": f"broker-0:{cluster.port}",
            }
            async with Producer(**world) as producer:
                await (await producer.send("t", bytes(300_000)))
            async with Consumer("t", auto_offset_reset="earliest", **world) as consumer:
                record = await consumer.getone(timeout_ms=60_000)
                assert record is not None and len(record.value) == 300_000

    run_virtual(main)


def test_what_is_asked_while_a_quota_mutes_the_connection_has_its_time_behind_that() -> None:
    """The broker reads nothing until then (KIP-219). The connection was given up before, and the request repeated on
    another one, which is not muted: a quota that was hit hard was none."""

    async def main(clock: VirtualClock) -> None:
        endpoint = InPieces()
        connection = Connection(endpoint, clock, "broker:9092", "test")

        async def asked(correlation_id: int, wait_s: float, throttle_ms: int) -> Any:
            asking = asyncio.ensure_future(connection.ask(MetadataRequest(), 3, 1000))
            await asyncio.sleep(wait_s)
            response = MetadataResponse(throttle_time_ms=throttle_ms)
            endpoint.receive(b"".join(framed(encode_response(correlation_id, 3, response))))
            return await asking

        await asked(0, 0.5, 5000)
        await asked(1, 5.5, 0)
        with pytest.raises(RequestTimedOut, match="within 1000 ms"):
            await connection.ask(MetadataRequest(), 3, 1000)

    run_virtual(main)


def test_a_request_that_cannot_be_encoded_is_in_nobodys_way(scripted_broker: Any) -> None:
    """It counted as sent: the next answer was taken for its own, and the connection broke."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        scripted_broker(network)
        connection = await connect(network.host("client"), clock, Tasks(clock, print), "broker", 9092, "test", 1000)
        text: Any = "where bytes are due"
        with pytest.raises(TypeError):
            await connection.ask(RenewDelegationTokenRequest(hmac=text), 1, 1000)
        assert connection.idle
        assert (await connection.request(MetadataRequest(), MetadataResponse, 1000)).cluster_id == "c"

    run_virtual(main)


def test_a_broker_that_knows_only_old_versions_is_asked_again_in_version_0(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> int:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.highest[ApiVersionsRequest.API_KEY] = 2
        connection = await connect(network.host("client"), clock, Tasks(clock, print), "broker", 9092, "test", 1000)
        assert connection.served[MetadataRequest.API_KEY] == (0, 12)
        return int(broker.seen[-1][1])

    assert run_virtual(main) == 0


def test_what_a_broker_does_not_serve_is_said_with_its_address(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        del broker.highest[DeleteGroupsRequest.API_KEY]
        connection = await connect(network.host("client"), clock, Tasks(clock, print), "broker", 9092, "test", 1000)
        with pytest.raises(UnsupportedByBroker, match="broker broker:9092 does not serve DeleteGroups"):
            await connection.request(DeleteGroupsRequest(), DeleteGroupsResponse, 1000)

    run_virtual(main)


def test_a_request_without_answer_times_out_and_takes_the_others_with_it(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> list[object]:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.handlers[MetadataRequest] = lambda request: None
        connection = await connect(network.host("client"), clock, Tasks(clock, print), "broker", 9092, "test", 1000)
        asked = [connection.request(MetadataRequest(), MetadataResponse, wait) for wait in (700, 5000)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert connection.closed and clock.monotonic_ms() < 1000
        return list(found)

    for error in run_virtual(main):
        assert isinstance(error, RequestTimedOut)
        assert str(error) == "broker broker:9092: no answer to MetadataRequest within 700 ms"


def test_a_connection_that_breaks_fails_its_requests_and_the_next_one_opens_another(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        cluster = cluster_on(network, clock)
        await cluster.refresh()
        broker.handlers[MetadataRequest] = lambda request: network.reset("broker")
        with pytest.raises(BrokerUnreachable, match="broker broker:9092"):
            await cluster.request(0, MetadataRequest(), MetadataResponse)
        broker.handlers[MetadataRequest] = lambda request: broker.metadata()
        assert (await cluster.request(0, MetadataRequest(), MetadataResponse)).cluster_id == "c"
        cluster.close()

    run_virtual(main)


def test_nobody_there_is_said_with_the_reason_and_attempts_back_off(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = cluster_on(VirtualNetwork(clock), clock)
        for _ in range(2):
            with pytest.raises(NoBrokerReachable, match=r"broker broker:9092: not reachable .*Connection refused"):
                await cluster.refresh()
        assert cluster.ready_in_ms(-2, QUESTIONS_CONNECTION) > 0, "the second attempt was not made: too soon"
        cluster.close()

    run_virtual(main)


def answered(code: ErrorCode) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="n", error_code=code, error_message="because")])


def test_the_controller_is_asked_again_until_it_is_one_and_refusals_are_told(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> int:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        cluster = cluster_on(network, clock)
        answers = [answered(ErrorCode.NOT_CONTROLLER), answered(ErrorCode.NOT_CONTROLLER), answered(ErrorCode.NONE)]
        broker.handlers[CreateTopicsRequest] = lambda request: answers.pop(0)
        deadline = Deadline(cluster, 5_000, "creating n", "default.api.timeout.ms")
        await create_topics(cluster, [NewTopic("n", 1, 1)], deadline, validate_only=False)
        broker.handlers[CreateTopicsRequest] = lambda request: answered(ErrorCode.TOPIC_ALREADY_EXISTS)
        with pytest.raises(KafkaError, match="n: because") as caught:
            await create_topics(cluster, [NewTopic("n", 1, 1)], deadline, validate_only=False)
        assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        cluster.close()
        return len(broker.requests(CreateTopicsRequest))

    assert run_virtual(main) == 4


def test_patience_ends_with_the_setting_and_the_last_reason(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        cluster = cluster_on(network, clock)
        broker.handlers[CreateTopicsRequest] = lambda request: answered(ErrorCode.NOT_CONTROLLER)
        deadline = Deadline(cluster, 1_000, "creating n", "default.api.timeout.ms")
        with pytest.raises(
            ClientTimeout, match=r"creating n: not done within default.api.timeout.ms=1000; last: NOT_C"
        ):
            await create_topics(cluster, [NewTopic("n", 1, 1)], deadline, validate_only=False)
        assert clock.monotonic_ms() < 1_100
        cluster.close()

    run_virtual(main)


def test_a_broker_that_says_nothing_is_waited_for_once(scripted_broker: Any) -> None:
    """The wait was repeated with the older version: who stands still does not know that one either."""

    async def main(clock: VirtualClock) -> int:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.handlers[ApiVersionsRequest] = lambda request: None
        with pytest.raises(RequestTimedOut, match="no answer to ApiVersionsRequest within 1000 ms"):
            await connect(network.host("client"), clock, Tasks(clock, print), "broker", 9092, "test", 1_000)
        assert clock.monotonic_ms() < 1_100
        return len(broker.connections)

    assert run_virtual(main) == 1


def test_a_client_that_is_closed_while_it_connects_leaves_no_socket_open(scripted_broker: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.handlers[ApiVersionsRequest] = lambda request: None
        cluster = cluster_on(network, clock)
        asking = asyncio.ensure_future(cluster.refresh())
        await asyncio.sleep(0.5)
        cluster.close()
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.sleep(0.5)
        assert [one.closed for one in broker.connections] == [True]

    run_virtual(main)


class Gate:
    """A network that connects when it is told to, and notes whether the connection was closed."""

    peer = "broker:9092"

    def __init__(self) -> None:
        self.opened: asyncio.Future[Gate] = asyncio.get_running_loop().create_future()
        self.closed = False

    def host(self, name: str) -> "Gate":
        return self

    async def connect(self, host: str, port: int) -> "Gate":
        return await self.opened

    def close(self, *, abandon: bool = False) -> None:
        self.closed = True


def test_a_broker_that_is_slow_to_connect_gets_longer_each_time() -> None:
    """A way that takes longer than the first limit was never found."""

    async def main(clock: VirtualClock) -> None:
        gate: Any = Gate()
        limits = {"socket_connection_setup_timeout_ms": 1_000, "socket_connection_setup_timeout_max_ms": 3_000}
        cluster = cluster_on(gate, clock, **limits)
        for allowed in (1_000, 2_000, 3_000, 3_000):
            await asyncio.sleep(cluster.ready_in_ms(-2, QUESTIONS_CONNECTION) / 1000 + 0.001)
            with pytest.raises(NoBrokerReachable, match=f"no connection within {allowed} ms"):
                await cluster.refresh()
            gate.opened = asyncio.get_running_loop().create_future()  # the attempt was cancelled
        cluster.close()

    run_virtual(main)


def test_a_connection_that_comes_about_just_when_its_client_is_closed_is_closed() -> None:
    """Its socket stayed open until the garbage collector found it, and warned."""

    async def main(clock: VirtualClock) -> None:
        network: Any = Gate()
        connecting = asyncio.ensure_future(connect(network, clock, Tasks(clock, print), "broker", 9092, "test", 1000))
        for _ in range(2):
            await asyncio.sleep(0)
        network.opened.set_result(network)
        await asyncio.sleep(0)  # the attempt has ended, and nobody has heard of it
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert network.closed

    run_virtual(main)


def test_offsets_are_asked_for_as_soon_as_the_leaders_are_known(scripted_broker: Any) -> None:
    """The first question waited for retry.backoff.ms before it looked for them."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        one = ListOffsetsPartitionResponse(partition_index=0, offset=4)
        answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])
        broker.handlers[ListOffsetsRequest] = lambda request: answer
        cluster = cluster_on(network, clock, retry_backoff_ms=1_000)
        deadline = Deadline(cluster, 5_000, "asking", "default.api.timeout.ms")
        found = await offsets_at(cluster, {TopicPartition("t", 0): -1}, 0, deadline)
        assert [at.offset for at in found.values() if at is not None] == [4]
        assert clock.monotonic_ms() < 500
        cluster.close()

    run_virtual(main)


def two_brokers(scripted_broker: Any, network: VirtualNetwork) -> tuple[Any, Any]:
    """Brokers 0 and 1, on hosts of their own; both say that they are the cluster."""
    brokers = [scripted_broker(network, f"broker-{number}") for number in range(2)]

    def metadata(_: MetadataRequest) -> MetadataResponse:
        nodes = [MetadataResponseBroker(node_id=n, host=f"broker-{n}", port=9092) for n in range(2)]
        return MetadataResponse(brokers=nodes, cluster_id="c", controller_id=0, topics=[])

    for broker in brokers:
        broker.handlers[MetadataRequest] = metadata
    return brokers[0], brokers[1]


@pytest.mark.parametrize("seed", range(4))
def test_a_frozen_broker_does_not_keep_the_others_metadata_back(scripted_broker: Any, seed: int) -> None:
    """A refresh that chance had sent there hung for request.timeout.ms, and all who needed one with it."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        frozen, _ = two_brokers(scripted_broker, network)
        config = load(AdminConfig, None, {"bootstrap_servers": "broker-0:9092,broker-1:9092", "client_id": "test"})
        cluster = Cluster(network.host("client"), clock, random.Random(seed), config)
        await cluster.refresh()
        frozen.handlers[MetadataRequest] = lambda _: None
        began_ms = clock.monotonic_ms()
        for _ in range(6):
            await cluster.refresh()
        assert clock.monotonic_ms() - began_ms < 1_500, "once a second, then it is known to have an open question"
        cluster.close()

    run_virtual(main)


def test_questions_do_not_wait_behind_a_request_that_takes_long(scripted_broker: Any) -> None:
    """A broker answers one request of a connection after the other: metadata waited behind a Produce with acks=all."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        cluster = cluster_on(network, clock)
        await cluster.refresh()
        broker.handlers[DeleteGroupsRequest] = lambda _: None
        slow = asyncio.ensure_future(cluster.request(0, DeleteGroupsRequest(), DeleteGroupsResponse))
        await asyncio.sleep(0.1)
        asked_on = {id(link.connection) for (_, purpose), link in cluster._links.items() if purpose == ""}
        await cluster.refresh()
        questions = {id(link.connection) for (_, purpose), link in cluster._links.items() if purpose}
        assert asked_on and questions and not asked_on & questions
        slow.cancel()
        cluster.close()

    run_virtual(main)


def test_questions_do_not_wait_behind_records_that_are_not_sent_yet(scripted_broker: Any) -> None:
    """Nobody answers a Produce with acks=0: its connection was taken for a free one, however much was still to go."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        broker.highest[ProduceRequest.API_KEY] = 9
        cluster = cluster_on(network, clock)
        await cluster.refresh()
        connection = await cluster.connection(0)
        assert cluster.free_connection(0) is not None
        network.suspend_programs("broker")
        for link in list(cluster._links.values()):
            if link.connection is not None and link.connection is not connection:
                link.connection.close()
        records = PartitionProduceData(records=bytes(2 * PIPE_BYTES))
        told = ProduceRequest(acks=0, topic_data=[TopicProduceData(name="t", partition_data=[records])])
        telling = asyncio.ensure_future(connection.send_unanswered(told, 1000))
        await asyncio.sleep(0)
        assert cluster.free_connection(0) is None
        with pytest.raises(RequestTimedOut):
            await telling
        cluster.close()

    run_virtual(main)


def test_metadata_that_cannot_be_asked_for_are_asked_for_again_soon(scripted_broker: Any) -> None:
    """Any other error than an unreachable broker made the next attempt wait for metadata.max.age.ms."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        broker = scripted_broker(network)
        cluster = cluster_on(network, clock)
        await cluster.refresh()
        served = broker.highest.pop(MetadataRequest.API_KEY)
        network.reset("broker")
        cluster.needs.stale()
        with pytest.raises(UnsupportedByBroker):
            await cluster.refresh()
        assert cluster.needs.next_at_ms() - clock.monotonic_ms() <= 1_000
        broker.highest[MetadataRequest.API_KEY] = served
        cluster.close()

    run_virtual(main)


@pytest.mark.parametrize(("expire_after_ms", "left"), [(None, ["a", "b"]), (5_000, ["b"])])
def test_a_topic_that_is_not_used_any_more_is_asked_about_no_more(
    expire_after_ms: float | None, left: list[str]
) -> None:
    needs = MetadataNeeds(300_000, 100, 1_000)
    needs.expire_after_ms = expire_after_ms
    needs.want("a", 0)
    needs.want("b", 1)
    needs.answered(5_001, complete=True)
    assert needs.topics == left


def test_what_stays_incomplete_is_asked_for_ever_less_often() -> None:
    needs = MetadataNeeds(300_000, 100, 1_000)
    needs.want("gone", 0)
    pauses = []
    for _ in range(6):
        needs.attempted(0)
        needs.answered(0, complete=False)
        pauses.append(needs.next_at_ms())
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]
    needs.attempted(0)
    needs.answered(0, complete=True)
    needs.stale()
    assert needs.next_at_ms() == 100


def test_unkeyed_records_keep_away_from_a_leader_that_cannot_be_reached() -> None:
    """All of them went to the partition of a dead leader, until buffer.memory was full of them."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        cluster = cluster_on(network, clock)
        partitions = tuple(PartitionInfo("t", n, n, 0, (n,), (n,), (), ErrorCode.NONE) for n in range(3))
        nodes = {n: Node(n, f"broker-{n}", 9092) for n in range(3)}
        cluster.view = ClusterView("c", 0, nodes, {"t": TopicInfo("t", bytes(16), False, partitions)})
        assert cluster.available_partitions("t") == (0, 1, 2)
        assert cluster.available_partitions("t") is cluster.available_partitions("t")
        with pytest.raises(BrokerUnreachable):
            await cluster.connection(1)
        assert cluster.available_partitions("t") == (0, 2)
        for node_id in (0, 2):
            with pytest.raises(BrokerUnreachable):
                await cluster.connection(node_id)
        assert cluster.available_partitions("t") == (0, 1, 2), "when none is left, all are tried"
        cluster.close()

    run_virtual(main)


def test_an_attempt_that_nobody_waits_for_any_more_is_no_unhandled_error() -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = cluster_on(VirtualNetwork(clock), clock)
        cluster._bootstrap = [Node(-1, "nobody", 9092)]
        asking = asyncio.ensure_future(cluster.connection(-1))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.sleep(0.01)
        with pytest.raises(BrokerUnreachable):
            await cluster.connection(-1)
        cluster.close()

    run_virtual(main)
