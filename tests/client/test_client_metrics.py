"""Sensors of clients, on a clock in the test's hand; and what a client does when all brokers that it knows are gone."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.aio import Consumer
from odradek.client.errors import ClientTimeout
from odradek.client.metrics import MetricName, Metrics, merged, raw
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork


class Bench:
    """Metrics of two windows of ten seconds."""

    def __init__(self) -> None:
        self.now_ms = 1_000.0
        clock: Any = SimpleNamespace(monotonic_ms=lambda: self.now_ms)
        self.metrics = Metrics(clock, 2, 10_000)
        self.sensor = self.metrics.sensor("g", "thing", "rate", "total", "avg", "max")

    def figures(self) -> dict[str, float]:
        return self.metrics.figures()["g"]


def test_a_sensor_tells_of_its_last_windows() -> None:
    bench = Bench()
    for value in (1, 2, 9):
        bench.sensor.record(value)
    assert bench.figures() == {"thing-rate": 1.2, "thing-total": 12, "thing-avg": 4, "thing-max": 9}
    bench.now_ms += 10_000
    bench.sensor.record(4)
    assert bench.figures() == {"thing-rate": 1.6, "thing-total": 16, "thing-avg": 4, "thing-max": 9}
    bench.now_ms += 10_000
    assert bench.figures() == {"thing-rate": 0.4, "thing-total": 16, "thing-avg": 4, "thing-max": 4}
    bench.now_ms += 10_000
    figures = bench.figures()
    assert figures["thing-rate"] == 0 and figures["thing-total"] == 16
    assert math.isnan(figures["thing-avg"]) and math.isnan(figures["thing-max"])


def test_old_windows_are_given_up() -> None:
    bench = Bench()
    for _ in range(1_000):
        bench.now_ms += 10_000
        bench.sensor.record()
    assert len(bench.sensor._windows) <= 3 and bench.sensor.total == 1_000


def test_one_name_is_one_sensor_and_figures_are_found_by_name() -> None:
    bench = Bench()
    assert bench.metrics.sensor("g", "thing") is bench.sensor
    bench.sensor.record(5)
    found = raw(merged([bench.metrics.figures(), {"g": {"more": 1}, "h": {"other": 2}}]))
    assert found[MetricName("thing-total", "g")].value() == 5
    assert (found[MetricName("more", "g")].value(), found[MetricName("other", "h")].value()) == (1, 2)


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_bootstrap_servers_are_asked_again_when_no_known_broker_can_be_reached(
    scripted_broker: Any, strategy: str
) -> None:
    """KIP-899: all brokers were replaced, and the name in bootstrap.servers leads to the new ones."""

    async def main(clock: VirtualClock) -> None:
        network = VirtualNetwork(clock)
        seed = scripted_broker(network, "seed")
        seed.name = "gone"  # metadata name a broker that nobody can connect to
        consumer = Consumer(
            bootstrap_servers="seed:9092",
            metadata_recovery_strategy=strategy,
            request_timeout_ms=500,
            network=network.host("client"),
            clock=clock,
        )
        async with consumer:
            await consumer.bootstrap()
            if strategy == "rebootstrap":
                await consumer.bootstrap(2_000, refresh=True)
            else:
                with pytest.raises(ClientTimeout, match="cannot connect"):
                    await consumer.bootstrap(2_000, refresh=True)

    run_virtual(main)
