"""Stories of administration: topics, partitions, settings, replicas, and whatever a cluster tells of itself."""

from typing import Any

from odradek.testing.beside.log_stories import PLAIN, produce
from odradek.testing.beside.steps import Step, Story, independent, wanted

TOPIC = "~topic"
BROKER, LOGGER, CLIENT_METRICS = 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPICS = 2


def create(
    name: str = TOPIC,
    partitions: int = 1,
    factor: int = 1,
    assignment: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
    *,
    validate_only: bool = False,
    more: tuple[dict[str, Any], ...] = (),
    timeout_ms: int = 2000,
) -> Step:
    places = [{"partition_index": index, "broker_ids": ids} for index, ids in (assignment or {}).items()]
    one = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": places,
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    fields = {"topics": [one, *more], "timeout_ms": timeout_ms, "validate_only": validate_only}
    return Step("admin", "CreateTopics", fields, since=1 if validate_only else 0)


def placed(*broker_ids: int) -> dict[int, list[int]]:
    return {0: list(broker_ids)}


def grow(
    count: int, name: str = TOPIC, assignments: list[list[int]] | None = None, *, validate_only: bool = False
) -> Step:
    places = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
    one = {"name": name, "count": count, "assignments": places}
    return Step("admin", "CreatePartitions", {"topics": [one], "timeout_ms": 5000, "validate_only": validate_only})


def delete(*names: str) -> Step:
    fields = {"topics": [{"name": name} for name in names], "topic_names": list(names), "timeout_ms": 5000}
    return Step("admin", "DeleteTopics", fields)


def describe(name: str = TOPIC, kind: int = OF_TOPICS, keys: tuple[str, ...] | None = None) -> Step:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return Step(
        "admin",
        "DescribeConfigs",
        {"resources": [resource], "include_synonyms": True, "include_documentation": True},
    )


def change(
    name: str, value: str | None, operation: int = SET, topic: str = TOPIC, kind: int = OF_TOPICS, *, only: bool = False
) -> Step:
    config = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": kind, "resource_name": topic, "configs": [config]}
    return Step("admin", "IncrementalAlterConfigs", {"resources": [resource], "validate_only": only})


def replace(topic: str = TOPIC, kind: int = OF_TOPICS, **configs: str | None) -> Step:
    given = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": topic, "configs": given}
    return Step("admin", "AlterConfigs", {"resources": [resource]})


def move(replicas: list[int] | None, partition: int = 0, topic: str = TOPIC) -> Step:
    one = {"name": topic, "partitions": [{"partition_index": partition, "replicas": replicas}]}
    return Step("admin", "AlterPartitionReassignments", {"topics": [one], "timeout_ms": 5000})


def moving(*topics: str) -> Step:
    asked = [{"name": one, "partition_indexes": [0, 9]} for one in topics] or None
    return Step("admin", "ListPartitionReassignments", {"topics": asked, "timeout_ms": 5000})


def elect(*topics: str, kind: int = 0, partitions: tuple[int, ...] = (0, 9)) -> Step:
    asked = [{"topic": one, "partitions": list(partitions)} for one in topics]
    return Step("admin", "ElectLeaders", {"election_type": kind, "topic_partitions": asked, "timeout_ms": 5000})


def directory(path: str, topic: str = TOPIC, *partitions: int) -> Step:
    one = {"path": path, "topics": [{"name": topic, "partitions": list(partitions or (0,))}]}
    return Step("admin", "AlterReplicaLogDirs", {"dirs": [one]})


def directories(*topics: str) -> Step:
    asked = [{"topic": one, "partitions": [0, 9]} for one in topics]
    return Step("admin", "DescribeLogDirs", {"topics": asked})


def metadata(*topics: str | None, since: int = 1, **fields: Any) -> Step:
    asked = [{"name": one} for one in topics]
    given = {"topics": asked, "allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    return Step("admin", "Metadata", given | fields, since)


def quota(entity: dict[str, str | None], *ops: tuple[str, float, bool], only: bool = False) -> Step:
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value, "remove": gone} for key, value, gone in ops],
    }
    return Step("admin", "AlterClientQuotas", {"entries": [entry], "validate_only": only})


def quotas(*components: tuple[str, int, str | None], strict: bool = False) -> Step:
    asked = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
    return Step("admin", "DescribeClientQuotas", {"components": asked, "strict": strict})


