"""Whom a broker that may have lost the ends of its logs waits for."""

from typing import Any

import pytest

from odradek.broker.cluster import unclean_restart
from odradek.broker.cluster.unclean_restart import wait_until_out_of_isr
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.clock import sleep
from odradek.zk_schema.store import ConnectionLost, Stat
from odradek.zk_schema.znodes.admin import DELETE_TOPICS_PATH
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH
from odradek.zk_schema.znodes.topics import PartitionState, state_path

BROKER = 1
SESSION_TIMEOUT_MS = 1_000
CHILDREN = {BROKER_IDS_PATH: ["1", "2", "3"], DELETE_TOPICS_PATH: ["gone"]}


class Store:
    """ZooKeeper's states of partitions, and who has asked for which."""

    def __init__(self, **states: bytes | None) -> None:
        self.states = {state_path(*name.rsplit("_", 1)): data for name, data in states.items()}  # type: ignore[arg-type]
        self.asked: list[list[str]] = []

    async def children(self, path: str) -> list[str]:
        return CHILDREN[path]

    async def get_each(self, paths: list[str]) -> list[tuple[bytes, Stat | None] | None]:
        self.asked.append(paths)
        found = [self.states.get(path) for path in paths]
        return [None if data is None else (data, None) for data in found]


def isr(*brokers: int) -> bytes:
    return PartitionState(leader=brokers[0], leader_epoch=0, isr=brokers, controller_epoch=1).encode()


def test_it_waits_for_those_that_count_on_it_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are read many at a time, and again only those that are waited for."""
    monkeypatch.setattr(unclean_restart, "STATES_PER_CALL", 4)
    store: Any = Store(
        t_0=isr(2, 1), t_1=isr(1), t_2=isr(2, 3), t_3=isr(1, 4), t_5=b"{", t_6=isr(1, 3), gone_0=isr(1, 2)
    )
    partitions = [*(("t", index) for index in range(7)), ("gone", 0)]

    async def main(clock: VirtualClock) -> None:
        began_ms = clock.monotonic_ms()
        waiting = wait_until_out_of_isr(store, clock, BROKER, partitions, SESSION_TIMEOUT_MS)
        clock.call_later(250.0, lambda: store.states.update({state_path("t", 0): isr(2), state_path("t", 6): isr(3)}))
        await waiting
        assert clock.monotonic_ms() - began_ms == pytest.approx(300.0)

    run_virtual(main)
    first = [[state_path("t", index) for index in some] for some in ((0, 1, 2, 3), (4, 5, 6))]
    later = [[state_path("t", 0), state_path("t", 6)]]
    assert store.asked == first + later * 3


def test_its_patience_ends() -> None:
    store: Any = Store(t_0=isr(2, 1))

    async def main(clock: VirtualClock) -> None:
        began_ms = clock.monotonic_ms()
        await wait_until_out_of_isr(store, clock, BROKER, [("t", 0)], SESSION_TIMEOUT_MS)
        patience_ms = SESSION_TIMEOUT_MS + unclean_restart.CONTROLLER_PATIENCE_MS
        assert 0 <= clock.monotonic_ms() - began_ms - patience_ms <= unclean_restart.LOOK_EVERY_MS

    run_virtual(main)


def test_time_without_zookeeper_does_not_count() -> None:
    """Those who have to act may have been cut off from it, too: they have their time when it is back."""

    class Away(Store):
        back_at_ms = 60_000.0

        async def children(self, path: str) -> list[str]:
            if clock.monotonic_ms() < self.back_at_ms:
                raise ConnectionLost(path)
            return await super().children(path)

        async def until_connected(self) -> int:
            await sleep(clock, max(0.0, self.back_at_ms - clock.monotonic_ms()))
            return 1

    store: Any = Away(t_0=isr(2, 1))
    clock: VirtualClock

    async def main(of_the_run: VirtualClock) -> None:
        nonlocal clock
        clock = of_the_run
        store.back_at_ms += clock.monotonic_ms()
        clock.call_later(62_000.0, lambda: store.states.update({state_path("t", 0): isr(2)}))
        began_ms = clock.monotonic_ms()
        await wait_until_out_of_isr(store, clock, BROKER, [("t", 0)], SESSION_TIMEOUT_MS)
        assert clock.monotonic_ms() - began_ms >= 62_000.0

    run_virtual(main)
