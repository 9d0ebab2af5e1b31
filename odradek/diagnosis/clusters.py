"""Situations of the cluster as a whole: its controller, and how leaders are spread."""

from odradek.diagnosis.cases import CLUSTER, ClusterCase
from odradek.diagnosis.situation import Told, WayOut, Weight
from odradek.zk_schema.znodes.topics import NO_LEADER

row = CLUSTER.row

RECENT_MS = 3_600_000


@row(Weight.STOPPED, "/controller; KafkaController.elect", "see that brokers reach ZooKeeper")
def no_controller(case: ClusterCase) -> Told | None:
    """There is no controller: leaders that die are not replaced, topics are neither created nor deleted."""
    if case.facts.controller is None or case.facts.controller != NO_LEADER:
        return None
    alive = [one for one, broker in case.facts.brokers.items() if broker.registered]
    if case.facts.zookeeper_silent:
        because = "no broker tells clients of one, and ZooKeeper, which has its name, does not answer from here either"
        way = WayOut("start ZooKeeper again, or mend the network to it; a controller is then elected at once")
    else:
        because = "no broker is registered"
        way = WayOut("see that brokers reach ZooKeeper; the first that registers is elected")
        if alive:
            because = "brokers are registered, but /controller, which goes with its owner's session, has not come back"
            way = WayOut("if it stays so, read in the brokers' logs why: `no election`")
    return Told("has no controller", because, "", (way,))


@row(Weight.DEGRADED, "ZkData; KafkaZkClient", "set it to what the last `odradek zk export` has")
def znode_unreadable(case: ClusterCase) -> Told | None:
    """A znode cannot be decoded: the next controller, or a broker that starts, has to do without it."""
    if not case.facts.unreadable:
        return None
    way = WayOut("set it to what the last `odradek zk export` has, with ZooKeeper's own zkCli.sh")
    return Told("has a znode that cannot be decoded", "; ".join(case.facts.unreadable), "", (way,))


@row(Weight.NOTE, "/controller_epoch; KafkaController.onControllerFailover", "nothing")
def controller_moved(case: ClusterCase) -> Told | None:
    """Another broker became the controller: the former one resigned, or its session ended."""
    elected = case.history.about("controller")
    last = next((one for one in reversed(elected) if one.change == "elected"), None)
    if last is None or last.entry.get("epoch", 1) <= 1 or case.facts.now_ms - last.at_ms > RECENT_MS:
        return None
    former_epoch = last.entry["epoch"] - 1
    resigned = [one for one in elected if one.change == "resigned" and one.entry.get("epoch") == former_epoch]
    if resigned:
        because = (
            f"broker {resigned[-1].broker} resigned at {case.time(resigned[-1].at_ms)}: {resigned[-1].entry['reason']}"
        )
    else:
        because = "the previous one's ZooKeeper session ended"
    what = f"got another controller at {case.time(last.at_ms)}: broker {last.broker}"
    return Told(
        what, because, f"controller epoch {last.entry['epoch']}", (), last.at_ms, evidence=(*resigned[-1:], last)
    )


@row(
    Weight.UNEVEN,
    "leader.imbalance.per.broker.percentage",
    "`odradek elect-leaders`, or reassign some of its partitions",
)
def leaders_uneven(case: ClusterCase) -> Told | None:
    """A broker leads far more partitions than its share."""
    alive = [one for one, broker in case.facts.brokers.items() if broker.registered]
    leaders = [
        one.leader for topic in case.facts.topics.values() for one in topic.partitions.values() if one.leader >= 0
    ]
    if len(alive) < 2 or len(leaders) < 3 * len(alive):
        return None
    share = len(leaders) / len(alive)
    most = max(alive, key=leaders.count)
    if leaders.count(most) <= 1.5 * share:
        return None
    preferred = sum(
        bool(one.replicas) and one.leader != one.replicas[0]
        for topic in case.facts.topics.values()
        for one in topic.partitions.values()
    )
    way = (
        case.way("give partitions back to their preferred leaders", "elect-leaders")
        if preferred
        else WayOut("reassign some of its partitions")
    )
    because = f"broker {most} leads {leaders.count(most)} of {len(leaders)}, its share would be {share:.0f}"
    return Told(
        "has its leaders unevenly spread",
        because,
        f"{preferred} partition(s) are not led by their preferred replica",
        (way,),
    )
