"""Situations of a partition's replicas: which are in sync, and why others are not; moves and deletion."""

from odradek.diagnosis.cases import PARTITION, PartitionCase, duration, keep_less
from odradek.diagnosis.history import Noted
from odradek.diagnosis.situation import Told, WayOut, Weight, numbers
from odradek.journal.sentences import braces, rule_in_words

row = PARTITION.row


@row(
    Weight.STOPPED,
    "min.insync.replicas; Partition.appendRecordsToLeader",
    "start the missing broker; or `odradek configs alter --topic T --set min.insync.replicas=N`",
)
def under_min_isr(case: PartitionCase) -> Told | None:
    """Fewer replicas are in sync than min.insync.replicas: producers with acks=all get NOT_ENOUGH_REPLICAS."""
    in_sync = len(case.partition.isr)
    if not case.is_led or in_sync >= case.min_isr:
        return None
    setting = case.topic.settings.get("min.insync.replicas")
    rule = f"min.insync.replicas={setting}, so acks=all is refused with NOT_ENOUGH_REPLICAS"
    ways = [case.start(one) for one in case.dead] or [WayOut(f"have broker {numbers(case.outside)} catch up")]
    ways += dict.fromkeys(_lift(case, held) for one in case.outside if (held := case.throttle(one)))
    if in_sync:
        lower = f"configs alter --topic {case.partition.topic} --set min.insync.replicas={in_sync}"
        ways.append(case.way("require fewer replicas", lower))
    return Told(
        case.has("too few replicas in sync for acks=all"), _in_sync(case), rule, tuple(ways), case.since_ms,
        evidence=tuple(case.changes[-1:]),
    )  # fmt: skip


def _lift(case: PartitionCase, throttle: str, words: str = "lift the throttle") -> WayOut:
    """Return the way out of a throttle, as `PartitionCase.throttle` names it."""
    setting, whose = throttle.partition("=")[0], throttle.rpartition(" ")[2]
    return case.way(words, f"configs alter --broker {whose} --delete {setting}")


def _in_sync(case: PartitionCase) -> str:
    missing = [case.gone(case.dead)] if case.dead else []
    missing += [f"its log directory on broker {one} is offline" for one in case.diskless]
    missing += list(case.outside_full.values())
    copying = [one for one in case.outside if one not in {*case.dead, *case.diskless, *case.outside_full}]
    for one in copying:
        throttle = case.throttle(one)
        missing.append(f"broker {one} is behind" + (f", held back by {throttle}" if throttle else ""))
    return "; ".join(
        [f"only {braces(sorted(case.partition.isr))} of {braces(case.partition.replicas)} are in sync", *missing]
    )


@row(Weight.DEGRADED, "zookeeper.session.timeout.ms; KafkaController.onBrokerFailure", "start the broker again")
def follower_dead(case: PartitionCase) -> Told | None:
    """A replica is missing because its broker is not registered in ZooKeeper; enough others are in sync."""
    dead = [one for one in case.dead if one != case.partition.leader and one in case.standing]
    if not case.is_led or not dead or len(case.partition.isr) < case.min_isr:
        return None
    rule = f"{braces(sorted(case.partition.isr))} are in sync and go on"
    left = [noted for one in dead if (noted := case.left_isr(one)) is not None]
    ways = tuple(case.start(one) for one in dead)
    return Told(_under_replicated(case), case.gone(dead), rule, ways, case.since_ms, evidence=tuple(left[-1:]))


