"""Situations of a broker: whether it is there, how it went, what of it has failed."""

from odradek.diagnosis.cases import BROKER, BrokerCase, duration, size
from odradek.diagnosis.history import end_by, end_of, last_start
from odradek.diagnosis.situation import Told, WayOut, Weight

row = BROKER.row

ROOM_LEAST = 0.1
"""Share of a volume that is to be free."""
RECENT_MS = 3_600_000


@row(Weight.DEGRADED, "zookeeper.session.timeout.ms; /brokers/ids", "start it again")
def died(case: BrokerCase) -> Told | None:
    """The broker is not registered, and was not shut down: it was killed, lost its machine or network, or froze for
    longer than its session."""
    end = end_of(case.history, case.number)
    if case.broker.registered or end.controlled:
        return None
    what = "is gone" if end.at_ms is None else f"has been gone since {case.time(end.at_ms)}"
    noted = case.history.last("broker", str(case.number), "went")
    if noted is not None and noted.at_ms != end.at_ms:  # of an earlier life
        noted = None
    evidence = () if noted is None else (noted,)
    unknown = ""
    if noted is not None:
        because = "its ZooKeeper session ended, and it had not asked to be shut down: killed, cut off or frozen"
    elif end.at_ms is not None:
        because = "a controller that was elected then found its registration gone"
        unknown = "how it went is not known: what the previous controller had noted is gone with it"
    else:
        because = "no registration of it is in ZooKeeper"
        unknown = case.unknown_before(None) or f"how it went is not known: {_why_not_noted(case)}"
    ways = (case.start(case.number),)
    return Told(what, because, _left_behind(case), ways, end.at_ms, unknown, evidence)


def _why_not_noted(case: BrokerCase) -> str:
    """Return a clause that says why no journal tells of a broker that is gone."""
    controller, since_ms = case.facts.controller, case.facts.controller_since_ms
    if controller is None or since_ms is None or not case.history.reaches(since_ms):
        return "the journals begin later"
    return f"it was gone before broker {controller} became the controller at {case.time(since_ms)}"


def _left_behind(case: BrokerCase) -> str:
    waiting = len(case.only_in_sync)
    only = f"; {waiting} partition(s) have no leader without it" if waiting else ""
    return f"{case.replicas} replica(s) are on it{only}"


@row(Weight.DEGRADED, "controlled.shutdown.enable; ControlledShutdown", "start it again")
def was_shut_down(case: BrokerCase) -> Told | None:
    """The broker is not registered because it was shut down: its leaders had moved before."""
    end = end_of(case.history, case.number)
    if case.broker.registered or not end.controlled or end.at_ms is None:
        return None
    asked = case.history.last("broker", str(case.number), "shutting down")
    assert asked is not None
    moved = asked.entry["led"] - asked.entry["still_led"]
    still = asked.entry["still_led"]
    because = f"it asked for it at {case.time(asked.at_ms)}, and handed over {moved} partition(s) that it led"
    because += f"; {still} had nobody to take them" if still else ""
    way = (case.start(case.number),)
    return Told(
        f"was shut down at {case.time(end.at_ms)}", because, _left_behind(case), way, end.at_ms, evidence=(asked,)
    )


@row(
    Weight.STOPPED,
    "zookeeper.session.timeout.ms",
    "look at its process and machine; end it, and its partitions move at once",
)
def answers_nobody(case: BrokerCase) -> Told | None:
    """The broker is registered but does not answer: it is frozen, overloaded, or unreachable from here, and its session
    has not ended yet."""
    if not case.broker.registered or case.broker.answers is not False:
        return None
    timeout = case.broker.settings.get("zookeeper.session.timeout.ms", "")
    soon = f"within {timeout} ms" if timeout else "soon"
    rule = f"if it is frozen, its ZooKeeper session ends {soon}, and other brokers take over"
    because = f"{case.broker.address or 'its address'} does not answer from here, though ZooKeeper has its registration"
    ways = (
        WayOut("look at its process and its machine"),
        WayOut("if it does not recover, end it: then its partitions move at once"),
    )
    led = f"; it leads {len(case.led)} partition(s)" if case.led else ""
    return Told("is silent", because + led, rule, ways)