SPELLINGS = {
    "retention.ms": (
        " 5 ", "+5", "-0", "5L", "0x10", "1e3", "5.0", "5_000", "\u00b2", "9223372036854775807",
        "9223372036854775808", "-9223372036854775808", "-1", "-2", "", " ", "5 5", "\u00a05", "\u20035", "\x0b5\x1f",
    ),
    "segment.bytes": ("14", "13", "2147483647", "2147483648", "-1", "0014"),
    "max.message.bytes": ("0", "-1"),
    "segment.ms": ("0", "1"),
    "index.interval.bytes": ("0", "-1"),
    "segment.index.bytes": ("4", "3"),
    "min.insync.replicas": ("100", "0"),
    "file.delete.delay.ms": ("0", "-1"),
    "flush.messages": ("1", "0"),
    "preallocate": ("TRUE", " true ", "1", "yes", "", "f", "tru\u00e9"),
    "min.cleanable.dirty.ratio": (
        "0.5f", "5e-1", "1.1", ".5", "1.", "0.5d", "Infinity", "-0.0", "0,5", "", " 1 ", "1_0",
    ),
    "cleanup.policy": (
        "compact,delete", " compact , delete ", "compact,,delete", ",", "compact,", "compact,compact", "COMPACT",
        "compact delete", " ",
    ),
    "compression.type": ("GZIP", " gzip ", "gzip,snappy", "uncompressed", "producer", "none", ""),
    "compression.gzip.level": ("0", "1", "9", "10", "-1", "-2"),
    "compression.lz4.level": ("0", "1", "17", "18"),
    "compression.zstd.level": ("-131072", "-131073", "0", "22", "23"),
    "message.timestamp.type": ("logappendtime", "LogAppendTime", " CreateTime "),
    "message.format.version": (
        "3.9", "0.8", "0.10.0", "3.9-IV0", "3.9-IV1", "3.9.1", "3.9.x", "3.9.", "4.0", "4.0.0", "4.0-IV1", "4.0-IV2",
        "3.3-IV3", "3.3-IV4", "3.7-IV4", "0.8", "0.10", "0.10.1-IV2.x", "9.9", "",
    ),
    "message.timestamp.difference.max.ms": ("0", "-1"),
    "leader.replication.throttled.replicas": (
        "*", "0:1,1:0", " 0:1 , 1:0 ", "x", "0:", ":0", "*,*", "*,0:1", "", "0:1,", "-1:0", "0:1:2", "none",
    ),
}  # fmt: skip
"""Texts for settings of topics, some of which only Java takes for what they are. NaN is left out: Kafka takes it."""
SIZES = (
    2.0**63, 2.0**63 + 2048, 1e19, -(2.0**63), -1e19, 1e300, 5e-324, 1e-7, 0.9999999, 5.0000000001, -0.0, 2.0**31,
    2.0**31 - 1, -(2.0**31), 123456789.0, 1e7, 12345678.9, 0.001, 0.0001,
)  # fmt: skip
"""Numbers for quotas: at the ends of their types, and such as Java writes in other ways. NaN and infinity are left out:
Kafka takes them."""

