"""Failover of a controller with very many partitions: what it takes of virtual time, and of the processor.

    python bench/controller_failover.py [--partitions 100000] [--brokers 300]

The controllers and their channels are the real ones, down to the bytes of requests and answers. ZooKeeper is the one in
memory, and brokers only answer; both are TRAVEL_MS of virtual time away. A controller is elected and takes everything
in; then its broker dies (its session ends at once: add the session timeout), and another is elected. Rows: virtual
seconds, which are the waits for ZooKeeper and brokers, and processor seconds of the controller, without those of
ZooKeeper and the brokers, until all new leaders have been told that they lead, and until all is told and answered. A
real failover takes up to the sum of both. Each partition has three replicas, in topics of 100.
"""

import argparse
import asyncio
import gc
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import this_tree  # noqa: F401

from odradek.broker.__main__ import GC_THRESHOLDS
from odradek.broker.settings.cluster_settings import ControllerSettings
from odradek.controller.channel_manager import BrokerChannels
from odradek.controller.controller import Controller
from odradek.protocol.fields import Message
from odradek.protocol.headers import RequestHeader, decode_response, encode_request, encode_response, message_classes
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.testing.memory_calls import Request
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks
from odradek.zk_schema.registration import create_topmost_paths
from odradek.zk_schema.store import Create
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint, broker_path
from odradek.zk_schema.znodes.topics import (
    PartitionReplicas,
    PartitionState,
    TopicAssignment,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)

PARTITIONS_OF_A_TOPIC = 100
REPLICAS = 3
TRAVEL_MS = 0.5
REQUEST_TIMEOUT_MS = 30_000.0


