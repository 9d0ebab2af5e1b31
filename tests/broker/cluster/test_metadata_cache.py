"""What a broker knows of the cluster: absence is no evidence, and what was deleted meanwhile does not stay."""

from typing import Any

import pytest

from odradek.broker.cluster import metadata_cache
from odradek.broker.cluster.metadata_cache import (
    DELETED_TOPICS_MAX,
    NO_CONTROLLER,
    MetadataCache,
)
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from odradek.protocol.messages.update_metadata import (
    LEADER_DURING_DELETE,
    TYPE_FULL,
    TYPE_INCREMENTAL,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.primitives import ZERO_UUID

ID, OTHER_ID = b"i" * 16, b"o" * 16


def told(
    *topics: str,
    leader: int = 1,
    topic_id: bytes = ID,
    controller_epoch: int = 1,
    broker_epoch: int = 10,
    kind: int = 0,
) -> UpdateMetadataRequest:
    """One partition of each topic, from the controller to this broker."""
    states = [
        UpdateMetadataTopicState(
            topic_name=topic,
            topic_id=topic_id,
            partition_states=[UpdateMetadataPartitionState(partition_index=0, leader=leader)],
        )
        for topic in topics
    ]
    return UpdateMetadataRequest(
        type=kind,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=states,
        live_brokers=[UpdateMetadataBroker(id=1)],
    )


def deletes(topic: str, **how: Any) -> UpdateMetadataRequest:
    return told(topic, leader=LEADER_DURING_DELETE, **how)


def leader_and_isr(topic: str, topic_id: bytes, *, controller_epoch: int = 1, broker_epoch: int = 10) -> Any:
    return LeaderAndIsrRequest(
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id)],
    )


def test_a_controller_that_only_says_who_lives_has_deleted_nothing() -> None:
    """Kafka's first words after an election: brokers, and no partition."""
    cache = MetadataCache()
    assert not cache.is_deleted("t", 0)
    cache.update(told())
    assert cache.brokers and not cache.is_deleted("t", 0)
    cache.update(told("t"))
    assert not cache.is_deleted("u", 0), "the partitions that had to be told first"


def test_what_is_said_to_be_deleted_is_and_may_come_again() -> None:
    cache = MetadataCache()
    cache.update(told())
    cache.update(told("t"))
    assert cache.update(deletes("t")) == [("t", 0)]
    assert cache.is_deleted("t", 0) and not cache.is_deleted("u", 0)
    assert not cache.topics and not cache.names.ids_by_name and not cache.names.names_by_id
    cache.update(told("t", topic_id=OTHER_ID))
    assert not cache.is_deleted("t", 0) and cache.topic_id("t") == OTHER_ID
    assert not cache.is_deleted("t", 1), "of the topic that is there"


@pytest.mark.parametrize(("kind", "broker_epoch"), [(TYPE_FULL, 10), (TYPE_FULL, 11), (0, 11)])
def test_all_partitions_at_once_are_evidence_and_replace_what_was_known(kind: int, broker_epoch: int) -> None:
    """Our controllers say that it is all; Kafka's are known by it that a new registration hears no partition before."""
    cache = MetadataCache()
    cache.update(told("gone", "t", kind=TYPE_INCREMENTAL))
    assert cache.update(told("t", kind=kind, broker_epoch=broker_epoch)) == [("gone", 0)]
    assert set(cache.topics) == {"t"} and cache.is_deleted("gone", 0) and cache.is_deleted("never seen here", 3)
    cache.update(told("new", broker_epoch=broker_epoch))
    assert set(cache.topics) == {"t", "new"}, "from then on only what changes is told"


def test_a_late_copy_of_a_complete_update_changes_nothing() -> None:
    """The first words of a controller, before there was any topic, came once more: a broker that had not heard of that
    one's successor yet forgot all topics, and wrote tombstones for all that its groups had committed."""
    cache = MetadataCache()
    first = told(kind=TYPE_FULL)
    cache.update(first)
    cache.update(told("t", kind=TYPE_INCREMENTAL))
    assert not cache.update(first)
    assert set(cache.topics) == {"t"} and not cache.is_deleted("t", 0)
    assert cache.update(told(kind=TYPE_FULL, controller_epoch=2)) == [("t", 0)], "the successor's own word"


def test_a_late_word_of_a_deletion_does_not_touch_the_topic_made_since() -> None:
    cache = MetadataCache()
    cache.update(told("t"))
    assert cache.update(deletes("t")) == [("t", 0)]
    cache.update(told("t", topic_id=OTHER_ID))
    assert not cache.update(deletes("t"))
    assert cache.topic_id("t") == OTHER_ID and cache.partition("t", 0) is not None
    assert cache.update(deletes("t", topic_id=OTHER_ID)) == [("t", 0)]


