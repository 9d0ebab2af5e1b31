"""Every request that is served, plausible or mutated, against a whole broker, from fixed seeds."""

from typing import Any

import pytest

from odradek.broker.requests.registry import SERVED
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import API_NAMES
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.mutated_requests import Stage, mutate
from odradek.testing.plausible_requests import TOPIC, PlausibleRequests
from odradek.testing.seeds import corpus
from odradek.testing.virtual_clock import VirtualClock, run_virtual

SEEDS = range(4)
ONCE_FAILED = [(int(key), int(seed)) for seed, key in corpus("requests")]


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: API_NAMES[key])
def test_no_request_breaks_the_broker(key: int) -> None:
    for seed in SEEDS:
        assert not mutate(key, seed), f"seed {seed}"
    for api, seed in ONCE_FAILED:
        assert api != key or not mutate(key, seed), f"seed {seed}"


def test_a_request_for_two_thousand_million_partitions() -> None:
    """Refused before anything is made for each of them."""

    async def ask(clock: VirtualClock) -> tuple[int, int]:
        async with EmbeddedCluster(clock, overrides={"controlled.shutdown.enable": "false"}) as cluster:
            stage = Stage(cluster, clock, PlausibleRequests(1))
            await stage.prepare()
            topic = CreatableTopic(name="huge", num_partitions=2**31 - 1, replication_factor=1)
            created: Any = await stage.ask(CreateTopicsRequest(topics=[topic], timeout_ms=100), 7)
            more = CreatePartitionsTopic(name=TOPIC, count=2**31 - 1, assignments=None)
            grown: Any = await stage.ask(CreatePartitionsRequest(topics=[more], timeout_ms=100), 3)
            stage.peer.close()
            return created.topics[0].error_code, grown.results[0].error_code

    assert run_virtual(ask) == (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION)