@row(Weight.DEGRADED, "ZooKeeperClient; zookeeper.session.timeout.ms", "look at the network between it and ZooKeeper")
def without_zookeeper(case: BrokerCase) -> Told | None:
    """The broker serves clients but has lost its connection to ZooKeeper: it continues until its session ends."""
    session = case.history.last("session", str(case.number))
    if session is None or session.change != "away" or not case.broker.answers:
        return None
    timeout = case.broker.settings.get("zookeeper.session.timeout.ms", "?")
    rule = f"after zookeeper.session.timeout.ms={timeout} it is taken for dead, and leads nothing"
    way = WayOut(f"look at the network between it and {case.broker.settings.get('zookeeper.connect', 'ZooKeeper')}")
    what = f"lost its connection to ZooKeeper at {case.time(session.at_ms)}"
    return Told(what, "its own journal says so", rule, (way,), session.at_ms, evidence=(session,))


@row(
    Weight.STOPPED,
    "ZooKeeperClient; zookeeper.session.timeout.ms",
    "start ZooKeeper again, or mend the network to it: the broker registers by itself",
)
def session_over(case: BrokerCase) -> Told | None:
    """The broker's ZooKeeper session has ended and it could not start another: it answers, but leads nothing."""
    session = case.history.last("session", str(case.number))
    if session is None or session.change != "expired" or not case.broker.answers:
        return None
    place = case.broker.settings.get("zookeeper.connect", "ZooKeeper")
    away = case.history.last("session", str(case.number), "away")
    since = "" if away is None else f"{place} has not answered it since {case.time(away.at_ms)}; "
    because = f"{since}it led {session.entry['led']} partition(s) and leads none now"
    way = WayOut(f"start ZooKeeper again, or mend the network to {place}; the broker registers by itself")
    what = f"has had no ZooKeeper session since {case.time(session.at_ms)}"
    return Told(what, because, "", (way,), session.at_ms, evidence=(session,))


@row(Weight.DEGRADED, "KIP-112; log.dirs", "mend the disk, start it again")
def disk_failed(case: BrokerCase) -> Told | None:
    """A log directory of the broker is offline: the replicas in it are unavailable, the others continue."""
    offline = [one.path for one in case.broker.directories if not one.online]
    noted = [one for one in case.history.about("directory") if one.broker == case.number and one.change == "failed"]
    if not offline or not case.broker.registered:
        return None
    said = [
        f"{one.subject} failed at {case.time(one.at_ms)}: {one.entry['reason']}"
        for one in noted
        if one.subject in offline
    ]
    lost = sum(len(one.entry["partitions"]) for one in noted if one.subject in offline)
    because = "; ".join(said) or f"{', '.join(offline)} cannot be used; its log says why"
    way = WayOut("mend the disk and start it again", case.start(case.number).command)
    rule = f"{lost} replica(s) were in there" if lost else ""
    return Told("has an offline log directory", because, rule, (way,), evidence=tuple(noted[-1:]))


@row(Weight.DEGRADED, "log.dirs; log.retention.bytes", "`odradek configs alter --topic T --set retention.ms=…`")
def disk_fills_up(case: BrokerCase) -> Told | None:
    """Less than a tenth of the file system of a log directory is free."""
    full = [
        one
        for one in case.broker.directories
        if one.online and one.total_bytes > 0 and one.usable_bytes < ROOM_LEAST * one.total_bytes
    ]
    if not full:
        return None
    because = "; ".join(f"{one.path} has {size(one.usable_bytes)} of {size(one.total_bytes)} free" for one in full)
    ways = (
        case.way("keep records for less time", "configs alter --topic TOPIC --set retention.ms=…"),
        case.way("see what is stored there", f"reassign directories {case.number}"),
    )
    return Told("runs out of disk", because, "where the disk is full, records are refused until it has room", ways)


