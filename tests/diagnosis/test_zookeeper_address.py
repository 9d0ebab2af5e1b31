"""Where `odradek doctor` finds ZooKeeper: the brokers are asked one after the other, until an address can be used."""

from types import SimpleNamespace

import pytest

from odradek.aio import Admin
from odradek.client.admin.values import ConfigResource
from odradek.client.errors import ClientTimeout
from odradek.diagnosis import surroundings
from odradek.diagnosis.gathering import Scope
from odradek.testing.virtual_run import VirtualCluster, run
from odradek.zk_schema.store import StoreError

GOOD = "zookeeper-2:2181"


class Unreachable:
    """A store whose ZooKeeper cannot be reached from here."""

    async def start(self, _: float) -> None:
        raise StoreError("no answer")


def gather(*told: str | None) -> tuple[list[str], list[str]]:
    """Gather facts of brokers that tell these addresses of ZooKeeper, None: the broker is silent. Return what remains
    unknown of ZooKeeper, and the addresses that were tried."""
    tried: list[str] = []

    async def test(cluster: VirtualCluster) -> list[str]:
        async def describe_configs(_: Admin, resources: list[ConfigResource]) -> object:
            address = told[int(resources[0].name)]
            if address is None:
                raise ClientTimeout("no answer")
            return {one: [SimpleNamespace(name="zookeeper.connect", value=address)] for one in resources}

        def store(address: str, *_: object, **__: object) -> object:
            tried.append(address)
            return cluster.embedded.zookeeper.connect() if address == GOOD else Unreachable()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Admin, "describe_configs", describe_configs)
            patch.setattr(surroundings, "KazooStore", store)
            facts = await surroundings.facts({}, cluster.bootstrap, None, Scope((), ()))
        return [one for one in facts.unknown if "ZooKeeper" in one]

    return run(test, brokers=len(told)), tried


def test_an_address_that_cannot_be_reached_is_not_the_last_one_tried() -> None:
    assert gather("127.0.0.1:1", "127.0.0.1:1", GOOD) == ([], ["127.0.0.1:1", GOOD])


def test_a_silent_broker_is_not_the_last_one_asked() -> None:
    assert gather(None, GOOD, "127.0.0.1:1") == ([], [GOOD])


def test_all_addresses_that_were_tried_are_named() -> None:
    (unknown,), _ = gather("one:1", None, "two:2")
    assert unknown.startswith("what ZooKeeper holds: none answers at one:1 or at two:2 from here; --zookeeper HOST")
