"""Situations of a consumer group: who reads, how far behind, and what keeps it from going on."""

from collections.abc import Sequence

from odradek.diagnosis.cases import GROUP, GroupCase, PartitionCase, duration
from odradek.diagnosis.history import Noted
from odradek.diagnosis.situation import Told, WayOut, Weight
from odradek.diagnosis.transactions import transaction_of

row = GROUP.row

REBALANCES_MANY = 4
"""Rebalances within REBALANCES_WITHIN_MS that are too many."""
REBALANCES_WITHIN_MS = 300_000
SHOWN = 3
DROPPED_OUT = ("member expired", "member did not rejoin", "member left")
MEANT_TO_LEAVE = ("the consumer is closing", "the consumer is being closed", "the consumer unsubscribed")
"""Begin the reasons of members that leave because their program ends or no longer reads: our client's, and Java's."""


@row(Weight.STOPPED, "__consumer_offsets; FindCoordinator", "`odradek why __consumer_offsets-P`")
def coordinator_unavailable(case: GroupCase) -> Told | None:
    """The group cannot be coordinated: its partition of __consumer_offsets has no leader, or its leader does not
    answer."""
    group = case.group
    if not group.refusal or group.home is None:
        return None
    rule = f"its offsets are in {group.home}, whose leader coordinates it"
    return Told("has no coordinator", group.refusal, rule, (case.way("see why", f"why {group.home}"),))


@row(Weight.UNEVEN, "GroupCoordinator; offsets.retention.minutes", "start a consumer; or `odradek groups delete G`")
def no_members(case: GroupCase) -> Told | None:
    """The group has no members, and unread records wait for it."""
    if case.group.refusal or case.group.state != "Empty" or not case.behind:
        return None
    last = next(
        (one for one in reversed(case.events) if one.change.startswith("member ") and one.change != "member joined"),
        None,
    )
    because = f"{sum(case.behind.values())} record(s) in {len(case.behind)} partition(s) wait"
    if last is not None:
        because = f"its last member {_went(last)} at {case.time(last.at_ms)}; {because}"
    ways = (
        WayOut("start a consumer of it"),
        case.way("if it is not wanted any more", f"groups delete {case.typed}"),
    )
    rule = "its offsets are deleted offsets.retention.minutes after its last member left"
    unknown = "" if last is not None else case.unknown_before(None)
    return Told(
        "has no members",
        because,
        rule,
        ways,
        None if last is None else last.at_ms,
        unknown,
        () if last is None else (last,),
    )


def _dropped_out(noted: Noted) -> bool:
    return noted.change in DROPPED_OUT and not (noted.entry.get("reason") or "").startswith(MEANT_TO_LEAVE)


def _went(noted: Noted) -> str:
    entry, client = noted.entry, noted.entry.get("client", "")
    match noted.change:
        case "member expired":
            return f"({client}) was silent for longer than session.timeout.ms={entry['session_timeout_ms']}"
        case "member did not rejoin":
            limit = entry["rebalance_timeout_ms"]
            return f"({client}) did not come to the rebalance within max.poll.interval.ms={limit}"
        case _:
            return f"({client}) left" + (f": {entry['reason']}" if entry.get("reason") else "")


