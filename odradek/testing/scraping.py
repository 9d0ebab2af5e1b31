"""Metrics and journals of embedded brokers, asked for over their virtual network as Prometheus asks."""

import asyncio
import json
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster

METRICS_PORT = 7071


async def get(cluster: EmbeddedCluster, broker: EmbeddedBroker, target: str, method: str = "GET") -> tuple[str, bytes]:
    """Return the status line and the body of an answer."""
    endpoint = await cluster.network.host("prometheus").connect(broker.host, METRICS_PORT)
    received, ended = bytearray(), asyncio.Event()

    def take() -> None:
        buffer = bytearray(1 << 16)
        try:
            size = endpoint.receive_into(memoryview(buffer))
        except OSError:
            size = 0
        received.extend(buffer[:size])
        if not size:
            ended.set()
            endpoint.on_readable(None)

    endpoint.on_readable(take)
    endpoint.send(f"{method} {target} HTTP/1.1\r\nHost: {broker.host}\r\n\r\n".encode())
    await ended.wait()
    endpoint.close()
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), body


class Scrape:
    """Samples of one answer, by name. Prometheus' own parser has read it."""

    def __init__(self, text: str) -> None:
        self.samples: dict[str, list[Sample]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.samples.setdefault(sample.name, []).append(sample)

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the one sample that has these labels."""
        (found,) = (one for one in self.samples[name] if labels.items() <= one.labels.items())
        return float(found.value)


async def scrape(cluster: EmbeddedCluster, broker: EmbeddedBroker, query: str = "") -> Scrape:
    """Return what the broker tells Prometheus."""
    status, body = await get(cluster, broker, "/metrics" + query)
    assert status == "HTTP/1.1 200 OK", status
    return Scrape(body.decode())


async def journal(cluster: EmbeddedCluster, broker: EmbeddedBroker) -> dict[str, Any]:
    """Return what the broker remembers of what it did."""
    _, body = await get(cluster, broker, "/journal")
    told: dict[str, Any] = json.loads(body)
    return told
