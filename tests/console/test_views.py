"""Topics, groups and transactions as the page has them; rebalances from the records of __consumer_offsets."""

from dataclasses import replace

from odradek.broker.groups.group_metadata import GroupMetadata, GroupState, Member
from odradek.broker.groups.group_records import group_key, group_value, offset_key
from odradek.client.admin.values import (
    ConfigEntry,
    ConfigSource,
    GroupDescription,
    GroupListing,
    GroupMember,
    LogDirectory,
    LogDirectoryReplica,
    PartitionLag,
    TransactionDescription,
    TransactionListing,
)
from odradek.client.metadata import TopicInfo
from odradek.client.records import ConsumerRecord, OffsetAndTimestamp, TopicPartition
from odradek.console.groups_view import (
    PARTITIONS_MAX,
    TRANSACTIONS_MAX,
    generation_of,
    group_model,
    groups_model,
    lag_model,
    transactions_model,
    zookeeper_lag_model,
)
from odradek.console.topics_view import sizes_model, topic_model
from odradek.diagnosis.overview import IN_ZOOKEEPER
from tests.console.test_snapshot import ID, partition

FLIGHTS, OTHER = TopicPartition("flights", 0), TopicPartition("orders", 0)


def directory(*replicas: LogDirectoryReplica, online: bool = True) -> LogDirectory:
    return LogDirectory("/data", online, -1, -1, list(replicas))


DIRECTORIES = {
    0: [directory(LogDirectoryReplica(FLIGHTS, 100, 0, False), LogDirectoryReplica(OTHER, 7, 0, False))],
    1: [directory(LogDirectoryReplica(FLIGHTS, 90, 0, False)), directory(online=False)],
}


def test_sizes_are_of_all_replicas() -> None:
    assert sizes_model(DIRECTORIES) == {
        "sizes": {"flights": 190, "orders": 7},
        "brokers": {0: {"used": 107, "offline": []}, 1: {"used": 90, "offline": ["/data"]}},
    }


