"""The same requests to Apache Kafka 3.9.1 and to Odradek, and where the answers differ.

    python bench/beside_kafka.py --seed 1 --requests 1500
    python bench/beside_kafka.py --apis JoinGroup,SyncGroup,Heartbeat,LeaveGroup

Random requests of every API that both advertise, of names and numbers that mean something to the brokers asked
(odradek/testing/plausible_requests.py), one after the other. Both begin with empty directories and the same settings,
so that what one request does counts for the next. Ids that a broker draws for itself (of members, topics, sessions,
producers) are paired where they first stand in the same place; in a request to the other broker its own stand.

Not compared: times, sizes, addresses, texts for people. Each kind of difference is printed once, with its request.
A difference is a place to look: Kafka's broker ends connections and answers UNKNOWN_SERVER_ERROR where ours says
what is wrong, and groups wait in real time, which passes for one after the other.
"""

import argparse
import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import this_tree  # noqa: F401

from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.protocol.fields import Message, Struct
from odradek.protocol.headers import API_NAMES, message_classes
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.primitives import ZERO_UUID
from odradek.testing.beside.playing import prepare
from odradek.testing.foreign.kafka_jars import kafka_jars
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.foreign.stage import Stage
from odradek.testing.plausible_requests import PlausibleRequests

JARS = Path(__file__).resolve().parent.parent / ".cache" / "kafka-3.9"
ANSWER_SECONDS = 4.0
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
    "group.min.session.timeout.ms": "1000",
}
LEFT_OUT = {
    *("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "WriteTxnMarkers", "AlterPartition"),
    *("AllocateProducerIds", "Envelope", "SaslHandshake", "SaslAuthenticate", "CreateDelegationToken"),
    *("DescribeAcls", "CreateAcls", "DeleteAcls"),
}
"""What brokers ask each other, what begins a connection, and access lists, which tests compare by themselves."""
DRAWN = {"member_id", "topic_id", "session_id", "leader", "producer_id"}
"""Fields of ids that a broker draws for itself."""
NUMBERS_DRAWN = {"session_id", "producer_id"}
NOT_COMPARED = {
    *("throttle_time_ms", "error_message", "documentation", "cluster_id", "host", "port", "client_host", "log_dir"),
    *("log_append_time_ms", "last_timestamp", "start_timestamp", "transaction_start_time_ms"),
    *("total_bytes", "usable_bytes", "partition_size", "finalized_features_epoch"),
}
KEYS = ("index", "partition_index", "partition_id", "partition", "name", "topic", "topic_name", "group_id",
        "resource_name", "resource_type", "transactional_id", "user", "entity_type", "entity_name", "path")  # fmt: skip
"""Fields by which an element of an array is known among the others."""
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
"""A consumer's, of no topics: what Kafka cannot read there keeps its group in a rebalance for ever."""


class Broker:
    """A connection to one broker, opened again when it was closed."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: RawConnection | None = None

    def ask(self, request: Message, version: int) -> Any:
        """Return the answer; a word when there is none."""
        if self._connection is None:
            self._connection = RawConnection(self._address)
            self._connection._socket.settimeout(ANSWER_SECONDS)
        try:
            return self._connection.ask(request, version)
        except (EOFError, OSError) as error:
            self._connection.close()
            self._connection = None
            return "no answer" if isinstance(error, TimeoutError) else "closed"

    def served(self) -> dict[int, tuple[int, int]]:
        answer = self.ask(ApiVersionsRequest(), 0)
        return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


NONE = frozenset({-1, "", ZERO_UUID})
"""What stands for no id."""


class Pairs:
    """Ids of the first broker, and those that the second has in their place."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Any], Any] = {}

    def same(self, name: str, first: Any, second: Any) -> bool:
        """Tell whether they may stand for each other, as they do from now on."""
        if name not in DRAWN or type(first) is not type(second) or not NONE.isdisjoint((first, second)):
            return False
        return bool(self._known.setdefault((_kind(name, first), first), second) == second)

    def translated(self, value: Any, name: str = "") -> Any:
        """Return what the second broker is to be asked."""
        if isinstance(value, Struct):
            for line in value.FIELDS:
                setattr(value, line.name, self.translated(getattr(value, line.name), line.name))
            return value
        if isinstance(value, list):
            return [self.translated(one, name) for one in value]
        if isinstance(value, str | bytes) or name.removeprefix("v3_and_below_") in NUMBERS_DRAWN:
            return self._known.get((_kind(name.removeprefix("v3_and_below_"), value), value), value)
        return value


def _kind(name: str, value: Any) -> str:
    return name if isinstance(value, int) else type(value).__name__


def key_of(value: Any) -> str:
    """Return what an element of an array is known by; all of it where it has no name."""
    found = [getattr(value, name) for name in KEYS if hasattr(value, name)] if isinstance(value, Struct) else []
    return repr(found or value)


def without_repetitions(value: Any) -> Any:
    """Leave out whatever comes twice, and what names no partition: makes differ in what they make of that."""
    if isinstance(value, Struct):
        for line in value.FIELDS:
            setattr(value, line.name, without_repetitions(getattr(value, line.name)))
        return value
    if not isinstance(value, list):
        return value
    kept: dict[str, Any] = {}
    for one in map(without_repetitions, value):
        if [] not in [getattr(one, name, None) for name in ("partitions", "partition_data", "partition_indexes")]:
            kept.setdefault(key_of(one), one)
    return list(kept.values())


def sensible(request: Any, version: int) -> Any:
    """Change what no client sends, or keeps Kafka busy for long, or only Kafka's broker falls over."""
    request = without_repetitions(request)
    for name, most in (("rebalance_timeout_ms", 3000), ("timeout_ms", 2000), ("max_wait_ms", 200)):
        if hasattr(request, name):
            setattr(request, name, max(0, min(getattr(request, name), most)))
    if hasattr(request, "isolation_level"):
        request.isolation_level &= 1
    match type(request).__name__:
        case "ProduceRequest":
            request.acks = request.acks or 1
            for partition in (one for topic in request.topic_data for one in topic.partition_data):
                partition.records = partition.records or b""
        case "FetchRequest":
            request.replica_id, request.replica_state, request.session_id = -1, None, max(0, request.session_id)
        case "MetadataRequest":
            request.allow_auto_topic_creation = False
            for topic in request.topics or []:
                if version < 12:
                    topic.topic_id, topic.name = bytes(16), topic.name or "t"
        case "JoinGroupRequest":
            for protocol in request.protocols:
                protocol.metadata = SUBSCRIPTION
    return request


def differences(first: Any, second: Any, pairs: Pairs, version: int, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield path and both values wherever two answers differ."""
    if isinstance(first, Struct) and isinstance(second, Struct):
        for line in first.FIELDS:
            if version in line.versions and line.name not in NOT_COMPARED:
                values = getattr(first, line.name), getattr(second, line.name)
                yield from differences(*values, pairs, version, f"{path}.{line.name}")
    elif isinstance(first, list) and isinstance(second, list):
        keys = sorted(map(key_of, first)), sorted(map(key_of, second))
        if len(first) != len(second):
            yield f"{path}[]", *keys
        for pair in zip(sorted(first, key=key_of), sorted(second, key=key_of), strict=False):
            if len(first) == len(second):
                yield from differences(*pair, pairs, version, f"{path}[]")
    elif not hasattr(first, "read") and first != second and not pairs.same(path.rpartition(".")[2], first, second):
        yield path, first, second


def compare(kafka: Broker, ours: Broker, seed: int, requests: int, apis: set[str]) -> Counter[tuple[str, str]]:
    """Put the requests to both; returns how often each kind differed."""
    found: Counter[tuple[str, str]] = Counter()
    served, served_by_us = kafka.served(), ours.served()
    for broker in (kafka, ours):
        prepare(broker.ask)
    plausible, pairs = PlausibleRequests(seed, oddity=0.03), Pairs()
    choose = random.Random(seed)
    keys = [key for key in sorted(served.keys() & served_by_us.keys()) if not apis or API_NAMES[key] in apis]
    keys = [key for key in keys if API_NAMES[key] not in LEFT_OUT]
    for number in range(requests):
        key = choose.choice(keys)
        name, asked, answered = message_classes(key)
        highest = min(served[key][1], served_by_us[key][1], answered.VERSIONS[1])
        version = choose.randint(max(served[key][0], served_by_us[key][0]), highest)
        request = sensible(plausible.message(asked, version), version)
        first = kafka.ask(deepcopy(request), version)
        second = ours.ask(pairs.translated(deepcopy(request)), version)
        for path, theirs, our in differences(first, second, pairs, version):
            found[name, path] += 1
            if found[name, path] == 1:
                print(f"{number} {name} {version}{path or ' as a whole'}: Kafka {theirs!r:.200}, ours {our!r:.200}")
                print(f"    {request!r:.1000}", flush=True)
        if isinstance(first, Struct):
            plausible.learn(first)
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers")
    parser.add_argument("--requests", type=int, default=1500, help="number of requests")
    parser.add_argument("--apis", default="", help="names of APIs, separated by commas; default: all")
    given = parser.parse_args()
    jars = kafka_jars(JARS)
    with tempfile.TemporaryDirectory() as directory:
        zookeeper = EmbeddedZooKeeper(Path(directory) / "zookeeper", free_ports(1)[0])
        await zookeeper.start()
        places = (("kafka", Path(directory) / "kafka"), ("ours", Path(directory) / "ours"))
        stages = [Stage(jars, f"{zookeeper.connect}/{name}", place, 0, SETTINGS) for name, place in places]
        try:
            stages[0].kafka()
            stages[1].odradek()
            kafka, ours = (Broker(stage.address) for stage in stages)
            found = compare(kafka, ours, given.seed, given.requests, set(filter(None, given.apis.split(","))))
            print(f"{given.requests} requests; {found.total()} differences of {len(found)} kinds")
            for (name, path), times in found.most_common():
                print(f"{times:6d}  {name}{path or ' as a whole'}")
            for line in stages[1].lives[0].complaints():
                print(f"ours has logged: {line}")
        finally:
            for stage in stages:
                stage.close()
            await zookeeper.stop()


if __name__ == "__main__":
    asyncio.run(main())
