"""What is sent and fetched counts for its client; whoever takes too much is told for how long nothing is read."""

from collections.abc import Hashable
from typing import Any

import pytest

from odradek.broker.network.outcomes import Reply, RequestContext, Respond, Silent, Wait
from odradek.broker.quotas.client_quotas import ClientQuotas, QuotaType
from odradek.broker.quotas.rates import RateWindows
from odradek.broker.requests.throttled import Throttled
from odradek.protocol.messages.create_topics import CreateTopicsResponse
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.messages.produce import ProduceResponse
from odradek.testing.virtual_clock import ManualClock

PRODUCE, FETCH, CREATE_TOPICS = 0, 1, 19
CONTEXT = RequestContext(7, "c", "1.2.3.4:5", "PLAINTEXT")
WINDOWS = RateWindows(11, 1000.0)


class Requests:
    """Handles requests of a client that may take 100 bytes a second: a thousand at once."""

    def __init__(self, **settings: str) -> None:
        self.quotas = quotas = ClientQuotas(ManualClock(), WINDOWS, WINDOWS)
        quotas.set_entity("clients/c", {"producer_byte_rate": "100", "consumer_byte_rate": "100", **settings})
        self.worked_ms = 0.0
        self.throttled = Throttled(quotas, lambda: self.worked_ms)

    def handle(self, outcome: Any, key: int, request: Any = None, size: int = 0, worked_ms: float = 0.0) -> Any:
        """Handle a request of so many bytes, which takes the loop so long."""

        def handler(broker: Any, request: Any, context: RequestContext) -> Any:
            self.worked_ms += worked_ms
            return outcome

        self.throttled.noting(lambda frame, at: (None, at))(memoryview(bytes(size)), 0)
        return self.throttled.around(handler, key)(None, request, CONTEXT)

    def waits_ms(self) -> dict[QuotaType, float]:
        """Return by kind of quota how long the client has had to wait on average."""
        return {kind: throttle_ms for kind, _, _, _, throttle_ms in self.quotas.uses()}


def fetched(size: int) -> FetchResponse:
    """Make an answer that counts as so many bytes."""
    data = PartitionData(partition_index=0, records=memoryview(bytes(size - 71)))
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


def test_a_produce_counts_by_its_size_whether_or_not_it_is_answered() -> None:
    requests = Requests()
    within = requests.handle(Reply(ProduceResponse()), PRODUCE, size=1000)
    assert within.throttle_ms == within.response.throttle_time_ms == 0
    above = requests.handle(Reply(ProduceResponse()), PRODUCE, size=100)
    assert above.throttle_ms == above.response.throttle_time_ms == 1000
    assert requests.handle(Silent(), PRODUCE, size=100) == Silent(throttle_ms=2000)


def test_the_longest_of_the_times_to_wait_holds() -> None:
    requests = Requests(request_percentage="1")
    of_bytes = requests.handle(Reply(ProduceResponse()), PRODUCE, size=1060, worked_ms=100)
    assert of_bytes.throttle_ms == of_bytes.response.throttle_time_ms == 600
    of_time = requests.handle(Reply(ProduceResponse()), PRODUCE, size=0, worked_ms=8)
    assert of_time.throttle_ms == of_time.response.throttle_time_ms == 800
    of_its_own = Reply(CreateTopicsResponse(throttle_time_ms=1500), 1500)
    assert requests.handle(of_its_own, CREATE_TOPICS) == Reply(CreateTopicsResponse(throttle_time_ms=1500), 1500)
    shorter = requests.handle(Reply(CreateTopicsResponse(throttle_time_ms=300), 300), CREATE_TOPICS)
    assert shorter.throttle_ms == shorter.response.throttle_time_ms == 800
    assert requests.handle(Silent(), PRODUCE, worked_ms=500) == Silent(throttle_ms=600), "not for the time"
    assert requests.handle(Reply(CreateTopicsResponse()), CREATE_TOPICS).throttle_ms == 800, "nor later"


def test_who_waits_waits_for_one_quota() -> None:
    """The one that asks for the longest time, as the metrics of Kafka's ClientQuotaManager.throttle tell."""
    requests = Requests(request_percentage="1")
    requests.handle(Reply(ProduceResponse()), PRODUCE, size=1060, worked_ms=104)
    assert requests.waits_ms() == {QuotaType.PRODUCE: 600, QuotaType.REQUEST: 0}
    requests.handle(Reply(fetched(1070)), FETCH, FetchRequest())
    assert requests.waits_ms() == {QuotaType.PRODUCE: 600, QuotaType.REQUEST: 0, QuotaType.FETCH: 700}
    requests.handle(Reply(CreateTopicsResponse(throttle_time_ms=500), 500), CREATE_TOPICS)
    assert requests.waits_ms()[QuotaType.REQUEST] == 0
    requests.handle(Reply(CreateTopicsResponse(throttle_time_ms=300), 300), CREATE_TOPICS)
    assert requests.waits_ms() == {QuotaType.PRODUCE: 600, QuotaType.REQUEST: 400, QuotaType.FETCH: 700}


def test_a_consumer_gets_at_most_what_is_had_at_once_and_waits_for_it() -> None:
    requests = Requests()
    wanted = FetchRequest(max_bytes=50_000_000)
    within = requests.handle(Reply(fetched(1000)), FETCH, wanted)
    assert wanted.max_bytes == 1000
    assert within.throttle_ms == within.response.throttle_time_ms == 0
    less = FetchRequest(max_bytes=10)
    above = requests.handle(Reply(fetched(100)), FETCH, less)
    assert less.max_bytes == 10
    assert above.throttle_ms == above.response.throttle_time_ms == 1000


@pytest.mark.parametrize(
    "follower",
    [
        FetchRequest(replica_id=2, max_bytes=5000),
        FetchRequest(replica_state=ReplicaState(replica_id=2, replica_epoch=7), max_bytes=5000),
    ],
)
def test_what_followers_fetch_is_free(follower: FetchRequest) -> None:
    requests = Requests(request_percentage="1")
    answer = Reply(fetched(5000))
    assert requests.handle(answer, FETCH, follower, worked_ms=1000) is answer
    assert follower.max_bytes == 5000
    assert requests.handle(Reply(fetched(1000)), FETCH, FetchRequest(), worked_ms=100).throttle_ms == 0


def test_what_is_fetched_counts_when_it_is_sent() -> None:
    """Until then the client may fetch elsewhere: it has not taken anything."""
    requests = Requests()
    responds: list[Respond] = []
    sent: list[tuple[Any, int]] = []
    keys: list[Hashable] = ["key"]
    waits = requests.handle(Wait(responds.append, keys, 500.0), FETCH, FetchRequest())  # type: ignore[arg-type]
    assert isinstance(waits, Wait) and waits.keys is keys and waits.timeout_ms == 500.0
    waits.start(lambda response, throttle_ms=0: sent.append((response, throttle_ms)))
    assert requests.handle(Reply(fetched(1000)), FETCH, FetchRequest()).throttle_ms == 0
    responds[0](fetched(100))
    assert sent[0][1] == sent[0][0].throttle_time_ms == 1000
    responds[0](fetched(100), 4000)
    assert sent[1][1] == 4000, "what is asked for besides"
