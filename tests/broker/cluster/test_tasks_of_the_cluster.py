"""Tasks of a broker that watch ZooKeeper: an error that nobody expected ends none of them."""

import asyncio
from typing import Any

from odradek.broker.cluster.directory_events import DirectoryEvents
from odradek.broker.cluster.session import BrokerSession, Identity
from odradek.journal.journal import Journal
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks
from odradek.zk_schema.store import Connected, Expired, NotAuthorized
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint

OURS = BrokerRegistration(1, (Endpoint("PLAINTEXT", "here", 9092),))


class Store:
    """A ZooKeeper that raises each of `errors` once."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.created: list[str] = []
        self.session_id = 1
        self.registration = OURS
        self.tell: Any = None

    def subscribe(self, callback: Any) -> None:
        self.tell = callback

    async def until_connected(self) -> None:
        if self.errors:
            raise self.errors.pop(0)

    async def create(self, path: str, data: bytes, **_: Any) -> str:
        self.created.append(path)
        return path

    async def register(self) -> int:
        await self.until_connected()
        return 40 + self.session_id

    async def is_registered(self) -> bool:
        return True


def test_a_broker_registers_again_whatever_the_first_attempt_ran_into() -> None:
    """Else it is alive and no member of the cluster, until somebody starts it again."""

    async def main(clock: VirtualClock) -> None:
        store: Any = Store()
        tasks, identity = Tasks(clock, print), Identity(1, "cluster")
        lifecycle = BrokerSession(store, tasks, identity, store, list, print, Journal(clock.now_ms))
        await lifecycle.join()
        store.errors, store.session_id = [NotAuthorized("/brokers/ids/1")], 2
        store.tell(Expired())
        store.tell(Connected(2))
        await asyncio.sleep(5)
        assert (identity.broker_epoch, identity.session_over) == (42, False)
        assert tasks.deaths == {"register again": 1}

    run_virtual(main)


def test_a_change_of_a_directory_is_told_whatever_the_first_attempt_ran_into() -> None:
    async def main(clock: VirtualClock) -> None:
        store: Any = Store(RuntimeError("a bug"))
        tasks = Tasks(clock, print)
        events = DirectoryEvents(store, clock, tasks, 1)
        events.changed()
        events.changed()
        await asyncio.sleep(5)
        assert len(store.created) == 1, "several changes are one event"
        events.changed()
        await asyncio.sleep(5)
        assert len(store.created) == 2
        assert tasks.deaths == {"log directory events": 1}

    run_virtual(main)