@row(Weight.DEGRADED, "KIP-112; LogManager.handleLogDirFailure", "mend the disk, start the broker again")
def follower_disk_failed(case: PartitionCase) -> Told | None:
    """A replica is missing although its broker is up: its log directory is offline."""
    diskless = [one for one in case.diskless if one != case.partition.leader and one in case.standing]
    if not case.is_led or not diskless:
        return None
    noted = [one for one in case.history.about("directory") if one.broker in diskless and one.change == "failed"]
    known = [
        f"{one.subject} of broker {one.broker} failed at {case.time(one.at_ms)}: {one.entry['reason']}" for one in noted
    ]
    paths = [
        f"{directory.path} of broker {one} is offline"
        for one in diskless
        for directory in case.facts.brokers[one].directories
        if not directory.online
    ]
    because = "; ".join(known or paths or [f"a log directory of broker {numbers(diskless)} is offline"])
    way = WayOut(f"mend the disk and start broker {numbers(diskless)} again", case.start(diskless[0]).command)
    return Told(_under_replicated(case), because, "", (way,), case.since_ms, evidence=tuple(noted[-1:]))


@row(Weight.DEGRADED, "log.dirs; ENOSPC", "free room on it; or `odradek reassign start T-P=…` to other brokers")
def follower_disk_full(case: PartitionCase) -> Told | None:
    """A replica cannot copy from its leader, as its disk is full."""
    if not case.is_led or not case.outside_full:
        return None
    ways = (WayOut("free room there"), case.way("keep records for less time", keep_less(case)))
    rule = "it goes on by itself when there is room"
    return Told(_under_replicated(case), "; ".join(case.outside_full.values()), rule, ways, case.since_ms)


@row(
    Weight.DEGRADED,
    "follower.replication.throttled.rate; KIP-73",
    "wait, or `odradek configs alter --broker N --delete follower.replication.throttled.rate`",
)
def follower_throttled(case: PartitionCase) -> Told | None:
    """A replica is behind because a throttle limits how many bytes per second it copies."""
    held_back = [one for one in case.outside_alive if one not in case.outside_full]
    throttled = {one: rule for one in held_back if (rule := case.throttle(one))}
    if not case.is_led or not throttled:
        return None
    broker, rule = next(iter(throttled.items()))
    held = case.share_held(broker)
    limited = int(rule.partition("=")[2].split(" ")[0]) or 1
    missing = case.partition.sizes.get(case.partition.leader, 0) - case.partition.sizes.get(broker, 0)
    eta = f", some {duration(1000 * missing / limited)} to go" if held and missing > 0 else ""
    because = f"a throttle limits what broker {broker} copies" + (f": {held}{eta}" if held else "")
    return Told(
        _under_replicated(case), because, rule, (_lift(case, rule, "wait, or lift the throttle"),), case.since_ms
    )


@row(
    Weight.DEGRADED,
    "replica.lag.time.max.ms; Partition.getOutOfSyncReplicas",
    "it joins by itself when it has all; else `odradek why N`",
)
def follower_behind(case: PartitionCase) -> Told | None:
    """A replica is up but not in sync: it does not fetch, cannot reach the leader, copies too slowly, or came back a
    moment ago."""
    behind = [one for one in case.outside_alive if not case.throttle(one) and one not in case.outside_full]
    if not case.is_led or not behind:
        return None
    broker = behind[0]
    left = case.left_isr(broker)
    rule, evidence = _lagging(case, broker)
    facts = case.facts.brokers[broker]
    unreachable = case.history.last("fetcher", str(case.partition.leader), "unreachable")
    causes = []
    if facts.answers is False:
        causes.append(f"broker {broker} is registered but does not answer: it is frozen, or cut off")
    elif unreachable is not None and unreachable.broker == broker and unreachable.at_ms >= (facts.registered_ms or 0):
        at = case.time(unreachable.at_ms)
        causes.append(
            f"broker {broker} could not reach leader {case.partition.leader} at {at}: {unreachable.entry['reason']}"
        )
    elif left is not None and facts.registered_ms is not None and facts.registered_ms > left.at_ms:
        causes.append(f"broker {broker} came back at {case.time(facts.registered_ms)} and is catching up")
    else:
        causes.append(f"broker {broker} copies more slowly than {case.partition.leader} is written to")
    held = case.share_held(broker)
    causes += [held] if held else []
    way = case.way(f"it joins by itself when it has all; else look at broker {broker}", f"why {broker}")
    unknown = "" if evidence else case.unknown_before(case.since_ms)
    return Told(_under_replicated(case), "; ".join(causes), rule, (way,), case.since_ms, unknown, evidence)


