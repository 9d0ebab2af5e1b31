"""Stories of groups: members, dynamic and static, and what others may ask of a group in each of its states."""

from dataclasses import dataclass
from typing import Any

from odradek.testing.beside.steps import Answered, Known, Step, Story, story, wanted

GROUP = "~g"
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
"""A consumer's, of topic t."""
OTHER_SUBSCRIPTION = SUBSCRIPTION[:-4] + b"\x00\x00\x00\x01x"
FIRST_WITH_INSTANCES = 5
"""Version of JoinGroup that knows static members."""


@dataclass(frozen=True)
class Assignments:
    """Assignments that a leader makes: to each member that its JoinGroup was told of, bytes that name it."""

    leader: str

    def of(self, side: Answered) -> Any:
        members = side.facts.get((self.leader, "members"), [])
        return [{"member_id": one.member_id, "assignment": side.name_of(one.member_id).encode()} for one in members]


def member(actor: str) -> Known:
    return Known(actor, "member_id", otherwise="")


def generation(actor: str, plus: int = 0) -> Known:
    return Known(actor, "generation_id", plus, otherwise=-1)


def join(
    actor: str,
    instance: str | None = None,
    *,
    member_id: Any = None,
    protocols: tuple[str, ...] = ("range",),
    metadata: bytes = SUBSCRIPTION,
    group: str = GROUP,
    since: int = 0,
    **fields: Any,
) -> Step:
    """Join under the id that the actor has been given, or under `member_id`; a static member without any.

    Versions that know no static members are left out: in them other members would be elected.
    """
    own = "" if instance is not None else member(actor)
    return Step(
        actor,
        "JoinGroup",
        {
            "group_id": group,
            "session_timeout_ms": 4000,
            "rebalance_timeout_ms": 1500,
            "member_id": own if member_id is None else member_id,
            "group_instance_id": instance,
            "protocol_type": "consumer",
            "protocols": [{"name": one, "metadata": metadata} for one in protocols],
            **fields,
        },
        since if instance is None else FIRST_WITH_INSTANCES,
    )


def sync(actor: str, instance: str | None = None, *, leader: bool = False, since: int = 0, **fields: Any) -> Step:
    given: dict[str, Any] = {
        "group_id": GROUP,
        "generation_id": generation(actor),
        "member_id": member(actor),
        "group_instance_id": instance,
        "assignments": Assignments(actor) if leader else [],
    }
    return Step(actor, "SyncGroup", given | fields, since)


def heartbeat(actor: str, instance: str | None = None, **fields: Any) -> Step:
    given = {
        "group_id": GROUP,
        "generation_id": generation(actor),
        "member_id": member(actor),
        "group_instance_id": instance,
    }
    return Step(actor, "Heartbeat", given | fields)


def leave(actor: str, *members: tuple[Any, str | None], member_id: Any = None, group: str = GROUP) -> Step:
    """Make the step of a LeaveGroup. `members`: (member id, instance) of those that go; by default the actor alone."""
    gone = members or ((member(actor) if member_id is None else member_id, None),)
    fields = {
        "group_id": group,
        "member_id": gone[0][0],
        "members": [{"member_id": one, "group_instance_id": instance} for one, instance in gone],
    }
    return Step(actor, "LeaveGroup", fields)


def commit(actor: str = "admin", *, offset: int = 5, topic: str = "t", partition: int = 0, **fields: Any) -> Step:
    given = {"group_id": GROUP, "topics": [committed(topic, partition, offset)]}
    return Step(actor, "OffsetCommit", given | fields, since=1)


def committed(topic: str, partition: int, offset: int, metadata: str | None = "m") -> dict[str, Any]:
    one = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
    return {"name": topic, "partitions": [one]}


def commit_as(actor: str, plus: int = 0, instance: str | None = None, **fields: Any) -> Step:
    who = {"generation_id_or_member_epoch": generation(actor, plus), "member_id": member(actor)}
    return commit(actor, **(who | {"group_instance_id": instance} | fields))


def describe(*groups: str) -> Step:
    return Step("admin", "DescribeGroups", {"groups": list(groups or (GROUP,)), "include_authorized_operations": True})


