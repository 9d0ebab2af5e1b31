"""How the image asks whether its broker is at work, where listeners want a login: at the broker's own `/ready`."""

import http.server
import importlib.util
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from odradek.broker.config import load_config
from odradek.local.ports import free_ports

DEPLOY = Path(__file__).parents[2] / "deploy"
REASONS: dict[int, bytes] = {200: b"ready\n", 503: b"not in the ISR of flights-0\n"}


@pytest.fixture
def health(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DEPLOY))
    spec = importlib.util.spec_from_file_location("health", DEPLOY / "health.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delitem(sys.modules, "entrypoint")
    return module


class Ready(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        assert self.path == "/ready"
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(REASONS[self.status])

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def broker() -> Iterator[http.server.HTTPServer]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Ready)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def trouble(health: ModuleType, folder: Path, metrics_port: int) -> str:
    settings = ["listeners=IN://127.0.0.1:9092", "listener.security.protocol.map=IN:SASL_SSL", "zookeeper.connect=z"]
    settings += ["inter.broker.listener.name=IN", f"metrics.port={metrics_port}"]
    (folder / "server.properties").write_text("\n".join(settings))
    found: str = health.what_is_wrong(load_config(str(folder / "server.properties"), []))
    return found


def test_a_broker_with_tls_is_asked_at_its_metrics_port(
    health: ModuleType, broker: http.server.HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = broker.server_address[1]
    assert trouble(health, tmp_path, port) == ""
    monkeypatch.setattr(Ready, "status", 503)
    assert trouble(health, tmp_path, port) == "not in the ISR of flights-0"
    assert "metrics.port is not set" in trouble(health, tmp_path, 0)
    with pytest.raises(OSError):
        trouble(health, tmp_path, free_ports(1)[0])
