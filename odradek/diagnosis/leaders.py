"""Situations of a partition's leader: there is none, it is not the preferred one, it was elected at a price."""

from odradek.diagnosis.cases import PARTITION, PartitionCase, keep_less
from odradek.diagnosis.history import Noted
from odradek.diagnosis.situation import Told, WayOut, Weight, numbers
from odradek.journal.sentences import braces, rule_in_words
from odradek.zk_schema.znodes.topics import NO_LEADER

row = PARTITION.row

REMEMBERED_MS = 24 * 3_600_000
"""Time for which an unclean election is a finding."""


@row(
    Weight.STOPPED,
    "unclean.leader.election.enable; KafkaController.onReplicasBecomeOffline",
    "start a broker of the ISR or mend its disk; or `odradek elect-leaders --unclean T-P`: records may be lost",
)
def isr_died(case: PartitionCase) -> Told | None:
    """The partition has no leader: every in-sync replica is down, and a leader from outside the ISR is not allowed."""
    partition = case.partition
    if partition.leader != NO_LEADER or case.topic.deleting or any(_could_lead(case, one) for one in partition.isr):
        return None
    away = [one for one in partition.isr if one in case.dead]
    diskless = [one for one in partition.isr if one in case.diskless]
    causes = [f"its ISR was {braces(partition.isr)}"]
    causes += [case.gone(away)] if away else []
    causes += [f"its log directory on broker {one} is offline" for one in diskless]
    ways = [WayOut(f"it comes back with broker {numbers(away)}", case.start(away[0]).command)] if away else []
    ways += [WayOut(f"mend the disk of broker {numbers(diskless)} and start it again")] if diskless else []
    others = [one for one in case.outside if _could_lead(case, one)]
    if others:
        lost = f"from broker {numbers(others)}, without the records that only the ISR had"
        ways.append(case.way(lost, f"elect-leaders --unclean {case.name}"))
    allowed = case.unclean_allowed
    unclean = {True: "on, but no other replica lives", False: "off", None: "not known to be on"}[allowed]
    return Told(
        case.has("no leader"), "; ".join(causes), f"unclean election is {unclean}", tuple(ways), case.since_ms,
        unknown=case.unknown_before(case.since_ms), evidence=tuple(case.changes[-1:]),
    )  # fmt: skip


@row(Weight.STOPPED, "/controller; KafkaController.elect", "`odradek doctor` says what keeps a controller away")
def nobody_elects(case: PartitionCase) -> Told | None:
    """The partition's leader is down, or there is none, while an in-sync replica could lead: the controller that would
    elect it is missing or has not got to it."""
    partition = case.partition
    ready = [one for one in partition.isr if _could_lead(case, one)]
    if case.is_led or not ready or case.topic.deleting:
        return None
    leader = "no leader" if partition.leader == NO_LEADER else f"broker {partition.leader}, which is offline, as leader"
    if case.facts.controller == NO_LEADER:
        because, way = "there is no controller to elect one", case.way("see what keeps it away", "doctor")
    else:
        because = f"controller {case.facts.controller} has not elected one yet"
        way = case.way("it takes milliseconds once the dead broker's session has ended; look again", f"why {case.name}")
    rule = f"broker {numbers(ready)} is in sync and could lead it"
    return Told(case.has(leader), because, rule, (way,), case.since_ms)


@row(
    Weight.STOPPED,
    "log.dirs; KAFKA_STORAGE_ERROR",
    "`odradek configs alter --topic T --set retention.ms=…`; or free room on the disk",
)
def leader_disk_full(case: PartitionCase) -> Told | None:
    """The disk of the partition's leader has no room for another batch of max.message.bytes, 1 MB at most."""
    leader = case.partition.leader
    full = case.full_disk(leader)
    if not case.is_led or not full or case.topic.deleting:
        return None
    ways = [WayOut("free room there"), case.way("keep records for less time", keep_less(case))]
    roomy = [one for one in case.partition.isr if one != leader and not case.full_disk(one)]
    if roomy:
        order = ",".join(map(str, [*roomy, *(one for one in case.partition.replicas if one not in roomy)]))
        ways.append(case.way(f"put broker {roomy[0]} first", f"reassign start {case.name}={order}"))
        ways.append(case.way("and when that is done, have it elected", f"elect-leaders {case.name}"))
    rule = "producers get KAFKA_STORAGE_ERROR, and try again, until it has room"
    return Told("has no room for a batch", full, rule, tuple(ways))


@row(Weight.STOPPED, "zookeeper.session.timeout.ms; NOT_LEADER_OR_FOLLOWER", "see that brokers reach ZooKeeper")
def leader_without_session(case: PartitionCase) -> Told | None:
    """The broker that the metadata names as leader has lost its ZooKeeper session, so it leads nothing."""
    leader = case.partition.leader
    session = case.history.last("session", str(leader))
    if session is None or session.change != "expired" or not case.is_led or case.topic.deleting:
        return None
    because = f"broker {leader} lost its ZooKeeper session at {case.time(session.at_ms)} and has begun no other"
    rule = "a broker without a session may not lead: it refuses with NOT_LEADER_OR_FOLLOWER"
    way = case.way("see why ZooKeeper does not answer", f"why {leader}")
    return Told("is led by nobody", because, rule, (way,), session.at_ms, evidence=(session,))


