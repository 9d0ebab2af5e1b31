"""`odradek mock`: a cluster for tests in any language, its faults over HTTP."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.testing import Cluster, ClusterError
from odradek.testing.cluster.http_api import FaultsApi
from odradek.testing.patience import PATIENCE_SECONDS


@pytest.fixture
def api(cluster: Cluster) -> Iterator[FaultsApi]:
    with FaultsApi(cluster) as api:
        yield api


def post(url: str, method: str, **arguments: Any) -> Any:
    """What the method answers; {"error": …} when it refuses."""
    request = urllib.request.Request(f"{url}/{method}", json.dumps(arguments).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return json.load(refused)


def test_the_command_says_where_it_is() -> None:
    command = [sys.executable, "-m", "odradek", "mock", "--brokers", "1", "--topic", "orders:2", "--faults-api", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        producer = Producer({"bootstrap.servers": said["bootstrap"]})
        fault = post(said["faults"], "respond", api="Produce", error="NOT_LEADER_OR_FOLLOWER")
        producer.produce("orders", b"1", partition=1)
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert post(said["faults"], "wait_for", fault=fault["fault"]) == {}
        [record] = post(said["faults"], "records", topic="orders", partition=1)
        assert (record["value"], record["offset"]) == ("1", 0)
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_there_is_not_is_refused(port: str) -> None:
    command = [sys.executable, "-m", "odradek", "mock", "--faults-api", port]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert process.returncode == 2 and process.stderr.startswith("odradek: Invalid value for '--faults-api'")


def test_methods_take_their_arguments_by_name(api: FaultsApi) -> None:
    assert post(api.url, "create_topic", topic="by-http", assignment={"0": [2, 1]}) == {}
    assert post(api.url, "leader", topic="by-http") == 2
    assert post(api.url, "move_leader", topic="by-http", partition=0, to=1) == {}
    assert post(api.url, "isr", topic="by-http") == [1, 2]
    assert post(api.url, "committed", group="nobody") == []
    with urllib.request.urlopen(f"{api.url}/topics") as answer:
        assert "by-http" in json.load(answer)


BAD_USE: list[tuple[str, dict[str, Any], str]] = [
    ("wait_for", {"fault": []}, "no fault []"),
    ("wait_for", {"fault": {}}, "no fault {}"),
    ("respond", {"api": "Produce", "error": []}, "error=[]"),
    ("respond", {"api": None, "error": "UNKNOWN_SERVER_ERROR"}, "api=None"),
    ("create_topic", {"topic": 5}, "topic=5"),
    ("create_topic", {"topic": "a", "partitions": "x"}, "partitions='x'"),
    ("create_topic", {"topic": "a", "settings": 5}, "settings=5"),
    ("fence", {"transactional_id": 5}, "transactional_id=5"),
    ("delay", {"api": "Fetch", "ms": float("inf")}, "ms=inf"),
    ("kill", {"broker": [1]}, "broker=[1] is not what it takes: int"),
]


def test_bad_use_gets_one_line(api: FaultsApi, cluster: Cluster) -> None:
    assert post(api.url, "kil", broker=1) == {"error": "no method 'kil'; did you mean kill?"}
    assert post(api.url, "kill", broker=9)["error"].startswith("there is no broker 9")
    assert "unexpected keyword argument 'number'" in post(api.url, "kill", number=1)["error"]
    assert post(api.url, "wait_for", fault=77) == {"error": "no fault 77"}
    assert post(api.url, "close")["error"].startswith("no method 'close'")
    refused: Any
    for method, arguments, said in BAD_USE:
        assert said in post(api.url, method, **arguments)["error"], (method, arguments)
    for body in (b"[" * 100_000, b"5", b"\xff"):
        with pytest.raises(urllib.error.HTTPError, match="400") as refused:
            urllib.request.urlopen(urllib.request.Request(f"{api.url}/kill", body), timeout=PATIENCE_SECONDS)
        refused.value.close()
    for path, data, said in (("kill", b"broker=1", "the body is not JSON"), ("kill", None, "are POSTed")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{api.url}/{path}", data, timeout=PATIENCE_SECONDS)
        assert said in json.load(refused.value)["error"]
        refused.value.close()
    less_than_nothing = urllib.request.Request(f"{api.url}/kill", b"", {"Content-Length": "-1"})
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        urllib.request.urlopen(less_than_nothing, timeout=PATIENCE_SECONDS)
    refused.value.close()
    from_a_page = urllib.request.Request(f"{api.url}/topics", b"{}", {"Origin": "http://evil.example"}, method="POST")
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(from_a_page)
    refused.value.close()
    with pytest.raises(ClusterError, match="is taken"):
        FaultsApi(cluster, int(api.url.rpartition(":")[2]))
