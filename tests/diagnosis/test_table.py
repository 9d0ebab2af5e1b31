"""The table of situations: its page, that every row is staged, and how findings are told."""

import json
import re
from pathlib import Path

from odradek.cli.main import COMMANDS
from odradek.diagnosis.examination import TABLES, Subject, examine, merged
from odradek.diagnosis.facts import BrokerFacts, Facts, JournalFacts, PartitionFacts, TopicFacts
from odradek.diagnosis.history import BrokerEnd, History, clock, end_of
from odradek.diagnosis.page import PAGE, current
from odradek.diagnosis.situation import Finding, Told, WayOut, Weight, plain
from odradek.diagnosis.telling import calm, event_lines, findings_lines

HERE = Path(__file__).parent
AT_MS = 1_700_000_000_000
STATE = {"leader_epoch": 1, "isr": [1], "partition_epoch": 3, "controller_epoch": 2, "recovering": False}


def test_the_page_of_situations_is_current() -> None:
    text = PAGE.read_text()
    assert current(text) == text, "python -m odradek.diagnosis.page --write"


def test_every_situation_is_staged_by_a_test() -> None:
    text = "".join(path.read_text() for path in HERE.glob("test_staged_*.py"))
    names = [row.name for table in TABLES for row in table.rows]
    assert len(names) == len(set(names)) >= 20
    assert not [name for name in names if f'"{name}"' not in text]
    assert all(row.sign.endswith(".") and row.source for table in TABLES for row in table.rows)


def test_commands_of_the_table_are_commands() -> None:
    named = {word for table in TABLES for row in table.rows for word in re.findall(r"`odradek ([\w-]+)", row.way_out)}
    assert {"elect-leaders", "configs", "reassign", "transactions", "groups", "why"} <= named <= COMMANDS.keys()


def finding(subject: str, because: str = "so", weight: Weight = Weight.STOPPED) -> Finding:
    way = WayOut("give it back", f"odradek elect-leaders {subject}")
    return Finding("isr-died", weight, subject, Told("has no leader", because, "a rule", (way,), AT_MS))


def test_findings_that_differ_in_their_subject_share_a_line() -> None:
    alike, other = [finding("a-0"), finding("a-1")], finding("a-2", "otherwise")
    assert merged([*alike, other]) == [alike, [other]]
    first, second = findings_lines([*alike, other])
    assert first == (
        "stopped: a-0 has no leader: so; a rule; give it back: `odradek elect-leaders a-0` [the same: a-1]"
    )
    assert second.startswith("stopped: a-2 has no leader: otherwise")
    assert json.loads(json.dumps(plain(other)))["ways_out"][0]["command"] == "odradek elect-leaders a-2"


def entry(number: int, kind: str, subject: str, **facts: object) -> dict[str, object]:
    return {"number": number, "at_ms": AT_MS + number, "kind": kind, "subject": subject, **facts}


def test_an_event_is_told_with_its_rule_its_writes_and_its_requests() -> None:
    of = {"event": "BrokersChanged", "event_number": 7}
    state = "/brokers/topics/flights/partitions/3/state"
    entries = (
        entry(1, "broker", "1", change="went", former_epoch=45, **of),
        entry(2, "write", "zookeeper", zxid=99, znodes=1, paths=[state], **of),
        entry(
            3, "partition", "flights-3", rule="OfflineReplica 1", unclean=False,
            before={"leader": 1, **STATE}, after={"leader": -1, **STATE, "leader_epoch": 2}, **of,
        ),
        entry(4, "requests", "controller", sent={"LeaderAndIsr": [0, 2]}, **of),
    )  # fmt: skip
    facts = Facts(AT_MS, journals={0: JournalFacts(0, AT_MS, 0, entries)})
    head, *lines = event_lines(facts, Subject(topic="flights", partition=3), 5)
    assert re.fullmatch(r"\d\d:\d\d:\d\d broker 0: the brokers .* changed \(BrokersChanged\)", head)
    assert lines == [
        "  broker 1 is not registered any more, its broker epoch was 45: its ZooKeeper session has ended",
        "  flights-3 leader 1 → none, ISR {1}, leader epoch 1 → 2, partition epoch 3, controller epoch 2: "
        "broker 1 is offline (OfflineReplica)",
        f"    wrote 1 znode(s), zxid 0x63: {state}",
        "    sent LeaderAndIsr to 0, 2",
    ]
    assert event_lines(facts, Subject(topic="flights", partition=2), 5) == []