@row(
    Weight.STOPPED,
    "max.poll.interval.ms; session.timeout.ms; KIP-62",
    "fewer records in a poll or more time for them; members that send heartbeats",
)
def rebalances_on_and_on(case: GroupCase) -> Told | None:
    """The group rebalances again and again, or cannot complete a rebalance: members join and drop out, and nobody reads
    meanwhile."""
    since_ms = case.facts.now_ms - REBALANCES_WITHIN_MS
    recent = [one for one in case.events if one.change == "rebalancing" and one.at_ms > since_ms]
    drops = [one for one in case.events if one.at_ms > since_ms and _dropped_out(one)]
    busy = case.group.state in ("PreparingRebalance", "CompletingRebalance")
    if not busy and (len(recent) < REBALANCES_MANY or not drops or _has_ended(case, drops)):
        return None
    within = duration(case.facts.now_ms - recent[0].at_ms) if recent else ""
    what = f"has rebalanced {len(recent)} times within {within}" if len(recent) >= REBALANCES_MANY else "rebalances now"
    if drops:
        because = f"{len(drops)} time(s) a member dropped out; the last one {_went(drops[-1])}"
    elif recent:
        because = str(recent[-1].entry["reason"])
    else:
        because = "its members are to join" if case.group.state == "PreparingRebalance" else "an assignment is awaited"
    rule = "nobody reads until all members have joined"
    evidence = (*recent[-2:], *drops[-1:])
    unknown = "" if recent else case.unknown_before(None)
    return Told(what, because, rule, (_steadier(case, drops),), None, unknown, evidence)


def _has_ended(case: GroupCase, drops: Sequence[Noted]) -> bool:
    """Tell whether the last member is gone of its own accord: librdkafka's leave without a reason when they close."""
    return case.group.state == "Empty" and drops[-1].change == "member left" and not drops[-1].entry.get("reason")


def _steadier(case: GroupCase, drops: Sequence[Noted]) -> WayOut:
    """Tell what keeps members in their group."""
    if not drops:
        return case.way("see who comes and goes", f"groups describe --members {case.typed}")
    if drops[-1].change == "member expired":
        return WayOut("see that members send heartbeats (they are frozen, or session.timeout.ms is too short)")
    return WayOut("have fewer records in a poll (max.poll.records), or more time for them (max.poll.interval.ms)")


@row(
    Weight.DEGRADED,
    "partition.assignment.strategy",
    "have the group rebalance, or forget offsets of topics that nobody reads any more",
)
def partition_without_owner(case: GroupCase) -> Told | None:
    """The group has members, but none of them owns a partition with unread records: its lag grows."""
    if case.group.state != "Stable":
        return None
    orphans = case.unowned
    if not orphans:
        return None
    named = ", ".join(f"{at} ({lag} behind)" for at, lag in sorted(orphans.items())[:SHOWN])
    topics = {at.topic for at in orphans}
    read = {at.topic for at in case.assigned}
    if topics & read:
        because, way = (
            f"{named}: the assignor {case.group.assignor} gave it to nobody",
            _rebalance(case),
        )
    else:
        because = f"{named}: no member subscribes to {', '.join(sorted(topics))} any more"
        some = sorted(orphans)[0]
        way = case.way(
            "forget those offsets when no member is there",
            f"groups reset-offsets {case.typed} --topic {some.topic} --to-latest --execute",
        )
    return Told("leaves partitions unread", because, f"assignor {case.group.assignor}", (way,))


def _rebalance(case: GroupCase) -> WayOut:
    if any(one.group_instance_id is not None for one in case.group.members):
        return WayOut(
            "have the group rebalance: start one more member (one with a group.instance.id restarts unnoticed)"
        )
    return WayOut("have the group rebalance: restart a member")


@row(
    Weight.DEGRADED,
    "auto.offset.reset; log.retention.ms",
    "`odradek groups reset-offsets G --topic T:P --to-earliest --execute`",
)
def committed_out_of_range(case: GroupCase) -> Told | None:
    """Offsets that the group has committed are outside the log: retention has deleted the records, or an unclean
    election has truncated the log. auto.offset.reset decides where the consumer continues."""
    below, above = {}, {}
    for at, offset in case.group.committed.items():
        partition = case.facts.partition(at)
        if partition is None or partition.start_offset is None or partition.high_watermark is None:
            continue
        if offset < partition.start_offset:
            below[at] = (offset, partition.start_offset)
        elif offset > partition.high_watermark:
            above[at] = (offset, partition.high_watermark)
    if not below and not above:
        return None
    causes = [
        f"{at}: committed {offset}, the log begins at {start}: {start - offset} record(s) went unread"
        for at, (offset, start) in sorted(below.items())[:SHOWN]
    ]
    causes += [
        f"{at}: committed {offset}, the log ends at {end}" for at, (offset, end) in sorted(above.items())[:SHOWN]
    ]
    at = sorted(below | above)[0]
    reset = f"groups reset-offsets {case.typed} --topic {at.topic}:{at.partition} --to-earliest --execute"
    rule = (
        "retention deleted what was not read"
        if below
        else "an unclean election took what was read, or the topic was deleted and created again"
    )
    return Told(
        "has committed offsets outside of the log",
        "; ".join(causes),
        rule,
        (case.way("choose where it goes on, with its consumers stopped", reset),),
    )