STORIES: tuple[Story, ...] = (
    independent("topics that cannot be created",
        create(), create(), create(""), create("."), create(".."), create("a b"), create("x" * 250), create("~n1", 0),
        create("~n2", -1), create("~n3", -2), create("~n4", 1, 0), create("~n5", 1, -1), create("~n6", 1, 2),
        create("~n7", 1, -2), create("~n8", 1, 1, placed(0)), wanted("made", create("~n9", -1, -1, placed(5))),
        create("~na", -1, -1, placed(0, 0)), wanted("nowhere", create("~nb", -1, -1, placed())),
        create("~nc", -1, -1, {1: [0]}), create("~nd", -1, -1, {0: [0], 1: []}),
        wanted("made", create("~ne", -1, -1, placed(-1))), create("~nf", -1, -1, placed(0)),
        create("~ng", configs={"nonsense": "1"}), create("~nh", configs={"retention.ms": "x"}),
        create("~ni", configs={"retention.ms": None}), create("~nj", configs={"cleanup.policy": ""}),
        create("~nk", configs={"cleanup.policy": "none"}), create("~nl", configs={"segment.bytes": "1"}),
        create("~nm", configs={"retention.ms": "-2"}), create("~nn", configs={"compression.type": "zip"}),
        create("~no", configs={"min.insync.replicas": "0"}), create("~np", configs={"message.format.version": "0.9"}),
        create("~nq", configs={"remote.storage.enable": "true"}), create("~nr", validate_only=True), metadata("~nr"),
        create("~ns", configs={"local.retention.ms": "5"}), create("~nt", configs={"retention.bytes": " 7 "}),
        create("__consumer_offsets"), create("~nu", configs={"min.insync.replicas": "1"}), create("~a.b"),
        create("~a_b"),
        wanted("twice", create("~nv", more=({"name": "~nv", "num_partitions": 2, "replication_factor": 1},))),
        create("~nw", more=({"name": "~nx", "num_partitions": 0, "replication_factor": 1},)),
        wanted("made", create("~ny", timeout_ms=0)), wanted("made", create("~nz", timeout_ms=-1)),
        Step("admin", "CreateTopics", {"topics": [], "timeout_ms": 100}), metadata("~nw", "~nx", "~nv")),
    independent("partitions that cannot be added",
        create(), grow(1), grow(0), grow(-1), grow(3, validate_only=True), grow(2), grow(1), grow(2),
        grow(3, assignments=[[0]]), grow(4, assignments=[[5]]), grow(4, assignments=[[0, 0]]),
        grow(4, assignments=[[]]), grow(4, assignments=[]), grow(4, assignments=[[0], [0]]),
        grow(5, assignments=[[0]]), grow(4, assignments=[[-1]]), grow(4, assignments=[[0, 5]]), grow(2, "missing"),
        grow(2, ""), grow(2, "a b"), grow(5, "__consumer_offsets", validate_only=True),
        Step("admin", "CreatePartitions", {"topics": [], "timeout_ms": 10}),
        Step("admin", "CreatePartitions", {"topics": [{"name": TOPIC, "count": 9, "assignments": None}, {"name":
            TOPIC, "count": 10, "assignments": None}], "timeout_ms": 10}), metadata(TOPIC)),
    independent("topics deleted",
        create(), delete("missing"), delete(""), delete(), wanted("by id", delete(TOPIC, "missing")), delete(TOPIC),
        Step("admin", "DeleteTopics", {"topics": [{"name": None, "topic_id": b"\x05" * 16}], "timeout_ms": 100},
            since=6), Step("admin", "DeleteTopics", {"topics": [{"name": None}], "timeout_ms": 100}, since=6),
        Step("admin", "DeleteTopics", {"topics": [{"name": "t", "topic_id": b"\x05" * 16}], "timeout_ms": 1},
            since=6), create("~two"), wanted("by id", delete("~two", "~two")), metadata("~two")),
    independent("settings described",
        create(configs={"retention.ms": "5", "cleanup.policy": "compact"}), describe(),
        describe(keys=("retention.ms", "nonsense")), describe(keys=()), describe("missing"), describe(""),
        describe("a b"),
        describe("0", BROKER, ("log.retention.ms", "num.io.threads", "nonsense", "ssl.keystore.password",
            "log.cleaner.enable", "min.insync.replicas", "compression.type", "log.segment.bytes",
            "sasl.enabled.mechanisms", "broker.id", "log.roll.ms", "log.roll.hours", "log.retention.hours",
            "log.message.timestamp.type", "max.connections.per.ip.overrides", "message.max.bytes")),
        describe("", BROKER), describe("7", BROKER), describe("x", BROKER), describe("0", LOGGER, ("nonsense",)),
        describe("7", LOGGER), describe("", LOGGER), describe("x", LOGGER), describe("m", CLIENT_METRICS),
        describe("x", 3), describe("x", 0), describe("x", 77), describe("g", 32),
        Step("admin", "DescribeConfigs", {"resources": []}),
        Step("admin", "DescribeConfigs", {"resources": [{"resource_type": 2, "resource_name": TOPIC,
            "configuration_keys": None}]})),
    independent("settings changed one by one",
        create(), change("retention.ms", "7"), change("retention.ms", "x"), change("retention.ms", None),
        change("retention.ms", "-5"), change("nonsense", "1"), change("retention.ms", None, DELETE),
        change("retention.ms", "9", DELETE), change("nonsense", None, DELETE),
        change("cleanup.policy", "compact", APPEND), change("cleanup.policy", "compact", APPEND),
        change("cleanup.policy", "delete", SUBTRACT), change("cleanup.policy", "delete", SUBTRACT),
        change("cleanup.policy", "compact", SUBTRACT), change("cleanup.policy", None, APPEND),
        change("cleanup.policy", "other", APPEND), change("retention.ms", "5", APPEND),
        change("retention.ms", "5", SUBTRACT), change("retention.ms", "5", 4), change("retention.ms", "5", -1),
        change("retention.ms", "4", only=True), change("retention.ms", "x", only=True),
        change("retention.ms", "1", topic="missing"), change("retention.ms", "1", topic=""),
        change("retention.ms", "1", topic="a b"), change("", "1"), describe(keys=("retention.ms", "cleanup.policy")),
        change("log.retention.ms", "5", topic="7", kind=BROKER),
        change("log.retention.ms", "5", topic="x", kind=BROKER), change("broker.id", "5", topic="0", kind=BROKER),
        change("nonsense", "5", topic="0", kind=BROKER), change("log.cleaner.threads", "0", topic="", kind=BROKER),
        change("num.io.threads", "9", topic="", kind=BROKER), change("num.io.threads", "3", topic="", kind=BROKER),
        change("num.io.threads", None, DELETE, "", BROKER),
        change("num.io.threads", "3", topic="0", kind=BROKER, only=True),
        change("kafka.server.KafkaApis", "DEBUG", topic="0", kind=LOGGER),
        change("kafka.x", "nonsense", topic="0", kind=LOGGER), change("kafka.x", None, DELETE, "0", LOGGER),
        change("root", None, DELETE, "0", LOGGER), change("kafka.server.KafkaApis", "DEBUG", APPEND, "0", LOGGER),
        change("root", "INFO", topic="7", kind=LOGGER), change("interval.ms", "1000", topic="m", kind=CLIENT_METRICS),
        change("x", "1", topic="x", kind=3), change("x", "1", topic="x", kind=0),
        change("x", "1", topic="x", kind=77), change("x", "1", topic="g", kind=32),
        Step("admin", "IncrementalAlterConfigs", {"resources": []}),
        Step("admin", "IncrementalAlterConfigs", {"resources": [{"resource_type": 2, "resource_name": TOPIC,
            "configs": []}]}),
        Step("admin", "IncrementalAlterConfigs", {"resources": [{"resource_type": 2, "resource_name": TOPIC,
            "configs": [{"name": "retention.ms", "config_operation": 0, "value": "5"}, {"name": "retention.ms",
            "config_operation": 1, "value": None}]}]})),
    independent("settings replaced",
        create(), replace(retention_ms="7"), replace(segment_bytes="2000"),
        describe(keys=("retention.ms", "segment.bytes")), replace(), describe(keys=("retention.ms", "segment.bytes")),
        replace(retention_ms="x"), replace(retention_ms=None), replace(nonsense="1"),
        replace("missing", retention_ms="1"), replace("", retention_ms="1"),
        replace("7", BROKER, log_retention_ms="1"), replace("x", BROKER, log_retention_ms="1"),
        replace("0", BROKER, broker_id="5"), replace("0", LOGGER, root="INFO"), replace("m", CLIENT_METRICS, x="1"),
        replace("x", 3, y="1"), replace("x", 77, y="1"), Step("admin", "AlterConfigs", {"resources": []}),
        Step("admin", "AlterConfigs", {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configs": [{"name":
            "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]}]})),
    independent("replicas moved",
        create(), move([0]), move([5]), move([0, 5]), move([]), move(None), move([0, 0]), move([-1]), move([0], 9),
        move(None, 9), move([0], topic="missing"), move(None, topic="missing"), move([0], -1), moving(),
        moving(TOPIC, "missing"), moving(""),
        Step("admin", "AlterPartitionReassignments", {"topics": [], "timeout_ms": 10})),
    independent("leaders elected",
        create(), elect(TOPIC), elect(TOPIC, kind=1), elect("missing"), elect(""), elect(TOPIC, partitions=()),
        elect(TOPIC, TOPIC), elect(TOPIC, kind=9), elect("t", partitions=(0, 1))),
    independent("directories of logs",
        create(), produce(PLAIN, topic=TOPIC), directory("/nowhere"), directory("nowhere"), directory(""),
        directory("/nowhere", "missing"), directory("/nowhere", TOPIC, 9), directories(TOPIC), directories("missing"),
        Step("admin", "AlterReplicaLogDirs", {"dirs": []})),
    independent("what a cluster says of itself",
        create(), metadata(TOPIC), metadata("missing"), metadata(""), metadata("a b"), metadata(TOPIC, TOPIC),
        wanted("one question", metadata(None, since=12)),
        Step("admin", "Metadata", {"topics": [{"name": None, "topic_id": b"\x05" * 16}], "allow_auto_topic_creation":
            False}, since=12), metadata(TOPIC, include_cluster_authorized_operations=True),
        metadata("missing", since=4, allow_auto_topic_creation=True),
        Step("admin", "DescribeCluster", {"include_cluster_authorized_operations": True}),
        Step("admin", "DescribeCluster"), Step("admin", "DescribeCluster", {"endpoint_type": 2}, since=1),
        Step("admin", "DescribeCluster", {"endpoint_type": 0}, since=1),
        Step("admin", "DescribeCluster", {"endpoint_type": 7}, since=1),
        Step("admin", "UpdateFeatures", {"timeout_ms": 100, "feature_updates": [{"feature": "nonsense",
            "max_version_level": 1, "upgrade_type": 1}]}),
        Step("admin", "UpdateFeatures", {"timeout_ms": 100, "feature_updates": []})),
    independent("quotas",
        quota({"user": "~u"}, ("producer_byte_rate", 5.0, False)), quota({"user": "~u"}, ("nonsense", 5.0, False)),
        quota({"user": "~u"}, ("producer_byte_rate", 0.5, False)),
        quota({"user": "~u"}, ("producer_byte_rate", -1.0, False)),
        quota({"user": "~u"}, ("producer_byte_rate", 0.0, False)),
        quota({"user": ""}, ("producer_byte_rate", 5.0, False)), quota({}, ("producer_byte_rate", 5.0, False)),
        quota({"nonsense": "u"}, ("producer_byte_rate", 5.0, False)),
        quota({"ip": "127.0.0.9"}, ("connection_creation_rate", 5.0, False)),
        quota({"ip": "not an address"}, ("connection_creation_rate", 5.0, False)),
        quota({"ip": "127.0.0.9", "user": "u"}, ("connection_creation_rate", 5.0, False)),
        quota({"ip": "127.0.0.9"}, ("producer_byte_rate", 5.0, False)),
        quota({"user": "~u"}, ("connection_creation_rate", 5.0, False)),
        quota({"user": "~u", "client-id": "c"}, ("request_percentage", 5.5, False)),
        quota({"user": "~u"}, ("consumer_byte_rate", 5.0, False), only=True), quota({"user": "~u"}),
        quota({"user": "~u"}, ("producer_byte_rate", 0.0, True)), quotas(("user", 0, "~u")),
        quotas(("user", 0, "~u"), strict=True), quotas(("user", 1, None)), quotas(("nonsense", 0, "x")),
        quotas(("user", 9, "x")), quotas(("user", 0, None)), quotas(("user", 0, "~u"), ("user", 0, "x")),
        quotas(("ip", 0, "127.0.0.9")), quotas(("ip", 0, "x"), ("user", 0, "u")),
        quota({"user": "~u", "client-id": "c"}, ("request_percentage", 0.0, True)),
        quota({"ip": "127.0.0.9"}, ("connection_creation_rate", 0.0, True))),
    independent("quotas of all sizes",
        *(step for key in ("producer_byte_rate", "request_percentage", "controller_mutation_rate") for size in SIZES
            for step in (quota({"user": "~u"}, (key, size, False)), quotas(("user", 0, "~u")))),
        *(step for size in SIZES for step in (
            quota({"ip": "127.0.0.9"}, ("connection_creation_rate", size, False)), quotas(("ip", 0, "127.0.0.9")))),
        quota({"ip": "127.0.0.9"}, ("connection_creation_rate", 0.0, True)),
        quota({"user": "~u"}, ("producer_byte_rate", 0.0, True), ("request_percentage", 0.0, True),
            ("controller_mutation_rate", 0.0, True))),
    *(independent(f"spellings of {name}",
        create(), *(step for text in texts for step in (change(name, text), describe(keys=(name,)))))
        for name, texts in SPELLINGS.items()),
    independent("users",
        *(Step("admin", "AlterUserScramCredentials", {"upsertions": [{"name": name, "mechanism": mechanism,
            "iterations": iterations, "salt": b"salt", "salted_password": b"p" * 32}]}) for name, mechanism,
            iterations in (("~u", 1, 4096), ("~u", 2, 4096), ("", 1, 4096), ("~u", 9, 4096), ("~u", 0, 4096), ("~u",
            1, 4095), ("~u", 1, 16385), ("~u", 1, 0))),
        *(Step("admin", "AlterUserScramCredentials", {"deletions": [{"name": name, "mechanism": mechanism}]}) for
            name, mechanism in (("~x", 1), ("~u", 9), ("", 1), ("~u", 2), ("~u", 2))),
        Step("admin", "AlterUserScramCredentials", {"deletions": [{"name": "~u", "mechanism": 1}], "upsertions":
            [{"name": "~u", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}]}),
        Step("admin", "AlterUserScramCredentials"),
        *(Step("admin", "DescribeUserScramCredentials", {"users": [{"name": one} for one in names]}) for names in
            (("~u",), ("~x",), ("~u", "~u"), ("",), ("~u", "~x")))),
)  # fmt: skip
