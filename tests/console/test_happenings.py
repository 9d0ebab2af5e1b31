"""Happenings from journals and from two looks; and the time line, which tells each thing once."""

from typing import Any

import pytest

from odradek.console.happenings import (
    HAPPENINGS_MAX,
    JOURNAL,
    OBSERVED,
    PARTS_MAX,
    PATIENCE_MS,
    SAME_TIME_MS,
    Happening,
    Timeline,
    from_journal,
    observed,
)
from tests.console.test_snapshot import OTHER, partition, snapshot


def entry(number: int = 1, kind: str = "partition", subject: str = "flights-0", **facts: Any) -> dict[str, Any]:
    return {"number": number, "at_ms": 1_000 + number, "kind": kind, "subject": subject, **facts}


def change(leader: int, isr: list[int], epoch: int) -> dict[str, Any]:
    return {"leader": leader, "isr": isr, "leader_epoch": epoch, "partition_epoch": 7, "controller_epoch": 1}


def election(number: int, subject: str, **facts: Any) -> dict[str, Any]:
    after = change(2, [0, 2], 4)
    return entry(
        number,
        subject=subject,
        rule="OfflinePartition",
        before=change(1, [0, 1, 2], 3),
        after=after,
        event="BrokersChanged",
        event_number=9,
        **facts,
    )


def test_an_election_has_its_rule() -> None:
    (one,) = from_journal(0, [election(1, "flights-0", unclean=False)])
    assert (one.kind, one.source, one.broker, one.at_ms) == ("election", JOURNAL, 0, 1_001)
    assert one.title == "flights-0 leader 1 → 2, ISR {0,1,2} → {0,2}, leader epoch 3 → 4"
    assert one.reason == "the leader was gone, so the first live replica of the ISR leads (OfflinePartition)"


def test_an_unclean_election_says_so_first() -> None:
    (one,) = from_journal(0, [election(1, "flights-0", unclean=True)])
    assert one.reason.startswith("UNCLEAN, records may be lost")


def test_many_partitions_of_one_event_are_one_entry() -> None:
    (one,) = from_journal(0, [election(number, f"flights-{number}") for number in range(PARTS_MAX + 5)])
    assert one.title == f"{PARTS_MAX + 5} partitions of flights have a new leader"
    assert one.count == PARTS_MAX + 5 and len(one.parts) == PARTS_MAX
    assert one.parts[1] == "flights-1 leader 1 → 2, ISR {0,1,2} → {0,2}, leader epoch 3 → 4"


def test_partitions_of_two_topics_are_one_entry_that_names_none() -> None:
    (one,) = from_journal(0, [election(1, "flights-0"), election(2, "flights-1"), election(3, "delays-0")])
    assert one.title == "3 partitions have a new leader"


def test_what_happens_later_is_an_entry_of_its_own() -> None:
    later = election(2, "flights-1") | {"at_ms": 1_001 + SAME_TIME_MS + 1}
    assert [one.count for one in from_journal(0, [election(1, "flights-0"), later])] == [1, 1]


def test_an_isr_that_grows_and_one_that_shrinks_are_two_things() -> None:
    grown = entry(rule="AlterPartition", before=change(1, [1], 3), after=change(1, [1, 2], 3))
    shrunk = entry(rule="AlterPartition", before=change(1, [1, 2], 3), after=change(1, [1], 3))
    found = from_journal(0, [grown, shrunk, grown, shrunk, shrunk])
    assert [one.title for one in found] == [
        "the ISR of 2 partitions of flights has grown",
        "the ISR of 3 partitions of flights has shrunk",
    ]


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"kind": "partition"},
        entry(before=3, after=4, rule="x"),
        entry(kind="requests"),
        entry(kind="broker", subject="another", change="went", former_epoch=1),
        entry(kind="fetcher", subject="1", change="unreachable", reason="refused") | {"at_ms": None},
    ],
)
def test_entries_of_another_shape_are_left_out(told: dict[str, Any]) -> None:
    assert from_journal(0, [told]) == []