def _could_lead(case: PartitionCase, broker: int) -> bool:
    return broker not in case.dead and broker not in case.diskless


@row(
    Weight.UNEVEN,
    "auto.leader.rebalance.enable; KafkaController.checkAndTriggerAutoLeaderRebalance",
    "`odradek elect-leaders T-P`",
)
def leader_not_preferred(case: PartitionCase) -> Told | None:
    """The partition is not led by its preferred replica, although that is in sync."""
    partition = case.partition
    preferred = partition.replicas[0] if partition.replicas else NO_LEADER
    if not case.is_led or partition.leader == preferred or preferred not in partition.isr or partition.adding:
        return None
    moved = next((one for one in reversed(case.changes) if _leader_left(one) == preferred), None)
    because = f"broker {preferred} is the first of its replicas and in sync"
    if moved is not None:
        because += f"; it lost the lead at {case.time(moved.at_ms)} ({rule_in_words(moved.rule)})"
    automatic = any(one.settings.get("auto.leader.rebalance.enable") == "true" for one in case.facts.brokers.values())
    rule = (
        "auto.leader.rebalance.enable would give it back in time"
        if automatic
        else "auto.leader.rebalance.enable is off"
    )
    way = case.way("give it back now", f"elect-leaders {case.name}")
    evidence = () if moved is None else (moved,)
    return Told(f"is led by broker {partition.leader}", because, rule, (way,), case.since_ms, evidence=evidence)


def _leader_left(noted: Noted) -> int | None:
    before = noted.entry.get("before")
    left = None if before is None else before["leader"]
    return left if left != noted.entry["after"]["leader"] else None


@row(
    Weight.LOST,
    "unclean.leader.election.enable; KIP-106",
    "`odradek configs alter --topic T --set unclean.leader.election.enable=false`",
)
def unclean_election(case: PartitionCase) -> Told | None:
    """A leader was elected from outside the ISR: records that only the former leader had are lost."""
    unclean = next((one for one in reversed(case.changes) if one.entry.get("unclean") and one.isr_before), None)
    if unclean is None or case.facts.now_ms - unclean.at_ms > REMEMBERED_MS:
        return None
    before, after = unclean.entry["before"], unclean.entry["after"]
    cuts = [one for one in case.history.about("truncation", case.name) if one.at_ms >= unclean.at_ms]
    cost = [
        f"broker {one.broker} cut {one.entry['log_end_offset'] - one.entry['to']} record(s) from offset "
        f"{one.entry['to']} on, {one.entry['below_high_watermark']} of them below its high watermark"
        for one in cuts
        if one.broker in before["isr"]
    ]
    away = [one for one in before["isr"] if one not in {cut.broker for cut in cuts} and one not in case.partition.isr]
    unknown = f"what it cost is not known before broker {numbers(away)} is back" if away and not cost else ""
    because = f"broker {after['leader']} was elected though the ISR was {braces(before['isr'])}"
    asked = (
        "`elect-leaders --unclean` asked for it"
        if unclean.event == "ElectLeaders"
        else "unclean.leader.election.enable=true"
    )
    way = case.way(
        "keep it from happening by itself",
        f"configs alter --topic {case.partition.topic} --set unclean.leader.election.enable=false",
    )
    return Told(
        f"had an unclean election at {case.time(unclean.at_ms)}", "; ".join([because, *cost]), asked,
        () if unclean.event == "ElectLeaders" else (way,), unclean.at_ms, unknown, (unclean, *cuts),
    )  # fmt: skip


@row(Weight.NOTE, "KIP-704", "nothing")
def leader_recovers(case: PartitionCase) -> Told | None:
    """The leader was elected from outside the ISR and has not told the controller that it has recovered."""
    if not case.partition.recovering or not case.is_led:
        return None
    because = f"broker {case.partition.leader} was elected from outside the ISR"
    return Told("recovers from an unclean election", because, "leader_recovery_state=1 in ZooKeeper", (), case.since_ms)


@row(Weight.NOTE, "PartitionStateMachine.doElectLeaderForPartitions", "nothing")
def leader_moved(case: PartitionCase) -> Told | None:
    """The partition got another leader, without loss."""
    moved = next((one for one in reversed(case.changes) if _leader_left(one) is not None), None)
    if moved is None or moved.entry.get("unclean") or moved.entry["after"]["leader"] == NO_LEADER:
        return None
    before, after = moved.entry["before"], moved.entry["after"]
    former = f"from {before['leader']} " if before["leader"] != NO_LEADER else ""
    return Told(
        f"got another leader at {case.time(moved.at_ms)}",
        f"{former}to broker {after['leader']}, leader epoch {after['leader_epoch']}",
        rule_in_words(moved.rule), (), moved.at_ms, evidence=(moved,),
    )  # fmt: skip
