"""Directing: brokers led, step by step, into a certain situation, by those faults that do not wait for chance."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from odradek.broker.replication.partition import Partition
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.repeated_requests import RepeatedRequests

REPLICAS = 3
STEP_S = 0.01
STEP_PATIENCE_S = 9.0
"""Longer than a session, and than a follower may lag."""


@dataclass(frozen=True)
class Cast:
    """A partition's leader and two followers."""

    topic: str
    index: int
    leader: EmbeddedBroker
    followers: list[EmbeddedBroker]

    @property
    def led(self) -> Partition | None:
        """The leader's replica, while it runs and leads."""
        partition = self.replica(self.leader)
        return partition if partition is not None and partition.is_leader else None

    def replica(self, broker: EmbeddedBroker) -> Partition | None:
        """Return the replica of a broker, while it runs."""
        held = broker.server.services.replicas.partitions if broker.running else {}
        return held.get((self.topic, self.index))


class Director:
    """Director of the brokers of one cluster; `others` draws the chances and says which brokers are free."""

    def __init__(self, others: Faults, requests: RepeatedRequests) -> None:
        """`requests` knows the connections on which brokers ask each other."""
        self.requests = requests
        self.others, self.cluster, self.network = others, others.cluster, others.network
        self.random, self.note = others.random, others.history.note

    # choosing

    def led(self) -> list[Partition]:
        return [
            partition
            for broker in self.cluster.brokers
            if broker.running
            for partition in broker.server.services.replicas.partitions.values()
            if partition.is_leader
        ]

    def cast(self, topic: str | None = None) -> Cast | None:
        """Choose a partition, of `topic` or of any, in sync on three brokers, none of which another fault has. Those
        that are written to more are likelier."""
        if self.others.busy or not all(broker.running for broker in self.cluster.brokers):
            return None
        whole = [
            one
            for one in self.led()
            if one.high_watermark
            and set(one.replicas) == one.committed_isr
            and len(one.replicas) == REPLICAS
            and topic in (None, one.topic)
        ]
        if not whole:
            return None
        (chosen,) = self.random.choices(whole, [one.high_watermark for one in whole])
        followers = [self.cluster.brokers[one] for one in sorted(chosen.committed_isr) if one != chosen.local_id]
        self.random.shuffle(followers)
        return Cast(chosen.topic, chosen.index, self.cluster.brokers[chosen.local_id], followers)

    @contextmanager
    def reserved(self, cast: Cast) -> Iterator[None]:
        brokers = {broker.broker_id for broker in (cast.leader, *cast.followers)}
        self.others.busy |= brokers
        try:
            yield
        finally:
            self.others.busy -= brokers

    @staticmethod
    async def until(condition: Callable[[], bool]) -> bool:
        """Wait for it, for a while; tell whether it has come."""
        for _ in range(round(STEP_PATIENCE_S / STEP_S)):
            if condition():
                return True
            await asyncio.sleep(STEP_S)
        return False

    @contextmanager
    def apart(self, leader: EmbeddedBroker, followers: list[EmbeddedBroker]) -> Iterator[None]:
        ways = [(leader.host, other.host) for other in followers]
        ways += [(target, source) for source, target in ways]
        for source, target in ways:
            self.network.cut(source, target, one_way=True)
        try:
            yield
        finally:
            for source, target in ways:
                self.network.heal_way(source, target)


def controls(broker: EmbeddedBroker) -> bool:
    """Tell whether a broker that runs is the active controller."""
    return broker.server.services.controller.is_active