def _lagging(case: PartitionCase, broker: int) -> tuple[str, tuple[Noted, ...]]:
    """Return the leader's own words when it took the replica out of the ISR."""
    for noted in reversed(case.history.about("isr", case.name)):
        for one in noted.entry["lagging"]:
            if one["broker"] == broker:
                behind, silent = one["records_behind"], one["silent_ms"]
                far = "it had not fetched yet" if behind is None else f"{behind} records behind"
                last = "" if silent is None else f", {duration(silent)} after its last fetch"
                limit = f"replica.lag.time.max.ms={noted.entry['limit_ms']}"
                return f"it left the ISR at {case.time(noted.at_ms)} by {limit}: {far}{last}", (noted,)
    return "", ()


def _under_replicated(case: PartitionCase) -> str:
    in_sync = [one for one in case.standing if one in case.partition.isr]
    return case.has(f"{len(in_sync)} of {len(case.standing)} replicas in sync")


@row(Weight.UNEVEN, "min.insync.replicas", "have the missing broker back before anything else is stopped")
def at_min_isr(case: PartitionCase) -> Told | None:
    """Only min.insync.replicas replicas are in sync, and others are not: the next failure stops producers with
    acks=all."""
    isr = case.partition.isr
    outside = [one for one in case.outside if one in case.standing]
    if not case.is_led or len(isr) != case.min_isr or not outside:
        return None
    rule = f"min.insync.replicas={case.min_isr}"
    way = WayOut(f"have broker {numbers(outside)} back in sync before anything else is stopped")
    return Told(
        "is one failure away from refusing acks=all", f"{braces(sorted(isr))} are in sync", rule, (way,), case.since_ms
    )


@row(Weight.UNEVEN, "default.replication.factor", "`odradek reassign start T-P=1,2,3`")
def one_replica(case: PartitionCase) -> Told | None:
    """The partition has one replica: its records are on one disk only."""
    if len(case.partition.replicas) != 1 or len(case.facts.brokers) < 2 or case.topic.deleting:
        return None
    (only,) = case.partition.replicas
    others = [one for one in case.facts.brokers if one != only and case.facts.is_registered(one)]
    target = ",".join(map(str, [only, *others][:3]))
    way = (
        case.way("give it more", f"reassign start {case.name}={target}")
        if others
        else WayOut("give it more when another broker is there")
    )
    return Told("has one replica", f"its records are on broker {only} alone", "", (way,))


@row(
    Weight.DEGRADED, "AlterPartitionReassignments; KIP-455", "start the broker again, or `odradek reassign cancel T-P`"
)
def reassignment_stuck(case: PartitionCase) -> Told | None:
    """Replicas are being moved, and the broker of a new one is down: the move waits for it."""
    waiting = [one for one in case.partition.adding if one in case.dead or one in case.diskless]
    if not waiting:
        return None
    dead = [one for one in waiting if one in case.dead]
    because = case.gone(dead) if dead else f"its log directory on broker {numbers(waiting)} is offline"
    ways = (case.start(waiting[0]), case.way("go back", f"reassign cancel {case.name}"))
    rule = "a move ends when all new replicas are in the ISR"
    return Told(_moving(case), because, rule, ways, case.since_ms)


