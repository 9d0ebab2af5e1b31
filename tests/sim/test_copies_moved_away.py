"""The person in the simulation who moves away the older copy of a partition that is in two log directories."""

import pytest

from odradek.broker.log.checkpoint_format import LEADER_EPOCHS, encode_epochs
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.simulation.faults import move_away_older_copies

Copy = tuple[list[tuple[int, int]], int]
"""Its leader epochs, and the size of its log."""


@pytest.mark.parametrize(
    ("one", "two", "kept"),
    [
        (([(0, 0)], 500), ([(0, 0), (3, 40)], 100), "two"),
        (([(0, 0)], 500), ([(0, 0)], 100), "one"),
        (([], 0), ([(0, 0)], 0), "two"),
    ],
    ids=["of a later epoch", "of the same, with more", "with anything"],
)
def test_the_newer_copy_stays(one: Copy, two: Copy, kept: str) -> None:
    files = SimulatedFiles()
    for directory, (epochs, size_bytes) in (("one", one), ("two", two)):
        files.set_content(f"/data/{directory}/t-0/{0:020d}.log", b"x" * size_bytes)
        files.set_content(f"/data/{directory}/t-0/{LEADER_EPOCHS}", encode_epochs(epochs))
        files.set_content(f"/data/{directory}/of-{directory}-0/{0:020d}.log", b"")
        files.set_content(f"/data/{directory}/meta.properties", b"")
    move_away_older_copies(files)
    assert sorted(path for path in files.paths() if path.endswith(".log")) == [
        f"/data/one/of-one-0/{0:020d}.log",
        *([f"/data/one/t-0/{0:020d}.log"] if kept == "one" else []),
        f"/data/two/of-two-0/{0:020d}.log",
        *([f"/data/two/t-0/{0:020d}.log"] if kept == "two" else []),
    ]
