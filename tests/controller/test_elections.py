"""The four strategies as tables: what ZooKeeper says, who lives, who leads then."""

from itertools import permutations, product

import pytest

from odradek.controller.cluster_state import LeaderAndIsr
from odradek.controller.partition_machine import (
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
    first_leader_and_isr,
)
from odradek.zk_schema.znodes.topics import NO_LEADER


def now(leader: int, isr: list[int], epoch: int = 5, *, recovering: bool = False) -> LeaderAndIsr:
    return LeaderAndIsr(leader, epoch, tuple(isr), recovering, 1, 9)


@pytest.mark.parametrize(
    ("replicas", "isr", "live", "unclean", "leader", "new_isr"),
    [
        ([1, 2, 3], [1, 2, 3], {2, 3}, False, 2, (2, 3)),
        ([3, 2, 1], [1, 2, 3], {1, 2}, False, 2, (1, 2)),  # assignment order chooses, the ISR keeps its own order
        ([1, 2, 3], [3, 1], {2, 3}, False, 3, (3,)),  # 2 lives but is not in sync
        ([1, 2, 3], [1], {2, 3}, False, None, None),
        ([1, 2, 3], [1], {2, 3}, True, 2, (2,)),
        ([1, 2, 3], [3, 1], {2, 3}, True, 3, (3,)),  # a clean one is there: nothing unclean happens
        ([1, 2], [1, 2], set(), True, None, None),
        ([1, 2], [4, 1], {4}, False, None, None),  # in the ISR, but not assigned (any more)
    ],
)
def test_offline_partition(
    replicas: list[int], isr: list[int], live: set[int], unclean: bool, leader: int | None, new_isr: tuple[int] | None
) -> None:
    before = now(1, isr)
    after = elect_offline(before, replicas, live, unclean_allowed=unclean)
    if leader is None:
        assert after is None
        return
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch) == (leader, new_isr, 6)
    assert after.recovering == (leader not in isr) == after.is_unclean_after(before)
    assert after.partition_epoch == before.partition_epoch, "what the write expects"


def test_a_recovering_leader_stays_so_over_a_clean_election() -> None:
    after = elect_offline(now(1, [1, 2], recovering=True), [1, 2], {2}, unclean_allowed=False)
    assert after is not None
    assert after.recovering


@pytest.mark.parametrize(
    ("target", "isr", "live", "leader"),
    [([4, 5], [1, 5, 4], {4, 5}, 4), ([4, 5], [1, 5], {4, 5}, 5), ([4, 5], [1, 4], {1, 5}, None)],
)
def test_reassign_partition(target: list[int], isr: list[int], live: set[int], leader: int | None) -> None:
    after = elect_reassigned(now(1, isr), target, live)
    assert (after.leader if after else None) == leader
    assert after is None or after.isr == tuple(isr)


@pytest.mark.parametrize(
    ("replicas", "isr", "live", "leader"),
    [([1, 2], [2, 1], {1, 2}, 1), ([1, 2], [2], {1, 2}, None), ([1, 2], [2, 1], {2}, None)],
)
def test_preferred_replica(replicas: list[int], isr: list[int], live: set[int], leader: int | None) -> None:
    after = elect_preferred(now(2, isr), replicas, live)
    assert (after.leader if after else None) == leader


@pytest.mark.parametrize(
    ("replicas", "isr", "there", "shutting_down", "leader", "new_isr"),
    [
        ([1, 2, 3], [1, 2, 3], {1, 2, 3}, {1}, 2, (2, 3)),
        ([1, 2, 3], [1, 2, 3], {1, 2, 3}, {1, 2}, 3, (3,)),
        ([1, 2, 3], [1, 3], {1, 2, 3}, {1}, 3, (3,)),
        ([1, 2, 3], [1], {1, 2, 3}, {1}, None, None),  # it stays the leader until it is gone
    ],
)
def test_controlled_shutdown(
    replicas: list[int],
    isr: list[int],
    there: set[int],
    shutting_down: set[int],
    leader: int | None,
    new_isr: tuple[int] | None,
) -> None:
    after = elect_for_shutdown(now(1, isr), replicas, there, shutting_down)
    assert (after and after.leader, after and after.isr) == (leader, new_isr)


def test_first_leader_of_a_partition() -> None:
    made = first_leader_and_isr([3, 1, 2], {1, 2}, 7)
    assert made == LeaderAndIsr(1, 0, (1, 2), False, 7, 0)
    assert first_leader_and_isr([3], {1, 2}, 7) is None


def test_leaving_the_isr() -> None:
    replicas = [1, 2, 3]
    assert now(1, [1, 2, 3]).without(2, replicas)[:3] == (1, 6, (1, 3))
    assert now(1, [1, 2, 3]).without(1, replicas)[:3] == (NO_LEADER, 6, (2, 3))
    assert now(1, [1]).without(1, replicas)[:3] == (NO_LEADER, 6, (1,)), "the last one stays: it alone may come back"
    assert now(1, [1, 2, 3]).without(2, [2, 3])[:3] == (1, 6, (1, 3))
    assert now(1, [1, 2]).without(2, [2, 3])[:3] == (NO_LEADER, 6, (2,)), "1 is no replica any more"
    assert now(1, [1, 2]).without(1, [2, 3])[:3] == (NO_LEADER, 6, (2,))
    assert now(1, [1]).without(1, [2, 3])[:3] == (NO_LEADER, 6, (1,)), "nobody else has the records"


def test_every_election_names_a_live_replica_that_is_in_the_new_isr() -> None:
    brokers = [1, 2, 3]
    subsets = [[b for b, there in zip(brokers, mask, strict=True) if there] for mask in product([0, 1], repeat=3)]
    for replicas in permutations(brokers):
        for isr, live, leaving in product([s for s in subsets if s], subsets, subsets):
            before = now(isr[0], isr)
            staying = set(live) - set(leaving)
            results = [
                elect_offline(before, replicas, live, unclean_allowed=True),
                elect_offline(before, replicas, live, unclean_allowed=False),
                elect_preferred(before, replicas, live),
                elect_reassigned(before, replicas, live),
                elect_for_shutdown(before, replicas, live, leaving),
            ]
            for after in results:
                assert after is None or (after.leader in live and after.leader in after.isr)
                assert after is None or after.leader_epoch == before.leader_epoch + 1
            assert (results[0] is None) == (not live), "unclean: somebody leads as long as somebody lives"
            assert (results[4] is None) == (not staying & set(isr))
