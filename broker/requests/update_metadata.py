"""UpdateMetadata (key 6), versions 0 to 8: the controller tells this broker what the cluster looks like."""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

REQUEST = UpdateMetadataRequest
VERSIONS = (0, 8)


def handle(broker: Services, request: UpdateMetadataRequest, context: RequestContext) -> Outcome:
    error = broker.controller_requests.check(request.controller_epoch, request.broker_epoch)
    if error is ErrorCode.NONE:
        broker.controller_requests.update_metadata(request)
    return Reply(UpdateMetadataResponse(error_code=error))