@row(
    Weight.DEGRADED,
    "follower.replication.throttled.rate; KIP-73",
    "`odradek configs alter --broker N --delete leader.replication.throttled.rate …`",
)
def throttle_left(case: BrokerCase) -> Told | None:
    """Replication is throttled on the broker although nothing is being moved: a throttle was forgotten."""
    moving = any(one.adding for topic in case.facts.topics.values() for one in topic.partitions.values())
    rates = {
        name: text
        for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
        if (text := case.broker.settings.get(name, "")).isdecimal() and int(text) < (1 << 63) - 1
    }
    if moving or not rates or not case.facts.moves_known:
        return None
    because = "; ".join(f"{name}={text}" for name, text in rates.items())
    lift = " ".join(f"--delete {name}" for name in rates)
    way = case.way("lift it", f"configs alter --broker {case.number} {lift}")
    return Told("throttles replication while nothing is being moved", because, "", (way,))


@row(Weight.NOTE, "zookeeper.session.timeout.ms; KafkaServer", "`odradek elect-leaders`")
def session_expired(case: BrokerCase) -> Told | None:
    """The broker lost its ZooKeeper session, led nothing for a while, and registered again."""
    expired = case.history.last("session", str(case.number), "expired")
    if expired is None or expired is case.history.last("session", str(case.number)) or not case.broker.registered:
        return None
    if case.facts.now_ms - expired.at_ms > RECENT_MS:
        return None
    back = [
        one
        for one in case.history.about("session", str(case.number))
        if one.change == "registered" and one.at_ms >= expired.at_ms
    ]
    away = case.history.last("session", str(case.number), "away")
    because = f"it led {expired.entry['led']} partition(s), which others lead since"
    if away is not None and away.at_ms <= expired.at_ms:
        because = f"ZooKeeper did not answer from {case.time(away.at_ms)} on; {because}"
    rule = (
        f"registered again at {case.time(back[-1].at_ms)}, epoch {back[-1].entry['epoch']}"
        if back
        else "it has not registered again yet"
    )
    what = f"lost its ZooKeeper session at {case.time(expired.at_ms)}"
    return Told(
        what,
        because,
        rule,
        (case.way("give it its partitions back", "elect-leaders"),),
        expired.at_ms,
        evidence=(expired, *back[-1:]),
    )


@row(Weight.NOTE, "/brokers/ids; KIP-380", "nothing")
def came_back(case: BrokerCase) -> Told | None:
    """The broker was down and has started again."""
    came = last_start(case.history, case.number)
    bounced = came is not None and came.change == "bounced"
    went = came if bounced else case.history.last("broker", str(case.number), "went")
    if not case.broker.registered or went is None or came is None or came.at_ms < went.at_ms:
        return None
    if bounced:
        because = "it was started again before its session had ended"
    else:
        gone = duration(came.at_ms - went.at_ms)
        because = f"{end_by(case.history, went).told(case.facts.now_ms)}; it was gone for {gone}"
    return Told(
        f"came back at {case.time(came.at_ms)}",
        because,
        f"its epoch is {came.entry['epoch']} now",
        (),
        came.at_ms,
        evidence=(went, came),
    )


@row(Weight.NOTE, "/controller", "nothing")
def is_controller(case: BrokerCase) -> Told | None:
    """The broker is the controller: elections are its work."""
    if case.facts.controller != case.number:
        return None
    elected_ms = case.facts.controller_since_ms
    what = "is the controller" if elected_ms is None else f"has been the controller since {case.time(elected_ms)}"
    epoch = "" if case.facts.controller_epoch is None else f"controller epoch {case.facts.controller_epoch}"
    return Told(what, epoch)
