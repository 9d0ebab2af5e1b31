"""AlterConfigs (key 33), versions 0 to 2: replaces all settings of a topic or broker; what is not named goes.

Any broker answers for topics, a broker for itself and, under the name "", for the default of all brokers. The settings
are checked, written to ZooKeeper, and announced; brokers obey when they hear of it, which may be after the answer.
Errors as Kafka's: a bad topic setting is INVALID_CONFIG, a bad broker setting INVALID_REQUEST. Loggers are for
IncrementalAlterConfigs alone, settings of groups and client metrics for KRaft, as in Kafka.
"""

from functools import partial

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests.config_resources import (
    change_each,
    check_keys,
    check_resource,
    replace_settings,
)
from odradek.broker.services import Services
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

REQUEST = AlterConfigsRequest
VERSIONS = (0, 2)


async def handle(broker: Services, request: AlterConfigsRequest, context: RequestContext) -> Reply:
    replace = partial(_replace, broker, request.validate_only)
    return Reply(
        AlterConfigsResponse(responses=await change_each(request.resources, replace, AlterConfigsResourceResponse))
    )


async def _replace(broker: Services, validate_only: bool, resource: AlterConfigsResource) -> None:
    kind, name = resource.resource_type, resource.resource_name
    check_keys([one.name for one in resource.configs], (one.name for one in resource.configs if one.value is None))
    check_resource(broker, kind, name)
    settings = {one.name: one.value for one in resource.configs if one.value is not None}
    await replace_settings(broker, kind, name, settings, validate_only)
