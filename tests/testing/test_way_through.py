"""The tracing of the ways: the same each time, and from one end to the other."""

import pytest

from odradek.testing.way_through import WAYS, hops, trace_way

ENDS = {
    "produce": ("broker/network/connection.py", "broker/requests/produce.py", "broker/log/segment.py"),
    "fetch": ("broker/network/connection.py", "broker/requests/fetch.py", "broker/replication/partition.py"),
    "send": ("client/aio/producer.py", "client/producer/accumulator.py", "client/connection.py"),
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
