"""The watcher of the group that is balanced in ZooKeeper sees each kind of damage."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client.records import TopicPartition
from odradek.testing.simulation.connectors import GROUP, OwnedPartitions, committed
from odradek.zk_schema.store import Create, Delete, SetData
from odradek.zk_schema.znodes.consumers import encode_offset, encode_owner, offset_path, owner_path
from tests.sim.stage import Stage

T0 = TopicPartition("t", 0)


class Group:
    """A group of two, of which "a" owns and reads the partition, and has committed offset 5."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.members = [self._member("a", {T0: "a-0"}), self._member("b", {})]
        self.watcher = OwnedPartitions(self.stage.cluster, self.stage.history, lambda: self.members)
        for path, data in (
            (owner_path(GROUP, *T0), encode_owner("a-0")),
            (offset_path(GROUP, *T0), encode_offset(5)),
        ):
            parts = path.split("/")
            for end in range(2, len(parts)):
                if self.stage.zookeeper.tree.get("/".join(parts[:end])) is None:
                    self.stage.zookeeper.commit([Create("/".join(parts[:end]))], 0)
            self.stage.zookeeper.commit([Create(path, data)], 0)

    def _member(self, name: str, owned: dict[TopicPartition, str]) -> Any:
        return SimpleNamespace(name=name, owned=owned, has_session=True)

    def look(self) -> str:
        """What the watcher has seen."""
        self.watcher.look()
        return self.stage.seen


def test_a_group_that_is_well() -> None:
    group = Group()
    assert group.look() == ""
    group.stage.zookeeper.commit([SetData(offset_path(GROUP, *T0), encode_offset(9))], 0)
    assert group.look() == ""
    assert committed(group.stage.cluster, T0) == 9
    assert group.watcher.unrest({T0: 9}) is None


@pytest.mark.parametrize("has_session", [True, False])
def test_two_read_one_partition(has_session: bool) -> None:
    """One whose session has ended may not have heard of it."""
    group = Group()
    group.members[1].owned, group.members[1].has_session = {T0: "a-0"}, has_session
    assert ("is read by a and b" in group.look()) is has_session


@pytest.mark.parametrize("owner", [None, "c-0"])
def test_one_who_does_not_own_what_it_reads(owner: str | None) -> None:
    group = Group()
    path = owner_path(GROUP, *T0)
    group.stage.zookeeper.commit([Delete(path) if owner is None else SetData(path, encode_owner(owner))], 0)
    assert f"a reads t-0 as a-0, its owner is {owner}" in group.look()


@pytest.mark.parametrize("gone", [True, False])
def test_an_offset_that_goes_back(gone: bool) -> None:
    group = Group()
    assert group.look() == ""
    path = offset_path(GROUP, *T0)
    group.stage.zookeeper.commit([Delete(path) if gone else SetData(path, encode_offset(4))], 0)
    assert f"is put back from 5 to {0 if gone else 4}" in group.look()


def test_what_is_missing_until_all_is_read() -> None:
    group = Group()
    assert "is at 5 of 6" in str(group.watcher.unrest({T0: 6}))
    group.members[0].owned = {}
    assert "of [] is at 5 of 5" in str(group.watcher.unrest({T0: 5}))
