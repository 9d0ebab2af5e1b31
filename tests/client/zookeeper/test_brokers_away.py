"""A connector whose brokers are all away for a while."""

import asyncio

import pytest

from odradek.client.zookeeper.streams import MessageStream
from odradek.testing import run
from odradek.testing.virtual_run import VirtualCluster
from odradek.zk_schema.znodes.consumers import STATIC, ConsumerRegistration
from tests.client.zookeeper.test_calls_in_odd_orders import connect


def test_brokers_that_are_all_away_are_worth_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """There was one a second, as long as they were away."""

    async def main(cluster: VirtualCluster) -> None:
        core = await connect(cluster)
        core.streams.add("t", [MessageStream(2, 0, None, None, core.consumption.wake)])
        await core.begin(ConsumerRegistration({"t": 1}, STATIC))
        await cluster.kill(0)
        await asyncio.sleep(30)
        await core.close(in_hand=True)

    run(main, brokers=1, topics={"t": 1})
    said = [one.getMessage() for one in caplog.records if one.name.startswith("odradek.client")]
    assert len([text for text in said if "reach" in text]) == 1, said