def test_a_write_of_more_znodes_than_are_named_is_told() -> None:
    of = {"event": "ControllerChanged", "event_number": 7}
    change = {"before": {"leader": 1, **STATE}, "after": {"leader": 2, **STATE, "leader_epoch": 2}}
    other = "/brokers/topics/delays/partitions/0/state"
    entries = (
        entry(1, "partition", "flights-3", rule="OfflinePartition", unclean=False, **change, **of),
        entry(2, "write", "zookeeper", zxid=99, znodes=200, paths=[other], **of),
        entry(3, "write", "zookeeper", zxid=100, znodes=1, paths=[other], **of),
    )
    facts = Facts(AT_MS, journals={0: JournalFacts(0, AT_MS, 0, entries)})
    _, _, *writes = event_lines(facts, Subject(topic="flights", partition=3), 5)
    assert writes == [f"    wrote 200 znode(s), zxid 0x63: {other}, …"]


def test_a_controlled_shutdown_is_told_from_a_death_by_the_broker_epoch() -> None:
    asked = entry(1, "broker", "1", change="shutting down", epoch=45, led=1, still_led=0)
    went = entry(2, "broker", "1", change="went", former_epoch=45)
    died = entry(3, "broker", "1", change="went", former_epoch=46)
    journal = JournalFacts(0, AT_MS, 0, (asked, went))
    assert end_of(History({0: journal}), 1) == BrokerEnd(1, AT_MS + 2, True)
    assert end_of(History({0: JournalFacts(0, AT_MS, 0, (asked, went, died))}), 1) == BrokerEnd(1, AT_MS + 3, False)
    assert end_of(History({}), 1) == BrokerEnd(1, None, False)


def test_an_end_of_an_earlier_life_is_not_that_of_the_last_one() -> None:
    """The controller that had noted it is not any more, and whoever came after it found the broker gone."""
    shut_down = (
        entry(1, "broker", "1", change="shutting down", epoch=45, led=1, still_led=0),
        entry(2, "broker", "1", change="went", former_epoch=45),
        entry(3, "broker", "1", change="came", epoch=46),
    )
    change = {"before": {"leader": 1, **STATE}, "after": {"leader": 2, **STATE, "leader_epoch": 2}}
    taken = entry(9, "partition", "flights-3", rule="OfflineReplica 1", unclean=False, **change)
    journals = {0: JournalFacts(0, AT_MS, 0, shut_down), 2: JournalFacts(2, AT_MS, 0, (taken,))}
    assert end_of(History(journals), 1) == BrokerEnd(1, AT_MS + 9, False)
    assert end_of(History({0: journals[0]}), 1) == BrokerEnd(1, None, False)
    facts = Facts(AT_MS + 10, brokers={1: BrokerFacts(1, registered=False)}, journals=journals)
    (found,) = (one for one in examine(facts, Subject(broker=1)) if one.weight is Weight.DEGRADED)
    assert found.situation == "died" and found.told.evidence == ()


def test_a_broker_that_came_back_twice_is_told_with_the_last_time() -> None:
    entries = (
        entry(1, "broker", "1", change="went", former_epoch=45),
        entry(2, "broker", "1", change="came", epoch=46),
        entry(9, "broker", "1", change="bounced", former_epoch=46, epoch=60),
    )
    for count, said in ((2, "its epoch is 46 now"), (3, "its epoch is 60 now")):
        journal = JournalFacts(0, AT_MS, 0, entries[:count])
        facts = Facts(AT_MS + 10, brokers={1: BrokerFacts(1)}, journals={0: journal})
        (found,) = examine(facts, Subject(broker=1))
        assert found.situation == "came-back" and found.told.rule == said
        assert ("was started again before" in found.told.because) == (count == 3)


def test_a_controller_s_end_is_not_told_by_what_happened_to_others() -> None:
    """Broker 0 resigned an hour before, and broker 3 went long after the election."""
    elected = entry(5, "controller", "2", change="elected", epoch=3)
    others = entry(9, "broker", "3", change="went", former_epoch=4)
    for epoch, said in ((2, "broker 0 resigned at "), (1, "the previous one's ZooKeeper session ended")):
        resigned = entry(1, "controller", "0", change="resigned", epoch=epoch, reason="it failed")
        journals = {0: JournalFacts(0, AT_MS, 0, (resigned,)), 2: JournalFacts(2, AT_MS, 0, (elected, others))}
        facts = Facts(AT_MS + 10, controller=2, brokers={2: BrokerFacts(2)}, journals=journals)
        found = next(one for one in examine(facts, Subject()) if one.situation == "controller-moved")
        assert found.told.because.startswith(said)


def test_a_moment_of_another_day_has_its_date() -> None:
    assert len(clock(AT_MS, AT_MS)) == 8 and len(clock(AT_MS, AT_MS + 90_000_000)) == 19


def test_a_topic_that_is_well_is_told_so() -> None:
    kept = PartitionFacts("flights", 0, (1, 2), 1, (1, 2))
    facts = Facts(AT_MS, topics={"flights": TopicFacts("flights", {0: kept})})
    assert calm(facts, Subject(topic="flights")) == "flights is well: flights-0 led by 1, in sync {1,2}"