def test_what_says_that_it_is_not_all_has_deleted_nothing() -> None:
    """Our controllers say so: the first words to a new registration, when a topic's znode cannot be read."""
    cache = MetadataCache()
    cache.update(told("t", "unreadable", kind=TYPE_FULL))
    assert not cache.update(told("t", kind=TYPE_INCREMENTAL, broker_epoch=11))
    assert set(cache.topics) == {"t", "unreadable"} and not cache.is_deleted("u", 0)


@pytest.mark.parametrize("epochs", [{"controller_epoch": 2}, {"broker_epoch": 11}], ids=["controller", "registration"])
def test_evidence_is_that_of_the_present_epochs(epochs: dict[str, Any]) -> None:
    cache = MetadataCache()
    cache.update(told(kind=TYPE_FULL))
    assert cache.is_deleted("t", 0)
    cache.learn_ids(leader_and_isr("transactions", OTHER_ID, **epochs))
    assert not cache.is_deleted("t", 0), "what was made under the former controller may not have come here"
    cache.update(told("t", **epochs))
    assert not cache.is_deleted("u", 0)
    cache.update(told("t", kind=TYPE_FULL, **epochs))
    assert cache.is_deleted("u", 0)


def test_the_id_of_a_topic_is_known_as_soon_as_somebody_leads_it() -> None:
    cache = MetadataCache()
    cache.update(told())
    cache.learn_ids(leader_and_isr("t", ID))
    assert cache.names.names_by_id == {ID: "t"} and cache.topic_id("t") == ID
    assert "t" not in cache.topics
    cache.update(deletes("t"))
    cache.learn_ids(leader_and_isr("t", ID))
    assert not cache.names.names_by_id, "a request that comes late does not bring it back"
    assert cache.is_deleted("t", 0)
    cache.learn_ids(leader_and_isr("t", OTHER_ID))
    assert cache.topic_id("t") == OTHER_ID
    assert not cache.is_deleted("t", 0), "what is known of the new topic is only that it is there"
    cache.update(told("t", topic_id=OTHER_ID))
    cache.learn_ids(leader_and_isr("t", ID))
    assert cache.topic_id("t") == OTHER_ID and "t" in cache.topics, "one that comes later still takes nothing from it"


def test_a_name_is_taken_by_none_of_the_topics_that_had_it_before() -> None:
    """Of two the first was not known any more: the broker made its replicas anew, and refused those of the third."""
    cache = MetadataCache()
    for topic_id in (ID, OTHER_ID):
        cache.update(told("t", topic_id=topic_id))
        cache.update(deletes("t", topic_id=topic_id))
    cache.update(told("t", topic_id=b"3" * 16))
    cache.learn_ids(leader_and_isr("t", ID))
    assert cache.topic_id("t") == b"3" * 16 and list(cache.deleted_ids) == [ID, OTHER_ID]


def test_another_id_is_another_topic_and_has_none_of_the_partitions_of_before() -> None:
    """Its deletion was said to nobody who was away then: partitions that it does not have stayed in the metadata."""
    cache = MetadataCache()
    cache.update(with_brokers(3, [1]))
    cache.update(told("t", topic_id=OTHER_ID, controller_epoch=2))
    assert (sorted(cache.topics["t"]), cache.topic_id("t"), cache.names.names_by_id) == ([0], OTHER_ID, {OTHER_ID: "t"})
    cache.learn_ids(leader_and_isr("t", ID, controller_epoch=3))
    assert "t" not in cache.topics, "until its partitions are told too"


@pytest.mark.parametrize("kind", [TYPE_FULL, TYPE_INCREMENTAL])
@pytest.mark.parametrize("led_first", [False, True])
def test_the_partitions_of_a_topic_of_another_id_were_deleted(kind: int, led_first: bool) -> None:
    """The controller died before all brokers had heard of the deletion, and the next one knows the topic that was made
    anew: a coordinator went on with what groups had committed for the former one, and their readers began behind what
    is written to the new one."""
    cache = MetadataCache()
    cache.update(with_brokers(3, [1]))
    if led_first:  # Kafka's next controller says so before it says anything of the topics to all
        cache.learn_ids(leader_and_isr("t", OTHER_ID, controller_epoch=2))
    deleted = cache.update(told("t", topic_id=OTHER_ID, controller_epoch=2, kind=kind))
    assert sorted(deleted) == [("t", 0), ("t", 1), ("t", 2)]
    assert cache.partition("t", 0) is not None and cache.topic_id("t") == OTHER_ID
    assert not cache.update(told("t", topic_id=OTHER_ID, controller_epoch=2, kind=TYPE_INCREMENTAL))