@row(
    Weight.NOTE,
    "AlterPartitionReassignments; KIP-455",
    "`odradek reassign list`; `odradek reassign cancel T-P` goes back",
)
def reassignment_under_way(case: PartitionCase) -> Told | None:
    """Replicas are being moved to other brokers: new ones copy, then they join the ISR, then the old ones go."""
    partition = case.partition
    if not (partition.adding or partition.removing) or any(
        one in case.dead or one in case.diskless for one in partition.adding
    ):
        return None
    missing = [one for one in partition.adding if one not in partition.isr]
    held = "; ".join(f"broker {one}: {share}" for one in missing if (share := case.share_held(one)))
    throttled = next((rule for one in missing if (rule := case.throttle(one))), "")
    because = (
        f"broker {numbers(missing)} copies it" + (f" ({held})" if held else "")
        if missing
        else "all new replicas are in sync"
    )
    ways = (case.way("see how far it is", "reassign list"), case.way("go back", f"reassign cancel {case.name}"))
    return Told(_moving(case), because, throttled, ways, case.since_ms)


def _moving(case: PartitionCase) -> str:
    partition = case.partition
    away = f" and away from broker {numbers(partition.removing)}" if partition.removing else ""
    return (
        f"is being moved to broker {numbers(partition.adding)}{away}"
        if partition.adding
        else f"is being taken off broker {numbers(partition.removing)}"
    )


@row(Weight.DEGRADED, "/admin/delete_topics; TopicDeletionManager", "start the brokers again")
def deletion_waits(case: PartitionCase) -> Told | None:
    """The topic is to be deleted, but brokers that have replicas of it are down: the deletion waits for them."""
    dead = case.away_from_topic
    if not case.topic.deleting or not (dead or case.diskless):
        return None
    because = case.gone(dead) if dead else f"a log directory of broker {numbers(case.diskless)} is offline"
    since = "" if case.topic.deleting_ms is None else f" (since {case.time(case.topic.deleting_ms)})"
    rule = "a topic is gone when every replica is"
    ways = tuple(case.start(one) for one in dead or case.diskless)
    return Told(f"is to be deleted{since}, and waits", because, rule, ways, case.topic.deleting_ms)


@row(Weight.NOTE, "/admin/delete_topics; delete.topic.enable", "nothing; or set delete.topic.enable on the controller")
def being_deleted(case: PartitionCase) -> Told | None:
    """The topic is being deleted, or would be if the controller were allowed to."""
    if not case.topic.deleting or case.away_from_topic or case.diskless:
        return None
    controller = case.facts.brokers.get(-1 if case.facts.controller is None else case.facts.controller)
    off = controller is not None and controller.settings.get("delete.topic.enable") == "false"
    rule = "delete.topic.enable is false on the controller" if off else ""
    ways = (WayOut("set delete.topic.enable=true in the brokers' files and start them again"),) if off else ()
    because = "its reassignment has to end first" if case.topic.moving else "the controller has its replicas deleted"
    return Told("is to be deleted", because, rule, ways, case.topic.deleting_ms)


@row(Weight.NOTE, "replica.lag.time.max.ms; KIP-497", "nothing")
def isr_shrank_and_grew(case: PartitionCase) -> Told | None:
    """The ISR shrank and grew again: when, and why."""
    shrinks = [one for one in case.changes if len(set(one.isr_after)) < len(set(one.isr_before))]
    if not shrinks or case.outside:
        return None
    last = shrinks[-1]
    left = [one for one in last.entry["before"]["isr"] if one not in last.entry["after"]["isr"]]
    back = next(
        (one for one in case.changes if one.at_ms >= last.at_ms and set(left) <= set(one.entry["after"]["isr"])), None
    )
    why = f"broker {numbers(left)} left at {case.time(last.at_ms)}"
    rule, evidence = _lagging(case, left[0])
    if last.rule == "AlterPartition" and rule:
        why += f" ({rule})"
    else:
        why += f" ({rule_in_words(last.rule)})"
    grown = "" if back is None else f" and was back at {case.time(back.at_ms)}"
    times = f"{len(shrinks)} times" if len(shrinks) > 1 else "once"
    noted = (*evidence, last) if back is None else (*evidence, last, back)
    return Told(f"lost a replica from its ISR {times}", why + grown, "", (), last.at_ms, evidence=noted)
