"""The simulator is to be believed: it finds mistakes that are put into the rules. `bench/planted_bugs.py` has more."""

from pathlib import Path

import pytest

from odradek.testing.planted_bugs import QUICK_SEEDS, TREE, Bug, copy_program, plant, read_bugs, seeds_needed

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
    count, seen = seeds_needed(bug, tree, QUICK_SEEDS)
    assert count, "the simulator has seen nothing"
    assert seen