def test_groups_have_their_own_view() -> None:
    assert from_journal(0, [entry(kind="group", change="stable", generation=1, members=2)]) == []


def test_two_looks_show_a_death() -> None:
    before = snapshot(partition(0, 1, (0, 1, 2)), partition(1, 0, (0, 1, 2)))
    after = snapshot(partition(0, 2, (0, 2), epoch=4), partition(1, 0, (0, 2)), brokers=(0, 2))
    found = observed(before, after)
    assert [one.title for one in found] == [
        "broker 1 is not registered any more",
        "flights-0 leader 1 → 2, ISR {0,1,2} → {0,2}, leader epoch 3 → 4",
        "flights-1 leader 0, ISR {0,1,2} → {0,2}, leader epoch 3",
    ]
    assert found[1].reason == "broker 1, which led, is not registered any more"


def test_two_looks_show_topics_that_come_and_go() -> None:
    with_one, without = snapshot(partition(0, 0, (0,))), snapshot()
    assert [one.title for one in observed(without, with_one)] == ["topic flights with 1 partition"]
    assert [one.title for one in observed(with_one, without)] == ["topic flights is gone"]


def test_a_topic_made_anew_has_not_changed_its_leaders() -> None:
    assert observed(snapshot(partition(0, 0, (0,))), snapshot(partition(0, 1, (1,)), topic_id=OTHER)) == []


def seen(at_ms: int = 1_500) -> Happening:
    before = snapshot(partition(0, 1, (0, 1, 2)))
    (one,) = observed(before, snapshot(partition(0, 2, (0, 2), epoch=4)))
    one.at_ms = at_ms
    return one


def titles(timeline: Timeline) -> list[tuple[str, str]]:
    return [(one["source"], one["title"]) for one in timeline.since(0)]


def test_what_a_journal_tells_is_not_told_again_as_observed() -> None:
    timeline = Timeline()
    timeline.add([seen()], 1_500)
    timeline.add(from_journal(0, [election(1, "flights-0")]), 2_000)
    timeline.settle(1_500 + PATIENCE_MS)
    assert [source for source, _ in titles(timeline)] == [JOURNAL]


def test_what_no_journal_tells_is_told_after_a_while() -> None:
    timeline = Timeline()
    timeline.add([seen()], 1_500)
    assert titles(timeline) == []
    timeline.settle(1_500 + PATIENCE_MS)
    assert [source for source, _ in titles(timeline)] == [OBSERVED]


def test_of_many_partitions_only_those_are_told_again_that_no_journal_has() -> None:
    timeline = Timeline()
    both = snapshot(partition(0, 2, (0, 2), epoch=4), partition(1, 2, (0, 2), epoch=4))
    timeline.add(observed(snapshot(partition(0, 1, (0, 1, 2)), partition(1, 1, (0, 1, 2))), both), 1_500)
    timeline.add(from_journal(0, [election(1, "flights-0")]), 2_000)
    timeline.settle(1_500 + PATIENCE_MS)
    assert [(source, title.partition(" ")[0]) for source, title in titles(timeline)] == [
        (JOURNAL, "flights-0"),
        (OBSERVED, "flights-1"),
    ]


def test_the_same_change_much_later_is_another() -> None:
    timeline = Timeline()
    timeline.add(from_journal(0, [election(1, "flights-0")]), 2_000)
    timeline.add([seen(at_ms=60_000)], 60_000)
    timeline.settle(70_000)
    assert [source for source, _ in titles(timeline)] == [JOURNAL, OBSERVED]


def test_the_time_line_is_bounded_and_numbered() -> None:
    timeline = Timeline()
    for number in range(HAPPENINGS_MAX + 10):
        timeline.add([Happening(number, "action", str(number), "", "page")], number)
    assert [one["number"] for one in timeline.since(HAPPENINGS_MAX + 8)] == [HAPPENINGS_MAX + 9, HAPPENINGS_MAX + 10]
    assert len(timeline.since(0)) == HAPPENINGS_MAX
