"""Where a follower cuts its log: table and the known schedules that a high watermark alone gets wrong."""

import pytest

from odradek.broker.replication.truncation import lacks_marker, truncation_offset

# our own history: (epoch, first offset of it), in order, and where our log ends
HISTORY = [(0, 0), (2, 10), (5, 30)]
LOG_END = 42


def own_end_offset_for(epoch: int) -> tuple[int, int]:
    """LeaderEpochFileCache.endOffsetFor on HISTORY."""
    if epoch > HISTORY[-1][0] or epoch < HISTORY[0][0]:
        return -1, -1
    known = [index for index, (own, _) in enumerate(HISTORY) if own <= epoch]
    last = known[-1]
    end = HISTORY[last + 1][1] if last + 1 < len(HISTORY) else LOG_END
    return HISTORY[last][0], end


@pytest.mark.parametrize(
    ("leader_epoch", "leader_end", "expected", "why"),
    [
        (5, 42, 42, "same history"),
        (5, 35, 35, "the leader's last epoch is shorter: our surplus was never acknowledged"),
        (5, 50, 42, "the leader has more: nothing to cut"),
        (2, 25, 25, "we led epoch 5 alone, and have more of epoch 2 than the leader"),
        (2, 35, 30, "the leader has more of epoch 2: our epoch 5 goes"),
        (3, 28, 30, "we do not know epoch 3: cut at the end of our epoch 2 and ask again"),
        (9, 60, 42, "an epoch that we have never heard of: keep all, ask again from our end"),
        (-1, 20, 20, "an old leader that tells offsets without epochs"),
        (-1, -1, 17, "a leader that knows nothing: the high watermark is all there is"),
    ],
)
def test_cut(leader_epoch: int, leader_end: int, expected: int, why: str) -> None:
    cut = truncation_offset(
        leader_epoch, leader_end, own_end_offset_for=own_end_offset_for, log_end_offset=LOG_END, high_watermark=17
    )
    assert cut == expected, why


@pytest.mark.parametrize(
    ("ongoing", "asked", "end", "watermark", "stable", "expected", "why"),
    [
        (3, 10, 20, 20, 20, True, "the leader has ended it, and all up to the watermark is here"),
        (3, 10, 20, 20, 4, True, "another one that began later is open there"),
        (3, 10, 20, 20, 3, False, "it is open there, too"),
        (3, 10, 20, 21, 20, False, "the marker may come with the next answer"),
        (3, 20, 25, 20, 20, False, "the leader may count on what we have"),
        (3, 10, 20, 20, -1, False, "a leader that does not tell"),
    ],
)
def test_a_marker_that_is_gone(
    ongoing: int, asked: int, end: int, watermark: int, stable: int, expected: bool, why: str
) -> None:
    told = lacks_marker(
        ongoing,
        asked_offset=asked,
        log_end_offset=end,
        leader_high_watermark=watermark,
        leader_last_stable_offset=stable,
    )
    assert told == expected, why
