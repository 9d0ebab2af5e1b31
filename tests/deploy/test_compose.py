"""Files for Docker Compose that lie over docker-compose.yml, as far as no engine is needed to judge them."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


class Overlay(yaml.SafeLoader):
    """Reads the tags by which a file takes away what is in the one below it."""


Overlay.add_constructor("!reset", lambda loader, node: None)
Overlay.add_constructor("!override", lambda loader, node: loader.construct_sequence(node))


def services(file: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.load((ROOT / file).read_text(), Overlay)
    return read["services"]


def test_the_secure_cluster_publishes_no_port_where_nobody_answers() -> None:
    """Metrics are told inside of its containers alone, but their ports were published as well."""
    base, secure = services("docker-compose.yml"), services("deploy/secure.yml")
    for broker in ("broker-0", "broker-1", "broker-2"):
        assert secure[broker]["environment"]["KAFKA_METRICS_HOST"] == "127.0.0.1"
        clients, metrics = base[broker]["ports"]
        assert "METRICS" in metrics
        assert secure[broker]["ports"] == [clients]
    for node in ("zookeeper-1", "zookeeper-2", "zookeeper-3"):
        assert secure[node]["ports"] is None
