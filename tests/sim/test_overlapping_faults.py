"""Faults that overlap: each ends what it has begun, and nothing else."""

import asyncio
import random

from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.coordinators import Coordinators
from odradek.testing.simulation.faults import LATENCY_MS, ZOOKEEPER_LATENCY_MS, Faults, Latencies
from odradek.testing.simulation.history import History
from odradek.testing.simulation.producer_id_moments import ProducerIdMoments
from odradek.testing.simulation.zookeeper_faults import ZooKeeperFaults
from odradek.testing.virtual_clock import VirtualClock, run_virtual


def test_a_slow_zookeeper_is_not_put_back_by_a_fault_that_began_while_it_was_slow() -> None:
    """The second one had found the slow answers, and left them behind until the end of all faults."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            history, source, answered = History(clock), random.Random(0), asyncio.Event()
            administrator = Administrator(cluster, history, source, "t", [])

            async def ask(*_: object) -> None:
                await answered.wait()

            administrator.ask_controller = ask  # type: ignore[method-assign,assignment]
            others = Faults(cluster, history, administrator, source, 1)

            def most_ms() -> float:
                return max(cluster.zookeeper.draw_latency_ms() for _ in range(100))

            first = asyncio.ensure_future(ZooKeeperFaults(others, 2).slow_zookeeper())
            await asyncio.sleep(0)
            assert most_ms() > ZOOKEEPER_LATENCY_MS[1]
            moments = ProducerIdMoments(others, Coordinators(cluster, history))
            second = asyncio.ensure_future(moments.producer_ids())
            await first
            assert not second.done() and most_ms() == 10.0
            answered.set()
            await second
            assert most_ms() <= ZOOKEEPER_LATENCY_MS[1]

    run_virtual(main)


def test_the_latency_of_the_one_that_began_last_is_in_force() -> None:
    seen = [LATENCY_MS]
    latencies = Latencies(LATENCY_MS, seen.append)
    slow, slower = (5.0, 5.0), (9.0, 9.0)
    first, second = latencies.at(slow), latencies.at(slower)
    with first:
        second.__enter__()
    assert latencies.now == slower
    second.__exit__(None, None, None)
    with latencies.at(slower), latencies.at(slow):
        pass
    assert seen[1:] == [slow, slower, slower, LATENCY_MS, slower, slow, slower, LATENCY_MS]
