"""The table of legal transitions."""

import itertools

import pytest

from odradek.broker.groups.group_metadata import VALID_PREVIOUS, GroupMetadata, GroupState

E, P, C, S, D = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)
LEGAL = {(E, P), (P, E), (P, C), (C, S), (C, P), (S, P), (E, D), (P, D), (C, D), (S, D), (D, D)}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(GroupState, GroupState)))
def test_every_transition_is_legal_or_refused(before, after):
    group = GroupMetadata("g", state=before, state_since_ms=1)
    if (before, after) in LEGAL:
        group.enter(after, 7)
        assert (group.state, group.state_since_ms) == (after, 7)
    else:
        with pytest.raises(AssertionError, match="group g"):
            group.enter(after, 7)
        assert group.state is before


def test_table_names_every_state():
    assert set(VALID_PREVIOUS) == set(GroupState)