@row(Weight.DEGRADED, "isolation.level=read_committed; transaction.timeout.ms", "`odradek why T-P`")
def behind_open_transaction(case: GroupCase) -> Told | None:
    """The group has read all committed records; an open transaction holds back the rest."""
    for at, lag in sorted(case.behind.items()):
        partition = case.facts.partition(at)
        if partition is None or not partition.transactions or case.group.committed[at] != partition.last_stable_offset:
            continue
        first = min(partition.transactions, key=lambda one: one.start_offset)
        there = PartitionCase(case.facts, case.history, case.facts.topics[at.topic], partition)
        rule = f"read_committed consumers see nothing from offset {partition.last_stable_offset} on"
        way = case.way("it ends with its transaction; if that hangs", f"why {at}")
        return Told(
            f"waits for a transaction in {at} ({lag} behind)",
            transaction_of(there, first),
            rule,
            (way,),
            first.last_timestamp_ms,
        )
    return None


@row(Weight.DEGRADED, "__consumer_offsets", "`odradek why T-P`")
def reads_what_has_no_leader(case: GroupCase) -> Told | None:
    """A partition that the group reads has no leader."""
    waiting = sorted(
        at
        for at in {*case.assigned, *case.group.committed}
        if (one := case.facts.partition(at)) is not None and one.leader < 0
    )
    if not waiting:
        return None
    return Told(
        "waits for partitions without leader",
        ", ".join(map(str, waiting[:SHOWN])),
        "",
        (case.way("see why", f"why {waiting[0]}"),),
    )


@row(
    Weight.NOTE,
    "max.poll.records; fetch.max.bytes",
    "more consumers, up to one for each partition; `odradek groups describe G` shows whether it catches up",
)
def lags(case: GroupCase) -> Told | None:
    """Members own the partitions in which the group is behind: they read more slowly than producers write, or have
    started a moment ago."""
    owned = {at: lag for at, lag in case.behind.items() if at in case.assigned}
    if case.group.state != "Stable" or not owned:
        return None
    worst = max(owned, key=lambda at: owned[at])
    members = len(case.group.members)
    most = f"most in {worst} ({owned[worst]}), which {case.assigned[worst]} reads"
    because = f"{sum(owned.values())} record(s) in {len(owned)} partition(s), {most}"
    partitions = len(case.assigned)
    more = (
        WayOut(f"start more consumers (it has {members} for {partitions} partitions)")
        if members < partitions
        else WayOut("make each record cheaper, or give the topic more partitions")
    )
    return Told(
        "is behind",
        because,
        "",
        (case.way("see whether it catches up", f"groups describe {case.typed}"), more),
    )


@row(Weight.NOTE, "auto.offset.reset", "see that members commit")
def nothing_committed(case: GroupCase) -> Told | None:
    """Members own partitions in which the group has committed nothing: auto.offset.reset decides where they restart."""
    if case.group.state != "Stable" or not case.assigned or any(at in case.group.committed for at in case.assigned):
        return None
    because = (
        f"{len(case.assigned)} partition(s) are owned by {len(case.group.members)} member(s), and none has an offset"
    )
    return Told(
        "has committed nothing",
        because,
        "until then auto.offset.reset says where a restart begins",
        (WayOut("see that they commit (enable.auto.commit, or commit())"),),
    )
