"""A controller, and brokers that do what it asks, behind the handlers of requests."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.config import BrokerConfig, Given, build_config
from odradek.broker.network.outcomes import RequestContext
from odradek.broker.quotas.client_quotas import ClientQuotas
from odradek.broker.quotas.rates import RateWindows
from odradek.broker.settings.cluster_settings import ControllerSettings
from odradek.controller.channel_manager import OnResponse
from odradek.controller.controller import Controller
from odradek.protocol.codec import decode, encode
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks
from odradek.zk_schema.registration import create_topmost_paths
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint, broker_path


class Obedient:
    """Channels to brokers that do everything; broker 0's metadata is kept."""

    def __init__(self, clock: VirtualClock, metadata: MetadataCache) -> None:
        self._clock, self._metadata = clock, metadata
        self.deaf = False
        self.keeps_files = False
        """Nobody answers that a replica is deleted."""

    def add_broker(self, broker_id: int, host: str, port: int) -> None:
        """All are there."""

    def remove_broker(self, broker_id: int) -> None:
        """And stay."""

    def queued_by_broker(self) -> dict[int, int]:
        return {}

    def send(self, broker_id: int, message: Message, on_response: OnResponse) -> None:
        self._clock.call_soon(lambda: self._take(broker_id, message, on_response))

    def _take(self, broker_id: int, message: Message, on_response: OnResponse) -> None:
        if self.deaf:
            return
        if isinstance(message, UpdateMetadataRequest):
            if broker_id == 0:
                self._metadata.update(message)
            on_response(UpdateMetadataResponse())
        elif isinstance(message, StopReplicaRequest) and self.keeps_files:
            return
        elif isinstance(message, StopReplicaRequest):
            errors = [
                StopReplicaPartitionError(topic_name=t.topic_name, partition_index=p.partition_index)
                for t in message.topic_states
                for p in t.partition_states
            ]
            on_response(StopReplicaResponse(partition_errors=errors))
        else:
            on_response(LeaderAndIsrResponse())


@dataclass
class Broker:
    """The part of `Services` that the handlers use."""

    config: BrokerConfig
    clock: Any
    random: random.Random
    zookeeper: Any
    metadata: MetadataCache
    controller: Controller
    channels: Obedient
    quotas: ClientQuotas


async def start(clock: VirtualClock, brokers: int = 3, *, active: bool = True, **settings: str) -> Broker:
    server = MemoryZooKeeper(clock)
    store = server.connect()
    await store.start(1000)
    await create_topmost_paths(store)
    for broker_id in range(brokers):
        registration = BrokerRegistration(broker_id, (Endpoint("PLAINTEXT", "host", 9092 + broker_id),))
        await store.create(broker_path(broker_id), registration.encode(), ephemeral=True)
    metadata = MetadataCache()
    channels = Obedient(clock, metadata)
    controller = Controller(store, clock, 0, ControllerSettings(), channels, random.Random(1), Tasks(clock, print))
    if active:
        controller.start()
        while not metadata.brokers:
            await rest(clock)
    given = {"zookeeper.connect": "zk:2181", "num.partitions": "2", "default.replication.factor": "2"}
    given |= {name.replace("_", "."): text for name, text in settings.items()}
    config = build_config([Given(name, text, "test") for name, text in given.items()])
    quotas = ClientQuotas(clock, RateWindows(11, 1000.0), RateWindows(11, 1000.0))
    return Broker(config, clock, random.Random(2), store, metadata, controller, channels, quotas)


async def rest(clock: VirtualClock) -> None:
    done = asyncio.Event()
    clock.call_later(10, done.set)
    await done.wait()


async def ask(module: ModuleType, broker: Broker, request: Message, version: int | None = None) -> Any:
    """Through the codec, as on the wire."""
    used = module.VERSIONS[1] if version is None else version
    received = decode(module.REQUEST, used, encode(request, used))
    outcome = module.handle(broker, received, RequestContext(used, "test", "127.0.0.1:1", "PLAINTEXT"))
    reply = await outcome if isinstance(outcome, Coroutine) else outcome
    return decode(type(reply.response), used, encode(reply.response, used))


def play(scenario: Callable[[VirtualClock], Coroutine[Any, Any, None]]) -> None:
    run_virtual(scenario)


def creation(*topics: CreatableTopic, **fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=fields.pop("timeout_ms", 5000), **fields)


def counted(name: str, partitions: int = -1, factor: int = -1, **settings: str | None) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in settings.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=configs)
