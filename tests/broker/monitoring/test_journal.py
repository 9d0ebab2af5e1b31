"""The journal of a broker: bounded, numbered, read from a number on."""

from odradek.broker.metrics.journal import Journal


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
