"""Kafka's command line tools with their rarer options, and what they say when something is refused.

What is expected here is what Kafka 3.9.1 answers in ZooKeeper mode, word for word where a script might look for it.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.testing import Cluster
from odradek.testing.foreign.interface import Client, Record
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from tests.clients.known_topics import known_everywhere

pytestmark = pytest.mark.cluster

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
PRODUCER = "kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"

WEEK_MS = 7 * 24 * 3_600_000
LONG_MS = str(int(PATIENCE_SECONDS * 1000))
Tool = Callable[..., str]
Toolbox = Callable[..., tuple[int, str]]


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[[Any], str]:
    """Into a file of its own; where it is."""

    def write(value: Any) -> str:
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        file.write_text(json.dumps(value))
        return str(file)

    return write


def plan(topic: str, *replicas: list[int]) -> dict[str, Any]:
    """A reassignment of a topic's first partitions."""
    partitions = [{"topic": topic, "partition": index, "replicas": wanted} for index, wanted in enumerate(replicas)]
    return {"version": 1, "partitions": partitions}


@pytest.mark.parametrize(
    ("main", "options", "said"),
    [
        (TOPICS, "--create --topic bad/name", "Topic name is invalid: 'bad/name' contains one or more"),
        (TOPICS, "--create --topic ..", "Topic name is invalid: '..' is not allowed"),
        (TOPICS, f"--create --topic {'l' * 250}", "is longer than the max allowed length 249"),
        (TOPICS, "--create --topic n --replication-factor 4", "4 larger than available brokers: 3."),
        (TOPICS, "--create --topic n --config nonsense=1", "Unknown topic config name: nonsense"),
        (TOPICS, "--describe --topic n", "Topic 'Optional[n]' does not exist as expected"),
        (TOPICS, "--delete --topic n", "Topic 'Optional[n]' does not exist as expected"),
        (TOPICS, "--alter --topic n --partitions 3", "Topic 'Optional[n]' does not exist as expected"),
        (CONFIGS, "--entity-type topics --entity-name n --describe", "UnknownTopicOrPartitionException"),
        (
            CONFIGS,
            "--entity-type brokers --entity-name 1 --alter --add-config broker.id=5",
            "Cannot update these configs dynamically: Set(broker.id)",
        ),
        (
            CONFIGS,
            "--entity-type brokers --entity-name 1 --alter --add-config log.segment.bytes=5",
            "Invalid value 5 for configuration log.segment.bytes: Value must be at least 14",
        ),
        (
            CONFIGS,
            "--entity-type brokers --entity-name 1 --alter --add-config num.io.threads=17",
            "value should not be greater than double the current value 8",
        ),
        (
            CONFIGS,
            "--entity-type brokers --entity-default --alter --add-config listener.name.x.ssl.keystore.type=PEM",
            "Cannot update these configs at default cluster level, broker id must be specified",
        ),
        (
            CONFIGS,
            "--entity-type brokers --entity-name 1 --alter --delete-config nonsense",
            "Invalid config(s): nonsense",
        ),
        (
            CONFIGS,
            "--entity-type broker-loggers --entity-name 1 --alter --add-config root=LOUD",
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (ELECT, "--election-type preferred --topic n --partition 1", "The partition does not exist."),
        (LOG_DIRS, "--describe --broker-list 7", "The given brokers do not exist from --broker-list: 7."),
        ("kafka.admin.AclCommand", "--list", "SecurityDisabledException: No Authorizer is configured on the broker"),
        (
            "kafka.admin.AclCommand",
            "--add --allow-principal User:bob --operation Read --topic n",
            "SecurityDisabledException: No Authorizer is configured.",
        ),
        (
            "kafka.admin.AclCommand",
            "--remove --force --allow-principal User:bob --operation Read --topic n",
            "SecurityDisabledException: No Authorizer is configured.",
        ),
        ("org.apache.kafka.tools.MetadataQuorumCommand", "describe --status", "not support DESCRIBE_QUORUM"),
        ("org.apache.kafka.tools.ClientMetricsCommand", "--list", "not support LIST_CLIENT_METRICS_RESOURCES"),
    ],
)  # fmt: skip
def test_what_is_refused_is_said_as_kafka_says_it(toolbox: Toolbox, main: str, options: str, said: str) -> None:
    code, found = toolbox(main, *options.split())
    assert code == 1 and said in found, found


def test_topics_are_counted_again_and_told_apart(
    tool: Tool, toolbox: Toolbox, cluster: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2, min_insync_replicas="3")
    alter = (TOPICS, "--alter", "--topic", topic, "--partitions")
    assert "Topic already has 2 partitions." in toolbox(*alter, "2")[1]
    assert "Topic currently has 2 partitions, which is higher than the requested 1." in toolbox(*alter, "1")[1]
    assert "assignment: 7." in toolbox(*alter, "3", "--replica-assignment", "0:1:2,0:1:2,0:1:7")[1]
    tool(*alter, "3", "--replica-assignment", "0:1:2,0:1:2,2:1:0")
    described = (TOPICS, "--describe", "--topic", topic)
    known_everywhere(cluster.bootstrap, topic, 3)
    assert "Partition: 2\tLeader: 2\tReplicas: 2,1,0\tIsr: 2,1,0" in tool(*described)
    assert tool(*described, "--at-min-isr-partitions").count("Partition: ") == 3
    for filtered in ("--under-min-isr-partitions", "--under-replicated-partitions", "--unavailable-partitions"):
        assert tool(*described, filtered).strip() == ""
    assert "min.insync.replicas=3" in tool(*described, "--topics-with-overrides")
    assert f"Topic '{topic}' already exists." in toolbox(TOPICS, "--create", "--topic", topic)[1]
    tool(TOPICS, "--create", "--topic", topic, "--if-not-exists")


def test_settings_of_brokers(tool: Tool) -> None:
    broker = (CONFIGS, "--entity-type", "brokers", "--entity-name", "1")
    default = (CONFIGS, "--entity-type", "brokers", "--entity-default")

    def shown(*entry: str) -> Callable[[], bool]:
        return lambda: all(line in tool(*broker, "--describe") for line in entry)

    # What is told of the default is what the broker knows that happens to be asked.
    every = [(*broker[:-1], str(number), "--describe", "--all") for number in range(3)]
    kept = f"DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms={WEEK_MS}"
    tool(*default, "--alter", "--add-config", f"log.retention.ms={WEEK_MS}")
    wait_until(lambda: all(kept in tool(*one) for one in every), "the default at every broker")
    tool(*broker, "--alter", "--add-config", "log.retention.ms=8640000,listener.name.plaintext.max.connections=500")
    sources = f"DYNAMIC_BROKER_CONFIG:log.retention.ms=8640000, {kept}"
    listeners = "listener.name.plaintext.max.connections=500 sensitive=false"
    wait_until(shown(f"{{{sources}, DEFAULT_CONFIG:log.retention.hours=168}}", listeners), "both")
    assert f"log.retention.ms={WEEK_MS}" in tool(*default, "--describe")
    tool(*broker, "--alter", "--delete-config", "log.retention.ms,listener.name.plaintext.max.connections")
    tool(*default, "--alter", "--delete-config", "log.retention.ms")
    tool(*broker, "--alter", "--add-config", "my.own=5")
    wait_until(shown("my.own=null sensitive=true synonyms={DYNAMIC_BROKER_CONFIG:my.own=null}"), "what nobody knows")
    tool(*broker, "--alter", "--delete-config", "my.own")
    wait_until(lambda: "=" not in tool(*broker, "--describe"), "nothing is left")
    wait_until(lambda: all("DYNAMIC_" not in tool(*one) for one in every), "nothing is left at any broker")


def test_offsets_are_reset_in_all_ways(
    tool: Tool,
    new_topic: Callable[..., str],
    confluent: Client,
    make_records: Callable[..., list[Record]],
    tmp_path: Path,
) -> None:
    topic = new_topic()
    group = f"{topic}-group"
    confluent.produce(topic, "none", make_records(10))

    def reset(*how: str) -> int:
        said = tool(GROUPS, "--reset-offsets", "--group", group, *how, "--execute")
        [offset] = re.findall(rf"{group}\s+{topic}\s+0\s+(\d+)", said)
        return int(offset)

    of_topic = ("--topic", topic)
    assert reset(*of_topic, "--to-earliest") == 0
    assert reset(*of_topic, "--to-latest") == 10
    assert reset(*of_topic, "--shift-by", "-3") == 7
    assert reset(*of_topic, "--shift-by", "-100") == 0
    assert reset("--topic", f"{topic}:0", "--to-offset", "500") == 10
    assert reset(*of_topic, "--by-duration", "PT2H") == 0, "the records are an hour old"
    assert reset(*of_topic, "--by-duration", "PT0S") == 10
    assert reset(*of_topic, "--to-datetime", "2020-01-01T00:00:00.000") == 0
    file = tmp_path / "offsets.csv"
    file.write_text(f"{topic},0,4\n")
    assert reset("--from-file", str(file)) == 4
    assert reset("--all-topics", "--to-current") == 4
    export = ("--all-topics", "--to-current", "--export", "--dry-run")
    assert re.search(rf'^"?{topic}"?,0,4$', tool(GROUPS, "--reset-offsets", "--group", group, *export), re.M)
    assert "Successful" in tool(GROUPS, "--delete-offsets", "--group", group, *of_topic)
    assert f"Consumer group '{group}' does not exist" in tool(GROUPS, "--describe", "--group", group)


def test_members_and_what_they_forbid(
    tool: Tool,
    new_topic: Callable[..., str],
    confluent: Client,
    make_records: Callable[..., list[Record]],
) -> None:
    topic = new_topic()
    group = f"{topic}-group"
    confluent.produce(topic, "none", make_records(3))
    member = confluent.join(group, topic)
    wait_until(lambda: len(member.received()) == 3, "the records")
    of_group = ("--group", group)
    said = tool(GROUPS, "--describe", *of_group, "--members", "--verbose")
    assert re.search(rf"{group}\s+\S+\s+/127.0.0.1\s+\S+\s+1\s+\(0\)", said), said
    assert re.search(rf"{group}\s+Classic\s+Stable", tool(GROUPS, "--list", "--state", "--type"))
    of_state = (GROUPS, "--list", "--state")
    assert group in tool(*of_state, "Stable") and group not in tool(*of_state, "Empty")
    assert "GroupNotEmptyException" in tool(GROUPS, "--delete", *of_group)
    said = tool(GROUPS, "--reset-offsets", *of_group, "--topic", topic, "--to-earliest", "--execute")
    assert f"if the group '{group}' is inactive, but the current state is Stable." in said
    assert "GroupSubscribedToTopicException" in tool(GROUPS, "--delete-offsets", *of_group, "--topic", topic)
    member.close()
    assert "was successful" in tool(GROUPS, "--delete", *of_group)
    assert "GroupIdNotFoundException" in tool(GROUPS, "--delete", *of_group)
    assert f"Consumer group '{group}' does not exist." in tool(GROUPS, "--describe", *of_group, "--state")


def test_a_throttled_reassignment_leaves_nothing_behind(
    tool: Tool, toolbox: Toolbox, new_topic: Callable[..., str], write_json: Callable[[Any], str]
) -> None:
    topic = new_topic(partitions=2)
    file = ("--reassignment-json-file", write_json(plan(topic, [1, 0], [2, 1, 0])))
    tool(REASSIGN, "--execute", *file, "--throttle", "1000000", "--replica-alter-log-dirs-throttle", "2000")
    settings = (CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe")
    rate = "leader.replication.throttled.rate=1000000 sensitive=false"
    wait_until(lambda: rate in tool(*settings), "the throttle")
    of_topic = (CONFIGS, "--entity-type", "topics", "--entity-name", topic, "--describe")
    assert "leader.replication.throttled.replicas=0:" in tool(*of_topic)
    done = [f"Reassignment of partition {topic}-{index} is completed." for index in (0, 1)]
    verify = (REASSIGN, "--verify", *file)
    wait_until(lambda: all(line in tool(*verify, "--preserve-throttles") for line in done), "the reassignment")
    assert f"Clearing topic-level throttles on topic {topic}" in tool(*verify)
    wait_until(lambda: "replication.throttled" not in tool(*settings) + tool(*of_topic), "no throttle")
    assert "No partition reassignments found." in tool(REASSIGN, "--list")
    assert "None of the specified partition reassignments are active." in tool(REASSIGN, "--cancel", *file)
    for wanted, why in (
        (plan(topic, [2, 9]), "Unknown broker id 9"),
        (plan(f"{topic}-no", [2, 0]), f"Topic {topic}-no not found."),
        (plan(topic, [2, 2]), "Partition replica lists may not contain duplicate entries"),
    ):
        code, said = toolbox(REASSIGN, "--execute", "--reassignment-json-file", write_json(wanted))
        assert code == 1 and why in said, said


def test_elections_of_a_file(tool: Tool, new_topic: Callable[..., str], write_json: Callable[[Any], str]) -> None:
    topic = new_topic(partitions=2)
    [order] = re.findall(r"Partition: 0\t.*Replicas: ([\d,]+)", tool(TOPICS, "--describe", "--topic", topic))
    backwards = [int(replica) for replica in order.split(",")][::-1]
    tool(REASSIGN, "--execute", "--reassignment-json-file", write_json(plan(topic, backwards)))
    both = {"partitions": [{"topic": topic, "partition": index} for index in (0, 1)]}
    file = ("--path-to-json-file", write_json(both))
    said = tool(ELECT, "--election-type", "preferred", *file)
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in said
    assert f"Valid replica already elected for partitions {topic}-1" in said
    assert "Valid replica already elected" in tool(ELECT, "--election-type", "unclean", *file)


def test_records_written_counted_and_deleted(
    tool: Tool, new_topic: Callable[..., str], write_json: Callable[[Any], str]
) -> None:
    topic = new_topic()
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:", "--property", "parse.headers=true")
    lines = "".join(f"h:{number}\tk{number}:v{number}\n" for number in range(5))
    tool(PRODUCER, "--topic", topic, "--compression-codec", "zstd", *keyed, input=lines)
    show = [part for name in ("key", "headers", "offset") for part in ("--property", f"print.{name}=true")]
    said = tool(CONSUMER, "--topic", topic, "--from-beginning", "--max-messages", "5", "--timeout-ms", LONG_MS, *show)
    assert "Offset:4\th:4\tk4\tv4" in said and "Processed a total of 5 messages" in said
    until = [{"topic": name, "partition": 0, "offset": 2} for name in (topic, "__consumer_offsets")]
    said = tool(DELETE_RECORDS, "--offset-json-file", write_json({"version": 1, "partitions": until}))
    assert f"partition: {topic}-0\tlow_watermark: 2" in said
    assert "partition: __consumer_offsets-0\terror: org.apache.kafka.common.errors.InvalidTopicException" in said
    for time, offset in (("earliest", 2), ("latest", 5), ("1000", 2)):
        assert tool(OFFSETS, "--topic", topic, "--time", time).strip() == f"{topic}:0:{offset}"
    assert json.loads(tool(LOG_DIRS, "--describe", "--topic-list", topic).splitlines()[-1])["brokers"][2]["logDirs"]


def test_the_tools_of_kafkas_own_system_tests(tool: Tool, cluster: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    tool("org.apache.kafka.tools.VerifiableProducer", "--topic", topic, "--max-messages", "3")
    counted = ("--group-id", topic, "--max-messages", "3", "--reset-policy", "earliest")
    said = tool("org.apache.kafka.tools.VerifiableConsumer", "--topic", topic, *counted)
    assert '"name":"records_consumed","count":3' in said and '"name":"offsets_committed"' in said
    server = f"bootstrap.servers={cluster.bootstrap}"
    load = ("--num-records", "100", "--record-size", "50", "--throughput", "-1", "--producer-props", server)
    said = tool("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, *load, named=False)
    assert "100 records sent" in said
    said = tool(
        "org.apache.kafka.tools.ConsumerPerformance", "--topic", topic, "--messages", "103", "--timeout", LONG_MS
    )
    assert "data.consumed.in.nMsg" in said and ", 103, " in said
    latency = (cluster.bootstrap, topic, "5", "all", "20")
    assert "Avg latency" in tool("org.apache.kafka.tools.EndToEndLatency", *latency, named=False)


def test_producers_are_described_by_every_replica(tool: Tool, new_topic: Callable[..., str]) -> None:
    """Hanging transactions are looked for at all replicas of a broker, whoever leads them."""
    topic = new_topic()
    tool(PRODUCER, "--topic", topic, input="a\n")
    for broker in range(3):
        asked = ("describe-producers", "--topic", topic, "--partition", "0", "--broker-id", str(broker))
        assert re.search(r"\n\d+\s+0\s+-1\s+0\s+\d+\s+None", tool(TRANSACTIONS, *asked)), "one producer"
        found = tool(TRANSACTIONS, "find-hanging", "--broker-id", str(broker)).strip()
        assert found.count("\n") == 0, "nothing but the heading"
