"""The methods of a Cluster over HTTP, for tests in other languages.

    POST /respond   {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 3}   → {"fault": 1, "text": "…"}
    POST /wait_for  {"fault": 1}                                                        → {}
    GET  /timeline, /timeline.svg, /requests, /topics

The path names a method of Cluster, the body its arguments by name. Answers are JSON; 400 with {"error": …} where the
method raises. It listens on 127.0.0.1 only, and refuses what a web page asks for.
"""

import base64
import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from odradek.protocol.errors import KafkaError
from odradek.testing.cluster.arguments import check_types
from odradek.testing.cluster.blocking import Cluster
from odradek.testing.cluster.options import ClusterError
from odradek.testing.cluster.protocol_faults import Fault, nearest

METHODS = frozenset(
    {"create_topic", "delete_topic", "topics", "kill", "stop", "restart", "suspend", "resume", "fail_disk", "partition",
     "heal", "expire_session", "move_leader", "elect", "rebalance", "coordinator_moves", "fence", "leader", "isr",
     "controller", "is_running", "respond", "delay", "drop_answer", "drop_connection", "hold", "release", "clear",
     "wait_for", "records", "committed"}
)  # fmt: skip
BODY_BYTES_MAX = 1 << 20


class FaultsApi:
    """A server for one cluster, on a thread of its own."""

    def __init__(self, cluster: Cluster, port: int = 0) -> None:
        """Take the port; 0: a free one. Raises ClusterError when it is taken."""
        self.cluster = cluster
        self.faults: dict[int, Fault] = {}
        api = self

        class Handler(_Handler):
            owner = api

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise ClusterError(f"port {port} of 127.0.0.1 is taken: --faults-api 0 takes a free one") from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="odradek-faults", daemon=True)

    @property
    def url(self) -> str:
        """Address of the API."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def call(self, method: str, arguments: dict[str, Any]) -> Any:
        """Call a method of the cluster; what it returns, for JSON. Raises ClusterError, KafkaError, TimeoutError."""
        if method not in METHODS:
            raise ClusterError(f"no method {method!r}{nearest(method, METHODS)}")
        named = dict(arguments)
        if isinstance(named.get("assignment"), dict):
            named["assignment"] = {int(index): brokers for index, brokers in named["assignment"].items()}
        if "fault" in named:
            if type(named["fault"]) is not int or named["fault"] not in self.faults:
                raise ClusterError(f"no fault {named['fault']!r}")
            named["fault"] = self.faults[named["fault"]]
        check_types(method, getattr(Cluster, method), named)
        try:
            result = getattr(self.cluster, method)(**named)
        except TypeError as error:
            raise ClusterError(f"{method}: {str(error).rpartition('() ')[2]}") from error
        if isinstance(result, Fault):
            self.faults[result.number] = result
            return {"fault": result.number, "text": result.text}
        return for_json(result)


def for_json(value: Any) -> Any:
    """Return a value in what JSON has: bytes are text where they are UTF-8, else {"base64": …}."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: for_json(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, dict):  # of offsets, by topic and partition
        return [{"topic": topic, "partition": partition, "offset": at} for (topic, partition), at in value.items()]
    if isinstance(value, list | tuple):
        return [for_json(one) for one in value]
    return value


class _Handler(BaseHTTPRequestHandler):
    owner: FaultsApi

    def do_GET(self) -> None:
        cluster = self.owner.cluster
        match self.path:
            case "/timeline":
                self._send(200, str(cluster.timeline(requests=True)).encode(), "text/plain; charset=utf-8")
            case "/timeline.svg":
                self._send(200, cluster.timeline(requests=True).svg().encode(), "image/svg+xml")
            case "/requests":
                self._send_json(200, for_json(cluster.requests))
            case "/topics":
                self._send_json(200, cluster.topics())
            case _:
                said = f"GET {self.path}: /timeline, /timeline.svg, /requests or /topics; methods are POSTed"
                self._send_json(404, {"error": said})

    def do_POST(self) -> None:
        if self.headers.get("Origin"):
            self._send_json(403, {"error": "not for web pages"})
            return
        try:
            size = int(self.headers.get("Content-Length") or 0)
            if not 0 <= size <= BODY_BYTES_MAX:
                raise ClusterError(f"a body of {size} bytes")
            body = self.rfile.read(size) or b"{}"
            try:
                arguments = json.loads(body)
            except ValueError as error:
                raise ClusterError(
                    f'the body is not JSON ({error}): arguments by name, as in {{"broker": 1}}'
                ) from error
            if not isinstance(arguments, dict):
                raise ClusterError("the body is an object of arguments by name")
            result = self.owner.call(self.path.strip("/"), arguments)
        except Exception as error:  # noqa: BLE001 - whatever a body makes of it, its sender is to hear of it
            said = isinstance(error, (ClusterError, KafkaError, TimeoutError, ValueError))
            self._send_json(400, {"error": str(error) if said else f"{type(error).__name__}: {error}"})
        else:
            self._send_json(200, {} if result is None else result)

    def _send_json(self, status: int, value: Any) -> None:
        self._send(status, json.dumps(value).encode() + b"\n", "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""