def test_a_topic() -> None:
    info = TopicInfo("flights", ID, False, (partition(0, 1, (0, 1)), partition(1, -1, ())))
    settings = [
        ConfigEntry("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG, False, False),
        ConfigEntry("a.password", "secret", ConfigSource.DEFAULT_CONFIG, False, True),
    ]
    model = topic_model(info, settings, DIRECTORIES, {FLIGHTS: OffsetAndTimestamp(3, -1)}, {FLIGHTS: None})
    led, leaderless = model["partitions"]
    assert (led["leader"], led["isr"], led["begin"], led["end"], led["bytes"]) == (1, (0, 1), 3, None, 90)
    assert (leaderless["leader"], leaderless["begin"], leaderless["bytes"]) == (-1, None, None)
    assert model["bytes"] == 190
    assert [(one["name"], one["value"], one["default"]) for one in model["settings"]] == [
        ("a.password", None, True),
        ("retention.ms", "5", False),
    ]
    assert model["settings"][1]["source"] == "dynamic topic"


MEMBER = GroupMember("m-1", "static", "app", "/10.0.0.1", (FLIGHTS,))
GROUP = GroupDescription("billing", "Stable", "consumer", "range", [MEMBER], 2)
LAGS = [
    PartitionLag(OTHER, 5, 5, 0),
    PartitionLag(FLIGHTS, 10, 52, 42),
    PartitionLag(TopicPartition("x", 1), None, 9, None),
]


def test_a_group() -> None:
    told = {"partitions": [["flights", 0, 10, 42, 3.5], ["orders", 0, 5, 0, 0.0]]}
    model = group_model(GROUP, LAGS, {"generations": []}, told)
    assert (model["lag"], model["seconds"], model["state"]) == (42, 3.5, "Stable")
    assert model["partitions"][0] == ["flights", 0, 10, 52, 42, "m-1", 3.5]
    assert model["partitions"][-1] == ["x", 1, None, 9, None, None, None]
    assert [(one["client"], one["instance"], one["partitions"], one["lag"]) for one in model["members"]] == [
        ("app", "static", 1, 42)
    ]
    assert lag_model(LAGS, GROUP) == {"lag": 42, "partitions": 3, "members": 1, "state": "Stable"}


def test_what_of_a_group_is_not_shown_is_counted() -> None:
    lags = [PartitionLag(TopicPartition("t", number), 0, number, number) for number in range(PARTITIONS_MAX + 4)]
    group = replace(GROUP, members=[MEMBER] * (PARTITIONS_MAX + 2))
    model = group_model(group, lags, {}, {})
    assert (len(model["partitions"]), model["partitions_left_out"]) == (PARTITIONS_MAX, 4)
    assert (len(model["members"]), model["members_left_out"]) == (PARTITIONS_MAX, 2)
    assert model["partitions"][0][4] == PARTITIONS_MAX + 3, "who is furthest behind is shown"


def test_groups() -> None:
    listed = [GroupListing("a", "consumer", "Empty")]
    assert groups_model(listed, {}) == [["a", "Empty", "consumer"]]
    told = {"zookeeper": {"a": 1, "old": 2}}
    assert groups_model(listed, told)[1:] == [["old", IN_ZOOKEEPER, "consumer"]], "a group in both places is one"


def test_a_group_in_zookeeper_is_what_the_controller_tells_of_it() -> None:
    nobody = GroupDescription("old", "Dead", "", "", [], 0)
    told = {"partitions": [["flights", 0, 10, 42, 3.5]]}
    model = group_model(nobody, [], {"generations": []}, told)
    assert (model["state"], model["lag"], model["seconds"], model["in_zookeeper"]) == (IN_ZOOKEEPER, 42, 3.5, True)
    assert model["partitions"] == [["flights", 0, 10, 52, 42, None, 3.5]]
    assert zookeeper_lag_model(told) == {"lag": 42, "partitions": 1, "members": None, "state": IN_ZOOKEEPER}
    assert group_model(nobody, [], {"generations": []}, {})["state"] == "Dead"


def transaction(begun_ms: int, timeout_ms: int = 60_000) -> TransactionDescription:
    return TransactionDescription(1, "Ongoing", 5, 2, timeout_ms, begun_ms, frozenset({OTHER, FLIGHTS}))


def test_open_transactions_come_first_the_oldest_before() -> None:
    names = ["idle", "young", "old", "unknown"]
    listed = {1: [TransactionListing(name, 5, "Empty") for name in names]}
    described = {"idle": transaction(-1), "young": transaction(90_000), "old": transaction(1_000)}
    rows = transactions_model(listed, described, 100_000)["transactions"]
    assert [(row["id"], row["overdue"]) for row in rows] == [
        ("old", True),
        ("young", False),
        ("idle", False),
        ("unknown", False),
    ]
    assert rows[0]["partitions"] == ["flights-0", "orders-0"] and rows[3]["epoch"] is None


def test_too_many_transactional_ids_are_counted() -> None:
    listed = {1: [TransactionListing(str(number), 5, "Empty") for number in range(TRANSACTIONS_MAX + 2)]}
    assert transactions_model(listed, {}, 0)["left_out"] == 2


def group_record(key: bytes | None, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("__consumer_offsets", 0, 5, 777, 0, key, value, (), -1)


def stable_group() -> bytes:
    group = GroupMetadata("billing", GroupState.STABLE, 5, 7, "consumer", "range", "m-1")
    group.add(Member("m-1", None, "app", "/h", 1, 1, "consumer", (("range", b""),), b""))
    return group_value(group, {"m-1": b""})


def test_a_generation_is_read_from_its_record() -> None:
    found = generation_of("billing", group_record(group_key("billing"), stable_group()))
    assert found == {"at_ms": 777, "generation": 7, "members": ["app"], "assignor": "range"}


def test_the_end_of_a_group_is_read_too() -> None:
    found = generation_of("billing", group_record(group_key("billing"), None))
    assert found is not None and found["generation"] is None


def test_other_records_say_nothing_of_the_group() -> None:
    for key in (None, b"", b"nonsense billing", group_key("billing-2"), offset_key("billing", FLIGHTS)):
        assert generation_of("billing", group_record(key, stable_group())) is None
    assert generation_of("billing", group_record(group_key("billing"), b"\x00\x09nonsense")) is None
