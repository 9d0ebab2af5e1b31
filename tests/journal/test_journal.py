"""The journal of a broker: bounded, numbered, read from a number on."""

import json

from odradek.controller.cluster_state import LeaderAndIsr
from odradek.journal.journal import Journal, plain


def numbers(journal: Journal, after: int = 0) -> list[int]:
    return [entry["number"] for entry in journal.entries(after)]


def test_a_reader_who_has_some_entries_gets_the_others() -> None:
    journal = Journal(lambda: 0)
    assert (journal.last, numbers(journal)) == (0, [])
    for _ in range(4):
        journal.note("session", "1")
    assert numbers(journal) == numbers(journal, -5) == [1, 2, 3, 4]
    assert (journal.last, numbers(journal, 2), numbers(journal, 4), numbers(journal, 9)) == (4, [3, 4], [], [])


def test_numbers_go_on_when_old_entries_have_gone() -> None:
    journal = Journal(lambda: 0, entries_max=3)
    for _ in range(10):
        journal.note("session", "1")
    assert (journal.forgotten, journal.last) == (7, 10)
    assert numbers(journal, 2) == [8, 9, 10]
    assert numbers(journal, 9) == [10]


def test_states_are_kept_as_they_are_and_told_as_plain_data() -> None:
    """Each change of a partition as four dicts and lists of its own made 13 MB of ten thousand."""
    journal, state = Journal(lambda: 7), LeaderAndIsr(1, 3, (1, 2), False, 5, 4)
    noted = journal.note("partition", "t-0", before=None, after=state)
    assert noted["after"] is state
    (told,) = journal.entries()
    assert told == plain(noted) and told["before"] is None
    assert json.loads(json.dumps(told["after"])) == {
        "leader": 1, "leader_epoch": 3, "isr": [1, 2], "partition_epoch": 4, "controller_epoch": 5, "recovering": False,
    }  # fmt: skip