def listing(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Step:
    return Step("admin", "ListGroups", {"states_filter": list(states), "types_filter": list(types)}, since=4)


def delete(*groups: str) -> Step:
    return Step("admin", "DeleteGroups", {"groups_names": list(groups or (GROUP,))})


def forget(*topics: str, group: str = GROUP) -> Step:
    """OffsetDelete."""
    asked = [{"name": one, "partitions": [{"partition_index": 0}, {"partition_index": 7}]} for one in topics]
    return Step("admin", "OffsetDelete", {"group_id": group, "topics": asked})


def fetched(*topics: str, group: str = GROUP, stable: bool = False, since: int = 1, partition: int = 0) -> Step:
    """OffsetFetch of partition 0 of `topics`; of all when none is given."""
    asked = [{"name": one, "partition_indexes": [partition, 7]} for one in topics] or None
    since = since if asked else max(since, 2)
    groups = [{"group_id": group, "topics": asked}]
    fields = {"group_id": group, "topics": asked, "groups": groups, "require_stable": stable}
    return Step("admin", "OffsetFetch", fields, since)


def everything_asked() -> tuple[Step, ...]:
    """Return what others may ask of a group, in an order that leaves it as it was unless it is empty."""
    return (
        describe(),
        fetched("t", "compacted", "missing"),
        fetched(),
        commit(offset=7),
        commit(offset=8, generation_id_or_member_epoch=1),
        commit(offset=9, member_id="stranger", generation_id_or_member_epoch=3),
        commit(offset=9, partition=7),
        forget("t", "compacted", "missing"),
        fetched("t"),
        delete(),
    )


def entered(actor: str, **fields: Any) -> tuple[Step, ...]:
    """Return a dynamic member's way in: from version 4 on it is given an id first."""
    return join(actor, **fields), join(actor, **fields)


def alone(actor: str = "a", **fields: Any) -> tuple[Step, ...]:
    """Return the steps to a stable group of one member."""
    return *entered(actor, **fields), sync(actor, leader=True)


def two() -> tuple[Step, ...]:
    """Return the steps to a stable group of two dynamic members, led by the first."""
    return *alone("a"), *entered("b"), join("a"), sync("b"), sync("a", leader=True)


def two_static() -> tuple[Step, ...]:
    """Return the steps to a stable group of two static members, led by the first."""
    first = (join("s", "one"), sync("s", "one", leader=True))
    return (
        *first,
        join("t", "two"),
        join("s", "one", member_id=member("s")),
        sync("t", "two"),
        sync("s", "one", leader=True),
    )


STORIES: tuple[Story, ...] = (
    story("a group that does not exist",
        *everything_asked(), describe(), delete()),
    story("nonsense in JoinGroup",
        join("a", group=""), join("a", session_timeout_ms=1), join("a", session_timeout_ms=2_000_000_000),
        join("a", protocols=()), join("a", protocol_type=""), join("a", member_id="stranger"), join("b", "", since=5),
        join("b", "one", member_id="stranger", since=5), join("b", "a b/c", since=5), join("b", "x" * 250, since=5),
        join("b", ".", since=5), describe()),
    story("a member alone",
        *alone(), heartbeat("a"), sync("a"), sync("a", leader=True), commit_as("a"), *everything_asked(),
        heartbeat("a"), leave("a"), *everything_asked(), delete()),
    story("generations that are not the group's",
        *alone(), heartbeat("a", generation_id=generation("a", 1)), heartbeat("a", generation_id=generation("a", -1)),
        heartbeat("a", generation_id=-1), sync("a", generation_id=generation("a", 1)), sync("a", generation_id=-1),
        commit_as("a", 1), commit_as("a", -1), commit_as("a", generation_id_or_member_epoch=-1),
        commit_as("a", member_id=""), leave("a"), heartbeat("a"), sync("a"), commit_as("a"), leave("a")),
    story("members that the group does not know",
        *alone(), heartbeat("x", member_id="stranger"), sync("x", member_id="stranger", generation_id=1),
        leave("x", member_id="stranger"), leave("x", member_id=""), heartbeat("x", member_id=""),
        sync("x", member_id=""), heartbeat("x", "one", member_id="stranger"),
        sync("x", "one", member_id="stranger", generation_id=1), leave("x", ("stranger", "one")),
        leave("x", ("", "one")), leave("x", ("stranger", None), (member("a"), None), ("", "one")), describe()),
    story("protocols that do not fit",
        *alone(protocols=("range", "rr")), join("b", protocols=("other",)), join("b", protocol_type="connect"),
        *entered("b", protocols=("rr",)), join("a", protocols=("range", "rr")),
        sync("a", leader=True, protocol_type="other", since=5),
        sync("a", leader=True, protocol_name="range", since=5),
        sync("b", protocol_type="consumer", protocol_name="rr", since=5),
        sync("a", leader=True, protocol_type="consumer", protocol_name="rr", since=5), describe()),
    story("a group between two generations",
        *alone(), *entered("b"), *everything_asked(), listing(("PreparingRebalance",)), heartbeat("a"),
        commit_as("a"), commit_as("a", 1), sync("a"), join("a"), *everything_asked(),
        listing(("CompletingRebalance",)), heartbeat("a"), heartbeat("b"), commit_as("a"), sync("b"), heartbeat("b"),
        sync("a", leader=True), heartbeat("a"), heartbeat("b"), describe()),
    story("members that join again",
        *two(), join("b"), join("a"), sync("b"), sync("a", leader=True), describe(),
        join("b", metadata=OTHER_SUBSCRIPTION), heartbeat("a"), join("a"), sync("b"), sync("a", leader=True),
        describe(), leave("b"), heartbeat("a"), join("a"), sync("a", leader=True), describe(), leave("a"), describe()),
    story("a member that leaves while others wait",
        *alone(), *entered("b"), leave("a"), sync("b", leader=True), describe(), *entered("c"), leave("b"),
        heartbeat("c"), leave("c"), describe()),
    story("an id that was given and not used",
        join("a", since=4), describe(), listing(), heartbeat("a"), sync("a", generation_id=0), leave("a"), leave("a"),
        join("a", since=4), join("b", since=4), join("b", since=4), delete(), commit(), leave("b"), delete()),
    story("an assignment that leaves somebody out",
        *alone(), *entered("b"), join("a"), sync("b"),
        sync("a", assignments=[{"member_id": member("a"), "assignment": b"all"}]), describe(), sync("b"), sync("a"),
        join("a", metadata=OTHER_SUBSCRIPTION), join("b"), sync("b"),
        sync("a", assignments=[{"member_id": "stranger", "assignment": b"x"}]), describe()),
    story("a member that does not come back",
        *alone(), *entered("b"), sync("b", leader=True), heartbeat("a"), describe()),
    story("static members come back under their instance",
        *two_static(), describe(), heartbeat("s", "one"), join("u", "one"), heartbeat("s", "one"),
        heartbeat("u", "one"), sync("u", "one"), sync("s", "one"), commit_as("s", instance="one"),
        commit_as("u", instance="one"), describe(), join("v", "two"), sync("v", "two"), sync("t", "two"),
        heartbeat("t", "two"), describe()),
    story("a static member comes back with another subscription",
        *two_static(), join("v", "two", metadata=OTHER_SUBSCRIPTION), sync("v", "two"), describe(),
        join("u", "one", metadata=OTHER_SUBSCRIPTION), sync("u", "one"), describe()),
    story("a static member comes back with another protocol",
        join("s", "one", protocols=("range", "rr")), sync("s", "one", leader=True),
        join("u", "one", protocols=("rr",)), sync("u", "one", leader=True), describe()),
    story("a static member is replaced while it waits to join",
        *two_static(), *entered("c"), join("t", "two", member_id=member("t")), join("v", "two"),
        heartbeat("t", "two"), join("s", "one", member_id=member("s")), sync("v", "two"), sync("c"),
        sync("s", "one", leader=True), describe()),
    story("a static member is replaced while it waits for its assignment",
        *two_static(), join("s", "one", member_id=member("s"), metadata=OTHER_SUBSCRIPTION),
        join("t", "two", member_id=member("t")), sync("t", "two"), join("v", "two"), describe(),
        join("s", "one", member_id=member("s")), sync("v", "two"), sync("s", "one", leader=True), describe()),
    story("static members leave and are fenced",
        *two_static(), leave("s", (member("t"), "one")), leave("s", ("stranger", "one")),
        leave("admin", ("", "three")), leave("admin", ("", "two"), ("", "two")), heartbeat("t", "two"),
        heartbeat("s", "one"), join("s", "one", member_id=member("s")), sync("s", "one", leader=True),
        join("t", "two", member_id=member("t")), leave("s", (member("s"), "one")), describe(), *everything_asked()),
    story("a name under another's id",
        *two_static(), join("s", "two", member_id=member("s")), sync("s", "two"), heartbeat("s", "two"),
        heartbeat("s", "unknown"), heartbeat("s", None), commit_as("s", instance="two"),
        commit_as("s", instance="unknown"), join("s", "unknown", member_id=member("s")), describe()),
    story("offsets of nobody's group",
        commit(), commit(offset=-1), commit(offset=-2), commit(topic="missing"), commit(topic="", group_id="~h"),
        commit(group_id=""), commit(group_id="", generation_id_or_member_epoch=3),
        commit(generation_id_or_member_epoch=0), commit(member_id="m"), commit(retention_time_ms=60_000),
        commit(topics=[committed("t", 0, 3, "x" * 5000)]), commit(topics=[committed("t", 1, 4, None)]),
        commit(topics=[]), commit(topics=[committed("t", 0, 3), committed("missing", 0, 4)]),
        wanted("echo", commit(topics=[{"name": "t", "partitions": []}])), fetched("t"), fetched(), fetched(group=""),
        fetched("t", group="~none"), describe(), listing(("Empty",)), forget("t", "compacted"), fetched(), delete(),
        describe(), fetched()),
    story("several groups at once",
        commit(), commit(group_id="~h", offset=6),
        Step("admin", "OffsetFetch", {"groups": [{"group_id": GROUP, "topics": None}, {"group_id": "~h", "topics":
            [{"name": "t", "partition_indexes": [0]}]}, {"group_id": "~none", "topics": []}, {"group_id": "",
            "topics": None}, {"group_id": GROUP, "member_id": "m", "member_epoch": 3, "topics": []}]}, since=8),
        describe(GROUP, "~h", "~none", ""), describe(GROUP, GROUP), delete(GROUP, "~none", ""), delete("~h", "~h"),
        Step("admin", "FindCoordinator", {"key": GROUP, "coordinator_keys": [GROUP, "~h", "", "x" * 300]}),
        Step("admin", "FindCoordinator", {"key": "", "key_type": 0, "coordinator_keys": []}),
        Step("admin", "FindCoordinator", {"key": "tx", "key_type": 1, "coordinator_keys": ["tx", ""]}),
        wanted("no share groups", Step("admin", "FindCoordinator", {"key": "tx", "key_type": 2, "coordinator_keys":
            ["g:x:1", ""]}, since=1)),
        Step("admin", "FindCoordinator", {"key": "tx", "key_type": 9, "coordinator_keys": ["tx"]}, since=1)),
    story("lists by state and type",
        *alone(), commit(group_id="~h"), listing(), listing(("Stable",)), listing(("stable", "EMPTY")),
        listing(("Dead",)), listing(("nonsense",)), listing(types=("classic",)),
        listing(types=("Classic", "consumer")), listing(types=("consumer",)), listing(types=("nonsense",)),
        listing(("",), ("",)), leave("a"), delete(), delete("~h")),
    story("groups that are no consumers",
        *alone(protocol_type="connect", metadata=b"\x00any"), commit(), commit_as("a"), forget("t"), describe(),
        listing(), fetched(), delete(), leave("a"), forget("t"), fetched(), delete()),
    story("topics that members read",
        *alone(), commit_as("a"), commit_as("a", topics=[committed("compacted", 0, 4)]), forget("t", "compacted"),
        fetched(), leave("a"), forget("t", "compacted"), fetched(), forget("t", group=""), forget("t", group="~none"),
        forget()),
    story("the new group protocol, which a cluster with ZooKeeper has not",
        Step("a", "ConsumerGroupHeartbeat", {"group_id": GROUP, "member_epoch": 0, "subscribed_topic_names": ["t"],
            "rebalance_timeout_ms": 1000, "topic_partitions": []}),
        Step("a", "ConsumerGroupDescribe", {"group_ids": [GROUP]})),
)  # fmt: skip