def test_the_memory_of_deleted_topics_is_bounded() -> None:
    cache = MetadataCache()
    cache.update(told())
    for number in range(DELETED_TOPICS_MAX + 1):
        cache.update(deletes(f"t{number}", topic_id=number.to_bytes(16, "big")))
    assert not cache.is_deleted("t0", 0) and cache.is_deleted("t1", 0)
    assert cache.is_deleted(f"t{DELETED_TOPICS_MAX}", 0)


def test_old_controllers_are_understood() -> None:
    """Up to version 4 partitions come in one list, up to 2 listeners have no name, in 0 there is no listener."""
    cache = MetadataCache()
    state = UpdateMetadataPartitionState(topic_name="t", partition_index=3, leader=1)
    live = [
        UpdateMetadataBroker(id=1, v0_host="first", v0_port=1),
        UpdateMetadataBroker(id=2, endpoints=[UpdateMetadataEndpoint(host="second", port=2, security_protocol=1)]),
        UpdateMetadataBroker(id=3, endpoints=[UpdateMetadataEndpoint(host="third", port=3, listener="INSIDE")]),
    ]
    cache.update(UpdateMetadataRequest(ungrouped_partition_states=[state], live_brokers=live))
    assert cache.partition("t", 3) is state and cache.topic_id("t") == ZERO_UUID
    assert [cache.brokers[broker].endpoints for broker in (1, 2, 3)] == [
        {"PLAINTEXT": ("first", 1)},
        {"SSL": ("second", 2)},
        {"INSIDE": ("third", 3)},
    ]


def test_subscribers_hear_of_updates_and_of_another_controller() -> None:
    cache = MetadataCache()
    heard: list[int] = []
    look = heard.append
    cache.subscribe(lambda: look(cache.controller_id))
    cache.update(told())
    cache.controller_changed(3)
    cache.controller_changed(3)
    cache.controller_changed(NO_CONTROLLER)
    assert heard == [0, 3, NO_CONTROLLER]


def with_brokers(count: int, isr: list[int], kind: int = TYPE_FULL) -> UpdateMetadataRequest:
    """Make a request about so many partitions of one topic on brokers 1 to 3."""
    states = [
        UpdateMetadataPartitionState(partition_index=index, leader=1, replicas=[1, 2, 3], isr=list(isr))
        for index in range(count)
    ]
    topics = [UpdateMetadataTopicState(topic_name="t", topic_id=ID, partition_states=states)]
    return UpdateMetadataRequest(type=kind, controller_epoch=1, broker_epoch=10, topic_states=topics)


def share_and_update(cache: MetadataCache, request: UpdateMetadataRequest) -> None:
    for _ in cache.share_lists(request):
        pass
    cache.update(request)


def test_partitions_share_lists_of_brokers_that_say_the_same() -> None:
    """Three lists are 232 of the 385 bytes of a partition, and 10,000 partitions of three brokers have a few."""
    cache = MetadataCache()
    share_and_update(cache, with_brokers(3, [1, 2, 3]))
    share_and_update(cache, with_brokers(2, [3, 1], TYPE_INCREMENTAL))
    states = [cache.partition("t", index) for index in range(3)]
    assert [(one.replicas, one.isr, one.offline_replicas) for one in states if one is not None] == [
        ([1, 2, 3], [3, 1], []), ([1, 2, 3], [3, 1], []), ([1, 2, 3], [1, 2, 3], []),
    ]  # fmt: skip
    lists = [lists for one in states if one is not None for lists in (one.replicas, one.isr, one.offline_replicas)]
    assert len({id(one) for one in lists}) == 3


def test_more_lists_than_are_shared_are_told_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_cache, "SHARED_LISTS_MAX", 2)
    cache = MetadataCache()
    for number in range(10):
        share_and_update(cache, with_brokers(2, [number, number + 1], TYPE_INCREMENTAL))
        told_last = cache.partition("t", 1)
        assert told_last is not None and (told_last.isr, told_last.replicas) == ([number, number + 1], [1, 2, 3])


def test_a_complete_update_deletes_each_partition_that_it_lacks_once() -> None:
    cache = MetadataCache()
    cache.update(with_brokers(4, [1]))
    cache.update(told("u", topic_id=OTHER_ID, kind=TYPE_INCREMENTAL))
    request = with_brokers(3, [1])
    request.controller_epoch = 2
    request.topic_states[0].partition_states[1].leader = LEADER_DURING_DELETE
    assert sorted(cache.update(request)) == [("t", 1), ("t", 3), ("u", 0)]
    assert (sorted(cache.topics["t"]), cache.topics.get("u")) == ([0, 2], None)
    assert cache.topic_id("u") == ZERO_UUID and cache.topic_id("t") == ID
    assert cache.is_deleted("t", 3) and cache.is_deleted("u", 0) and not cache.is_deleted("t", 0)
