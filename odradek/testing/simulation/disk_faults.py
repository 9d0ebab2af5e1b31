"""Faults of a broker's disk while the cluster works: it is full, slow or lost, a log directory fails, or no file can be
opened."""

import errno
from collections.abc import Awaitable, Callable

from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulated_files import Fault
from odradek.testing.simulation.faults import Faults

FOREVER = 1 << 60


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
