"""Faults of ZooKeeper, an ensemble of three servers: it is away, slow or in an election, one of its servers lags, it
loses answers and ends sessions."""

import random
from collections.abc import Awaitable, Callable

from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.faults import Faults

MEMBERS = 3
SILENCE_MS = 4_000
"""Silence after which a client gives a connection up: two thirds of the session."""


class ZooKeeperFaults:
    """Faults of one cluster's ZooKeeper; `others` draws the chances and says which brokers are free, `seed` decides to
    which server a broker's session goes."""

    def __init__(self, others: Faults, seed: int) -> None:
        self._others, self._cluster, self._zookeeper = others, others.cluster, others.cluster.zookeeper
        self._random, self._note = others.random, others.history.note
        self._zookeeper.choose_member = random.Random(seed).choice
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "away_from_zookeeper": self.away_from_zookeeper,
            "session_expiry": self.session_expiry,
            "zookeeper_restart": self.zookeeper_restart,
            "lost_answers": self.lost_answers,
            "slow_zookeeper": self.slow_zookeeper,
            "zookeeper_stands": self.zookeeper_stands,
            "zookeeper_lags": self.zookeeper_lags,
            "zookeeper_leads_anew": self.zookeeper_leads_anew,
            "other_zookeeper": self.other_zookeeper,
        }

    def calm(self) -> None:
        """End whatever lasts."""
        for member in self._zookeeper.members:
            member.catch_up()
        self._begin_serving("ZooKeeper is back")

    def _begin_serving(self, said: str) -> None:
        """Bring ZooKeeper back, unless another fault has done so already."""
        if not self._zookeeper.serving:
            self._note(said)
            self._zookeeper.restart()

    async def away_from_zookeeper(self) -> None:
        broker = self._others.pick()
        if broker is None:
            return
        store = broker.store
        self._note(f"broker-{broker.broker_id} loses ZooKeeper")
        self._zookeeper.partition(store, unnoticed_ms=self._random.choice((0, 0, 2_000, 4_000)))
        await self._others.pass_time(0.5, 15.0)
        self._note(f"broker-{broker.broker_id} has ZooKeeper back")
        self._zookeeper.heal(store)

    async def session_expiry(self) -> None:
        broker = self._others.pick()
        if broker is not None:
            self._expire(broker)

    def _expire(self, broker: EmbeddedBroker) -> None:
        """End the session of a broker that hears of it at once. One that hears nothing keeps it until its time is over,
        which it then knows itself: until then it may be asked as the coordinator it was."""
        store = broker.store
        if self._others.is_free(broker) and store.link_up and self._zookeeper.has_session(store.session_id):
            self._note(f"broker-{broker.broker_id}: session expires")
            self._zookeeper.expire_session(store.session_id)

    async def zookeeper_restart(self) -> None:
        if self._zookeeper.serving:
            self._note("ZooKeeper stops")
            self._zookeeper.stop()
            await self._others.pass_time(0.2, 12.0)
            self._note("ZooKeeper is back")
            self._zookeeper.restart()

    async def zookeeper_stands(self) -> None:
        """Suspend ZooKeeper as SIGSTOP does: it answers nobody, and then some sessions have ended."""
        if not self._zookeeper.serving:
            return
        self._note("ZooKeeper stands still")
        self._zookeeper.stop(unnoticed_ms=SILENCE_MS)
        await self._others.pass_time(0.2, 20.0)
        self._note("ZooKeeper goes on")
        self._zookeeper.restart()
        for broker in self._cluster.brokers:
            if self._random.random() < 0.3:
                self._expire(broker)

    async def slow_zookeeper(self) -> None:
        most_ms = self._random.choice((20.0, 100.0, 800.0))
        self._note(f"ZooKeeper takes up to {most_ms} ms each way")
        with self._others.zookeeper_latency.at((0.0, most_ms)):
            await self._others.pass_time(1.0, 20.0)

    async def lost_answers(self) -> None:
        for _ in range(self._random.randint(1, 5)):
            broker = self._others.pick()
            if broker is not None:
                self._note(f"broker-{broker.broker_id}: an answer of ZooKeeper is lost")
                broker.store.lose_next_answer()
            await self._others.pass_time(0.05, 2.0)

    # the ensemble

    async def zookeeper_lags(self) -> None:
        """Have one server lag: those who are connected to it read what was, and are told late of what changes."""
        member = self._random.choice(self._zookeeper.members[1:])
        if not member.keeps_up:
            return
        lag_ms = self._random.choice((100.0, 1_000.0, 3_000.0))
        told = [broker.host for broker in self._cluster.brokers if broker.alive and broker.store.member is member]
        self._note(f"a server of ZooKeeper lags by {lag_ms:g} ms; connected to it: {told}")
        member.lag(lag_ms)
        await self._others.pass_time(1.0, 15.0)
        self._note("it keeps up again")
        member.catch_up()

    async def zookeeper_leads_anew(self) -> None:
        """Have the ensemble elect another leader: some of what was asked is carried out, and nobody hears of it."""
        for _ in range(self._random.randint(1, 3)):
            if not self._zookeeper.serving:
                return
            self._note("ZooKeeper's leader dies")
            self._zookeeper.lead_anew(lambda count: self._random.randint(0, count))
            await self._others.pass_time(0.2, 3.0)
            self._begin_serving("ZooKeeper has another leader")
            await self._others.pass_time(0.0, 3.0)

    async def other_zookeeper(self) -> None:
        """Have sessions go from one server of ZooKeeper to another."""
        for _ in range(self._random.randint(1, 5)):
            broker = self._others.pick()
            if broker is not None:
                broker.store.move()
                self._note(f"{broker.host} goes to another server of ZooKeeper")
            await self._others.pass_time(0.05, 2.0)