class Meter:
    """Processor time of the controller: all but what is spent within `beside`."""

    def __init__(self) -> None:
        self._beside_s = 0.0

    @property
    def seconds(self) -> float:
        return time.process_time() - self._beside_s

    def beside(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same, and is not counted."""

        def uncounted(*arguments: Any) -> Any:
            began_s = time.process_time()
            try:
                return work(*arguments)
            finally:
                self._beside_s += time.process_time() - began_s

        return uncounted


class Brokers:
    """Brokers that answer each request, and what they have been told."""

    def __init__(self, clock: VirtualClock, meter: Meter) -> None:
        self._clock, self._meter = clock, meter
        self.requests = self.told_bytes = 0
        self.leaders_told = (0.0, 0.0)
        """Virtual milliseconds and processor seconds when a broker was last told that it leads."""

    def connect(self, host: str, port: int) -> "Channel":
        return Channel(self, port)

    async def answer(self, broker: int, message: Message, version: int) -> Message:
        header = RequestHeader(message.API_KEY, version, 0, "controller")
        self.requests += 1
        self.told_bytes += sum(map(len, encode_request(header, message)))
        await asyncio.sleep(2 * TRAVEL_MS / 1000)
        if isinstance(message, LeaderAndIsrRequest) and self._meter.beside(leads)(broker, message):
            self.leaders_told = self._clock.monotonic_ms(), self._meter.seconds
        frame = self._meter.beside(answer_to)(message, version)
        return decode_response(message.API_KEY, version, frame)[1]


class Channel:
    """A controller's connection to one of them."""

    def __init__(self, brokers: Brokers, broker: int) -> None:
        self._brokers, self._broker = brokers, broker

    async def request(self, message: Message, version: int, timeout_ms: float) -> Message:
        return await self._brokers.answer(self._broker, message, version)

    def close(self) -> None:
        pass


def leads(broker: int, message: LeaderAndIsrRequest) -> bool:
    return any(state.leader == broker for topic in message.topic_states for state in topic.partition_states)


def answer_to(message: Message, version: int) -> memoryview:
    response = message_classes(message.API_KEY).response()
    if isinstance(message, LeaderAndIsrRequest):
        assert isinstance(response, LeaderAndIsrResponse)
        for topic in message.topic_states:
            errors = [LeaderAndIsrPartitionError(partition_index=one.partition_index) for one in topic.partition_states]
            response.topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
    return memoryview(b"".join(encode_response(0, version, response)))


async def fill(zookeeper: MemoryZooKeeper, admin: MemoryStore, partitions: int, brokers: int) -> None:
    """Write topics as a controller would have left them."""
    for number in range(partitions // PARTITIONS_OF_A_TOPIC):
        topic, first = f"many-{number:04}", number * PARTITIONS_OF_A_TOPIC
        replicas = {
            index: tuple((first + index + replica) % brokers for replica in range(REPLICAS))
            for index in range(PARTITIONS_OF_A_TOPIC)
        }
        assignment = TopicAssignment({i: PartitionReplicas(r) for i, r in replicas.items()}, number.to_bytes(16, "big"))
        operations = [Create(topic_path(topic), assignment.encode()), Create(partitions_path(topic))]
        for index, assigned in replicas.items():
            state = PartitionState(assigned[0], 0, assigned, 1)
            operations += [Create(partition_path(topic, index)), Create(state_path(topic, index), state.encode())]
        zookeeper.commit(operations, admin.session_id)


async def settled(controller: Controller) -> None:
    """Wait until a controller has done all there is to do, and everything is answered."""
    while not (controller.is_active and controller.idle and not any(controller.requests_queued().values())):
        await asyncio.sleep(0.005)


async def play(clock: VirtualClock, partitions: int, count: int) -> None:
    meter = Meter()
    Request.carry_out = meter.beside(Request.carry_out)  # type: ignore[method-assign]
    zookeeper = MemoryZooKeeper(clock)
    zookeeper.draw_latency_ms = lambda: TRAVEL_MS
    brokers, tasks = Brokers(clock, meter), Tasks(clock, print)
    stores = [zookeeper.connect() for _ in range(3)]
    for store in stores:
        await store.start(1000)
    first, others = stores[0], stores[2]
    await create_topmost_paths(others)
    for broker in range(count):
        registration = BrokerRegistration(broker, (Endpoint("PLAINTEXT", f"host{broker}", broker),), None)
        await stores[min(broker, 2)].create(broker_path(broker), registration.encode(), ephemeral=True)
    await fill(zookeeper, others, partitions, count)

    def begin(broker: int) -> Controller:
        channels = BrokerChannels(brokers.connect, clock, REQUEST_TIMEOUT_MS, tasks)
        settings = ControllerSettings(auto_leader_rebalance_enable=False)
        made = Controller(stores[broker], clock, broker, settings, channels, random.Random(broker), tasks)
        made.start()
        return made

    async def row(name: str, change: Callable[[], Any], controller: Callable[[], Controller]) -> None:
        brokers.requests = brokers.told_bytes = 0
        at_ms, processor_s = clock.monotonic_ms(), meter.seconds
        change()
        await settled(controller())
        told_ms, told_s = brokers.leaders_told
        print(
            f"{name:20} leaders told {(told_ms - at_ms) / 1000:6.2f} s, processor {told_s - processor_s:6.2f} s |"
            f" all {(clock.monotonic_ms() - at_ms) / 1000:6.2f} s, processor {meter.seconds - processor_s:6.2f} s |"
            f" {brokers.requests:,} requests, {brokers.told_bytes / 1e6:,.0f} MB",
            flush=True,
        )

    controllers: list[Controller] = []
    await row("first election", lambda: controllers.append(begin(0)), lambda: controllers[0])
    controllers.append(begin(1))
    await asyncio.sleep(1.0)
    session_id = first.session_id
    await controllers[0].stop()
    first.vanish()
    await row("failover", lambda: zookeeper.end_session(session_id), lambda: controllers[1])
    state = controllers[1].state
    assert state is not None
    led = [one for one in state.leader_and_isr.values() if one.leader in state.brokers]
    assert len(led) == partitions and not tasks.deaths, (len(led), tasks.deaths)
    await controllers[1].stop()
    tasks.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=100_000, help="number of partitions")
    parser.add_argument("--brokers", type=int, default=300, help="number of brokers")
    options = parser.parse_args()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    print(f"{options.partitions:,} partitions on {options.brokers} brokers")
    run_virtual(lambda clock: play(clock, options.partitions, options.brokers))
    print(f"load of the machine {' '.join(f'{one:.1f}' for one in os.getloadavg())}")


if __name__ == "__main__":
    sys.exit(main())
