"""The checker of chaos finds each kind of damage that is planted, and nothing where there is none."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from odradek.testing.transaction_history import Outcome, Read, Transaction, anomalies


class History:
    """Three transactions in sequence, the second of them aborted, and one whose end nobody knows."""

    def __init__(self) -> None:
        self.transactions = [
            Transaction("t1", 0.0, ["a", "b"], [], Outcome.COMMITTED, 1.0),
            Transaction("t2", 2.0, ["c"], ["a"], Outcome.ABORTED, 3.0),
            Transaction("t3", 4.0, ["d", "e"], ["a"], Outcome.COMMITTED, 5.0),
            Transaction("t4", 0.5, ["f", "g"], ["b"]),
        ]
        self.log = {0: [(0, "a"), (1, "f"), (4, "d")], 1: [(0, "b"), (1, "g"), (3, "e")]}
        self.readers = [[Read(0, 0, "a"), Read(1, 0, "b"), Read(0, 4, "d")], [Read(0, 1, "f")]]
        self.commits = [[0, 1, 5], [2, 2]]

    def names(self) -> set[str]:
        return {one.name for one in anomalies(self.transactions, self.readers, self.log, self.commits)}


def test_a_sound_history_has_no_anomaly() -> None:
    history = History()
    assert history.names() == set()
    history.log = {0: [(0, "a"), (4, "d")], 1: [(0, "b"), (3, "e")]}
    history.readers.pop()
    assert history.names() == set(), "one whose end nobody knows may not have happened"


def change(number: int, **values: object) -> Callable[[History], None]:
    def plant(history: History) -> None:
        history.transactions[number] = replace(history.transactions[number], **values)  # type: ignore[arg-type]

    return plant


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("lost", lambda history: history.log[1].pop()),
        ("lost", lambda history: history.log[0].remove((1, "f"))),
        ("duplicate", lambda history: history.log[1].append((9, "a"))),
        ("G0", lambda history: history.log.update({0: [(0, "d"), (1, "f"), (4, "a")]})),
        ("G1a", lambda history: history.log[0].append((6, "c"))),
        ("G1a", lambda history: history.readers[1].append(Read(1, 7, "c"))),
        ("G1a", change(2, reads=["c"])),
        ("G1c", change(0, reads=["d"])),
        ("moved", lambda history: history.readers[1].append(Read(1, 0, "h"))),
        ("back", lambda history: history.readers[0].append(Read(0, 1, "f"))),
        ("back", lambda history: history.commits[0].append(4)),
    ],
)
def test_what_is_planted_is_found(name: str, plant: Callable[[History], object]) -> None:
    history = History()
    plant(history)
    assert name in history.names()
