"""Assignments of the 0.8 consumer: the same as Kafka's for the same group."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.consumer.subscription import to_pattern
from odradek.client.errors import ConfigError
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.assignment import (
    STRATEGIES,
    GroupView,
    group_assignment,
    part_of,
    range_assignment,
    round_robin_assignment,
    topics_needed,
)
from odradek.client.zookeeper.subscriptions import (
    Blacklist,
    Whitelist,
    consumer_id_of,
    consumer_of,
    thread_number,
    threads_by_topic,
    topics_of,
)
from odradek.protocol.topic_names import java_hash
from odradek.zk_schema.znodes.consumers import BLACK_LIST, STATIC, WHITE_LIST, ConsumerRegistration


def by_thread(assigned: dict[TopicPartition, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, thread in sorted(assigned.items()):
        found.setdefault(thread, []).append(str(name))
    return found


@pytest.mark.parametrize(
    ("threads", "partitions", "expected"),
    [
        # The example in Kafka's RangeAssignor: two consumers with two streams each, five partitions.
        (["C1-0", "C1-1", "C2-0", "C2-1"], 5, [[0, 1], [2], [3], [4]]),
        # Kafka's ZookeeperConsumerConnectorTest: two partitions, first one consumer, then two, then three.
        (["group1_consumer1-0"], 2, [[0, 1]]),
        (["group1_consumer1-0", "group1_consumer2-0"], 2, [[0], [1]]),
        (["group1_consumer1-0", "group1_consumer2-0", "group1_consumer3-0"], 2, [[0], [1], []]),
        (["a-0", "a-1", "a-2"], 10, [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        (["a-0"], 0, [[]]),
        # Sorted as text: thread 10 comes before thread 2.
        (["a-0", "a-1", "a-10", "a-2"], 4, [[0], [1], [2], [3]]),
    ],
)
def test_range(threads: list[str], partitions: int, expected: list[list[int]]) -> None:
    assigned = range_assignment({"t": threads}, {"t": range(partitions)})
    wanted = {thread: [f"t-{number}" for number in numbers] for thread, numbers in zip(threads, expected, strict=True)}
    assert by_thread(assigned) == {thread: names for thread, names in wanted.items() if names}


def test_partitions_are_sorted_by_number_and_need_not_be_complete() -> None:
    assigned = range_assignment({"t": ["a-0", "b-0"]}, {"t": [10, 9, 2]})
    assert by_thread(assigned) == {"a-0": ["t-2", "t-9"], "b-0": ["t-10"]}


def test_round_robin_goes_by_hash_and_in_turn() -> None:
    """`topic-0` … `topic-2` hash negative and so come before `a-0`, whatever their names say."""
    assert [java_hash(name) for name in ("topic-0", "topic-1", "topic-2")] == [-1139260654, -1139260653, -1139260652]
    assert java_hash("a-0") == 94660
    threads = {"a": ["m-0", "n-0"], "topic": ["m-0", "n-0"]}
    assigned = round_robin_assignment(threads, {"a": range(2), "topic": range(3)})
    assert by_thread(assigned) == {"m-0": ["a-1", "topic-0", "topic-2"], "n-0": ["a-0", "topic-1"]}


def test_round_robin_passes_over_threads_that_do_not_consume_the_topic() -> None:
    """As in Kafka, a thread that is passed over has lost its turn."""
    threads = {"t": ["a-0", "b-0", "c-0"], "u": ["b-0"]}
    assert [java_hash(f"{name}-0") for name in "tu"] == sorted(java_hash(f"{name}-0") for name in "tu")
    assigned = round_robin_assignment(threads, {"t": [0, 1], "u": [0]})
    assert by_thread(assigned) == {"a-0": ["t-0"], "b-0": ["t-1", "u-0"]}


members_of_groups = st.dictionaries(
    st.sampled_from([f"g_host-{n}" for n in range(12)]),
    st.dictionaries(st.sampled_from(["t0", "t1", "t2"]), st.integers(1, 4), min_size=1),
    min_size=1,
)


@settings(max_examples=60, deadline=None)
@given(
    members_of_groups,
    st.dictionaries(st.sampled_from(["t0", "t1", "t2"]), st.integers(0, 15)),
    st.sampled_from(list(STRATEGIES)),
)
def test_members_together_own_each_partition_once(
    members: dict[str, dict[str, int]], counts: dict[str, int], strategy: str
) -> None:
    """Each computes its own part from what it needs to know only, and the parts fit together."""
    registrations = {name: ConsumerRegistration(topics) for name, topics in members.items()}
    threads = threads_by_topic(registrations, counts, exclude_internal=True)
    owned: dict[TopicPartition, str] = {}
    for name in members:
        needed = topics_needed(strategy, name, threads)
        view = GroupView(
            registrations,
            {topic: threads[topic] for topic in needed},
            {topic: range(counts.get(topic, 0)) for topic in needed},
        )
        mine = part_of(name, group_assignment(strategy, view))
        assert not owned.keys() & mine.keys()
        assert all(consumer_of(thread) == name for thread in mine.values())
        assert all(thread_number(thread) < members[name][tp.topic] for tp, thread in mine.items())
        owned |= mine
    consumed = {topic for topics in members.values() for topic in topics}
    assert owned.keys() == {TopicPartition(t, n) for t, count in counts.items() if t in consumed for n in range(count)}


def test_patterns_choose_among_the_topics_that_exist() -> None:
    members = {
        "g_a": ConsumerRegistration({"t1": 2, "gone": 1}, STATIC),
        "g_b": ConsumerRegistration({"t.": 1}, WHITE_LIST),
        "g_c": ConsumerRegistration({"t1|u": 1}, BLACK_LIST),
    }
    existing = ["t1", "t2", "u", "tt1", "__consumer_offsets"]
    assert threads_by_topic(members, existing, exclude_internal=True) == {
        "gone": ["g_a-0"],
        "t1": ["g_a-0", "g_a-1", "g_b-0"],
        "t2": ["g_b-0", "g_c-0"],
        "tt1": ["g_c-0"],
    }
    assert "__consumer_offsets" in threads_by_topic(members, existing, exclude_internal=False)


@pytest.mark.parametrize(
    ("given_text", "cleaned"),
    [("a,b", "a|b"), (" 'a, b' ", "a|b"), ('"topic.*"', "topic.*"), ("x\\.y", "x\\.y")],
)
def test_filters_are_cleaned_as_in_kafka(given_text: str, cleaned: str) -> None:
    assert Whitelist(given_text).cleaned == cleaned


@pytest.mark.parametrize("expression", ["a(", "a{9999999999}", "(" * 5000])
def test_a_bad_pattern_is_refused(expression: str) -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        _ = Blacklist(expression).cleaned
    with pytest.raises(ConfigError, match="not a regular expression"):
        to_pattern(expression)
    with pytest.raises(re.error):  # another program's, which a member waits for to go
        topics_of(ConsumerRegistration({expression: 1}, WHITE_LIST), ["t"], exclude_internal=True)


def test_consumer_ids_are_as_kafka_makes_them() -> None:
    made = consumer_id_of("g", "host.example", 1416341255235, 0xAB)
    assert made == "g_host.example-1416341255235-000000ab"
    assert re.fullmatch(r"g_[^/]+-\d+-[0-9a-f]{8}", made)
    assert consumer_of(f"{made}-11") == made
