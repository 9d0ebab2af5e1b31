"""A connector one of whose tasks dies of a fault in this program: other members get its partitions."""

import asyncio

import pytest

from odradek.client.zookeeper.core import ConnectorCore
from odradek.client.zookeeper.streams import MessageStream
from odradek.testing import run
from odradek.testing.virtual_run import VirtualCluster
from odradek.zk_schema.znodes.consumers import STATIC, ConsumerRegistration, consumer_ids_path, owners_path
from tests.client.zookeeper.test_calls_in_odd_orders import T0, connect


def member_dies(core: ConnectorCore) -> None:
    def fault(now_ms: float) -> None:
        raise AssertionError("a fault")

    core.member.balance.take_step = fault  # type: ignore[method-assign, assignment]
    core.member.balance.changed()
    core.member._woken.set()


def fetch_loop_dies(core: ConnectorCore) -> None:
    def fault(now_ms: float) -> None:
        raise AssertionError("a fault")

    assert core._fetch_loop is not None
    core._fetch_loop._fetcher.due = fault  # type: ignore[method-assign, assignment]
    core.consumption.wake()


@pytest.mark.parametrize("dies", [member_dies, fetch_loop_dies])
def test_a_member_that_is_broken_leaves_its_group(dies: "type[None]", caplog: pytest.LogCaptureFixture) -> None:
    """Its session went on, and with it the ownership of partitions that nobody read any more; its streams raised the
    fault once, and then waited for ever."""

    async def main(cluster: VirtualCluster) -> None:
        core = await connect(cluster)
        stream = MessageStream(2, 0, None, None, core.consumption.wake)
        core.streams.add("t", [stream])
        await core.begin(ConsumerRegistration({"t": 1}, STATIC))
        tree = cluster.embedded.zookeeper.tree
        assert T0 in core.consumption.claimed
        dies(core)
        await asyncio.sleep(1)
        assert not tree.node(consumer_ids_path("g")).children
        assert not tree.node(owners_path("g", "t")).children
        assert not core.consumption.claimed
        for _ in range(2):
            with pytest.raises(AssertionError, match="a fault"):
                next(stream)
        await core.close(in_hand=True)
        with pytest.raises(StopIteration):
            stream.close()
            next(stream)

    run(main, brokers=1, topics={"t": 1})
    said = [one.getMessage() for one in caplog.records if one.name == "odradek.client.zookeeper.core"]
    assert len(said) == 1 and "leaves its group" in said[0], said


def test_a_member_that_is_broken_from_the_start_says_so_to_its_program() -> None:
    async def main(cluster: VirtualCluster) -> None:
        core = await connect(cluster)
        core.streams.add("t", [MessageStream(2, 0, None, None, core.consumption.wake)])
        member_dies(core)
        with pytest.raises(AssertionError, match="a fault"):
            await core.begin(ConsumerRegistration({"t": 1}, STATIC))
        await core.close(in_hand=True)
        assert not core._store.connected

    run(main, brokers=1, topics={"t": 1})
