"""Faults of a broker's disk while the cluster works: it is full, slow or lost, a log directory fails, no file can be
opened, or a change of it is the last that its broker makes."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextvars import copy_context

from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulated_files import Fault
from odradek.testing.simulation.faults import Faults
from odradek.testing.virtual_clock import VirtualLoop

FOREVER = 1 << 60
LAST_CHANGES = (
    "", "", ".log", "index", ".snapshot", "checkpoint", "offset-checkpoint", "epoch-checkpoint", "clean", "-delete",
    "-future", ".swap", ".tmp", "metadata", "__transaction_state", "__consumer_offsets",
)  # fmt: skip
"""What the path of a broker's last change may contain."""
CHANGES_MAX = (1, 10, 100)
CHANGES_PATIENCE_S = 6.0


class DiskFaults:
    """Faults of the disks of one cluster's machines; `others` says which brokers are free."""

    def __init__(self, others: Faults, directories: list[str]) -> None:
        self._others, self._directories = others, directories
        self._random, self._note = others.random, others.history.note
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "full_disk": self.full_disk,
            "slow_disk": self.slow_disk,
            "failed_directory": self.failed_directory,
            "lost_disk": self.lost_disk,
            "no_descriptors": self.no_descriptors,
            "death_in_a_change": self.death_in_a_change,
            "power_failure_in_a_change": self.power_failure_in_a_change,
        }

    async def full_disk(self) -> None:
        """Take the room of one log directory or of all, while its broker lives or dies: other faults may have it."""
        broker = self._random.choice(self._others.cluster.brokers)
        if broker.files.fault is not None:
            return
        where = self._random.choice((*self._directories, "/"))
        await self._want(broker, Fault(broker.files.calls + 1, FOREVER, errno.ENOSPC, where, "room"))

    async def no_descriptors(self) -> None:
        """Leave a broker no file descriptors: what it has open serves on, and nothing more can be opened."""
        broker = self._random.choice(self._others.cluster.brokers)
        if broker.files.fault is None:
            await self._want(broker, Fault(0, FOREVER, errno.EMFILE, what="descriptors"))

    async def _want(self, broker: EmbeddedBroker, fault: Fault) -> None:
        self._note(f"{broker.host}: no {fault.what} in {fault.under}")
        broker.files.fault = fault
        await self._others.pass_time(0.5, 15.0)
        self._note(f"{broker.host}: {fault.what} again")
        broker.files.fault = None

    async def slow_disk(self) -> None:
        """Let what a broker does beside its loop (syncs, deletions, checkpoints) take long."""
        broker = self._random.choice(self._others.cluster.brokers)
        most_ms = self._random.choice((50.0, 500.0, 5_000.0))
        self._note(f"{broker.host}: the disk takes up to {most_ms} ms")
        broker.disk_latency_ms = (0.0, most_ms)
        await self._others.pass_time(1.0, 15.0)
        broker.disk_latency_ms = (0.0, 0.0)

    async def failed_directory(self) -> None:
        """A log directory cannot be read or written, until somebody mends it and starts the broker again."""
        broker = self._others.pick()
        if broker is None:
            return
        self._others.busy.add(broker.broker_id)
        where = self._random.choice(self._directories)
        self._note(f"{broker.host}: {where} fails")
        broker.files.broken.add(where)
        await self._others.pass_time(0.5, 15.0)
        self._note(f"{broker.host}: {where} is mended")
        broker.files.broken.discard(where)
        if broker.running:
            broker.kill()
        await self._others.start(broker)
        self._others.busy.discard(broker.broker_id)

    async def lost_disk(self) -> None:
        """A machine dies, and comes back with a new disk."""

        def strike(broker: EmbeddedBroker) -> None:
            broker.power_failure()
            broker.files.erase()

        await self._others.lose_data("loss of the disk", strike)

    async def death_in_a_change(self) -> None:
        """Kill a broker within a change of its disk."""
        broker = self._others.pick()
        if broker is not None:
            self._others.busy.add(broker.broker_id)
            await self._last_changes(broker, broker.kill)
            self._others.busy.discard(broker.broker_id)

    async def power_failure_in_a_change(self) -> None:
        """Stop a broker's machine within a change of its disk."""

        async def deed(broker: EmbeddedBroker) -> None:
            def strike() -> None:
                broker.power_failure()
                self._others.on_lost_data(broker)

            await self._last_changes(broker, strike)

        await self._others.alone_while_well(deed)

    async def _last_changes(self, broker: EmbeddedBroker, strike: Callable[[], object]) -> None:
        """Strike a broker within a change, while it serves or stops, and perhaps within others while it starts."""
        died = self._strike_within(broker, strike)
        if self._random.random() < 0.3:
            await self._others.stop(broker, strike)
        else:
            await asyncio.wait([died], timeout=CHANGES_PATIENCE_S)
            broker.files.live_on()
            if broker.alive:
                strike()
        await self._others.pass_time(0.05, 8.0)
        for _ in range(self._random.randint(0, 2)):
            self._strike_within(broker, strike)
            if await self._others.start_once(broker):
                break
        broker.files.live_on()
        if not broker.running:
            await self._others.start(broker)

    def _strike_within(self, broker: EmbeddedBroker, strike: Callable[[], object]) -> asyncio.Future[None]:
        """Strike a broker within a change to come; the future is done when that has happened."""
        loop, context, files = asyncio.get_running_loop(), copy_context(), broker.files
        assert isinstance(loop, VirtualLoop)
        died: asyncio.Future[None] = loop.create_future()

        def end() -> None:
            self._note(f"{broker.host} is struck within change {files.changes}")
            strike()
            died.set_result(None)

        files.stop_at = files.changes + self._random.randint(1, self._random.choice(CHANGES_MAX))
        files.stop_where = self._random.choice(LAST_CHANGES)
        files.on_stop = lambda: loop.call_next(end, context)
        self._note(f"{broker.host} is to be struck within a change of {files.stop_where or 'anything'}")
        return died
