"""Sentences: the journal's entries in words. The console's time line, `odradek why` and the state-change log all take
them from this table."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

NO_LEADER: Final = -1


class Sentence(NamedTuple):
    """Sentence of an entry: what happened, why, and figures that only some readers show."""

    kind: str
    """Word by which readers sort: election, isr, topic, truncation, broker, controller, session, failure, group."""
    what: str
    why: str = ""
    figures: str = ""
    many: str = ""
    """`what` for several partitions, with a place for their number, if the same often happens to many at once."""

    def __str__(self) -> str:
        what = f"{self.what}, {self.figures}" if self.figures else self.what
        return f"{what}: {self.why}" if self.why else what


TABLE: Final[Mapping[str, Sentence]] = {
    "broker came": Sentence("broker", "broker {subject} is registered in ZooKeeper", "", "broker epoch {epoch}"),
    "broker went": Sentence(
        "broker", "broker {subject} is not registered any more", "its ZooKeeper session has ended",
        "its broker epoch was {former_epoch}",
    ),
    "broker bounced": Sentence(
        "broker", "broker {subject} bounced", "it registered again before the controller saw it gone",
        "broker epoch {former_epoch} → {epoch}",
    ),
    "broker updated": Sentence("broker", "broker {subject} has registered with other addresses"),
    "broker shutting down": Sentence(
        "broker", "broker {subject} is shutting down and hands its partitions over",
        "it led {led}; of these nobody else can lead {still_led}", "broker epoch {epoch}",
    ),
    "controller elected": Sentence(
        "controller", "broker {subject} is the controller, epoch {epoch}",
        "/controller was free, and it was the first to take it",
    ),
    "controller epoch_raised": Sentence(
        "controller", "/controller_epoch went back to {former_epoch}, and is {epoch} now",
        "a later one has been obeyed: the znode was deleted, or is of an older ZooKeeper",
    ),
    "controller resigned": Sentence("controller", "broker {subject} is not the controller any more", "{reason}"),
    "session registered": Sentence(
        "session", "broker {subject} has registered itself in ZooKeeper", "", "session {session:#x}, epoch {epoch}"
    ),
    "session away": Sentence(
        "session", "broker {subject} does not reach ZooKeeper", "it goes on with what it knows until its session ends",
        "session {session:#x}",
    ),
    "session expired": Sentence(
        "session", "broker {subject} has lost its ZooKeeper session", "it led {led} partitions and leads none now",
        "session {session:#x}",
    ),
    "session deleted": Sentence(
        "session", "somebody has deleted the registration of broker {subject}",
        "it led {led} partitions and leads none until it has registered again", "session {session:#x}",
    ),
    "session back": Sentence(
        "session", "broker {subject} reaches ZooKeeper again", "in the same session: nothing is lost",
        "session {session:#x}",
    ),
    "failure": Sentence("failure", "{subject} stays as it was", "{reason} ({rule})"),
    "isr": Sentence(
        "isr", "{subject}: {lagging} not kept up for {limit_ms} ms", "{rule} is over", "leader epoch {leader_epoch}",
        "followers of {} partitions have not kept up",
    ),
    "truncation": Sentence(
        "truncation", "{subject} is truncated from {log_end_offset} to {to} to follow broker {leader}", "{lost}",
        "leader epoch {leader_epoch}", "{} partitions are truncated to follow another leader",
    ),
    "directory failed": Sentence("failure", "log directory {subject} has failed", "{reason}"),
    "fetcher unreachable": Sentence("failure", "a follower cannot reach broker {subject}", "{reason}"),
    "group rebalancing": Sentence("group", "group {subject} rebalances", "{reason}", "generation {generation}"),
    "group generation": Sentence("group", "group {subject} has generation {generation}", "", "{members} member(s)"),
    "group stable": Sentence("group", "group {subject} is stable", "", "generation {generation}, {members} member(s)"),
    "group member joined": Sentence("group", "{member} joined group {subject}", "", "{client} on {host}"),
    "group member left": Sentence("group", "{member} left group {subject}", "{reason}", "{client}"),
    "group member expired": Sentence(
        "group", "{member} was removed from group {subject}", "no heartbeat for {session_timeout_ms} ms", "{client}"
    ),
    "group member did not rejoin": Sentence(
        "group", "{member} was removed from group {subject}", "it did not rejoin in {rebalance_timeout_ms} ms",
        "{client}",
    ),
    "new": Sentence("topic", "", many="{} partitions are new"),
    "without leader": Sentence("election", "", many="{} partitions have no leader"),
    "moved": Sentence("election", "", many="{} partitions have a new leader"),
    "led anew": Sentence("election", "", many="{} partitions are led anew"),
    "grown": Sentence("isr", "", "the leader saw a follower catch up", many="the ISR of {} partitions has grown"),
    "shrunk": Sentence(
        "isr", "", "the leader saw a follower fall behind for replica.lag.time.max.ms",
        many="the ISR of {} partitions has shrunk",
    ),
}  # fmt: skip
"""Kind and change of an entry → sentence. For a partition the key is what differs from before, and RULES say why."""

RULES: Final[Mapping[str, str]] = {
    "NewPartition": "a new partition is led by its first live replica",
    "OfflinePartition": "the leader was gone, so the first live replica of the ISR leads",
    "ReassignPartition": "its replicas are being reassigned",
    "PreferredReplica": "the first replica of its assignment is in sync and leads again",
    "ControlledShutdown": "the leader is shutting down and has handed over first",
    "OfflineReplica": "broker {} is offline",
    "OfflineLogDirectory": "its log directory on broker {}, which is up, has failed or is full",
}
"""Reasons why a partition changed, by the name of the rule (Kafka's PartitionLeaderElectionStrategy, and others)."""

NOBODY_IN_SYNC: Final = "no replica of the ISR is up, so the first live replica outside it leads"
"""What an unclean election was decided by, under whichever rule."""

EVENTS: Final[Mapping[str, str]] = {
    "BrokersChanged": "the brokers registered in ZooKeeper changed",
    "ControllerChanged": "/controller in ZooKeeper changed",
    "TopicsChanged": "the topics in ZooKeeper changed",
    "AssignmentChanged": "an assignment in ZooKeeper changed",
    "DeletionsChanged": "topics are to be deleted",
    "IsrChangeNotified": "a leader wrote an ISR to ZooKeeper itself",
    "LeaderAndIsrAnswered": "a broker answered LeaderAndIsr",
    "LeadersToBalance": "the controller looked for leaders that are not the preferred ones",
    "LogDirectoriesReported": "a broker reported a log directory that failed, or has room again",
    "PreferredElectionAsked": "somebody asked for an election in ZooKeeper",
    "ReassignmentAsked": "somebody asked for a reassignment in ZooKeeper",
    "StopReplicaAnswered": "a broker answered StopReplica",
    "UncleanElectionEnabled": "unclean election was enabled",
}
"""Events of the controller's queue. Events that are not in this table are requests, under the names of their APIs."""


def tell(entry: Mapping[str, Any]) -> Sentence | None:
    """Return an entry's sentence. None for kinds without one (`write`, `requests`), for kinds of another version, and
    for entries of another shape."""
    try:
        return _told(entry)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _told(entry: Mapping[str, Any]) -> Sentence | None:
    kind = entry["kind"]
    if kind == "partition":
        return tell_change(entry["subject"], entry["before"], entry["after"], entry["rule"], bool(entry.get("unclean")))
    row = TABLE.get(f"{kind} {entry['change']}" if "change" in entry else kind)
    if row is None:
        return None
    facts = dict(entry)
    if kind == "isr":
        facts["lagging"] = _lagging(entry["lagging"])
    elif kind == "truncation":
        lost = entry["below_high_watermark"]
        facts["lost"] = f"{lost} of the records lost were acknowledged" if lost else "what is lost was not acknowledged"
    what, why, figures = (text.format_map(facts) for text in row[1:4])
    return row._replace(what=what, why=why, figures=figures)


def tell_change(
    subject: str, before: dict[str, Any] | None, after: dict[str, Any], rule: str = "", unclean: bool = False
) -> Sentence:
    """Return a sentence about changes of a partition's leader, ISR or epochs; with an empty rule it gives no reason."""
    was = after | {"leader": NO_LEADER} if before is None else before
    row = TABLE[_shape(before, after)]
    changes = [
        _step("leader", _leader(was), _leader(after)),
        _step("ISR", braces(sorted(was["isr"])), braces(sorted(after["isr"]))),
    ]
    if after["leader_epoch"] >= 0:
        changes.append(_step("leader epoch", was["leader_epoch"], after["leader_epoch"]))
    figures = [
        f"{name.replace('_', ' ')} {after[name]}" for name in ("partition_epoch", "controller_epoch") if name in after
    ]
    why = f"{row.why} ({rule})" if rule == "AlterPartition" and row.why else rule_in_words(rule)
    why = f"UNCLEAN, records may be lost: {NOBODY_IN_SYNC} ({rule})" if unclean else why
    return row._replace(what=f"{subject} {', '.join(changes)}", why=why, figures=", ".join(figures))


def rule_in_words(rule: str) -> str:
    """Return a rule as the reason of a change: `the leader was gone, so … (OfflinePartition)`."""
    name, _, broker = rule.partition(" ")
    return f"{RULES[name].format(broker)} ({name})" if name in RULES else rule


def event_in_words(event: str) -> str:
    """Return an event as a clause: `the brokers registered in ZooKeeper changed (BrokersChanged)`."""
    return f"{EVENTS[event]} ({event})" if event in EVENTS else f"{event} was asked for"


def braces(brokers: Iterable[int]) -> str:
    """Return an ISR as Kafka prints it: `{1,2}`."""
    return "{" + ",".join(map(str, brokers)) + "}"


def _shape(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str:
    if before is None:
        return "new"
    if after["leader"] == NO_LEADER:
        return "without leader"
    if after["leader"] != before["leader"]:
        return "moved"
    if set(after["isr"]) == set(before["isr"]):
        return "led anew"
    return "grown" if len(after["isr"]) > len(before["isr"]) else "shrunk"


def _step(name: str, before: object, after: object) -> str:
    return f"{name} {after}" if before == after else f"{name} {before} → {after}"


def _leader(state: Mapping[str, Any]) -> str:
    return "none" if state["leader"] == NO_LEADER else str(state["leader"])


def _lagging(followers: list[Mapping[str, Any]]) -> str:
    """Return which followers have not kept up, with the verb: `broker 2 (17 records behind) has`."""
    slow = [
        f"{one['broker']}"
        if one["records_behind"] is None
        else f"{one['broker']} ({one['records_behind']} records behind)"
        for one in followers
    ]
    return f"broker {slow[0]} has" if len(slow) == 1 else f"brokers {', '.join(slow)} have"
