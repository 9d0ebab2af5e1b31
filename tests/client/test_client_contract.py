"""The contract of the public clients on the virtual clock, and that it leaves no method out."""

import inspect

import pytest

from odradek.testing.client_contract import CHECKS, FACES, PARTS, RENAMED, ContractWorld, worlds
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual


@pytest.mark.parametrize("name", CHECKS)
def test_on_the_virtual_clock(name: str) -> None:
    async def main(clock: VirtualClock) -> None:
        overrides = {"transaction.state.log.num.partitions": "2", "transaction.state.log.replication.factor": "1"}
        async with (
            EmbeddedCluster(clock, 1, {**overrides, "transaction.state.log.min.isr": "1"}) as cluster,
            ContractWorld(["broker-0:9092"], network=cluster.network.host("client"), clock=clock) as world,
        ):
            await CHECKS[name](world)

    run_virtual(main)


@pytest.mark.parametrize("core", FACES, ids=lambda core: core.__name__)
def test_every_method_has_a_part_in_the_contract(core: type) -> None:
    """Half of the consumer's methods, and most of the admin client's, were never called by a test."""
    source = "".join(inspect.getsource(part) for part in (*PARTS, worlds))
    asynchronous = {blocking: name for name, blocking in RENAMED.items()}
    public = [name for name, _ in inspect.getmembers(FACES[core], callable) if not name.startswith("_")]
    assert [name for name in public if f".{asynchronous.get(name, name)}" not in source] == []


@pytest.mark.parametrize("core", FACES, ids=lambda core: core.__name__)
def test_the_blocking_form_has_the_parameters_of_the_asyncio_one(core: type) -> None:
    renamed = {blocking: name for name, blocking in RENAMED.items()}
    for name, method in inspect.getmembers(FACES[core], inspect.isfunction):
        if name.startswith("_") or name in ("close", "transaction"):
            continue
        there = inspect.signature(getattr(core, renamed.get(name, name)))
        assert list(inspect.signature(method).parameters) == list(there.parameters), name
