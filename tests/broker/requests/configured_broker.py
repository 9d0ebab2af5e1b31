"""A broker on a virtual clock whose settings are asked for and changed."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from odradek.broker.config import Given, build_config
from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests import alter_configs, describe_configs, incremental_alter_configs
from odradek.broker.requests.incremental_alter_configs import Operation
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import alter_configs as legacy_messages
from odradek.protocol.messages import incremental_alter_configs as messages
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.entity_settings import stored_settings
from odradek.zk_schema.znodes.notifications import CONFIG_CHANGE_PREFIX

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

STATIC = {
    "zookeeper.connect": "zk:2181",
    "log.retention.hours": "24",
    "ssl.keystore.password": "secret",
    "my.plugin.key": "secret too",
}


class Cluster:
    """Broker 1 with topic `t`."""

    def __init__(self, clock: VirtualClock) -> None:
        self.zookeeper = MemoryZooKeeper(clock)
        self.store = self.zookeeper.connect()
        config = build_config([Given(name, text, "test") for name, text in STATIC.items()])
        self.broker: Any = SimpleNamespace(
            config=config,
            identity=SimpleNamespace(broker_id=1),
            metadata=SimpleNamespace(topics={"t": {}}),
            zookeeper=self.store,
            clock=clock,
        )

    async def _ask(self, module: Any, request: Any, version: int) -> Any:
        """Through the bytes of that version, as a client would see it."""
        outcome = module.handle(
            self.broker, decode(module.REQUEST, version, encode(request, version)), RequestContext(version, "", "", "")
        )
        reply = await outcome
        assert isinstance(reply, Reply)
        return decode(type(reply.response), version, encode(reply.response, version))

    async def describe(
        self, kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = True
    ) -> DescribeConfigsResult:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
        )
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms, include_documentation=True)
        response: DescribeConfigsResponse = await self._ask(describe_configs, request, version)
        return response.results[0]

    async def entry(self, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
        (found,) = (await self.describe(kind, name, key)).configs
        return found

    async def replace(
        self, kind: int, name: str, settings: dict[str, str | None], **options: Any
    ) -> tuple[int, str | None]:
        configs = [legacy_messages.AlterableConfig(name=key, value=text) for key, text in settings.items()]
        resource = legacy_messages.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = legacy_messages.AlterConfigsRequest(resources=[resource], **options)
        (answer,) = (await self._ask(alter_configs, request, 2)).responses
        assert (answer.resource_type, answer.resource_name) == (kind, name)
        return answer.error_code, answer.error_message

    async def change(
        self, kind: int, name: str, *changes: tuple[int, str, str | None], **options: Any
    ) -> tuple[int, str | None]:
        configs = [messages.AlterableConfig(config_operation=what, name=key, value=text) for what, key, text in changes]
        resource = messages.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = messages.IncrementalAlterConfigsRequest(resources=[resource], **options)
        (answer,) = (await self._ask(incremental_alter_configs, request, 1)).responses
        return answer.error_code, answer.error_message

    async def stored(self, entity: str) -> dict[str, str]:
        return await stored_settings(self.store, entity)

    def announced(self) -> int:
        return sum(path.startswith(CONFIG_CHANGE_PREFIX) for path in self.zookeeper.paths())


def play(story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = Cluster(clock)
        await cluster.store.start(1000)
        await story(cluster)

    run_virtual(main)


OK = (ErrorCode.NONE, None)

SET, DELETE, APPEND, SUBTRACT = Operation
