"""The tracing of the ways: the same each time, and from one end to the other."""

import gc

import pytest

from odradek.aio import Producer
from odradek.broker.monitoring.observed import CollectionWatch
from odradek.testing.virtual_clock import VirtualClock, VirtualLoop
from odradek.testing.virtual_network import VirtualNetwork
from odradek.testing.way_through import WAYS, hops, trace_way

ENDS = {
    "produce": ("broker/network/connection.py", "broker/requests/produce.py", "broker/log/segment.py"),
    "fetch": ("broker/network/connection.py", "broker/requests/fetch.py", "broker/replication/partition.py"),
    "send": ("client/producer/intake.py", "client/producer/accumulator.py", "client/connection.py"),
    "poll": ("client/consumer/engine.py", "client/connection.py", "client/consumer/chunks.py"),
    "death": ("controller/controller.py", "broker/requests/leader_and_isr.py", "broker/replication/partition.py"),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_way_is_traced_from_end_to_end(name: str) -> None:
    way = trace_way(name)
    assert list(trace_way(name)) == list(way), "another run notes the same"
    files = [stop.file for stop in hops(way)]
    places = [files.index(end) for end in ENDS[name]]
    assert places == sorted(places)


def test_a_collection_that_happens_on_the_way_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python calls a broker's watch on whichever thread collects, another broker's too."""
    undisturbed = trace_way("produce")
    loop = VirtualLoop()
    watch = CollectionWatch(VirtualClock(loop))
    draw = VirtualNetwork.draw_latency_ms

    def draw_after_collection(network: VirtualNetwork, source: str) -> float:
        gc.collect(0)
        return draw(network, source)

    monkeypatch.setattr(VirtualNetwork, "draw_latency_ms", draw_after_collection)
    watch.start()
    try:
        disturbed = trace_way("produce")
    finally:
        watch.stop()
        loop.close()
    assert watch.generations[0].count
    assert list(disturbed) == list(undisturbed)


def test_clients_that_others_have_left_do_not_end_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """When Python collects depends on its version, and on what ran before."""
    undisturbed = trace_way("poll")
    draw = VirtualNetwork.draw_latency_ms

    def draw_after_collection_is_due(network: VirtualNetwork, source: str) -> float:
        left = Producer.__new__(Producer)
        left.__dict__["itself"] = left
        del left
        assert len([[] for _ in range(2 * gc.get_threshold()[0])])
        return draw(network, source)

    monkeypatch.setattr(VirtualNetwork, "draw_latency_ms", draw_after_collection_is_due)
    disturbed = trace_way("poll")
    assert list(disturbed) == list(undisturbed)
