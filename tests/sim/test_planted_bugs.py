"""The simulator is to be believed: it finds mistakes that are put into the rules. `bench/planted_bugs.py` has more."""

from pathlib import Path

import pytest

from odradek.testing.planted_bugs import (
    QUICK_SEEDS,
    TREE,
    Bug,
    Outcome,
    copy_program,
    plant,
    read_bugs,
    read_table,
    seeds_needed,
    table,
    told_of,
)

BUGS = read_bugs()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_it_can_be_planted(bug: Bug) -> None:
    for change in bug.changes:
        text = (TREE / change.file).read_text()
        compile(change.applied(text), change.file, "exec")


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.quick], ids=lambda bug: bug.name)
def test_it_is_found(bug: Bug, tmp_path: Path) -> None:
    tree = copy_program(tmp_path)
    plant(bug, tree)
    found = seeds_needed(bug, tree, QUICK_SEEDS)
    assert found.seeds, "the simulator has seen nothing"
    assert found.seen


def test_the_page_tells_of_each() -> None:
    """And what was never found stands there as such: the page is made anew when the list has changed."""
    text = (TREE / "docs/planted-bugs.md").read_text()
    told = read_table(text)
    assert list(told) == [bug.name for bug in BUGS]
    assert text == table(BUGS, told)


def test_rows_of_other_mistakes_stay() -> None:
    one, two, three = BUGS[:3]
    first = table([one, two, three], {one.name: told_of(Outcome(3, 3, "lost", 7.25)), "one that is gone": ("1", "2")})
    then = table([one, two, three], {**read_table(first), two.name: told_of(Outcome(0, 40, "", 99.0))})
    told = {one.name: ("3", "7.2"), two.name: ("none of 40", "99.0"), three.name: ("", "")}
    assert read_table(then) == told
    assert "Planted: 3. Found: 1. Not found: 1. Not played: 1." in then
